"""Checkpoints: a run that goes on is the run that was never stopped, to the last bit; all else is refused by name."""

import io
import json
import os
import signal
import time
import warnings
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.core import kept
from pybundle.core.archive import digest, hidden_name
from pybundle.core.plane import Plane
from pybundle.runtime import checkpoint as files
from pybundle.runtime import file_lock
from pybundle.runtime.result import Status
from pybundle.solvers.block.block_method import BlockMethod

pytestmark = pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")

rng = np.random.default_rng(0)
X, y = rng.normal(size=(80, 8)), rng.integers(0, 4, 80)
X[np.arange(80), y] += 1.0
SPARSE, LABELS = sp.random(100, 60, 0.1, format="csr", random_state=np.random.default_rng(1)), rng.integers(0, 3, 100)
WORDS = [rng.normal(size=(rng.integers(2, 6), 4)) for _ in range(25)]
TAGS = [(word[:, 0] > 0.0).astype(int) + (word[:, 1] > 0.5) for word in WORDS]
A, B = rng.normal(size=(30, 6)), rng.normal(size=30)
NONNEG = pb.prox.Box(np.where(np.arange(32) % 3 == 0, 0.0, -np.inf))
SIGNS = {"lam": None, "penalty": pb.prox.SquaredL2(1.0) + NONNEG}
BALL = {"lam": None, "penalty": pb.prox.Ball(2.0)}


def distances(w):
    r = A @ w - B
    return np.abs(r).sum(), A.T @ np.sign(r)


def dense(**options):
    return pb.risks.MulticlassHinge(X.astype(np.float32), y, **options)


def chain(loss="hinge"):
    return pb.risks.Structured(pb.models.Chain(3, 4), WORDS, TAGS, loss=loss)


def few_weights():
    model = pb.models.Chain(3, 4, token_support=[[0, 0], [1, 2], [2, 1], [3, 0], [3, 2]])
    return pb.risks.Structured(model, list(map(sp.csr_array, WORDS)), TAGS, loss="logistic")


RISKS = {
    "dense": dense, "csr": lambda: pb.risks.MulticlassHinge(SPARSE, LABELS), "chain": chain,
    "binary": lambda: pb.risks.BinaryHinge(X, y % 2), "logistic": lambda: pb.risks.Logistic(X, y % 2),
    "intercept": lambda: pb.risks.BinaryHinge(X, y % 2, fit_intercept=True),
    "quantile": lambda: pb.risks.Pinball(X, X[:, 0] + np.abs(X[:, 1]), 0.7, fit_intercept=True),
    "tube": lambda: pb.risks.EpsilonInsensitive(X.astype(np.float32), X[:, 0] + np.abs(X[:, 1]), 0.3),
    "log-loss": lambda: pb.risks.Logistic(X, y % 2, fit_intercept=True),
    "wide": lambda: pb.risks.Logistic(sp.csr_array(np.repeat(SPARSE.toarray(), 9, 1)), LABELS == 0),
    "crf": lambda: chain("logistic"), "few weights": few_weights, "callable": lambda: distances,
    "classes": lambda: pb.risks.Structured(pb.models.Multiclass(4, 9), np.hstack([X, np.ones((80, 1))]), y,
                                           loss="logistic"),
    "hinge of classes": lambda: pb.risks.MulticlassHinge(X, y, bias=1.0),
}  # fmt: skip
FREE = np.where(np.arange(36) % 9 == 8, 0.0, 0.3)       # intercepts, of which the first is 0
INTERCEPTS = {"lam": None, "penalty": pb.prox.Separable(l2=FREE, lower=np.where(np.arange(36) == 8, 0.0, -np.inf),
                                                        upper=np.where(np.arange(36) == 8, 0.0, np.inf))}
CASES = [(method, name, {}) for name in ("dense", "csr", "chain")
         for method in ("oca", "bmrm", "prox-bmrm", "frank-wolfe", "bcfw", "mp-bcfw", "prox-bcfw", "alm", "auto")]
CASES += [(method, "callable", {}) for method in ("oca", "bmrm", "prox-bmrm", "auto")]
CASES += [(method, name, {"lam": 0.1}) for method in ("lbfgs", "auto", "oca")
          for name in ("logistic", "crf", "few weights")]
CASES += [("sgd", "dense", {}), ("sgd", "csr", {}), ("prox-bcfw", "binary", {}), ("alm", "binary", {}),
          ("cutting-plane", "dense", BALL),
          ("bcfw average=True gap_sampling=True step=pairwise", "chain", {}),
          ("mp-bcfw average=True", "chain", {}), ("prox-bcfw n_best=3", "chain", {}),
          ("mp-bcfw visit=all max_idle=2 average=True", "dense", SIGNS),
          ("mp-bcfw visit=all max_planes=3", "chain", {}),
          ("oca", "dense", {"memory_limit": 20000, "n_parts": 2}), ("prox-bcfw", "dense", SIGNS),
          ("prox-bcfw", "chain", {"memory_limit": 16000}), ("mp-bcfw", "chain", {"memory_limit": 16000}),
          ("prox-bmrm", "dense", SIGNS), ("bmrm", "dense", SIGNS | {"scale": "mean"})]

CASES += [("newton", "wide", {"lam": None, "penalty": pb.prox.L1(0.05), "tol": 1e-8})]
CASES += [("newton", "logistic", {"lam": 0.1}), ("lbfgs", "log-loss", {"lam": 0.1}),
          ("newton", "log-loss", {"lam": None, "penalty": pb.prox.L1(0.5)})]
CASES += [("interior-point", "quantile", {"lam": np.r_[np.zeros(4), np.ones(4)]}), ("interior-point", "tube", {}),
          ("interior-point", "intercept", {"lam": 1.0}), ("auto", "quantile", {"lam": np.zeros(8), "tol": 1e-9}),
          ("interior-point", "quantile", {"lam": None, "penalty": pb.prox.L1(0.5), "scale": "mean"})]
CASES += [("auto", name, {"lam": None, "penalty": pb.prox.L1(0.5)})
          for name in ("dense", "chain", "intercept", "log-loss")]
CASES += [("oca", "dense", {"lam": None, "penalty": pb.prox.SparseGroupLasso(np.repeat(np.arange(8), 4), 0.3, 0.3),
                           "max_iter": 5}),
          ("oca", "dense", {"lam": np.arange(32.0), "scale": "mean"}), ("prox-bcfw", "intercept", {"lam": 1.0}),
          ("prox-bcfw", "csr", {"lam": None, "penalty": pb.prox.L1(0.5) + pb.prox.Box(-0.1, 0.2)}),
          ("auto", "intercept", {"lam": 1.0}),
          ("oca", "dense", {"lam": None, "penalty": pb.prox.ElasticNet(0.1, 0.1) + NONNEG})]
