"""Linear constraints of `minimize`: optima of other solvers, bounds in exact arithmetic, feasible points, refusals."""

import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import LinearConstraint, linprog, minimize

import pybundle as pb
from pybundle import prox as pp
from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.core.plane import Plane, Planes
from pybundle.runtime.lower_bound import LowerBound, certify
from pybundle.runtime.stopping import relative_gap
from pybundle.solvers.arguments import make_problem
from pybundle.solvers.bundle.constraints import Rows, as_rows, check_feasible
from pybundle.solvers.bundle.master import plane_of
from pybundle.solvers.methods import METHODS
from pybundle.solvers.problem.problem import Problem

D, N = 5, 30


def rows(rng, d=D):
    """An equality, a range, a one-sided row and one that never binds, with a point that meets them."""
    A, x = rng.standard_normal((4, d)), 0.3 * rng.standard_normal(d)
    at = A @ x
    return A, np.array([at[0], at[1] - 0.1, -np.inf, at[3] - 50.0]), np.array([at[0], at[1] + 0.1, at[2], np.inf]), x


def pieces(kind, rng):
    """Rows of `max(offsets + slopes w)` for each example, and the risk."""
    X = rng.standard_normal((N, D))
    if kind == "hinge":
        y = np.where(X @ rng.standard_normal(D) > 0.0, 1, -1)
        return (np.stack([np.zeros((N, D)), -y[:, None] * X]), np.stack([np.zeros(N), np.ones(N)]),
                pb.risks.BinaryHinge(X, y))
    y = X @ rng.standard_normal(D) + rng.standard_normal(N)
    slopes, offsets = np.stack([-0.7 * X, 0.3 * X]), np.stack([0.7 * y, -0.3 * y])
    if kind == "pinball":
        return slopes, offsets, pb.risks.Pinball(X, y, 0.7)

    def fun(w):
        values = offsets + slopes @ w
        chosen = values.argmax(axis=0)
        return values.max(axis=0).sum(), slopes[chosen, np.arange(N)].sum(axis=0)
    return slopes, offsets, pb.risks.Function(fun, D, lower_bounds=[0.0])


PENALTIES = {
    "lam": pp.Separable(l2=2.0),
    "l1": pp.Separable(l1=1.5),
    "box": pp.Separable(lower=-0.8, upper=0.8),
    "elastic net in a box": pp.Separable(l2=1.0, l1=0.5, lower=-0.7, upper=0.9),
}


def optimum(omega, slopes, offsets, A, lower, upper):
    """By a linear program without squares, else by SLSQP from its form with slacks."""
    omega = omega.canonical(D)
    # unknowns w+, w-, losses
    G = np.vstack([np.hstack([s, -s, -np.eye(N)]) for s in slopes])
    h = -np.concatenate(list(offsets))
    above, below = upper < np.inf, lower > -np.inf
    C, u = np.vstack([A[above], -A[below]]), np.concatenate([upper[above], -lower[below]])
    box = np.vstack([np.eye(D), -np.eye(D)])
    limits = np.concatenate([omega.upper, -omega.lower])
    C, u = np.vstack([C, box[limits < np.inf]]), np.concatenate([u, limits[limits < np.inf]])
    C = np.hstack([C, -C, np.zeros((len(C), N))])
    M, m = np.vstack([G, C]), np.concatenate([h, u])
    cost = np.concatenate([omega.l1, omega.l1, np.ones(N)])
    if not omega.l2.any():
        return linprog(cost, A_ub=M, b_ub=m, bounds=[(0, None)] * (2 * D) + [(None, None)] * N).fun
    start = linprog(cost, A_ub=M, b_ub=m, bounds=[(0, None)] * (2 * D) + [(None, None)] * N).x

    def value(z):
        w = z[:D] - z[D:2 * D]
        slope = np.concatenate([omega.l2 * w, -omega.l2 * w, np.zeros(N)])
        return cost @ z + 0.5 * omega.l2 @ w**2, cost + slope
    found = minimize(value, start, jac=True, method="SLSQP", bounds=[(0, None)] * (2 * D) + [(None, None)] * N,
                     constraints={"type": "ineq", "fun": lambda z: m - M @ z, "jac": lambda z: -M},
                     options={"ftol": 1e-11, "maxiter": 500})
    assert found.success, found.message
    return found.fun


