"""Numbers that no computation may meet, put into every argument of everything public, found by its recipes.

`fuzz/recipes.py` has valid arguments for each public callable. One entry at a time is changed, however deep in lists,
records, dictionaries and sparse matrices it stands; the call must say so.
"""

import contextlib
import dataclasses
import inspect
import io
import re
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
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from (dataclasses.replace(value, **{field.name: changed})
                        for changed in with_changes(getattr(value, field.name), change) if field.init)
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
    "models.WeightedLabels.from_mask(segments)", "models.paint(labels)", "oracles.shortest_path_batch(arcs)",
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


def not_finite(array):
    """Floats with NaN or an infinity near the start, in the middle and at the end, another one at each place."""
    if array.dtype.kind == "f" and array.size:
        places = min(1, array.size - 1), array.size // 2, array.size - 1
        for place, value in zip(places, np.roll([np.nan, np.inf, -np.inf], array.size), strict=True):
            changed = array.copy()
            changed.flat[place] = value
            yield changed


def floats(*shape):
    return np.random.default_rng(0).random(shape) + 0.5


def fixed_risk():
    return pb.risks.MulticlassHinge(floats(12, 3), np.arange(12) % 3)


def rows():
    return floats(2, 9), -9.0 * np.ones(2), 9.0 * np.ones(2)


def weighted(r):
    return {"X": RECIPES["estimators.BinaryLabelingSVM.fit"](r)["X"],
            "y": [pb.models.WeightedLabels(np.array([0, 1, 0, 1]), floats(4)) for _ in range(2)]}


FURTHER = {
    "solvers.minimize": lambda r: {"risk": fixed_risk(), "lam": floats(9), "w0": floats(9), "max_iter": 3,
                                   "constraints": rows()},
    "solvers.Solve": lambda r: {"risk": fixed_risk(), "lam": floats(9), "w0": floats(9), "constraints": rows()},
    "solvers.path": lambda r: {"risk": fixed_risk(), "lams": floats(2), "w0": floats(9), "max_iter": 3},
    "models.Chain": lambda r: {"n_labels": 3, "n_features": 2, "loss": 1.0 - np.eye(3),
                               "token_support": np.array([[0, 0], [1, 2]])},
    "mkl.OnlineMKL.partial_fit": lambda r: {**RECIPES["mkl.OnlineMKL.fit"](r), "classes": np.arange(3.0)},
    "models.Landmarks": lambda r: {**RECIPES["models.Landmarks"](r), "spreads": np.ones((2, 2))},
    **{f"estimators.RankingSVM.{name}": lambda r, name=name: {
        **RECIPES[f"estimators.RankingSVM.{name}"](r), "y": np.arange(12.0), "event": np.arange(12) % 2 > 0}
       for name in ("fit", "score")},
    "mkl.Precomputed": lambda r: {"matrix": np.eye(8) + 0.0},
    "risks.Function": lambda r: {"fun": len, "dim": 3, "n_parts": 2, "lower_bounds": np.zeros(2)},
    "risks.ExampleFunctions": lambda r: {**RECIPES["risks.ExampleFunctions"](r), "norms": floats(2),
                                         "sizes": np.ones(2, int), "sample_weight": floats(2)},
    "risks.MulticlassHinge": lambda r: {**RECIPES["risks.MulticlassHinge"](r), "loss": 1.0 - np.eye(3)},
    **{f"oracles.{name}": lambda r, name=name: {**RECIPES[f"oracles.{name}"](r), "messages": floats(3, 2, 3)}
       for name in ("graph_labeling", "graph_relaxation")},
    **{f"oracles.{name}_batch": lambda r, name=name: {**RECIPES[f"oracles.{name}_batch"](r), "messages":
                                                      floats(5, 2, 3), "tol": floats(2)}
       for name in ("graph_labeling", "graph_relaxation")},
    "oracles.k_best_viterbi": lambda r: {**RECIPES["oracles.k_best_viterbi"](r), "end": floats(3)},
    "oracles.viterbi_batch": lambda r: {**RECIPES["oracles.viterbi_batch"](r), "end": floats(3)},
    "oracles.tree_max_sum": lambda r: {"unaries": [floats(3, 3), floats(2, 2)], "parents": [-1, 0], "deformations":
                                       np.ones((2, 4)), "anchors": np.zeros((2, 2))},
    "oracles.tree_max_sum_batch": lambda r: {"unaries": [floats(4, 3), floats(4, 2)], "parents": [-1, 0], "pairwise": [
        None, floats(3, 2)]},
    "prox.SquaredL2": lambda r: {"rate": floats(3), "centre": floats(3)},
    "prox.L1": lambda r: {"rate": floats(3)}, "prox.SquaredL1": lambda r: {"rate": floats(3)},
    "prox.L2": lambda r: {"rate": 1.0},
    "prox.Lq": lambda r: {"q": 1.5, "rate": floats(3)}, "prox.SquaredLq": lambda r: {"q": 1.5, "rate": floats(3)},
    "prox.Separable": lambda r: {"l2": floats(3), "l1": floats(3), "centre": floats(3), "lower": -floats(3), "upper":
                                 floats(3)},
    "prox.Box": lambda r: {"lower": -floats(3), "upper": floats(3)},
    "prox.OverlappingGroupLasso": lambda r: {"groups": [[0, 1, 2], [0, 1]], "rate": floats(2)},
    "prox.TreeGroupLasso": lambda r: {"groups": [[0, 1, 2], [0, 1]], "rate": floats(2)},
    "prox.SparseGroupLasso": lambda r: {"groups": [[0, 1], [2]], "l1": floats(3), "l2": floats(2)},
    "datasets.contrast_images": lambda r: {"n": 2, "shape": (4, 4), "n_sweeps": 2, "weights": floats(2)},
    **{f"estimators.{name}.{method}": weighted for name in ("BinaryLabelingSVM", "GraphSVM")
       for method in ("fit", "score")},
}
"""Optional arrays that the recipes of the fuzz leave out."""
FOLDERS = ("datasets.", "estimators.", "features.lbp_maps", "mkl.", "models.", "oracles.", "prox.", "qp.", "risks.",
           "solvers.")
