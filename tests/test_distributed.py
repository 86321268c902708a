"""Risks whose parts live elsewhere: the same bits as here, lost workers, slow ones, errors with a name."""

import signal
import warnings

import numpy as np
import pytest
from reference.small_risks import blobs, signs
from reference.workers import Here, InTurn
from scipy.sparse import csr_array, issparse

import pybundle as pb
from pybundle.core.plane import Planes
from pybundle.core.ragged import Ragged
from pybundle.distributed.messages import Answer, Question, pack, single_errors, unpack
from pybundle.distributed.parts import Description, Parts
from pybundle.distributed.risk import RemoteRisk, _assembled, _joined
from pybundle.distributed.workplace import excerpt, grouped


def chains(n_parts=5, loss="hinge", seed=1):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=40)
    X = [rng.normal(size=(k, 4)) for k in sizes]
    Y = [rng.integers(0, 3, size=k) for k in sizes]
    return pb.risks.Structured(pb.models.Chain(3, 4), X, Y, n_parts=n_parts, loss=loss)


def landmarks():
    rng = np.random.default_rng(3)
    images, Y = rng.integers(0, 255, size=(12, 10, 10)), rng.integers(3, 7, size=(12, 2, 2)).astype(float)
    from pybundle.features import CodeWindows, lbp_maps

    maps = lbp_maps(images, 1, 3)
    model = pb.models.Landmarks.from_examples((10, 10), [-1, 0], Y, CodeWindows([[2, 2]], 3), margin=0)
    return pb.risks.Structured(model, maps, Y, n_parts=3)


RISKS = {
    "multiclass": lambda: blobs(scale=0.5, bias=1.0, n_classes=4),
    "float32, weights, costs": lambda: blobs(sample_weight=np.linspace(0.0, 2.0, 240), loss=1.0 - np.eye(3)),
    "binary": lambda: blobs(K=2, kind=pb.risks.BinaryHinge),
    "logistic": lambda: blobs(K=2, kind=pb.risks.Logistic),
    "absolute errors": lambda: blobs(K=2, kind=pb.risks.Absolute),
    "squared hinge": lambda: blobs(K=2, kind=pb.risks.SquaredHinge),
    "chain": chains,
    "chain, log-loss": lambda: chains(loss="logistic"),
    "plain Python": signs,
    "landmarks": landmarks,
}


class Clock:
    """Seconds that a test moves on."""

    def __init__(self):
        self.now = 1e6

    def perf_counter(self):
        return self.now


class Frozen(Here):
    """From a round on, group 1 does not answer while the clock runs on; `act` happens once."""

    def __init__(self, risk, n_groups, clock, last=6, act=lambda: None):
        super().__init__(risk, n_groups)
        self._clock, self._last, self._act = clock, last, act

    def ask(self, group, question, w):
        if group != 1 or question.round < self._last:
            super().ask(group, question, w)

    def answers(self, timeout=None):
        if self._open:
            return super().answers()
        self._act, act = lambda: None, self._act
        act()
        self._clock.now += 1.0
        return []


class FrozenInTurn(InTurn):
    def place(self, risk):
        return RemoteRisk(Frozen(risk, self.n_groups, **self.options), Description.of(risk), home=risk)


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    for module in ("distributed.waiting", "runtime.stopping", "runtime.interrupts"):
        monkeypatch.setattr(f"pybundle.{module}.time", found)
    return found


# ---------------------------------------------------------------------- parts and messages

@pytest.mark.parametrize("name", RISKS)
def test_parts_alone_have_the_bits_of_the_whole(name):
    risk = RISKS[name]()
    w = np.random.default_rng(5).normal(size=risk.dim)
    whole, (values, errors) = risk.planes(w), risk.values(w)
    for group in grouped(risk.n_parts, 2):
        part = excerpt(risk, group)()
        planes = part.planes(w)
        assert (planes.values == whole.values[group]).all() and (planes.offsets == whole.offsets[group]).all()
        assert (planes.dot(w) == Planes(*whole).dot(w)[group]).all()
        for field in ("slopes",):
            a, b = (np.asarray(x.toarray() if hasattr(x, "toarray") else x)
                    for x in (getattr(planes, field), getattr(whole, field)[group]))
            assert (a == b).all()
        assert (part.values(w)[0] == values[group]).all()
        assert (part.values(w)[1] == errors[group]).all()
        for bound in ("slope_errors", "offset_errors", "lower_bounds"):
            if bound == "slope_errors" and getattr(risk, "label_sums", None):
                continue        # those of intercepts are by the means of the columns, and a part has its own
            assert (getattr(part, bound) == getattr(risk, bound)[group]).all()


