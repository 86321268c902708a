"""The loop: certificates hold, bounds are monotone, all methods and partitions reach the same optimum."""

import pickle
import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from reference.primal import multiclass_minimum, multiclass_objective
from signs import signed

import pybundle as pb
from pybundle.core.archive import read_archive
from pybundle.solvers.block.block_method import BlockMethod
from pybundle.solvers.bundle.bundle_method import BundleMethod
from pybundle.solvers.smooth.smooth_run import SmoothRun

METHODS = ["bmrm", "prox-bmrm", "oca", "auto"]


def blobs(n=60, d=5, n_classes=4, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(n_classes, d))[y]
    return X.astype(dtype), y


def multiclass(n_parts=None, **kwargs):
    X, y = blobs(**kwargs)
    return pb.risks.MulticlassHinge(X, y, n_parts=n_parts)


def check_history(result):
    """Every row keeps the promise."""
    h = result.history
    assert len({len(column) for column in h.values()}) == 1
    assert (np.diff(h["lower_bound"]) >= 0).all()
    # where one method takes over from another it evaluates the same point again, in another order of the sum
    assert (np.diff(h["best_primal"]) <= 1e-14 * np.abs(h["best_primal"][1:])).all()
    assert (np.diff(h["n_passes"]) >= 0).all()
    assert (h["gap"] >= 0).all()
    assert (h["best_primal"] <= h["primal"] * (1 + 1e-12)).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_parts", [1, 3, 60, 97])
def test_every_method_and_partition_reaches_the_optimum(method, n_parts):
    X, y = blobs()
    for lam in (10.0, 0.5):
        result = pb.minimize(pb.risks.MulticlassHinge(X, y, n_parts=n_parts), lam=lam, method=method, tol=1e-7)
        assert result.success and result.certified and result.status == pb.Status.CONVERGED
        assert result.gap <= 1e-7
        assert result.fun == pytest.approx(multiclass_objective(result.x.reshape(4, 5), X, y, lam), rel=1e-12)
        best = multiclass_minimum(X, y, lam, 4)
        assert result.lower_bound <= best * (1 + 1e-7)
        assert best <= result.fun * (1 + 1e-7)
        check_history(result)


@pytest.mark.parametrize("method", ["bmrm", "prox-bmrm", "oca", "sgd"])
def test_bounds_hold_at_every_iteration(method):
    X, y = blobs()
    best = multiclass_minimum(X, y, 1.0, 4)      # to about 1e-9
    result = pb.minimize(pb.risks.MulticlassHinge(X, y, n_parts=2), lam=1.0, method=method, tol=1e-9, max_iter=25,
                         random_state=0)
    assert (result.history["lower_bound"] <= best * (1 + 1e-7)).all()
    assert (result.history["primal"] >= best * (1 - 1e-7)).all()
    check_history(result)


@pytest.mark.parametrize("method", METHODS)
def test_plain_callable_without_lower_bound(method):
    """R(w) = max(w - 5, -8) has R < 0: the zero plane would be wrong. lam = 1: minimum -5.5 at w = -1."""
    def fun(w):
        return w[0] - 5.0, np.array([1.0])
    result = pb.minimize(fun, [2.0], lam=1.0, method=method, tol=1e-8)
    assert result.fun == pytest.approx(-5.5) and result.lower_bound == pytest.approx(-5.5)
    assert result.lower_bound <= result.fun and result.success


def test_callable_with_parts_and_smooth_risk():
    A = np.random.default_rng(0).normal(size=(4, 3))

    def fun(w):
        residual = A @ w - 1.0
        return residual**2, 2.0 * residual[:, None] * A
    exact = np.linalg.solve(2 * A.T @ A + 0.1 * np.eye(3), 2 * A.T @ np.ones(4))
    result = pb.minimize(fun, np.zeros(3), lam=0.1, tol=1e-9)
    np.testing.assert_allclose(result.x, exact, atol=1e-4)
    assert result.success


@pytest.mark.parametrize("bound", [-1.0, 0.5])
def test_known_lower_bound_of_a_part_is_used(bound):
    def fun(w):
        return max(bound, abs(w[0] - 3.0) + bound), np.array([np.sign(w[0] - 3.0)])
    risk = pb.risks.Function(fun, 1, lower_bounds=[bound])
    result = pb.minimize(risk, lam=0.01, tol=1e-9)
    assert result.success and result.fun == pytest.approx(0.005 * 9 + bound)


@pytest.mark.parametrize("method", ["bmrm", "prox-bmrm", "cutting-plane"])
@pytest.mark.parametrize("n_parts", [1, 4])
def test_without_the_zero_plane_multipliers_sum_to_one(method, n_parts):
    """A bundle that was made with it, checkpoints and declared bounds included."""
    weights = np.ones(40)
    weights[::4] = 0.0          # with four parts, part 0 has the plane 0 alone, which the zero plane replaces
    X, y = np.random.default_rng(3).normal(size=(40, 3)), np.arange(40) % 3
    risk = pb.risks.MulticlassHinge(X, y, n_parts=n_parts, sample_weight=weights)
    size = {"penalty": pb.prox.Ball(2.0)} if method == "cutting-plane" else {"lam": 1.0}
    best = pb.minimize(risk, method=method, tol=1e-6, **size)
    result = pb.minimize(risk, method=f"{method} zero_plane=False", tol=1e-4, **size)
    later = pb.minimize(risk, method=f"{method} zero_plane=False", tol=1e-5, warm_start=best, **size)
    for found in (result, later):
        beta, parts = found.state.bundle.beta, found.state.bundle.parts
        np.testing.assert_allclose(np.bincount(parts, beta, n_parts), 1.0, atol=1e-12)
        assert found.success and found.lower_bound <= best.fun and best.lower_bound <= found.fun


