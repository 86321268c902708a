"""The augmented Lagrangian method: projections, proximal steps, curvature, and solves against other methods."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.multiclass import features
from reference.multipliers import face_products, project_simplex, proximal_step, slope
from signs import signed

import pybundle as pb
from pybundle.solvers.newton._proximal_steps import project_rows
from pybundle.solvers.newton.directions import NewtonDirection, conjugate_gradients
from pybundle.solvers.newton.label_multipliers import LabelMultipliers


def problem(rng, kind="float64", n=120, d=9, K=4, **options):
    X = rng.normal(size=(n, d))
    X[rng.random((n, d)) < 0.4] = 0.0
    if kind == "uint8":
        X, options = rng.integers(0, 256, (n, d)).astype(np.uint8), {"scale": 1 / 255, **options}
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "csr":
        X = sp.csr_array(X)
    y = rng.integers(0, K, n)
    y[:K] = range(K)
    return pb.risks.MulticlassHinge(X, y, **options)


def variants(rng, n=120, K=4):
    cost = rng.random((K, K)) * 3.0
    np.fill_diagonal(cost, 0.0)
    weights = rng.random(n) * 2.0
    weights[::7] = 0.0
    return {"plain": {}, "bias": {"bias": 0.7}, "cost": {"loss": cost}, "weights": {"sample_weight": weights},
            "all": {"loss": cost, "sample_weight": weights, "bias": 2.0}}


VARIANTS = ("plain", "bias", "cost", "weights", "all")


@pytest.fixture
def rng():
    return np.random.default_rng(5)


# ---------------------------------------------------------------------- projection


def test_projection_of_feasible_rows_ends():
    """Rounding made the threshold go to and fro, and the search for it never ended."""
    V = np.random.default_rng(0).dirichlet(np.ones(4), 200000)
    out = np.empty_like(V)
    project_rows(V, np.ones(len(V)), out)
    np.testing.assert_allclose(out, V, atol=1e-15)


@pytest.mark.parametrize("K", [1, 2, 3, 10, 137])
@pytest.mark.parametrize("case", ["normal", "ties", "zeros", "huge", "tiny", "spread", "small mass"])
def test_projection_of_rows_is_the_sorted_one(K, case, rng):
    V = rng.normal(size=(60, K))
    mass = rng.random(60) * 3.0
    if case == "ties":
        V = rng.integers(0, 3, (60, K)).astype(float)
    elif case == "zeros":
        V, mass = np.zeros((60, K)), np.where(rng.random(60) < 0.5, 0.0, 1.0)
    elif case == "huge":
        V *= 1e200
    elif case == "tiny":
        V *= 1e-200
    elif case == "spread":
        V *= 10.0 ** rng.integers(-12, 12, (60, K))
    elif case == "small mass":
        mass *= 1e-14
    out = np.full((60, K), np.nan)
    project_rows(V, mass, out)
    assert out.min() >= 0.0
    np.testing.assert_allclose(out.sum(axis=1), mass, rtol=1e-13)
    for row, v, c in zip(out, V, mass, strict=True):
        np.testing.assert_allclose(row, project_simplex(v, c), rtol=1e-10, atol=1e-13 * c)


def test_projection_leaves_feasible_points_and_is_nonexpansive(rng):
    a = rng.dirichlet(np.ones(6), 50)
    out = np.empty((50, 6))
    project_rows(a, np.ones(50), out)
    np.testing.assert_allclose(out, a, atol=1e-15)
    u, v, pu, pv = rng.normal(size=(50, 6)), rng.normal(size=(50, 6)), np.empty((50, 6)), np.empty((50, 6))
    project_rows(u, np.ones(50), pu)
    project_rows(v, np.ones(50), pv)
    assert (np.linalg.norm(pu - pv, axis=1) <= np.linalg.norm(u - v, axis=1) * (1 + 1e-12)).all()


# ---------------------------------------------------------------------- proximal step and its derivatives

@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", ["float64", "float32", "uint8", "csr"])
def test_step_aggregate_and_curvature_equal_their_twins(kind, variant, rng):
    risk = problem(rng, kind, **variants(rng)[variant]).derive(precision="float64")
    x = features(risk.examples.X, risk.examples.scale, risk.examples.bias)
    m, w, sigma = LabelMultipliers(risk), rng.normal(size=risk.dim) * 0.3, 0.4
    alpha = m.step(m.truth(), risk.scores(rng.normal(size=risk.dim)), 0.7).alpha
    S = risk.scores(w)
    step = m.step(alpha, S, sigma)
    a, smooth, offset, value = proximal_step(risk, alpha, S, sigma)
    np.testing.assert_allclose(step.alpha, a, atol=1e-13)
    np.testing.assert_allclose((step.smooth, step.offset, step.risk), (smooth, offset, value), rtol=1e-12)
    assert step.risk == pytest.approx(risk.evaluate(w)[0].sum(), rel=1e-12)
    plane = m.aggregate(step.alpha, step.support)
    exact = slope(risk, x, a)
    assert plane.offset == pytest.approx(offset, rel=1e-13)
    np.testing.assert_allclose(plane.slope, exact, atol=1e-11)
    assert 0.0 < plane.slope_error < 1e-9 and 0.0 <= plane.offset_error < 1e-9

    faces, v = m.faces(step), rng.normal(size=risk.dim)
    twin = face_products(x, step.alpha, v)
    rough = 1e-5 if kind in ("float32", "uint8") else 1e-12
    np.testing.assert_allclose(faces.product(v), twin, atol=rough * np.abs(twin).max())
    rows, Q = faces.directions(np.float64)
    rows = rows.toarray() if sp.issparse(rows) else rows
    A = np.einsum("ek,ej->ekj", Q, rows).reshape(len(Q), -1)
    np.testing.assert_allclose(A.T @ (A @ v), twin, atol=1e-6 * np.abs(twin).max())      # scale rounds uint8 rows
    np.testing.assert_allclose(faces.diagonal(), (A * A).sum(axis=0), rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
def test_phi_is_the_gradient_of_the_smooth_bound_which_lies_below_the_risk(variant, rng):
    risk = problem(rng, **variants(rng)[variant])
    m, w, v = LabelMultipliers(risk), rng.normal(size=risk.dim) * 0.3, rng.normal(size=risk.dim)
    alpha = m.step(m.truth(), risk.scores(w), 0.2).alpha

    def smooth(t):
        return m.step(alpha, risk.scores(w + t * v), 0.5)

    step = smooth(0.0)
    phi = m.aggregate(step.alpha, step.support).slope
    assert (smooth(1e-5).smooth - smooth(-1e-5).smooth) / 2e-5 == pytest.approx(phi @ v, rel=1e-6)
    assert step.smooth <= step.risk + 1e-12 * step.risk


def test_binary_steps_are_those_of_two_labels(rng):
    """One score y s against two of +-s/2: the same problem, with twice the step."""
    X, y, c = rng.normal(size=(50, 6)), rng.integers(0, 2, 50), rng.random(50)
    binary, two = (cls(X, y, sample_weight=c) for cls in (pb.risks.BinaryHinge, pb.risks.MulticlassHinge))
    w = rng.normal(size=6)
    pair = np.concatenate([-w, w]) / 2.0
    mb, mt = LabelMultipliers(binary), LabelMultipliers(two)
    one, other = mb.step(mb.truth(), binary.scores(w), 0.3), mt.step(mt.truth(), two.scores(pair), 0.6)
    np.testing.assert_allclose(one.alpha[:, 0], other.alpha[np.arange(50), 1 - y], atol=1e-14)
    assert one.offset == pytest.approx(other.offset) and one.risk == pytest.approx(other.risk)
    phi = mt.aggregate(other.alpha, other.support).slope.reshape(2, -1)
    np.testing.assert_allclose(mb.aggregate(one.alpha, one.support).slope, phi[1], atol=1e-13)


def test_every_executor_gives_the_same_bits(rng):
    from pybundle.runtime.executors import make_executor

    risk = problem(rng, n=20000, d=3)
    S = rng.normal(size=(20000, 4))
    pool = make_executor(3)
    answers = []
    for r in (risk, risk.derive(executor=pool)):
        m = LabelMultipliers(r)
        step = m.step(m.truth(), S, 0.3)
        answers.append((step, m.aggregate(step.alpha, step.support).slope, m.faces(step).product(np.arange(12.0))))
    pool.close()
    (a, phi_a, p_a), (b, phi_b, p_b) = answers
    assert a[2:] == b[2:] and (a.alpha == b.alpha).all() and (phi_a == phi_b).all() and (p_a == p_b).all()


# ---------------------------------------------------------------------- Newton directions

@pytest.mark.parametrize("kind", ["float64", "csr"])
def test_both_preconditioners_give_the_newton_direction(kind, rng):
    risk = problem(rng, kind, bias=1.0)
    m = LabelMultipliers(risk)
    step = m.step(m.truth(), risk.scores(rng.normal(size=risk.dim) * 0.1), 2.0)
    faces, g, lam, sigma = m.faces(step), rng.normal(size=risk.dim), 0.3, 50.0
    jacobi = NewtonDirection(lam, 9.0, largest_rank=-1, max_iter=500)
    exact, spent = NewtonDirection(lam, 9.0, max_iter=500), [[], []]
    for newton, products in zip((jacobi, exact), spent, strict=True):
        for _ in range(40):
            d, n_products = newton(faces, g, sigma, 1e-9)
            assert np.linalg.norm(lam * d + sigma * faces.product(d) + g) <= 1e-9 * np.linalg.norm(g)
            products.append(n_products)
    assert spent[1][0] == spent[0][0] == spent[0][-1] > 4 >= spent[1][-1]      # a factor pays in the end


@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
@pytest.mark.parametrize("largest", [None, 30])
def test_the_matrix_of_all_weights_is_the_operator(kind, largest, rng):
    classes = problem(rng, kind, bias=1.5, scale=0.5)
    signs = np.where(classes.labels == 0, 1, -1)
    for risk in (classes, pb.risks.BinaryHinge(classes.examples.X, signs, bias=1.5, scale=0.5)):
        m = LabelMultipliers(risk)
        scores = risk.scores(rng.normal(size=risk.dim) * 0.1).astype(np.float64)
        faces = m.faces(m.step(m.truth(), scores, 2.0), largest)
        H = np.tril(faces.matrix())
        H += np.tril(H, -1).T
        columns = np.stack([faces.product(e) for e in np.eye(risk.dim)])
        np.testing.assert_allclose(H, columns, rtol=1e-5, atol=1e-5 * np.abs(H).max())


def test_columns_of_unequal_sizes_take_few_passes():
    """Conjugate gradients with the diagonal alone took 6741 passes on 5000 x 20, to a gap of 1e-3."""
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((1000, 10))
    y = (Z @ rng.standard_normal((10, 4)) + rng.gumbel(size=(1000, 4))).argmax(axis=1)
    risk = pb.risks.MulticlassHinge(Z * np.geomspace(0.1, 100.0, 10) + 50.0, y, bias=1.0)
    found, other = (pb.minimize(risk, lam=1.0, method=name, tol=1e-4) for name in ("alm", "oca"))
    assert found.success and found.n_passes < 250.0
    assert found.lower_bound <= other.fun and other.lower_bound <= found.fun
    auto = pb.minimize(risk, lam=1.0, tol=1e-3)
    assert auto.success and auto.n_passes < 400.0


def test_sampled_faces_stand_for_all(rng):
    risk = problem(rng, n=4000)
    m = LabelMultipliers(risk)
    step = m.step(m.truth(), np.zeros((4000, 4)), 0.1)
    all_of_them, few = m.faces(step), m.faces(step, 500)
    assert few.n_rows <= 500 and few.n_rows * few.fraction == pytest.approx(all_of_them.n_rows)
    v = rng.normal(size=risk.dim)
    whole = all_of_them.product(v)
    assert np.linalg.norm(few.product(v) - whole) < 0.3 * np.linalg.norm(whole)
    assert m.faces(step._replace(support=np.zeros(4000, dtype=np.int32))).n_rows == 0


def test_conjugate_gradients_end_where_they_are_exact(rng):
    H = rng.normal(size=(20, 20))
    H = H @ H.T + np.eye(20)
    g = rng.normal(size=20)
    d, k = conjugate_gradients(lambda v: H @ v, g, lambda r: r / H.diagonal(), 1e-12, 100)
    np.testing.assert_allclose(d, -np.linalg.solve(H, g), rtol=1e-9)
    assert k <= 40 and not conjugate_gradients(lambda v: H @ v, 0.0 * g, lambda r: r, 1e-3, 5)[0].any()


# ---------------------------------------------------------------------- solves

@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("lam", [10.0, 0.1])
def test_agrees_with_oca_to_1e_8(variant, lam, rng):
    risk = problem(rng, **variants(rng)[variant])
    alm = pb.minimize(risk, lam=lam, method="alm", tol=1e-8)
    oca = pb.minimize(risk, lam=lam, method="oca", tol=1e-8)
    assert alm.success and alm.certified and alm.gap <= 1e-8
    assert alm.lower_bound <= oca.fun * (1 + 1e-14) and oca.lower_bound <= alm.fun * (1 + 1e-14)
    assert alm.fun == pytest.approx(oca.fun, rel=2e-8)


@pytest.mark.parametrize("variant", ["plain", "all"])
def test_kkt_of_the_solution(variant, rng):
    """Every label with weight attains the maximum, and w is the point of the multipliers."""
    risk, lam = problem(rng, **variants(rng)[variant]), 0.5
    result = pb.minimize(risk, lam=lam, method="alm", tol=1e-11)
    x = features(risk.examples.X, 1.0, risk.examples.bias)
    alpha, S = result.state.blocks, risk.scores(result.x)
    assert alpha.min() >= 0.0
    np.testing.assert_allclose(alpha.sum(axis=1), risk.sample_weight, atol=1e-12)
    np.testing.assert_allclose(lam * result.x, -slope(risk, x, alpha), atol=2e-5)
    cost = 1.0 - np.eye(4) if risk.loss is None else risk.loss
    u = cost[risk.labels] + S
    assert (alpha * (u.max(axis=1, keepdims=True) - u)).sum() <= 1e-6 * result.fun


@pytest.mark.parametrize("kind", ["float64", "float32", "csr", "uint8"])
def test_every_storage_reaches_the_same_optimum(kind, rng):
    state = rng.bit_generator.state
    risk = problem(rng, kind)
    result = pb.minimize(risk, lam=1.0, method="alm", tol=1e-8)
    assert result.success
    rng.bit_generator.state = state
    dense = problem(rng, kind)
    dense = pb.risks.MulticlassHinge(features(dense.examples.X, dense.examples.scale), dense.labels)
    again = pb.minimize(dense, lam=1.0, method="alm", tol=1e-8)
    assert result.fun == pytest.approx(again.fun, rel=2e-8 if kind != "uint8" else 1e-6)


def test_binary_hinge(rng):
    X, y = rng.normal(size=(200, 8)), rng.integers(0, 2, 200)
    risk = pb.risks.BinaryHinge(X, y, sample_weight=rng.random(200), bias=1.0)
    alm, oca = (pb.minimize(risk, lam=0.3, method=method, tol=1e-9) for method in ("alm", "oca"))
    assert alm.success and alm.fun == pytest.approx(oca.fun, rel=2e-9)


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-9])
def test_bounds_are_monotone_and_below_every_value(tol, rng):
    risk = problem(rng, "float32", n=400)
    result = pb.minimize(risk, lam=0.2, method="alm", tol=tol)
    best = pb.minimize(risk, lam=0.2, method="oca", tol=1e-10)
    history = result.history
    assert result.success and (np.diff(history["lower_bound"]) >= 0.0).all()
    assert (np.diff(history["best_primal"]) <= 0.0).all() and (np.diff(history["n_passes"]) > 0.0).all()
    assert history["lower_bound"].max() <= best.fun * (1 + 1e-12)
    assert history["best_primal"].min() >= best.lower_bound * (1 - 1e-6)        # search values are float32's
    assert result.fun >= best.lower_bound * (1 - 1e-14)


def test_identical_bits_on_repeat_and_for_any_n_jobs(rng):
    risk = problem(rng, "float32", n=9000, d=5)
    runs = [pb.minimize(risk, lam=5.0, method="alm", tol=1e-6, n_jobs=jobs) for jobs in (1, 1, 3)]
    assert all((run.x == runs[0].x).all() and run.lower_bound == runs[0].lower_bound for run in runs)


def test_warm_starts(rng):
    risk = problem(rng, n=500)
    cold = pb.minimize(risk, lam=0.5, method="alm", tol=1e-9)
    again = pb.minimize(risk, lam=0.5, method="alm sigma=100.0", tol=1e-9, warm_start=cold)
    other = pb.minimize(risk, lam=0.3, method="alm", tol=1e-9, warm_start=cold)
    point = pb.minimize(risk, lam=0.5, method="alm", tol=1e-9, w0=cold.x)
    planes = pb.minimize(risk, lam=0.5, method="alm", tol=1e-9,
                         warm_start=pb.minimize(risk, lam=0.5, method="oca", tol=1e-2))
    assert all(run.success for run in (cold, again, other, point, planes))
    assert again.nit <= 3 and again.fun == pytest.approx(cold.fun, rel=2e-9)
    assert point.fun == pytest.approx(cold.fun, rel=2e-9) and planes.fun == pytest.approx(cold.fun, rel=2e-9)
    infeasible = pb.solvers.state.Known(cold.x, cold.fun, blocks=np.ones((500, 3)))
    with pytest.raises(pb.ParameterError, match=r"shape \(n_examples, n_scores\) = \(500, 4\)"):
        pb.minimize(risk, lam=0.5, method="alm", warm_start=infeasible)


def test_refuses_what_it_cannot_solve(rng):
    risk = problem(rng)
    logistic = pb.risks.Logistic(rng.normal(size=(20, 3)), np.arange(20) % 2)
    for other in (logistic, pb.risks.Function(lambda w: (w @ w, 2 * w), 3)):
        with pytest.raises(pb.ParameterError, match="method 'alm' needs a risk whose single examples"):
            pb.minimize(other, lam=1.0, method="alm")
    with pytest.raises(pb.ParameterError, match="no constraints"):
        pb.minimize(risk, penalty=signed(1.0, np.arange(risk.dim) < 2), method="alm")
    for bad in ({"sigma": 0.0}, {"growth": 0.5}, {"kappa": 1.0}):
        with pytest.raises(pb.ParameterError, match=next(iter(bad))):
            pb.minimize(risk, lam=1.0, method="alm", **bad)


def test_limits_callback_and_interrupt_hand_back_a_certificate(rng):
    risk = problem(rng, n=300)
    with pytest.warns(pb.ConvergenceWarning):
        few = pb.minimize(risk, lam=0.1, method="alm", tol=1e-9, max_iter=5)
    assert few.nit == 5 and few.certified and few.status.name == "ITERATION_LIMIT"

    def stop(progress):
        raise KeyboardInterrupt

    for callback, name in ((lambda progress: progress.n_iter == 3, "CALLBACK"), (stop, "INTERRUPTED")):
        result = pb.minimize(risk, lam=0.1, method="alm", tol=1e-9, callback=callback)
        assert result.status.name == name and result.certified and result.lower_bound <= result.fun


@pytest.mark.parametrize("data", ["zeros", "one example", "duplicates", "separable"])
def test_degenerate_data(data, rng):
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 3
    if data == "zeros":
        X[:] = 0.0
    elif data == "one example":
        X, y = X[:1], y[:1]
    elif data == "duplicates":
        X[:] = X[0]
    else:
        X = np.eye(3)[y] * 10.0
    risk = pb.risks.MulticlassHinge(X, y, n_classes=3)
    result = pb.minimize(risk, lam=0.01, method="alm", tol=1e-7, max_iter=2000)
    oca = pb.minimize(risk, lam=0.01, method="oca", tol=1e-7)
    assert result.success and result.fun == pytest.approx(oca.fun, rel=1e-6)


def test_multipliers_of_labels_above_their_weight_are_brought_down():
    """Rounding of a projection may lift their sum above c; a plane of more would lie above the risk."""
    rng = np.random.default_rng(0)
    risk = pb.risks.MulticlassHinge(rng.normal(size=(20, 4)), np.arange(20) % 3)
    alpha = np.where(np.eye(3)[risk.labels] > 0.0, 0.0, rng.uniform(0.2, 0.5, (20, 3)))
    alpha /= alpha.sum(axis=1, keepdims=True)
    m, support = LabelMultipliers(risk), np.full(20, 2)
    plane, further = (m.aggregate(scale * alpha, support) for scale in (1.0, 1.5))
    assert further.offset == pytest.approx(plane.offset) == pytest.approx(20.0)
    np.testing.assert_allclose(further.slope, plane.slope, atol=1e-12)
