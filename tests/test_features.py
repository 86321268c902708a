"""Products with rows of features against NumPy, for every storage."""

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.core.ragged import Ragged
from pybundle.core.validation import contiguous
from pybundle.features.examples import Examples

STORAGES = {
    "float32": lambda X: X.astype(np.float32),
    "float64": lambda X: X.astype(np.float64),
    "uint8": lambda X: X.astype(np.uint8),
    "csr32": lambda X: sp.csr_array(X.astype(np.float32)),
    "csr64": lambda X: sp.csr_array(X.astype(np.float64)),
}


@pytest.mark.parametrize("bias", [None, 2.0])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("n_scores", [1, 3, 26])
def test_scores_and_sums_of_any_rows(storage, n_scores, bias):
    rng = np.random.default_rng(n_scores)
    X = rng.integers(0, 5, size=(150, 37)) * (rng.random((150, 37)) < 0.4)
    rows = Examples(STORAGES[storage](X), bias=bias).rows(n_scores)
    full = X if bias is None else np.c_[X, np.full(len(X), bias)]
    W = rng.normal(size=(n_scores, rows.width))
    wanted = rng.integers(0, 150, size=201)
    out = np.empty((201, n_scores))
    rows.scores(rows.pack(W), wanted, out)
    np.testing.assert_allclose(out, full[wanted] @ W.T, rtol=1e-13, atol=1e-12)

    labels, coefs = rng.integers(0, n_scores, size=201), rng.integers(-1, 2, size=201).astype(float)
    slope = np.ones(W.size)
    rows.add(wanted, labels, coefs, slope)
    expected = np.ones_like(W)
    np.add.at(expected, labels, coefs[:, None] * full[wanted])
    np.testing.assert_array_equal(slope.reshape(W.shape), expected)      # sums of integers are exact


def test_labels_out_of_range_and_wrong_shapes_are_refused():
    rows = Examples(np.ones((3, 2))).rows(2)
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.1"):
        rows.add(np.arange(3), np.array([0, 1, 2]), np.ones(3), np.zeros(4))
    with pytest.raises(ValueError, match="slope must have 4 entries"):
        rows.add(np.arange(3), np.zeros(3, dtype=int), np.ones(3), np.zeros(3))
    with pytest.raises(ValueError, match=r"out must have shape \(3, 2\) and dtype float64"):
        rows.scores(rows.pack(np.ones(4)), np.arange(3), np.zeros((3, 3)))


def unaligned(array):
    """The same numbers one byte off the boundary, as arrays out of a buffer may be."""
    room = np.empty(array.nbytes + 1, dtype=np.uint8)
    view = room[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned or array.itemsize == 1
    return view


def test_what_is_not_aligned_is_copied_before_compiled_code_reads_it():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(30, 5)), rng.normal(size=15)
    y = rng.integers(0, 3, 30)
    rows = sp.csr_array(X * (X > 0.3))
    parts = [unaligned(array) for array in (rows.data, rows.indices, rows.indptr)]
    sparse = sp.csr_array(rows.shape)
    sparse.data, sparse.indices, sparse.indptr = parts
    for given, wanted in ((unaligned(X), X), (unaligned(X.astype(np.float32)), X.astype(np.float32)), (sparse, rows)):
        risk = pb.risks.MulticlassHinge(given, unaligned(y), sample_weight=unaligned(np.ones(30)))
        assert all(array.flags.aligned for array in risk.examples.storage)
        found, expected = risk.planes(unaligned(w)), pb.risks.MulticlassHinge(wanted, y).planes(w)
        assert np.array_equal(found.values, expected.values) and np.array_equal(found.slopes, expected.slopes)
    words = Ragged(unaligned(X), unaligned(np.array([0, 12, 30])))
    assert words.values.flags.aligned and words.offsets.flags.aligned
    assert contiguous(X) is X and contiguous(unaligned(w)).flags.aligned


def test_matrices_are_joined_without_what_lies_behind_their_rows():
    first = sp.csr_array(np.eye(2))
    first.data, first.indices = np.append(first.data, 9.0), np.append(first.indices, np.int32(0))
    words = Ragged.of([first, sp.csr_array(2.0 * np.eye(2))])
    assert np.array_equal(words.values.toarray(), np.concatenate([np.eye(2), 2.0 * np.eye(2)]))
    assert len(first.data) == 3