@pytest.mark.parametrize("bound", [-1.0, 0.5])
def test_without_the_zero_plane_no_declared_bound_is_a_plane(bound):
    def fun(w):
        above = abs(w[0] - 3.0) - 2.0
        return max(bound, above) + 1.0, np.array([np.sign(w[0] - 3.0) * (above > bound)])

    risk = pb.risks.Function(fun, 1, lower_bounds=bound)
    for zero_plane in (True, False):
        result = pb.minimize(risk, lam=1e-3, method=f"bmrm zero_plane={zero_plane}", tol=1e-6)
        assert result.success and (bound in result.state.bundle.offsets) == zero_plane


def test_a_checkpoint_belongs_to_runs_with_the_same_zero_plane(tmp_path):
    risk, path = pb.risks.MulticlassHinge(*blobs(60, 3)), tmp_path / "run.npz"
    options = {"lam": 0.1, "method": "prox-bmrm zero_plane=False", "checkpoint": path, "tol": 1e-5}
    with pytest.warns(pb.ConvergenceWarning):
        pb.minimize(risk, max_iter=5, **options)
    with pytest.raises(pb.StateError, match="zero_plane"):
        pb.minimize(risk, max_iter=9, **options | {"method": "prox-bmrm"})
    whole = pb.minimize(risk, **options | {"checkpoint": None})
    np.testing.assert_array_equal(pb.minimize(risk, **options).x, whole.x)


def test_ball_problem_against_the_penalty_problem():
    """With radius = |w(lam)| both problems have the same minimiser."""
    risk = multiclass(n_parts=2)
    penalised = pb.minimize(risk, lam=2.0, method="bmrm", tol=1e-9)
    radius = float(np.linalg.norm(penalised.x))
    ball = pb.minimize(risk, penalty=pb.prox.Ball(radius), method="cutting-plane", tol=1e-6)
    assert ball.success and np.linalg.norm(ball.x) <= radius * (1 + 1e-9)
    assert ball.fun == pytest.approx(penalised.fun - 0.5 * 2.0 * radius**2, rel=1e-5)
    assert ball.lower_bound <= ball.fun
    check_history(ball)


def test_ball_larger_than_needed():
    result = pb.minimize(lambda w: (abs(w[0] - 1.0) + 1.0, np.sign(w - 1.0)), [3.0], penalty=pb.prox.Ball(100.0),
                         method="cutting-plane", tol=1e-6)
    assert result.fun == pytest.approx(1.0, rel=1e-5) and result.success


def test_teo_iteration_bound():
    """[Teo2010, Thm 5]: at most log2(lam F(0) / G^2) + 4 G^2 / (lam eps) iterations to the absolute gap eps."""
    X, y = blobs()
    lam, eps = 30.0, 0.5
    G2 = 2.0 * np.linalg.norm(X, axis=1).sum() ** 2
    result = pb.minimize(pb.risks.MulticlassHinge(X, y, n_parts=1), lam=lam, method="bmrm", tol=1e-15, atol=eps)
    assert result.success
    assert result.nit <= max(0.0, np.log2(lam * len(y) / G2)) + 4.0 * G2 / (lam * eps)


@pytest.mark.parametrize("options", [{"method": "oca max_idle=3"}, {"memory_limit": 20000},
                                     {"memory_limit": 8000, "tol": 1e-4}])
def test_forgetting_planes_keeps_the_answer(options):
    risk = multiclass(n_parts=2)
    full = pb.minimize(risk, lam=1.0, method=pb.methods.parse("bmrm", max_idle=10**6), tol=1e-5)
    small = pb.minimize(risk, lam=1.0, **{"method": "oca", "tol": 1e-5, "max_iter": 20000} | options)
    assert small.max_planes < full.max_planes
    assert small.success
    assert abs(small.fun - full.fun) <= 2.0 * options.get("tol", 1e-5) * full.fun
    check_history(small)


def test_memory_limit_too_small_is_refused():
    with pytest.raises(pb.ParameterError, match="memory_limit must be at least"):
        pb.minimize(multiclass(n_parts=4), lam=1.0, memory_limit=2000)


def test_mean_scale_is_converted_once_at_the_border():
    risk, n = multiclass(n_parts=2), 60
    total = pb.minimize(risk, lam=3.0, tol=1e-6, method="oca")
    seen = []
    mean = pb.minimize(risk, lam=3.0 / n, tol=1e-6, scale="mean", method="oca", callback=lambda p: seen.append(p.fun))
    np.testing.assert_allclose(seen, mean.history["best_primal"])
    np.testing.assert_array_equal(total.x, mean.x)
    assert mean.fun == pytest.approx(total.fun / n, rel=1e-14)
    assert mean.lower_bound == pytest.approx(total.lower_bound / n, rel=1e-14)
    np.testing.assert_allclose(mean.history["primal"], total.history["primal"] / n)


