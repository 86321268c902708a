"""Methods against algorithms written out step by step, those of the papers or the package's variants: equal points."""

import numpy as np
import pytest
from reference.bmrm import bmrm, prox_bmrm
from reference.mp_bcfw import MPBCFW, Variant, chain, multiclass
from signs import signed

import pybundle as pb
from pybundle.solvers.block.block_method import BlockMethod

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


def hinge(X, y, n_parts):
    """The multiclass hinge; the smallest of the labels that tie, as they do in exact masters, is the best one."""
    parts, rows = [np.arange(len(y))[p::n_parts] for p in range(n_parts)], np.arange(len(y))

    def risk(w):
        margins = 1.0 + X @ w.reshape(K, -1).T
        margins[rows, y] -= 1.0
        labels = (margins >= margins.max(axis=1, keepdims=True) - 1e-7).argmax(axis=1)
        slopes = (np.eye(K)[labels] - np.eye(K)[y])[:, :, None] * X[:, None]
        values = margins[rows, labels] - margins[rows, y]
        return (np.array([values[p].sum() for p in parts]), np.array([slopes[p].sum(axis=0).ravel() for p in parts]))

    return risk


EXACT = {"stop": "published", "theta": 1e-12, "max_idle": 1000}


def asked_by(risk, w, n_parts, lam, method):
    """The points at which a run asks for planes, and its result: masters solved to rounding, no plane dropped."""
    asked = []

    def recorded(w):
        asked.append(np.array(w))
        return risk(w)

    result = pb.minimize(pb.risks.Function(recorded, len(w), n_parts, 0.0), w, n_parts=n_parts, tol=0.03, lam=lam,
                         method=pb.methods.parse(method, **EXACT))
    return asked, result


@pytest.mark.parametrize("zero_plane", [False, True])
@pytest.mark.parametrize("n_parts", [1, 4])
@pytest.mark.parametrize("loss", [hinge, log_loss])
def test_bmrm_asks_where_the_published_algorithm_does(loss, n_parts, zero_plane):
    """The papers' multipliers sum to 1; with the zero plane, which is the default, to at most 1."""
    X, y = blobs(100, 6)
    risk, lam, w = loss(X, y, n_parts), 2.0, np.zeros(6 * K)
    points, values = bmrm(risk, w, lam, n_parts, 0.03, has_zero=zero_plane)
    asked, result = asked_by(risk, w, n_parts, lam=lam, method=f"bmrm zero_plane={zero_plane}")
    assert result.nit == len(points) - 1 > 5
    np.testing.assert_allclose(asked[:len(points)], points, atol=1e-6)
    assert len(asked) <= len(points) + 1                                    # the certificate
    np.testing.assert_allclose(result.history["primal"], values[1:], rtol=1e-6)
    if loss is hinge and n_parts == 1:
        compiled = pb.minimize(pb.risks.MulticlassHinge(X, y), lam=lam, tol=0.03,
                               method=pb.methods.BMRM(zero_plane=zero_plane, **EXACT))
        np.testing.assert_allclose(compiled.history["primal"], values[1:], rtol=1e-6)


@pytest.mark.parametrize("zero_plane", [False, True])
@pytest.mark.parametrize("n_parts", [1, 4])
@pytest.mark.parametrize(("radius", "T"), [(0.4, 100), (0.2, 10)])
@pytest.mark.parametrize("loss", [hinge, log_loss])
def test_prox_bmrm_asks_where_algorithm_2_does(loss, n_parts, radius, T, zero_plane):
    """Trials, rejected ones included, tuned alphas, gamma and the stop."""
    risk, lam, w = loss(*blobs(40, 3), n_parts), 0.5, np.zeros(3 * K)
    points, alphas = prox_bmrm(risk, w, lam, n_parts, 0.03, radius, T, has_zero=zero_plane)
    asked, result = asked_by(risk, w, n_parts, lam=lam,
                             method=f"prox-bmrm K={radius} T={T} zero_plane={zero_plane}")
    assert result.nit == len(alphas) and len(set(alphas)) > 1
    assert len(points) > len(alphas) + 1                                    # trials were rejected
    np.testing.assert_allclose(asked[:len(points)], points, atol=1e-6)
    assert len(asked) <= len(points) + 1


