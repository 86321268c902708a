"""Public callables and wrong arguments: nothing crashes, hangs or leaves by an exception of somebody else.

A child process makes the calls, so that a crash is a failure here. Many more, under the sanitizers:

    PYBUNDLE_FUZZ=20000 .ci/sanitize address tests/test_fuzz.py
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.core.plane import Planes
from pybundle.core.sparse import check_sparse
from pybundle.features._plane_rows import merge_rows
from pybundle.features._rows import PackedWeights, Rows, sum_rows
from pybundle.features.examples import Examples


def test_wrong_arguments_anywhere(tmp_path):
    pytest.importorskip("sklearn")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    script, log = Path(__file__).parent / "fuzz" / "run.py", tmp_path / "call"
    calls = os.environ.get("PYBUNDLE_FUZZ", "300")
    done = subprocess.run([sys.executable, str(script), "--calls", calls, "--seed", "3", "--log", str(log)], text=True,
                          capture_output=True, env=environment)
    assert "runtime error: " not in done.stderr, done.stderr[-5000:]        # of a sanitizer
    assert done.returncode == 0, (done.stdout, done.stderr[-5000:], log.read_text(encoding="utf-8"))


def test_rows_are_merged_where_they_fit_only():
    """More rows than announced were heap corruption, indices beyond the columns went through."""
    with pytest.raises(ValueError, match="slopes must be 1 rows, got more"):
        merge_rows(np.ones((200000, 4)), 1, 4)
    with pytest.raises(ValueError, match=r"slopes must have indices 0\.\.1, got 2 in row 0"):
        merge_rows([np.ones(4)], 1, 2)
    with pytest.raises(ValueError, match="slopes must be 3 rows, got 1"):
        merge_rows([np.ones(4)], 3, 4)
    with pytest.raises(ValueError, match="at least 0, got 4, -1 and 0"):
        merge_rows([], -1, 4)


def test_none_is_a_type_error():
    with pytest.raises(TypeError, match="head"):
        sum_rows(4, None)
    rows = Examples(np.eye(3)).rows(2)
    with pytest.raises(TypeError, match="w"):
        rows.scores(None, np.arange(2), np.zeros((2, 2)))


@pytest.mark.parametrize("index", [-1, 3, 1 << 40])
def test_rows_outside_of_the_data(index):
    rows, out = Examples(np.eye(3)).rows(2), np.zeros((1, 2))
    packed = rows.pack(np.ones(6))
    with pytest.raises(ValueError, match=r"rows must lie in 0\.\.2"):
        rows.scores(packed, np.array([index]), out)
    with pytest.raises(ValueError, match=r"rows must lie in 0\.\.2"):
        rows.add(np.array([index]), [0], np.ones(1), np.zeros(6))


def test_weights_of_other_rows():
    rows = Examples(np.eye(3)).rows(2)
    for packed in (PackedWeights(), Examples(np.eye(40)).rows(1).pack(np.ones(40))):
        with pytest.raises(ValueError, match="w must be packed for 2 scores of 3 features"):
            rows.scores(packed, np.array([0]), np.zeros((1, 2)))
    with pytest.raises(ValueError, match="storage must hold 3 contiguous rows of 5 features"):
        Rows((np.eye(3),), np.ones(3), 5, 1)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("first", [-300000, -1, 3, 1 << 40])
def test_a_row_that_a_bundle_does_not_have(storage, first):
    bundle = pb.bundle.Bundle(4, 2, storage)
    bundle.append(Planes(np.ones(2), np.ones(2), np.eye(2, 4)))
    assert bundle.dot(np.ones(4), 2).shape == (0,)
    with pytest.raises(pb.ParameterError, match=f"first must be an integer .= ., got {first}"):
        bundle.dot(np.ones(4), first)


def test_planes_that_do_not_fit_a_bundle():
    bundle = pb.bundle.Bundle(4, 2)
    for slopes, offsets, words in ((np.ones((2, 3)), np.ones(2), r"slopes must have shape \(2, 4\)"),
                                   (np.ones((3, 4)), np.ones(3), "parts must be a vector of integers"),
                                   (np.ones((2, 4)), np.ones((2, 1)), r"offsets must have shape \(2,\)")):
        with pytest.raises(pb.ParameterError, match=words):
            bundle.append(Planes(np.ones(2), offsets, slopes))
    with pytest.raises(pb.ParameterError, match=r"dim must be an integer <= 2147483647, got"):
        pb.bundle.Bundle(1 << 40, 1)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.coo_array])
@pytest.mark.parametrize("index", [-1, 3, 2**31 - 1])
def test_indices_that_scipy_does_not_look_at(kind, index):
    """Its products and conversions read and write by them."""
    X = kind(np.eye(3))
    if X.format == "coo":
        X.coords[1][1] = index
    else:
        X.indices[1] = index
    model = pb.models.Chain(2, 3)
    for call in (lambda: pb.risks.MulticlassHinge(X, [0, 1, 2]), lambda: check_sparse("X", X),
                 lambda: model.decode(np.ones(model.dim), X), lambda: pb.mkl.Gaussian().gram(X)):
        with pytest.raises(pb.ParameterError, match=r"indices in 0\.\.2, got"):
            call()


def test_predictions_look_at_indices():
    """A segmentation fault in the product of SciPy."""
    pytest.importorskip("sklearn")
    machine, X = pb.MulticlassSVM(max_iter=5).fit(np.eye(3), [0, 1, 2]), sp.csr_matrix(np.eye(3))
    X.indices[1] = 2**31 - 1
    for method in (machine.predict, machine.decision_function, lambda X: machine.fit(X, [0, 1, 2])):
        with pytest.raises(pb.ParameterError, match=r"X must have column indices in 0\.\.2, got 0\.\.2147483647"):
            method(X)


def test_oracles_refuse_rows_and_sums_that_do_not_fit():
    model = pb.models.Segmentation(2, [1, 2])
    oracle = model.oracle([np.ones((3, 2)), np.ones((2, 2))], [[0, 1], [1]])
    for row in (-1, 2, 1 << 40):
        for call in (lambda row=row: oracle.plane(row, [0, 1]), lambda row=row: oracle.losses([row], [[0, 1]]),
                     lambda row=row: oracle.solve_batch([row], oracle.prepare(np.ones(model.dim)))):
            with pytest.raises(pb.ParameterError, match=r"must be (numbers of|a number of an) examples? 0\.\.1, got"):
                call()
    with pytest.raises(pb.ParameterError, match="slope must be a writeable float64 array of shape"):
        oracle.add_planes([0], [[0, 1]], np.ones(1), np.zeros(1))
