"""Certificates with rounding, stopping rules, history, executors."""

import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import pybundle as pb
from pybundle.core.plane import Plane
from pybundle.prox import Ball
from pybundle.prox.of_norm import Square
from pybundle.runtime.executors import Serial, Threads, cpu_count, make_executor, single_threaded_blas
from pybundle.runtime.history import FIELDS, History
from pybundle.runtime.lower_bound import (
    UNIT,
    LowerBound,
    aggregation_errors,
    certify,
    feasible,
)
from pybundle.runtime.result import SENTENCES, Status
from pybundle.runtime.stopping import Callback, GapBelow, MaxIterations, Progress, TimeLimit, first_reason, relative_gap
from pybundle.solvers.problem.free_weights import ProvenLimits
from pybundle.solvers.problem.problem import Problem


def progress(fun=10.0, lower=9.0, n_iter=1):
    return Progress(np.zeros(1), fun, lower, n_iter, 1.0, 1, {})


@pytest.mark.parametrize(("fun", "lower", "gap"), [
    (10.0, 9.0, 0.1), (0.0, 0.0, 0.0), (-5.0, -6.0, 0.2), (1.0, 2.0, 0.0), (0.0, -1.0, np.inf)])
def test_relative_gap(fun, lower, gap):
    assert relative_gap(fun, lower) == pytest.approx(gap)


def test_rules_in_turn():
    rules = [GapBelow(0.05), MaxIterations(3)]
    assert first_reason(rules, progress()) is None
    assert first_reason(rules, progress(n_iter=3)) is Status.ITERATION_LIMIT
    assert first_reason(rules, progress(lower=9.9, n_iter=3)) is Status.CONVERGED
    assert GapBelow(1e-9, atol=1.5)(progress()) is Status.CONVERGED
    assert TimeLimit(1e-9)(progress()) is Status.TIME_LIMIT and TimeLimit(1e9)(progress()) is None
    asked = []
    assert first_reason([MaxIterations(1), Callback(asked.append)], progress()) is Status.ITERATION_LIMIT
    assert len(asked) == 1


def test_every_status_has_a_sentence():
    assert set(SENTENCES) == set(Status)


def test_history_has_equal_lengths():
    history = History()
    assert all(len(column) == 0 for column in history.columns().values())
    history.record(0.1, 1.0, 12.0, 10.0, 9.0)
    arrays = history.columns()
    assert tuple(arrays) == FIELDS
    assert arrays["primal"][0] == 12.0 and arrays["gap"][0] == pytest.approx(0.1) and arrays["time"][0] == 0.1
    assert history.columns(least=20.0)["gap"][0] == pytest.approx(0.05)


@pytest.mark.parametrize("objective", [Problem(Square(3.0)), Problem(Ball(0.7))])
def test_a_lower_bound_is_the_minimum_of_its_plane(objective):
    rng = np.random.default_rng(0)
    phi, offset = rng.normal(size=4), 2.5
    bound = LowerBound.of(objective, Plane(offset, phi)).value
    w = objective.point(phi, 3.0 if objective.lam else 1e-9)
    assert objective.value(w) + offset + phi @ w == pytest.approx(bound)
    for _ in range(200):
        v = rng.normal(size=4)
        if objective.contains(v):
            assert objective.value(v) + offset + phi @ v >= bound


@pytest.mark.parametrize("objective", [Problem(Square(1.0)), Problem(Ball(0.7))])
def test_rounding_errors_count_against_the_bound(objective):
    phi = np.array([3.0, 4.0])
    exact = LowerBound.of(objective, Plane(1.0, phi)).value
    for error in (1e-9, 1e-3):
        shifts = [error * np.array([np.cos(a), np.sin(a)]) for a in np.linspace(0.0, 6.3, 99)]
        worst = min(objective.lower_bound(Plane(1.0, phi + shift)) for shift in shifts)
        assert LowerBound.of(objective, Plane(1.0, phi, error)).value <= worst < exact
    beta, norms, parts = np.array([0.5, 0.0, 0.5]), np.array([2.0, 100.0, 4.0]), np.zeros(3, np.intp)
    assert aggregation_errors(beta, np.zeros(3), norms, parts, np.array([1e-8]), np.zeros(1))[0] == pytest.approx(
        1.01 * (1e-8 + 8 * UNIT * 3.0))