@pytest.mark.parametrize("name", ["multiclass", "chain", "plain Python", "landmarks"])
def test_parts_travel_as_their_data_and_tell_their_size(name):
    import pickle
    import sys

    from pybundle.distributed.messages import Question
    from pybundle.distributed.parts import Parts

    risk = RISKS[name]()
    parts = Parts(risk.excerpt([0, 1]), 2)
    again = pickle.loads(pickle.dumps(parts))
    w = np.random.default_rng(5).normal(size=risk.dim)
    answers = [one.answer(Question(0, "planes"), w).arrays for one in (parts, again)]
    assert all((a == b).all() for a, b in zip(*answers, strict=True))
    assert 500 < sys.getsizeof(parts) < 100_000


def test_groups_hold_every_part_once():
    for n_parts in (1, 2, 5, 16):
        for n_groups in (1, 2, 7, 40):
            groups = grouped(n_parts, n_groups)
            assert np.concatenate(groups).tolist() == list(range(n_parts))
            assert all(len(group) for group in groups)


@pytest.mark.parametrize("density", [0.0, 0.05, 0.5, 1.0])
def test_packing_is_exact_and_takes_the_smaller_form(density):
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(3, 50)) * (rng.random((3, 50)) < density)
    planes = Planes(rng.normal(size=3), rng.normal(size=3), slopes)
    arrays = pack(planes)
    again = unpack(arrays, 50)
    back = again.slopes.toarray() if hasattr(again.slopes, "toarray") else again.slopes
    assert (back == slopes).all() and (again.values == planes.values).all()
    assert Answer(arrays, 0.0).nbytes <= slopes.nbytes + 48


def test_parts_keep_slopes_sparse_where_the_risk_itself_makes_them_dense(monkeypatch):
    monkeypatch.setattr("pybundle.risks.reduction.SPARSE_DIM", 1)
    risk = landmarks()
    risk.dense_from = 0.01
    w, seen = np.random.default_rng(4).standard_normal(risk.dim), []

    class Seen(type(risk)):
        def planes(self, w):
            seen.append(super().planes(w))
            return seen[-1]

    risk.__class__ = Seen
    planes = risk.planes(w)
    assert isinstance(planes.slopes, np.ndarray) and planes.density() > 0.01
    found = unpack(Parts(risk, risk.n_parts).answer(Question(0, "planes"), w).arrays, risk.dim)
    assert issparse(seen[-1].slopes) and (found.slopes.toarray() == planes.slopes).all()
    assert (found.values == planes.values).all() and (found.offsets == planes.offsets).all()
    assert isinstance(risk.planes(w).slopes, np.ndarray)        # the user's own risk stays as it was


def test_float32_stays_within_its_bound():
    rng = np.random.default_rng(1)
    slopes = rng.normal(size=(4, 300)) * 10.0 ** rng.integers(-40, 5, size=(4, 300))
    planes = Planes(np.zeros(4), np.zeros(4), slopes)
    back = unpack(pack(planes, single=True), 300).slopes
    errors = np.linalg.norm(back - slopes, axis=1)
    assert (errors > 0.0).all() and (errors <= single_errors(np.linalg.norm(slopes, axis=1), 300)).all()


def test_ragged_and_named_tuples_are_taken_apart():
    from pybundle.risks.partition import take

    words = Ragged.of([np.arange(3), np.arange(2), np.arange(4)])
    assert [item.tolist() for item in take(words, np.array([2, 0]))] == [[0, 1, 2, 3], [0, 1, 2]]
    assert take(["a", "b", "c"], np.array([1])) == ["b"]


# ---------------------------------------------------------------------- runs

