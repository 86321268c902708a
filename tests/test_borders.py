"""Numbers that no computation may meet, put into every argument of everything public, found by its recipes.

`fuzz/recipes.py` has valid arguments for each public callable. One entry at a time is changed, however deep in lists,
records, dictionaries and sparse matrices it stands; the call must say so.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.core.ragged import Ragged

pytest.importorskip("sklearn")
sys.path.insert(0, str(Path(__file__).parent / "fuzz"))
from recipes import RECIPES, surface, target


def with_changes(value, change):
    """Copies of `value`, each with one array in it that `change` has replaced."""
    if isinstance(value, np.ndarray):
        yield from change(value)
    elif isinstance(value, Ragged):
        yield from (Ragged(values, value.offsets) for values in change(value.values))
    elif sp.issparse(value):
        for data in change(value.data):
            yield sp.csr_array((data, value.indices, value.indptr), value.shape)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from ({**value, key: changed} for changed in with_changes(part, change))
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            for changed in with_changes(part, change):
                parts = [*value[:i], changed, *value[i + 1:]]
                yield type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def calls(change, names, seed=1):
    """(callable, argument, function, arguments) of all calls with one change."""
    for name in names:
        for key, value in RECIPES[name](np.random.default_rng(seed)).items():
            for changed in with_changes(value, change):
                r = np.random.default_rng(seed)
                yield f"{name}({key})", key, target(name, r), {**RECIPES[name](r), key: changed}


def beyond_int32(array):
    if array.dtype.kind in "iu" and array.size:
        for place in {0, array.size - 1}:
            for shift in (2**32, -2**32):
                changed = array.astype(np.int64)
                changed.flat[place] += shift
                yield changed


COMPARED = {
    "models.Dependency.loss(y)", "models.Dependency.loss(y_hat)",
    "models.Landmarks.deformation(positions)", "models.Landmarks.deviation(positions)",
    "models.Landmarks.deviation(truth)", "models.Landmarks.weights_of_loss(points)", "models.Segmentation(symbols)",
}
"""Arguments that are compared or subtracted, never indices: numbers of any size mean what they say."""


def test_numbers_beyond_int32_are_not_taken_modulo():
    """Heads, labels, classes and pixels of `oracle().planes` were: [-1, 2**40, 1, 0] was read as [-1, 0, 1, 0]."""
    known = set(surface())
    names = [name for name in RECIPES if name.startswith(("oracle of ", "weighted oracle", "rows.add")) or (
        name in known and name.startswith(("models.", "oracles.", "features.", "bundle.", "qp.")))]
    names += ["estimators.DependencyParser.fit", "estimators.DependencyParser.score", "estimators.LandmarkDetector.fit"]
    taken, made = set(), 0
    for call, _, function, arguments in calls(beyond_int32, names):
        made += 1
        try:
            function(**arguments)
        except (pb.BundleError, TypeError, ValueError, LookupError, MemoryError):
            continue
        taken.add(call)
    assert made > 300
    assert taken == COMPARED, taken ^ COMPARED


def test_labellings_of_own_compiled_oracles():
    risk = pb.risks.ExampleFunctions(**RECIPES["risks.ExampleFunctions"](np.random.default_rng(0)))
    with pytest.raises(pb.ParameterError, match=r"labellings must be numbers of int32, got 0\.\.4294967296"):
        risk.oracle().planes([0, 1], np.array([[0], [2**32]]))
