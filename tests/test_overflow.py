"""Vast numbers end in results or in sentences, never in RuntimeWarnings of NumPy."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb

METHODS = ("auto", "oca", "bmrm", "prox-bmrm", "alm", "prox-bcfw", "bcfw", "frank-wolfe", "lbfgs", "newton", "sgd",
           "cutting-plane")
RNG = np.random.default_rng(1)
X, Y = RNG.standard_normal((12, 4)), np.arange(12) % 3


def function(size):
    A = size * X

    def fun(w):
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.abs(A @ w - 1.0).sum()), A.T @ np.sign(A @ w - 1.0)
    return pb.risks.Function(fun, 4)


RISKS = {
    "hinge": lambda size: pb.risks.MulticlassHinge(size * X, Y),
    "zero": lambda size: pb.risks.MulticlassHinge(0.0 * X, Y),
    "sparse": lambda size: pb.risks.MulticlassHinge(sp.csr_array(size * X), Y),
    "float32": lambda size: pb.risks.MulticlassHinge(sp.csr_array((min(size, 1e37) * X).astype(np.float32)), Y),
    "binary": lambda size: pb.risks.BinaryHinge(size * X, Y % 2),
    "logistic": lambda size: pb.risks.Logistic(size * X, Y % 2),
    "weights": lambda size: pb.risks.MulticlassHinge(X, Y, sample_weight=np.full(12, size)),
    "function": function,
}


@pytest.mark.parametrize("name", RISKS)
def test_no_runtime_warning_reaches_the_user(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        for size in (1e20, 1e140, 1e150):
            try:
                risk = RISKS[name](size)
            except pb.BundleError:              # squares overflow: said at construction
                continue
            for method in METHODS:
                for start in (None, 1e12):
                    for lam in (1e-8, 1e10):
                        strength = {"penalty": pb.prox.Ball(1.0)} if method == "cutting-plane" else {"lam": lam}
                        w0 = None if start is None else np.full(risk.dim, start)
                        try:
                            result = pb.minimize(risk, w0, method=method, max_iter=3, tol=1e-6, **strength)
                        except pb.BundleError:          # a sentence
                            continue
                        assert not np.isnan([result.fun, result.lower_bound, result.gap]).any()
                        assert result.lower_bound <= result.fun or not result.certified


@pytest.mark.parametrize("method", ["auto", "prox-bcfw", "frank-wolfe", "oca"])
def test_vast_weights_of_examples_are_named(method):
    """NumPy warned, and then w was not finite."""
    risk = pb.risks.MulticlassHinge(np.eye(3), [0, 1, 2], sample_weight=np.full(3, 1e300))
    with warnings.catch_warnings(action="error"), pytest.raises(pb.NumericalError, match="squares of the slopes"):
        pb.minimize(risk, lam=1.0, method=method)