@pytest.mark.parametrize("method", ["bmrm", "prox-bmrm", "oca", "sgd"])
def test_dense_and_csr_give_the_same_result(method):
    """Sums of such numbers are exact in float64, so every storage gives the same planes, hence the same run."""
    X, y = blobs(n=300, d=20)
    X = np.round(64.0 * X) / 64.0
    X[np.abs(X) < 0.7] = 0.0
    risks = [pb.risks.MulticlassHinge(data, y, n_parts=4) for data in (X, sp.csr_array(X), X.astype(np.float32))]
    results = [pb.minimize(risk, lam=1.0, method=method, tol=1e-3, random_state=1) for risk in risks]
    assert results[1].fun == pytest.approx(results[0].fun, rel=1e-9)
    assert results[1].lower_bound == pytest.approx(results[0].lower_bound, rel=1e-9)
    if method in ("bmrm", "prox-bmrm"):        # the others work with float32 scores
        assert results[2].fun == pytest.approx(results[0].fun, rel=1e-9)


@pytest.mark.parametrize("method", ["bmrm", "prox-bmrm", "oca"])
@pytest.mark.parametrize("n_classes", [2, 5, 37])
def test_dense_and_csr_float32_give_the_same_bits(method, n_classes):
    X, y = blobs(n=400, d=37, n_classes=n_classes, dtype=np.float32)
    X = (np.round(64.0 * X) / 64.0).astype(np.float32)
    X[np.abs(X) < 0.7] = 0.0
    dense, csr = (pb.minimize(pb.risks.MulticlassHinge(data, y), lam=0.1, method=method, max_iter=15, tol=1e-3)
                  for data in (X, sp.csr_array(X)))
    np.testing.assert_array_equal(dense.x, csr.x)
    assert (dense.fun, dense.lower_bound) == (csr.fun, csr.lower_bound)


@pytest.mark.parametrize("method", ["bmrm", "oca", "sgd"])
def test_threads_give_the_same_bits(method):
    risk = multiclass(n=20000, d=7, dtype=np.float32)
    one, two = (pb.minimize(risk, lam=5.0, method=method, max_iter=4, tol=1e-4, n_jobs=k, random_state=3)
                for k in (1, 2))
    np.testing.assert_array_equal(one.x, two.x)
    assert one.fun == two.fun and one.lower_bound == two.lower_bound