TAKEN = {
    **dict.fromkeys([
        "oracles.argmax_batch(scores)", "oracles.distance_transform(f)", "oracles.distance_transform_batch(f)",
        "oracles.min_cut(unary)", "oracles.min_cut_batch(unary)", "oracles.tree_marginals(unaries)",
        "oracles.tree_marginals(pairwise)", "oracles.tree_max_sum(unaries)", "oracles.tree_max_sum(pairwise)",
        "oracles.tree_max_sum_batch(unaries)", "oracles.tree_max_sum_batch(pairwise)", "oracles.segment(transition)",
        "oracles.segment_batch(transition)", *(f"oracles.{name}({key})" for name in (
            "viterbi", "viterbi_batch", "k_best_viterbi", "forward_backward", "forward_backward_batch")
            for key in ("unary", "transition", "start", "end"))], ("-inf", "-inf forbids")),
    **dict.fromkeys([
        f"oracles.{name}(scores)" for name in ("max_arborescence", "max_arborescence_batch", "arborescence_marginals",
                                               "arborescence_marginals_batch", "segment", "segment_batch")],
        ("nan inf -inf", "-inf forbids; arcs into the root and segments beyond the end are not read")),
    "solvers.minimize(constraints)": ("inf -inf", "an open end of a row"),
    "solvers.Solve(constraints)": ("inf -inf", "an open end of a row"),
    **dict.fromkeys(["prox.Box(lower)", "prox.Separable(lower)", "risks.Function(lower_bounds)"],
                    ("-inf", "no bound")),
    **dict.fromkeys(["prox.Box(upper)", "prox.Separable(upper)"], ("inf", "no bound")),
    "qp.SimplexQP.solve(H)": ("nan inf -inf", "a master of a run, a Gram matrix: the door is solve_simplex_qp"),
}
"""Arguments in which values that are not finite are legal, which ones, and what they mean."""
UNCHECKED = {
    r"risks\.\w+\.(combine|line_search|multipliers|planes_at|value_errors)": "solvers call them with what risks return",
    r"prox\.(Groups|OverlappingGroups)\.\w+": "regularisers call them with what they have checked",
    r"mkl\.\w+\.(fit|is_definite)\(X\)": "most kernels do not read X there",
    r"models\.(Chain\.(feature|pair_scores|rest|split|token_scores)|Segmentation\.(prepare|template)"
    r"|Landmarks\.(tree|deviation)"
    r"|(Binary|Graph)Labeling\.node_costs)": "decoders and oracles call them with what they have checked",
    r"estimators\.Chain\w+\.predict_single": "`predict` refuses it and calls it X[0]",
    r"estimators\.(LinearSVR|QuantileRegressor)\.score\(y\)": "a metric of scikit-learn refuses it, without a name",
}
"""Calls by pattern that are left out, and why."""


