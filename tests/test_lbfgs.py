"""Method "lbfgs": the certificate holds at every pass, the gradient is 0 at the end, and SciPy agrees."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.arborescence import all_trees
from scipy.optimize import minimize as scipy_minimize
from scipy.special import expit
from signs import signed

import pybundle as pb
from pybundle.core.plane import Plane, combined
from pybundle.features import MapFeatures
from pybundle.solvers.smooth.quasi_newton import Orthants, Pairs
from pybundle.solvers.smooth.wolfe import WolfeSearch

KINDS = ["binary", "multiclass", "chain", "landmarks", "dependency"]


def risk_of(kind, seed=0, sparse=False, sample_weight=None, **kw):
    """A small problem of each kind, n_examples 12 to 60."""
    rng = np.random.default_rng(seed)

    def matrix(n, d):
        X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
        return sp.csr_array(X) if sparse else X

    if kind == "binary":
        X = matrix(60, 6)
        return pb.risks.Logistic(X, np.where(X @ rng.normal(size=6) + rng.normal(size=60) > 0, 1, -1),
                                 sample_weight=sample_weight, **kw)
    if kind == "multiclass":
        model, X, Y = pb.models.Multiclass(4, 5), matrix(50, 5), rng.integers(0, 4, 50)
    elif kind == "chain":
        sizes = rng.integers(1, 6, 20)
        model, X, Y = pb.models.Chain(3, 4), [matrix(n, 4) for n in sizes], [rng.integers(0, 3, n) for n in sizes]
    elif kind == "landmarks":
        boxes = np.array([[0, 1, 2, 3], [1, 1, 3, 2], [2, 0, 2, 2]])
        X = rng.integers(-2, 3, (12, 30, 4)).astype(np.float32)
        model = pb.models.Landmarks((5, 6), [1, -1, 1], MapFeatures(4), boxes=boxes, anchors=np.ones((3, 2)),
                                    spreads=np.ones((3, 2)))
        Y = boxes[None, :, :2] + rng.integers(0, 2, (12, 3, 2)) * (boxes[:, 2:] - 1.0)     # far from the anchors
    else:
        X = [rng.integers(0, 4, (n, 2)) for n in rng.integers(1, 5, 15)]
        trees = {n: list(all_trees(n, True)) for n in range(1, 5)}
        model = pb.models.Dependency.hashed(7, templates=["h.word m.pos", "h.pos m.pos distance", "m.word direction"])
        Y = [trees[len(x)][rng.integers(len(trees[len(x)]))] for x in X]
    return pb.risks.Structured(model, X, Y, loss="logistic", sample_weight=sample_weight, **kw)


def objective(risk, lam):
    def fun(w):
        values, slopes = risk.evaluate(w)
        slopes = slopes.toarray() if sp.issparse(slopes) else slopes
        return 0.5 * lam * w @ w + values.sum(), lam * w + slopes.sum(axis=0)
    return fun


def scipy_minimum(risk, lam):
    signs = getattr(risk, "nonneg", None)
    bounds = None if signs is None else [(0.0 if flag else None, None) for flag in signs]
    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-9}
    return scipy_minimize(objective(risk, lam), np.zeros(risk.dim), jac=True, method="L-BFGS-B", bounds=bounds,
                          options=options).fun


def check_history(result):
    h = result.history
    assert (np.diff(h["lower_bound"]) >= 0).all() and (np.diff(h["best_primal"]) <= 0).all()
    assert (np.diff(h["n_passes"]) == 1).all()          # a step is a pass
    assert (h["best_primal"] <= h["primal"]).all() and (h["gap"] >= 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_scipy_agrees_and_bounds_hold_at_every_pass(kind):
    for lam in (3.0, 0.03):
        risk = risk_of(kind)
        best = scipy_minimum(risk, lam)
        result = pb.minimize(risk, lam=lam, method="lbfgs", tol=1e-9)
        assert result.success and result.certified and result.gap <= 1e-9
        assert result.fun == pytest.approx(best, rel=1e-8)
        assert (result.history["lower_bound"] <= best * (1 + 1e-11)).all()
        assert (result.history["primal"] >= best * (1 - 1e-8)).all()
        assert result.lower_bound <= best * (1 + 1e-11) and result.fun >= best * (1 - 1e-8)
        check_history(result)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "chain", "dependency"])
def test_the_gradient_vanishes(kind):
    """F is lam-strongly convex, so |g|^2 <= 2 L (F - F*) with L the largest curvature, here at most 1e4."""
    risk = risk_of(kind)
    result = pb.minimize(risk, lam=0.1, method="lbfgs", tol=1e-10)
    value, gradient = objective(risk, 0.1)(result.x)
    assert value == pytest.approx(result.fun, rel=1e-13)
    assert np.linalg.norm(gradient) <= np.sqrt(2e4 * 1e-10 * result.fun)


def test_the_gradient_vanishes_but_for_resting_constraints():
    risk = risk_of("landmarks")
    result = pb.minimize(risk, lam=0.1, method="lbfgs", tol=1e-11)
    _, gradient = objective(risk, 0.1)(result.x)
    resting = risk.nonneg & (result.x == 0.0)
    assert resting.any() and not resting[risk.nonneg].all() and (result.x[risk.nonneg] >= 0.0).all()
    scale = np.abs(gradient[resting]).max()
    assert (gradient[resting] > 0.0).all() and np.abs(gradient[~resting]).max() < 1e-3 * scale


@pytest.mark.parametrize("kind", KINDS)
def test_parts_change_nothing_but_rounding(kind):
    one = pb.minimize(risk_of(kind), lam=0.3, method="lbfgs", tol=1e-4)
    for n_parts in (3, 7):
        many = pb.minimize(risk_of(kind), lam=0.3, method="lbfgs", tol=1e-4, n_parts=n_parts)
        assert many.nit == one.nit and many.success
        np.testing.assert_allclose(many.x, one.x, rtol=1e-6, atol=1e-8)
        assert many.lower_bound == pytest.approx(one.lower_bound, rel=1e-5)      # its QP is solved to 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_every_run_and_any_number_of_threads_give_the_same_bits(kind):
    runs = [pb.minimize(risk_of(kind), lam=0.3, method="lbfgs", n_jobs=jobs) for jobs in (None, None, 2)]
    for other in runs[1:]:
        assert other.x.tobytes() == runs[0].x.tobytes()
        for name in ("primal", "lower_bound", "n_passes"):
            assert other.history[name].tobytes() == runs[0].history[name].tobytes()
        assert (other.fun, other.lower_bound) == (runs[0].fun, runs[0].lower_bound)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "chain"])
def test_dense_equals_csr(kind):
    dense, sparse = (pb.minimize(risk_of(kind, sparse=sparse), lam=0.3, method="lbfgs", tol=1e-8)
                     for sparse in (False, True))
    assert sparse.fun == pytest.approx(dense.fun, rel=1e-7)
    np.testing.assert_allclose(sparse.x, dense.x, atol=1e-3)


@pytest.mark.parametrize("kind", ["binary", "chain", "dependency"])
def test_weights_of_examples(kind):
    n = risk_of(kind).n_examples
    weights = np.arange(n) % 3.0
    result = pb.minimize(risk_of(kind, sample_weight=weights), lam=0.3, method="lbfgs", tol=1e-8)
    assert result.success
    assert result.fun == pytest.approx(scipy_minimum(risk_of(kind, sample_weight=weights), 0.3), rel=1e-7)


def test_other_methods_agree():
    risk = risk_of("chain")
    fast = pb.minimize(risk, lam=0.5, method="lbfgs", tol=1e-7)
    for method in ("oca", "bmrm"):
        slow = pb.minimize(risk, lam=0.5, method=method, tol=1e-5)
        assert fast.lower_bound <= slow.fun and slow.lower_bound <= fast.fun
        assert fast.n_passes < slow.n_passes


def test_the_plane_at_a_point_proves_the_bound_of_strong_convexity():
    """F(w*) >= F(w) - |grad F(w)|^2 / (2 lam), here from one pass at w; the zero plane can only improve it."""
    risk, lam = risk_of("multiclass"), 2.0
    w = np.random.default_rng(1).normal(size=risk.dim)
    value, gradient = objective(risk, lam)(w)
    with pytest.warns(pb.ConvergenceWarning):
        result = pb.minimize(risk, w, lam=lam, method="lbfgs", tol=1e-9, max_iter=1)
    assert result.history["lower_bound"][0] >= value - gradient @ gradient / (2.0 * lam) - 1e-3 * value
    assert result.history["lower_bound"][0] <= scipy_minimum(risk, lam)


@pytest.mark.parametrize("seed", range(100))
def test_combined_planes_lie_below_the_larger_one_in_exact_arithmetic(seed):
    rng = np.random.default_rng(seed)
    d, spread = int(rng.integers(1, 6)), 10.0 ** rng.integers(-12, 13, 2)
    slopes, offsets = rng.normal(size=(2, d)) * spread[:, None], rng.normal(size=2) * 10.0 ** rng.integers(-12, 13)
    errors = rng.integers(0, 2) * rng.random((2, 2))
    planes = [Plane(float(b), a, float(e), float(f)) for b, a, (e, f) in zip(offsets, slopes, errors, strict=True)]
    lam = float((slopes**2).sum() / np.abs(offsets).max() * 10.0 ** rng.uniform(-1, 1))
    both = combined(*planes, -slopes[0] / lam, lam)

    def value(plane, v, length):
        """The plane at v, lowered by its errors, where `length` is at least |v|."""
        inner = sum(Fraction(float(a)) * x for a, x in zip(plane.slope, v, strict=True))
        return (Fraction(plane.offset) - Fraction(float(plane.offset_error)) + inner
                - Fraction(float(plane.slope_error)) * length)

    rise = [Fraction(float(b)) - Fraction(float(a)) for a, b in zip(*slopes, strict=True)]
    for _ in range(5):
        v = [Fraction(float(x)) for x in rng.normal(size=d) * 10.0 ** rng.integers(-6, 7)]
        # moved to where both are equal without their errors: there a combination is as high as each of them
        high = Fraction(planes[1].offset) - Fraction(planes[0].offset)
        high += sum(a * b for a, b in zip(rise, v, strict=True))
        v = [x - high * a / sum(b * b for b in rise) for x, a in zip(v, rise, strict=True)]
        for point in (v, [Fraction(0)] * d):
            length = Fraction(1.001 * float(np.linalg.norm([float(x) for x in point])))
            assert value(both, point, length) <= max(value(plane, point, length) for plane in planes)
    shares = np.linspace(0.0, 1.0, 1001)[:, None]
    mixed = (1.0 - shares) * slopes[0] + shares * slopes[1]
    values = (1.0 - shares[:, 0]) * offsets[0] + shares[:, 0] * offsets[1] - (mixed**2).sum(axis=1) / (2.0 * lam)
    proven = both.offset - both.slope @ both.slope / (2.0 * lam)
    assert proven >= values.max() - 1e-9 * np.abs(values).max()


def test_float32_data_end_in_float64():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 10)).astype(np.float32)
    risk = pb.risks.Logistic(X, np.where(X[:, 0] + rng.normal(size=400) > 0, 1, -1))
    assert risk.precision == "float32"
    coarse = pb.minimize(risk, lam=0.1, method="lbfgs", tol=2e-4)           # searches in float32
    fine = pb.minimize(risk, lam=0.1, method="lbfgs", tol=1e-10)
    assert coarse.success and fine.success and coarse.certified and fine.certified
    assert coarse.lower_bound <= fine.fun and fine.lower_bound <= coarse.fun
    assert coarse.n_passes == coarse.nit + 2            # the first point, and the certificate in float64
    assert fine.n_passes == fine.nit + 1                # whose numbers serve


@pytest.mark.parametrize("kind", KINDS)
def test_known_errors_of_values_cover_those_of_the_certificate(kind):
    risk = risk_of(kind, n_parts=2).derive(precision="float64")
    w = np.abs(np.random.default_rng(3).normal(size=risk.dim))
    values, errors = risk.values(w)
    known = risk.planes(w).values
    assert (np.abs(known - values) <= errors).all()
    assert (risk.value_errors(w, known) >= errors * (1.0 - 1e-3)).all()
    assert (risk.value_errors(w, known) <= 1e-10 * (1.0 + values)).all()


def test_a_constrained_weight_of_the_users():
    risk, signs = risk_of("binary"), np.arange(6) < 4
    result = pb.minimize(risk, penalty=signed(0.1, signs), method="lbfgs", tol=1e-9)
    bounds = [(0.0 if flag else None, None) for flag in signs]
    best = scipy_minimize(objective(risk, 0.1), np.zeros(6), jac=True, bounds=bounds,
                          options={"ftol": 1e-16, "gtol": 1e-10}).fun
    assert result.success and (result.x[signs] >= 0.0).all() and (result.x[signs] == 0.0).any()
    assert result.lower_bound <= best * (1 + 1e-12) and result.fun == pytest.approx(best, rel=1e-8)


def test_risks_that_are_not_smooth_are_refused():
    X, y = np.eye(4), [0, 1, 0, 1]
    for risk in (pb.risks.BinaryHinge(X, y), pb.risks.MulticlassHinge(X, y),
                 pb.risks.Structured(pb.models.Multiclass(2, 4), X, y)):
        with pytest.raises(pb.ParameterError, match=r"needs a smooth risk.* use method 'oca'"):
            pb.minimize(risk, lam=1.0, method="lbfgs")
    with pytest.raises(pb.ParameterError, match="needs a smooth risk, and Function"):
        pb.minimize(lambda w: (w @ w, 2.0 * w), [1.0], lam=1.0, method="lbfgs")


def test_other_arguments_that_are_refused():
    risk = risk_of("binary")
    with pytest.raises(pb.ParameterError, match="Ball belongs to methods 'cutting-plane'"):
        pb.minimize(risk, penalty=pb.prox.Ball(1.0), method="lbfgs")
    with pytest.raises(pb.ParameterError, match="unknown option 'stop' for method 'lbfgs'"):
        pb.minimize(risk, lam=1.0, method="lbfgs stop=published")
    with pytest.raises(pb.ParameterError, match="memory must be"):
        pb.minimize(risk, lam=1.0, method="lbfgs memory=0")
    with pytest.raises(pb.ParameterError, match="memory_limit must be at least"):
        pb.minimize(risk, lam=1.0, method="lbfgs", memory_limit=100)


def test_a_smooth_function_of_ones_own():
    """F(w) = 1/2 |w|^2 + |A w - b|^2 / 2, known to be at least 0."""
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(8, 5)), rng.normal(size=8)
    risk = pb.risks.Function(lambda w: (0.5 * np.sum((A @ w - b) ** 2), A.T @ (A @ w - b)), 5, lower_bounds=0.0)
    risk.smooth = True
    result = pb.minimize(risk, lam=1.0, method="lbfgs", tol=1e-12)
    np.testing.assert_allclose(result.x, np.linalg.solve(A.T @ A + np.eye(5), A.T @ b), atol=1e-5)
    risk.lower_bounds = np.array([-np.inf])
    assert pb.minimize(risk, lam=1.0, method="lbfgs", tol=1e-12).fun == pytest.approx(result.fun, rel=1e-11)


def test_little_memory_is_kept_to():
    risk = risk_of("chain")
    wide, narrow = (pb.minimize(risk, lam=0.01, method="lbfgs", tol=1e-6, memory_limit=limit)
                    for limit in (None, 15 * 8 * risk.dim))
    assert narrow.success and narrow.state.pairs.room < 15 / 2 < wide.state.pairs.room
    assert pb.minimize(risk, lam=0.01, method="lbfgs memory=5", tol=1e-6).n_passes >= wide.n_passes


def test_a_run_goes_on_where_another_ended():
    risk = risk_of("chain")
    whole = pb.minimize(risk, lam=0.05, method="lbfgs", tol=1e-8)
    with pytest.warns(pb.ConvergenceWarning):
        first = pb.minimize(risk, lam=0.05, method="lbfgs", tol=1e-8, max_iter=whole.nit // 2)
    state = pickle.loads(pickle.dumps(first.state))
    rest = pb.minimize(risk, lam=0.05, method="lbfgs", tol=1e-8, warm_start=state)
    cold = pb.minimize(risk, first.x, lam=0.05, method="lbfgs", tol=1e-8)
    assert rest.success and rest.fun == pytest.approx(whole.fun, rel=1e-7)
    assert rest.n_passes < cold.n_passes        # the pairs are worth something
    assert pb.minimize(risk, lam=0.05, method="lbfgs", tol=1e-7, warm_start=rest).n_passes <= 3


def test_methods_start_from_one_another():
    risk = risk_of("multiclass")
    bundle = pb.minimize(risk, lam=0.1, method="bmrm", tol=1e-3)
    smooth = pb.minimize(risk, lam=0.1, method="lbfgs", tol=1e-6, warm_start=bundle)
    back = pb.minimize(risk, lam=0.1, method="bmrm", tol=1e-3, warm_start=smooth)
    assert smooth.success and back.success and back.lower_bound <= smooth.fun


def test_a_path_keeps_the_pairs():
    risk, lams = risk_of("chain"), [1.0, 0.3, 0.1]
    for result, lam in zip(pb.path(risk, lams, method="lbfgs", tol=1e-7), lams, strict=True):
        assert result.success and result.fun == pytest.approx(scipy_minimum(risk, lam), rel=1e-6)


def test_scale_mean_is_the_same_problem():
    risk = risk_of("chain")
    total = pb.minimize(risk, lam=0.2 * risk.n_examples, method="lbfgs", tol=1e-6)
    mean = pb.minimize(risk, lam=0.2, scale="mean", method="lbfgs", tol=1e-6)
    assert mean.n_passes == total.n_passes
    assert mean.fun * risk.n_examples == pytest.approx(total.fun, rel=1e-12)


def test_time_limit_callback_and_interruption():
    risk = risk_of("chain")
    with pytest.warns(pb.ConvergenceWarning):
        late = pb.minimize(risk, lam=1e-3, method="lbfgs", tol=1e-12, time_limit=1e-9)
    assert late.status == pb.Status.TIME_LIMIT and late.nit == 1 and late.certified
    asked = pb.minimize(risk, lam=1e-3, method="lbfgs", tol=1e-12, callback=lambda progress: progress.n_iter == 3)
    assert asked.status == pb.Status.CALLBACK and asked.nit == 3 and asked.certified

    class Interrupted:
        """Raises KeyboardInterrupt in the fifth pass."""
        smooth, dim, n_parts, n_examples, passes = True, risk.dim, 1, risk.n_examples, 0
        lower_bounds = np.zeros(1)

        def evaluate(self, w):
            self.passes += 1
            if self.passes == 5:
                raise KeyboardInterrupt
            return risk.evaluate(w)

    stopped = pb.minimize(Interrupted(), lam=1e-3, method="lbfgs", tol=1e-12)
    assert stopped.status == pb.Status.INTERRUPTED and stopped.lower_bound <= stopped.fun
    assert stopped.state.pairs is not None


def test_rounding_ends_a_run_without_noise():
    """No tolerance is out of reach by more than rounding; the run says so instead of going on."""
    for kind in KINDS:
        with pytest.warns(pb.ConvergenceWarning):
            result = pb.minimize(risk_of(kind), lam=1.0, method="lbfgs", tol=1e-18, atol=0.0)
        assert result.status == pb.Status.STALLED and result.certified and result.gap < 1e-10
        assert result.n_passes < 400
        check_history(result)


def test_search_meets_the_wolfe_conditions():
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b, c = rng.normal(size=3)
        start = 10.0 ** rng.uniform(-6, 6)

        def f(t, a=a, b=b, c=c):                    # convex, and flat or steep by orders of magnitude
            p = expit((a + 1.0) * t - b)
            return np.logaddexp(a * t, b - t) + c * c * t * t, a * p - (1.0 - p) + 2 * c * c * t

        value, slope = f(0.0)
        if slope > -1e-3:
            continue
        search, trials = WolfeSearch(value, slope, start), 1
        while not search.update(*f(search.step)):
            assert not search.has_failed
            trials += 1
        value_at, slope_at = f(search.step)
        assert value_at <= value + 1e-4 * search.step * slope + 1e-12 * abs(value) and slope_at >= 0.9 * slope
        assert trials <= 25


def test_pairs_of_a_quadratic_give_newton_steps():
    """On 1/2 w'Hw, after dim steps with exact searches BFGS has the inverse of H [Nocedal & Wright 2006, Thm 6.4]."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 6))
    H = A @ A.T + np.eye(6)
    pairs, w = Pairs(10, 1.0), rng.normal(size=6)
    for _ in range(6):
        d = pairs.direction(H @ w)
        t = -(H @ w) @ d / (d @ H @ d)
        pairs.add(t * d, t * H @ d)
        w = w + t * d
    g = rng.normal(size=6)
    np.testing.assert_allclose(pairs.direction(g), -np.linalg.solve(H, g), rtol=1e-6, atol=1e-8)
    moved, s = pairs.moved(3.0, 10), t * d          # H + 2 I there: the secant equation of the last pair
    np.testing.assert_allclose(moved.direction(H @ s + 2.0 * s), -s, rtol=1e-6, atol=1e-8)