def problem(name):
    """A risk, and the oracle that the twins of MP-BCFW ask for it."""
    if name == "multiclass":
        X, y = blobs(60, 5, 10)         # so many labels that planes in use become idle, too
        return pb.risks.MulticlassHinge(X, y), multiclass(X, y, 10)
    rng = np.random.default_rng(3)
    Y = [rng.integers(0, 3, size).astype(np.int32) for size in rng.integers(2, 6, 30)]
    X = [rng.normal(size=(3, 4))[y] + 1.5 * rng.normal(size=(len(y), 4)) for y in Y]
    return pb.risks.Structured(pb.models.Chain(3, 4), X, Y), chain(X, Y, 3)


@pytest.mark.parametrize("lam", [3.0, 0.3])
def test_mp_bcfw_takes_the_steps_of_its_twin(lam):
    """Steps, order, working sets, the slope rule and forgetting: bounds agree to rounding after every iteration."""
    (risk, oracle), counted, values = problem("multiclass"), [], {}
    twin = Variant(oracle, risk.n_examples, risk.dim, lam, np.random.default_rng(1))
    result = pb.minimize(risk, lam=lam, method="mp-bcfw", tol=1e-9, max_iter=18, random_state=1,
                         callback=lambda progress: counted.append(progress.n_planes))
    duals, planes = [], []
    for k in range(1, 19):
        if k % 6 == 0:
            values[k] = twin.certify()
        else:
            twin.iterate()
        duals.append(twin.dual())
        planes.append(twin.n_planes())
    np.testing.assert_allclose(result.history["lower_bound"], np.maximum.accumulate(duals), rtol=1e-9)
    np.testing.assert_allclose([result.history["primal"][k - 1] for k in values], list(values.values()), rtol=1e-9)
    assert counted == planes
    assert twin.n_cached > 18                                               # the slope rule let passes go on


PUBLISHED = [
    ("multiclass", 3.0, {}), ("multiclass", 0.3, {}), ("multiclass", 0.3, {"max_idle": 3, "max_planes": 4}),
    ("multiclass", 1.0, {"cost": 300.0, "max_cached": 7}), ("chain", 1.0, {}), ("chain", 0.1, {"max_idle": 2})]


# each problem with both values of `average` and of `signs`, and each pair of these values
@pytest.mark.parametrize(("name", "lam", "options", "average", "signs"), [
    (*case, average, average == (k % 2 == 0)) for k, case in enumerate(PUBLISHED) for average in (False, True)])
def test_mp_bcfw_visiting_all_planes_is_the_published_algorithm(name, lam, options, average, signs, monkeypatch):
    """Points, planes, the dual, working sets, cached passes and averages agree after every iteration."""
    (risk, oracle), seen, end = problem(name), [], BlockMethod.iterate
    nonneg = np.arange(risk.dim) % 3 == 0 if signs else None
    options = {"max_idle": 10, "max_planes": 100} | options

    def iterate(run):
        status, blocks = end(run), run.core.blocks
        last = blocks.__reduce__()[1][3]["last"]        # -1 for planes outside the working sets
        seen.append((run.core.w.copy(), run.core.phi(), blocks.offset, int((last >= 0).sum()),
                     run.core.cached_visits / risk.n_examples))
        return status

    monkeypatch.setattr(BlockMethod, "iterate", iterate)
    result = pb.minimize(risk, penalty=pb.prox.SquaredL2(lam) if nonneg is None else signed(lam, nonneg), tol=1e-9,
                         max_iter=18, random_state=1,
                         method=pb.methods.MPBCFW(visit="all", average=average, **options))
    twin = MPBCFW(oracle, risk.n_examples, risk.dim, lam, np.random.default_rng(1), nonneg=nonneg,
                  average=average, **options)
    duals, sizes = [], set()
    for k, (w, phi, B, n_planes, n_cached) in enumerate(seen, 1):
        if k % 6:
            twin.iterate()
        else:
            value = twin.certify(twin.project(twin.best_average()[0]) if average else None)
            assert result.history["primal"][k - 1] == pytest.approx(value, rel=1e-6 if average else 1e-9)
        duals.append(twin.dual())
        size = np.abs(twin.sums()[0]).max()
        np.testing.assert_allclose(w, twin.w, atol=1e-9 * size / lam)
        np.testing.assert_allclose(phi, twin.sums()[0], atol=1e-9 * size)
        assert B == pytest.approx(twin.sums()[1], rel=1e-9)
        assert (n_planes, n_cached) == (twin.n_planes(), twin.n_cached)
        sizes.update(map(len, twin.blocks))
    assert len(seen) == 18 and twin.n_cached > 18
    np.testing.assert_allclose(result.history["lower_bound"], np.maximum.accumulate(duals), rtol=1e-9)
    assert max(sizes) == options["max_planes"] or 3 < max(sizes) < options["max_planes"] == 100