@pytest.mark.parametrize("name", RISKS)
def test_a_run_that_waits_has_the_trace_of_a_run_without_workers(name):
    risk = RISKS[name]()
    options = {"lam": 0.5, "tol": 1e-3, "max_iter": 25, 
               "method": "lbfgs" if risk.smooth else "oca line_search=False"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        a, b = (pb.minimize(risk, n_parts=risk.n_parts, executor=executor, **options)
                for executor in (None, InTurn(3)))
    assert (a.x == b.x).all() and a.lower_bound == b.lower_bound and a.fun == pytest.approx(b.fun, rel=1e-14)
    for field in ("primal", "lower_bound", "n_passes"):
        assert (a.history[field] == b.history[field]).all()
    assert b.certified and len(b.rounds["bytes_in"]) >= b.nit and (b.rounds["bytes_in"] > 0).all()


def test_float32_planes_keep_the_bound_below_the_optimum():
    risk = blobs()
    best = pb.minimize(risk, lam=1.0, tol=1e-8)
    single = pb.minimize(risk, lam=1.0, tol=1e-4, method="oca", executor=InTurn(2, single=True))
    assert single.success and single.lower_bound <= best.fun <= single.fun + 1e-9
    exact = pb.minimize(risk, lam=1.0, tol=1e-4, method="oca", executor=InTurn(2))
    assert single.rounds["bytes_in"][0] < 0.6 * exact.rounds["bytes_in"][0]
    with pytest.raises(pb.ParameterError, match="slope_sizes"):
        pb.minimize(signs(), lam=1.0, executor=InTurn(2, single=True))


def test_parts_without_examples():
    X, y = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]]), [1, -1, 1]
    risk = pb.risks.BinaryHinge(X, y, n_parts=7)
    a = pb.minimize(risk, lam=0.1, tol=1e-6, method="oca line_search=False")
    b = pb.minimize(risk, lam=0.1, tol=1e-6, method="oca", executor=InTurn(7))
    assert a.fun == b.fun and a.lower_bound == b.lower_bound and b.certified


def test_a_path_over_a_placed_risk_keeps_planes_and_place():
    risk = blobs()
    remote = InTurn(2).place(risk)
    results = pb.path(remote, [10.0, 1.0], method="oca", tol=1e-3)
    direct = pb.path(risk, [10.0, 1.0], method="oca line_search=False", tol=1e-3)
    assert [r.fun for r in results] == [r.fun for r in direct]
    assert remote.derive(precision="float64").planes(np.ones(remote.dim)).values.shape == (6,)
    with pytest.raises(pb.ParameterError, match="n_parts must be 6"):
        pb.minimize(remote, lam=1.0, n_parts=3)


def test_what_cannot_live_elsewhere_is_refused():
    function = pb.risks.Function(lambda w: (float(w @ w), 2.0 * w), dim=2)
    with pytest.raises(pb.ParameterError, match="excerpt"):
        pb.minimize(function, lam=1.0, executor=InTurn(1))
    with pytest.raises(pb.InputTypeError, match="got the class Dask itself"):
        pb.minimize(blobs(), lam=1.0, executor=pb.distributed.Dask)
    with pytest.raises(pb.InputTypeError, match="delayed must give risks, got int"):
        Parts(3, 1)


def test_a_placed_risk_is_in_one_run_at_a_time():
    remote, refused = InTurn(2).place(blobs()), []

    def again(progress):
        with pytest.raises(pb.ParameterError, match="risk must be in one run at a time") as caught:
            pb.minimize(remote, lam=2.0, method="oca")
        refused.append(caught.value)
    alone = pb.minimize(blobs(), lam=1.0, method="oca line_search=False")
    result = pb.minimize(remote, lam=1.0, method="oca", callback=again)
    assert len(refused) == result.nit and result.fun == alone.fun
    assert pb.minimize(remote, lam=2.0, method="oca").success


def test_a_callback_may_ask_a_placed_risk():
    remote, values = InTurn(2).place(blobs()), []
    alone = pb.minimize(blobs(), lam=1.0, method="oca line_search=False")
    result = pb.minimize(remote, lam=1.0, method="oca", callback=lambda p: values.append(remote.values(p.x)[0].sum()))
    assert len(values) == result.nit and min(values) > 0.0 and result.fun == alone.fun