@pytest.mark.parametrize("kind", ["hinge", "pinball", "callable"])
@pytest.mark.parametrize("name", PENALTIES)
def test_the_optimum_is_that_of_another_solver(kind, name):
    """Value within 1e-6, bound below the other value, point feasible."""
    for seed in range(2):
        rng = np.random.default_rng([seed, len(kind), len(name)])
        A, lower, upper, _ = rows(rng)
        slopes, offsets, risk = pieces(kind, rng)
        result = pb.minimize(risk, penalty=PENALTIES[name], constraints=(A, lower, upper), tol=1e-7)
        assert result.success and result.lower_bound <= result.fun
        best = optimum(PENALTIES[name], slopes, offsets, A, lower, upper)
        assert abs(result.fun - best) <= 1e-6 * abs(best)
        assert result.lower_bound <= best + 1e-9 * abs(best)
        at, terms = A @ result.x, np.abs(A) @ np.abs(result.x)
        assert (at >= lower - 1e-9 * (terms + np.abs(lower))).all()
        assert (at <= upper + 1e-9 * (terms + np.abs(upper))).all()
        fun = PENALTIES[name].value(result.x) + (offsets + slopes @ result.x).max(axis=0).sum()
        assert result.fun == pytest.approx(fun, rel=1e-12)


def exact_value(omega, slopes, offsets, w):
    """F at a rational point, exactly."""
    total = Fraction(0)
    for x, l2, l1, c in zip(w, *(getattr(omega, name).tolist() for name in ("l2", "l1", "centre")), strict=True):
        total += Fraction(l2) / 2 * (x - Fraction(c))**2 + Fraction(l1) * abs(x)
    for i in range(slopes.shape[1]):
        total += max(Fraction(b) + sum(Fraction(a) * x for a, x in zip(s, w, strict=True))
                     for s, b in zip(slopes[:, i].tolist(), offsets[:, i].tolist(), strict=True))
    return total


def exactly_feasible(x, A, lower, upper, inside):
    """The rational point nearest to x on the way to `inside` that meets all rows exactly.

    The first row is the equation `sum w = upper[0]`; `inside` meets it, and all others strictly.
    """
    x, inside = ([Fraction(v) for v in point] for point in (x.tolist(), inside.tolist()))
    x[-1] += Fraction(float(upper[0])) - sum(x)
    t = Fraction(0)
    for a, low, high in zip(A[1:].tolist(), lower[1:].tolist(), upper[1:].tolist(), strict=True):
        at, safe = (sum(Fraction(c) * v for c, v in zip(a, point, strict=True)) for point in (x, inside))
        if at > high:
            t = max(t, (at - Fraction(high)) / (at - safe))
        if at < low:
            t = max(t, (Fraction(low) - at) / (safe - at))
    return [(1 - t) * v + t * s for v, s in zip(x, inside, strict=True)]


@pytest.mark.parametrize("seed", range(12))
def test_the_bound_holds_in_exact_arithmetic(seed):
    """Rows, columns and rates of very different sizes; the values are those of points that meet the rows exactly."""
    rng = np.random.default_rng([7, seed])
    kind = ["hinge", "pinball"][seed % 2]
    slopes, offsets, _ = pieces(kind, rng)
    columns = 10.0 ** rng.integers(-3, 4, D) if seed % 3 else np.ones(D)
    slopes = slopes * columns
    inside = np.round(8.0 * rng.standard_normal(D)) / 8.0
    A = np.vstack([np.ones(D), rng.integers(-3, 4, (4, D)) * 10.0 ** rng.integers(-4, 5, (4, 1))])
    margin = 10.0 ** rng.uniform(-6, 1, 4) * (np.abs(A[1:]).sum(axis=1) + 1.0)
    lower, upper = np.r_[inside.sum(), A[1:] @ inside - margin], np.r_[inside.sum(), A[1:] @ inside + margin]
    omega = pp.Separable(rng.choice([0.0, 1.0, 1e-4, 1e3], D) if seed % 4 else np.ones(D), rng.choice([0.0, 1.0], D),
                         rng.choice([0.0, 1.0], D))

    def fun(w):
        values = offsets + slopes @ w
        chosen = values.argmax(axis=0)
        return values.max(axis=0).sum(), slopes[chosen, np.arange(N)].sum(axis=0)
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # some do not reach their tolerance
        for tol, most in ((0.1, 30), (1e-8, 100)):
            results.append(pb.minimize(pb.risks.Function(fun, D, lower_bounds=[0.0]), penalty=omega, tol=tol,
                                       constraints=(A, lower, upper), max_iter=most))
    values = [exact_value(omega.canonical(D), slopes, offsets, exactly_feasible(r.x, A, lower, upper, inside))
              for r in results]
    for result in results:
        assert np.isfinite(result.fun) and Fraction(result.lower_bound) <= min(values)
        assert Rows(sp.csr_array(np.vstack([A, -A])), np.r_[upper, -lower]).contains(result.x)
    assert results[0].success


