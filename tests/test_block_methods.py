"""Block methods on cached planes: certificates, agreement with the bundle method, averages, warm starts, refusals."""

import contextlib
import pickle
import threading
import warnings
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from signs import signed

import pybundle as pb
from pybundle.core.plane import Plane
from pybundle.prox.of_norm import Square
from pybundle.solvers.block.block_method import BlockMethod
from pybundle.solvers.block.cached_blocks import CachedBlocks, best_average
from pybundle.solvers.block.mean_plane import MeanPlane
from pybundle.solvers.block.schedules import MultiPlane
from pybundle.solvers.bundle.part_planes import part_planes
from pybundle.solvers.problem.problem import Problem
from pybundle.solvers.search import Search

METHODS = ["prox-bcfw", "bcfw", "mp-bcfw", "frank-wolfe"]


def chains(n=25, seed=0, **options):
    X, Y = _sentences(n, seed)
    return pb.risks.Structured(pb.models.Chain(4, 5), X, Y, **options)


def _sentences(n, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, n)
    centres = rng.normal(size=(4, 5))
    Y = [rng.integers(0, 4, size).astype(np.int32) for size in sizes]
    return [centres[y] + rng.normal(size=(len(y), 5)) for y in Y], Y


def best(risk, lam, **options):
    return pb.minimize(risk, lam=lam, method="oca", tol=1e-7, **options)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("lam", [20.0, 1.0])
def test_bounds_hold_and_values_agree_with_the_bundle_method(method, lam):
    risk = chains()
    reference = best(risk, lam)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        result = pb.minimize(risk, lam=lam, method=method, tol=1e-3, max_iter=300)
    history = result.history
    assert result.certified
    assert result.lower_bound <= reference.fun * (1 + 1e-9) and result.fun >= reference.lower_bound * (1 - 1e-9)
    values = history["best_primal"][np.isfinite(history["best_primal"])]
    assert (np.diff(history["lower_bound"]) >= 0.0).all() and (np.diff(values) <= 0.0).all() and len(values) > 0
    assert (history["lower_bound"] <= reference.fun * (1 + 1e-9)).all()
    assert (np.diff(history["n_passes"]) >= 0.0).all()
    if method in ("prox-bcfw", "mp-bcfw"):
        assert result.success and result.gap <= 1e-3


@pytest.mark.parametrize("method", ["auto", "oca", "alm", *METHODS])
def test_an_optimum_of_zero_is_proven(method):
    """The bound was -2e-23, by rounding, and no run ever converged to it."""
    X, _ = _sentences(20, 0)
    risk = pb.risks.Structured(pb.models.Chain(1, 5), X, [np.zeros(len(x), dtype=np.int32) for x in X])
    result = pb.minimize(risk, lam=1.0, method=method, tol=1e-9, max_iter=20)
    assert result.success and result.fun == result.lower_bound == result.gap == 0.0


def test_high_accuracy_and_few_passes():
    risk = chains(60)
    result = pb.minimize(risk, lam=1.0, tol=1e-8, method="prox-bcfw")
    assert result.success and result.fun == pytest.approx(best(risk, 1.0).fun, rel=2e-7)
    fast = pb.minimize(risk, lam=1.0, tol=1e-2, method="prox-bcfw")
    assert fast.n_passes < pb.minimize(risk, lam=1.0, tol=1e-2, method="oca").n_passes
    assert fast.n_passes < pb.minimize(risk, lam=1.0, tol=1e-2, method="bcfw", max_iter=2000).n_passes


@pytest.mark.parametrize("step", ["frank-wolfe", "pairwise", "exact"])
@pytest.mark.parametrize("gap_sampling", [False, True])
@pytest.mark.parametrize("method", ["bcfw", "mp-bcfw"])
def test_steps_and_sampling(method, gap_sampling, step):
    risk = chains()
    method = pb.methods.parse(method, step=step, gap_sampling=gap_sampling)
    result = pb.minimize(risk, lam=5.0, method=method, tol=1e-3, max_iter=3000)
    assert result.success and result.fun <= best(risk, 5.0).fun * 1.0011


@pytest.mark.parametrize("method", ["bcfw", "mp-bcfw"])
def test_averages_certify_too(method):
    risk = chains()
    result = pb.minimize(risk, lam=5.0, method=pb.methods.parse(method, average=True), tol=1e-2, max_iter=3000)
    assert result.success and result.fun <= best(risk, 5.0).fun * 1.011