def public_calls(change):
    for name in surface():
        if not name.startswith(FOLDERS):
            continue
        recipes = [RECIPES[name], *([FURTHER[name]] if name in FURTHER else [])]
        if name.startswith("estimators.") and "sample_weight" in inspect.signature(
                target(name, np.random.default_rng(1))).parameters:
            recipes.append(lambda r, name=name: {**RECIPES[name](r), "sample_weight": floats(len(
                RECIPES[name](np.random.default_rng(1))["y"]))})
        function = target(name, np.random.default_rng(1))
        for recipe in recipes:
            for key, value in recipe(np.random.default_rng(1)).items():
                call = f"{name}({key})"
                if any(re.match(pattern, call) for pattern in UNCHECKED):
                    continue
                for changed in with_changes(value, change):
                    yield call, key, changed, function, {**recipe(np.random.default_rng(1)), key: changed}


def values_in(changed):
    """Which values that are not finite there are."""
    found = set()

    def look(array):
        if array.dtype.kind == "f":
            found.update(str(value) for value in array[~np.isfinite(array)].ravel().tolist())
        return ()

    list(with_changes(changed, look))
    return found


def answers(changes, left_out=()):
    """(call, changed array, whether it was taken, what is wrong with the refusal) of all calls."""
    for call, key, changed, function, arguments in public_calls(changes):
        if any(re.match(pattern, call) for pattern in left_out):
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
                function(**arguments)
        except (pb.BundleError, TypeError, ValueError) as problem:
            is_named = re.search(rf"\b{key}\b|\b{key.removesuffix('s')}\b", str(problem), re.IGNORECASE)
            yield call, changed, False, "" if is_named else f"{call}: {problem!s:.100}"
        else:
            yield call, changed, True, ""


@pytest.mark.filterwarnings("ignore")
def test_nan_and_infinity_are_refused_by_name():
    """`LandmarkDetector` learnt from NaN pixels; tokens, kernels and graphs with them were read here and there."""
    wrong, refused, legal = [], 0, set()
    for call, changed, is_taken, complaint in answers(not_finite):
        refused += not is_taken
        if is_taken:
            legal.add(call)
            if not values_in(changed) <= set(TAKEN.get(call, ("", ""))[0].split()):
                complaint = f"{call} took {values_in(changed)}"
        wrong += [complaint] if complaint else []
    assert not wrong, "\n".join(sorted(set(wrong)))
    assert refused > 800
    assert legal == set(TAKEN), legal ^ set(TAKEN)