@pytest.mark.parametrize("seed", range(20))
def test_any_multipliers_of_rows_prove_a_bound(seed):
    """Weak duality in exact arithmetic: aggregate planes with random multipliers lie below F at feasible points."""
    rng = np.random.default_rng([8, seed])
    inside = rng.integers(-4, 5, D).astype(float)
    A = rng.integers(-3, 4, (6, D)) * 10.0 ** rng.integers(-6, 7, (6, 1))
    exact = [sum(Fraction(a) * Fraction(x) for a, x in zip(row, inside.tolist(), strict=True)) for row in A.tolist()]
    upper = np.array([np.nextafter(float(v), np.inf) for v in exact])       # not below the exact value
    rows = Rows(sp.csr_array(A), upper)
    omega = pp.Separable(rng.choice([1.0, 1e-4, 1e5], D), rng.choice([0.0, 2.0], D), rng.standard_normal(D))
    omega = omega.canonical(D)
    objective, parts = Problem(omega, 0.0, rows=rows), -1 - np.arange(6)
    for _ in range(30):
        phi, y = rng.standard_normal(D) * 10.0 ** rng.integers(-6, 7), 10.0 ** rng.uniform(-8, 8, 6)
        bound = LowerBound.of(objective, rows.relax(Plane(0.0, phi), parts, y)).value
        value = sum(Fraction(l2) / 2 * (Fraction(x) - Fraction(c))**2 + Fraction(l1) * abs(Fraction(x))
                    + Fraction(f) * Fraction(x) for x, l2, l1, c, f in
                    zip(inside.tolist(), omega.l2.tolist(), omega.l1.tolist(), omega.centre.tolist(), phi.tolist(),
                        strict=True))
        assert Fraction(bound) <= value


def test_the_rounding_of_rows_counts_in_the_bound_of_a_bundle():
    rng = np.random.default_rng(4)
    rows = Rows(sp.csr_array(1e6 * rng.standard_normal((2, D))), 1e6 * np.ones(2))
    objective, bundle = Problem(pp.Separable(1.0).canonical(D), 0.0, rows=rows), pb.bundle.Bundle(D, 1)
    bundle.append(Planes(np.ones(1), np.ones(1), rng.standard_normal((1, D))))
    bundle.append(rows.planes(np.arange(2), bundle.is_sparse), parts=-1 - np.arange(2))
    beta = np.array([1.0, 0.5, 2.0])
    found = plane_of(bundle, np.array([True]), objective, beta, np.zeros(1), np.zeros(1))
    alone = rows.relax(Plane(0.0, np.zeros(D)), bundle.parts, beta)
    assert found.slope_error > alone.slope_error > 0.0 and found.offset_error > alone.offset_error > 0.0


@pytest.mark.parametrize("size", [1.0, 1e9])
def test_squares_of_rows_are_those_in_coordinates(size):
    """In fractions. Hardly anything is left there of multiples of (m, 1), but their squares stay positive."""
    rng = np.random.default_rng(2)
    means = np.r_[size * (1.0 + rng.random(3)), 0.0]
    A = np.vstack([np.eye(4), rng.standard_normal((3, 4)), np.outer(rng.random(9), np.r_[means[:3], 1.0])])
    found = Rows(sp.csr_array(A), np.ones(len(A))).squares(means)
    for row, square in zip(A.tolist(), found.tolist(), strict=True):
        inner = [Fraction(a) - Fraction(row[-1]) * Fraction(m) for a, m in zip(row, means.tolist(), strict=True)]
        terms = sum(a * a for a in row) + row[-1] ** 2 * float(means @ means)
        assert square > 0.0 and abs(Fraction(square) - sum(a * a for a in inner)) <= Fraction(1e-14 * terms)