def test_a_lower_bound_is_one_in_exact_arithmetic():
    """Also where the square of phi is lost beside the offset."""
    rng = np.random.default_rng(1)
    for _ in range(2000):
        phi, lam = rng.standard_normal(rng.integers(1, 6)) * 10.0 ** rng.uniform(-12, 6), 10.0 ** rng.uniform(-6, 6)
        offset = float(rng.standard_normal() * 10.0 ** rng.uniform(-6, 6))
        exact = Fraction(offset) - sum(Fraction(float(x)) ** 2 for x in phi) / (2 * Fraction(lam))
        assert Fraction(LowerBound.of(Problem(Square(lam)), Plane(offset, phi)).value) <= exact


def test_squares_that_underflow_count():
    """A bound was 2e-6 above F."""
    phi = np.full(5, 1e-164)
    for lam in (1e-100, 1e-90):
        exact = Fraction(1e-220) - sum(Fraction(float(x)) ** 2 for x in phi) / (2 * Fraction(lam))
        assert Fraction(LowerBound.of(Problem(Square(lam)), Plane(1e-220, phi)).value) <= exact
    assert LowerBound.of(Problem(Square(1e-100)), Plane(0.0, np.zeros(5))).value == 0.0


def test_certify_recomputes_both_sides():
    risk = pb.risks.BinaryHinge(np.array([[1.0], [2.0], [-1.0]], dtype=np.float32), [1, 1, -1])
    bound = LowerBound(Plane(3.0, np.array([-4.0])), value=99.0)     # a wrong stored value must not survive
    certificate = certify(risk, Problem(Square(1.0)), np.array([0.5]), bound)
    assert certificate.fun == pytest.approx(0.125 + 0.5 + 0.0 + 0.5)
    assert certificate.lower_bound == pytest.approx(3.0 - 8.0) and certificate.certified
    # above F(w), and above R(w), which is 1, with a bound of 0.875
    with pytest.raises(pb.OracleError, match="cross"):
        certify(risk, Problem(Square(1.0)), np.array([0.5]), LowerBound(Plane(50.0, np.array([0.0])), 0.875))
    above = LowerBound(Plane(1.0, np.array([0.5])), 0.875)
    assert not certify(risk, Problem(Square(1.0)), np.array([0.5]), above).certified


def test_a_certificate_claims_no_more_than_the_level_of_its_limits():
    """Limits of free weights hold only where F is at most that."""
    risk = pb.risks.BinaryHinge(np.array([[1.0], [2.0], [-1.0]]), [1, 1, -1])
    objective = Problem(pb.prox.Separable(1.0).canonical(1), 0.0)
    bound = LowerBound.of(objective, Plane(1.0, np.array([-1.0])))     # of one example
    limits = ProvenLimits(objective)
    assert certify(risk, objective, np.array([0.5]), bound, None, limits).lower_bound == pytest.approx(0.5)
    limits.level = 0.25
    assert certify(risk, objective, np.array([0.5]), bound, None, limits).lower_bound == 0.25


def test_the_offset_error_counts_against_the_bound():
    beta, offsets, norms = np.array([0.5, 0.5, 1.0]), np.array([1.0, -3.0, 2.0]), np.ones(3)
    parts = np.array([0, 0, 1])
    error, offset_error = aggregation_errors(beta, offsets, norms, parts, np.zeros(2), np.array([1e-3, 1e-2]))
    assert error == 1.01 * 10 * UNIT * 2.0
    assert offset_error == pytest.approx(1.01 * (2.0 * 1e-3 + 2.0 * 1e-2))
    assert aggregation_errors(beta, offsets, norms, parts, np.zeros(2), np.zeros(2))[1] == 1.01 * 10 * UNIT * 4.0
    phi = np.array([3.0, 4.0])
    exact, counted = (LowerBound.of(Problem(Square(1.0)), Plane(1.0, phi, 0.0, e)).value for e in (0.0, 0.25))
    assert exact - counted == pytest.approx(0.25)


