"""Certificates of multiple kernel learning: any model, the log-loss, mixtures of planes, scaled risks."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

import pybundle as pb
from pybundle.core.plane import Plane
from pybundle.mkl import Features, Gaussian, Linear, OnlineMKL, Precomputed
from pybundle.mkl.group_norms import GroupNorms
from pybundle.mkl.mixture_bound import KeptPlanes, best_bound
from pybundle.mkl.tokens import TokenSession
from pybundle.solvers.problem.problem import Problem


def chains(n=20, d=4, K=3, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((rng.integers(2, 5), d)) for _ in range(n)]
    return X, [np.argmax(x[:, :K] + 0.5 * rng.standard_normal((len(x), K)), axis=1).astype(np.int32) for x in X]


def chain_problem():
    X, Y = chains()
    model = pb.models.Chain(3, 4)
    W = model.split(np.arange(model.dim, dtype=float))[0]
    labels = np.full(model.dim, 2)
    labels[W[:, :2].astype(int).ravel()] = 0
    labels[W[:, 2:].astype(int).ravel()] = 1
    return model, X, Y, labels


def parser_problem():
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 5, (rng.integers(2, 6), 2)) for _ in range(20)]
    Y = [np.concatenate([[-1, 0], np.arange(1, len(x))]) for x in X]
    templates = ("h.word m.word", "h.pos m.pos direction", "m.pos distance")
    return pb.models.Dependency.hashed(8, ("word", "pos"), templates, blocks=True), X, Y, None


def landmark_problem():
    rng = np.random.default_rng(0)
    model = pb.models.Landmarks((4, 4), [-1, 0], pb.features.MapFeatures(2))
    return (model, rng.standard_normal((12, 16, 2)), rng.integers(0, 4, (12, 2, 2)),
            (np.arange(model.dim) >= model.n_appearance).astype(int))


def segmentation_problem():
    rng, widths = np.random.default_rng(2), np.array([1, 2, 3])
    Y = [rng.integers(0, 3, 3) for _ in range(12)]
    model = pb.models.Segmentation(3, widths)
    return model, [rng.normal(size=(widths[y].sum(), 3)) for y in Y], Y, np.arange(model.dim) % 3


def labeling_problem():
    images = pb.datasets.contrast_images(6, shape=(5, 5))
    model = pb.models.BinaryLabeling(images.X[0].nodes.shape[1], images.X[0].edge_features.shape[1])
    return model, images.X, images.y, model.nonneg.astype(int)


PROBLEMS = [(chain_problem, "hinge"), (chain_problem, "logistic"), (parser_problem, "hinge"),
            (parser_problem, "logistic"), (segmentation_problem, "hinge"), (landmark_problem, "hinge"),
            (labeling_problem, "hinge")]


def objective(theta, model, X, Y, labels, lam, loss):
    """F afresh, from the public risk."""
    norms = np.sqrt(np.bincount(labels, theta**2))
    return 0.5 * lam * norms.sum() ** 2 + pb.risks.Structured(model, X, Y, loss=loss).values(theta)[0].sum() / len(X)


@pytest.mark.parametrize(("make", "loss"), PROBLEMS)
def test_any_model_is_certified(make, loss):
    model, X, Y, groups = make()
    lam, tol = 0.3, 2e-2
    learner = OnlineMKL(groups, model=model, lam=lam, loss=loss, solver="certified", tol=tol, random_state=0).fit(X, Y)
    labels = np.arange(model.dim) >> 8 if groups is None else groups
    theta = learner.coef_
    value = objective(theta, model, X, Y, labels, lam, loss)
    assert abs(value - learner.objective_) <= 1e-9 * value
    assert learner.gap_ <= tol
    assert learner.lower_bound_ <= learner.objective_
    np.testing.assert_allclose(learner.norms_, np.sqrt(np.bincount(labels, theta**2)), atol=1e-12)
    if getattr(model, "nonneg", None) is not None:
        assert (theta[model.nonneg] >= 0.0).all()
    # no point is better than the bound
    rng, least = np.random.default_rng(1), learner.lower_bound_
    for scale in (0.5, 0.9, 1.1):
        assert objective(scale * theta, model, X, Y, labels, lam, loss) >= least
    for _ in range(5):
        point = theta * rng.uniform(0.8, 1.2, model.dim)
        assert objective(point, model, X, Y, labels, lam, loss) >= least


@pytest.mark.parametrize("lam", [1e-3, 0.05, 1e3])
def test_certified_solvers_meet(lam):
    model, X, Y, labels = chain_problem()
    tol = 1e-3 if lam < 1.0 else 1e-6           # of 1e3 the loss at 0 is all but a thousandth of F
    options = {"model": model, "lam": lam, "solver": "certified", "tol": tol, "random_state": 0}
    tokens = OnlineMKL([Features(slice(0, 2)), Features(slice(2, 4))], **options).fit(X, Y)
    weights = OnlineMKL(labels, **options).fit(X, Y)
    assert tokens.lower_bound_ <= weights.objective_
    assert weights.lower_bound_ <= tokens.objective_
    assert max(tokens.gap_, weights.gap_) <= tol
    np.testing.assert_allclose(weights.norms_, tokens.norms_, atol=0.1 * tokens.norms_.sum())


@pytest.mark.parametrize("name", ["chain", "flat"])
def test_log_loss_of_rounds_is_certified(name):
    options = {"lam": 0.1, "loss": "logistic", "eta0": 1.0, "n_epochs": 10, "random_state": 0}
    groups = [Features(slice(0, 2)), Features(slice(2, 4))]
    if name == "chain":
        model, X, Y, labels = chain_problem()
        learner = OnlineMKL(groups, model=model, **options).fit(X, Y)
    else:
        X, Y = (np.concatenate(part) for part in chains())
        model = pb.models.Multiclass(3, 4)
        labels = np.tile([0, 0, 1, 1], 3)
        learner = OnlineMKL(groups, **options).fit(X, Y)
    twin = OnlineMKL(labels, model=model, **options).fit(X, Y)
    best = OnlineMKL(labels, model=model, lam=0.1, loss="logistic", solver="certified", tol=1e-4).fit(X, Y)
    np.testing.assert_allclose(learner.objective_, twin.objective_, rtol=1e-9)
    for found in (learner, twin):
        assert 0.0 < found.lower_bound_ <= best.objective_
        assert best.lower_bound_ <= found.objective_
        assert found.gap_ < 0.2
    kernels = OnlineMKL([Linear(), Gaussian(2.0)], **(options | {"model": model if name == "chain" else None}))
    assert 0.0 < kernels.fit(X, Y).gap_ < 0.2


def test_mixtures_of_planes_bound_the_objective():
    """The bound holds for the model of the planes alone, whose minimum a fine search cannot beat."""
    rng = np.random.default_rng(0)
    labels, lam = np.array([0, 0, 1, 2]), 0.7
    slopes, offsets = rng.standard_normal((6, 4)), rng.uniform(0.0, 3.0, 6)
    planes = KeptPlanes(3, 6, GroupNorms(lam, labels, 3).products)
    for offset, slope in zip(offsets, slopes, strict=True):
        planes.add(Plane(offset, slope))
    bound, a = best_bound(offsets, planes.grams, lam)
    phi = a @ slopes
    assert abs(bound - (a @ offsets - max(np.bincount(labels, phi**2)) / (2.0 * lam))) < 1e-9
    assert (a >= 0.0).all() and a.sum() <= 1.0 + 1e-12
    points = rng.standard_normal((20000, 4)) * rng.uniform(0.0, 2.0, (20000, 1))
    norms = sum(np.sqrt((points[:, labels == k] ** 2).sum(axis=1)) for k in range(3))
    values = 0.5 * lam * norms**2 + np.maximum(offsets + points @ slopes.T, 0.0).max(axis=1, initial=0.0)
    assert bound <= values.min()
    # of the simplex, the bound is the largest
    for _ in range(300):
        other = rng.dirichlet(np.full(6, 0.3))
        other_phi = other @ slopes
        assert other @ offsets - max(np.bincount(labels, other_phi**2)) / (2.0 * lam) <= bound + 1e-3


@pytest.mark.parametrize("signs", [False, True])
def test_no_point_is_below_the_model_of_one_plane(signs):
    rng = np.random.default_rng(0)
    labels, nonneg = np.array([0, 0, 1, 2, 2]), np.array([True, False, False, True, True]) if signs else None
    problem = Problem(GroupNorms(0.7, labels, 3, nonneg))
    for _ in range(20):
        phi, least = rng.standard_normal(5), np.inf
        bound = problem.lower_bound(Plane(0.0, phi))
        others = problem.project(rng.standard_normal(5)) * rng.uniform(0.0, 3.0, (200, 1))
        for w in [problem.point(phi, 0.7), *others]:
            least = min(least, problem.value(w) + phi @ w)
        assert abs(least - bound) < 1e-12
        assert problem.lower_bound(Plane(0.0, phi, 0.1)) < bound


def test_threads_give_the_same_bits():
    model, X, Y, labels = chain_problem()
    for options in ({"solver": "certified", "tol": 1e-2}, {"eta0": 1.0}):
        one, two = (OnlineMKL(labels, model=model, lam=0.1, random_state=0, n_jobs=n, **options).fit(X, Y)
                    for n in (1, 3))
        np.testing.assert_array_equal(one.coef_, two.coef_)
        assert (one.objective_, one.lower_bound_) == (two.objective_, two.lower_bound_)
        for a, b in zip(one.predict(X), two.predict(X), strict=True):
            np.testing.assert_array_equal(a, b)
    groups = [Gaussian(2.0), Features()]
    X, y = (np.concatenate(part) for part in chains(n=500))
    for options in ({"solver": "certified", "tol": 0.2}, {"eta0": 1.0}, {"eta0": 1.0, "loss": "logistic"}):
        one, two = (OnlineMKL(groups, lam=0.1, n_epochs=2, random_state=0, n_jobs=n, **options).fit(X[:400], y[:400])
                    for n in (1, 3))
        assert (one.objective_, one.lower_bound_) == (two.objective_, two.lower_bound_)
        np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


@pytest.mark.parametrize("lam", [1e-12, 1e-6, 1e6, 1e300])
@pytest.mark.parametrize("solver", ["tokens", "weights", "log-loss", "online"])
def test_bounds_hold_at_the_ends_of_the_range(lam, solver):
    X, y = (np.concatenate(part) for part in chains())
    options = {"lam": lam, "random_state": 0, "max_iter": 15}
    if solver in ("tokens", "online"):
        options["solver"] = "certified" if solver == "tokens" else "online"
        learner = OnlineMKL([Linear(), Gaussian()], eta0=1.0, n_epochs=3, **options)
    else:
        learner = OnlineMKL(np.tile([0, 0, 1, 1], 3), model=pb.models.Multiclass(3, 4), solver="certified",
                            loss="logistic" if solver == "log-loss" else "hinge", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        learner.fit(X, y)
    # theta = 0 is a point
    assert 0.0 <= learner.lower_bound_ <= learner.objective_
    assert learner.lower_bound_ <= (np.log(3.0) if solver == "log-loss" else 1.0) * (1.0 + 1e-12)
    if lam >= 1e6:
        assert learner.gap_ < 1e-3


def test_groups_without_any_feature_that_is_not_zero():
    X, y = (np.concatenate(part) for part in chains())
    for learner in (OnlineMKL([Linear(), Features()], lam=0.1, eta0=1.0),
                    OnlineMKL([Linear(), Features()], lam=0.1, solver="certified"),
                    OnlineMKL(np.tile([0, 0, 1, 1], 3), model=pb.models.Multiclass(3, 4), lam=0.1, solver="certified")):
        learner.fit(0.0 * X, y)
        assert (learner.objective_, learner.norms_.sum()) == (1.0, 0.0)
        assert learner.gap_ < 1e-12             # rounding counts


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("kind", ["tokens", "weights"])
def test_interrupts_keep_the_best_point(monkeypatch, kind, loss):
    model, X, Y, labels = chain_problem()
    n_calls, lam = 0, 0.05
    plain = KeptPlanes.proven

    def bound(self, *arguments, **options):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 6:
            raise KeyboardInterrupt
        return plain(self, *arguments, **options)

    monkeypatch.setattr(KeptPlanes, "proven", bound)
    groups = [Features(slice(0, 2)), Linear(columns=slice(2, 4), normalise=False)] if kind == "tokens" else labels
    learner = OnlineMKL(groups, model=model, lam=lam, loss=loss, solver="certified", tol=1e-9, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        learner.fit(X, Y)
    assert n_calls >= 6
    finished = OnlineMKL(groups, model=model, lam=lam, loss=loss, solver="certified", tol=1e-3).fit(X, Y)
    assert 0.0 < learner.lower_bound_ <= finished.objective_
    assert finished.lower_bound_ <= learner.objective_ < (np.log(3.0) if loss == "logistic" else 1.0) * max(map(len, Y))
    assert learner.objective_ <= learner.history_["objective"].min() * (1.0 + 1e-9)
    assert learner.gap_ == pytest.approx(1.0 - learner.lower_bound_ / learner.objective_)
    assert len(learner.predict(X)) == len(X)


def test_advice_fits_what_ended_the_run(monkeypatch):
    X, y = (np.concatenate(part) for part in chains())
    with pytest.warns(pb.ConvergenceWarning, match="raise max_iter or tol"):
        OnlineMKL([Linear()], lam=1e-3, loss="logistic", solver="certified", tol=1e-9, max_iter=3).fit(X, y)
    monkeypatch.setattr("pybundle.solvers.smooth.quasi_newton.QuasiNewtonSteps.trial", lambda self, first: None)
    with pytest.warns(pb.ConvergenceWarning, match="rounding prevents further descent"):
        OnlineMKL([Linear()], lam=1e-3, loss="logistic", solver="certified").fit(X, y)


def test_a_certified_learner_goes_on_by_rounds():
    X, y = (np.concatenate(part) for part in chains())
    learner = OnlineMKL([Linear()], lam=0.1, solver="certified").fit(X, y)
    with pytest.raises(pb.ParameterError, match="partial_fit needs"):
        learner.partial_fit(X, y)
    learner.solver, n_visits = "online", learner.n_rounds_ * len(y)
    learner.partial_fit(X, y)
    assert learner.n_rounds_ == n_visits + len(y) and learner.solver_ == "online" and np.isnan(learner.gap_)
    assert set(learner.history_) == {"seconds", "online", "weights"}
    learner.regulariser, learner.radius = pb.prox.L1(0.1), "auto"
    with pytest.raises(pb.ParameterError, match="radius='auto'"):
        learner.fit(X, y)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("lam", [1e-10, 1e-7, 1e-3])
def test_bounds_of_kernels_hold_in_exact_arithmetic(monkeypatch, lam, loss):
    """At lam = 1e-7 one was above by 4e-9: terms of the best plane cancel, and running sums drifted."""
    X, y = (np.concatenate(part)[:30] for part in chains())
    grams, planes, bound_of = [X @ X.T, (X @ X.T) ** 2], [], TokenSession._bound_of
    monkeypatch.setattr(TokenSession, "_bound_of", lambda self, mixed: planes.extend(mixed) or bound_of(self, mixed))
    most = 300 if loss == "hinge" else 60         # iterations of log-losses take longer
    options = {"tol": 1e-12, "max_iter": most, "precision": "float64", "random_state": 0, "loss": loss}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        kernels = [Precomputed(K, normalise=False) for K in grams]
        learner = OnlineMKL(kernels, lam=lam, solver="certified", **options).fit(np.arange(30)[:, None], y)
    [(coefs, _, offset)] = planes
    coefs = coefs if isinstance(coefs, np.ndarray) else coefs.toarray()
    columns = [[Fraction(float(c)) for c in column] for column in coefs.T]
    squares = [sum(a * b * Fraction(float(k)) for column in columns for a, row in zip(column, K, strict=True)
                   for b, k in zip(column, row, strict=True)) for K in grams]
    exact = Fraction(float(offset)) - max(squares) / (2 * Fraction(lam))
    assert 0.0 <= learner.lower_bound_ <= max(exact, 0)
    if lam == 1e-3:
        assert learner.lower_bound_ >= float(exact) * (1.0 - 1e-9) and learner.gap_ < 1e-4