CASES += [(method, "classes", INTERCEPTS) for method in ("prox-bcfw", "lbfgs", "auto")]
CASES += [(method, "hinge of classes", INTERCEPTS) for method in ("prox-bcfw", "oca", "auto")]
CASES += [("lbfgs", "classes", {"lam": None, "penalty": INTERCEPTS["penalty"] + pb.prox.Separable(l1=FREE)})]


def solve(method, name, options, **more):
    start = {"w0": np.zeros(6)} if name == "callable" else {}
    given = {"lam": 1.0, "tol": 1e-5, "random_state": 3, "max_iter": 10 if method == "sgd" else 16} | options | more
    return pb.minimize(RISKS[name](), method=method, **start, **given)


def bits(result):
    history = [result.history[name].tobytes() for name in ("n_passes", "primal", "best_primal", "lower_bound", "gap")]
    return (result.x.tobytes(), result.fun, result.lower_bound, result.gap, result.nit, result.n_passes,
            result.n_cached_passes, result.n_planes, result.max_planes, result.status, result.message, *history)


@pytest.mark.parametrize(("method", "name", "options"), CASES, ids=lambda part: str(part)[:20])
def test_a_run_that_goes_on_is_the_one_that_never_stopped(method, name, options, tmp_path):
    whole = solve(method, name, options)
    assert whole.nit > 2
    stop = int(np.random.default_rng(whole.nit).integers(1, whole.nit))
    file = tmp_path / "run.npz"
    first = solve(method, name, options, max_iter=stop, checkpoint=file)
    assert first.nit == stop and file.exists()
    assert bits(solve(method, name, options, checkpoint=file, n_jobs=2)) == bits(whole)
    assert bits(solve(method, name, options, checkpoint=file)) == bits(whole)       # it has ended
    assert os.listdir(tmp_path) == ["run.npz"]


def quantile_of_free_weights():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((80, 3))
    return pb.risks.Pinball(Z, Z @ rng.standard_normal(3) + rng.standard_t(3, 80), fit_intercept=True)


def digits_with_intercepts():
    Z, labels, _, _ = pb.datasets.load_digits()
    Z = Z[:150][:, np.ptp(Z[:150], axis=0) > 0.0]
    return pb.risks.Structured(pb.models.Multiclass(10, Z.shape[1] + 1), np.hstack([Z, np.ones((150, 1))]),
                               labels[:150], loss="logistic")