def test_a_contradiction_at_a_worker_is_one():
    calls = []

    def fun(w):
        calls.append(w)
        return float((w - 2.0) @ (w - 2.0)) if len(calls) < 3 else -1.0, 2.0 * (w - 2.0)
    risk = pb.risks.Function(fun, 3, lower_bounds=0.0)
    risk.excerpt = lambda numbers: pb.risks.Function(fun, 3, lower_bounds=0.0)
    with pytest.raises(pb.OracleError, match="below its lower bound") as caught:
        pb.minimize(risk, lam=0.1, tol=1e-9, executor=InTurn(1), method="bmrm")
    result = caught.value.result
    assert not result.certified and result.lower_bound == -np.inf and result.state.bundle is None


def test_fine_tolerances_need_exact_planes():
    risk, single = blobs(), InTurn(2, single=True)
    fine = pb.minimize(risk, lam=1.0, tol=1e-7, method="oca", executor=single)
    exact = pb.minimize(risk, lam=1.0, tol=1e-7, method="oca line_search=False")
    assert fine.success and (fine.x == exact.x).all()
    with pytest.warns(pb.ConvergenceWarning, match="use compress='exact'"):
        pb.minimize(blobs(scale=1e3), lam=0.1, tol=1e-4, method="oca", executor=single, max_iter=100)


def test_an_oracle_that_raises_is_named_with_its_traceback():
    with pytest.raises(pb.OracleError, match="ZeroDivisionError for example 17: no way") as caught:
        pb.minimize(signs(bad=17), lam=1.0, executor=InTurn(2))
    assert "loss_augmented_decode" in "".join(caught.value.__notes__)
    assert caught.value.__cause__.__notes__ == ["pybundle: while example 17 was decoded"]
    assert caught.value.result.fun == 30.0 and isinstance(caught.value.__cause__, ZeroDivisionError)


def test_what_a_round_that_failed_still_has_to_say_is_not_heard():
    risk, zero = signs(bad=[0, 2]), np.zeros(3)                 # one example of each group fails
    workplace = Here(risk, 2)
    remote = RemoteRisk(workplace, Description.of(risk), False, risk)
    for again in (remote, remote.derive(precision="float64")):
        with pytest.raises(pb.OracleError, match="no way"):
            again.planes(np.ones(3))
        assert len(workplace._open) == 1     # one group's answer is on its way
        assert again.planes(zero).values.sum() == 30.0          # at 0 nothing fails
        assert not workplace._open
    with pytest.raises(pb.OracleError, match="no way"):         # new failures are
        remote.planes(np.ones(3))


def use(remote):
    w = np.zeros(remote.dim)
    return [lambda: remote.planes(w), lambda: remote.values(w),
            lambda: remote.derive(precision="float64").evaluate(w), lambda: pb.minimize(remote, lam=1.0)]


def test_a_closed_placement_says_so():
    remote = InTurn(2).place(blobs())
    remote.close()
    for ask in use(remote):
        with pytest.raises(pb.BundleError, match=r"given back by close\(\).*place the risk again"):
            ask()
    remote.close()


def test_warm_starts_remember_the_rounding_of_planes():
    risk = blobs()
    single = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca", executor=InTurn(2, single=True))
    assert (single.state.errors[0] > 100.0 * risk.slope_errors).all()
    again = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca", warm_start=single)
    assert (again.state.errors[0] >= single.state.errors[0]).all()


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("method", ["oca", "bmrm", "prox-bmrm", "frank-wolfe", "lbfgs"])
@pytest.mark.parametrize("coarse", ["before", "after"])
def test_a_run_under_another_executor_remembers_the_coarser_rounding(method, coarse, tmp_path):
    risk = blobs(K=2, kind=pb.risks.Logistic) if method == "lbfgs" else blobs()
    options = {"lam": 1.0, "tol": 1e-4, "method": method, "n_parts": risk.n_parts, "checkpoint": tmp_path / "run.npz"}
    single, exact = InTurn(2, single=True), InTurn(2)
    first, second = (single, exact) if coarse == "before" else (exact, single)
    begun = pb.minimize(risk, **options, max_iter=4, executor=first)
    result = pb.minimize(risk, **options, max_iter=12, executor=second)
    assert result.nit > begun.nit and result.lower_bound > begun.lower_bound
    rounding = single.place(risk).slope_errors.sum()
    assert rounding > 100.0 * risk.slope_errors.sum()
    if (method, coarse) != ("lbfgs", "before"):         # which proves with the newest plane alone
        assert result.state.bound.plane.slope_error >= rounding
    assert result.lower_bound <= pb.minimize(risk, lam=1.0, tol=1e-8).fun


