"""Certified multiple kernel learning of the log-loss: kernels, features, mixtures; an independent optimum; duality."""

import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

import pybundle as pb
from pybundle.mkl import B1Spline, Callable, Features, Gaussian, Linear, OnlineMKL, Polynomial, Precomputed
from pybundle.mkl.mixture_bound import plane_grams
from pybundle.mkl.settings import check_settings
from pybundle.mkl.structure import as_structure
from pybundle.mkl.tokens import TokenLearner
from pybundle.solvers.smooth.lbfgs import Pairs

PLAIN = {"normalise": False}
LEFT, RIGHT = slice(0, 2), slice(2, 4)
GROUPS = {
    "kernels": [Linear(columns=LEFT, **PLAIN), Linear(columns=RIGHT, **PLAIN)],
    "features": [Features(LEFT), Features(RIGHT)],
    "mixed": [Features(LEFT), Callable(lambda X, Z: X @ Z.T, columns=RIGHT, **PLAIN)],
    "low rank": [Linear(columns=LEFT, low_rank=10, **PLAIN), Features(RIGHT)],
}


def chains(n=14, d=4, K=3, seed=0, longest=4):
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((rng.integers(1, longest + 1), d)) for _ in range(n)]
    return X, [np.argmax(x[:, :K] + 0.5 * rng.standard_normal((len(x), K)), axis=1).astype(np.int32) for x in X]


def rows(X, Y):
    """Tokens of all chains as examples of their own, one label each."""
    return [x[None] for x in np.concatenate(X)], [np.array([label]) for label in np.concatenate(Y)]


def independent_optimum(features, Y, K, has_links, lam):
    """min lam/2 sum_k |theta_k|^2 / nu_k + mean log-loss over all labellings, written out, by SciPy: F and nu.

    `features` are those of every token for each group, lists of arrays (T, d_k) of the chains.
    """
    psi, labels = [], np.repeat(np.arange(len(features)), [part[0].shape[1] * K for part in features])
    n_links = K * K + 2 * K if has_links else 0
    labels = np.concatenate([labels, np.full(n_links, len(features))])
    p = len(features) + has_links
    for i, truth in enumerate(Y):
        def joint(y, i=i):
            y = np.array(y)
            parts = [(np.eye(K)[y].T @ part[i]).ravel() for part in features]
            if has_links:
                pairs = np.zeros((K, K))
                np.add.at(pairs, (y[:-1], y[1:]), 1.0)
                parts += [pairs.ravel(), np.eye(K)[y[0]], np.eye(K)[y[-1]]]
            return np.concatenate(parts)

        psi.append(np.array([joint(y) for y in product(range(K), repeat=len(truth))]) - joint(truth))

    def value(z):
        theta, nu = z[:-p], z[-p:]
        squares = np.bincount(labels, theta**2, p)
        gradient = np.concatenate([lam * theta / nu[labels], -0.5 * lam * squares / nu**2])
        total = 0.5 * lam * float((squares / nu).sum())
        for A in psi:
            total += logsumexp(A @ theta) / len(psi)
            gradient[:-p] += softmax(A @ theta) @ A / len(psi)
        return total, gradient

    start = np.concatenate([np.zeros(len(labels)), np.full(p, 1.0 / p)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Values in x were outside bounds", RuntimeWarning)
        found = minimize(value, start, jac=True, method="SLSQP", options={"maxiter": 1000, "ftol": 1e-13},
                         bounds=[(None, None)] * len(labels) + [(1e-9, 1.0)] * p,
                         constraints=[{"type": "eq", "fun": lambda z: z[-p:].sum() - 1.0,
                                       "jac": lambda z: (np.arange(len(z)) >= len(labels)).astype(float)}])
    assert found.success, found.message
    return found.fun, found.x[-p:]


@pytest.mark.parametrize("lam", [0.3, 0.02])
@pytest.mark.parametrize("name", ["chain", "flat"])
def test_optimum_is_that_of_an_independent_solver(name, lam):
    X, Y = chains() if name == "chain" else rows(*chains(n=10))
    quadratic = [np.stack([x[:, 0] ** 2, np.sqrt(2.0) * x[:, 0] * x[:, 1], x[:, 1] ** 2], axis=1) for x in X]
    features = [[x[:, :1] for x in X], [x[:, 1:] for x in X], quadratic]
    groups = [Features([0]), Linear(columns=slice(1, 4), **PLAIN), Polynomial(2, 0.0, columns=[0, 1], **PLAIN)]
    options = {"lam": lam, "loss": "logistic", "solver": "certified", "tol": 1e-6}
    if name == "chain":
        learner = OnlineMKL(groups, model=pb.models.Chain(3, 4), **options).fit(X, Y)
    else:
        learner = OnlineMKL(groups, **options).fit(np.concatenate(X), np.concatenate(Y))
    value, nu = independent_optimum(features, Y, 3, name == "chain", lam)
    assert learner.gap_ <= 1e-6
    assert learner.lower_bound_ <= value * (1.0 + 1e-7)
    assert learner.objective_ >= value * (1.0 - 1e-7)
    np.testing.assert_allclose(learner.weights_, nu, atol=5e-3)


@pytest.mark.parametrize("lam", [1e-3, 0.05, 1e3])
@pytest.mark.parametrize("name", GROUPS)
def test_kernels_are_their_explicit_features(name, lam):
    X, Y = chains(n=25)
    model = pb.models.Chain(3, 4)
    W = model.split(np.arange(model.dim, dtype=float))[0]
    labels = np.full(model.dim, 2)
    labels[W[:, :2].astype(int).ravel()], labels[W[:, 2:].astype(int).ravel()] = 0, 1
    options = {"model": model, "lam": lam, "loss": "logistic", "solver": "certified", "tol": 1e-6}
    kernels = OnlineMKL(GROUPS[name], **options).fit(X, Y)
    weights = OnlineMKL(labels, **options).fit(X, Y)
    assert max(kernels.gap_, weights.gap_) <= 1e-6
    assert kernels.lower_bound_ <= weights.objective_ * (1.0 + 1e-12)
    assert weights.lower_bound_ <= kernels.objective_ * (1.0 + 1e-12)
    scale = weights.norms_.sum()
    np.testing.assert_allclose(kernels.norms_, weights.norms_, atol=2e-3 * scale)
    # the value is what the weights of the explicit twin say where they are those of the kernels
    w = weights.coef_
    for x, scores in zip(X, kernels.decision_function(X), strict=True):
        np.testing.assert_allclose(scores, x @ model.split(w)[0].T, atol=5e-3 * scale)


@pytest.mark.parametrize("case", ["precomputed", "float32", "sparse Gram", "one group", "singular", "sparse rows"])
def test_every_kind_of_group_is_certified(case):
    X, y = (np.concatenate(part) for part in chains(n=20))
    groups, precision, lam, tol = [Gaussian(2.0), Linear()], "float64", 0.05, 1e-4
    if case == "precomputed":
        groups = [Precomputed(Gaussian(2.0)(X)), Precomputed(Linear()(X))]
        X = np.arange(len(X), dtype=float)[:, None]
    elif case == "float32":
        precision = "float32"
    elif case == "sparse Gram":
        groups = [B1Spline(1.0, columns=[0]), Gaussian(2.0)]
    elif case == "one group":
        groups = groups[:1]
    elif case == "singular":
        X, y, groups = np.concatenate([X, X]), np.concatenate([y, y]), [Linear(columns=[0]), Polynomial(3)]
    else:
        X, groups = sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0)), [Linear(), Features()]
    learner = OnlineMKL(groups, lam=lam, loss="logistic", solver="certified", tol=tol, precision=precision).fit(X, y)
    assert 0.0 <= learner.gap_ <= tol
    # value and norms are those that predictions and coefficients tell
    scores = learner.decision_function(X)
    loss = float(np.mean(logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]))
    assert abs(0.5 * lam * learner.norms_.sum() ** 2 + loss - learner.objective_) < (
        1e-6 if precision == "float32" else 1e-12)
    # rounds get no lower than the bound, and prove no more than the value
    online = OnlineMKL(groups, lam=lam, loss="logistic", eta0=1.0, random_state=0, precision=precision).fit(X, y)
    assert learner.lower_bound_ <= online.objective_
    assert online.lower_bound_ <= learner.objective_


