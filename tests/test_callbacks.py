"""Callbacks: progress bar, early stopping, stop from another thread, scikit-learn's own where it has them."""

import copy
import io
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import pybundle as pb
from pybundle.runtime.callbacks import share_of_way


def problem(n=300, d=6, n_classes=4):
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    return rng.standard_normal((n, d)) + rng.standard_normal((n_classes, d))[y], y


def risk():
    return pb.risks.MulticlassHinge(*problem())


def test_several_callbacks_all_see_every_iteration():
    seen = [[], []]
    result = pb.minimize(risk(), lam=1.0, callback=[lambda p, s=s: s.append((p.gap, p.tol)) for s in seen])
    assert len(seen[0]) == result.nit and seen[0] == seen[1] and seen[0][-1][1] == 1e-2


def test_the_bar_ends_full_and_is_closed_whatever_happens():
    screen = io.StringIO()
    bar = pb.callbacks.ProgressBar(file=screen, interval=0.0)
    pb.minimize(risk(), lam=1.0, tol=1e-4, callback=bar)
    text = screen.getvalue()
    assert "100%" in text and "bound" in text and bar._bar is None

    def fail(progress):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        pb.minimize(risk(), lam=1.0, callback=[bar, fail])
    assert bar._bar is None
    for twin in (copy.deepcopy(bar), pickle.loads(pickle.dumps(pb.callbacks.ProgressBar()))):
        assert twin._bar is None and callable(twin._make)


def test_a_copy_of_the_estimator_is_made_only_for_those_who_ask(monkeypatch):
    made, original = [], pb.MulticlassSVM._at
    monkeypatch.setattr(pb.MulticlassSVM, "_at", lambda *given: made.append(1) or original(*given))
    bar = pb.callbacks.ProgressBar(file=io.StringIO())
    svm = pb.MulticlassSVM(tol=1e-6, method="bmrm", callback=[bar, pb.callbacks.StopSignal()]).fit(*problem())
    assert svm.n_iter_ > 5 and not made
    X, y = problem()
    asked = pb.MulticlassSVM(tol=1e-6, method="bmrm", callback=lambda p: p.estimator.score(X, y) > 2.0).fit(X, y)
    assert len(made) == asked.n_iter_


def test_the_first_bar_brings_no_lock_of_processes():
    code = ("import io, sys\nimport pybundle as pb\nrisk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])\n"
            "screen = io.StringIO()\npb.minimize(risk, lam=1.0, callback=pb.callbacks.ProgressBar(file=screen))\n"
            "print('multiprocessing' in sys.modules, '100%' in screen.getvalue())")
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]     # making one takes milliseconds of the first solve


@pytest.mark.parametrize("gap, tol, share", [
    (np.inf, 1e-3, 0.0), (2.0, 1e-3, 0.0), (0.1, 1e-2, 0.5), (1e-3, 1e-3, 1.0), (0.0, 1e-3, 1.0), (5.0, 2.0, 0.0),
    (0.5, 1.0, 1.0),
])  # fmt: skip
def test_share_of_way(gap, tol, share):
    assert share_of_way(gap, tol) == pytest.approx(share)


def test_stop_from_another_thread():
    stop = pb.callbacks.StopSignal()
    assert copy.deepcopy(stop) is stop and not pickle.loads(pickle.dumps(stop)).is_set()

    def another(progress):
        if progress.n_iter == 10:
            thread = threading.Thread(target=stop.set)
            thread.start()
            thread.join()

    svm = pb.MulticlassSVM(C=1e4, tol=1e-13, method="bmrm", callback=[another, stop]).fit(*problem())
    assert svm.n_iter_ == 10 and not svm.converged_ and svm.certified_
    stop.clear()
    assert pb.minimize(risk(), lam=1.0, callback=stop).success


def test_time_limit_as_a_callback_names_the_reason():
    with pytest.warns(pb.ConvergenceWarning, match="raise time_limit or tol"):
        result = pb.minimize(risk(), lam=1e-3, tol=1e-12, callback=pb.callbacks.TimeLimit(0.0))
    assert result.status is pb.Status.TIME_LIMIT and result.nit == 1


def test_converged_from_a_callback_claims_nothing():
    result = pb.minimize(risk(), lam=1e-3, tol=1e-12, callback=lambda p: pb.Status.CONVERGED)
    assert result.status is pb.Status.CALLBACK and not result.success


def test_early_stopping_waits_for_patience():
    scores = iter([1.0, 2.0, 2.0, 2.0, 2.0, 9.0])
    stop = pb.callbacks.EarlyStopping(score=lambda p: next(scores), patience=3, every=0.0)
    result = pb.minimize(risk(), lam=1e-3, tol=1e-12, callback=stop)
    assert result.status is pb.Status.CALLBACK and [s for _, s in stop.scores] == [1.0, 2.0, 2.0, 2.0, 2.0]
    pb.minimize(risk(), lam=1.0, callback=[stop, lambda p: True], tol=1e-12)
    assert len(stop.scores) == 1                    # another run begins anew


