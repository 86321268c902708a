"""Blocks of classes and chains with a log-loss: planes lie below the risk, steps ascend, runs can be resumed."""

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from reference.log_loss import chain, decimal, log_loss
from test_log_loss_bounds import height, make, starts

import pybundle as pb
from pybundle.core.plane import Plane
from pybundle.models.multiclass.oracle import MulticlassOracle
from pybundle.solvers.block._chain_dual import ChainDual
from pybundle.solvers.problem.problem import Problem

INFINITE = np.inf


def words(rng, n=30, K=3, d=4, longest=6):
    X = [rng.standard_normal((rng.integers(1, longest), d)) * (rng.random(d) < 0.7) for _ in range(n)]
    W = 2.0 * rng.standard_normal((K, d))
    return X, [(x @ W.T + rng.gumbel(size=(len(x), K))).argmax(axis=1) for x in X]


def risk_of(rng, dtype=np.float64, start=True, end=True, weighted=False, **size):
    """Chains, dense or CSR or of bytes; `start` None: classes, the first tokens alone."""
    X, Y = words(rng, **size)
    K, d = size.get("K", 3), X[0].shape[1]
    if start is None:
        X = np.array([x[0] for x in X])
        X = sp.csr_array(X) if dtype == "csr" else X.astype(dtype)
        c = rng.integers(0, 3, len(Y)).astype(float) if weighted else None
        return pb.risks.Structured(pb.models.Multiclass(K, d), X, [y[0] for y in Y], loss="logistic", sample_weight=c)
    if dtype in ("csr", "few weights"):
        X = [sp.csr_array(x) for x in X]
    elif dtype == np.uint8:
        X = [np.clip(3.0 * x + 3.0, 0.0, 9.0).astype(np.uint8) for x in X]
    else:
        X = [x.astype(dtype) for x in X]
    c = rng.integers(0, 3, len(X)).astype(float) if weighted else None
    model = pb.models.Chain(K, d, start=start, end=end)
    if dtype == "few weights":
        model = model.occurring(X[:2], Y[:2])
    return pb.risks.Structured(model, X, Y, loss="logistic", sample_weight=c)


def dual_of(risk, factors=None):
    tokens, truth, offsets, masks, start, end, _ = risk.log_loss_tokens
    return ChainDual(tokens, truth, offsets, risk.sample_weight, masks, start, end, factors)


KINDS = [(np.float64, True, True), (np.float32, True, False), (np.uint8, False, True), ("csr", False, False),
         ("csr", True, True), (np.float64, None, None), ("csr", None, None), ("few weights", True, False)]


# ---------------------------------------------------------------------- planes
@pytest.mark.parametrize("kind", ["chain", "long chain", "multiclass", "many classes", "chain of few weights"])
def test_planes_of_any_distributions_lie_below_the_risk(kind):
    """In exact arithmetic, for factors from 0 to far beyond what exp can hold."""
    for seed in range(4):
        rng, risk, exact, scale = make(kind, seed)
        points = [*list(starts(rng, risk.dim, scale))[:5], 1e-3 / scale * rng.standard_normal(risk.dim)]
        seen = [(v, exact(v)) for v in points]
        shapes = [factors.shape for factors in (dual_of(risk).nodes, dual_of(risk).edges)]
        for size in (0.0, 1e-6, 1.0, 30.0, 800.0, 1e9, 1e17):
            dual = dual_of(risk, [size * rng.standard_normal(shape) for shape in shapes])
            planes = risk.planes_of(dual)
            assert (planes.offsets >= 0.0).all()
            for p in range(2):
                slope_error = (1.0 + 1e-9) * float(risk.slope_errors[p])
                offset_error = float(risk.offset_errors[p] * planes.offsets[p])
                for v, value in seen:
                    allowed = offset_error + slope_error * float(np.linalg.norm(v))
                    assert decimal(height(planes, p, v)) <= value[p] + decimal(allowed)


def test_the_plane_of_the_distributions_at_w_is_that_of_w():
    rng = np.random.default_rng(0)
    for dtype, start, end in KINDS:
        if start is None:
            continue
        risk = risk_of(rng, dtype, start, end, weighted=True)
        w = rng.standard_normal(risk.dim)
        W, transition, first, last = risk.model.split(w)
        W = W.toarray() if sp.issparse(W) else W
        scores = [np.asarray(x @ W.T) for x in risk.X]
        for x in scores:
            x[0] += first if start else 0.0
            x[-1] += last if end else 0.0
        dual = dual_of(risk, (np.concatenate(scores), np.repeat(transition.ravel()[None], risk.n_examples, axis=0)))
        found, expected = risk.planes_of(dual), risk.planes(w)
        # the factors are rounded to float32; the slopes of a plane fall behind linearly, its height by the square
        np.testing.assert_allclose(found.slopes, expected.slopes, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found.offsets + found.slopes @ w, expected.values, rtol=1e-12)


