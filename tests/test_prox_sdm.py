"""Method "prox-bcfw" with exact blocks: the steps are those of a plain twin, and the runs keep what they promise."""

import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from reference.multiclass import features
from reference.primal import multiclass_minimum, multiclass_objective
from reference.sdm import binary_steps, block_steps, losses
from signs import signed

import pybundle as pb
from pybundle.prox.of_norm import Square
from pybundle.runtime.executors import make_executor
from pybundle.solvers.block import exact_blocks
from pybundle.solvers.block._label_dual import LabelDual
from pybundle.solvers.block.exact_blocks import ExactBlocks
from pybundle.solvers.problem.problem import Problem


def dual_of(risk):
    return LabelDual(risk.engine, risk.search_precision)


def blobs(n=70, d=6, n_classes=4, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(n_classes, d))[y]
    X[rng.random(X.shape) < 0.3] = 0.0
    X[5] = 0.0                                  # an example without features
    return X.astype(dtype), y


def costs(n_classes, seed=1):
    rng = np.random.default_rng(seed)
    cost = rng.uniform(0.5, 2.0, (n_classes, n_classes))
    np.fill_diagonal(cost, 0.0)
    return cost


def variants():
    """Arguments of MulticlassHinge beside X and y."""
    weights = np.random.default_rng(2).uniform(0.0, 2.0, 70)
    weights[3] = 0.0
    return {"plain": {}, "cost": {"loss": costs(4)}, "weights": {"sample_weight": weights}, "bias": {"bias": 1.5},
            "all": {"loss": costs(4), "sample_weight": weights, "bias": 0.5, "scale": 0.5}}


def keeps_promises(result):
    h = result.history
    assert (np.diff(h["lower_bound"]) >= 0).all()
    assert (np.diff(h["best_primal"]) <= 0).all()
    assert (np.diff(h["n_passes"]) >= 0).all()
    assert (h["best_primal"] <= h["primal"] * (1 + 1e-12)).all()
    assert (h["lower_bound"] <= result.fun * (1 + 1e-12)).all()


# ---------------------------------------------------------------------- steps

@pytest.mark.parametrize("name", variants())
@pytest.mark.parametrize("form", ["dense", "csr", "csr in float32", "float32", "csr32"])
def test_steps_are_those_of_one_row_after_the_other(name, form):
    """Dense rows are scored four at a time and corrected; the result must not show it."""
    options = variants()[name]
    X, y = blobs(dtype=np.float32 if form in ("float32", "csr32") else np.float64)
    data = sp.csr_array(X) if "csr" in form else X
    risk = pb.risks.MulticlassHinge(data, y, precision="float64" if form == "csr" else None, **options)
    x = features(X, options.get("scale", 1.0), options.get("bias"))
    L, c = losses(y, 4, options.get("loss")), options.get("sample_weight", np.ones(70))
    rng = np.random.default_rng(3)
    start = rng.normal(size=(4, x.shape[1]))
    s = 3.0
    order = np.r_[rng.permutation(70), rng.integers(0, 70, 65)]         # rows come twice, also in one four
    beta = np.zeros((70, 4))
    beta[np.arange(70), y] = c
    wanted, W, met = block_steps(x, L, c, beta, start, s, order)
    dual = dual_of(risk)
    dual.set_point(start.ravel(), s)
    tolerance = 2e-4 if "32" in form else 1e-11
    assert dual.visit(order[:37]) + dual.visit(order[37:]) == pytest.approx(met, rel=tolerance)
    np.testing.assert_allclose(dual.alpha, wanted, atol=tolerance)
    np.testing.assert_allclose(dual.point().reshape(W.shape), W, atol=tolerance)
    assert dual.visits == len(order)
    touched = np.count_nonzero(dual.alpha, axis=1)
    assert (touched[c > 0] >= 1).all() and (touched[c == 0] == 0).all()