def test_any_multipliers_bound_any_point():
    """Weak duality: marginals of any chain model against F at any coefficients."""
    X, Y = chains()
    lam, rng = 0.2, np.random.default_rng(1)
    groups = [Gaussian(2.0), Linear(columns=LEFT), Features(RIGHT)]
    learner = OnlineMKL(groups, model=pb.models.Chain(3, 4), lam=lam, loss="logistic")
    structure = as_structure(learner.model)
    session = TokenLearner(structure, groups).session(X, Y, check_settings(learner))
    n, planes, values = len(session.data.truth), [], []
    for scale in (0.0, 0.1, 1.0, 5.0, 30.0):
        for _ in range(8):
            planes.append(session.log_loss_of(scale * rng.standard_normal((n, 3)),
                                              scale * rng.standard_normal((5, 3)))[1])
    grams = plane_grams(session.groups, planes)
    weights = np.concatenate([np.eye(len(planes)), rng.dirichlet(np.full(len(planes), 0.2), 200)])
    squares = np.einsum("ae,kef,af->ak", weights, grams, weights)
    bounds = weights @ [offset for _, _, offset in planes] - squares.max(axis=1) / (2.0 * lam)
    for scale in (0.0, 0.01, 0.1, 1.0):
        for _ in range(10):
            for group, rows_ in zip(session.groups, (n, n, n, 5), strict=True):
                group.place(scale * rng.standard_normal((rows_, 3)))
                group.renew()
            values.append(0.5 * lam * session.norms().sum() ** 2 + session.risk())
    assert bounds.max() <= min(values)
    best = learner.__class__(groups, model=learner.model, lam=lam, loss="logistic", solver="certified",
                             tol=1e-6).fit(X, Y)
    assert bounds.max() <= best.objective_ <= min(values)
    assert bounds.max() > 0.3 * best.objective_         # of those, some are not far