@pytest.mark.parametrize("seed", range(20))
def test_implied_bounds_hold_and_points_are_projected(seed):
    """Bounds that follow from rows are those of linear programs or wider; projections are feasible and nearest."""
    rng = np.random.default_rng([9, seed])
    A, lower, upper, inside = rows(rng, 6)
    A *= rng.random(A.shape) < 0.5
    lower, upper = np.minimum(lower, A @ inside), np.maximum(upper, A @ inside)
    found = as_rows((A, lower, upper), 6)
    low = np.where(rng.random(6) < 0.5, inside - 1.0, -np.inf)
    high = np.where(rng.random(6) < 0.5, inside + 1.0, np.inf)
    implied = found.implied(low, high)
    for k in range(6):
        for sign, bound in ((1.0, implied[0][k]), (-1.0, -implied[1][k])):
            best = linprog(sign * np.eye(6)[k], A_ub=found.A.toarray(), b_ub=found.upper, bounds=list(zip(low, high,
                                                                                                      strict=True)))
            assert bound == -np.inf or best.fun >= bound
    objective = Problem(pp.Box(low, high).canonical(6), 0.0, rows=found)
    x = 3.0 * rng.standard_normal(6)
    p = objective.project(x)
    assert objective.contains(p) and objective.project(p) is p
    assert (x - p) @ (inside - p) <= 1e-7 * (1.0 + np.linalg.norm(x - p))        # the variational inequality


def test_forms_of_constraints_give_the_same_result():
    """Dense, sparse, SciPy's, lists, and redundant rows."""
    rng = np.random.default_rng(4)
    A, lower, upper, _ = rows(rng)
    _, _, risk = pieces("hinge", rng)
    forms = [(A, lower, upper), (sp.coo_matrix(A), lower, upper), LinearConstraint(A, lower, upper),
             [(A[:2], lower[:2], upper[:2]), LinearConstraint(A[2:], lower[2:], upper[2:])],
             ((A[:2], lower[:2], upper[:2]), LinearConstraint(A[2:], lower[2:], upper[2:])),
             ((A[:2], lower[:2], upper[:2]), (A[2:], lower[2:], upper[2:])),
             (A, [None if bound == -np.inf else bound for bound in lower], upper.tolist()),
             [(A, None, upper), (A, lower, None), (A, None, None)], (tuple(map(tuple, A)), tuple(lower), tuple(upper)),
             (np.vstack([A, A]), np.tile(lower, 2), np.tile(upper, 2))]
    found = [pb.minimize(risk, lam=1.0, constraints=form, tol=1e-8).fun for form in forms]
    np.testing.assert_allclose(found, found[0], rtol=2e-8)


def test_monotone_weights_with_an_intercept_in_the_mean_scale():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((200, 6))
    y = X @ np.array([0.0, 1.0, 0.5, 2.0, 1.5, 3.0]) + 4.0 + rng.standard_normal(200)
    A = sp.diags([-1.0, 1.0], [0, 1], shape=(5, 7))
    risk = pb.risks.Pinball(X, y, 0.5, fit_intercept=True)
    result = pb.minimize(risk, lam=0.01, constraints=(A, 0.0, np.inf), scale="mean", tol=1e-6)
    free = pb.minimize(risk, lam=0.01, scale="mean", tol=1e-6)
    assert result.success and result.lower_bound <= result.fun and result.fun >= free.lower_bound
    assert (np.diff(result.x[:6]) >= -1e-9).all() and abs(result.x[6] - 4.0) < 0.5


@pytest.mark.parametrize("n_parts", [1, 3])
def test_planes_travel_between_problems_with_other_constraints(n_parts):
    """Warm starts to, from and between constraints: bounds of one problem are not taken for those of another."""
    rng = np.random.default_rng(10)
    A, lower, upper, _ = rows(rng)
    _, _, risk = pieces("hinge", rng)
    problems = [{}, {"constraints": (A, lower, upper)}, {"constraints": (A, lower - 1.0, upper + 1.0)},
                {"constraints": (np.ones((1, D)), -np.inf, -0.5)}]
    cold = [pb.minimize(risk, lam=1.0, tol=1e-7, n_parts=n_parts, method="oca", **problem) for problem in problems]
    for first in cold:
        for problem, expected in zip(problems, cold, strict=True):
            warm = pb.minimize(risk, lam=1.0, tol=1e-7, n_parts=n_parts, method="oca", warm_start=first, **problem)
            assert warm.success and warm.lower_bound <= expected.fun and expected.lower_bound <= warm.fun