@pytest.mark.parametrize("n_classes", [2, 3, 17, 40])
def test_steps_with_few_and_many_classes(n_classes):
    X, y = blobs(n=70, n_classes=n_classes)
    rng = np.random.default_rng(0)
    order = rng.permutation(70)
    beta = np.eye(n_classes)[y]
    wanted, W, _ = block_steps(X, losses(y, n_classes), np.ones(70), beta, np.zeros((n_classes, 6)), 0.3, order)
    for data in (X, sp.csr_array(X)):
        dual = dual_of(pb.risks.MulticlassHinge(data, y, precision="float64"))
        dual.set_point(np.zeros(n_classes * 6), 0.3)
        dual.visit(order)
        np.testing.assert_allclose(dual.alpha, wanted, atol=1e-10)
        np.testing.assert_allclose(dual.point(), W.ravel(), atol=1e-10)


@pytest.mark.parametrize("sparse", [False, True])
def test_binary_steps(sparse):
    X, _ = blobs()
    rng = np.random.default_rng(1)
    y, c = np.where(rng.random(70) < 0.4, 1, -1), rng.uniform(0, 2, 70)
    x = features(X, 1.0, 0.7)
    order = rng.permutation(70)
    start = rng.normal(size=7)
    wanted, w, met = binary_steps(x, y, c, np.zeros(70), start, 2.0, order)
    dual = dual_of(pb.risks.BinaryHinge(sp.csr_array(X) if sparse else X, y, sample_weight=c, bias=0.7,
                                          precision="float64"))
    dual.set_point(start, 2.0)
    assert dual.visit(order) == pytest.approx(met)
    np.testing.assert_allclose(dual.alpha[:, 0], wanted, atol=1e-12)
    np.testing.assert_allclose(dual.point(), w, atol=1e-12)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_instruction_set_takes_the_same_steps(level):
    for dtype in (np.float32, np.float64, np.uint8):
        X = np.random.default_rng(0).integers(0, 9, (40, 37)).astype(dtype)     # a tail behind the last whole vector
        y = np.arange(40) % 3
        risk = pb.risks.MulticlassHinge(X, y, scale=0.25)
        engine = risk.engine.at_level(level)
        if engine is None:
            pytest.skip("the CPU has not got it")
        wanted, W, _ = block_steps(X * 0.25, losses(y, 3), np.ones(40), np.eye(3)[y], np.zeros((3, 37)), 5.0,
                                   np.arange(40))
        dual = LabelDual(engine, risk.precision)
        dual.set_point(np.zeros(111), 5.0)
        dual.visit(np.arange(40))
        np.testing.assert_allclose(dual.alpha, wanted, atol=1e-4)
        np.testing.assert_allclose(dual.point(), W.ravel(), atol=1e-4)


def check_steps(engine, start, order, wanted, W, met):
    """Steps with s = 0.7 in both precisions against those of the slow twin; skips if the CPU has no such engine."""
    if engine is None:
        pytest.skip("the CPU has not got it")
    for precision, tolerance in (("float32", 1e-4), ("float64", 1e-11)):
        dual = LabelDual(engine, precision)
        assert dual.is_single == (precision == "float32")
        dual.set_point(start, 0.7)
        assert dual.visit(order) == pytest.approx(met, rel=tolerance)
        np.testing.assert_allclose(dual.alpha, wanted, atol=tolerance)
        np.testing.assert_allclose(dual.point(), W.ravel(), atol=tolerance)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("n_classes", [2, 15, 16, 17, 33, 70])
def test_sparse_steps_of_every_instruction_set(level, n_classes):
    """Whole vectors of classes and a tail; rows of all lengths, down to none; few coefficients of a row change."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(90, 50)) * (rng.random((90, 50)) < rng.random((90, 1)) ** 2)
    X[7] = 0.0
    y = np.arange(90) % n_classes
    order = rng.integers(0, 90, 300)
    wanted, W, met = block_steps(X, losses(y, n_classes), np.ones(90), np.eye(n_classes)[y], np.zeros((n_classes, 50)),
                                 0.7, order)
    risk = pb.risks.MulticlassHinge(sp.csr_array(X), y, n_classes=n_classes)
    check_steps(risk.engine.at_level(level), np.zeros(n_classes * 50), order, wanted, W, met)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_sparse_steps_with_one_score_of_every_instruction_set(level):
    """Rows of all lengths, down to none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 50)) * (rng.random((90, 50)) < rng.random((90, 1)) ** 2)
    X[7] = 0.0
    y, c = np.where(rng.random(90) < 0.4, 1, -1), rng.uniform(0.0, 2.0, 90)
    order, start = rng.integers(0, 90, 300), rng.normal(size=50)
    wanted, w, met = binary_steps(X, y, c, np.zeros(90), start, 0.7, order)
    risk = pb.risks.BinaryHinge(sp.csr_array(X), y, sample_weight=c)
    check_steps(risk.engine.at_level(level), start, order, wanted[:, None], w, met)