def test_pairs_of_any_inner_product_are_those_of_its_coordinates():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(4, 4))
    K = A @ A.T + 0.1 * np.eye(4)               # <a, b> = a'Kb, by a row of coefficients and one of products with K
    C = np.linalg.cholesky(K)
    ours, twin = Pairs(5, 1.0), Pairs(5, 1.0)
    for _ in range(4):
        s = rng.normal(size=4)
        y = s + A @ A.T @ s
        ours.add(np.stack([s, K @ s]), np.stack([y, K @ y]))
        twin.add(C.T @ s, C.T @ y)
    assert len(ours) == len(twin) > 0
    g = rng.normal(size=4)
    d = ours.direction(np.stack([g, K @ g]))
    np.testing.assert_allclose(C.T @ d[0], twin.direction(C.T @ g), rtol=1e-9)
    np.testing.assert_allclose(K @ d[0], d[1], rtol=1e-9)


def test_resting_coordinates_take_no_part():
    rng = np.random.default_rng(1)
    pairs, resting = Pairs(5, 1.0), np.array([True, False, False])
    for _ in range(3):
        s = rng.normal(size=3)
        pairs.add(s, np.diag([1.0, 2.0, 3.0]) @ s)
    g = rng.normal(size=3)
    d = pairs.direction(g, resting)
    assert d[0] == 0.0 and d @ g < 0.0