def test_two_solves_at_once():
    risk, results = multiclass(n=400), {}

    def solve(lam):
        results[lam] = pb.minimize(risk, lam=lam, tol=1e-5)
    threads = [threading.Thread(target=solve, args=(lam,)) for lam in (4.0, 0.5, 1.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for lam, result in results.items():
        np.testing.assert_array_equal(result.x, pb.minimize(risk, lam=lam, tol=1e-5).x)


@pytest.mark.parametrize("method", ["bmrm", "prox-bmrm"])
def test_published_stop_compares_the_current_iterate(method):
    risk = multiclass(n=300)
    published = pb.minimize(risk, lam=1.0, method=pb.methods.parse(method, stop="published", theta=0.02), n_parts=1)
    free = pb.minimize(risk, lam=1.0, method=pb.methods.parse(method, theta=0.02), n_parts=1)
    assert published.success and free.success
    assert published.nit >= free.nit
    h = published.history
    assert h["primal"][-1] - h["lower_bound"][-1] <= 0.01 * h["primal"][-1]


def test_prox_honours_K():
    risk, w0 = multiclass(n=300, seed=3), np.full(20, 0.1)
    steps = []
    pb.minimize(risk, w0, lam=0.01, method="prox-bmrm K=0.05 T=1", tol=1e-3, n_parts=1, max_iter=6,
                callback=lambda p: steps.append(p.x.copy()))
    moves = np.linalg.norm(np.diff([w0, *steps], axis=0), axis=1)
    assert (moves > 0).any() and moves.max() <= 0.05 * (1 + 1e-6)


def test_path_reuses_planes_without_an_oracle_call():
    risk, lams = multiclass(n=400, n_parts=4), [10.0, 3.0, 1.0]
    cold = [pb.minimize(risk, lam=lam, tol=1e-4) for lam in lams]
    planes = pb.path(risk, lams, tol=1e-4)
    solution = pb.path(risk, lams[::-1], tol=1e-4, reuse="solution")[::-1]
    for a, b, c in zip(cold, planes, solution, strict=True):
        assert a.success and b.success and c.success
        assert max(a.lower_bound, b.lower_bound, c.lower_bound) <= min(a.fun, b.fun, c.fun)
    assert sum(r.n_passes for r in planes) < sum(r.n_passes for r in cold)
    again = pb.minimize(risk, lam=1.0, tol=1e-4, warm_start=planes[-1])
    assert again.n_passes <= 1.0 and again.success      # the certificate pass only


def test_sgd_gives_a_bound_and_warms_a_bundle():
    risk = multiclass(n=500, d=8, n_parts=4)
    sgd = pb.minimize(risk, lam=5.0, method="sgd", random_state=0)
    assert sgd.nit <= 10 and -np.inf < sgd.lower_bound <= sgd.fun and sgd.certified
    assert sgd.fun < 500.0
    warm = pb.minimize(risk, lam=5.0, method="oca", warm_start=sgd, tol=1e-3)
    assert warm.success and warm.fun <= sgd.fun * (1 + 1e-12)
    same = pb.minimize(risk, lam=5.0, method="sgd", random_state=0)
    np.testing.assert_array_equal(same.x, sgd.x)


def test_callback_stops_and_sees_progress():
    seen = []

    def callback(progress):
        seen.append((progress.n_iter, progress.gap, progress.n_planes))
        return len(seen) == 3
    result = pb.minimize(multiclass(n=300), lam=0.01, tol=1e-9, callback=callback)
    assert result.status == pb.Status.CALLBACK and not result.success
    assert [row[0] for row in seen] == [1, 2, 3]
    assert result.certified and result.lower_bound <= result.fun

    def stop(progress):
        raise StopIteration
    assert pb.minimize(multiclass(), lam=0.01, tol=1e-9, callback=stop).nit == 1


def test_limits_are_reported():
    risk = multiclass(n=300)
    with pytest.warns(pb.ConvergenceWarning, match=r"gap .*, tol 1e-09"):
        limited = pb.minimize(risk, lam=0.01, tol=1e-9, max_iter=2)
    assert limited.status == pb.Status.ITERATION_LIMIT and limited.nit == 2 and "max_iter" in limited.message
    timed = pb.minimize(risk, lam=0.01, tol=1e-12, time_limit=1e-9)
    assert timed.status == pb.Status.TIME_LIMIT and timed.certified


def test_keyboard_interrupt_returns_the_best_state():
    def interrupt(progress):
        if progress.n_iter == 4:
            raise KeyboardInterrupt
    result = pb.minimize(multiclass(n=300), lam=0.01, tol=1e-9, callback=interrupt)
    assert result.status == pb.Status.INTERRUPTED
    assert result.certified and -np.inf < result.lower_bound <= result.fun


def test_an_interrupt_between_the_passes_of_a_certificate_costs_no_result(monkeypatch):
    """With a shift, or dependent columns, a second pass asks for the value at the point of the user."""
    from pybundle.solvers import ending

    calls, certify = [], ending.certify

    def interrupted(*arguments):
        calls.append(len(calls))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return certify(*arguments)

    monkeypatch.setattr(ending, "certify", interrupted)
    X = np.random.default_rng(0).standard_normal((30, 2))
    risk = pb.risks.Absolute(X, X[:, 0] + 1e6, fit_intercept=True)
    result = pb.minimize(risk, lam=1.0, tol=1e-6)
    assert len(calls) > 2 and result.status == pb.Status.INTERRUPTED and result.certified


def test_interrupt_ends_a_path():
    calls = []

    def interrupt(progress):
        calls.append(progress.n_iter)
        if len(calls) == 4:
            raise KeyboardInterrupt
    results = pb.path(multiclass(n=300), [1.0, 0.1, 0.01], tol=1e-9, callback=interrupt)
    assert [r.status for r in results] == [pb.Status.INTERRUPTED] and results[0].lam == 1.0


def test_verbose_prints_few_lines(capsys):
    pb.minimize(multiclass(n=300), lam=0.5, tol=1e-6, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert "300 examples" in lines[0] and "MB" in lines[0]
    assert "objective" in lines[1] and 3 <= len(lines) < 20
    pb.minimize(multiclass(n=300, n_parts=1), lam=0.5, method="bmrm", verbose=1)
    assert "1 part, about" in capsys.readouterr().out


def test_messages_name_what_to_change():
    X, y = np.eye(3)[np.arange(30) % 3], np.arange(30) % 3
    for method in ("auto", "oca"):
        weak = pb.minimize(pb.risks.MulticlassHinge(1e12 * X, y), lam=1.0, tol=1e-3, atol=0.0, method=method,
                           max_iter=1000)
        assert not weak.success and "the columns of X have entries of 1e+12: scale them" in weak.message
        assert ("use method 'auto'" in weak.message) == (method != "auto")
    y[:2] = 1, 2        # two wrong labels, so that no w has the value 0
    ball = pb.minimize(pb.risks.MulticlassHinge(X, y), penalty=pb.prox.Ball(1e16), tol=1e-12, max_iter=310)
    assert not ball.success and "take a smaller radius" in ball.message
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(400, 60)))
    risk = pb.risks.MulticlassHinge(X, (X @ rng.normal(size=(60, 4))).argmax(axis=1))
    signs = pb.minimize(risk, penalty=signed(0.1, np.ones(risk.dim, bool)), tol=1e-3, memory_limit=200_000)
    assert signs.status is pb.Status.STALLED and "raise memory_limit (sign constraints use part of it)" in signs.message
    ample = pb.minimize(risk, lam=0.1, tol=1e-3, method="oca", max_iter=3, memory_limit=10**9)
    assert "raise max_iter or tol" in ample.message and "memory_limit" not in ample.message
    early = pb.minimize(risk, lam=0.1, tol=1e-3, method="bmrm", max_iter=3)
    assert early.message.startswith("the iteration limit was reached; raise max_iter or tol (gap ")


@pytest.mark.parametrize("method", ["oca", "bmrm", "sgd", "lbfgs", "newton"])
def test_ctrl_c_before_the_first_bound_leaves_what_the_risk_declares(method, monkeypatch):
    kind = {"lbfgs": SmoothRun, "newton": SmoothRun}.get(method, BundleMethod)
    risk = multiclass() if kind is BundleMethod else pb.risks.Logistic(np.eye(2), [1, -1])

    def interrupt(self):
        raise KeyboardInterrupt
    monkeypatch.setattr(kind, "step", interrupt)
    result = pb.minimize(risk, lam=1.0, method=method)
    assert result.status is pb.Status.INTERRUPTED and result.certified and 0.0 <= result.lower_bound < result.fun


def test_an_unreachable_tolerance_ends():
    result = pb.minimize(multiclass(n_parts=1), lam=1.0, method="bmrm", tol=1e-300, max_iter=5000)
    assert result.success or (result.status == pb.Status.STALLED and result.nit < 1000 and result.gap < 1e-9)


def test_linear_svc_reaches_the_same_objective_on_digits():
    pytest.importorskip("sklearn", reason="needs scikit-learn, the extra `sklearn`")
    from sklearn.datasets import load_digits
    from sklearn.svm import LinearSVC
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    peer = LinearSVC(multi_class="crammer_singer", C=0.1, fit_intercept=False, tol=1e-6, max_iter=100000).fit(X, y)
    theirs = multiclass_objective(peer.coef_, X, y, 10.0)
    ours = pb.minimize(pb.risks.MulticlassHinge(X, y), lam=10.0, tol=1e-4)
    assert ours.lower_bound <= theirs * (1 + 1e-9)
    assert ours.fun <= theirs * (1 + 1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("start", [0.0, 1.0, 2.0])
def test_flat_pieces_below_zero_are_planes_too(method, start):
    """A part whose only plane was flat and negative counted as 0: the bound 2.5 was above the minimum 2.2."""
    def fun(w):
        flat = w[0] >= 0.1
        values = np.array([-0.3 if flat else -0.2 - w[0], abs(w[0] - 3.0)])
        return values, [[0.0 if flat else -1.0], [np.sign(w[0] - 3.0)]]

    result = pb.minimize(fun, np.array([start]), lam=1.0, method=method, tol=1e-6)
    assert result.success and result.lower_bound <= 2.2 + 1e-12
    assert abs(result.fun - 2.2) <= 3e-6


def test_constant_negative_risk():
    result = pb.minimize(lambda w: (-1.0, np.zeros(2)), np.ones(2), lam=1.0)
    assert result.success and abs(result.fun + 1.0) <= 0.01


@pytest.mark.parametrize("method", METHODS)
def test_starts_without_any_plane(method):
    """At a separating w0 every plane is the zero plane, and the master has no variables."""
    risk = pb.risks.MulticlassHinge(np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]]), [0, 1, 0])
    result = pb.minimize(risk, np.array([5.0, -5.0, -5.0, 5.0]), lam=1.0, method=method, tol=1e-6)
    assert result.success and abs(result.fun - pb.minimize(risk, lam=1.0, tol=1e-6).fun) <= 2e-6 * result.fun
    weightless = pb.risks.MulticlassHinge(np.eye(2), [0, 1], sample_weight=np.zeros(2))
    nothing = pb.minimize(weightless, np.ones(4), lam=1.0, method=method)
    assert nothing.success and nothing.fun == 0.0 and nothing.lower_bound == 0.0


