"""The master QP: feasibility, optimality, invariances, and the promises of the compiled class."""

import doctest
import signal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.interrupts import interrupted_once
from reference.simplex_qp import by_enumeration, by_slsqp

import pybundle
import pybundle.qp.curvature
import pybundle.qp.problem
from pybundle.core.exceptions import BundleError, InputTypeError, NumericalError, ParameterError
from pybundle.qp import SimplexProblem, SimplexQP, solve_simplex_qp
from pybundle.qp._face import _face_step
from pybundle.qp.curvature import needed_shift

METHODS = ["auto", "smo", "active-set"]
hypothesis_settings = settings(derandomize=True, deadline=None, max_examples=60)


def make_problem(seed, m, n_parts, rank, scale=1.0, n_signed=0, duplicates=0, mixed_slack=True, strict=False):
    """H of the given rank, parts interleaved at random, every part used."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, rank)) + rng.standard_normal(rank)
    for _ in range(duplicates):
        i, j = rng.integers(0, m, 2)
        A[i] = A[j]
    parts = rng.integers(0, n_parts, m) if n_parts else np.full(m, -1)
    parts[:n_parts] = np.arange(n_parts)
    if n_signed:
        parts[m - n_signed:] = -1
    order = rng.permutation(m)
    parts = parts[order]
    H = A @ A.T
    f = rng.standard_normal(m) * np.sqrt(rank)
    if n_signed:                          # bounded below
        H += np.diag((parts == -1) * 1.0)
    slack = rng.random(n_parts) < 0.5 if mixed_slack else np.zeros(n_parts, bool)
    return scale * (H + H.T) / 2, scale * f, parts, slack


def assert_solution(result, H, f, parts, slack, tol=1e-9, signed_gap=True):
    x = result.x
    assert x.min() >= 0.0
    sums = np.bincount(parts[parts >= 0], x[parts >= 0], len(slack))
    assert (sums <= 1.0 + 1e-12).all()
    assert np.abs(sums[~slack] - 1.0).max(initial=0.0) <= 1e-12
    assert result.gap >= 0.0
    assert result.value == pytest.approx(0.5 * x @ H @ x - f @ x, rel=1e-12, abs=1e-300)
    assert result.success and result.status == 0, result.message
    scale = max(abs(result.value), 1e-3 * (0.5 * x @ H @ x + abs(f @ x)))
    assert result.gap <= tol * scale
    # multipliers: one number a part, at most every gradient, equal where there is weight
    g = H @ x - f
    for p in range(len(slack)):
        least = min(g[parts == p].min(), 0.0) if slack[p] else g[parts == p].min()
        assert x[parts == p] @ g[parts == p] - least <= tol * scale + 1e-13 * np.abs(g).max()


@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 40), n_parts=st.integers(1, 6), rank=st.integers(1, 60),
       log_scale=st.integers(-9, 9), duplicates=st.integers(0, 5))
@hypothesis_settings
def test_feasible_and_optimal(method, seed, m, n_parts, rank, log_scale, duplicates):
    n_parts = min(n_parts, m)
    problem = make_problem(seed, m, n_parts, rank, 10.0**log_scale, duplicates=duplicates)
    tol = 1e-9 if method != "smo" else 1e-5
    result = solve_simplex_qp(*problem[:3], tol, problem[3], method=method)
    if method == "smo" and result.status == 1:
        return                              # slow on ill-conditioned faces, and says so
    assert_solution(result, *problem, tol)
    if tol == 1e-9:
        assert result.kkt_residual <= 1e-4


@given(seed=st.integers(0, 10**6), m=st.integers(1, 6), n_parts=st.integers(1, 2), rank=st.integers(1, 8))
@hypothesis_settings
def test_equals_the_best_face(seed, m, n_parts, rank):
    problem = make_problem(seed, m, min(n_parts, m), rank)
    best, _ = by_enumeration(*problem)
    result = solve_simplex_qp(*problem[:3], 1e-10, problem[3])
    assert result.value == pytest.approx(best, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("n_signed", [0, 3, 12])
@pytest.mark.parametrize("seed", range(4))
def test_equals_slsqp(seed, n_signed):
    n_parts = 3 if n_signed < 12 else 0
    problem = make_problem(seed, 12, n_parts, 15, n_signed=n_signed)
    value, _ = by_slsqp(*problem)
    for method in METHODS:
        result = solve_simplex_qp(*problem[:3], 1e-9, problem[3], method=method)
        assert_solution(result, *problem)
        assert result.value == pytest.approx(value, rel=1e-6, abs=1e-8)


def test_signed_block_as_in_a_bundle():
    # Weights kept nonnegative: multipliers nu with slopes -e_j; then w = (e - A'beta)_+ / s, coordinatewise.
    rng = np.random.default_rng(3)
    planes, dim = 30, 8
    A = rng.standard_normal((planes, dim))
    b = rng.random(planes)
    full = np.vstack([A, -np.eye(dim)])
    parts = np.r_[np.zeros(planes, int), np.full(dim, -1)]
    result = solve_simplex_qp(full @ full.T, np.r_[b, np.zeros(dim)], parts, slack=True)
    assert result.success
    w = -full.T @ result.x
    assert w.min() >= -1e-9
    beta = result.x[:planes]
    np.testing.assert_allclose(w, np.maximum(-A.T @ beta, 0.0), atol=1e-7)


@given(seed=st.integers(0, 10**6))
@settings(derandomize=True, deadline=None, max_examples=15)
def test_invariant_to_order_of_planes_and_parts(seed):
    H, f, parts, slack = make_problem(seed, 60, 5, 80)
    rng = np.random.default_rng(seed)
    order, names = rng.permutation(60), rng.permutation(5)
    result = solve_simplex_qp(H, f, parts, slack=slack)
    renamed = np.empty(5, bool)
    renamed[names] = slack
    other = solve_simplex_qp(H[np.ix_(order, order)], f[order], names[parts][order], slack=renamed)
    assert other.value == pytest.approx(result.value, rel=1e-8)
    np.testing.assert_allclose(other.x, result.x[order], atol=1e-5)     # rank 80: unique


@pytest.mark.parametrize("method", METHODS)
def test_duplicates_share_or_not_but_value_stands(method):
    H, f, parts, slack = make_problem(5, 40, 3, 60)
    twice = np.tile(np.arange(40), 3)
    single = solve_simplex_qp(H, f, parts, slack=slack)
    result = solve_simplex_qp(H[np.ix_(twice, twice)], f[twice], parts[twice], 1e-8, slack, method=method)
    assert result.success
    assert result.value == pytest.approx(single.value, rel=1e-7)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("slack", [False, True])
def test_degenerate_shapes(method, slack):
    one = solve_simplex_qp([[2.0]], [3.0], [0], slack=slack, method=method)
    np.testing.assert_allclose(one.x, [1.0])
    idle = solve_simplex_qp([[2.0]], [-3.0], [0], slack=slack, method=method)
    np.testing.assert_allclose(idle.x, [0.0 if slack else 1.0])
    zero = solve_simplex_qp(np.zeros((4, 4)), np.zeros(4), [0, 1, 0, 1], slack=slack, method=method)
    assert zero.success and zero.value == 0.0
    linear = solve_simplex_qp(np.zeros((5, 5)), [1.0, 5.0, -2.0, -3.0, 4.0], [0, 0, 1, 1, 0], slack=slack,
                              method=method)
    assert linear.success
    assert linear.value == pytest.approx(-5.0 if slack else -3.0, rel=1e-8)
    flat = np.zeros((3, 3))
    flat[0, 0] = 1.0                        # zero rows
    result = solve_simplex_qp(flat, [3.0, 1.0, 0.5], [0, 0, 0], slack=slack, method=method)
    assert result.value == pytest.approx(-2.5, rel=1e-8)


def test_one_variable_a_part():
    H, f, _, _ = make_problem(2, 50, 1, 20)
    parts = np.random.default_rng(0).permutation(50)
    fixed = solve_simplex_qp(H, f, parts)
    np.testing.assert_array_equal(fixed.x, np.ones(50))
    boxed = solve_simplex_qp(H, f, parts, slack=True)
    assert_solution(boxed, H, f, parts, np.ones(50, bool))


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scales_apart(scale):
    H, f, parts, slack = make_problem(7, 80, 4, 100)
    d = 10.0 ** np.random.default_rng(1).uniform(-2, 2, 80)
    H, f = H * d[:, None] * d * scale, f * d * scale
    result = solve_simplex_qp(H, f, parts, slack=slack)
    assert_solution(result, H, f, parts, slack)


@pytest.mark.parametrize("method", METHODS)
def test_warm_start_at_the_optimum_is_free(method):
    problem = make_problem(11, 200, 8, 300)
    first = solve_simplex_qp(*problem[:3], 1e-10, problem[3])
    again = solve_simplex_qp(*problem[:3], 1e-8, problem[3], first.x, method=method)
    assert again.n_steps == 0
    np.testing.assert_allclose(again.x, first.x, rtol=1e-14)


def test_infeasible_start_is_made_feasible():
    problem = make_problem(11, 30, 3, 40)
    start = np.random.default_rng(0).standard_normal(30) * 100
    result = solve_simplex_qp(*problem[:3], slack=problem[3], x0=start)
    assert_solution(result, *problem)


def test_corner_of_a_larger_array_is_read_in_place():
    H, f, parts, slack = make_problem(13, 50, 4, 70)
    room = np.full((128, 96), np.nan)
    room[:50, :50] = H
    inside = solve_simplex_qp(room[:50, :50], f, parts, slack=slack)
    outside = solve_simplex_qp(H, f, parts, slack=slack)
    np.testing.assert_allclose(inside.x, outside.x, atol=1e-9)
    fortran = solve_simplex_qp(np.asfortranarray(H), f, parts, slack=slack)
    np.testing.assert_array_equal(fortran.x, outside.x)


@pytest.mark.parametrize("method", METHODS)
def test_equal_input_equal_bits(method):
    H, f, parts, slack = make_problem(17, 150, 6, 120)
    used = SimplexQP()
    used.solve(np.eye(400), np.ones(400), np.zeros(400, np.int32), np.ones(1, bool), np.zeros(400))
    runs = []
    for solver in (SimplexQP(), SimplexQP(), used):
        x = np.zeros(150)
        record = solver.solve(H, f, parts.astype(np.int32), slack, x, 1.0, rtol=1e-7, method=method)
        runs.append((x.tobytes(), record.h.tobytes(), record.gap, record.value, record.n_steps))
    assert runs[0] == runs[1] == runs[2]


def all_active(seed, m, n_parts, decades):
    """H of condition 10**decades, and an optimum known in advance with weight on nearly all."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((m, m)))[0]
    H = (basis * 10.0 ** -np.linspace(0, decades, m)) @ basis.T
    parts = rng.permutation(np.arange(m) % n_parts).astype(np.int32)
    x = rng.random(m) + 0.1
    x[rng.permutation(m)[: m // 20]] = 0.0
    x /= np.bincount(parts, x)[parts]
    H = (H + H.T) / 2
    return H, H @ x - 1e-3 * (x == 0.0) + rng.random(n_parts)[parts], parts, x


class TestFloat32:
    """Bases of many variables: searched in float32, refined in float64."""

    @pytest.mark.parametrize("n_parts", [1, 40])
    def test_both_precisions_take_the_same_step(self, n_parts):
        H, f, parts, _ = all_active(0, 250, n_parts, 3)
        held = np.arange(5, 250, 21, dtype=np.int32)
        start = np.bincount(parts)[parts] ** -1.0
        steps = [_face_step(H, parts, n_parts, held, start, f - H @ start, single) for single in (False, True)]
        np.testing.assert_allclose(steps[1], steps[0], atol=1e-3 * np.abs(steps[0]).max())
        np.testing.assert_allclose(np.bincount(parts, steps[1]), 0.0, atol=1e-4 * np.abs(steps[0]).max())
        np.testing.assert_allclose((start + steps[0])[held], 0.0, atol=1e-12)

    def test_small_pivots_are_refused(self):
        H, f, parts, x = all_active(0, 250, 4, 9)
        none = np.empty(0, np.int32)
        assert _face_step(H, parts, 4, none, x, f - H @ x, True) is None
        assert _face_step(H, parts, 4, none, x, f - H @ x, False) is not None

    @pytest.mark.parametrize("n_parts", [1, 12])
    @pytest.mark.parametrize("decades, tol", [(3, 1e-12), (5, 1e-9), (10, 1e-9)])
    @pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
    def test_reaches_the_known_optimum(self, n_parts, decades, tol, size):
        H, f, parts, x = all_active(1, 260, n_parts, decades)
        slack = np.zeros(n_parts, bool)
        best, _, scale, _ = SimplexProblem(H, f, parts, slack).measure(x)
        for start in (None, x + 0.01 * (x > 0)):
            result = solve_simplex_qp(size * H, size * f, parts, tol, x0=start)
            assert_solution(result, size * H, size * f, parts, slack, tol)
            assert abs(result.value / size - best) <= tol * scale
            if decades == 3:
                np.testing.assert_allclose(result.x, x, atol=1e-6)

    def test_equal_input_equal_bits(self):
        H, f, parts, _ = all_active(3, 300, 5, 4)
        used, runs = SimplexQP(), set()
        used.solve(np.eye(400), np.ones(400), np.zeros(400, np.int32), np.ones(1, bool), np.zeros(400))
        for solver in (SimplexQP(), used, SimplexQP()):
            x = np.zeros(300)
            record = solver.solve(H, f, parts, np.zeros(5, bool), x, rtol=1e-9)
            runs.add((x.tobytes(), record.h.tobytes(), record.gap, record.value, record.n_steps))
        assert len(runs) == 1


class TestMasterObject:
    """A growing bundle: the record is exact, warm starts help."""

    @pytest.mark.parametrize("method", METHODS)
    def test_growth(self, method, scale=0.1):
        rng = np.random.default_rng(0)
        n_parts, rounds, dim = 4, 25, 30
        planes = rng.standard_normal((n_parts * rounds, dim)) + 1.0
        offsets = 5.0 * rng.random(n_parts * rounds)
        room = np.zeros((128, 128))
        solver, x, records = SimplexQP(), np.zeros(0), []
        for t in range(1, rounds + 1):
            m = t * n_parts
            room[:m, :m] = planes[:m] @ planes[:m].T
            parts = np.tile(np.arange(n_parts, dtype=np.int32), t)
            x = np.r_[x, np.zeros(n_parts)]
            slack = np.arange(n_parts) % 2 == 0
            record = solver.solve(room[:m, :m], offsets[:m], parts, slack, x, scale, 1e-8, method=method)
            problem = SimplexProblem(scale * room[:m, :m], offsets[:m], parts, slack)
            value, gap, _, _ = problem.measure(x)
            assert record.status == 0
            assert record.gap <= 1e-8
            assert record.gap == pytest.approx(gap, abs=1e-12)
            assert record.value == pytest.approx(value, rel=1e-12)
            np.testing.assert_allclose(record.h, room[:m, :m] @ x, rtol=1e-12, atol=1e-12)
            records.append(record.value)
        assert (np.diff(records) <= 1e-8).all()         # more planes, lower minimum

    def test_many_scales_from_one_point_to_the_next(self):
        H, f, parts, slack = make_problem(19, 120, 4, 200)
        parts = parts.astype(np.int32)
        kept, x = SimplexQP(), np.zeros(120)
        for scale in (1.0, 0.3, 0.1, 0.03, 1.0):
            record = kept.solve(H, f, parts, slack, x, scale, 1e-9, method="active-set")
            fresh = solve_simplex_qp(scale * H, f, parts, 1e-11, slack)
            assert record.value == pytest.approx(fresh.value, abs=2e-9)

    def test_step_limit_is_a_status(self):
        H, f, parts, slack = make_problem(23, 100, 4, 200)
        x = np.zeros(100)
        record = SimplexQP().solve(H, f, parts.astype(np.int32), slack, x, max_steps=3, method="smo")
        assert record.status == 1 and record.gap > 0.0
        sums = np.bincount(parts, x)
        assert (sums <= 1.0 + 1e-12).all() and np.abs(sums[~slack] - 1.0).max() <= 1e-12

    def test_zero_tolerance_ends(self):
        H, f, parts, slack = make_problem(23, 100, 4, 200)
        for method in METHODS:
            x = np.zeros(100)
            record = SimplexQP().solve(H, f, parts.astype(np.int32), slack, x, method=method, max_steps=10**5)
            assert record.gap <= 1e-6 * abs(record.value)

    def test_shapes_are_checked(self):
        with pytest.raises(ParameterError, match="H must be"):
            SimplexQP().solve(np.eye(3), np.ones(2), np.zeros(2, np.int32), np.ones(1, bool), np.zeros(2))
        with pytest.raises(ParameterError, match="got 1 at index 0"):
            SimplexQP().solve(np.eye(1), np.ones(1), np.ones(1, np.int32), np.ones(1, bool), np.zeros(1))


def test_not_converged_is_a_status_not_an_error():
    problem = make_problem(29, 100, 4, 200)
    result = solve_simplex_qp(*problem[:3], slack=problem[3], max_steps=2, method="smo")
    assert not result.success and result.status == 1
    assert "raise max_steps or tol" in result.message
    hopeless = solve_simplex_qp(*problem[:3], tol=1e-300, slack=problem[3])
    assert hopeless.gap <= 1e-9 * abs(hopeless.value)
    assert hopeless.success == (hopeless.gap == 0.0)


NAN = np.eye(3)
NAN[1, 2] = np.nan
SKEW = np.eye(3)
SKEW[0, 2] = 0.5


@pytest.mark.parametrize(("change", "error", "text"), [
    ({"H": np.ones((2, 3))}, ParameterError, r"H must be square with the size of f, \(3, 3\), got \(2, 3\)"),
    ({"H": NAN}, ParameterError, r"H must be finite, got H\[1, 2\] = nan"),
    ({"H": SKEW}, ParameterError, r"H must be symmetric, got H\[0, 2\] = 0.5"),
    ({"H": -np.eye(3)}, ParameterError, "H must be positive semidefinite"),
    ({"H": "no"}, InputTypeError, "H must be a matrix of real numbers"),
    ({"f": [1.0, np.inf, 0.0]}, ParameterError, "f must be finite, got inf at index 1"),
    ({"f": np.ones((3, 1))}, ParameterError, "f must be a vector"),
    ({"f": [], "H": np.zeros((0, 0)), "parts": []}, ParameterError, "f must have at least one entry"),
    ({"parts": [0, 0]}, ParameterError, r"parts must have shape \(m,\) = \(3,\)"),
    ({"parts": [0, 0, 2]}, ParameterError, "part 1 has none"),
    ({"parts": [0, 0, -2]}, ParameterError, "got -2"),
    ({"parts": [0.0, 0.0, 1.0]}, InputTypeError, "parts must be integers, got dtype float64"),
    ({"parts": [0, 0, -1], "H": np.diag([1.0, 1.0, 0.0])}, ParameterError, "q is unbounded below"),
    ({"slack": [True, False]}, ParameterError, r"slack must be a bool or have shape \(P,\) = \(1,\)"),
    ({"slack": 1}, InputTypeError, "slack must be a bool"),
    ({"slack": [1.0]}, InputTypeError, "slack must hold bools"),
    ({"tol": 0.0}, ParameterError, "tol must be a finite number > 0, got 0.0"),
    ({"tol": "small"}, InputTypeError, "tol must be a real number"),
    ({"x0": [1.0]}, ParameterError, r"x0 must be of shape \(3,\)"),
    ({"x0": [1.0, np.nan, 0.0]}, ParameterError, "x0 must be finite"),
    ({"max_steps": 0}, ParameterError, "max_steps must be an integer >= 1"),
    ({"method": "simplex"}, ParameterError, "method must be one of 'auto', 'smo', 'active-set'"),
])
def test_errors_say_what_to_do(change, error, text):
    arguments = {"H": np.eye(3), "f": np.ones(3), "parts": [0, 0, 0], **change}
    with pytest.raises(error, match=text) as caught:
        solve_simplex_qp(**arguments)
    assert isinstance(caught.value, BundleError)


def test_doctests():
    assert doctest.testmod(pybundle.qp.problem).failed == 0


def test_one_object_through_ill_conditioned_problems():
    # Norms over four orders of magnitude, copies of planes, singular faces: factors fail and are rebuilt.
    kept = SimplexQP()
    for seed in range(80):
        rng = np.random.default_rng(seed)
        m, rank = int(rng.integers(1, 120)), int(rng.integers(1, 120))
        n_parts = int(rng.integers(1, min(m, 30) + 1))
        A = rng.standard_normal((m, rank)) * 10.0 ** rng.uniform(-2, 2, (m, 1)) + rng.standard_normal(rank)
        A[rng.integers(0, m, m // 3)] = A[rng.integers(0, m, m // 3)]
        parts = np.r_[np.arange(n_parts), rng.integers(0, n_parts, m - n_parts)].astype(np.int32)
        H, f, slack = A @ A.T, rng.standard_normal(m) * 10.0 ** rng.uniform(-1, 3), rng.random(n_parts) < 0.5
        x = np.zeros(m)
        for scale in (1.0, 0.7):
            record = kept.solve(H, f, parts, slack, x, scale, rtol=1e-7, method="active-set",
                                max_steps=20000)
            sums = np.bincount(parts, x, n_parts)
            assert sums.max() <= 1.0 + 1e-12 and np.abs(sums[~slack] - 1.0).max(initial=0.0) <= 1e-12
            reference = solve_simplex_qp(scale * H, f, parts, 1e-7, slack)
            limit = record.gap + reference.gap + 1e-12 * (abs(f @ x) + scale * (x @ H @ x))
            assert abs(record.value - reference.value) <= limit


def widely_scaled(seed, m, n_parts, rank, decades):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, rank)) * 10.0 ** rng.uniform(0, decades, (m, 1))
    return A @ A.T / 1e-3, 10.0 * rng.random(m), np.arange(m) % n_parts


class TestStalls:
    """Faces creep here, and pairwise steps there: neither may go on so for long."""

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("method", ["auto", "active-set"])
    def test_many_parts_of_planes_five_decades_apart(self, seed, method):
        H, f, parts = widely_scaled(seed, 120, 60, 30, 5)
        result = solve_simplex_qp(H, f, parts, 1e-2, True, method=method, max_steps=200000)
        assert result.success, result.message
        value, gap, size, _ = SimplexProblem(H, f, parts, np.ones(60, bool)).measure(result.x)
        assert gap <= 1.001e-2 * size and value == pytest.approx(result.value, rel=1e-6)

    @pytest.mark.parametrize("method", METHODS)
    def test_one_giant_example(self, method):
        rng = np.random.default_rng(5)
        X, y = rng.standard_normal((50, 5)), rng.integers(3, size=50)
        X[0] *= 1e8
        risk = pybundle.risks.MulticlassHinge(X, y, n_parts=2, n_classes=3)
        bundle = pybundle.minimize(risk, lam=1e-3, tol=1e-3, max_iter=7, method="oca").state.bundle
        result = solve_simplex_qp(bundle.H / 1e-3, bundle.offsets, bundle.parts, 1e-4, True, method=method)
        assert result.success, result.message
        assert result.n_steps < 300000

    def test_giving_up_takes_few_rounds_and_is_said(self):
        # Twelve decades: what is left of the small ones in H is rounding.
        for seed in range(5):
            H, f, parts = widely_scaled(seed, 60, 30, 10, 12)
            result = solve_simplex_qp(H, f, parts, 1e-12, True, max_steps=10**9)
            assert result.success or result.status == 2
            assert result.success or result.message.startswith("stalled after")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
@pytest.mark.parametrize("method", METHODS)
def test_interrupt_leaves_a_feasible_point_and_a_working_object(method):
    # One solve takes some tenths of a second with tolerance zero; several, so that the signal meets one anywhere.
    H, f, parts = widely_scaled(0, 120, 60, 30, 6)
    parts, slack, solver, x = parts.astype(np.int32), np.ones(60, bool), SimplexQP(), np.zeros(120)
    with interrupted_once(lambda: True, every=0.04):
        for _ in range(1000):
            x[:] = 0.0
            solver.solve(H, f, parts, slack, x, method=method, max_steps=10**8)
    assert x.min() >= 0.0 and (np.bincount(parts, x, 60) <= 1.0 + 1e-12).all()
    H, f, parts, slack = make_problem(31, 120, 60, 100)
    x, other = np.zeros(120), np.zeros(120)
    record = solver.solve(H, f, parts.astype(np.int32), slack, x, rtol=1e-8)
    fresh = SimplexQP().solve(H, f, parts.astype(np.int32), slack, other, rtol=1e-8)
    assert record.status == 0
    assert x.tobytes() == other.tobytes() and record.n_steps == fresh.n_steps


def test_bits_do_not_depend_on_what_the_object_solved_before():
    """The factor takes memory that is there, in either precision, and reads nothing that it has not written."""
    rng = np.random.default_rng(5)

    def problem(m, n_parts, spread):
        A = rng.standard_normal((m, m + 5)) * np.exp(spread * rng.standard_normal((m, 1)))
        return A @ A.T / m, rng.random(m) * m, (rng.permutation(m) % n_parts).astype(np.int32)

    problems = [problem(m, P, spread) for m, P, spread in ((30, 2, 0.1), (450, 16, 0.1), (90, 1, 1.0), (300, 40, 0.3))]
    used = SimplexQP()
    for k in (0, 1, 2, 3, 1, 0, 3, 2, 1):
        H, f, parts = problems[k]
        slack = np.ones(parts.max() + 1, bool)
        x, y = np.zeros(len(f)), np.zeros(len(f))
        first = used.solve(H, f, parts, slack, x, rtol=1e-9, method="active-set")
        fresh = SimplexQP().solve(H, f, parts, slack, y, rtol=1e-9, method="active-set")
        np.testing.assert_array_equal(x, y)
        assert first.status == fresh.status == 0 and first.n_steps == fresh.n_steps


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_refused(value, place):
    """A vector f with -inf was worked on for ever, and so was scale = 1e308."""
    H, f, x = np.eye(4), np.array([0.0, 1.0, 2.0, 0.5]), np.zeros(4)
    (f, x, H[0])[place][0] = value
    parts, slack = np.zeros(4, dtype=np.int32), np.array([True])
    with pytest.raises(NumericalError, match="H, f and x must be finite"):
        SimplexQP().solve(H, f, parts, slack, x)
    with pytest.raises(NumericalError, match="H, f and x must be finite"):
        SimplexQP().solve(10.0 * np.eye(4), np.ones(4), parts, slack, np.ones(4), scale=1e308)
    with pytest.raises(ParameterError, match="tol must be"):
        SimplexQP().solve(np.eye(4), np.ones(4), parts, slack, np.ones(4), tol=-1.0)


def exact_gap(H, f, parts, slack, x):
    """Gap and scale at x without rounding."""
    used = np.flatnonzero(x)
    columns, weights = [list(map(Fraction, H[:, j].tolist())) for j in used], list(map(Fraction, x[used].tolist()))
    linear = list(map(Fraction, f.tolist()))
    h = [sum((column[i] * weight for column, weight in zip(columns, weights, strict=True)), Fraction(0))
         for i in range(len(f))]
    terms = {int(j): weight for j, weight in zip(used, weights, strict=True)}
    gap = Fraction(0)
    for p in range(len(slack)):
        g = {int(j): h[j] - linear[j] for j in np.flatnonzero(parts == p)}
        gap += sum((terms[j] * g[j] for j in g if j in terms), Fraction(0)) - min([*g.values(), *[0] * bool(slack[p])])
    quadratic = sum((terms[j] * h[j] for j in terms), Fraction(0)) / 2
    product = sum((terms[j] * linear[j] for j in terms), Fraction(0))
    return gap, max(abs(quadratic - product), (quadratic + abs(product)) / 1000)


def test_the_value_counts_what_products_were_rounded_by():
    """Hx is large with both signs, x'Hx small: the value was wrong by 1e-9 of the scale, far above its tolerance."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        m = int(rng.integers(2, 9))
        A = rng.standard_normal((m, 2)) * 10.0 ** rng.uniform(2, 8)
        x = rng.random(m)
        A[-1] = 1.0 - x[:-1] @ A[:-1] / x[-1]
        H, f = A @ A.T, rng.standard_normal(m)
        value, _, scale, _ = SimplexProblem(H, f, np.zeros(m, int), True).measure(x)
        X, F = list(map(Fraction, x.tolist())), list(map(Fraction, f.tolist()))
        exact = sum(a * b * Fraction(h) for a, row in zip(X, H.tolist(), strict=True)
                    for b, h in zip(X, row, strict=True)) / 2 - sum(a * b for a, b in zip(X, F, strict=True))
        assert abs(Fraction(value) - exact) <= Fraction(1e-12) * Fraction(scale), seed


@pytest.mark.parametrize("method", METHODS)
def test_success_is_a_gap_within_the_tolerance_without_rounding(method):
    """Entries of 1e4 and more: the gap of float64 was rounding, up to 2000 times below that of the returned x.

    After many pairwise steps H x also belonged to an x whose sums had drifted.
    """
    successes = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        m = int(rng.integers(2, 36))
        n_parts, rank = int(rng.integers(1, min(8, m) + 1)), int(rng.integers(1, 12))
        decades = rng.uniform(0, rng.choice([0, 2, 4]), (m, 1)) + rng.uniform(-1, 2)
        A = rng.standard_normal((m, rank)) * 10.0**decades
        parts = np.r_[np.arange(n_parts), rng.integers(0, n_parts, m - n_parts)]
        slack = rng.random(n_parts) < (0.0, 0.5, 1.0)[seed % 3]
        H, f, tol = A @ A.T, rng.standard_normal(m) * 10.0 ** rng.uniform(-2, 3), 10.0 ** rng.uniform(-11, -5)
        result = solve_simplex_qp(H, f, parts, tol, slack, method=method, max_steps=20000)
        gap, scale = exact_gap(H, f, parts, slack, result.x)
        assert not result.success or gap <= Fraction(tol) * scale
        assert gap <= result.gap * (1 + 1e-12) + 1e-24 * float(np.abs(H).max() + np.abs(f).max())
        successes += result.success
    assert successes >= (90 if method == "smo" else 135)


def random_gram(rng, kind):
    """A A' as users compute it: rows of any size, copies, any rank, float32 and loops."""
    m, rank = int(rng.integers(1, 40)), int(rng.choice([1, 2, 5, 30, 300]))
    A = rng.standard_normal((m, rank)) + rng.choice([0.0, 1.0, 1e3]) * rng.standard_normal(rank)
    decades = rng.choice([0.0, 2.0, 6.0] if kind in (1, 2) else [0.0, 6.0, 70.0])
    A *= 10.0 ** rng.uniform(-decades, decades, (m, 1))
    A[rng.integers(0, m, m // 3)] = A[rng.integers(0, m, m // 3)] * rng.choice([1.0, -1.0, 3.0, 1e-3], (m // 3, 1))
    if kind in (1, 2):
        A = A.astype(np.float32)
    H = np.einsum("ik,jk->ij", A, A) if kind == 3 else A @ A.T
    return H.astype(np.float64) if kind == 1 else H / 3e-3 if kind == 4 else H


def test_gram_matrices_are_never_refused():
    for seed in range(3000):
        H = random_gram(np.random.default_rng(seed), seed % 5)
        kind = np.float32 if seed % 5 in (1, 2) else np.float64
        assert needed_shift(np.ascontiguousarray(H, dtype=np.float64), np.zeros(len(H)), kind) == 0.0
    for seed in range(200):             # nor do faces meet curvature in them
        H = np.ascontiguousarray(random_gram(np.random.default_rng(seed), 0)) + 0.0
        x = np.ones(len(H))
        if H.max() < 1e50:
            record = SimplexQP().solve(H, x / 3, np.zeros(len(H), np.int32), np.zeros(1, bool), x, rtol=1e-9,
                                       max_steps=5000, method="active-set")
            assert record.curvature >= -2.0 * len(H) * np.finfo(float).eps
    for m in (2000, 2001):              # with a factor, and with pairs alone
        A = np.random.default_rng(m).standard_normal((m, 20)).astype(np.float32)
        assert solve_simplex_qp(A @ A.T, np.zeros(m), np.zeros(m, int), 1e-4).success


def centred_gram(rng, kind, dtype):
    """A centred kernel matrix of data that hold copies and points equal to the mean, and its size."""
    m, d, size = int(rng.integers(2, 60)), int(rng.integers(1, 20)), 10.0 ** rng.uniform(-8, 8)
    X = rng.standard_normal((m, d)) + rng.choice([0.0, 1.0, 3.0]) * rng.standard_normal(d)
    X[rng.integers(0, m, m // 4)] = X[rng.integers(0, m, m // 4)]
    n_means = int(rng.integers(0, m // 2 + 1))
    X[:n_means] = X[n_means:].mean(axis=0)
    X = (X * np.sqrt(size)).astype(dtype)
    if kind == "constant":
        K = np.full((m, m), dtype(size * rng.random()))
    elif kind == "rbf":
        K = size * np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / (2.0 * size * rng.choice([1.0, 10.0])))
    else:
        K = X @ X.T
    H = (K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()).astype(dtype)
    return (H + H.T) / dtype(2), size


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["linear", "rbf", "constant"])
def test_centred_gram_matrices_are_solved(kind, dtype):
    """Centring rounds by the largest entry: the diagonal of a point that equals the mean is -3e-18, and was refused."""
    negative = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        H, size = centred_gram(rng, kind, dtype)
        m, tol = len(H), 10.0 ** rng.uniform(-9, -5)
        negative += H.diagonal().min() < 0.0
        n_parts = int(rng.integers(1, min(m, 5) + 1))
        parts, slack = np.r_[np.arange(n_parts), rng.integers(0, n_parts, m - n_parts)], rng.random(n_parts) < 0.5
        f = size * rng.standard_normal(m)
        result = solve_simplex_qp(H, f, parts, tol, slack, method=METHODS[seed % 3], max_steps=100000)
        gap, scale = exact_gap(H, f, parts, slack, result.x)
        assert result.success and gap <= Fraction(tol) * scale, (seed, result.message)
    assert negative > 10 or kind == "rbf"


def test_centring_that_loses_more_than_rounding_is_refused():
    X = np.random.default_rng(0).standard_normal((50, 4)) + 1e3
    X[0] = X[1:].mean(axis=0)
    K = X @ X.T
    with pytest.raises(ParameterError, match=r"pass A @ A\.T of centred A in float64"):
        solve_simplex_qp(K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean(), X[:, 1], np.zeros(50, int))
    X -= X.mean(axis=0)
    assert solve_simplex_qp(X @ X.T, X[:, 1], np.zeros(50, int)).success


@pytest.mark.parametrize("method", METHODS)
def test_small_indefinite_blocks_do_not_lower_q_unseen(method):
    """Beside 1e20 a block of -1e-3 is rounding, but not where the minimum of q lies: no point may be below the gap."""
    outcomes = {"refused": 0, False: 0, True: 0}
    for seed in range(300):
        rng = np.random.default_rng(seed)
        m, small = 6, int(rng.integers(2, 5))
        A = rng.standard_normal((m, m))
        H = A @ A.T * 10.0 ** rng.uniform(0, 20)
        B = rng.standard_normal((small, small))
        H[:small] = H[:, :small] = 0.0
        H[:small, :small] = (B + B.T) * 10.0 ** rng.uniform(-12, 0)
        H[np.diag_indices(small)] = np.abs(H.diagonal()[:small])
        f = rng.standard_normal(m) * 10.0 ** rng.uniform(-12, 0)
        slack, tol = bool(seed % 2), 1e-6
        if seed % 3 == 0:
            x0 = np.r_[np.ones(small), np.zeros(m - small)] / small
            f = H @ x0 + 1e-3 * f               # about stationary there, and no minimum
        try:
            result = solve_simplex_qp(H, f, np.zeros(m, int), tol, slack, x0 if seed % 3 == 0 else None, method=method)
        except ParameterError:
            outcomes["refused"] += 1
            continue
        outcomes[result.success] += 1
        inner = rng.dirichlet(np.full(m, 0.2), 2000)
        points = np.concatenate([np.eye(m), np.zeros((1, m)) if slack else np.eye(1, m), inner])
        least = (0.5 * np.einsum("ij,jk,ik->i", points, H, points) - points @ f).min()
        scale = max(abs(result.value), 1e-3 * (result.x @ H @ result.x / 2 + abs(result.x @ f)))
        assert least >= result.value - result.gap - 256 * m * np.finfo(float).eps * scale, seed
        assert not result.success or result.gap <= tol * scale
    assert min(outcomes.values()) > 20, outcomes


def random_indefinite(seed):
    """Symmetric matrices of positive diagonal whose least eigenvalue is below -1e-8 of the largest one."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 50))
    B = rng.standard_normal((m, m))
    if seed % 3 == 0:
        H = B + B.T
        H[np.diag_indices(m)] = np.abs(H.diagonal()) + rng.choice([0.0, 1.0])
    elif seed % 3 == 1:
        values = np.r_[-10.0 ** rng.uniform(-7, 0), rng.random(m - 1)]
        basis = np.linalg.qr(B)[0]
        H = (basis * values) @ basis.T
    else:
        H = B[:, :m // 2 + 1] @ B[:, :m // 2 + 1].T
        H -= 10.0 ** rng.uniform(-5, -1) * np.outer(B[0], B[:, -1]) @ np.outer(B[:, -1], B[0]) / m
    H = (H + H.T) / 2 * 10.0 ** rng.uniform(-20, 20)
    eigenvalues = np.linalg.eigvalsh(H)
    return H if eigenvalues[0] < -1e-8 * eigenvalues[-1] and H.diagonal().min() >= 0.0 else None


@pytest.mark.parametrize("method", METHODS)
def test_indefinite_matrices_are_refused(method):
    """A quarter of the random ones with a positive diagonal ended with `success` and gap 0 at no minimum."""
    found = 0
    for seed in range(400):
        H = random_indefinite(seed)
        if H is not None:
            found += 1
            with pytest.raises(ParameterError, match=r"H must be positive semidefinite, got .* d'Hd = -"):
                solve_simplex_qp(H, np.random.default_rng(seed).standard_normal(len(H)), np.arange(len(H)) // 30,
                                 slack=bool(seed % 2), method=method)
    assert found > 250


def test_without_a_factor_pairs_and_faces_meet_negative_curvature(monkeypatch):
    monkeypatch.setattr(pybundle.qp.curvature, "LARGEST_FACTOR", 10)
    rng = np.random.default_rng(0)
    B = rng.standard_normal((300, 300))
    H = (B + B.T) / 2
    H[np.diag_indices(300)] = 0.5
    with pytest.raises(ParameterError, match="H must be positive semidefinite"):
        solve_simplex_qp(H, np.zeros(300), np.zeros(300, int))
    H[np.diag_indices(300)] = 8.0           # no pair of variables shows it any more
    needed_shift(H, np.zeros(300), np.float64)
    for method in ("auto", "active-set"):
        with pytest.raises(ParameterError, match="H must be positive semidefinite"):
            solve_simplex_qp(H, np.zeros(300), np.zeros(300, int), x0=np.ones(300), method=method)