def test_auto_takes_a_smooth_risk_whole(monkeypatch):
    asked, derive = [], pb.risks.Logistic.derive

    def watched(self, **options):
        asked.append(options.get("n_parts"))
        return derive(self, **options)

    monkeypatch.setattr(pb.risks.Logistic, "derive", watched)
    pb.minimize(risk_of("binary"), lam=1.0)
    assert 1 in asked and set(asked) <= {1, None}


SEPARABLE = {
    "l1": pb.prox.L1(3.0), "elastic net": pb.prox.ElasticNet(3.0, 1.0), "box": pb.prox.Box(-0.1, 0.3),
    "l1 and signs": pb.prox.L1(3.0) + pb.prox.Box(0.0), "light l1": pb.prox.L1(0.5),
    "rates and centre": pb.prox.SquaredL2(np.linspace(0.5, 4.0, 12), centre=0.2),
}  # fmt: skip


def smooth_risk(kind, fit_intercept):
    rng = np.random.default_rng(5)
    X, noise = rng.standard_normal((150, 12)), rng.standard_normal(150)
    target = X[:, 0] - 0.5 * X[:, 1] + noise
    if kind == "huber":
        return pb.risks.Huber(X, target, delta=0.5, fit_intercept=fit_intercept)
    if kind == "sparse squared hinge":
        return pb.risks.SquaredHinge(sp.csr_array(X), np.sign(target), fit_intercept=fit_intercept)
    return pb.risks.Logistic(X, np.sign(target), fit_intercept=fit_intercept)


