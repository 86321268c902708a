"""Methods against algorithms written out step by step, those of the papers or the package's variants: equal points."""

import numpy as np
import pytest
from reference.mp_bcfw import MPBCFW
from reference.prox_bmrm import prox_bmrm

import pybundle as pb

K = 4


def blobs(n, d, n_classes=K, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(n_classes, d))[y], y


def log_loss(X, y, n_parts):
    """`risk(w) -> (values (P,), gradients (P, dim))`, smooth: points that agree to rounding have planes that do."""
    parts = [np.arange(len(y))[p::n_parts] for p in range(n_parts)]

    def risk(w):
        scores = X @ w.reshape(K, -1).T
        margins = scores - scores[np.arange(len(y)), y][:, None]
        values, shares = np.log(np.exp(margins).sum(axis=1)), np.exp(margins)
        shares /= shares.sum(axis=1, keepdims=True)
        shares[np.arange(len(y)), y] -= 1.0
        return (np.array([values[rows].sum() for rows in parts]),
                np.array([(shares[rows].T @ X[rows]).ravel() for rows in parts]))

    return risk


@pytest.mark.parametrize("n_parts", [1, 2])
@pytest.mark.parametrize(("radius", "T"), [(0.4, 100), (0.2, 10)])
@pytest.mark.parametrize("lower_bounds", [0.0, None])
def test_prox_bmrm_asks_where_algorithm_2_does(n_parts, radius, T, lower_bounds):
    """Trials, rejected ones included, tuned alphas, gamma and the stop: masters solved exactly, no plane dropped.

    The paper's multipliers sum to 1. The method was called "exactly as published", but with a risk that declares the
    bound 0, as hinge losses do, its masters have the zero plane, too. Without that bound they are the paper's.
    """
    risk, lam, w, asked = log_loss(*blobs(40, 3), n_parts), 0.5, np.zeros(3 * K), []
    points, alphas = prox_bmrm(risk, w, lam, n_parts, 0.03, radius, T, has_zero=lower_bounds is not None)

    def recorded(w):
        asked.append(np.array(w))
        return risk(w)

    result = pb.minimize(pb.risks.Function(recorded, len(w), n_parts, lower_bounds), w, lam=lam,
                         method=pb.methods.ProxBMRM(K=radius, T=T, stop="published", theta=1e-9, max_idle=1000),
                         tol=0.03)
    assert result.nit == len(alphas) and len(set(alphas)) > 1
    assert len(points) > len(alphas) + 1                                    # trials were rejected
    # SLSQP ends within 1e-8 of the value of a master, which is 1e-4 of its point
    np.testing.assert_allclose(asked[:len(points)], points, atol=1e-3)
    assert len(asked) <= len(points) + 1                                    # the certificate


@pytest.mark.parametrize("lam", [3.0, 0.3])
def test_mp_bcfw_takes_the_steps_of_its_twin(lam):
    """Steps, order, working sets, the slope rule and forgetting: bounds agree to rounding after every iteration."""
    X, y = blobs(60, 5, 10)         # so many labels that planes in use become idle, too
    twin, counted, values = MPBCFW(X, y, 10, lam, np.random.default_rng(1)), [], {}
    risk = pb.risks.MulticlassHinge(X, y)
    result = pb.minimize(risk, lam=lam, method="mp-bcfw", tol=1e-9, max_iter=18, random_state=1,
                         callback=lambda progress: counted.append(progress.n_planes))
    duals, planes = [], []
    for k in range(1, 19):
        if k % 6 == 0:
            values[k] = twin.certify()
        else:
            twin.iterate()
        duals.append(twin.dual())
        planes.append(sum(len(block.alpha) - 1 for block in twin.blocks))
    np.testing.assert_allclose(result.history["lower_bound"], np.maximum.accumulate(duals), rtol=1e-9)
    np.testing.assert_allclose([result.history["primal"][k - 1] for k in values], list(values.values()), rtol=1e-9)
    assert counted == planes
    assert twin.n_cached > 18                                               # the slope rule let passes go on