# ---------------------------------------------------------------------- steps
@pytest.mark.parametrize("dtype, start, end", KINDS)
@pytest.mark.parametrize("penalty", [pb.prox.SquaredL2(0.3), pb.prox.L1(0.5), pb.prox.Box(-0.2, 0.3),
                                     pb.prox.Separable(l2=1.0, l1=0.3, centre=0.5)])
def test_every_pass_raises_the_dual_and_keeps_the_point(dtype, start, end, penalty):
    """The dual in float64 from the plane, after each of many passes; the point is that of its slope."""
    rng = np.random.default_rng(1)
    risk = risk_of(rng, dtype, start, end, weighted=True)
    dual, dim = dual_of(risk), risk.dim
    penalty = (penalty + pb.prox.SquaredL2(0.05)).canonical(dim)
    objective = Problem(penalty, floor=0.0)
    arrays = [np.broadcast_to(values, (dim,)) for values in (penalty.l2, penalty.l1, penalty.lower, penalty.upper)]
    dual.set_limits(*arrays)
    centre = penalty.l2 * penalty.centre
    dual.set_penalised_point(centre - risk.planes_of(dual).slopes[0])
    last = -INFINITE
    for _ in range(100):
        dual.visit(rng.permutation(risk.n_examples))
        planes = risk.planes_of(dual)
        value = objective.lower_bound(Plane(planes.offsets[0], planes.slopes[0]))
        assert value >= last - 1e-9 * abs(last)
        last = value
        phi = planes.slopes[0]
        np.testing.assert_allclose(dual.point(), objective.minimiser(phi, 0.0, np.zeros(dim)), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(dual.unshrunk_point(), centre - phi, rtol=1e-8, atol=1e-8)
    w = dual.point()
    if dtype != np.uint8:       # of columns of unequal size, for which a centre is needed
        assert objective.value(w) + risk.evaluate(w)[0].sum() - last < 1e-3 * last


def test_certain_distributions_find_back():
    """Factors of thousands, all on wrong labels: a hundred passes mend what no gradient shows."""
    rng = np.random.default_rng(2)
    risk = risk_of(rng)
    nodes = np.zeros((risk.log_loss_tokens.tokens.n_rows, 3))
    nodes[np.arange(len(nodes)), (risk.log_loss_tokens.truth + 1) % 3] = 3000.0
    dual = dual_of(risk, (nodes, np.zeros((risk.n_examples, 9))))
    dual.set_point(-risk.planes_of(dual).slopes[0] / 0.5, 0.5)
    for _ in range(100):
        dual.visit(rng.permutation(risk.n_examples))
    planes, w = risk.planes_of(dual), dual.point()
    bound = planes.offsets[0] - planes.slopes[0] @ planes.slopes[0]
    assert 0.25 * w @ w + risk.evaluate(w)[0].sum() - bound < 1e-4 * bound


def test_factors_of_other_chains_and_rows_beyond_the_last_are_refused():
    rng = np.random.default_rng(3)
    risk = risk_of(rng)
    with pytest.raises(ValueError, match="other chains"):
        dual_of(risk, (np.zeros((2, 3)), np.zeros((1, 9))))
    dual = dual_of(risk)
    dual.set_point(np.zeros(risk.dim), 1.0)
    with pytest.raises(ValueError, match=r"order must lie in 0\.\.29, got 30"):
        dual.visit(np.array([30]))
    with pytest.raises(ValueError, match=r"rows must be 0\.\.29, got -1"):
        dual.marginals(np.array([-1]), np.zeros(1), np.zeros((1, 3)))
    with pytest.raises(ValueError, match="nodes"):
        dual.marginals(np.array([0]), np.zeros(1), np.zeros((99, 3)))


# ---------------------------------------------------------------------- runs
@pytest.mark.parametrize("dtype, start, end", KINDS)
def test_lbfgs_agrees_with_every_penalty(dtype, start, end):
    rng, number = np.random.default_rng(4), KINDS.index((dtype, start, end))
    for k in range(2):
        risk = risk_of(rng, dtype, start, end, weighted=k % 2 == 0, K=2 + 2 * k)
        size = 10.0 ** rng.uniform(-2.0, 1.0)
        penalties = [{"lam": size}, {"penalty": pb.prox.L1(size)}, {"penalty": pb.prox.ElasticNet(size, 0.1 * size)},
                     {"penalty": pb.prox.SquaredL2(size) + pb.prox.Box(0.0, INFINITE)},
                     {"lam": size * 10.0 ** rng.uniform(-1.0, 1.0, risk.dim)}]
        for terms in penalties[(number + k) % 2::2]:        # each one with each storage
            other = pb.minimize(risk, method="lbfgs", tol=1e-5, **terms)
            for method, tol in (("prox-bcfw", 1e-4), ("auto", 1e-6)):
                found = pb.minimize(risk, method=method, tol=tol, **terms)
                assert found.success, found.message
                assert found.lower_bound <= other.fun and other.lower_bound <= found.fun
                assert (np.diff(found.history["lower_bound"]) >= 0.0).all()


def test_bounds_of_runs_hold_in_exact_arithmetic():
    """Ill-scaled tokens: no bound is above F at any point found, computed with 50 digits."""
    rng = np.random.default_rng(5)
    for k in range(12):
        X, Y = words(rng, n=3, K=2, d=2, longest=4)
        X = [x * 10.0 ** rng.uniform(-4.0, 4.0, 2) for x in X]
        risk = pb.risks.Structured(pb.models.Chain(2, 2), X, Y, loss="logistic")
        psis = [chain(*pair, 2, 1, 1) for pair in zip(X, Y, strict=True)]
        l1, l2 = 10.0 ** rng.uniform(-3.0, 1.0), 10.0 ** rng.uniform(-3.0, 1.0) * (k % 2)
        result = pb.minimize(risk, penalty=pb.prox.Separable(l2=l2, l1=l1), method="prox-bcfw", tol=1e-12, max_iter=60)
        size = decimal(l1) * sum(decimal(abs(x)) for x in result.x)
        size += decimal(l2) / 2 * sum(decimal(x) * decimal(x) for x in result.x)
        exact = size + sum(log_loss(psi, result.x) for psi in psis)
        assert decimal(result.lower_bound) <= exact
        assert result.lower_bound <= result.fun


def test_auto_takes_them_where_it_may():
    risk = risk_of(np.random.default_rng(6), d=20)
    lam, signs = {"lam": 0.1}, np.where(np.arange(risk.dim) % 2 == 0, 0.0, -np.inf)
    signs = {"penalty": pb.prox.SquaredL2(0.1) + pb.prox.Box(signs)}
    for options, is_taken in ((lam, True), (signs, True), (lam | {"evidence": True}, False),
                              (lam | {"memory_limit": 1 << 30}, False)):
        result = pb.minimize(risk, tol=1e-3, **options)
        assert result.success
        assert (result.state.blocks is not None) is is_taken, options
        assert (result.state.pairs is None) is is_taken


def test_one_label_needs_no_learning():
    X = [np.ones((2, 2)), np.zeros((3, 2))]
    risk = pb.risks.Structured(pb.models.Chain(1, 2), X, [[0, 0], [0, 0, 0]], loss="logistic")
    result = pb.minimize(risk, penalty=pb.prox.L1(1.0))
    assert result.success and result.fun == 0.0


def test_other_weights_of_the_penalty_start_from_the_factors():
    risk = risk_of(np.random.default_rng(7), n=60)
    first = pb.minimize(risk, lam=1.0, method="prox-bcfw", tol=1e-5)
    cold = pb.minimize(risk, lam=0.8, method="prox-bcfw", tol=1e-5)
    warm = pb.minimize(risk, lam=0.8, method="prox-bcfw", tol=1e-5, warm_start=first)
    assert warm.success and warm.n_passes < cold.n_passes
    assert warm.lower_bound <= cold.fun and cold.lower_bound <= warm.fun


@pytest.mark.parametrize("terms", [{"lam": 0.01}, {"penalty": pb.prox.L1(0.2)}])
def test_a_checkpoint_goes_on_as_if_nothing_had_been(tmp_path, terms):
    """One run in six pieces, each of which resumes the one before."""
    risk, file = risk_of(np.random.default_rng(8)), tmp_path / "run.pbc"
    options = {"method": "prox-bcfw", "tol": 1e-7, **terms}
    whole = pb.minimize(risk, **options)
    for max_iter in (3, 4, 5, 6, 30):
        with pytest.warns(pb.ConvergenceWarning):
            pb.minimize(risk, checkpoint=pb.Checkpoint(file, every=0.0), max_iter=max_iter, **options)
    resumed = pb.minimize(risk, checkpoint=file, **options)
    assert resumed.n_passes == whole.n_passes
    np.testing.assert_array_equal(resumed.x, whole.x)
    assert (resumed.fun, resumed.lower_bound) == (whole.fun, whole.lower_bound)


@pytest.mark.parametrize("n_parts", [1, 3])
def test_a_resumed_run_knows_the_value_of_its_best_point(tmp_path, n_parts):
    """It asked the risk again, part by part: another last digit, and a pass more."""
    risk, file = risk_of(np.random.default_rng(8)), tmp_path / "run.pbc"
    options = {"method": "prox-bcfw", "tol": 1e-12, "penalty": pb.prox.L1(0.2), "n_parts": n_parts}
    with pytest.warns(pb.ConvergenceWarning):
        whole = pb.minimize(risk, max_iter=8, **options)
        pb.minimize(risk, checkpoint=pb.Checkpoint(file, every=0.0), max_iter=6, **options)
        resumed = pb.minimize(risk, checkpoint=file, max_iter=8, **options)
    assert (resumed.fun, resumed.lower_bound, resumed.gap, resumed.n_passes) == (
        whole.fun, whole.lower_bound, whole.gap, whole.n_passes)


def test_an_oracle_with_other_scores_has_no_blocks():
    """A bound over all labels was taken for the risk of a subclass that forbids one, and lay above it."""
    class Forbidding(MulticlassOracle):
        def _margins(self, rows, weights):
            margins = super()._margins(rows, weights)
            margins[self._y[rows] != 2, 2] = -1e30
            return margins

    class Some(pb.models.Multiclass):
        def oracle(self, X, Y):
            return Forbidding(self, X, Y)

    rng = np.random.default_rng(13)
    X, y = rng.standard_normal((40, 30)), rng.integers(0, 3, 40)
    risk = pb.risks.Structured(Some(3, 30), X, y, loss="logistic")
    found, other = pb.minimize(risk, lam=1.0, tol=1e-6), pb.minimize(risk, lam=1.0, tol=1e-6, method="lbfgs")
    assert found.success and abs(found.fun - other.fun) <= 1e-5 * other.fun
    assert found.lower_bound <= other.fun and other.lower_bound <= found.fun


def test_many_classes_take_no_memory_for_pairs():
    risk = risk_of(np.random.default_rng(14), start=None, K=3000, n=20, d=30)
    tracemalloc.start()
    result = pb.minimize(risk, lam=1.0, tol=1e-2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.success and peak < 50e6           # pairs of labels: 72 MB a table


def test_an_interrupted_run_hands_back_its_best_point():
    risk = risk_of(np.random.default_rng(9))

    def stop(at):
        if at.n_iter == 7:
            raise KeyboardInterrupt

    result = pb.minimize(risk, lam=1e-3, method="prox-bcfw", tol=1e-9, callback=stop)
    assert "interrupt" in result.message
    assert 0.0 <= result.lower_bound <= result.fun < INFINITE


def test_threads_give_the_same_bits():
    risk = risk_of(np.random.default_rng(10), n=80)
    one, two = (pb.minimize(risk, lam=0.1, method="prox-bcfw", tol=1e-6, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.x, two.x)
    assert one.lower_bound == two.lower_bound


def test_memory_and_evidence_are_refused_by_name():
    risk = risk_of(np.random.default_rng(12))
    with pytest.raises(pb.ParameterError, match=r"memory_limit must be at least .* use 'lbfgs'"):
        pb.minimize(risk, lam=1.0, method="prox-bcfw", memory_limit=100)
    with pytest.raises(pb.ParameterError, match="no evidence of a log-loss"):
        pb.minimize(risk, lam=1.0, method="prox-bcfw", evidence=True)


def test_free_weights_and_a_centre_of_weight_0():
    """Without a square of every weight the point would not be unique: 1e17 once, and a value of 0."""
    X, Y = [np.zeros((3, 2))] * 6, [[0, 1, 1], [1, 1, 0], [0, 0, 1]] * 2
    risk = pb.risks.Structured(pb.models.Chain(2, 2), X, Y, loss="logistic")
    lam = np.full(risk.dim, 0.3)
    lam[4:8] = 0.0
    with pytest.raises(pb.ParameterError, match="kappa must be > 0"):
        pb.minimize(risk, lam=lam, method="prox-bcfw kappa=0.0")
    for method in ("auto", "prox-bcfw"):
        with pytest.warns(pb.ConvergenceWarning):
            result = pb.minimize(risk, lam=lam, method=method, tol=1e-4, max_iter=300)
        assert 11.0 < result.fun < 12.0


def test_state_is_refused_where_it_does_not_fit():
    risk = risk_of(np.random.default_rng(11))
    dual = dual_of(risk)
    dual.set_point(np.zeros(risk.dim), 1.0)
    state = pickle.loads(pickle.dumps(dual.get_state()))
    dual.set_state(state)
    for name, value in (("nodes", state["nodes"][:-1]), ("rates", state["rates"] * np.nan),
                        ("rates", state["rates"] * 0.0), ("entropies", state["rates"] * np.inf), ("s", -1.0)):
        with pytest.raises(ValueError, match=name):
            dual.set_state(state | {name: value})