def test_the_rounding_of_a_cancelling_bound_is_counted():
    phi = np.full(10, 1e8 / 3)
    exact = Fraction(float(phi @ phi / 2)) - sum(Fraction(float(p)) ** 2 for p in phi) / 2
    assert LowerBound.of(Problem(Square(1.0)), Plane(float(phi @ phi / 2), phi)).value <= exact


def test_the_sum_of_planes_is_within_its_errors():
    """Of planes that are exact: products, sums, and how far the sum of the multipliers is from 1."""
    rng = np.random.default_rng(2)
    for _ in range(100):
        m = int(rng.integers(2, 6))
        slopes, offsets = rng.standard_normal((m, 3)), rng.standard_normal(m)
        beta = feasible(rng.random(m), np.zeros(m, dtype=int), np.array([False]))
        shares = [Fraction(float(b)) / sum(Fraction(float(b)) for b in beta) for b in beta]
        error, offset_error = aggregation_errors(beta, offsets, np.linalg.norm(slopes, axis=1), np.zeros(m, dtype=int),
                                                 np.zeros(1), np.zeros(1))
        for sums, columns, most in ((beta @ slopes, slopes.T, error), ([beta @ offsets], [offsets], offset_error)):
            exact = [sum(s * Fraction(float(x)) for s, x in zip(shares, column, strict=True)) for column in columns]
            square = sum((Fraction(float(a)) - b) ** 2 for a, b in zip(sums, exact, strict=True))
            assert square <= Fraction(most) ** 2


def with_errors(kind, slope, offset):
    """A class of risks that declares errors of its slopes and offsets."""
    return type("Coarse", (kind,), {"slope_errors": slope, "offset_errors": offset})


@pytest.mark.parametrize("method", ["oca", "bmrm", "prox-bmrm", "bcfw", "mp-bcfw", "prox-bcfw", "alm", "frank-wolfe",
                                    "lbfgs", "newton"])
@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
def test_errors_that_a_risk_declares_count_in_every_method(method):
    """The bound allows for them, in the slope and in the offset."""
    rng = np.random.default_rng(3)
    if method in ("lbfgs", "newton"):
        X = rng.standard_normal((40, 5))
        kind, data = pb.risks.Logistic, (X, np.sign(X[:, 0] + rng.standard_normal(40)))
    else:
        kind = pb.risks.Structured
        data = pb.models.Chain(3, 5), rng.standard_normal((20, 4, 5)), rng.integers(0, 3, (20, 4))
    slope, part = 0.25, 0.125
    runs = [pb.minimize(with_errors(kind, *errors)(*data), lam=1.0, method=method, tol=1e-9, max_iter=6).state.bound
            for errors in ((slope, 0.0), (slope, part))]
    for bound in runs:
        assert bound.value <= Problem(Square(1.0)).lower_bound(replace(bound.plane, slope_error=slope))
    if method in ("frank-wolfe", "lbfgs", "newton"):        # these take the error from the offset at once
        assert runs[1].value < runs[0].value - 0.9 * part * abs(runs[0].plane.offset)
    else:
        assert runs[1].plane.offset_error >= part * abs(runs[1].plane.offset)


def test_the_rounding_of_a_long_norm_is_counted():
    """Each of the small squares is lost beside what has been summed before."""
    phi = np.r_[np.ones(64), np.full(5000, 0.99 * 2.0**-26)]
    exact = -sum(Fraction(float(p)) ** 2 for p in phi) / 2
    assert LowerBound.of(Problem(Square(1.0)), Plane(0.0, phi)).value <= exact