def test_a_path_and_a_checkpoint_with_constraints(tmp_path):
    """A path keeps its planes; a run resumes to the same bits, and not with other constraints."""
    rng = np.random.default_rng(11)
    A, lower, upper, _ = rows(rng)
    _, _, risk = pieces("pinball", rng)
    path = pb.path(risk, [10.0, 1.0, 0.1], constraints=(A, lower, upper), tol=1e-6)
    for result in path:
        alone = pb.minimize(risk, lam=result.lam, constraints=(A, lower, upper), tol=1e-6)
        assert result.success and result.lower_bound <= alone.fun and alone.lower_bound <= result.fun
    with pytest.raises(ParameterError, match="interval"):
        pb.path(risk, (10.0, 1.0), interval=True, constraints=(A, lower, upper))
    arguments = {"lam": 0.1, "tol": 1e-8, "checkpoint": tmp_path / "run"}
    whole = pb.minimize(risk, lam=0.1, tol=1e-8, constraints=(A, lower, upper))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pb.minimize(risk, constraints=(A, lower, upper), max_iter=3, **arguments)
    with pytest.raises(pb.StateError, match="constraints"):
        pb.minimize(risk, constraints=(A, lower, upper + 1.0), **arguments)
    resumed = pb.minimize(risk, constraints=(A, lower, upper), **arguments)
    assert resumed.x.tolist() == whole.x.tolist() and resumed.lower_bound == whole.lower_bound


def test_groups_of_weights_structures_and_memory_limits():
    """Norms of groups, a structured risk, many parts and a memory limit, each with constraints."""
    rng = np.random.default_rng(12)
    A, lower, upper, _ = rows(rng)
    _, _, risk = pieces("hinge", rng)
    groups = pb.minimize(risk, penalty=pp.L1(0.5, groups=[0, 0, 1, 1, 1]) + pp.SquaredL2(0.5), tol=1e-6,
                         constraints=(A, lower, upper))
    assert groups.success and groups.lower_bound <= groups.fun
    free = pb.minimize(risk, lam=0.1, constraints=(A, lower, upper), tol=1e-6)
    tight = pb.minimize(risk, lam=0.1, constraints=(A, lower, upper), tol=1e-3, memory_limit=40_000, n_parts=4)
    assert tight.success and tight.lower_bound <= free.fun and free.lower_bound <= tight.fun
    X, y = [rng.standard_normal((4, 3)) for _ in range(10)], [rng.integers(0, 2, 4) for _ in range(10)]
    chain = pb.risks.Structured(pb.models.Chain(2, 3), X, y)
    total = np.ones((1, chain.dim))
    result = pb.minimize(chain, lam=0.1, constraints=(total, 0.5, 0.5), tol=1e-5, n_parts=4)
    assert result.success and abs(result.x.sum() - 0.5) <= 1e-10
    assert result.fun >= pb.minimize(chain, lam=0.1, tol=1e-5).lower_bound


def test_wrong_constraints_are_refused_before_the_first_call():
    def fun(w):
        raise AssertionError("called")
    risk, A = pb.risks.Function(fun, 2, lower_bounds=[0.0]), np.eye(2)
    for constraints, words, kind in [
        ((A, [1.0, 2.0], [0.0, 3.0]), "lower <= upper", ParameterError),
        ((np.eye(3), 0.0, 1.0), r"shape \(m, dim\)", ParameterError),
        ((A, [0.0] * 3, 1.0), "lower of shape", ParameterError),
        ((A, np.nan, 1.0), "without NaN", ParameterError),
        ((np.array([[1.0, 1.0], [1.0, 1.0]]), [0.0, 2.0], [1.0, 3.0]), "linear program", ParameterError),
        ((A, 0.0), "must be", InputTypeError),
        (("a", 0.0, 1.0), "numbers", InputTypeError),
        ((A * 1j, 0.0, 1.0), r"A of numbers: .* complex128", InputTypeError),
        ((sp.csr_array(A * 1j), 0.0, 1.0), r"A of numbers: .* complex128", InputTypeError),
        ((np.ma.masked_array(A, A == 0.0), 0.0, 1.0), "2 entries are masked", InputTypeError),
        ((A, np.ma.masked_array([0.0, 0.0], [True, False]), 1.0), "lower: 1 entries are masked", InputTypeError),
        ((A * [[1.0], [np.nan]], 0.0, 1.0), "finite entries in A, got nan in row 1", ParameterError),
        ((np.ones((1, 2, 2)), 0.0, 1.0), r"shape \(m, dim\) = \(m, 2\), .* got shape \(1, 2, 2\)", ParameterError),
        ((A, ["x", "y"], 1.0), "numbers or None in lower", InputTypeError),
        ((A, 0.0, -np.inf), "upper without NaN and -inf", ParameterError),
        (LinearConstraint(A, 0.0, 1.0, keep_feasible=True), "keep_feasible=False", ParameterError),
        ([A, 0.0, 1.0], "tuple", InputTypeError),
    ]:
        with pytest.raises(kind, match=words):
            pb.minimize(risk, lam=1.0, constraints=constraints)
    with pytest.raises(ParameterError, match="takes no constraints"):
        pb.minimize(risk, lam=1.0, constraints=(A, 0.0, 1.0), method="lbfgs")
    with pytest.raises(ParameterError, match="got Ball; pass Box"):
        pb.minimize(risk, penalty=pb.prox.Ball(1.0), constraints=(A, 0.0, 1.0))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 0.0), (-np.inf, -1.0), (2.0, np.inf)])