def test_early_stopping_scores_the_estimator_so_far():
    X, y = problem()
    stop = pb.callbacks.EarlyStopping(X[:50], y[:50], patience=2, every=2.0)
    svm = pb.MulticlassSVM(C=100.0, tol=1e-11, callback=stop).fit(X[50:], y[50:])
    assert stop.scores[-1][1] == pytest.approx(svm.score(X[:50], y[:50]), abs=0.1)
    assert all(b[0] >= a[0] + 2.0 for a, b in zip(stop.scores, stop.scores[1:], strict=False))
    assert not svm.converged_ and svm._state is None
    with pytest.raises(pb.ParameterError, match="score must be given where no estimator is fitted"):
        pb.minimize(risk(), lam=1.0, callback=pb.callbacks.EarlyStopping(X, y))
    for wrong in ({}, {"X": X}, {"X": X, "y": y, "score": len}):
        with pytest.raises(pb.ParameterError, match="either X and y or score"):
            pb.callbacks.EarlyStopping(**wrong)


def test_scikit_learns_callbacks():
    callback = pytest.importorskip("sklearn.callback")

    class Watch:
        def __init__(self):
            self.calls = []

        def setup(self, estimator, context):
            self.calls.append("setup")

        def teardown(self, estimator, context):
            self.calls.append("teardown")

        def on_fit_task_begin(self, estimator, context, *, X=None):
            self.calls.append("begin")

        def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
            self.calls.append(fitted_estimator.score(X, y))
            return context.parent is not None and len(self.calls) > 6

    X, y = problem()
    watch = Watch()
    svm = pb.MulticlassSVM(C=100.0, tol=1e-11).set_callbacks(watch).fit(X, y)
    assert watch.calls[:3] == ["setup", "begin", "begin"] and watch.calls[-1] == "teardown"
    assert svm.n_iter_ == 3 and watch.calls[-2] == svm.score(X, y)
    monitor = callback.ScoringMonitor(scoring="accuracy")
    pb.MulticlassSVM().set_callbacks(monitor).fit(X, y)
    assert len(monitor.get_logs().data) > 1


@pytest.fixture
def clock(monkeypatch):
    """The clock of runs, which stands still until `clock.now` is changed."""
    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

    clock = Clock()
    for module in ("clock", "stopping"):
        monkeypatch.setattr(f"pybundle.runtime.{module}.time", clock)
    return clock


def test_a_time_limit_serves_many_runs(clock):
    limit = pb.callbacks.TimeLimit(0.2)
    clock.now += 0.25
    assert pb.minimize(risk(), lam=1.0, callback=limit).success         # the clock is that of the run
    assert limit.deadline is None
    limit.start()
    clock.now += 0.25
    with pytest.warns(pb.ConvergenceWarning, match="time limit"):
        assert pb.minimize(risk(), lam=1e-3, tol=1e-12, callback=limit).status is pb.Status.TIME_LIMIT
    limit.stop()
    assert pb.minimize(risk(), lam=1.0, callback=limit).success


def test_a_time_limit_is_one_for_a_path(clock):
    seen = []

    def slow(progress):
        seen.append(progress.n_iter)
        clock.now += 0.06

    limit = pb.callbacks.TimeLimit(0.1)
    with pytest.warns(pb.ConvergenceWarning, match="time limit"):
        found = pb.path(risk(), [1.0, 0.1, 0.01], tol=1e-12, callback=[slow, limit])
    assert len(found) == 1 and len(seen) == 2 and not limit.is_running
    limit.start()
    pb.path(risk(), [1.0], tol=0.5, callback=limit)
    assert limit.is_running                         # what the user has started the user stops


def test_a_callback_that_fails_at_its_close_leaves_the_result():
    class Careless:
        def __call__(self, progress):
            pass

        def close(self):
            raise OSError("no room left")

    closed = []

    class Tidy(Careless):
        def close(self):
            closed.append(True)

    with pytest.warns(RuntimeWarning, match="callback Careless failed at its close: OSError: no room left"):
        result = pb.minimize(risk(), lam=1.0, callback=[Careless(), Tidy()])
    assert result.success and closed == [True]
    with pytest.warns(RuntimeWarning, match="failed at its close"):
        assert pb.MulticlassSVM(callback=Careless()).fit(*problem()).certified_


@pytest.mark.parametrize("score", [float("nan"), "good", None, True])
def test_a_score_that_is_no_number_is_refused(score):
    with pytest.raises(pb.ParameterError, match="score must be a number") as caught:
        pb.minimize(risk(), lam=1.0, callback=pb.callbacks.EarlyStopping(score=lambda progress: score))
    assert caught.value.result.certified


def test_what_the_bar_sets_itself_is_refused_at_once():
    for name in ("total", "bar_format", "delay"):
        with pytest.raises(pb.ParameterError, match=f"got {name}"):
            pb.callbacks.ProgressBar(**{name: 3})


def test_early_stopping_goes_on_with_the_next_lam():
    stop = pb.callbacks.EarlyStopping(score=lambda progress: 0.0, patience=1, every=0.0)
    found = pb.path(risk(), [1.0, 0.1], tol=1e-12, callback=stop)
    assert [result.status for result in found] == [pb.Status.CALLBACK] * 2
    assert len(pb.path(risk(), [1.0, 0.1], tol=1e-12, callback=lambda progress: True)) == 1