def test_sgd_takes_over_planes():
    """A warm start knows F at the best point but not the values of its parts."""
    risk = multiclass(n_parts=3)
    first = pb.minimize(risk, lam=1.0, tol=1e-8)
    second = pb.minimize(risk, lam=1.0, method="sgd", warm_start=first, max_iter=2, tol=1e-12)
    assert second.certified and second.fun <= first.fun
    assert all(result.certified for result in pb.path(risk, [1.0, 0.1], method="sgd", max_iter=2))


def test_ball_moves_a_start_from_outside_to_its_border():
    """Outside the ball there was no best point: the infinite value counted as converged, and x was None."""
    risk = multiclass(n_parts=1)
    cold = pb.minimize(risk, penalty=pb.prox.Ball(0.5), tol=1e-4)
    far = pb.minimize(risk, np.full(risk.dim, 10.0), penalty=pb.prox.Ball(0.5), tol=1e-4)
    wide = pb.minimize(risk, penalty=pb.prox.Ball(5.0), tol=1e-4)
    assert np.linalg.norm(wide.x) > 0.5
    warm = pb.minimize(risk, penalty=pb.prox.Ball(0.5), tol=1e-4, warm_start=wide)
    for result in (far, warm):
        assert result.success and np.linalg.norm(result.x) <= 0.5 * (1 + 1e-12)
        assert abs(result.fun - cold.fun) <= 2e-4 * cold.fun