def test_rows_that_bound_a_free_intercept(low, high):
    """The intercept of a risk and a column of ones are the same; columns far from 0."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 2)) + 5.0
    y = np.where(X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(50) > 0.0, 1, -1)
    row = (np.array([[0.0, 0.0, 1.0]]), low, high)
    free = pb.minimize(pb.risks.BinaryHinge(X, y, fit_intercept=True), lam=1.0, tol=1e-6, constraints=row)
    column = pb.minimize(pb.risks.BinaryHinge(np.hstack([X, np.ones((50, 1))]), y), lam=np.array([1.0, 1.0, 0.0]),
                         tol=1e-6, constraints=row)
    assert free.success and column.success
    assert free.lower_bound <= column.fun and column.lower_bound <= free.fun
    assert low - 1e-9 <= free.x[-1] <= high + 1e-9


@pytest.mark.parametrize("factor", [1e-10, 1e-3, 3.0, 1e16])
@pytest.mark.parametrize("is_equation", [False, True])
def test_rows_with_one_entry_are_bounds(factor, is_equation):
    """Of any size, from cold and warm starts: as a box, up to rounding."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 4))
    risk = pb.risks.BinaryHinge(X, np.where(X[:, 0] + rng.standard_normal(30) > 0.0, 1, -1))
    free = pb.minimize(risk, lam=1.0, method="oca", tol=1e-6)
    limit = 0.5 * free.x[0]
    row = (np.array([[factor, 0.0, 0.0, 0.0]]), factor * limit if is_equation else -np.inf, factor * limit)
    box = pp.Box(np.r_[limit if is_equation else -np.inf, [-np.inf] * 3], np.r_[limit, [np.inf] * 3])
    expected = pb.minimize(risk, penalty=pp.SquaredL2(1.0) + box, tol=1e-6)
    for start in ({}, {"warm_start": free}, {"w0": np.array([5.0, -1.0, 2.0, 3.0])}):
        result = pb.minimize(risk, lam=1.0, constraints=row, tol=1e-6, method="oca", **start)
        assert result.success and abs(result.x[0] - limit) <= (1e-9 if is_equation else 1e-6) * abs(limit)
        assert result.x[0] <= limit + 1e-9 * abs(limit)
        assert result.lower_bound <= expected.fun * (1 + 1e-9) and expected.lower_bound <= result.fun * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_a_point_that_violates_rows_slightly_keeps_its_certificate(seed):
    """Its value may lie below the minimum: what it gains counts in the gap, and bound and value do not cross.

    F is lam/2 |w|^2 and the row `<a, w> >= u`; the minimum is lam u^2 / (2 |a|^2).
    """
    rng = np.random.default_rng([13, seed])
    a, limit, lam = rng.uniform(0.5, 1.0, D), 10.0 ** rng.integers(-3, 4), 10.0 ** rng.integers(-6, 7)
    risk = pb.risks.Function(lambda w: (0.0, np.zeros(D)), D, lower_bounds=[0.0])
    objective = make_problem(METHODS["oca"], risk, lam=lam, constraints=(a, limit, np.inf))
    least = Fraction(lam) * Fraction(limit)**2 / (2 * sum(Fraction(v)**2 for v in a.tolist()))
    w, y = limit / (a @ a) * a, lam * limit / (a @ a)
    bound = LowerBound.of(objective, replace(
        objective.rows.relax(Plane(0.0, np.zeros(D)), np.array([-1]), [y]), slope_error=0.0, offset_error=0.0))
    for violation in (0.0, 1e-13, 1e-12, 9e-11):
        found = certify(risk, objective, w * (1.0 - 2.0 * violation), bound)
        assert found.certified and found.lower_bound <= found.fun
        assert Fraction(bound.value) <= least <= Fraction(found.fun) + Fraction(found.error)
        assert relative_gap(found.fun + found.error, found.lower_bound) <= 1e-9