@pytest.mark.parametrize("make, lam, tol, word", [
    (dense, lambda dim: 1.0, 1e-8, "alm"),
    # then "oca", with limits proven before
    (quantile_of_free_weights, lambda dim: np.zeros(3), 1e-12, "interior-point"),
    (digits_with_intercepts, lambda dim: np.tile(np.r_[np.ones(dim // 10 - 1), 0.0], 10), 1e-8, "prox-bcfw"),
])
def test_every_iteration_is_a_place_to_go_on_from(make, lam, tol, word, tmp_path):
    """In pieces of one iteration, also over the point where another method takes over."""
    options = {"lam": lam(make().dim), "tol": tol, "max_iter": 40}
    whole = pb.minimize(make(), **options)
    assert word in whole.message
    for k in range(1, whole.nit + 1):
        last = pb.minimize(make(), **(options | {"max_iter": k}), checkpoint=tmp_path / "run.npz")
    assert bits(last) == bits(whole)


@pytest.mark.parametrize("precision, method", [("float32", "prox-bcfw"), ("float64", "auto")])
def test_so_are_those_about_another_precision_and_planes(tmp_path, precision, method, monkeypatch):
    seen, exact = [], BlockMethod.to_float64
    monkeypatch.setattr(BlockMethod, "to_float64", lambda run: (seen.append(run.trace.n_iter), exact(run)))
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(200, 5))
    risk = pb.risks.BinaryHinge(Z + 1000.0, np.where(Z.sum(axis=1) + rng.normal(size=200) > 0.0, 1.0, -1.0),
                                precision=precision)
    options = {"lam": 1e-3, "tol": 1e-3, "method": method, "random_state": 1, "max_iter": 400}
    whole = pb.minimize(risk, **options)
    for k in range(30, whole.nit + 30, 30):
        last = pb.minimize(risk, **(options | {"max_iter": min(k, whole.nit)}), checkpoint=tmp_path / "run.npz")
    assert bits(last) == bits(whole)
    assert seen if precision == "float32" else whole.success and not pb.minimize(
        risk, **(options | {"method": "prox-bcfw"})).success


def test_the_data_are_not_in_the_file(tmp_path):
    big = np.random.default_rng(0).normal(size=(3000, 50))
    pb.minimize(pb.risks.MulticlassHinge(big, np.arange(3000) % 3), lam=100.0, checkpoint=tmp_path / "run.npz")
    assert os.path.getsize(tmp_path / "run.npz") < 0.5 * big.nbytes


# ---------------------------------------------------------------------- another call
def test_tolerances_and_limits_may_change(tmp_path, capsys):
    file = tmp_path / "run.npz"
    for method in ("oca", "prox-bcfw", "frank-wolfe", "auto"):
        file.unlink(missing_ok=True)
        coarse = pb.minimize(dense(), lam=1.0, tol=1e-2, method=method, checkpoint=file)
        again = pb.minimize(dense(), lam=1.0, tol=2e-2, method=method, checkpoint=file)
        assert again.success and again.n_passes == coarse.n_passes and np.array_equal(again.x, coarse.x)
        fine = pb.minimize(dense(), lam=1.0, tol=1e-3, method=method, checkpoint=file, verbose=1)
        assert f"{file}: resumed after {coarse.nit} iterations" in capsys.readouterr().out
        assert fine.success and fine.gap <= 1e-3 and fine.nit > coarse.nit
        assert len(fine.history["gap"]) > len(coarse.history["gap"])
    finest = pb.minimize(dense(), lam=1.0, tol=1e-6, checkpoint=file)       # in float64, and with other methods
    assert finest.success and finest.nit > fine.nit and finest.n_passes > fine.n_passes
    pb.minimize(dense(), lam=1.0, tol=1e-6, checkpoint=file, verbose=1)
    assert f"{file}: ended after {finest.nit} iterations" in capsys.readouterr().out


def test_a_memory_limit_may_come_later(tmp_path):
    file = tmp_path / "run.npz"
    pb.minimize(dense(), lam=1.0, method="oca", tol=1e-3, max_iter=5, checkpoint=file)
    result = pb.minimize(dense(n_parts=2), lam=1.0, method="oca", tol=1e-3, memory_limit=20000,
                         checkpoint=tmp_path / "other.npz", max_iter=5)
    assert result.n_planes <= 60
    free = pb.minimize(dense(n_parts=2), lam=1.0, method="oca", tol=1e-3, checkpoint=tmp_path / "other.npz")
    assert free.success and free.nit > 5


def test_an_ended_run_may_be_read_under_any_memory_limit(tmp_path):
    """The file was written again under the limit of the reader, under which its method could not be made."""
    options = {"tol": 1e-6, "max_iter": 500}
    whole = solve("auto", "quantile", options)
    assert whole.success and "interior-point" in whole.message
    for limit in (None, 1 << 20, 1 << 20, None):
        again = solve("auto", "quantile", options, memory_limit=limit, checkpoint=tmp_path / "run.npz")
        assert bits(again) == bits(whole)


@pytest.mark.parametrize("name", RISKS)
@pytest.mark.parametrize("limits", [(None, 1 << 20), (1 << 20, None)])
def test_auto_goes_on_under_another_memory_limit(name, limits, tmp_path):
    """Its method may be another one then: files of the first were called inconsistent."""
    parts = {} if name == "callable" else {"n_parts": 2}
    before, after = ({"memory_limit": limit, "checkpoint": tmp_path / "run.npz"} | parts for limit in limits)
    first = solve("auto", name, {"tol": 1e-3}, **before, max_iter=2)
    result = solve("auto", name, {"tol": 1e-3}, **after, max_iter=300)
    assert result.success and result.nit >= first.nit and result.n_passes >= first.n_passes
    again = solve("auto", name, {"tol": 1e-3}, **after, max_iter=300)
    assert bits(again) == bits(result)


def test_seconds_count_from_the_first_start(tmp_path):
    file, options = tmp_path / "run.npz", {"lam": 0.01, "tol": 1e-9, "method": "bmrm"}
    first = pb.minimize(dense(), **options, time_limit=0.01, checkpoint=file)
    assert first.status is Status.TIME_LIMIT
    second = pb.minimize(dense(), **options, time_limit=1e-4, checkpoint=file)        # gone long ago
    assert second.status is Status.TIME_LIMIT and second.nit == first.nit
    third = pb.minimize(dense(), **options, max_iter=first.nit + 3, checkpoint=file)
    assert third.nit == first.nit + 3
    assert third.history["time"][-1] > first.history["time"][-1] and np.all(np.diff(third.history["time"]) >= 0.0)


def test_another_penalty_is_named(tmp_path):
    file, l1 = tmp_path / "run.npz", pb.prox.L1
    pb.minimize(dense(), penalty=l1(0.5), max_iter=2, checkpoint=file)
    for changes, words in [
            ({"penalty": l1(0.4)}, r"penalty is 'L1\(groups=None, rate=0.5\)' there and 'L1\(groups=None, rate=0.4"),
            ({"penalty": l1(np.full(32, 0.5))}, "penalty is .* there and 'L1"),
            ({"penalty": l1(0.5) + pb.prox.Box(-1.0, 1.0)}, "penalty is .* there and 'Sum"),
            ({"penalty": l1(0.5) + NONNEG}, "penalty is .* there and 'Sum"), ({"lam": 0.5}, "lam is None there")]:
        with pytest.raises(pb.StateError, match=words):
            pb.minimize(dense(), checkpoint=file, **changes)


CHANGES = [({"lam": 2.0}, "lam is 1.0 there and 2.0 here"),
           ({"method": "bmrm"}, "method is 'oca' there and 'bmrm' here"),
           ({"random_state": 7}, "random_state is None there and 7 here"),
           ({"method": "oca theta=0.1"}, "method is 'oca' there and 'oca theta=0.1' here"),
           ({"n_parts": 3}, "n_parts is"), ({"w0": np.ones(32)}, "w0 is None there and 'array"),
           (SIGNS, "lam is 1.0 there"), ({"scale": "mean"}, "scale is 'sum' there and 'mean' here")]


@pytest.mark.parametrize(("change", "words"), CHANGES, ids=lambda part: str(part)[:20])
def test_a_file_of_other_parameters_is_refused(change, words, tmp_path):
    options = {"lam": 1.0, "method": "oca", "checkpoint": tmp_path / "run.npz"}
    pb.minimize(dense(), **options)
    with pytest.raises(pb.StateError, match="belongs to another problem") as caught:
        pb.minimize(dense(), **(options | change))
    assert words in str(caught.value) and "run.npz" in str(caught.value)


def test_a_file_of_other_data_is_refused(tmp_path):
    file = tmp_path / "run.npz"
    pb.minimize(dense(), lam=1.0, checkpoint=file)
    for other in (pb.risks.MulticlassHinge((X + 1e-3 * (np.arange(8) == 0)).astype(np.float32), y),
                  pb.risks.MulticlassHinge(X.astype(np.float32), (y + 1) % 4)):
        with pytest.raises(pb.StateError, match=r"data is .* there and .* here"):
            pb.minimize(other, lam=1.0, checkpoint=file)
    with pytest.raises(pb.StateError, match="n_examples is 80 there and 79 here"):
        pb.minimize(pb.risks.MulticlassHinge(X[:79].astype(np.float32), y[:79], n_classes=4), lam=1.0, checkpoint=file)
    pb.minimize(distances, np.zeros(6), lam=1.0, checkpoint=tmp_path / "f.npz")
    with pytest.raises(pb.StateError, match=r"data is 'value .* slope .* at w0, check sum .*'"):
        pb.minimize(lambda w: (2.0 * distances(w)[0], 2.0 * distances(w)[1]), np.zeros(6), lam=1.0,
                    checkpoint=tmp_path / "f.npz")


@pytest.mark.parametrize("reuse", ["planes", "solution"])
def test_a_path_goes_on_too(reuse, tmp_path):
    options = {"lams": [1.0, 10.0, 3.0], "reuse": reuse, "method": "oca", "tol": 1e-4}
    whole, seen = pb.path(dense(), **options), []

    def stop(progress):
        seen.append(progress)
        return len(seen) == sum(result.nit for result in whole) - 2
    some = pb.path(dense(), **options, callback=stop, checkpoint=tmp_path / "run.npz")
    assert some[0].status is Status.CALLBACK
    again = pb.path(dense(), **options, checkpoint=tmp_path / "run.npz")
    assert [bits(result) for result in again] == [bits(result) for result in whole]
    assert sorted(os.listdir(tmp_path)) == ["run-0.npz", "run-1.npz", "run-2.npz"]


# ---------------------------------------------------------------------- ends inside an iteration
class Stopping:
    """The distances, but for one call."""

    def __init__(self, call, act):
        self.call, self.act = call, act

    def __call__(self, w):
        self.call -= 1
        if self.call == 0:
            self.act()
        return distances(w)


def fail():
    raise ValueError("no answer")


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


OPTIONS = {"lam": 1.0, "tol": 1e-7, "method": "oca"}


@pytest.fixture
def python_takes_interrupts():
    """Below a shell that ignores SIGINT in the background, too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("every", [0.0, None])
def test_interrupts_wait_for_the_end_of_the_iteration(every, tmp_path, python_takes_interrupts):
    whole = pb.minimize(distances, np.zeros(6), **OPTIONS)
    options = OPTIONS | {"checkpoint": pb.Checkpoint(tmp_path / "run.npz", every=every)}
    stopped = pb.minimize(Stopping(12, interrupt), np.zeros(6), **options)
    assert stopped.status is Status.INTERRUPTED and 2 < stopped.nit < whole.nit
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert bits(pb.minimize(distances, np.zeros(6), **options)) == bits(whole)


def test_a_callback_that_raises_loses_nothing(tmp_path):
    whole = pb.minimize(distances, np.zeros(6), **OPTIONS)
    for error in (KeyboardInterrupt, ZeroDivisionError):
        options = OPTIONS | {"checkpoint": tmp_path / f"{error.__name__}.npz"}

        def act(progress, error=error):
            if progress.n_iter == 9:
                raise error
        try:
            pb.minimize(distances, np.zeros(6), callback=act, **options)
        except ZeroDivisionError:
            pass
        assert bits(pb.minimize(distances, np.zeros(6), **options)) == bits(whole)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize(("method", "name"), [
    ("oca", "dense"), ("bmrm", "csr"), ("prox-bcfw", "dense"), ("prox-bcfw", "chain"), ("alm", "dense"),
    ("mp-bcfw", "chain"), ("frank-wolfe", "dense"), ("lbfgs", "logistic"), ("newton", "logistic"),
    ("auto", "csr"), ("oca", "callable")])
def test_what_ends_a_run_after_its_last_iteration_leaves_it_ended(method, name, error, tmp_path):
    options = {"tol": 1e-2, "max_iter": 2000}
    whole = solve(method, name, options)
    assert whole.success

    def act(progress):
        if progress.n_iter == whole.nit:
            raise error
    try:
        stopped = solve(method, name, options, checkpoint=tmp_path / "run.npz", callback=act)
        assert stopped.status is Status.INTERRUPTED
    except ZeroDivisionError:
        pass
    assert bits(solve(method, name, options, checkpoint=tmp_path / "run.npz")) == bits(whole)


def test_what_is_known_when_an_oracle_fails_is_kept(tmp_path):
    whole = pb.minimize(distances, np.zeros(6), **OPTIONS)
    for every in (0.0, 1e3):
        options = OPTIONS | {"checkpoint": pb.Checkpoint(tmp_path / f"{every}.npz", every=every)}
        with pytest.raises(ValueError, match="no answer") as caught:
            pb.minimize(Stopping(12, fail), np.zeros(6), **options)
        known = caught.value.result
        result = pb.minimize(distances, np.zeros(6), **options)
        assert result.success and result.lower_bound <= whole.fun and result.nit > known.nit
        assert result.history["lower_bound"][known.nit] >= known.lower_bound
        assert result.n_passes < whole.n_passes + 5         # it has not begun anew
        if every == 0.0:                                    # the last whole iteration was written
            assert bits(result) == bits(whole)


def test_a_block_method_whose_oracle_fails_goes_on(tmp_path):
    """In the middle of a pass multipliers are feasible, hence still a bound."""
    class Failing(pb.models.Chain):
        calls = 0

        def oracle(self, X, Y):
            oracle = super().oracle(X, Y)
            solve = oracle.solve_batch

            def solve_batch(rows, weights, *more):
                Failing.calls += 1
                if Failing.calls == 60:
                    fail()
                return solve(rows, weights, *more)
            oracle.solve_batch = solve_batch
            return oracle

    def risk():
        return pb.risks.Structured(Failing(3, 4), WORDS, TAGS)
    options = {"lam": 0.5, "tol": 1e-4, "method": "prox-bcfw", "checkpoint": tmp_path / "run.npz"}
    with pytest.raises(ValueError, match="no answer") as caught:
        pb.minimize(risk(), **options)
    result = pb.minimize(risk(), **options)
    assert result.success and result.nit > caught.value.result.nit > 2
    assert result.lower_bound >= caught.value.result.lower_bound


def test_a_bug_of_a_callback_is_not_blamed_on_the_file(tmp_path):
    risk, path = dense(), tmp_path / "run.npz"
    options = {"lam": 1.0, "method": "bmrm", "tol": 1e-9, "checkpoint": path}
    pb.minimize(risk, max_iter=3, **options)

    def confused(progress):
        return np.array([True, False]) if progress.n_iter >= 10 else False

    with pytest.raises(ValueError, match="truth value") as caught:
        pb.minimize(risk, callback=confused, **options | {"checkpoint": pb.Checkpoint(path, every=1e9)})
    assert not isinstance(caught.value, pb.StateError) and caught.value.result.nit == 10
    went_on = []
    pb.minimize(risk, callback=lambda progress: went_on.append(progress.n_iter) or True, **options)
    assert went_on[0] == 11                 # nothing was lost


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the child is a fork")
@pytest.mark.parametrize(("method", "name"), [("oca", "dense"), ("bcfw", "chain"), ("auto", "csr")])
def test_killed_at_any_moment(method, name, tmp_path):
    options = {"lam": 0.05, "max_iter": 60, "tol": 1e-7}
    whole, moments = solve(method, name, options), np.random.default_rng(len(name))
    file, kills = tmp_path / "run.npz", 0
    for _ in range(200):
        child = os.fork()
        if child == 0:
            try:
                solve(method, name, options, checkpoint=pb.Checkpoint(file, every=0.0))
            finally:
                os._exit(0)
        time.sleep(moments.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        if not os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            break
        kills += 1
        if kills == 5:
            break
    assert bits(solve(method, name, options, checkpoint=file)) == bits(whole)
    assert os.listdir(tmp_path) == ["run.npz"]          # nor did those killed while writing leave anything


# ---------------------------------------------------------------------- two runs with one file
locks = pytest.mark.skipif(not file_lock.HAS_LOCKS, reason="files have no locks here")


@locks
def test_a_second_run_with_the_same_file_is_refused(tmp_path):
    file, refused = tmp_path / "run.npz", []
    (tmp_path / "link.npz").symlink_to(file)

    def again(progress):
        for path in (file, tmp_path / "link.npz"):
            with pytest.raises(pb.StateError, match=r"npz: another run writes it now; wait for its end") as caught:
                solve("oca", "dense", {}, checkpoint=path)
            refused.append(caught.value)
    whole = solve("oca", "dense", {})
    assert bits(solve("oca", "dense", {}, checkpoint=pb.Checkpoint(file, every=0.0), callback=again)) == bits(whole)
    assert len(refused) == 2 * whole.nit
    assert bits(solve("oca", "dense", {}, checkpoint=tmp_path / "link.npz")) == bits(whole)
    assert sorted(os.listdir(tmp_path)) == ["link.npz", "run.npz"]


@locks
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forks")
def test_of_several_processes_with_one_file_one_writes_it(tmp_path):
    file, ends = tmp_path / "run.npz", []
    held, wait = os.pipe(), os.pipe()

    def run(callback=None):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                solve("oca", "dense", {}, checkpoint=pb.Checkpoint(file, every=0.0), callback=callback)
                code = 0
            except pb.StateError as error:
                code = 2 if "another run writes it now" in str(error) else 3
            finally:
                os._exit(code)
        return child

    def hold(progress):
        if progress.n_iter == 2:
            os.write(held[1], b"x")
            os.read(wait[0], 1)
    first = run(hold)
    os.read(held[0], 1)
    for child in [run() for _ in range(3)]:
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert ends == [2, 2, 2]
    os.write(wait[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) == 0
    assert bits(solve("oca", "dense", {}, checkpoint=file)) == bits(solve("oca", "dense", {}))
    for end in (*held, *wait):
        os.close(end)


def test_without_locks_nobody_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(file_lock, "HAS_LOCKS", False)
    whole = solve("oca", "dense", {})
    assert bits(solve("oca", "dense", {}, checkpoint=tmp_path / "run.npz")) == bits(whole)
    lock = file_lock.FileLock(str(tmp_path / "none" / "lock"))
    assert lock.take() and not lock.is_held
    monkeypatch.undo()
    assert lock.take() and not lock.is_held         # there is no such folder
    lock.release()


@locks
def test_leftovers_of_this_file_alone_are_removed_where_it_lies(tmp_path):
    (tmp_path / "there").mkdir()
    begin = "a" * 60
    target, other = tmp_path / "there" / f"{begin}-1.npz", tmp_path / "there" / f"{begin}-2.npz"
    link = tmp_path / "link.npz"
    link.symlink_to(target)
    mine, theirs = (f"{hidden_name(str(path))}.0123456789abcdef" for path in (target, other))
    for path in (mine, theirs):
        open(path, "w").close()
    solve("oca", "dense", {}, checkpoint=link)
    assert sorted(os.listdir(target.parent)) == sorted([os.path.basename(theirs), target.name])


# ---------------------------------------------------------------------- files
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path, capsys):
    from pybundle.cli import main

    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    for read in (lambda: pb.load(pipe), lambda: pb.load_certificate(pipe),
                 lambda: solve("oca", "dense", {}, checkpoint=pipe)):
        with pytest.raises(pb.StateError, match="not a regular file"):
            read()
    (tmp_path / "X.csv").write_text("1.0,2.0\n")
    assert main(["predict", str(tmp_path / "X.csv"), "--load", pipe]) != 0
    assert "not a regular file" in capsys.readouterr().err


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    file = tmp_path_factory.mktemp("written") / "run.npz"
    return file, solve("prox-bcfw", "chain", {}, checkpoint=file), file.read_bytes()


def test_torn_and_mutated_files_are_refused(written, tmp_path):
    _, result, raw = written
    file, random, refused = tmp_path / "run.npz", np.random.default_rng(0), 0
    for k in range(30):
        damaged = bytearray(raw)
        if k % 3 == 0:
            del damaged[random.integers(len(raw)):]
        elif k % 3 == 1:
            damaged[random.integers(len(raw))] ^= 1 << random.integers(8)
        else:
            at = random.integers(len(raw), size=2)
            damaged[at.min():at.max()] = random.bytes(at.max() - at.min())
        file.write_bytes(bytes(damaged))
        try:
            again = solve("prox-bcfw", "chain", {}, checkpoint=file)
        except pb.StateError as error:
            assert "run.npz" in str(error)
            refused += 1
        else:                           # a bit that means nothing, a date
            assert np.array_equal(again.x, result.x)
    assert refused > 25


def test_a_run_resumes_while_it_solves_the_problem_of_its_planes(tmp_path):
    """The problem of known planes is made again from the planes, and its run goes on where it was."""
    found, options = [], {"lam": 1e-3, "tol": 1e-9}
    whole = bits(solve("alm", "chain", options))
    for k in range(1, 6):
        file = tmp_path / f"{k}.npz"
        solve("alm", "chain", options | {"max_iter": k}, checkpoint=pb.Checkpoint(file, every=0.0))
        tree = files.read_archive(file, "pybundle checkpoint", 1)[0]["run"]
        found.append(any(node[0] == "_master" and node[1] is not None for node in nodes(tree)))
        assert bits(solve("alm", "chain", options, checkpoint=file)) == whole
    assert any(found)


def nodes(tree):
    """All lists in a tree of lists that hold something."""
    if isinstance(tree, list) and tree:
        yield tree
        for part in tree:
            yield from nodes(part)


def said(header):
    return {name: header[name] for name in ("terms", "n_iter", "status", "settings", "run")}


def rewrite(raw, file, change, digest=digest):
    """The file with another header and other arrays, with check sums and a digest that fit."""
    with np.load(io.BytesIO(raw)) as old:
        arrays = dict(old)
    header = json.loads(str(arrays.pop("header")))
    change(header, arrays)
    header["digest"] = digest(said(header), arrays) if digest else header["digest"]
    np.savez(file, header=np.array(json.dumps(header)), **arrays)


def first(kind, at=1, value="os.system"):
    def change(header, arrays):
        next(node for node in nodes(header["run"]) if node[0] == kind)[at] = value
    return change


@pytest.mark.parametrize("change", [
    lambda header, arrays: header.update(pybundle="0.0.0"), lambda header, arrays: header.update(version=99),
    lambda header, arrays: header.update(run=[]), lambda header, arrays: header.update(run=["list", []]),
    lambda header, arrays: arrays.update({"0": arrays.pop(max(arrays))}),
    first("record"), first("record", at=0), first("record", at=0, value="__class__"), first("record", at=2, value=[]),
    first("array", value=10**9), first("array", value="header"), first("dict", value=3), first("dict", value=[]),
    first("method"), first("method", value="bmrm"), first("generator", value=[0])], ids=range(16))
def test_a_header_that_lies_is_refused(written, tmp_path, change):
    _, _, raw = written
    rewrite(raw, tmp_path / "run.npz", change)
    with pytest.raises(pb.StateError, match=r"run\.npz"):
        solve("prox-bcfw", "chain", {}, checkpoint=tmp_path / "run.npz")


@pytest.mark.parametrize(("place", "value"), [(0, float("nan")), (2, -1.0), (3, -1.0), (3, float("nan"))])
@pytest.mark.parametrize("k", [0, 1])
def test_numbers_of_planes_of_frank_wolfe_are_checked(place, value, k, tmp_path):
    """An offset of NaN would stop all steps, and a negative error would raise the bound."""
    file = tmp_path / "run.npz"
    solve("frank-wolfe", "dense", {}, max_iter=2, checkpoint=file)

    def change(header, arrays):
        planes = [node for node in nodes(header["run"]) if node[:2] == ["record", "Plane"]]
        assert len(planes) == 3             # the last ones are those of the run, after that of the bound
        planes[1 + k][2][place] = value

    rewrite(file.read_bytes(), file, change)
    with pytest.raises(pb.StateError, match=r"run\.npz.*must be a number"):
        solve("frank-wolfe", "dense", {}, checkpoint=file)


# A file of each kind of state, half way; what is in it is changed, and the digest made to fit.
STATES = [("oca", "dense", {}), ("oca", "csr", {}), ("oca", "callable", {}), ("bmrm", "dense", SIGNS),
          ("prox-bmrm", "csr", {}), ("cutting-plane", "dense", BALL), ("sgd", "dense", {}),
          ("frank-wolfe", "dense", {}), ("prox-bcfw", "dense", {}), ("prox-bcfw", "binary", {}),
          ("prox-bcfw n_best=3", "chain", {}), ("mp-bcfw average=True", "chain", {}), ("alm", "dense", {}),
          ("alm", "chain", {}), ("lbfgs", "logistic", {"lam": 0.1}), ("auto", "csr", {"tol": 1e-6}),
          ("oca", "intercept", {"lam": 1.0}), ("lbfgs", "log-loss", {"lam": 0.1}),
          ("prox-bcfw", "crf", {"lam": 0.1}), ("prox-bcfw", "few weights", {"lam": 0.1}),
          ("prox-bcfw", "classes", INTERCEPTS), ("lbfgs", "classes", INTERCEPTS)]


def another_shape(array, random):
    return [array[:-1], array[None], np.concatenate([array, array]), array[:0], array.ravel(), np.resize(array, 3),
            np.float64(1.0)][random.integers(7)]


def another_type(array, random):
    kinds = [np.float32, np.int64, np.int32, np.uint8, bool, np.float64]
    return np.nan_to_num(array).astype(kinds[random.integers(6)])


def another_number(array, random):
    array = array.copy()
    if array.size:
        kind = array.dtype.kind
        numbers = [np.nan, np.inf, -np.inf, -1e300, 1e300] if kind == "f" else [-2, 10**6, -10**9, 2**31 - 1]
        some = random.integers(array.size, size=1 + random.integers(3))
        array.reshape(-1)[some] = np.array(numbers)[random.integers(len(numbers))].astype(array.dtype)
    return array


def another_entry(header, random):
    """Something else in the place of a number, a text, or an array in the tree."""
    entries = list(nodes(header["run"]))
    entry = entries[random.integers(len(entries))]
    entry[random.integers(len(entry))] = [None, "text", -1, 2, 0.5, [0], float("nan"), True][random.integers(8)]


@pytest.fixture(scope="module")
def half_way(tmp_path_factory):
    folder, known = tmp_path_factory.mktemp("half"), {}

    def make(k):
        if k not in known:
            method, name, options = STATES[k]
            whole = solve(method, name, options)
            file = folder / f"{k}.npz"
            solve(method, name, options, max_iter=max(1, whole.nit // 2), checkpoint=file)
            exact = {key: options[key] for key in ("lam", "penalty") if key in options}
            best = solve(method if method == "cutting-plane" else "auto", name, exact, tol=1e-6, max_iter=2000)
            known[k] = file.read_bytes(), best.fun
        return known[k]
    return make


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:ind.* array has non-integer dtype")
@pytest.mark.parametrize("k", range(len(STATES)), ids=["-".join(state[:2]) for state in STATES])
@pytest.mark.parametrize("how", ["arrays", "entries"])
def test_a_forged_state_ends_in_a_named_error_or_proves_nothing_wrong(k, how, half_way, tmp_path):
    (method, name, options), (raw, best), refused = STATES[k], half_way(k), 0
    for seed in range(8):
        random = np.random.default_rng([k, seed])

        def change(header, arrays, random=random):
            if how == "entries":
                return another_entry(header, random)
            place = sorted(arrays)[random.integers(len(arrays))]
            arrays[place] = np.asarray([another_shape, another_type, another_number][random.integers(3)](
                arrays[place], random))
        rewrite(raw, tmp_path / "run.npz", change)
        try:
            result = solve(method, name, options, checkpoint=tmp_path / "run.npz", time_limit=20.0)
        except pb.BundleError as error:         # StateError but for numbers that a risk seems to have given
            refused += isinstance(error, pb.StateError) and "run.npz" in str(error)
        else:
            assert not result.certified or result.lower_bound <= best + 1e-9 * abs(best)
    assert refused >= 1


@pytest.mark.parametrize("method, name", [("oca", "intercept"), ("lbfgs", "log-loss")])
@pytest.mark.parametrize("factor", [1e-3, 0.4])
def test_forged_limits_of_free_weights_prove_nothing(method, name, factor, tmp_path):
    """They are proven again from their planes: narrower ones, or bounds that only those would prove, are refused."""
    options, file = {"lam": np.append(0.0, np.full(7, 0.1)), "tol": 1e-9}, tmp_path / "run.npz"
    solve(method, name, options, checkpoint=file, max_iter=12)
    raw = file.read_bytes()
    best = solve(method, name, options, max_iter=2000).fun
    outcomes = set()
    for what in ("LimitProof", "LowerBound"):
        def change(header, arrays, what=what):
            for node in nodes(header["run"]):
                if node[:2] == ["record", "LimitProof"] == ["record", what]:
                    multipliers = node[2][4]
                    arrays[str(multipliers[1])] *= factor
                if node[:2] == ["record", "LowerBound"] == ["record", what]:
                    node[2][1] = best * (1.0 + 0.1 * (1.0 - factor))
        rewrite(raw, file, change)
        try:
            result = solve(method, name, options, checkpoint=file, max_iter=60)
        except pb.StateError as error:
            assert "run.npz" in str(error)
            outcomes.add(what)
        else:
            assert not result.certified or result.lower_bound <= best * (1.0 + 1e-9)
    assert outcomes == {"LimitProof", "LowerBound"}


def test_a_forged_certificate_of_an_ended_run_is_refused(tmp_path):
    """A run that has ended returns what the file says of its certificate, which its plane must prove."""
    file = tmp_path / "run.npz"
    result = solve("bmrm", "dense", {"tol": 1e-2, "max_iter": 300}, checkpoint=file)
    assert result.success and result.gap > 1e-4

    def change(header, arrays):
        node, = (node for node in nodes(header["run"]) if node[:2] == ["record", "Bracket"])
        node[2][1] = result.fun
    rewrite(file.read_bytes(), file, change)
    with pytest.raises(pb.StateError, match=r"run\.npz.*certificate is not what its evidence proves"):
        solve("bmrm", "dense", {"tol": 1e-2, "max_iter": 300}, checkpoint=file)


@pytest.mark.parametrize("k", range(len(STATES)), ids=["-".join(state[:2]) for state in STATES])
def test_a_changed_state_is_refused_whatever_its_check_sums(k, half_way, tmp_path):
    (method, name, options), (raw, _) = STATES[k], half_way(k)
    for seed in range(4):
        random = np.random.default_rng([k, seed])

        def change(header, arrays, random=random):
            sized = [place for place in sorted(arrays) if arrays[place].size and arrays[place].dtype.kind == "f"]
            place = sized[random.integers(len(sized))]
            at = random.integers(arrays[place].size)
            arrays[place].reshape(-1)[at] = 0.5 if arrays[place].reshape(-1)[at] != 0.5 else 0.25
        rewrite(raw, tmp_path / "run.npz", change, digest=None)
        with pytest.raises(pb.StateError, match=r"run\.npz.*digest"):
            solve(method, name, options, checkpoint=tmp_path / "run.npz")


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["dense", "csr"])
def test_planes_that_are_not_finite_are_refused(name, number, tmp_path):
    file = tmp_path / "run.npz"
    first = solve("bmrm", name, {}, max_iter=4, checkpoint=file)
    raw = file.read_bytes()
    first.state.bundle.save(tmp_path / "bundle.npz")
    for array in np.load(tmp_path / "bundle.npz").values():
        def change(header, arrays, array=array):
            places = [place for place in arrays if np.array_equal(arrays[place], array)]
            arrays[places[0]].reshape(-1)[0] = number
        if array.dtype.kind == "f":
            rewrite(raw, file, change)
            with pytest.raises(pb.StateError, match=r"run\.npz: not readable.*finite"):
                solve("bmrm", name, {}, checkpoint=file)


def test_an_oracle_that_fails_in_a_run_that_goes_on_is_no_matter_of_the_file(tmp_path):
    options = OPTIONS | {"checkpoint": tmp_path / "run.npz"}
    pb.minimize(distances, np.zeros(6), **options, max_iter=3)
    for error in (IndexError, ValueError, ZeroDivisionError):
        def act(error=error):
            raise error("of the caller")
        with pytest.raises(error, match="of the caller"):
            pb.minimize(Stopping(6, act), np.zeros(6), **options)


def test_other_files_are_refused_and_stay(tmp_path):
    svm = pb.MulticlassSVM().fit(X, y)
    svm.save(tmp_path / "svm.npz")
    (tmp_path / "text").write_text("lam = 1")
    for name in ("svm.npz", "text"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(pb.StateError, match=name):
            pb.minimize(dense(), lam=1.0, checkpoint=tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


def test_no_pickle_is_in_a_file(written):
    with zipfile.ZipFile(written[0]) as archive:
        assert all(name.endswith(".npy") for name in archive.namelist())
    with np.load(written[0], allow_pickle=False) as arrays:
        assert all(arrays[name].dtype.kind in "biufU" for name in arrays.files)


def test_a_path_that_cannot_be_written_is_said_at_once(tmp_path):
    calls = []
    with pytest.raises(pb.StateError, match="cannot be written"):
        pb.minimize(dense(), lam=1.0, checkpoint=tmp_path / "none" / "run.npz", callback=calls.append)
    assert calls == []
    with pytest.raises(pb.InputTypeError, match="checkpoint must be the path of a file, got True"):
        pb.minimize(dense(), lam=1.0, checkpoint=True)
    with pytest.raises(pb.ParameterError, match="every must be"):
        pb.minimize(dense(), lam=1.0, checkpoint=pb.Checkpoint(tmp_path / "run.npz", every=-1.0))


def test_a_full_disk_does_not_end_a_run(tmp_path, monkeypatch):
    whole, calls, write = solve("oca", "dense", {}), [], files.write_archive

    def full(*arguments):
        calls.append(1)
        if 3 < len(calls) < 6:
            raise OSError(28, "No space left on device")
        write(*arguments)
    monkeypatch.setattr(files, "write_archive", full)
    with pytest.warns(RuntimeWarning, match=r"No space left on device.*iteration 2, and the run continues"):
        result = solve("oca", "dense", {}, checkpoint=pb.Checkpoint(tmp_path / "run.npz", every=0.0))
    assert bits(result) == bits(whole)
    assert bits(solve("oca", "dense", {}, checkpoint=tmp_path / "run.npz")) == bits(whole)


# ---------------------------------------------------------------------- the encoding
def through(tree, records=()):
    found, arrays = kept.encode(tree, records)
    return kept.decode(json.loads(json.dumps(found)), arrays, records)


def test_values_come_back_as_they_were():
    values = [np.float32(0.1), np.int64(3), np.bool_(True), 0.1, float("inf"), -0.0, 2**70, True, None, "x", np.float32,
              np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array(2.0), np.array(["a", "bc"])]
    for value, found in zip(values, through(values), strict=True):
        assert type(found) is type(value) and repr(found) == repr(value)
        if isinstance(value, np.ndarray):
            assert found.flags.f_contiguous == value.flags.f_contiguous and found.dtype == value.dtype
    generator = np.random.default_rng(5)
    generator.normal(size=3)
    found = through(generator)
    assert found.normal() == generator.normal() and found.permutation(9).tolist() == generator.permutation(9).tolist()
    rows = sp.csr_array((2, 3))
    rows.data, rows.indices, rows.indptr = np.array([1.0, 0.0]), np.array([0, 2], np.int32), np.array([0, 2, 2])
    found = through(rows)
    assert [getattr(found, name).dtype for name in ("data", "indices", "indptr")] == [np.float64, np.int32, np.int64]
    assert found.nnz == 2 and (found != rows).nnz == 0


def test_nothing_unknown_is_written():
    plane = Plane(1.0, np.arange(3.0))
    for stranger in (plane, object(), print, lambda: None, {1, 2}, np.array([None]), np.longdouble(1.0),
                     np.arange(3.0).astype(">f8"), np.random.Generator(np.random.MT19937(0))):
        with pytest.raises(pb.StateError, match="cannot be part of a checkpoint"):
            through([stranger])
    found = through({"plane": (plane, None)}, (Plane,))["plane"][0]
    assert found.offset == 1.0 and found.slope.tolist() == [0.0, 1.0, 2.0]


class Whole(kept.Kept):
    kept = "x", "part"

    def __init__(self, x, part=None):
        self.x, self.part = x, part


def test_an_object_is_read_into_one_of_the_same_kind():
    first, second = Whole(1.5, Whole(np.arange(2))), Whole(0.0, Whole(None))
    second.restore(through(first.arrays()))
    assert second.x == 1.5 and second.part.x.tolist() == [0, 1] and second.part.part is None
    with pytest.raises(ValueError, match=r"Whole holds \['part', 'x'\]"):
        second.restore({"x": 1.0})
    with pytest.raises(ValueError, match="part of Whole is NoneType in the object made anew, and was another object"):
        Whole(0.0).restore(through(first.arrays()))
    with pytest.raises(ValueError, match="part of Whole is Whole in the object made anew, and was no object"):
        first.restore(through(Whole(0.0).arrays()))


def test_a_callable_of_other_signs_is_another_problem(tmp_path):
    # value and norm of the slope at 0 are those of the problem with all labels turned round
    def hinge(sign):
        def risk(w):
            z = sign * (2.0 * y - 3.0)[:, None] * X
            losses = np.maximum(0.0, 1.0 - z @ w)
            return losses.sum(), -(z * (losses > 0.0)[:, None]).sum(axis=0)
        return risk

    w0, options = np.zeros(X.shape[1]), {"lam": 1.0, "checkpoint": tmp_path / "run.npz"}
    pb.minimize(hinge(1.0), w0, **options)
    with pytest.raises(pb.StateError, match="another problem: data is"):
        pb.minimize(hinge(-1.0), w0, **options)


@pytest.mark.parametrize("max_iter", [1, 100])
def test_a_callable_that_agrees_near_the_start_is_another_problem(max_iter, tmp_path):
    """A file of max(10 - w, 0) was taken for one of max(10 - w, 7): fun 0.5, certified, where F is 7.5."""
    def ramp(floor):
        return lambda w: (max(10.0 - w[0], floor), np.array([-1.0 if 10.0 - w[0] > floor else 0.0]))

    options = {"lam": 0.01, "checkpoint": tmp_path / "run.npz", "max_iter": max_iter, "tol": 1e-6}
    with warnings.catch_warnings(action="ignore"):
        first = pb.minimize(ramp(0.0), np.zeros(1), **options)
    with pytest.raises(pb.StateError, match="belongs to another problem: at its best point the risk was"):
        pb.minimize(ramp(7.0), np.zeros(1), **options)
    again = pb.minimize(ramp(0.0), np.zeros(1), **options | {"max_iter": 100})
    assert (again.success and (again.nit, again.fun) == (first.nit, first.fun)) or max_iter == 1


@pytest.mark.parametrize("content", ["junk", "another file of ours", "device"])
def test_what_is_no_checkpoint_is_named_with_the_remedy(content, tmp_path):
    file = tmp_path / "run.npz"
    if content == "junk":
        file.write_bytes(b"junk" * 100)
    elif content == "device":
        if not os.path.exists("/dev/zero"):
            pytest.skip("there is no device without an end here")
        file.symlink_to("/dev/zero")
    else:
        files.write_archive(file, "pybundle estimators", 1, {}, {"x": np.zeros(3)})
    risk = pb.risks.Function(lambda w: (float(np.abs(w - 1.0).sum()), np.sign(w - 1.0)), 3)
    with pytest.raises(pb.StateError, match=r"checkpoint .*run\.npz.*delete it, or choose another path"):
        pb.minimize(risk, lam=1.0, checkpoint=file)


def test_every_state_of_a_run_with_free_weights_is_read(tmp_path):
    """A bound from before the limits of free weights was 0, the declared one; with them its plane proved less.

    So the checkpoint that the run itself had written, mostly the last but one, was refused.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 10))
    risk = pb.risks.Pinball(X, X @ rng.standard_normal(10) + rng.standard_normal(200) + 3, 0.8, fit_intercept=True)
    options = {"lam": np.zeros(10), "tol": 1e-9}
    whole = pb.minimize(risk, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        for n_iter in range(1, whole.nit):
            path = tmp_path / f"{n_iter}.npz"
            pb.minimize(risk, max_iter=n_iter, checkpoint=pb.Checkpoint(path, every=0.0), **options)
            again = pb.minimize(risk, checkpoint=path, **options)
            assert np.array_equal(again.x, whole.x) and again.lower_bound == whole.lower_bound
