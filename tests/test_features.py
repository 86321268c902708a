"""Products with rows of features against NumPy, for every storage."""

import numpy as np
import pytest
import scipy.sparse as sp

from pybundle.features import Examples

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