def nearly_parallel(rng, dim):
    """Rows that differ by 1e-14 to 1e-3, and a point that meets all of them exactly, most of them with equality."""
    point = np.round(8.0 * rng.standard_normal(dim)) / 8.0
    m = rng.integers(2, 6)
    A = rng.standard_normal(dim) * (1.0 + rng.standard_normal((m, dim)) * 10.0 ** rng.integers(-14, -3))
    A *= rng.choice([-1.0, 1.0], (m, 1)) * 10.0 ** rng.integers(-6, 7, (m, 1))
    exact = [sum(Fraction(a) * Fraction(v) for a, v in zip(row, point.tolist(), strict=True)) for row in A.tolist()]
    upper = [float(v) if Fraction(float(v)) >= v else np.nextafter(float(v), np.inf) for v in exact]
    return A, np.array(upper), point


@pytest.mark.parametrize("seed", range(100))
def test_a_point_between_nearly_parallel_rows_is_found(seed):
    """Such rows were refused, some as infeasible; multipliers never exclude a point that is there."""
    rng = np.random.default_rng([14, seed])
    dim = int(rng.integers(1, 7))
    A, upper, point = nearly_parallel(rng, dim)
    found = as_rows((A, -np.inf, upper), dim)
    low = np.where(rng.random(dim) < 0.3, np.minimum(point, 0.0), -np.inf)
    high = np.where(rng.random(dim) < 0.3, np.maximum(point, 0.0), np.inf)
    objective = Problem(pp.Box(low, high).canonical(dim), 0.0, rows=found)
    check_feasible(objective)
    assert objective.contains(found.inside)
    for y in (found.least_violated(low, high)[1], *10.0 ** rng.uniform(-9, 9, (5, found.m))):
        assert found.excluded(y, low, high) <= np.abs(point).max()


@pytest.mark.parametrize("margin", [1e-8, 1e-3, 1.0])
def test_infeasible_rows_are_refused_by_a_proof(margin):
    """The proof says how far from 0 a point must be; sums of rows and bounds of weights."""
    rng = np.random.default_rng(15)
    A = rng.standard_normal((3, 4))
    A = np.vstack([A, -A.sum(axis=0)])
    upper = np.append(A[:3] @ np.ones(4), -A[:3].sum(axis=0) @ np.ones(4) - margin * np.abs(A).sum())
    risk = pb.risks.Function(lambda w: (0.0, np.zeros(4)), 4, lower_bounds=[0.0])
    with pytest.raises(ParameterError, match="linear program proves that there is none"):
        pb.minimize(risk, lam=1.0, constraints=(A, -np.inf, upper))
    with pytest.raises(ParameterError, match="linear program proves that there is none; "):
        pb.minimize(risk, penalty=pp.SquaredL2(1.0) + pp.Box(0.0, 1.0), constraints=(np.ones(4), 4.0 + margin, np.inf))


@pytest.mark.parametrize("kind", ["hinge", "logistic"])
@pytest.mark.parametrize("seed", range(4))
def test_columns_far_from_0_with_rows_and_an_intercept(seed, kind):
    """Rows on the weights: shifted columns are the same problem, which stalled when points were projected by |w|."""
    rng = np.random.default_rng([16, seed])
    X = rng.standard_normal((50, D - 1))
    y = np.where(X @ rng.standard_normal(D - 1) + rng.standard_normal(50) > 0.0, 1, -1)
    A = np.append(rng.standard_normal((3, D - 1)), rng.standard_normal((3, 1)) * (seed % 2), axis=1)
    upper = 0.3 * A @ rng.standard_normal(D)
    shift = 1e4 * rng.choice([-1.0, 1.0], D - 1)
    shifted = A + A[:, [-1]] * np.append(shift, 0.0)
    found = []
    for columns, rows_ in ((X, A), (X + shift, shifted)):
        cls = pb.risks.BinaryHinge if kind == "hinge" else pb.risks.Logistic
        found.append(pb.minimize(cls(columns, y, fit_intercept=True), lam=1.0, constraints=(rows_, -np.inf, upper),
                                 tol=1e-5))
    assert found[0].success and found[1].success
    assert abs(found[0].fun - found[1].fun) <= 2e-5 * found[0].fun
    assert found[1].n_passes <= 4 * found[0].n_passes