def not_real(array):
    """Numbers with an imaginary part, and floats as dates."""
    if array.dtype.kind in "fiu" and array.size:
        changed = array.astype(complex)
        changed.flat[array.size // 2] += 1j
        yield changed
    if array.dtype.kind == "f" and array.size:
        yield array.astype(np.int64).astype("datetime64[D]")


UNREAD = {
    r"risks\.\w+\.map_shards": "hands its items to the function",
    r"models\.paint\(labels\)": "paints values of any type",
    r"models\.(Chain\.labels|Landmarks\.(check_positions|deformation|weights_of_loss))":
        "oracles call them with what they have checked",
    r"estimators\.(LinearSVR|QuantileRegressor|Multiclass\w+|OnlineMKLClassifier)\.score\((y|sample_weight)\)":
        "a metric of scikit-learn refuses it, without a name",
}


@pytest.mark.filterwarnings("ignore")
def test_complex_numbers_and_dates_are_refused_by_name():
    """A cast drops imaginary parts, with a warning at most, and reads dates as counts of whatever unit they have."""
    wrong, refused = [], 0
    for call, _, is_taken, complaint in answers(not_real, UNREAD):
        refused += not is_taken
        complaint = f"{call} was taken" if is_taken else complaint
        wrong += [complaint] if complaint else []
    assert not wrong, "\n".join(sorted(set(wrong)))
    assert refused > 1000


def test_every_array_of_a_signature_has_a_recipe():
    """So that an array that is added to a signature meets the test above."""
    missing = []
    for name in surface():
        if name.startswith(FOLDERS) and name != "qp.SimplexQP":         # compiled, and takes nothing
            given = {"sample_weight", *RECIPES[name](np.random.default_rng(1))}
            given |= set(FURTHER[name](np.random.default_rng(1))) if name in FURTHER else set()
            missing += [f"{name}({parameter.name})" for parameter in inspect.signature(target(
                name, np.random.default_rng(1))).parameters.values() if parameter.name not in given and re.search(
                    "ArrayLike|Floats", str(parameter.annotation))]
    assert not missing, missing


@pytest.mark.parametrize("name", pb.risks.__all__)
def test_scores_are_finite(name):
    """NaN in scores gave NaN, or a step of 0, without a word; for all risks that take scores."""
    kind, rng = getattr(pb.risks, name), np.random.default_rng(0)
    if not hasattr(kind, "planes_at") or kind.planes_at is None or name == "Structured":
        return
    X, y = rng.standard_normal((6, 2)), np.arange(6) % 2
    risk = kind(X) if name == "OneClass" else kind(X, y)
    good = np.zeros((6, risk.n_scores))
    calls = [risk.planes_at, lambda bad: risk.line_search(good, bad, 0.0, 0.0),
             lambda bad: risk.line_search(bad, good, 0.0, 0.0)]
    calls += [lambda bad: risk.multipliers(bad[:, 0])] if hasattr(risk, "multipliers") else []
    for call in calls:
        for value in (np.nan, np.inf):
            with pytest.raises(pb.ParameterError, match="finite"):
                call(np.where(np.arange(6) == 3, value, good.T).T)


LARGE = 2**53 + 1 + 2 * np.arange(8)


@pytest.mark.parametrize("numbers", [LARGE, (1000 * LARGE + 1).astype(np.uint64), LARGE.astype(object), -LARGE])
def test_integers_that_float64_would_round_are_refused(numbers):
    """Of two columns of ids that differ by 1 the weights were those of equal columns."""
    X, y = np.random.default_rng(0).standard_normal((8, 1)), np.arange(8) % 2
    calls = [lambda: pb.risks.Absolute(X, numbers), lambda: pb.QuantileRegressor().fit(X, numbers),
             lambda: pb.MulticlassSVM().fit(np.c_[numbers, numbers], y),
             lambda: pb.MulticlassSVM().fit(X, y).predict(numbers[:, None]),
             lambda: pb.MulticlassSVM().fit([[number, 0.5] for number in numbers], y)]
    if numbers.dtype != object:
        calls += [lambda: pb.risks.BinaryHinge(numbers[:, None], y),
                  lambda: pb.risks.BinaryHinge(sp.csr_array(numbers[:, None]), y),
                  lambda: pb.MulticlassSVM().fit(sp.csr_array(numbers[:, None]), y)]
    for call in calls:
        with pytest.raises(pb.InputTypeError, match=r"integer -?9\d+; subtract"):
            call()
    pb.risks.Absolute(X, LARGE - 1)         # these are float64 numbers
    assert pb.MulticlassSVM().fit(X, LARGE[0] + y).classes_.tolist() == [LARGE[0], LARGE[0] + 1]


def test_scores_of_arcs_that_no_tree_has_are_not_read():
    """The diagonal and the arcs into the root may hold anything, in all four functions."""
    scores = np.random.default_rng(0).standard_normal((4, 4))
    for value in (np.nan, np.inf, -np.inf):
        odd = np.where(np.eye(4, dtype=bool) | (np.arange(4) == 0), value, scores)
        for single_root in (False, True):
            for function in (pb.oracles.max_arborescence, pb.oracles.arborescence_marginals):
                for a, b in zip(function(scores, single_root), function(odd, single_root), strict=True):
                    np.testing.assert_array_equal(np.where(np.isin(a, b) | (a != 0.0), a, b), b)
            heads, values = pb.oracles.max_arborescence_batch(odd.ravel(), [3], single_root)
            wanted = pb.oracles.max_arborescence(scores, single_root)
            np.testing.assert_array_equal(heads, wanted[0][-len(heads):])
            assert values[0] == wanted[1]
    for h, m in ((0, 1), (2, 1)):
        bad = scores.copy()
        bad[h, m] = np.nan
        with pytest.raises(pb.ParameterError):
            pb.oracles.max_arborescence(bad)