@pytest.mark.parametrize("method", ["bmrm", "prox-bmrm"])
@pytest.mark.parametrize("seed", [18, 33])
def test_a_valid_risk_is_not_refused_at_small_lam(method, seed):
    """Inner products in Gram space lost ten digits here and made planes look as if they lay above the risk."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([20, 70])), int(rng.choice([1, 2, 7]))
    lam = 10.0 ** rng.integers(-8, -3)
    X, y = rng.standard_normal((n, d)), rng.integers(2, size=n)
    y[:2] = 0, 1
    risk = pb.risks.MulticlassHinge(X, y, n_parts=2, bias=100.0)
    assert pb.minimize(risk, lam=lam, method=method, tol=1e-3, max_iter=100).certified


def test_a_result_survives_pickling():
    risk = multiclass(n_parts=3)
    first = pickle.loads(pickle.dumps(pb.minimize(risk, lam=1.0)))
    second = pb.minimize(risk, lam=0.5, warm_start=first, tol=1e-6)
    assert second.success and first.success


@pytest.mark.parametrize("reuse", ["planes", "solution"])
def test_path_of_a_plain_callable(reuse):
    """The call at w0 that tells the number of parts was replayed at another point, and planes needed a w0."""
    def fun(w):
        return np.abs(w - 1.0).sum(), np.sign(w - 1.0)

    results = pb.path(fun, [0.1, 1.0], w0=np.zeros(2), reuse=reuse, tol=1e-6)
    assert [result.success for result in results] == [True, True]
    assert np.allclose([result.fun for result in results], [0.1, 1.0], rtol=2e-6)
    again = pb.minimize(fun, np.zeros(2), lam=0.1, tol=1e-6, warm_start=results[0])
    assert again.success and np.isclose(again.fun, 0.1, rtol=2e-6)


@pytest.mark.parametrize("change", [
    {"sample_weight": np.full(60, 0.9)}, {"random_state": 1}, {"partition": "contiguous"}, {"bias": 1.0}])
def test_a_warm_start_from_another_risk_is_refused(change):
    """Planes of a risk with larger weights lay above this one and gave a lower bound above the minimum."""
    X, y = blobs()
    other = pb.minimize(pb.risks.MulticlassHinge(X, y, n_parts=2), lam=1.0, tol=0.1)
    with pytest.raises(pb.ParameterError, match="same risk"):
        pb.minimize(pb.risks.MulticlassHinge(X, y, n_parts=2, **change), lam=1.0, warm_start=other)
    with pytest.raises(pb.InputTypeError, match="warm_start must be a Result"):
        pb.minimize(pb.risks.MulticlassHinge(X, y), lam=1.0, warm_start=3)


def test_a_warm_start_survives_pickling_and_other_parts():
    import pickle
    X, y = blobs()
    first = pickle.loads(pickle.dumps(pb.minimize(pb.risks.MulticlassHinge(X, y, n_parts=2), lam=1.0, tol=1e-4)))
    first.x *= 0.0                  # the point of the state is its own
    same = pb.minimize(pb.risks.MulticlassHinge(X.copy(), y, n_parts=2), lam=1.0, tol=1e-3, warm_start=first)
    assert same.success and same.n_passes <= 2.0
    assert pb.minimize(pb.risks.MulticlassHinge(X, y, n_parts=3), lam=1.0, tol=1e-3, warm_start=first).success


def test_best_point_proximity_does_not_stall():
    """alpha grew without end where the master was not accurate enough to predict a decrease."""
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((200, 30)), rng.integers(5, size=200)
    risk = pb.risks.MulticlassHinge(X, y, n_parts=16)
    for lam in (1e-6, 1.0):
        result = pb.minimize(risk, lam=lam, method="oca line_search=False", tol=1e-3, max_iter=300)
        assert result.success and abs(result.fun - 197.3) < 0.5


def test_interrupted_while_planes_are_stored():
    """The bundle is half changed then, so no state is handed back; point and bound are whole."""
    calls = [0]

    class Interrupted(pb.bundle.Bundle):
        def append(self, *args):
            calls[0] += 1
            if calls[0] == 5:
                raise KeyboardInterrupt
            super().append(*args)
    import pybundle.solvers.bundle.bundle_method as module
    original, module.Bundle = module.Bundle, Interrupted
    try:
        result = pb.minimize(multiclass(), lam=0.01, tol=1e-9, method="oca")
    finally:
        module.Bundle = original
    assert result.status == pb.Status.INTERRUPTED and result.certified and result.state is None


def test_a_failing_callback_leaves_a_certificate():
    def callback(progress):
        if progress.n_iter == 3:
            raise ZeroDivisionError("user code")
    with pytest.raises(ZeroDivisionError) as caught:
        pb.minimize(multiclass(), lam=0.01, tol=1e-9, callback=callback)
    assert caught.value.result.certified


def test_a_path_keeps_finished_results():
    def callback(progress):
        if progress.gap < 0.05 and progress.n_iter > 8:
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError) as caught:
        pb.path(multiclass(n=300), [100.0, 1e-3], tol=1e-6, callback=callback)
    assert [r.lam for r in caught.value.finished] in ([], [100.0])
    assert caught.value.result.lower_bound <= caught.value.result.fun


class UserRisk:
    """As somebody writes it first: lists, a number for the lower bound, nothing optional."""

    dim, n_examples, n_parts, lower_bounds = 2, 3, 1, 0.0

    def evaluate(self, w):
        return [float(np.abs(w - 1.0).sum())], [list(np.sign(w - 1.0))]


def test_a_plain_user_risk():
    result = pb.minimize(UserRisk(), lam=0.1, tol=1e-6)
    assert result.success and result.fun == pytest.approx(0.1, rel=1e-5)


def test_a_user_risk_with_affine_scores():
    """Its other names mean something to flat data of the package only; interior points were once tried with them."""
    inner = pb.risks.BinaryHinge(*blobs(n_classes=2))

    class Affine:
        dim, n_examples, n_parts, lower_bounds = inner.dim, inner.n_examples, 1, np.zeros(1)
        evaluate, scores, planes_at = inner.evaluate, inner.scores, inner.planes_at
        curve, examples, engine = "steep", [1, 2], None

        def line_search(self, *arguments):
            return inner.line_search(*arguments)

    result = pb.minimize(Affine(), lam=0.01, method="oca line_search=True", tol=1e-8)
    assert result.success and result.lower_bound <= pb.minimize(inner, lam=0.01, tol=1e-8).fun <= result.fun + 1e-6
    with pytest.raises(pb.ParameterError, match="piecewise linear"):
        pb.minimize(Affine(), lam=0.01, method="interior-point")


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(("size", "lam", "method"), [(1e200, 1.0, "bmrm"), (1e140, 1e-100, "prox-bmrm")])
def test_overflow_is_named(size, lam, method):
    with pytest.raises(pb.NumericalError, match="overflow"):
        pb.minimize(lambda w: (size * abs(w[0] - 1.0), size * np.sign(w - 1.0)), [2.0], lam=lam, method=method)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_overflow_of_blocks_is_named():
    class Large(pb.models.StructuredModel):
        dim = 1

        def joint_feature(self, x, y):
            return np.array([1e160 * y])

        def loss(self, y, y_hat):
            return float(y != y_hat)

        def decode(self, w, x):
            return int(w[0] > 0.0)

        def loss_augmented_decode(self, w, x, y):
            return max((0, 1), key=lambda y_hat: self.loss(y, y_hat) + w[0] * 1e160 * (y_hat - y))

    with pytest.raises(pb.NumericalError, match="overflow"):
        pb.minimize(pb.risks.Structured(Large(), [0, 0], [0, 1]), lam=1.0, method="prox-bcfw")


@pytest.mark.parametrize(("changes", "words"), [
    ({"lam": 1e-101}, "lam must lie between 1e-100 and 1e.100, got 1e-101"), ({"lam": 1e101}, "lam must lie between"),
    ({"lam": None, "penalty": pb.prox.Ball(1e200), "method": "cutting-plane"}, "radius must lie between"),
    ({"w0": [1e101]}, "w0 must have entries of at most 1e.100, got 1e.101"),
])
def test_sizes_whose_squares_overflow_are_refused(changes, words):
    with pytest.raises(pb.ParameterError, match=words):
        pb.minimize(pb.risks.Function(lambda w: (abs(w[0]), np.sign(w)), 1), **{"lam": 1.0, **changes})


def test_every_call_of_a_plain_callable_has_one_blas_thread():
    info = pytest.importorskip("threadpoolctl").threadpool_info
    seen = []

    def fun(w):
        seen.append([pool["num_threads"] for pool in info() if pool["user_api"] == "blas"])
        return float(np.abs(w - 1.0).sum()), np.sign(w - 1.0)
    pb.minimize(fun, np.zeros(3), lam=1.0)
    assert len(seen) > 1 and seen[0] and all(threads == [1] * len(threads) for threads in seen)


@pytest.mark.parametrize("method", ["oca", "bmrm", "prox-bmrm"])
def test_nothing_goes_on_from_what_a_contradiction_left(method, tmp_path):
    X, y = blobs(n=60)
    exact, is_wrong = pb.risks.MulticlassHinge(X, y, n_parts=1), [True]

    def fun(w):
        values, slopes = exact.evaluate(w)
        return values[0], -slopes[0] if is_wrong[0] else slopes[0]
    file = tmp_path / "run.npz"
    risk = pb.risks.Function(fun, exact.dim)
    options = {"lam": 1.0, "tol": 1e-3, "method": method}
    with pytest.raises(pb.OracleError, match="subgradient inequality") as caught:
        pb.minimize(risk, **options)
    result = caught.value.result
    assert not result.certified and result.lower_bound == -np.inf and result.gap == np.inf
    state = result.state                    # the point, and nothing that the risk said of other points
    assert np.array_equal(state.w, result.x) and state.bundle is None and state.bound is None
    is_wrong[0] = False
    assert pb.minimize(risk, **options, warm_start=result).success
    assert pb.minimize(risk, **options, w0=result.x).success
    is_wrong[0] = True
    with pytest.raises(pb.OracleError, match="subgradient inequality"):
        pb.minimize(risk, **options, checkpoint=pb.Checkpoint(file, every=0.0))
    assert not file.exists() or read_archive(file, "pybundle checkpoint", 1)[0]["n_iter"] == 0


def test_what_fails_in_a_callback_says_nothing_of_the_risk():
    wrong = pb.risks.Function(lambda w: (float(w @ w), -2.0 * w), 2)
    with pytest.raises(pb.OracleError, match="subgradient inequality") as caught:
        pb.minimize(UserRisk(), lam=0.1, callback=lambda p: pb.minimize(wrong, lam=1.0, w0=[1.0, 2.0]))
    assert caught.value.result.state is not None and caught.value.result.certified


def test_seconds_between_checkpoints_are_checked():
    with pytest.raises(pb.InputTypeError, match="every"):
        pb.Checkpoint("run.npz", every="x")


def test_more_memory_than_there_is_is_no_error():
    assert pb.minimize(UserRisk(), lam=0.1, method="oca", memory_limit=1e17).success
    assert pb.minimize(UserRisk(), lam=0.1, method="oca", memory_limit=1e308).success


def test_a_certificate_that_fails_sends_the_run_on_in_float64(monkeypatch):
    from pybundle.solvers import ending as module
    X, y = blobs(n=300, dtype=np.float32)
    seen, exact = [], module.certify

    def certify(risk, objective, w, bound, *known):
        seen.append(risk.precision)
        certificate = exact(risk, objective, w, bound, *known)
        if len(seen) == 1:            # as if float32 scores had hidden 2 % of the objective
            return module.Bracket(1.02 * certificate.fun, certificate.lower_bound, True)
        return certificate
    monkeypatch.setattr(module, "certify", certify)
    result = pb.minimize(pb.risks.MulticlassHinge(X, y), lam=1.0, tol=1e-2)
    assert result.success and result.certified and result.gap <= 0.01
    assert seen[0] == "float32" and set(seen[1:]) == {"float64"}


def test_auto_goes_on_with_alm_where_blocks_hardly_close_the_gap():
    cancer = pytest.importorskip("sklearn.datasets").load_breast_cancer()       # columns from 0.01 to 1000
    risk = pb.risks.MulticlassHinge(cancer.data, cancer.target)
    result = pb.minimize(risk, lam=1.0, tol=1e-3)
    assert result.success and result.n_passes < 1000
    blocks = pb.minimize(risk, lam=1.0, tol=1e-3, method="prox-bcfw", max_iter=1000)
    assert not blocks.success and blocks.n_passes > result.n_passes


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize("spread", ["far", "unequal", "heavy tails"])
@pytest.mark.parametrize("make", [pb.risks.BinaryHinge, lambda X, y: pb.risks.MulticlassHinge(X, (y > 0).astype(int)),
                                  lambda X, y: pb.risks.Pinball(X, y, 0.3)], ids=["two", "classes", "pinball"])
def test_auto_certifies_few_raw_columns(make, spread, tol):
    """Steps on examples, and "alm" after them, took up to 10^5 passes without a gap of 0.1."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(400, 20))
    y = np.where(Z.sum(axis=1) + 4.0 * rng.normal(size=400) > 0.0, 1.0, -1.0)
    X = {"far": Z[:, :5] + 3000.0, "unequal": Z * 10.0 ** rng.uniform(-2.0, 3.0, 20), "heavy tails": np.exp(3.0 * Z)}
    result = pb.minimize(make(X[spread], y), lam=0.01, tol=tol)
    assert result.success and result.certified and result.n_passes < 1000