@pytest.mark.parametrize("method", ["bcfw", "mp-bcfw", "mp-bcfw visit=all"])
@pytest.mark.parametrize("lam", [5.0, 0.2])
def test_averages_under_signs_keep_the_bound_below_every_value(lam, method):
    """The bound is that of the multipliers; the average is a point whose value is computed. They were refused."""
    risk = chains()
    nonneg = np.random.default_rng(0).random(risk.dim) < 0.6
    penalty = signed(lam, nonneg)
    reference = pb.minimize(risk, penalty=penalty, method="oca", tol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        result = pb.minimize(risk, penalty=penalty, method=f"{method} average=True", tol=1e-2, max_iter=600)
    history = result.history
    assert result.certified and (result.success or lam < 1.0)
    assert (result.x[nonneg] >= 0.0).all() and (result.x[nonneg] > 0.0).any()
    assert (np.diff(history["lower_bound"]) >= 0.0).all()
    assert (history["lower_bound"] <= reference.fun * (1.0 + 1e-12)).all()
    values = history["primal"][np.isfinite(history["primal"])]
    assert (values >= reference.lower_bound * (1.0 - 1e-12)).all()
    value = 0.5 * lam * result.x @ result.x + risk.evaluate(result.x)[0].sum()
    assert value == pytest.approx(result.fun, rel=1e-12)


@pytest.mark.parametrize("signs", [False, True])
def test_the_best_of_two_averages_is_the_best_of_all_their_combinations(signs):
    risk, lam, rng = chains(), 0.3, np.random.default_rng(1)
    problem = Problem(Square(lam).signed(np.arange(risk.dim) % 2 == 0) if signs else Square(lam))
    core = CachedBlocks(risk, problem, batch=1, step="frank-wolfe", visit="all", average=True)
    core.place(lam, 0.0, None)
    for _ in range(4):
        core.oracle_pass(rng.permutation(25))
        core.cached_pass(rng, 0.0)
    (x0, b0), (x1, b1) = core.blocks.average(0), core.blocks.average(1)
    grid = np.linspace(0.0, 1.0, 2001)
    points = [problem.project((1.0 - t) * x0 + t * x1) for t in grid]
    duals = [(1.0 - t) * b0 + t * b1 - 0.5 * lam * w @ w for t, w in zip(grid, points, strict=True)]
    w = best_average(core.blocks, lam, problem.project)
    np.testing.assert_allclose(w, points[int(np.argmax(duals))], atol=2e-3 * np.abs(x1 - x0).max())
    assert problem.contains(w)


@pytest.mark.parametrize(("lam", "options"), [(5.0, ""), (0.5, "average=True"), (0.5, "max_planes=2"),
                                              (0.5, "max_idle=1"), (2.0, "cost=clock")])
def test_the_published_working_sets_certify_too(lam, options):
    risk = chains()
    fun = best(risk, lam).fun
    result = pb.minimize(risk, lam=lam, method=f"mp-bcfw visit=all {options}", tol=3e-3, max_iter=3000)
    assert result.success and result.lower_bound <= fun * (1.0 + 1e-9) and fun * (1.0 - 1e-9) <= result.fun
    # blocks go on under the rules of another run, and come from one
    for there, here in (("mp-bcfw", "mp-bcfw visit=all"), ("mp-bcfw visit=all", "mp-bcfw")):
        first = pb.minimize(risk, lam=2.0 * lam, method=there, tol=3e-2)
        second = pb.minimize(risk, lam=lam, method=here, tol=3e-3, max_iter=3000, warm_start=first)
        assert second.success and second.lower_bound <= fun * (1.0 + 1e-9) and fun * (1.0 - 1e-9) <= second.fun


def test_a_run_by_the_clock_takes_no_checkpoint(tmp_path):
    for cost in ("clock", 20.0):
        with pytest.raises(pb.ParameterError, match="cost must be a number in runs with a checkpoint") if (
                cost == "clock") else contextlib.nullcontext():
            pb.minimize(chains(), lam=5.0, method=f"mp-bcfw cost={cost}", tol=1e-2,
                        checkpoint=tmp_path / "run.npz")
    assert (tmp_path / "run.npz").exists()


def flat(kind, weight):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 6)), rng.integers(0, 3, 40)
    weights = np.full(40, weight)
    if kind == "classes":
        return pb.risks.MulticlassHinge(X, y, sample_weight=weights)
    if kind == "costs":
        return pb.risks.MulticlassHinge(X, y, sample_weight=weights, loss=8.0 * (1.0 - np.eye(3)))
    return pb.risks.BinaryHinge(X, np.where(y == 1, 1, -1), sample_weight=weights)


UNITS = {**{kind: lambda weight, kind=kind: flat(kind, weight) for kind in ("classes", "costs", "one score")},
          "chains": lambda weight: chains(sample_weight=np.full(25, weight)),
         "log-loss of chains": lambda weight: chains(sample_weight=np.full(25, weight), loss="logistic")}


@pytest.mark.parametrize("kind", list(UNITS))
def test_the_unit_of_the_objective_changes_nothing(kind):
    """The weight of the centre grew faster than F: with weights of 1024 chains took 301 passes instead of 36."""
    once, more = (pb.minimize(UNITS[kind](c), lam=0.3 * c, tol=1e-4, method="prox-bcfw") for c in (1.0, 1024.0))
    assert once.success
    assert (more.n_passes, more.fun, more.lower_bound) == (once.n_passes, 1024.0 * once.fun, 1024.0 * once.lower_bound)
    np.testing.assert_array_equal(more.x, once.x)


