"""The problem of all known planes: its pieces against slow twins, and the n-slack method that solves it."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.known_planes import curvature, proximal_step
from signs import signed

import pybundle as pb
from pybundle.solvers.block import oracle_pass
from pybundle.solvers.block._bcfw import Blocks
from pybundle.solvers.newton._faces import GramProduct
from pybundle.solvers.newton._proximal_steps import plane_step
from pybundle.solvers.newton.known_planes import KnownPlanes, PlaneMultipliers
from pybundle.solvers.newton.plane_master import PlaneMaster


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def planes(rng, n=40, m=150, dim=7):
    rows = np.sort(rng.integers(0, n, m))
    slopes = sp.csr_array(rng.integers(-3, 4, (m, dim)) / 4.0 * (rng.random((m, dim)) < 0.5))
    return rows, rng.random(m) * 2.0, slopes


def feasible(rng, risk):
    alpha = rng.exponential(size=risk.starts[-1]) * (rng.random(risk.starts[-1]) < 0.6)
    alpha[risk.starts[:-1]] += 1e-3
    return alpha / np.repeat(np.add.reduceat(alpha, risk.starts[:-1]), np.diff(risk.starts))


def chains(n=60, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(4, 5))
    Y = [rng.integers(0, 4, size).astype(np.int32) for size in rng.integers(1, 7, n)]
    return pb.risks.Structured(pb.models.Chain(4, 5), [centres[y] + rng.normal(size=(len(y), 5)) for y in Y], Y)


@pytest.mark.parametrize("sigma", [1e-6, 0.3, 50.0])
def test_proximal_step_projects_every_block(sigma, rng):
    risk = KnownPlanes(40, *planes(rng))
    alpha, scores = feasible(rng, risk), risk.scores(rng.normal(size=risk.dim))
    step = PlaneMultipliers(risk).step(alpha, scores, sigma)
    a, smooth, value = proximal_step(risk.starts, alpha, scores + risk.losses, sigma)
    np.testing.assert_allclose(step.alpha, a, atol=1e-13)
    assert step.smooth == pytest.approx(smooth) and step.risk == pytest.approx(value)
    assert step.offset == pytest.approx(a @ risk.losses)
    assert (step.support == np.add.reduceat(step.alpha > 0.0, risk.starts[:-1])).all()
    assert step.smooth <= step.risk + 1e-12         # a smooth lower bound


def test_step_refuses_arrays_that_do_not_fit():
    start, support = np.array([0, 2, 3]), np.empty(2, dtype=np.int32)
    for alpha, u, s in ((np.ones(3), np.ones(2), start), (np.ones(3), np.ones(3), np.array([0, 2, 4])),
                        (np.ones(3), np.ones(3), np.array([0, 0, 3])), (np.ones(3), np.ones(3), start[:2])):
        with pytest.raises(ValueError, match=r"start|shape"):
            plane_step(s, alpha, u, 1.0, np.empty(len(alpha)), support)


def test_faces_are_the_generalised_hessian(rng):
    risk = KnownPlanes(40, *planes(rng))
    m = PlaneMultipliers(risk)
    step = m.step(feasible(rng, risk), risk.scores(rng.normal(size=risk.dim)), 0.05)
    dense = np.zeros((risk.starts[-1], risk.dim))
    dense[risk.places] = risk.slopes.toarray()
    expected, faces = curvature(risk.starts, step.alpha, dense), m.faces(step)
    assert 0 < faces.n_rows < faces.rank and faces.fraction == 1.0
    np.testing.assert_allclose(faces.diagonal(), np.diag(expected), atol=1e-12)
    for v in np.eye(risk.dim):
        np.testing.assert_allclose(faces.product(v), expected @ v, atol=1e-12)
    few = m.faces(step, largest=7)
    assert few.n_rows <= 7 and few.fraction == pytest.approx(faces.n_rows / few.n_rows)


def test_faces_of_no_example(rng):
    risk = KnownPlanes(40, *planes(rng))
    m = PlaneMultipliers(risk)
    step = m.step(m.complete(np.zeros(len(risk.offsets))), np.zeros(risk.starts[-1]), 1e-12)
    step = step._replace(support=np.zeros_like(step.support))
    faces = m.faces(step)
    assert faces.rank == 0 and not faces.diagonal().any() and not faces.product(np.ones(risk.dim)).any()


def test_line_search_finds_the_minimum(rng):
    risk = KnownPlanes(40, *planes(rng))
    w0, w1 = rng.normal(size=(2, risk.dim))
    s0, s1, lam = risk.scores(w0), risk.scores(w1), 3.0
    move = w1 - w0
    t, value = risk.line_search(s0, s1, lam * w0 @ move, lam * move @ move)

    def fun(t):
        u = risk.losses + s0 + t * (s1 - s0)
        return lam / 2 * np.sum((w0 + t * move) ** 2) + np.maximum.reduceat(u, risk.starts[:-1]).sum()

    assert value == pytest.approx(fun(t) - lam / 2 * np.sum((w0 + t * move) ** 2))
    assert 0.0 < t < 1.0 and fun(t) <= min(fun(s) for s in np.linspace(0.0, 1.0, 2001)) + 1e-9


def test_assigned_multipliers_come_back(rng):
    rows, offsets, slopes = planes(rng)
    blocks = Blocks(40, slopes.shape[1])
    for i, offset, slope in zip(rows, offsets, slopes.toarray(), strict=True):
        blocks.add(np.array([i]), np.array([offset]), sp.csr_array(slope[None]))
    rows, offsets, _, slopes = blocks.arrays()
    risk = KnownPlanes(40, rows, offsets, slopes)
    alpha = feasible(rng, risk)
    blocks.assign(alpha[risk.places])
    np.testing.assert_array_equal(blocks.arrays()[2], alpha[risk.places])
    np.testing.assert_allclose(PlaneMultipliers(risk).complete(alpha[risk.places]), alpha, atol=1e-15)
    assert (blocks.sizes(True) == np.add.reduceat(alpha > 0.0, risk.starts[:-1])).all()
    plane = blocks.aggregate()
    assert plane.offset == pytest.approx(offsets @ alpha[risk.places])
    np.testing.assert_allclose(plane.slope, slopes.T @ alpha[risk.places], atol=1e-12)
    for bad in (alpha[:3], -np.ones(blocks.n_planes), np.full(blocks.n_planes, np.nan)):
        with pytest.raises(ValueError, match="alpha"):
            blocks.assign(bad)


def model(known, w):
    """F(w) of the planes alone, at lam = 1."""
    return 0.5 * w @ w + np.maximum.reduceat(known.scores(w) + known.losses, known.starts[:-1]).sum()


def test_master_reaches_its_minimum():
    risk = chains()
    found = pb.minimize(risk, lam=1.0, method="prox-bcfw", tol=1e-2)
    blocks = found.state.blocks.copy()
    master = PlaneMaster(blocks, 1.0, found.x)
    while not master.solve(1e-9):
        pass
    known = KnownPlanes(blocks.n_blocks, *(blocks.arrays()[k] for k in (0, 1, 3)))
    plane = blocks.aggregate()
    assert -1e-12 <= model(known, master.w) - (plane.offset - plane.slope @ plane.slope / 2.0) <= 1e-8


@pytest.mark.parametrize("sigma", [None, 100.0])
@pytest.mark.parametrize("target", [0.3, 0.1, 1e-3])
def test_master_hands_back_the_multipliers_of_its_best_bound(sigma, target):
    """It gave the last ones: after a longer step of the proximal method their bound may be much lower."""
    risk = chains()
    for tol in (1e-1, 1e-2):
        found = pb.minimize(risk, lam=1.0, method="prox-bcfw", tol=tol)
        blocks = found.state.blocks.copy()
        master = PlaneMaster(blocks, 1.0, found.x, sigma)
        while not master.solve(target):
            pass
        plane = blocks.aggregate()
        known = KnownPlanes(blocks.n_blocks, *(blocks.arrays()[k] for k in (0, 1, 3)))
        assert model(known, master.w) - (plane.offset - plane.slope @ plane.slope / 2.0) <= target * (1.0 + 1e-9)


@pytest.mark.parametrize("method", ["oca", "sgd"])
def test_starts_from_runs_without_blocks(method):
    """The first master had no planes, hence an endless step, which all later ones took over."""
    risk = chains()
    first = pb.minimize(risk, lam=0.5, tol=1e-1, method=method)
    result = pb.minimize(risk, lam=0.5, tol=1e-8, method="alm", warm_start=first)
    assert result.success and result.n_passes < 60


@pytest.mark.parametrize("lam", [0.05, 1.0, 20.0])
def test_n_slack_method_reaches_high_accuracy_in_few_passes(lam, monkeypatch):
    risk = chains()
    result = pb.minimize(risk, lam=lam, method="alm", tol=1e-9)
    other = pb.minimize(risk, lam=lam, method="prox-bcfw", tol=1e-8)
    assert result.success and result.certified and result.gap <= 1e-9
    assert result.lower_bound <= other.fun * (1 + 1e-14) and other.lower_bound <= result.fun * (1 + 1e-14)
    assert result.n_passes <= (1.0 if lam <= 1.0 else 2.0) * other.n_passes
    monkeypatch.setattr(oracle_pass, "EXAMPLES", 16)
    result, again = (pb.minimize(risk, lam=lam, method="alm", tol=1e-9, n_jobs=jobs) for jobs in (1, 3))
    assert (again.x == result.x).all() and again.lower_bound == result.lower_bound
    history = result.history
    assert (np.diff(history["lower_bound"]) >= 0.0).all() and (history["lower_bound"] <= result.fun).all()


def test_auto_polishes_where_the_tolerance_is_small():
    risk = chains()
    result = pb.minimize(risk, lam=0.5, tol=1e-9)
    assert result.success and "then 'alm'" in result.message
    loose = pb.minimize(risk, lam=0.5, tol=1e-2)
    again = pb.minimize(risk, lam=0.5, tol=1e-9, method="alm", warm_start=loose)
    assert again.success and again.fun == pytest.approx(result.fun, rel=1e-8)
    back = pb.minimize(risk, lam=0.4, tol=1e-3, method="prox-bcfw", warm_start=again)
    assert back.success and back.fun < result.fun


def test_options_of_the_newton_steps():
    risk = chains()
    result = pb.minimize(risk, lam=0.5, tol=1e-8, method="alm sigma=0.01 growth=3.0")
    other = pb.minimize(risk, lam=0.5, tol=1e-8, method="alm")
    assert result.success and not np.array_equal(result.history["lower_bound"], other.history["lower_bound"])
    with pytest.raises(pb.ParameterError, match="takes no constraints w_k >= 0"):
        pb.minimize(risk, penalty=signed(1.0, np.arange(risk.dim) < 2), method="alm")
    with pytest.raises(pb.ParameterError, match="examples"):
        pb.minimize(lambda w: (float(abs(w).sum()), np.sign(w)), np.ones(3), lam=1.0, method="alm")


def test_products_of_rows_of_any_length(rng):
    """Rows of odd, even and no entries; an index outside the shape is refused before it is read."""
    A = rng.standard_normal((60, 9)) * (rng.random((60, 9)) < rng.random((60, 1)))
    A[[0, 7, 59]] = 0.0
    v = rng.standard_normal(9)
    np.testing.assert_allclose(GramProduct(sp.csr_array(A))(v), A.T @ (A @ v), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(GramProduct(sp.csr_array((3, 9)))(v), np.zeros(9))
    with pytest.raises(ValueError, match="9 entries, got 8"):
        GramProduct(sp.csr_array(A))(v[:8])
    with pytest.raises(ValueError, match="format csr"):
        GramProduct(sp.csc_array(A))
    broken = sp.csr_array(A)
    broken.indices[-1] = 9
    with pytest.raises(ValueError):
        GramProduct(broken)
