"""Callbacks: progress bar, early stopping, stop from another thread, scikit-learn's own where it has them."""

import copy
import io
import pickle
import re
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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
    assert "100%" in text and "bound" in text and text.endswith("\n")

    def fail(progress):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        pb.minimize(risk(), lam=1.0, callback=[bar, fail])
    assert screen.getvalue().endswith("\n") and len(screen.getvalue()) > len(text)
    for twin in (copy.deepcopy(bar), pickle.loads(pickle.dumps(pb.callbacks.ProgressBar(desc="mine")))):
        assert twin.desc == ("gap" if twin.options else "mine")
        assert pb.minimize(risk(), lam=1.0, callback=twin).success


def test_a_copy_of_the_estimator_is_made_only_for_those_who_ask(monkeypatch):
    made, original = [], copy.copy
    monkeypatch.setattr(copy, "copy", lambda thing: made.append(thing) or original(thing))
    bar = pb.callbacks.ProgressBar(file=io.StringIO())
    svm = pb.MulticlassSVM(tol=1e-6, method="bmrm", callback=[bar, pb.callbacks.StopSignal()]).fit(*problem())
    assert svm.n_iter_ > 5 and not any(isinstance(thing, pb.MulticlassSVM) for thing in made)
    X, y = problem()
    asked = pb.MulticlassSVM(tol=1e-6, method="bmrm", callback=lambda p: p.estimator.score(X, y) > 2.0).fit(X, y)
    assert sum(thing is asked for thing in made) == asked.n_iter_


def test_the_first_bar_brings_no_lock_of_processes():
    code = ("import io, sys\nimport pybundle as pb\nrisk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])\n"
            "screen = io.StringIO()\npb.minimize(risk, lam=1.0, callback=pb.callbacks.ProgressBar(file=screen))\n"
            "print('multiprocessing' in sys.modules, '100%' in screen.getvalue())")
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]     # making one takes milliseconds of the first solve