@pytest.mark.parametrize("tol", [0.0, 1e-6, 0.1])
def test_a_gap_is_at_most_tol_exactly_where_the_rule_holds(tol):
    """Exact fits converged with gaps of 1.12 or infinity."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        fun = rng.standard_normal() * 10.0 ** rng.uniform(-12, 12) * rng.integers(0, 2)
        rule = GapBelow(tol, 10.0 ** rng.uniform(-15, 9))
        lower = fun - max(tol * abs(fun), rule.atol) * rng.choice([0.0, 0.5, 1.0 - 1e-9, 1.0 + 1e-9, 2.0])
        close = fun - lower <= max(tol * abs(fun), rule.atol)
        assert rule.holds(fun, lower) == close or np.isclose(fun - lower, max(tol * abs(fun), rule.atol), rtol=1e-6)
        if tol > 0.0:
            assert (rule.gap(fun, lower) <= tol) == rule.holds(fun, lower) and np.isfinite(rule.gap(fun, lower))


def test_a_value_that_cancels_is_certified_with_its_error():
    """Small against R(0), `offset + <slope, w>` is noise; the sum of the losses and its error are not."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 256, (60, 30)).astype(np.uint8), np.arange(60) % 3
    risk = pb.risks.MulticlassHinge(X, y, scale=1e4)
    w = pb.minimize(risk, lam=1e-7, tol=1e-3, max_iter=300).x
    certificate = certify(risk, Problem(Square(1e-7)), w, LowerBound(Plane(0.0, np.zeros(90)), 0.0))
    loss = Fraction(0)
    W = [[Fraction(float(v)) for v in row] for row in w.reshape(3, 30)]
    for x, truth in zip(X, y, strict=True):
        scores = [10000 * sum(v * int(a) for v, a in zip(row, x, strict=True)) for row in W]
        loss += max(int(k != truth) + scores[k] - scores[truth] for k in range(3))
    exact = loss + Fraction(1e-7) / 2 * sum(v * v for row in W for v in row)
    assert certificate.certified and abs(exact - Fraction(certificate.fun)) <= Fraction(certificate.error)
    assert certificate.error < 1e-9


def test_a_risk_may_state_its_errors():
    class Stated:
        n_parts, n_examples, dim, lower_bounds = 2, 1, 1, np.zeros(2)

        def evaluate(self, w):
            raise AssertionError("values are enough")

        def values(self, w):
            return np.array([1.0, 2.0]), np.array([0.25, 0.5])

    certificate = certify(Stated(), Problem(Square(1.0)), np.zeros(1), LowerBound(Plane(3.5, np.zeros(1)), 0.0))
    assert certificate.fun == 3.0 and certificate.certified and certificate.error == pytest.approx(0.7575)
    with pytest.raises(pb.OracleError, match="fun 3 < lower bound 4"):
        certify(Stated(), Problem(Square(1.0)), np.zeros(1), LowerBound(Plane(4.0, np.zeros(1)), 0.0))


@pytest.mark.parametrize("method", ["oca", "bmrm"])
def test_errors_of_evaluated_values_count_without_a_pass(method):
    class Stated:
        n_parts, n_examples, dim, lower_bounds, calls = 1, 1, 2, np.zeros(1), 0

        def evaluate(self, w):
            self.calls += 1
            return np.array([np.abs(w - 3.0).sum()]), np.sign(w - 3.0)[None]

        def value_errors(self, w, values):
            return np.array([0.25])

    risk = Stated()
    result = pb.minimize(risk, lam=1.0, tol=0.2, method=method)
    assert result.certified and result.error == pytest.approx(0.2525) and risk.calls == result.n_passes
    bound = LowerBound(Plane(0.0, np.zeros(2)), 0.0)
    assert certify(risk, Problem(Square(1.0)), np.zeros(2), bound).error == pytest.approx(0.2525)