@pytest.mark.parametrize("kind", ("absolute", "quantile", "tube"))
def test_the_unit_of_targets_changes_nothing(kind):
    """Wide data with |y| of 1000 took 994 passes in place of 54."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 200))
    y = X[:, :10].sum(axis=1) + rng.normal(size=60)
    make = {"absolute": lambda s: pb.risks.Absolute(X, s * y), "quantile": lambda s: pb.risks.Pinball(X, s * y, 0.9),
            "tube": lambda s: pb.risks.EpsilonInsensitive(X, s * y, 0.25 * s)}[kind]
    runs = [pb.minimize(make(s), lam=0.1 / s, tol=1e-3, method="prox-bcfw") for s in (1.0, 1024.0, 1.0 / 1024.0)]
    assert runs[0].success
    for run, s in zip(runs, (1.0, 1024.0, 1.0 / 1024.0), strict=True):
        assert (run.n_passes, run.fun, run.lower_bound) == (runs[0].n_passes, s * runs[0].fun, s * runs[0].lower_bound)
        np.testing.assert_array_equal(run.x, s * runs[0].x)


@pytest.mark.parametrize("batch", [1, 3, 25])
def test_size_of_batches_moves_the_way_not_the_end(batch):
    risk = chains()
    result = pb.minimize(risk, lam=2.0, tol=1e-6, method=pb.methods.parse("prox-bcfw", batch=batch))
    assert result.success and result.fun == pytest.approx(best(risk, 2.0).fun, rel=2e-6)


@pytest.mark.parametrize("method", ["prox-bcfw", "bcfw", "mp-bcfw"])
def test_bits_repeat_for_any_number_of_threads(method):
    runs = [pb.minimize(chains(), lam=2.0, method=method, tol=1e-3, n_jobs=jobs, random_state=4, max_iter=400)
            for jobs in (1, 2, 1)]
    assert len({run.x.tobytes() for run in runs}) == 1
    assert len({run.lower_bound for run in runs}) == 1
    assert len({run.n_passes for run in runs}) == 1


@pytest.mark.parametrize("method, options", [
    ("prox-bcfw", {}), ("prox-bcfw n_best=3", {}), ("prox-bcfw", {"memory_limit": 20_000}),
    ("bcfw gap_sampling=True", {}), ("mp-bcfw gap_sampling=True", {})])
def test_batches_in_shards_give_the_same_bits(method, options, monkeypatch):
    def run(jobs):
        options.setdefault("max_iter", 60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pb.ConvergenceWarning)
            result = pb.minimize(chains(), lam=2.0, method=pb.methods.parse(method, batch=10), tol=1e-3, n_jobs=jobs,
                                 **options)
        assert "memory_limit" not in options or result.state.blocks.n_merged > 0
        return result.x.tobytes(), result.lower_bound, result.n_passes, result.fun

    monkeypatch.setattr("pybundle.models.BatchOracle.compiled", lambda self, batch: None)    # all in Python
    whole = run(1)
    for name, value in (("oracle_pass.EXAMPLES", 4), ("oracle_pass.WAVE", 3),          # threads everywhere
                        ("oracle_pass.SHARD", 1), ("oracle_pass.MOST_SHARDS", 4)):
        monkeypatch.setattr(f"pybundle.solvers.block.{name}", value)
    runs = {run(jobs) for jobs in (1, 2, 3)}
    assert len(runs) == 1
    # values are summed shard by shard, all else is the same
    assert runs.pop()[:3] == whole[:3]


class Interrupting:
    """An executor whose `map` is left by a KeyboardInterrupt at call number `at`, while threads go on with its work."""

    def __init__(self, at):
        self.at, self.calls, self.threads = at, 0, []

    def map(self, function, items):
        self.calls += 1
        if self.calls < self.at:
            return list(map(function, items))
        for item in items:
            self.threads.append(threading.Thread(target=function, args=(item,)))
            self.threads[-1].start()
        raise KeyboardInterrupt

    def close(self):
        for thread in self.threads:
            thread.join()


@pytest.mark.parametrize("at", [1, 2, 5, 9])
def test_an_interrupt_while_examples_are_decoded_leaves_the_point_of_the_multipliers(at, monkeypatch):
    """Threads that come late have nothing to write to."""
    monkeypatch.setattr("pybundle.models.BatchOracle.compiled", lambda self, batch: None)    # all in Python
    monkeypatch.setattr("pybundle.solvers.block.oracle_pass.SHARD", 1)
    executor = Interrupting(at)
    core = CachedBlocks(chains().derive(executor=executor), Problem(Square(1.0)), batch=6)
    core.place(1.0, 0.0, None)
    with pytest.raises(KeyboardInterrupt):
        for _ in range(3):
            core.oracle_pass(np.arange(25))
            core.evaluate(SimpleNamespace(w=core.w.copy(), observe=lambda w, value, inference: value), core.w.copy())
    before, point = [part.copy() for part in core.blocks.arrays()[:3]], core.w.copy()
    executor.close()
    for mine, others in zip(core.blocks.arrays()[:3], before, strict=True):
        np.testing.assert_array_equal(mine, others)
    np.testing.assert_array_equal(core.w, point)
    np.testing.assert_allclose(point, -core.blocks.copy().aggregate().slope, atol=1e-12)


def test_weights_of_examples_and_models_in_plain_python():
    X, Y = _sentences(15, 3)
    weights = np.random.default_rng(1).random(15) * (np.arange(15) % 4 > 0)
    risk = pb.risks.Structured(pb.models.Chain(4, 5), X, Y, sample_weight=weights)
    result = pb.minimize(risk, lam=1.0, tol=1e-6, method="prox-bcfw")
    assert result.success and result.fun == pytest.approx(best(risk, 1.0).fun, rel=2e-6)

    class Plain(pb.models.StructuredModel):
        dim, chain = risk.dim, pb.models.Chain(4, 5)

        def joint_feature(self, x, y):
            return self.chain.joint_feature(x, y)

        def loss(self, y, y_hat):
            return self.chain.loss(y, y_hat)

        def decode(self, w, x):
            return self.chain.decode(w, x)

        def loss_augmented_decode(self, w, x, y):
            return self.chain.loss_augmented_decode(w, x, y)

    plain = pb.risks.Structured(Plain(), X, Y, sample_weight=weights)
    again = pb.minimize(plain, lam=1.0, tol=1e-6, method="prox-bcfw")
    assert again.success and again.fun == pytest.approx(result.fun, rel=2e-6)


def test_flat_risks_have_cached_blocks_too():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 6)), rng.integers(0, 3, 40)
    risk = pb.risks.MulticlassHinge(X, y)
    for method in ("bcfw", "mp-bcfw"):
        result = pb.minimize(risk, lam=3.0, method=method, tol=1e-3, max_iter=4000)
        assert result.success and result.fun <= best(risk, 3.0).fun * 1.0011
    mask = rng.random(risk.dim) < 0.5
    result = pb.minimize(risk, penalty=signed(3.0, mask), method="prox-bcfw", tol=1e-5)
    assert result.success and (result.x[mask] >= 0.0).all()
    other = pb.minimize(risk, penalty=signed(3.0, mask), method="oca", tol=1e-9)
    assert result.fun == pytest.approx(other.fun, rel=2e-5)


def test_warm_starts_keep_blocks_whatever_their_lam():
    risk = chains(40)
    first = pb.minimize(risk, lam=5.0, method="prox-bcfw", tol=1e-4)
    kept = first.state.blocks.aggregate().slope.tobytes()
    same = pb.minimize(risk, lam=5.0, method="prox-bcfw", tol=1e-3, warm_start=first)
    assert same.success and same.n_passes <= 1.0
    cold = pb.minimize(risk, lam=2.0, method="prox-bcfw", tol=1e-4)
    warm = pb.minimize(risk, lam=2.0, method="prox-bcfw", tol=1e-4, warm_start=first)
    assert warm.success and warm.n_passes < cold.n_passes
    assert first.state.blocks.aggregate().slope.tobytes() == kept
    travelled = pickle.loads(pickle.dumps(first))
    again = pb.minimize(risk, lam=2.0, method="prox-bcfw", tol=1e-4, warm_start=travelled)
    assert again.success and again.fun == pytest.approx(warm.fun, rel=2e-4)
    results = pb.path(risk, [5.0, 2.0, 1.0], tol=1e-4)
    assert all(result.success for result in results)
    bundle = pb.minimize(risk, lam=2.0, method="oca", tol=1e-3, warm_start=first)
    assert bundle.success


def test_every_method_goes_on_from_every_other():
    X, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3
    risk = pb.risks.MulticlassHinge(X, y)
    fun = best(risk, 1.0).fun
    for first in ("prox-bcfw", "mp-bcfw", "alm", "oca"):
        start = pb.minimize(risk, lam=2.0, method=first, tol=1e-3)
        for second in ("prox-bcfw", "mp-bcfw", "alm", "oca", "frank-wolfe"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pb.ConvergenceWarning)
                result = pb.minimize(risk, lam=1.0, method=second, tol=1e-3, warm_start=start, max_iter=300)
            assert result.certified and result.lower_bound <= fun * (1.0 + 1e-9)
            assert result.fun >= fun * (1.0 - 1e-9) and (result.success or second == "frank-wolfe")


@pytest.mark.parametrize("n_parts", [1, 3])
@pytest.mark.parametrize("kind", ["structured", "multiclass", "binary", "weighted", "regression"])
def test_a_bundle_method_starts_with_the_bound_of_the_blocks(kind, n_parts):
    """Planes of parts made from the multipliers prove exactly what these did."""
    risk = chains(n_parts=n_parts) if kind == "structured" else _flat(kind, n_parts)
    for method, tol in (("oca", 1e-4), ("bmrm", 0.1), ("prox-bmrm", 0.1)):
        blocks, first = pb.minimize(risk, lam=2.0, method="prox-bcfw", tol=tol, random_state=n_parts), []
        pb.minimize(risk, lam=2.0, method=method, tol=1e-9, warm_start=blocks,
                    callback=lambda progress, first=first: first.append(progress.lower_bound) or True)
        assert blocks.lower_bound * (1.0 - 1e-9) <= first[0] <= blocks.fun
    blocks.state.bound = None                   # the planes alone prove nearly as much
    planes = pb.minimize(risk, lam=2.0, method="oca", tol=1e-9, warm_start=blocks)
    assert planes.history["lower_bound"][0] >= blocks.lower_bound - 0.1 * (blocks.fun - blocks.lower_bound) - 1e-9
    end = pb.minimize(risk, lam=0.7, method="oca", tol=1e-6, warm_start=blocks)
    cold = pb.minimize(risk, lam=0.7, method="oca", tol=1e-6)
    assert end.success and end.lower_bound <= cold.fun * (1 + 1e-9) and cold.lower_bound <= end.fun * (1 + 1e-9)
    known = part_planes(risk, blocks.state.blocks)
    for w in np.random.default_rng(0).normal(size=(20, risk.dim)):
        assert (known.offsets + known.dot(w) <= risk.evaluate(w)[0] + 1e-9).all()


def _flat(kind, n_parts):
    rng = np.random.default_rng(3)
    y = np.arange(80) % 4
    X = rng.normal(size=(80, 6)) + rng.normal(size=(4, 6))[y]
    if kind == "binary":
        return pb.risks.BinaryHinge(X, np.where(y < 2, -1, 1), n_parts=n_parts)
    if kind == "regression":
        return pb.risks.Pinball(X, X @ rng.normal(size=6) + rng.normal(size=80), 0.3, n_parts=n_parts)
    options = {} if kind == "multiclass" else {
        "sample_weight": rng.random(80), "loss": np.arange(16.0).reshape(4, 4) * (1 - np.eye(4)), "bias": 1.0}
    return pb.risks.MulticlassHinge(X, y, n_parts=n_parts, **options)


def test_auto_passes_a_small_tolerance_on():
    X, y = np.random.default_rng(0).normal(size=(200, 6)), np.arange(200) % 3
    risk = pb.risks.MulticlassHinge(X, y)
    result = pb.minimize(risk, lam=0.5, tol=1e-9)
    assert result.success
    assert (np.diff(result.history["lower_bound"]) >= 0.0).all() and (np.diff(result.history["n_passes"]) >= 0.0).all()
    assert result.fun == pytest.approx(best(risk, 0.5).fun, rel=1e-8)


def test_a_stalled_run_is_taken_over(monkeypatch):
    from pybundle.solvers.block import block_method

    risk = chains()
    step, calls = block_method.BlockMethod.step, []

    def stalls(self):
        calls.append(1)
        return step(self) if len(calls) < 8 else pb.Status.STALLED
    monkeypatch.setattr(block_method.BlockMethod, "step", stalls)
    result = pb.minimize(risk, lam=1.0, tol=1e-6)
    assert result.success and "then 'alm'" in result.message


def test_once_f_has_risen_it_is_evaluated_half_way_to_the_best_point(monkeypatch):
    evaluate, has_risen = BlockMethod._evaluate, []

    def spied(run, w):
        search, is_first = run.search, not np.isfinite(run.search.fun)
        wanted = 0.5 * (search.w + run.core.w) if any(has_risen) else run.core.w
        assert np.allclose(w, wanted, rtol=1e-14, atol=1e-14)
        known, value = search.fun, evaluate(run, w)
        has_risen.append(not is_first and value > known)
        return value

    monkeypatch.setattr(BlockMethod, "_evaluate", spied)
    assert pb.minimize(chains(), lam=0.1, method="prox-bcfw", tol=1e-5).success
    assert any(has_risen) and not has_risen[-1]


def test_a_start_is_used_and_an_end_without_value_is_certified():
    risk = chains()
    x = best(risk, 2.0).x
    result = pb.minimize(risk, x, lam=2.0, method="prox-bcfw", tol=1e-4)
    assert result.success
    assert result.history["best_primal"][0] <= best(risk, 2.0).fun * (1.0 + 1e-12)
    with pytest.warns(pb.ConvergenceWarning):
        early = pb.minimize(risk, lam=2.0, method="prox-bcfw", tol=1e-9, max_iter=2)
    assert early.certified and np.isfinite(early.fun) and early.lower_bound <= early.fun
    stopped = pb.minimize(risk, lam=2.0, method="bcfw", tol=1e-9, callback=lambda progress: progress.n_iter >= 3)
    assert stopped.status == pb.Status.CALLBACK and stopped.certified


def test_passes_over_known_planes_stop_where_they_no_longer_pay():
    class Core:
        visits, cached_visits, gain, blocks = 0.0, 0.0, 1.0, SimpleNamespace(offset=0.0)

        def cached_pass(self, rng, target):
            self.cached_visits += 100.0
            self.blocks.offset += self.gain
            self.gain *= 0.5

        def phi(self):
            return np.zeros(1)

    run = SimpleNamespace(core=Core(), risk=SimpleNamespace(n_examples=1), trace=SimpleNamespace(n_iter=1),
                          problem=Problem(Square(1.0)))
    schedule = MultiPlane(cost=2.0)
    run.rng = np.random.default_rng(0)
    schedule.order(run)
    run.core.blocks.offset, run.core.visits = 1.0, 100.0       # the oracle: gain 1 in time 200
    schedule.cached_passes(run)
    assert 200.0 <= run.core.cached_visits <= 400.0


def test_refusals():
    risk = chains()
    with pytest.raises(pb.InputTypeError, match="average must be True or False"):
        pb.minimize(risk, lam=1.0, method="bcfw average=3")
    for wrong, words in (({"visit": "some"}, "visit must be one of 'used', 'all'"), ({"cost": "time"}, "cost must be"),
                         ({"cost": 0.0}, "cost must be"), ({"max_planes": 1}, "max_planes must be"),
                         ({"max_idle": 0}, "max_idle must be"), ({"max_cached": 0}, "max_cached must be"),
                         ({"visit": "all", "step": "exact"}, "visit='all' takes step='frank-wolfe'"),
                         ({"visit": "all", "gap_sampling": True}, "visit='all' takes .* gap_sampling=False")):
        with pytest.raises(pb.ParameterError, match=words):
            pb.minimize(risk, lam=1.0, method=pb.methods.parse("mp-bcfw", **wrong))
    with pytest.raises(pb.InputTypeError, match="gap_sampling must be True or False"):
        pb.minimize(risk, lam=1.0, method="bcfw gap_sampling=yes")
    with pytest.raises(pb.ParameterError, match="memory_limit must be None for method 'alm' on planes"):
        pb.minimize(risk, lam=1.0, method="alm", memory_limit=10**9)
    with pytest.raises(pb.ParameterError, match="single examples have labellings"):
        pb.minimize(lambda w: (float(w @ w), 2.0 * w), [1.0], lam=1.0, method="bcfw")
    with pytest.raises(pb.ParameterError, match="starts from the bound R >= 0"):
        pb.minimize(lambda w: (float(w @ w), 2.0 * w), [1.0], lam=1.0, method="frank-wolfe")
    for method in METHODS:
        with pytest.raises(pb.ParameterError, match="Ball belongs to methods 'cutting-plane'"):
            pb.minimize(risk, penalty=pb.prox.Ball(1.0), method=method)


def test_auto_says_what_it_chose():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    chosen = {
        "'prox-bcfw': the labels": (pb.risks.MulticlassHinge(X, y), {}),
        "'prox-bcfw': examples can be decoded": (chains(), {}),
        "'newton': the risk is smooth, and steps": (pb.risks.Logistic(X, 2 * y - 1), {}),
        "'lbfgs': the risk is smooth": (pb.risks.Huber(X, y), {"memory_limit": 10**8}),
        "'oca': planes of parts can be kept": (chains(), {"memory_limit": 10**8}),
        "'oca': the risk has planes": (pb.risks.Function(lambda w: (float(abs(w).sum()), np.sign(w)), 3), {}),
    }
    for words, (risk, options) in chosen.items():
        result = pb.minimize(risk, lam=1.0, tol=1e-2, **options)
        assert result.success and f"auto chose {words}" in result.message
    assert "auto" not in pb.minimize(chains(), lam=1.0, method="prox-bcfw").message


class Shifted:
    """R(w) = max(w, -10): an example whose loss can be negative, which only lower_bounds tells."""

    dim = n_parts = n_examples = 1
    lower_bounds = np.array([-10.0])

    def evaluate(self, w):
        return np.array([max(w[0], -10.0)]), np.array([[float(w[0] > -10.0)]])

    def oracle(self):
        return self


def test_losses_that_can_be_negative_are_left_to_the_bundle_method():
    result = pb.minimize(Shifted(), lam=1.0, tol=1e-6)
    assert result.success and result.fun == pytest.approx(-0.5) and "'oca'" in result.message
    for method in ("prox-bcfw", "bcfw", "mp-bcfw"):
        with pytest.raises(pb.ParameterError, match="starts from the bound R >= 0"):
            pb.minimize(Shifted(), lam=1.0, method=method)


@pytest.mark.parametrize("seed", [5, 77, 125, 251, 320])
def test_scores_belong_to_the_point_that_is_returned(seed):
    """Where F was flat, scores went on without the point: R and regulariser of two points made F."""
    rng = np.random.default_rng(seed)
    n, d, K = int(rng.integers(2, 80)), int(rng.integers(1, 8)), int(rng.integers(2, 5))
    X, y = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3), rng.integers(0, K, n)
    risk, lam = pb.risks.MulticlassHinge(X, y, n_classes=K), float(10.0 ** rng.uniform(-4, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        result = pb.minimize(risk, lam=lam, method="prox-bcfw", tol=1e-15, max_iter=500)
    fun = 0.5 * lam * result.x @ result.x + risk.values(result.x)[0].sum()
    assert result.certified and result.fun == pytest.approx(fun, rel=1e-12)


def test_interrupts_keep_the_best_state(monkeypatch):
    from pybundle.solvers.newton import label_multipliers

    rng = np.random.default_rng(0)
    risk = pb.risks.MulticlassHinge(rng.normal(size=(60, 6)), np.arange(60) % 3)
    observe, calls = Search.observe, []

    def interrupted(self, *arguments):
        calls.append(observe(self, *arguments))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return calls[-1]
    with monkeypatch.context() as patch:
        patch.setattr(Search, "observe", interrupted)
        result = pb.minimize(risk, lam=0.1, method="prox-bcfw", tol=1e-6)
    fun = 0.05 * result.x @ result.x + risk.values(result.x)[0].sum()
    assert result.status == pb.Status.INTERRUPTED and result.certified and result.fun == pytest.approx(fun, rel=1e-12)

    def interrupt(self, *arguments):
        raise KeyboardInterrupt
    monkeypatch.setattr(label_multipliers.LabelMultipliers, "faces", interrupt)
    first = pb.minimize(risk, lam=1.0, tol=1e-2)
    result = pb.minimize(risk, lam=1.0, method="alm", tol=1e-8, warm_start=first)
    assert result.status == pb.Status.INTERRUPTED and result.certified and result.gap < 1e-2


def test_visits_before_an_interrupt_count():
    class Interrupted(pb.models.Multiclass):
        calls = 0

        def oracle(self, X, Y):
            oracle = super().oracle(X, Y)
            solve = oracle.solve_batch

            def solve_batch(rows, weights, *more):
                Interrupted.calls += 1
                if Interrupted.calls == 38:
                    raise KeyboardInterrupt
                return solve(rows, weights, *more)
            oracle.solve_batch = solve_batch
            return oracle

    X = np.random.default_rng(0).normal(size=(60, 6))
    risk = pb.risks.Structured(Interrupted(3, 6), list(X), list(np.arange(60) % 3))
    result = pb.minimize(risk, lam=1.0, method="bcfw")
    assert result.status == pb.Status.INTERRUPTED and result.n_passes == pytest.approx(37.0 / 60.0 + 1.0)


def test_before_the_first_value():
    risk, seen = chains(), []
    with pytest.warns(pb.ConvergenceWarning):
        early = pb.minimize(risk, lam=1.0, method="prox-bcfw", max_iter=2)
    assert np.isfinite(early.state.risk_value)
    pb.minimize(risk, lam=1.0, method="prox-bcfw", warm_start=early,
                callback=lambda progress: seen.append((progress.x is not None, progress.fun, progress.gap)))
    assert all(known and np.isfinite(fun) and not np.isnan(gap) for known, fun, gap in seen)
    gaps = pb.minimize(risk, lam=1.0, method="prox-bcfw").history["gap"]
    assert not np.isnan(gaps).any() and gaps[0] == np.inf
    with pytest.raises(pb.InputTypeError, match="batch must be"):
        pb.minimize(pb.risks.MulticlassHinge(np.eye(2), [0, 1]), lam=1.0, method="prox-bcfw batch=x")


def test_what_merging_planes_rounds_counts_in_the_bound():
    core = CachedBlocks(chains(), Problem(Square(1.0)), cap=3)
    core.place(1.0, 0.0, None)
    for _ in range(8):
        core.oracle_pass(np.arange(25))
    assert core.blocks.n_merged > 0 and core.blocks.merging_error > 0.0
    before = core.aggregate()
    function, (*head, storage, point) = core.blocks.__reduce__()
    core.blocks = function(*head, storage | {"merging_error": 1.0, "n_merged": 1 << 50}, point)
    worse = core.aggregate()
    assert worse.slope_error == pytest.approx(1.0 + before.slope_error)
    assert worse.offset_error > 0.1 * core.blocks.offset > before.offset_error


@pytest.mark.parametrize("known", [0.0, 1e-12])
@pytest.mark.parametrize("size", [1e-130, 1.0, 1e130])
def test_the_mean_of_planes_is_known_up_to_its_errors(size, known):
    """In exact arithmetic, for planes that are known exactly, so that only roundings remain, or up to their errors."""
    rng, mean = np.random.default_rng(5), MeanPlane()
    true, share = None, Fraction(1)
    for k in range(60):
        offset, phi = size * rng.normal(), size * rng.normal(size=4) * 10.0 ** rng.integers(-8, 8, 4)
        error, offset_error = (abs(size * rng.normal() * known) for _ in range(2))
        shift = rng.normal(size=4)
        shift *= 0.999 * error / np.linalg.norm(shift)
        exact = [Fraction(offset) + Fraction(offset_error) * (-1) ** k] + [
            Fraction(a) + Fraction(b) for a, b in zip(phi, shift, strict=True)]
        share = Fraction(5.0 / (k + 5.0))
        true = exact if true is None else [a + share * (b - a) for a, b in zip(true, exact, strict=True)]
        plane = mean.add(Plane(offset, phi, error, offset_error))
        assert abs(Fraction(plane.offset) - true[0]) <= Fraction(plane.offset_error)
        off = sum((Fraction(a) - b) ** 2 for a, b in zip(plane.slope, true[1:], strict=True))
        assert off <= Fraction(plane.slope_error) ** 2


@pytest.mark.parametrize(("dtype", "is_sparse", "turn"), [
    (np.float32, False, 0), (np.float64, True, 1), (np.uint8, False, 2)])
def test_exact_blocks_take_any_sum_over_entries(dtype, is_sparse, turn):
    """Both methods prove bounds below the values of the other one, also if weights are free."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 9, size=(40, 6)).astype(dtype)
    y = rng.integers(0, 3, 40)
    if is_sparse:
        X = sp.csr_matrix(X)
    weights, cost = rng.uniform(0.0, 2.0, 40), np.arange(9.0).reshape(3, 3) * (1.0 - np.eye(3))
    signs, values = np.where(y > 0, 1, -1), rng.normal(size=40)
    risks = (pb.risks.MulticlassHinge(X, y, sample_weight=weights), pb.risks.BinaryHinge(X, signs, bias=-2.0),
             pb.risks.MulticlassHinge(X, y, loss=cost, bias=0.5, scale=0.3), pb.risks.Pinball(X, values, 0.3),
             pb.risks.BinaryHinge(X, signs, fit_intercept=True), pb.risks.Absolute(X, values, fit_intercept=True))
    for i, risk in enumerate(risks):
        dim = risk.dim if risk.free is None else np.count_nonzero(~risk.free)
        rates = rng.uniform(5.0, 50.0, dim)
        some = np.where(np.arange(dim) % 5 == 1, 0.0, rates)
        penalties = (pb.prox.ElasticNet(9.0, 20.0), pb.prox.SquaredL2(rates, centre=rng.normal(size=dim)),
                     pb.prox.SquaredL2(20.0) + pb.prox.Box(-0.02, 0.03) + pb.prox.L1(5.0), pb.prox.L1(rates),
                     pb.prox.SquaredL2(some), pb.prox.L1(some), pb.prox.Box(-rates / 200.0, rates / 100.0))
        for penalty in penalties[(i + turn) % 3::3]:
            blocks, planes = (pb.minimize(risk, penalty=penalty, tol=1e-3, method=method, max_iter=5000)
                              for method in ("prox-bcfw", "oca"))
            assert blocks.success and planes.success
            assert max(blocks.lower_bound, planes.lower_bound) <= min(blocks.fun, planes.fun)