@pytest.mark.parametrize("seed", [1, 3])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_squared_loss_without_penalty_and_one_row(seed, fit_intercept):
    """Points in search of limits of free weights went ten times as far each time, until squares overflowed."""
    rng = np.random.default_rng([17, seed])
    X = rng.standard_normal((30, 4))
    y = np.where(X[:, 0] + rng.standard_normal(30) > 0.0, 1, -1)
    row = (rng.standard_normal((1, 4 + fit_intercept)), -np.inf, -0.5)
    risk = pb.risks.SquaredHinge(X, y, fit_intercept=fit_intercept)
    result = pb.minimize(risk, lam=np.zeros(4), constraints=row, tol=1e-8)
    assert result.success

    def fun(w):
        return risk.evaluate(w)[0].sum()
    best = minimize(fun, result.x, method="SLSQP", jac=lambda w: risk.evaluate(w)[1].sum(axis=0),
                    constraints=LinearConstraint(*row), options={"ftol": 1e-14})
    assert abs(best.fun - result.fun) <= 1e-7 * result.fun


@pytest.mark.parametrize("seed", [2, 3, 4, 7])
def test_memory_limits_with_rows(seed):
    """Any limit that one part needs will do: fewer parts are taken, rows beyond the limit leave, bounds hold."""
    rng = np.random.default_rng([18, seed])
    X = rng.standard_normal((60, 9))
    y = np.where(X[:, 0] + rng.standard_normal(60) > 0.0, 1, -1)
    cls = [pb.risks.BinaryHinge, pb.risks.Logistic][seed % 2]
    risk = cls(sp.csr_array(X) if seed % 3 else X, y, fit_intercept=True)
    A = rng.standard_normal((12, 10))
    arguments = {"penalty": [pp.L1(0.5), pp.ElasticNet(0.5, 0.5)][seed // 4], "tol": 1e-3,
                 "constraints": (A, -np.inf, 0.2 * A @ rng.standard_normal(10) + 0.01)}
    free = pb.minimize(risk, **arguments)
    for limit in (8_000, 12_000, 100_000):
        tight = pb.minimize(risk, memory_limit=limit, **arguments)
        assert tight.lower_bound <= free.fun and free.lower_bound <= tight.fun
        assert tight.success and 24 * tight.max_planes**2 <= limit


@pytest.mark.parametrize("box", [([1.0, -5.0], [2.0, 0.0]), ([1.0, -1.0], [2.0, 0.0]), ([1.0, -1.0], [np.inf, 0.0])])
def test_zero_meets_the_rows_but_not_within_the_bounds(box):
    """0 meets x1 + x2 <= 0, and clipped to the box it does not: the run had no first point (TypeError)."""
    X = np.random.default_rng(0).standard_normal((20, 2))
    risk = pb.risks.BinaryHinge(X, np.where(X[:, 0] > 0, 1, -1))
    for method in ("auto", "oca"):
        result = pb.minimize(risk, penalty=pp.Box(*box), constraints=([[1.0, 1.0]], -np.inf, 0.0), method=method)
        assert result.success and result.x.sum() <= 1e-9 and (box[0] <= result.x).all() and (result.x <= box[1]).all()


@pytest.mark.parametrize("penalty", [
    pp.L1(1.5, [0]), pp.L2(1.5), pp.SparseGroupLasso([0], 0.5, 1.0), pp.SquaredL1(1.0, [0])])
def test_a_risk_without_slopes_leaves_the_bound_to_the_constraints(penalty):
    """The slope of R is 0 where columns are, and gave the master's centre no weight: the bound stayed at min R."""
    risk = pb.risks.Huber(np.zeros((3, 1)), [0.5, -0.25, 1.0])
    result = pb.minimize(risk, penalty=penalty, constraints=([[1.0]], 0.25, np.inf), tol=1e-9)
    assert result.success and np.allclose(result.x, 0.25)
    assert np.isclose(result.fun, risk.evaluate([0.0])[0][0] + penalty.value([0.25]), rtol=1e-9, atol=0.0)