@pytest.mark.parametrize("lam", [1e-12, 1e-6, 1e6, 1e300])
def test_bounds_hold_at_the_ends_of_the_range(lam):
    X, y = (np.concatenate(part) for part in chains(n=20))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        learner = OnlineMKL([Linear(), Gaussian()], lam=lam, loss="logistic", solver="certified", max_iter=25)
        learner.fit(X, y)
    assert 0.0 <= learner.lower_bound_ <= learner.objective_
    assert learner.lower_bound_ <= np.log(3.0) * (1.0 + 1e-12)
    if lam >= 1e6:
        assert learner.gap_ < 1e-3


def test_groups_that_say_nothing_get_no_weight():
    X, y = (np.concatenate(part) for part in chains(n=20))
    options = {"lam": 0.05, "loss": "logistic", "solver": "certified", "tol": 1e-6}
    nothing = OnlineMKL([Linear(), Features()], **options).fit(0.0 * X, y)
    assert nothing.objective_ == pytest.approx(np.log(3.0), rel=1e-12)
    assert nothing.gap_ <= 1e-12
    assert not nothing.norms_.any()
    noise = np.random.default_rng(5).standard_normal((len(X), 1))
    learner = OnlineMKL([Linear(), Linear(columns=[4])], **options).fit(np.hstack([X, noise]), y)
    alone = OnlineMKL([Linear(columns=slice(0, 5))], **options).fit(np.hstack([X, noise]), y)
    assert learner.weights_[1] < 1e-2
    assert learner.objective_ <= alone.objective_ * (1.0 + 1e-6)


def test_any_number_of_threads_gives_the_same_bits():
    X, Y = chains(n=60)
    one, two = (OnlineMKL([Gaussian(2.0), Features()], model=pb.models.Chain(3, 4), lam=0.01, loss="logistic",
                          solver="certified", n_jobs=n).fit(X, Y) for n in (1, 3))
    assert (one.objective_, one.lower_bound_) == (two.objective_, two.lower_bound_)
    for a, b in zip(one.decision_function(X), two.decision_function(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_directions_that_rounding_spoils_begin_afresh(monkeypatch):
    plain = Pairs.direction
    monkeypatch.setattr(Pairs, "direction", lambda self, gradient, resting=None: (
        gradient if len(self) > 2 else plain(self, gradient, resting)))
    X, y = (np.concatenate(part) for part in chains())
    learner = OnlineMKL([Gaussian(2.0), Linear()], lam=0.1, loss="logistic", solver="certified", tol=1e-3).fit(X, y)
    assert learner.gap_ <= 1e-3


def test_unfinished_runs_warn():
    X, Y = chains()
    with pytest.warns(pb.ConvergenceWarning, match="max_iter"):
        OnlineMKL([Gaussian()], model=pb.models.Chain(3, 4), lam=1e-4, loss="logistic", solver="certified",
                  max_iter=3).fit(X, Y)


def test_a_norm_that_rounds_to_zero_is_no_zero():
    """Coefficients of 1/(n lam) that a Gram matrix of rank 2 all but cancels, some 1e10 times the norm."""
    rng = np.random.default_rng(1)
    X = np.vstack([rng.standard_normal((8, 2))] * 3)
    y = rng.integers(0, 2, 24)
    for lam in (1e-12, 1e-11, 1e-10):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pb.ConvergenceWarning)
            learner = OnlineMKL([Linear(**PLAIN)], lam=lam, loss="logistic", solver="certified", tol=1e-12,
                                max_iter=100).fit(X, y)
        features = OnlineMKL([Features()], lam=lam, loss="logistic", solver="certified", tol=1e-9).fit(X, y)
        assert learner.objective_ == pytest.approx(features.objective_, rel=1e-6)


def test_signs_are_kept():
    rng = np.random.default_rng(0)
    model = pb.models.Landmarks((4, 4), [-1, 0], pb.features.MapFeatures(2))
    X, Y = rng.standard_normal((12, 16, 2)), rng.integers(0, 4, (12, 2, 2))
    groups = (np.arange(model.dim) >= model.n_appearance).astype(int)
    learner = OnlineMKL(groups, model=model, lam=0.1, loss="logistic", solver="certified", tol=1e-4).fit(X, Y)
    theta = learner.coef_
    assert learner.gap_ <= 1e-4
    assert (theta[model.nonneg] >= 0.0).all()
    risk, least = pb.risks.Structured(model, X, Y, loss="logistic"), learner.lower_bound_
    for _ in range(20):
        point = theta * rng.uniform(0.7, 1.3, model.dim) + 0.1 * np.abs(rng.standard_normal(model.dim))
        norms = np.sqrt(np.bincount(groups, point**2))
        assert 0.05 * norms.sum() ** 2 + risk.values(point)[0].sum() / len(X) >= least