def test_rounding_on_the_way_is_added_to_that_of_smooth_losses():
    X = np.linspace(1.0, 2.0, 300)[:, None]
    risk, w = pb.risks.Huber(X, 1e6 * X[:, 0], delta=1.0), np.zeros(1)
    remote = InTurn(1, single=True).place(risk)
    on_the_way = remote.slope_errors[0] - risk.slope_errors[0]
    far, near = (one.planes(w).slope_errors[0] for one in (remote, risk))
    assert far >= on_the_way + near > on_the_way > 0.0


def test_a_lost_workplace_leaves_a_certified_result_and_a_checkpoint(tmp_path):
    """The certificate is computed from the data here; a pass of the workers is not to be had any more."""
    class Leaving(Here):
        def answers(self, timeout=None):
            if self._open[0][2].round > 8:
                raise pb.BundleError("the workers are gone")
            return super().answers(timeout)

    class Executor(InTurn):
        def place(self, risk):
            return RemoteRisk(Leaving(risk, 2), Description.of(risk))

    for risk in (blobs(), chains(), blobs(K=2, kind=pb.risks.Logistic)):
        file = tmp_path / f"{type(risk).__name__}.npz"
        options = {"lam": 1.0, "tol": 1e-5, "n_parts": risk.n_parts, "checkpoint": file}
        with pytest.raises(pb.BundleError, match="workers are gone") as caught:
            pb.minimize(risk, **options, executor=Executor(2))
        known, best = caught.value.result, pb.minimize(risk, lam=1.0, tol=1e-8)
        assert known.certified and known.status is pb.Status.FAILED and known.nit > 2
        assert 0.0 < known.lower_bound <= best.fun and best.lower_bound <= known.fun
        assert len(known.rounds["started"]) > 8
        result = pb.minimize(risk, **options)
        assert result.success and result.nit >= known.nit and result.lower_bound >= known.lower_bound


# ---------------------------------------------------------------------- workers that stop answering
class Unasked(pb.risks.Logistic):
    """Values are never asked for again."""

    def values(self, w):
        raise AssertionError("it was asked")


FROZEN = {"multiclass": blobs, "plain Python": signs, "values known": lambda: blobs(K=2, kind=Unasked),
          "logistic": lambda: blobs(K=2, kind=pb.risks.Logistic)}


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("last", [0, 1, 6])
@pytest.mark.parametrize("name", FROZEN)
def test_a_worker_that_does_not_answer_holds_no_time_limit(name, last, clock):
    risk, began = FROZEN[name](), clock.now
    result = pb.minimize(risk, lam=0.1, tol=1e-12, n_parts=risk.n_parts, time_limit=8.0,
                         executor=FrozenInTurn(2, clock=clock, last=last))
    assert result.status is pb.Status.TIME_LIMIT and result.certified and clock.now - began <= 12.0
    best = pb.minimize(FROZEN[name.replace("values known", "logistic")](), lam=0.1, tol=1e-8)
    assert result.lower_bound <= best.fun and best.lower_bound <= result.fun


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
def test_a_limit_of_time_among_the_callbacks_holds_too(clock):
    limit = pb.callbacks.TimeLimit(8.0)
    some = pb.path(blobs(), [1.0, 0.1], tol=1e-9, method="oca", callback=limit,
                   executor=FrozenInTurn(2, clock=clock))
    assert len(some) == 1 and some[0].status is pb.Status.TIME_LIMIT and some[0].certified


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
def test_without_the_data_the_values_at_the_best_point_are_what_is_left(clock):
    remote = FrozenInTurn(2, clock=clock).place(blobs())
    remote.home = None
    result = pb.minimize(remote, lam=0.1, tol=1e-12, method="oca", time_limit=8.0)
    assert result.status is pb.Status.TIME_LIMIT and result.nit > 1 and not result.certified
    remote = FrozenInTurn(2, clock=clock, last=0).place(blobs())
    remote.home = None
    with pytest.raises(pb.BundleError, match="did not answer at the first point within the time limit"):
        pb.minimize(remote, lam=0.1, method="oca", time_limit=8.0)


