"""Risks that are 0 everywhere, or whose minimum is 0 at w = 0: empty bundles, and relative gaps of 0."""

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb

RISKS = {
    "weights": lambda: pb.risks.BinaryHinge([[1.0], [2.0]], [1, -1], sample_weight=[0.0, 0.0]),
    "one word": lambda: pb.risks.Structured(pb.models.Dependency(2), [sp.csr_array(np.ones((1, 2)))],
                                            [np.array([-1, 0])]),
    "one label": lambda: pb.risks.Structured(pb.models.Chain(1, 2), [np.ones((3, 2))], [np.zeros(3, int)]),
    "function": lambda: pb.risks.Function(lambda w: (0.0, np.zeros(2)), 2, lower_bounds=0.0),
    "no costs": lambda: pb.risks.MulticlassHinge(np.eye(2), [0, 1], loss=np.zeros((2, 2))),
}
METHODS = ("oca", "bmrm", "prox-bmrm", "sgd", "bcfw", "prox-bcfw", "alm", "frank-wolfe", "auto")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RISKS)
def test_any_method_goes_on_from_any_other_where_the_risk_is_zero(name):
    """A bundle without planes had no store, and a warm start from it died of an AttributeError.

    fun and bound are 0 exactly, so the gap is 0; the error of sums of losses was counted where no label costs anything.
    """
    for first in METHODS:
        for second in METHODS:
            try:
                result = pb.minimize(RISKS[name](), lam=10.0, method=first, max_iter=20)
                result = pb.minimize(RISKS[name](), lam=1.0, method=second, max_iter=20, warm_start=result)
            except pb.ParameterError:           # not a method for this risk
                continue
            assert result.success and result.fun == result.lower_bound == result.gap == 0.0


@pytest.mark.parametrize("n_parts", [1, 2])
@pytest.mark.parametrize("method", ["oca", "bmrm", "prox-bmrm"])
def test_a_path_of_a_risk_that_is_zero(method, n_parts):
    for result in pb.path(RISKS["weights"](), [10.0, 1.0], method=method, n_parts=n_parts):
        assert result.success and result.fun == 0.0


def test_an_empty_bundle_combines_to_nothing():
    bundle = pb.bundle.Bundle(3, 2)
    phi, offset = bundle.copy().combine(np.zeros(0))
    assert phi.tolist() == [0.0, 0.0, 0.0] and offset == 0.0


def test_slopes_that_cancel_in_a_ball_divide_nothing_by_zero():
    """Where all slopes are 0 the search for the multiplier of the ball went down to 0 / 0, a RuntimeWarning."""
    for fun in (lambda w: (3.0, np.zeros(2)), lambda w: (abs(w[0]), np.array([np.sign(w[0]), 0.0]))):
        result = pb.minimize(pb.risks.Function(fun, 2), penalty=pb.prox.Ball(1.0), tol=1e-9)
        assert result.success and result.fun == pytest.approx(result.lower_bound)