def test_a_penalised_run_that_got_lost_goes_back_to_its_best_point():
    """With the intercept the first steps leave w far behind the best point, where the balance misled the centre."""
    risk = pb.risks.Pinball([[0.0, 0.0, 46.0, 0.0]], [-0.85], fit_intercept=True, sample_weight=[0.5])
    penalty = pb.prox.L1(0.2255) + pb.prox.Box(1.173, 1.4678)
    assert pb.minimize(risk, penalty=penalty, tol=1e-9, method="prox-bcfw").success
    ones = pb.risks.BinaryHinge(np.zeros((2, 1)), [1, 1], n_classes=2, fit_intercept=True, sample_weight=[0.0, 0.77])
    penalty = pb.prox.SquaredL2(88.0, centre=[0.5])
    assert pb.minimize(ones, penalty=penalty, atol=1e-9, method="prox-bcfw").success


def test_a_centre_without_weight_needs_a_square():
    risk = pb.risks.BinaryHinge(np.zeros((2, 3)), [1, -1])
    result = pb.minimize(risk, penalty=pb.prox.L1(1.0), method="prox-bcfw")     # the planes are flat
    assert result.success and result.fun == 2.0
    with pytest.raises(pb.ParameterError, match="kappa must be > 0"):
        pb.minimize(risk, penalty=pb.prox.L1(1.0), method="prox-bcfw kappa=0.0")
    assert pb.minimize(risk, penalty=pb.prox.ElasticNet(1.0, 1.0), method="prox-bcfw kappa=0.0").success