def test_float64_rows_that_float32_cannot_hold_are_searched_in_float64():
    X, y = blobs()
    for factor in (1e-30, 1.0, 1e30):
        risk = pb.risks.MulticlassHinge(sp.csr_array(X * factor), y)
        assert risk.precision == "float64" and dual_of(risk).is_single == (factor == 1.0)
        result = pb.minimize(risk, lam=factor**2, method="prox-bcfw", tol=1e-3)
        assert result.success and result.fun == pytest.approx(
            pb.minimize(pb.risks.MulticlassHinge(X, y), lam=1.0, method="prox-bcfw", tol=1e-6).fun, rel=1e-3)


def test_the_heaviest_centre_depends_on_what_examples_have_in_common():
    def core(X, **options):
        y = np.arange(len(X) if isinstance(X, np.ndarray) else X.shape[0]) % 3
        return ExactBlocks(pb.risks.MulticlassHinge(X, y, **options), Problem(Square(1.0)))

    def largest(X, **options):
        blocks = core(X, **options)
        return blocks.default_kappa(1e30) / (blocks.default_kappa(1e-30) ** 2 / 1e-30)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40))
    assert largest(5.0 * X) == pytest.approx(largest(X))                    # no matter of scale or storage
    assert largest(X, scale=0.1) == pytest.approx(largest(X))
    assert largest(sp.csr_array(X)) == pytest.approx(largest(X))
    assert largest(rng.normal(size=(300, 400))) < 0.2 * largest(X) < 0.2 * largest(np.eye(300)[np.arange(300) % 5])
    assert largest(X + 1.0) > 1e10 < largest(X, bias=100.0)                 # a common mean is much in common
    assert core(np.zeros((5, 2))).default_kappa(1e30) == 0.0
    assert core(np.ones((1, 2)), n_classes=3).default_kappa(1e30) == pytest.approx(2e15)    # one example says nothing