@pytest.mark.parametrize("gap, tol, share", [
    (np.inf, 1e-3, 0.0), (2.0, 1e-3, 0.0), (0.1, 1e-2, 0.5), (1e-3, 1e-3, 1.0), (0.0, 1e-3, 1.0), (5.0, 2.0, 0.0),
    (0.5, 1.0, 1.0), (0.1, 0.0, 0.0), (0.0, 0.0, 1.0),
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
    assert not svm.converged_
    with pytest.raises(pb.ParameterError, match="score must be given if no estimator is fitted"):
        pb.minimize(risk(), lam=1.0, callback=pb.callbacks.EarlyStopping(X, y))
    for wrong in ({}, {"X": X}, {"X": X, "y": y, "score": len}):
        with pytest.raises(pb.ParameterError, match="exactly one of X and y, validation_fraction, score"):
            pb.callbacks.EarlyStopping(**wrong)


def test_early_stopping_refuses_labels_that_the_model_does_not_know():
    """The score of labels encoded otherwise than in the fit stayed at 0, and the run ended."""
    pytest.importorskip("sklearn")
    X, y = problem()
    with pytest.raises(pb.ParameterError, match=r"y of EarlyStopping must hold classes of the fit, .*; encode") as said:
        pb.MulticlassSVM(callback=pb.callbacks.EarlyStopping(X, y + 5)).fit(X, y)
    assert len(str(said.value)) < 200
    sequences, labels = [X[:3], X[3:9]], [["a", "b", "a"], ["b"] * 6]
    pb.ChainSVM(callback=pb.callbacks.EarlyStopping(sequences, labels)).fit(sequences, labels)
    with pytest.raises(pb.ParameterError, match="got 'c', 'd'"):
        others = pb.callbacks.EarlyStopping(sequences, [["c"] * 3, ["d"] * 6])
        pb.ChainSVM(callback=others).fit(sequences, labels)


def test_early_stopping_holds_examples_out_behind_the_steps_of_a_pipeline(monkeypatch):
    """Rows of `EarlyStopping(X, y)` never passed the scaler in front of the estimator."""
    X, y = problem()
    X = 100.0 + 1e3 * X
    seen, score = [], pb.MulticlassSVM.score
    monkeypatch.setattr(pb.MulticlassSVM, "score", lambda self, X, *rest: seen.append(X) or score(self, X, *rest))
    stop = pb.callbacks.EarlyStopping(validation_fraction=0.2, patience=2, every=0.0)
    svm = make_pipeline(StandardScaler(), pb.MulticlassSVM(C=100.0, tol=1e-11, callback=stop)).fit(X, y)[-1]
    assert seen[0].shape == (60, 6) and abs(seen[0].mean()) < 0.2 and len(seen) == len(stop.scores)
    assert not svm.converged_ and "_held_out" not in vars(svm) and len(pickle.dumps(svm)) < 20_000
    X, y = problem()
    stop = pb.callbacks.EarlyStopping(validation_fraction=0.2, patience=99)
    seen.clear()
    learnt = pb.MulticlassSVM(C=1.0, tol=1e-6, callback=stop).fit(X, y)
    kept = ~(X[:, None] == seen[0]).all(axis=2).any(axis=1)
    assert np.bincount(y[kept]).tolist() == [60] * 4            # classes in proportion
    assert learnt.objective_ == pytest.approx(pb.MulticlassSVM(C=1.0, tol=1e-6).fit(X[kept], y[kept]).objective_)


def test_examples_are_held_out_by_structured_estimators_and_searches():
    strings = pb.datasets.digit_strings(20)
    stop = pb.callbacks.EarlyStopping(validation_fraction=0.25, patience=1, every=0.0)
    chain = pb.ChainSVM(tol=1e-9, callback=stop)
    chain.fit(strings.X, strings.y, np.arange(20) % 3)
    assert not chain.converged_ and 0.0 <= stop.scores[-1][1] <= 1.0
    search = pb.MulticlassSVMCV([0.01, 1.0], cv=2, tol=1e-9, callback=stop).fit(*problem())
    assert np.isfinite(search.scores_).all() and (search.gaps_ > 1e-9).any()


def test_validation_data_that_cannot_serve_are_refused():
    X, y = problem()

    class Frame(np.ndarray):
        columns = tuple("abcdef")

    stop = pb.callbacks.EarlyStopping(X.view(Frame), y)
    with pytest.raises(pb.ParameterError, match=r"names of columns .* validation_fraction"):
        make_pipeline(StandardScaler(), pb.MulticlassSVM(callback=stop)).fit(X, y)
    with pytest.raises(pb.ParameterError, match="between 0 and 1"):
        pb.callbacks.EarlyStopping(validation_fraction=1.0)
    held = pb.callbacks.EarlyStopping(validation_fraction=0.1)
    with pytest.raises(pb.ParameterError, match="cannot be held out of 5 examples"):
        pb.MulticlassSVM(callback=held).fit(X[:5], [0, 0, 1, 1, 2])
    with pytest.raises(pb.ParameterError, match="one validation_fraction at most"):
        pb.MulticlassSVM(callback=[held, held]).fit(X, y)
    with pytest.raises(pb.ParameterError, match="score must be given if no estimator is fitted"):
        pb.minimize(risk(), lam=1.0, callback=held)


def test_validation_data_may_have_names_where_the_data_of_the_fit_have_them():
    pandas = pytest.importorskip("pandas")
    X, y = problem()
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for held in (pb.callbacks.EarlyStopping(frame, y), pb.callbacks.EarlyStopping(validation_fraction=0.5)):
            assert pb.MulticlassSVM(callback=held).fit(frame, y).feature_names_in_.tolist() == list("abcdef")


def test_callbacks_show_what_they_are():
    shown = repr(pb.MulticlassSVM(callback=[
        pb.callbacks.EarlyStopping(validation_fraction=0.1), pb.callbacks.TimeLimit(60), pb.callbacks.StopSignal(),
        pb.callbacks.ProgressBar(leave=False)]))
    for part in ("EarlyStopping(validation_fraction=0.1, patience=5, min_delta=0, every=1)", "TimeLimit(60)",
                 "StopSignal(is_set=False)", "ProgressBar(desc='gap', interval=0.25, leave=False)"):
        assert part in re.sub(r"\s+", " ", shown)
    assert repr(pb.callbacks.EarlyStopping([[1.0]], [1])).startswith("EarlyStopping(X, y, patience=5")
    assert "score=<built-in function len>" in repr(pb.callbacks.EarlyStopping(score=len))


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