@pytest.mark.parametrize("method", ["prox-bcfw", "oca"])
def test_free_weights_without_data_are_zero(method):
    """Nothing limits the free weight of a column of zeros, nor does it change F: min 10 + |5 w + 6| + w^2/2000."""
    risk = pb.risks.Absolute([[0.0, 0.0], [5.0, 0.0]], [-10.0, -6.0])
    result = pb.minimize(risk, lam=[1e-3, 0.0], method=method, max_iter=600)
    assert result.success and result.x[1] == 0.0
    assert result.lower_bound <= 10.0 + 0.5e-3 * 1.2**2 <= result.fun + 1e-12


@pytest.mark.parametrize("seed", [0, 1])
def test_sparse_counts_take_few_passes_with_and_without_long_rows(seed):
    """Rows are nearly orthogonal, so that a light centre suits first; long rows say nothing about the others."""
    rng = np.random.default_rng(seed)
    n = 2000
    X = sp.csr_array(sp.random(n, 3000, 0.01, random_state=rng))
    X.data[:] = rng.geometric(0.5, X.nnz)
    y = np.where(X @ rng.normal(size=3000) + 2.0 * rng.normal(size=n) > 0.0, 1, -1)

    def passes(X, tol):
        result = pb.minimize(pb.risks.BinaryHinge(X, y), lam=1.0, tol=tol)
        assert result.success
        return result.n_passes

    coarse, lengths = passes(X, 1e-2), np.ones(n)
    lengths[rng.choice(n, 20, replace=False)] = 100.0
    assert passes(X, 1e-3) <= 2.0 * coarse
    assert passes(sp.csr_array(sp.diags_array(lengths) @ X), 1e-2) <= 2.5 * coarse