# each penalty and each risk with an intercept and without
@pytest.mark.parametrize("name, kind, fit_intercept", [
    (name, kind, (i + j) % 2 == 0) for i, name in enumerate(SEPARABLE)
    for j, kind in enumerate(["logistic", "huber", "sparse squared hinge"])])
def test_separable_penalties_reach_the_optimum_of_planes(name, kind, fit_intercept):
    """L-BFGS in an orthant and the bundle method meet within their gaps; the bounds lie below both values."""
    risk, penalty = smooth_risk(kind, fit_intercept), SEPARABLE[name]
    found = pb.minimize(risk, penalty=penalty, method="lbfgs", tol=1e-4)
    other = pb.minimize(risk, penalty=penalty, method="oca", tol=1e-4)
    assert found.success and found.certified and other.success
    assert found.lower_bound <= other.fun and other.lower_bound <= found.fun
    assert found.n_passes <= 200
    if "l1" in name and name != "light l1":
        assert np.count_nonzero(found.x == 0.0) >= 1        # exact zeros
    if "signs" in name:
        assert found.x[:12].min() >= 0.0


def test_a_chain_with_an_l1_norm():
    """The gradient of a log-loss of structures, and its plane, are those of any risk."""
    rng = np.random.default_rng(3)
    Y = [rng.integers(0, 2, 5) for _ in range(12)]
    X = [np.eye(3)[y + rng.integers(0, 2, 5)] for y in Y]
    risk = pb.risks.Structured(pb.models.Chain(2, 3), X, Y, loss="logistic")
    found = pb.minimize(risk, penalty=pb.prox.L1(1.0), method="lbfgs", tol=1e-5)
    other = pb.minimize(risk, penalty=pb.prox.L1(1.0), method="oca", tol=1e-5)
    assert found.success and np.count_nonzero(found.x) < risk.dim
    assert found.lower_bound <= other.fun and other.lower_bound <= found.fun


