"""Arrays with masked entries are refused wherever data come in: their numbers mean nothing, but NumPy returns them."""

import numpy as np
import pytest

import pybundle as pb

X = np.random.default_rng(0).standard_normal((20, 3))
Y = np.where(X[:, 0] > 0.0, 1, 0)


def hidden(array):
    return np.ma.masked_array(array, np.arange(array.size).reshape(array.shape) == 1)


@pytest.mark.parametrize("make", [
    lambda: pb.risks.BinaryHinge(hidden(X), Y), lambda: pb.risks.BinaryHinge(X, hidden(Y)),
    lambda: pb.risks.MulticlassHinge(X, Y, sample_weight=hidden(np.ones(20))),
    lambda: pb.risks.OneClass(hidden(X), 0.2),
    lambda: pb.qp.solve_simplex_qp(hidden(np.eye(3)), np.zeros(3), np.zeros(3, int)),
    lambda: pb.LandmarkDetector().fit([hidden(X)] * 3, np.ones((3, 2, 2))),
    lambda: pb.risks.Pinball(X, hidden(X[:, 0])), lambda: pb.MulticlassSVM().fit(hidden(X), Y),
    lambda: pb.MulticlassSVM().fit(X, hidden(Y)), lambda: pb.MulticlassSVM().fit(X, Y).predict(hidden(X)),
    lambda: pb.QuantileRegressor().fit(X, hidden(X[:, 0])), lambda: pb.ChainCRF().fit([X, hidden(X)], [Y, Y]),
    lambda: pb.ChainCRF().fit([X, X], [Y, Y]).predict([hidden(X)]), lambda: pb.ChainCRF().fit([X, X], [Y, hidden(Y)]),
    lambda: pb.risks.Structured(pb.models.Chain(2, 3), [X], [hidden(Y)]),
    lambda: pb.minimize(pb.risks.BinaryHinge(X, Y), lam=hidden(np.ones(3)))])  # fmt: skip
def test_masked_entries_are_refused(make):
    with pytest.raises(pb.InputTypeError, match="masked"):
        make()


def test_a_mask_that_hides_nothing_changes_nothing():
    risk = pb.risks.BinaryHinge(np.ma.masked_array(X), np.ma.masked_array(Y))
    assert pb.minimize(risk, lam=1.0).fun == pb.minimize(pb.risks.BinaryHinge(X, Y), lam=1.0).fun