@pytest.mark.parametrize("mean", [10.0, 100.0])
def test_a_large_common_mean_keeps_the_acceleration(mean):
    """Judged by the cosines after centring alone, the centre had no weight: 165 and more than 600 iterations."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 1000)
    X = 0.5 * rng.normal(size=(5, 8))[y] + rng.normal(size=(1000, 8)) + mean
    assert pb.minimize(pb.risks.MulticlassHinge(X, y), lam=1.0, method="prox-bcfw", max_iter=400).success


def test_a_stall_in_float32_is_no_end():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 6))
    y = (X @ rng.standard_normal((6, 3))).argmax(axis=1)
    risk = pb.risks.MulticlassHinge(sp.csr_array(X), y)
    assert pb.minimize(risk, lam=1e-5, method="prox-bcfw").success


def test_search_in_float32_moves_on_to_float64():
    """A gap that multipliers and weights in float32 do not reach."""
    X, y = blobs(n=200)
    risk = pb.risks.MulticlassHinge(sp.csr_array(X), y)
    assert risk.search_precision == "float32" and risk.derive(precision="float64").search_precision == "float64"
    result = pb.minimize(risk, lam=0.5, method="prox-bcfw", tol=1e-9)
    assert result.success and result.gap <= 1e-9


def test_a_step_leaves_no_gap_in_its_block():
    """KKT of the block: at the new W every label with weight has the highest value."""
    X, y = blobs()
    dual = dual_of(pb.risks.MulticlassHinge(X, y))
    dual.set_point(np.zeros(24), 1.3)
    L = losses(y, 4)
    for i in np.random.default_rng(0).permutation(70):
        dual.visit(np.array([i]))
        u = L[i] + dual.point().reshape(4, 6) @ X[i]
        assert u.max() - dual.alpha[i] @ u == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", variants())
def test_aggregate_is_the_sum_of_the_planes(name):
    options = variants()[name]
    X, y = blobs()
    x = features(X, options.get("scale", 1.0), options.get("bias"))
    risk = pb.risks.MulticlassHinge(X, y, **options)
    dual = dual_of(risk)
    dual.set_point(np.zeros(risk.dim), 2.0)
    dual.visit(np.arange(70))
    plane = dual.aggregate()
    beta = np.array(dual.alpha)
    assert plane.offset == pytest.approx(np.sum(beta * losses(y, 4, options.get("loss"))), abs=1e-12)
    beta[np.arange(70), y] -= options.get("sample_weight", np.ones(70))
    exact = beta.T @ x
    got = risk.examples.unscale(plane.slope, 4).reshape(exact.shape)
    np.testing.assert_allclose(got, exact, atol=1e-12)
    assert 0.0 < plane.slope_error < 1e-10 and 0.0 <= plane.offset_error < 1e-10


def summed_exactly(dual, risk, options):
    """Offset and slope of the multipliers as they stand, in extended precision."""
    beta, y = np.array(dual.alpha).astype(np.longdouble), risk.labels
    n, K = beta.shape
    x = np.asarray(features(risk.examples.X, options.get("scale", 1.0), options.get("bias")), dtype=np.longdouble)
    if K == 1:
        return float(beta.sum()), np.array((beta[:, 0] * -y) @ x, dtype=np.longdouble).reshape(1, -1)
    beta[np.arange(n), y] = 0.0
    total, c = beta.sum(axis=1), np.broadcast_to(options.get("sample_weight", 1.0), n)
    beta *= np.where(total > c, c / np.where(total > 0.0, total, 1.0), 1.0)[:, None]
    offset = float(np.sum(beta * losses(y, K, options.get("loss"))))
    beta[np.arange(n), y] = -beta.sum(axis=1)
    return offset, beta.T @ x


@pytest.mark.parametrize("kind", ["float64", "float32", "cost and bias", "binary"])
def test_halves_of_an_aggregate_are_within_their_bounds_with_any_threads(kind, monkeypatch):
    """Sums of ranges of rows, their bounds added, and what the core makes of two halves by 1, 2 and 3 threads."""
    n, K = 9001, 2 if kind == "binary" else 4
    X, y = blobs(n, n_classes=K, dtype=np.float32 if kind == "float32" else np.float64)
    X *= 10.0 ** np.random.default_rng(1).uniform(-6, 3, (n, 1))            # much to be lost in a sum
    options = {"loss": costs(K), "bias": 0.5} if kind == "cost and bias" else {}
    options["sample_weight"] = np.random.default_rng(2).uniform(0.0, 2.0, n)
    Risk = pb.risks.BinaryHinge if kind == "binary" else pb.risks.MulticlassHinge
    risk = Risk(X, 2 * y - 1 if kind == "binary" else y, **options)
    monkeypatch.setattr(exact_blocks, "LEAST_ENTRIES", 0)
    seen = []
    for n_jobs in (1, 2, 3):
        pool = make_executor(n_jobs)
        core = ExactBlocks(risk.derive(executor=pool), Problem(Square(1.0)))
        core.place(5.0, 3.0, np.zeros(risk.dim))
        core.oracle_pass(np.random.default_rng(3).permutation(n))
        seen.append(core.aggregate())
        pool.close()
    first, lost = seen[0], seen[0].slope_error
    for other in seen[1:]:
        np.testing.assert_array_equal(other.slope, first.slope)
        assert vars(replace(other, slope=None)) == vars(replace(first, slope=None))
    dual = dual_of(risk)                        # the same steps
    dual.set_point(np.zeros(risk.dim), 8.0)
    dual.visit(np.random.default_rng(3).permutation(n))
    np.testing.assert_array_equal(dual.alpha, core.known())
    true_offset, true_phi = summed_exactly(dual, risk, options)
    assert abs(first.offset - true_offset) <= first.offset_error < 1e-10 * first.offset
    assert np.linalg.norm((first.slope - true_phi.ravel()).astype(np.float64)) <= first.slope_error
    # any cut, and ranges without rows
    for ranges in ([(0, n)], [(0, 1), (1, n)], [(0, 0), (0, 8192), (8192, n), (n, None)]):
        parts = [dual.aggregate(*rows) for rows in ranges]
        total = risk.examples.unscale(np.sum([part.slope for part in parts], axis=0), risk.n_scores)
        error, offset_error = (sum(getattr(part, name) for part in parts) for name in ("slope_error", "offset_error"))
        assert np.linalg.norm((total - true_phi.ravel()).astype(np.float64)) <= error < 10.0 * lost
        assert abs(sum(part.offset for part in parts) - true_offset) <= offset_error < 10.0 * first.offset_error


def test_an_aggregate_of_rows_that_are_not_there_is_refused():
    X, y = blobs()
    risk = pb.risks.MulticlassHinge(X, y)
    dual = dual_of(risk)
    for first, last in ((-1, 5), (5, 4), (0, 71), (71, None)):
        with pytest.raises(ValueError, match="first and last must be 0 <= first <= last <= 70"):
            dual.aggregate(first, last)


def test_a_second_slope_only_where_the_data_are_larger():
    """Halves cost a vector of length dim, zeroed and added: as much as the sum itself where rows are short."""
    y, d = np.arange(3000) % 3, 200_000
    columns = np.sort(np.random.default_rng(0).integers(d // 400, size=(3000, 400)) + 500 * np.arange(400))
    short = sp.csr_array((np.ones(columns.size), columns.ravel(), np.arange(3001) * 400), shape=(3000, d))
    assert short.nnz > exact_blocks.LEAST_ENTRIES
    core = ExactBlocks(pb.risks.MulticlassHinge(short, y), Problem(Square(1.0)))
    core.place(1.0, 0.0, np.zeros(core.dim))
    core.oracle_pass(np.arange(3000))
    tracemalloc.start()
    core.aggregate()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * 8 * 3 * d


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9, 1.0])
def test_active_rows_are_those_with_a_mark(share):
    X, y = blobs(n=3000)
    dual = dual_of(pb.risks.MulticlassHinge(X, y))
    marks = np.random.default_rng(0).random(3000)
    dual.examples["active"] = marks < share
    assert dual.active().dtype == np.intp
    np.testing.assert_array_equal(dual.active(), np.flatnonzero(dual.examples["active"]))
    dual.examples["active"] = np.where(marks < share, 7, 0)
    np.testing.assert_array_equal(dual.active(), np.flatnonzero(marks < share))


@pytest.mark.parametrize("kind", ["binary", "classes", "float64"])
def test_passes_over_active_rows(kind):
    """Each visits every active row once, in an order that depends on the seed alone, and ends at the target."""
    X, y = blobs(n=300, d=40)
    risk = (pb.risks.BinaryHinge(X, np.where(y < 2, 1, -1)) if kind == "binary" else
            pb.risks.MulticlassHinge(X, y, precision=None if kind == "classes" else "float64"))

    def begun():
        dual = dual_of(risk)
        dual.set_point(np.zeros(risk.dim), 5.0)
        dual.visit(np.arange(300))
        return dual

    firsts = set()
    for seed in (0, 1, 2, 1):
        dual = begun()
        n_active = len(dual.active())
        assert 30 < n_active and not dual.visit_active(seed, 0.0, 1, np.inf)
        assert dual.visits == 300 + n_active
        firsts.add(dual.alpha.tobytes())
    assert len(firsts) == 3
    dual = begun()
    assert not dual.visit_active(0, 0.0, 50, 301.0) and dual.visits == 300 + n_active     # no pass beyond the limit
    assert dual.visit_active(0, 1e-3, 10_000, np.inf)
    assert dual.visit(dual.active()) <= 2e-3        # each gap of the last pass was that before its step


# ---------------------------------------------------------------------- runs

@pytest.mark.parametrize("lam", [10.0, 0.5, 0.02])
def test_reaches_the_minimum(lam):
    X, y = blobs()
    result = pb.minimize(pb.risks.MulticlassHinge(X, y), lam=lam, method="prox-bcfw", tol=1e-7)
    best = multiclass_minimum(X, y, lam, 4)
    assert result.success and result.certified and result.gap <= 1e-7
    assert result.fun == pytest.approx(multiclass_objective(result.x.reshape(4, 6), X, y, lam), rel=1e-12)
    assert result.lower_bound <= best * (1 + 1e-7) and best <= result.fun * (1 + 1e-7)
    keeps_promises(result)


@pytest.mark.parametrize("name", variants())
@pytest.mark.parametrize("sparse", [False, True])
def test_agrees_with_oca(name, sparse):
    X, y = blobs()
    risk = pb.risks.MulticlassHinge(sp.csr_array(X) if sparse else X, y, **variants()[name])
    for lam in (5.0, 0.1):
        mine = pb.minimize(risk, lam=lam, method="prox-bcfw", tol=1e-7)
        other = pb.minimize(risk, lam=lam, method="oca", tol=1e-7)
        assert mine.success
        assert mine.fun == pytest.approx(other.fun, rel=1e-6)
        assert mine.lower_bound <= other.fun and other.lower_bound <= mine.fun
        keeps_promises(mine)


@pytest.mark.parametrize("sparse", [False, True])
def test_two_classes_and_the_binary_hinge(sparse):
    """Two classes are the binary hinge with W = (-w/2, w/2), hence 2 lam."""
    X, _ = blobs()
    y = np.arange(70) % 3 == 0
    data = sp.csr_array(X) if sparse else X
    binary = pb.minimize(pb.risks.BinaryHinge(data, np.where(y, 1, -1)), lam=1.0, method="prox-bcfw", tol=1e-8)
    two = pb.minimize(pb.risks.MulticlassHinge(data, y.astype(int)), lam=2.0, method="prox-bcfw", tol=1e-8)
    other = pb.minimize(pb.risks.BinaryHinge(data, np.where(y, 1, -1)), lam=1.0, method="oca", tol=1e-8)
    assert binary.success and two.success
    assert binary.fun == pytest.approx(two.fun, rel=1e-7)
    assert binary.fun == pytest.approx(other.fun, rel=1e-7)
    keeps_promises(binary)


def test_storages_and_precisions_agree():
    X = np.random.default_rng(0).integers(0, 256, (150, 33)).astype(np.uint8)
    y = np.argmax(X[:, :5] + 40.0 * np.random.default_rng(1).normal(size=(150, 5)), axis=1)
    results = [pb.minimize(pb.risks.MulticlassHinge(data, y, **options), lam=0.5, method="prox-bcfw", tol=1e-3)
               for data, options in [
                   (X, {"scale": 1 / 255}), (X / 255.0, {}), ((X / 255.0).astype(np.float32), {}),
                   (sp.csr_array(X / 255.0), {}), (sp.csr_array((X / 255.0).astype(np.float32)), {}),
                   (X, {"scale": 1 / 255, "precision": "float64"})]]
    for result in results:
        assert result.success and result.gap <= 1e-3
        for other in results:
            assert result.lower_bound <= other.fun * (1 + 1e-6)


def test_float32_data_to_a_small_gap():
    """Below 1e-4 the search works in float64."""
    X, y = blobs(dtype=np.float32)
    result = pb.minimize(pb.risks.MulticlassHinge(X, y), lam=0.5, method="prox-bcfw", tol=1e-9)
    assert result.success and result.gap <= 1e-9


def test_mean_scale():
    X, y = blobs()
    risk = pb.risks.MulticlassHinge(X, y)
    a = pb.minimize(risk, lam=70 * 0.01, method="prox-bcfw", tol=1e-6)
    b = pb.minimize(risk, lam=0.01, method="prox-bcfw", tol=1e-6, scale="mean")
    np.testing.assert_array_equal(a.x, b.x)
    assert b.fun == pytest.approx(a.fun / 70, rel=1e-14)


def test_repeats_bit_for_bit_and_the_order_is_random():
    X, y = blobs(n=200)
    risk = pb.risks.MulticlassHinge(X.astype(np.float32), y)

    def run(**options):
        return pb.minimize(risk, lam=0.1, method="prox-bcfw", tol=1e-3, **options)

    first = run()
    for again in (run(), run(random_state=0), run(n_jobs=2)):
        np.testing.assert_array_equal(first.x, again.x)
        assert first.lower_bound == again.lower_bound and first.n_passes == again.n_passes
    assert not np.array_equal(first.x, run(random_state=1).x)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 20.0])
def test_any_kappa_leads_to_the_minimum(kappa):
    X, y = blobs()
    risk = pb.risks.MulticlassHinge(X, y)
    result = pb.minimize(risk, lam=1.0, method=pb.methods.parse("prox-bcfw", kappa=kappa), tol=1e-5)
    assert result.success
    assert result.fun == pytest.approx(pb.minimize(risk, lam=1.0, method="oca", tol=1e-6).fun, rel=2e-5)


def test_acceleration_pays():
    """Where classes overlap the centre saves most of the passes of plain exact dual."""
    X, y = blobs(n=300, d=20, n_classes=5)
    risk = pb.risks.MulticlassHinge(X - 1.2 * X[np.random.default_rng(0).permutation(300)], y)
    plain = pb.minimize(risk, lam=1.0, method="prox-bcfw kappa=0.0", tol=1e-3)
    fast = pb.minimize(risk, lam=1.0, method="prox-bcfw", tol=1e-3)
    assert plain.success and fast.success and fast.n_passes < 0.3 * plain.n_passes


def test_the_last_batch_pass_is_the_certificate():
    """Its scores are float64, so the promise costs no further pass: every pass is one of the core."""
    X, y = blobs(n=120, dtype=np.float32)
    risk = pb.risks.MulticlassHinge(X, y)
    result = pb.minimize(risk, lam=1.0, method="prox-bcfw", tol=1e-2)
    assert result.certified and result.n_passes == result.history["n_passes"][-1]
    value, error = risk.derive(precision="float64").values(result.x)
    assert abs(result.fun - 0.5 * result.x @ result.x - value.sum()) <= 1e-11 * result.fun + error.sum()


# ---------------------------------------------------------------------- warm starts, stops, refusals

def test_warm_start_at_the_same_lam_needs_nothing():
    X, y = blobs()
    risk = pb.risks.MulticlassHinge(X, y)
    cold = pb.minimize(risk, lam=0.5, method="prox-bcfw", tol=1e-4)
    kept = np.array(cold.state.blocks)
    warm = pb.minimize(risk, lam=0.5, method="prox-bcfw", tol=1e-4, warm_start=cold)
    assert warm.success and warm.n_passes <= 1.0
    assert warm.fun <= cold.fun * (1 + 1e-12)
    tighter = pb.minimize(risk, lam=0.5, method="prox-bcfw", tol=1e-8, warm_start=pickle.loads(pickle.dumps(cold)))
    assert tighter.success and tighter.history["lower_bound"][0] >= cold.lower_bound
    np.testing.assert_array_equal(cold.state.blocks, kept)


def test_warm_start_at_another_lam_and_path():
    X, y = blobs(n=200, d=12)
    risk = pb.risks.MulticlassHinge(X, y)
    first = pb.minimize(risk, lam=0.2, method="prox-bcfw", tol=1e-4)
    cold = pb.minimize(risk, lam=0.1, method="prox-bcfw", tol=1e-4)
    warm = pb.minimize(risk, lam=0.1, method="prox-bcfw", tol=1e-4, warm_start=first)
    assert warm.success and warm.lower_bound <= cold.fun and cold.lower_bound <= warm.fun
    for result in pb.path(risk, [1.0, 0.3, 0.1], method="prox-bcfw", tol=1e-4):
        assert result.success


def test_warm_start_from_and_to_a_bundle_method():
    X, y = blobs()
    risk = pb.risks.MulticlassHinge(X, y)
    bundle = pb.minimize(risk, lam=0.5, method="oca", tol=1e-2)
    blocks = pb.minimize(risk, lam=0.5, method="prox-bcfw", tol=1e-6, warm_start=bundle)
    assert blocks.success and blocks.history["best_primal"][0] <= bundle.fun * (1.0 + 1e-14)     # R summed otherwise
    back = pb.minimize(risk, lam=0.5, method="oca", tol=1e-6, warm_start=blocks)
    assert back.success and back.fun <= blocks.fun * (1 + 1e-6)


def test_first_point():
    X, y = blobs()
    risk = pb.risks.MulticlassHinge(X, y)
    w0 = np.random.default_rng(0).normal(size=risk.dim)
    result = pb.minimize(risk, w0, lam=1.0, method="prox-bcfw", tol=1e-6)
    assert result.success
    assert result.fun == pytest.approx(pb.minimize(risk, lam=1.0, method="oca", tol=1e-6).fun, rel=3e-6)


def test_a_callback_interrupts():
    X, y = blobs(n=200)
    seen = []

    def callback(progress):
        seen.append((progress.fun, progress.lower_bound, progress.n_passes))
        return len(seen) == 3

    result = pb.minimize(pb.risks.MulticlassHinge(X, y), lam=0.01, method="prox-bcfw", tol=1e-9, callback=callback)
    assert result.status == pb.Status.CALLBACK and len(seen) == 3 and result.nit == 3
    assert result.lower_bound <= result.fun and result.certified and not result.success

    def pressed(progress):
        if len(progress.seconds) and progress.n_iter == 2:
            raise KeyboardInterrupt

    result = pb.minimize(pb.risks.MulticlassHinge(X, y), lam=0.01, method="prox-bcfw", tol=1e-9, callback=pressed)
    assert result.status == pb.Status.INTERRUPTED and result.certified and result.lower_bound <= result.fun


def test_limits():
    X, y = blobs(n=200)
    risk = pb.risks.MulticlassHinge(X, y)
    with pytest.warns(pb.ConvergenceWarning):
        result = pb.minimize(risk, lam=1e-3, method="prox-bcfw", tol=1e-9, max_iter=2)
    assert result.status == pb.Status.ITERATION_LIMIT and result.nit == 2 and np.isfinite(result.gap)
    with pytest.warns(pb.ConvergenceWarning):
        result = pb.minimize(risk, lam=1e-3, method="prox-bcfw", tol=1e-12, time_limit=1e-9)
    assert result.status == pb.Status.TIME_LIMIT and result.certified


def test_a_problem_without_loss():
    """One class is right everywhere once w is large: F* is small, and rounding must not stop the run."""
    X = np.vstack([np.eye(3)] * 5)
    result = pb.minimize(pb.risks.MulticlassHinge(X, np.arange(15) % 3), lam=1e-6, method="prox-bcfw", tol=1e-6)
    assert result.success
    zero = pb.minimize(pb.risks.MulticlassHinge(np.zeros((4, 2)), [0, 1, 0, 1]), lam=1.0, method="prox-bcfw", tol=1e-9)
    assert zero.success and zero.fun == pytest.approx(4.0)
    none = pb.minimize(pb.risks.MulticlassHinge(np.eye(2), [0, 1], sample_weight=[0.0, 0.0]), lam=1.0,
                       method="prox-bcfw")
    assert none.success and none.fun == 0.0


def test_refusals():
    X, y = blobs()
    risk = pb.risks.MulticlassHinge(X, y)
    with pytest.raises(pb.ParameterError, match="kappa must be"):
        pb.minimize(risk, lam=1.0, method=pb.methods.parse("prox-bcfw", kappa=-1.0))
    with pytest.raises(pb.ParameterError, match="random_state"):
        pb.minimize(risk, lam=1.0, method="prox-bcfw", random_state=-1)
    with pytest.raises(ValueError, match="no exact blocks"):
        dual_of(pb.risks.Logistic(X, y % 2))
    with pytest.raises(ValueError, match="order must"):
        dual_of(risk).visit(np.array([0, 70]))


def test_signs_are_left_to_the_cached_planes():
    X, y = blobs()
    risk = pb.risks.MulticlassHinge(X, y)
    nonneg = np.ones(risk.dim, bool)
    result = pb.minimize(risk, penalty=signed(1.0, nonneg), method="prox-bcfw", tol=1e-4)
    assert result.success and (result.x >= 0.0).all()
    other = pb.minimize(risk, penalty=signed(1.0, nonneg), method="oca", tol=1e-5)
    assert result.fun == pytest.approx(other.fun, rel=2e-4)


def test_line_search_beyond_the_second_point():
    """Rows without loss at t = 0 and 1 were once left out for upper > 1 too, where they may have one."""
    X, y = blobs()
    risk = pb.risks.MulticlassHinge(X, y)
    rng = np.random.default_rng(0)
    S0, S1 = risk.scores(3.0 * rng.normal(size=24)), risk.scores(3.0 * rng.normal(size=24))
    S0[np.arange(70), y] += 20.0                # no loss at either end
    S1[np.arange(70), y] += 12.0
    t, value = risk.line_search(S0, S1, -1e4, 1e3, upper=10.0)
    assert t > 1.0
    assert value == pytest.approx(risk.planes_at(S0 + t * (S1 - S0)).values.sum(), rel=1e-9) and value > 0.0