def test_groups_are_refused_by_lbfgs():
    risk = smooth_risk("logistic", False)
    with pytest.raises(pb.ParameterError, match="without groups, and their sums"):
        pb.minimize(risk, penalty=pb.prox.L1(1.0, groups=np.arange(12) % 3), method="lbfgs")


@settings(max_examples=100)
@given(st.lists(st.floats(-2, 2), min_size=3, max_size=3).map(np.array),
       st.lists(st.floats(-2, 2), min_size=3, max_size=3).map(np.array))
def test_the_norm_is_linear_within_an_orthant(x, gradient):
    """Between the bounds `l1 |v| = tilt v`, x lies between them, and no other orthant descends faster."""
    l1 = np.array([1.0, 0.0, 0.5])
    lower, upper, tilt = Orthants(l1, -1.0, 3.0).at(np.clip(x, -1.0, 3.0), gradient)
    x = np.clip(x, -1.0, 3.0)
    assert (lower <= x).all() and (x <= upper).all()
    for v in (lower, upper, x):
        assert np.array_equal(l1 * np.abs(v), tilt * v) or not np.isfinite(v).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_bound_that_rises_by_its_last_digit_is_no_progress(seed):
    """Combined planes went on raising the bound by rounding, so that runs took up to 1.7 times the passes to stall."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 5 + 25 * (seed % 2)))
    risk = pb.risks.SquaredHinge(X, np.where(X[:, 0] + rng.standard_normal(300) > 0.0, 1, -1))
    with pytest.warns(pb.ConvergenceWarning):
        result = pb.minimize(risk, lam=0.01, method="lbfgs", tol=1e-15, atol=0.0)
    gaps = result.history["best_primal"] - result.history["lower_bound"]
    falls = np.flatnonzero(gaps[:-1] - gaps[1:] > 2.0**-50 * result.fun)
    assert result.gap < 1e-12 and result.nit - falls[-1] <= 62