@pytest.fixture
def python_takes_interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)       # a job in the background ignores it
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def ctrl_c():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("last", [0, 6])
@pytest.mark.parametrize("name", FROZEN)
def test_one_ctrl_c_ends_a_run_whose_worker_does_not_answer(name, last, written, clock, tmp_path,
                                                            python_takes_interrupts):
    """Also in the first round, which then is made here: the interrupt took all."""
    risk, file = FROZEN[name](), tmp_path / "run.npz" if written else None
    result = pb.minimize(risk, lam=0.1, tol=1e-12, n_parts=risk.n_parts, checkpoint=file,
                         executor=FrozenInTurn(2, clock=clock, act=ctrl_c, last=last))
    assert result.status is pb.Status.INTERRUPTED and result.certified and result.nit >= (last > 0)
    if written:
        again = pb.minimize(risk, lam=0.1, tol=1e-12, n_parts=risk.n_parts, checkpoint=file, max_iter=result.nit + 3)
        assert again.nit == result.nit + 3 or again.success
        assert again.lower_bound >= result.lower_bound


def test_ctrl_c_while_workers_are_given_back_keeps_the_result(python_takes_interrupts):
    class Leaving(Here):
        def release(self):
            ctrl_c()

    class Executor(InTurn):
        def place(self, risk):
            return RemoteRisk(Leaving(risk, 2), Description.of(risk))

    result = pb.minimize(blobs(), lam=1.0, method="oca", executor=Executor(2))
    assert result.success and result.status is pb.Status.INTERRUPTED
    assert len(pb.path(blobs(), [2.0, 1.0], method="oca", executor=Executor(2))) == 1


def test_entries_of_sparse_planes_that_stand_for_a_sum_are_summed():
    slopes = csr_array((np.array([1.0, 2.0, 3.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 3))
    planes = Planes(np.zeros(2), np.zeros(2), slopes)
    assert _assembled([planes, planes], 3).slopes.tolist() == 2 * [[0.0, 3.0, 0.0], [3.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", ["Absolute", "Pinball", "Logistic", "SquaredHinge"])
def test_descriptions_of_workers_know_what_a_constant_reaches(name):
    """Without it runs on Dask believed a gap at the size of R(0), however far from 0 the targets lie."""
    rng = np.random.default_rng(0)
    y = 1e6 + rng.standard_normal(60) if name in ("Absolute", "Pinball") else np.where(rng.random(60) < 0.1, 1, -1)
    risk = getattr(pb.risks, name)(rng.standard_normal((60, 2)), y, n_parts=4, fit_intercept=True)
    groups = [[0, 1], [2, 3]]
    found = _joined([Description.of(excerpt(risk, parts)()) for parts in groups], groups).constant
    least = min(risk.evaluate(np.array([0.0, 0.0, b]))[0].sum()
                for b in np.linspace(*((y.min(), y.max()) if risk.is_regression else (-5.0, 5.0)), 2001))
    assert 0.5 * least < found[1] <= least * (1.0 + 1e-12)
    assert risk.evaluate(np.array([0.0, 0.0, found[0]]))[0].sum() < 2.0 * least


@pytest.mark.parametrize("make", [blobs, chains])
def test_multipliers_of_examples_are_no_start_for_workers(make):
    """They know no examples: a warm start from blocks ended in an AttributeError."""
    risk = make()
    first = pb.minimize(risk, lam=1.0, method="prox-bcfw", tol=0.1)
    result = pb.minimize(risk, lam=1.0, method="oca", tol=1e-3, warm_start=first, executor=InTurn(2))
    assert result.success and result.fun <= first.fun