def counts_of_words(seed, n=300, d=500):
    """Sparse counts up to thousands, labels that their logarithms explain in part."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.06, format="csr", random_state=seed,
                  data_rvs=lambda m: np.ceil(np.exp(2.0 * rng.standard_normal(m) + 2.0)))
    score = np.log1p(X.toarray()) @ rng.standard_normal(d) + 2.0 * rng.standard_normal(n)
    return sp.csr_array(X), np.where(score > 0.0, 1.0, -1.0)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_float64_goes_on_where_float32_comes_no_nearer(seed):
    """It took 1796 iterations in float32, and 2000 were not enough; float64 then stalled for want of a line search."""
    result = pb.minimize(pb.risks.BinaryHinge(*counts_of_words(seed)), lam=1.0, tol=1e-3, method="prox-bcfw",
                         random_state=seed, max_iter=1400)
    assert result.success


def test_float32_stays_as_long_as_it_comes_nearer(monkeypatch):
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    monkeypatch.setattr(BlockMethod, "to_float64", lambda run: pytest.fail("float32 was doing well"))
    risk = pb.risks.MulticlassHinge(digits.data, digits.target, precision="float32")
    result = pb.minimize(risk, lam=0.1, tol=1e-2, method="prox-bcfw")
    assert result.success and result.nit > 100


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_warm_start_searches_along_lines_at_once(seed):
    """It began to search only after a step had ended below the start without a search, which may never happen."""
    risk = pb.risks.BinaryHinge(*counts_of_words(seed, 400, 300), precision="float64")
    options = {"lam": 1.0, "tol": 1e-3, "method": "prox-bcfw"}
    first = pb.minimize(risk, **options, max_iter=200)
    second = pb.minimize(risk, **options, warm_start=first, max_iter=20)
    assert not first.success and second.fun < (1.0 - 1e-4) * first.fun


def test_results_and_reports_are_short_in_a_notebook():
    """A report was shown as `Report(rules=[...], findings=[])`, the state of a result with all its arrays."""
    result = pb.minimize(pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1]), lam=1.0)
    assert "state: Known of 1 weights with fingerprint, blocks, bound\n" in f"{result!r}\n"
    report = pb.check_oracle(lambda w: (abs(w).sum(), np.sign(w)), dim=3)
    assert repr(report) == str(report) and repr(report).startswith("valid: ")


@pytest.mark.parametrize("method", ["sgd", "bcfw", "prox-bcfw"])
def test_runs_without_a_seed_are_those_of_seed_0(method):
    """Two runs of "sgd" with the default `random_state` had other orders of the examples, unlike the block methods."""
    rng = np.random.default_rng(0)
    risk = pb.risks.BinaryHinge(rng.standard_normal((60, 3)), np.where(rng.random(60) > 0.5, 1, -1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        found = [pb.minimize(risk, lam=1.0, method=method, max_iter=2, **options).fun
                 for options in ({}, {}, {"random_state": 0})]
    assert found[0] == found[1] == found[2]


def test_a_second_error_does_not_take_the_result_away():
    """A callback fails, and then the risk, which is asked for the certificate."""
    broken = []

    def risk(w):
        if broken:
            raise RuntimeError("gone")
        return float(abs(w - 1.0).sum()), np.sign(w - 1.0)

    def callback(progress):
        if progress.n_iter == 3:
            broken.append(True)
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError) as caught:
        pb.minimize(risk, np.zeros(4), lam=0.1, tol=1e-9, callback=callback)
    assert caught.value.result.nit == 3 and caught.value.result.lower_bound <= caught.value.result.fun


def test_a_run_within_a_looser_tolerance_has_converged(tmp_path):
    """It had ended by a limit, and the same limit ends it again."""
    X = np.random.default_rng(0).normal(size=(60, 5))
    risk, options = pb.risks.BinaryHinge(X, np.where(X[:, 0] > 0.0, 1, -1)), {"lam": 1.0, "method": "bmrm"}
    options |= {"max_iter": 12, "checkpoint": tmp_path / "run.npz"}
    with pytest.warns(pb.ConvergenceWarning):
        first = pb.minimize(risk, tol=1e-6, **options)
    again = pb.minimize(risk, tol=2.0 * first.gap, **options)
    assert again.success and again.status is pb.Status.CONVERGED and again.nit == first.nit