def test_executors_keep_the_order():
    for pool in (Serial(), Threads(3)):
        assert pool.map(lambda k: (time.sleep(0.002 * (5 - k)), k)[1], range(5)) == list(range(5))
        pool.close()
    assert make_executor(None).n_jobs == make_executor(1).n_jobs == 1
    pool = make_executor(-1)
    assert pool.n_jobs >= 1 and pool.map(abs, []) == [] and pool.map(abs, iter([-2])) == [2]
    pool.close()
    with pytest.raises(pb.ParameterError, match="n_jobs"):
        make_executor(-2)


def test_threads_work_where_the_caller_waits_and_raise_the_first_failure():
    met, both = set(), threading.Barrier(2)

    def item(k):
        if k < 2:                       # neither the caller nor the other thread can do these two alone
            both.wait(timeout=30)
        met.add(threading.get_ident())
        return k * k

    pool = Threads(2)
    assert pool.map(item, range(50)) == [k * k for k in range(50)]
    assert len(met) == 2 and threading.get_ident() in met

    begun = []

    def failing(k):
        begun.append(k)
        if k == 0:
            both.wait(timeout=30)
            time.sleep(0.05)            # item 1 fails before
        if k == 1:
            both.wait(timeout=30)
        raise ValueError(f"item {k}")

    with pytest.raises(ValueError, match="item 0"):
        pool.map(failing, range(50))
    assert sorted(begun) == [0, 1]      # no item begins after a failure
    assert pool.map(lambda k: sum(pool.map(abs, range(-k, 0))), range(20)) == [k * (k + 1) // 2 for k in range(20)]
    answers = [None] * 4
    callers = [threading.Thread(target=lambda j=j: answers.__setitem__(j, pool.map(lambda k: (j, k), range(100))))
               for j in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)
    assert answers == [[(j, k) for k in range(100)] for j in range(4)]
    pool.close()


def test_threads_hold_no_results_once_they_are_handed_back(monkeypatch):
    """On a busy core a thread of the pool let go of its work late, and the last results lived into the next sum."""
    pool, held = Threads(2), []
    submit = ThreadPoolExecutor.submit
    monkeypatch.setattr(ThreadPoolExecutor, "submit", lambda self, work: held.append(work) or submit(self, work))
    results = pool.map(np.zeros, range(4))
    marks = [weakref.ref(result) for result in results]
    assert held and all(mark() is not None for mark in marks)
    del results
    assert all(mark() is None for mark in marks)
    pool.close()


def test_blas_limit_is_shared_and_restored():
    def limits():
        return sorted(row["num_threads"] for row in threadpool_info() if row["user_api"] == "blas")
    before, inside, ready, leave = limits(), [], threading.Barrier(2), threading.Event()

    def other():
        with single_threaded_blas():
            ready.wait()
            leave.wait()
    thread = threading.Thread(target=other)
    thread.start()
    with single_threaded_blas():
        ready.wait()
    inside.extend(limits())               # one user has left, the other is still in
    leave.set()
    thread.join()
    assert set(inside) == {1}
    assert limits() == before


def test_n_jobs_is_that_of_joblib_where_that_is_in_use(monkeypatch):
    import sys

    joblib = pytest.importorskip("joblib")
    with joblib.parallel_config(n_jobs=3):
        pool = make_executor(None)
        assert isinstance(pool, Threads) and pool.n_jobs == 3
        pool.close()
        assert isinstance(make_executor(1), Serial)         # what was asked for counts
    assert isinstance(make_executor(None), Serial)
    with joblib.parallel_config(backend="threading", n_jobs=4):
        inside = joblib.Parallel()(joblib.delayed(lambda: make_executor(None).n_jobs)() for _ in range(4))
    assert inside == [1] * 4        # the workers are the jobs
    monkeypatch.delitem(sys.modules, "joblib")
    assert isinstance(make_executor(None), Serial) and "joblib" not in sys.modules


def test_all_processors_are_those_of_this_process():
    pool = make_executor(-1)
    assert pool.n_jobs == cpu_count() >= 1
    pool.close()
    with pytest.raises(pb.ParameterError, match="n_jobs"):
        make_executor(0)
