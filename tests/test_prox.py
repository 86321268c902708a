"""Proximity operators: optimality, duality, groups in every form, projections, and inputs at the ends of float64."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from pybundle import prox as pp
from pybundle.core.exceptions import InputTypeError, NumericalError, ParameterError

DIM = 9
LABELS = np.array([0, 0, 1, 2, 1, 2, 2, 3, 0])
TREE = [[0], [1, 2], [0, 1, 2], [3, 4, 5], [0, 1, 2, 3, 4, 5], [6, 7, 8], [7]]
CHAIN = [[0, 1, 2], [2, 3, 4, 5], [5, 6, 7], [7, 8, 0]]
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.7])


def q_norm(b, q):
    return np.sum(b**q) ** (1 / q)


def group_norms(x, groups):
    return np.array([np.sqrt(np.sum(x[g] ** 2)) for g in groups])


PARTS = [np.flatnonzero(LABELS == g) for g in range(4)]

# name: (regulariser, R written down once more, N written down once more)
EXACT = {
    "l1": (pp.L1(0.7), lambda x: 0.7 * np.abs(x).sum(), lambda x: 0.7 * np.abs(x).sum()),
    "weighted l1": (pp.L1(np.arange(1, 10) / 5), lambda x: np.arange(1, 10) / 5 @ np.abs(x),
                    lambda x: np.arange(1, 10) / 5 @ np.abs(x)),
    "l2": (pp.L2(1.3), lambda x: 1.3 * np.linalg.norm(x), lambda x: 1.3 * np.linalg.norm(x)),
    "squared l2": (pp.SquaredL2(0.6), lambda x: 0.3 * x @ x, np.linalg.norm),
    "elastic net": (pp.ElasticNet(0.4, 0.8), lambda x: 0.4 * np.abs(x).sum() + 0.4 * x @ x,
                    lambda x: 0.4 * np.abs(x).sum()),
    "group lasso": (pp.L1(WEIGHTS, groups=LABELS), lambda x: WEIGHTS @ group_norms(x, PARTS),
                    lambda x: WEIGHTS @ group_norms(x, PARTS)),
    "group elastic net": (pp.ElasticNet(0.4, 0.8, groups=LABELS),
                          lambda x: 0.4 * group_norms(x, PARTS).sum() + 0.4 * x @ x,
                          lambda x: 0.4 * group_norms(x, PARTS).sum()),
    "squared l1": (pp.SquaredL1(0.5), lambda x: 0.25 * np.abs(x).sum() ** 2, lambda x: np.abs(x).sum()),
    "squared l2,1": (pp.SquaredL1(0.5, groups=LABELS), lambda x: 0.25 * group_norms(x, PARTS).sum() ** 2,
                     lambda x: group_norms(x, PARTS).sum()),
    "l1.3": (pp.Lq(1.3, 0.5), lambda x: 0.5 * np.sum(np.abs(x) ** 1.3), lambda x: q_norm(np.abs(x), 1.3)),
    "l3": (pp.Lq(3.0, 0.5), lambda x: 0.5 * np.sum(np.abs(x) ** 3), lambda x: q_norm(np.abs(x), 3)),
    "l2,1.5": (pp.Lq(1.5, 0.5, groups=LABELS), lambda x: 0.5 * np.sum(group_norms(x, PARTS) ** 1.5),
               lambda x: q_norm(group_norms(x, PARTS), 1.5)),
    "squared l1.5": (pp.SquaredLq(1.5), lambda x: 0.5 * q_norm(np.abs(x), 1.5) ** 2, lambda x: q_norm(np.abs(x), 1.5)),
    "squared l2,4": (pp.SquaredLq(4.0, groups=LABELS), lambda x: 0.5 * q_norm(group_norms(x, PARTS), 4.0) ** 2,
                     lambda x: q_norm(group_norms(x, PARTS), 4.0)),
    "sparse group": (pp.SparseGroupLasso(LABELS, 0.3, WEIGHTS),
                     lambda x: 0.3 * np.abs(x).sum() + WEIGHTS @ group_norms(x, PARTS),
                     lambda x: 0.3 * np.abs(x).sum() + WEIGHTS @ group_norms(x, PARTS)),
    "tree": (pp.TreeGroupLasso(TREE, np.arange(1, 8) / 5), lambda x: np.arange(1, 8) / 5 @ group_norms(x, TREE),
             lambda x: np.arange(1, 8) / 5 @ group_norms(x, TREE)),
}  # fmt: skip
OVERLAPPING = pp.OverlappingGroupLasso(CHAIN, WEIGHTS, sweeps=2000)
ALL = {**EXACT, "overlapping": (OVERLAPPING, lambda x: WEIGHTS @ group_norms(x, CHAIN),
                                lambda x: WEIGHTS @ group_norms(x, CHAIN))}
NORMS = [name for name, (R, value, norm) in EXACT.items() if R.value(np.ones(DIM)) == R.value(2 * np.ones(DIM)) / 2]
every = pytest.mark.parametrize("name", ALL)
exact = pytest.mark.parametrize("name", EXACT)

entries = st.one_of(st.floats(-4, 4), st.integers(-2, 2).map(float), st.just(0.0))
vectors = st.lists(entries, min_size=DIM, max_size=DIM).map(np.array)
steps = st.floats(0.0, 8.0)


def inputs(seed=0):
    """Random, tied, partly and wholly zero, nearly tied, wide."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(DIM)
    yield from (x, np.round(2 * x), np.full(DIM, -1.5), x * (LABELS != 1), np.zeros(DIM),
                1.0 + 1e-15 * np.round(3 * x), x * 10.0 ** rng.integers(-8, 8, DIM))


# optimality


@every
@pytest.mark.parametrize("t", [1e-6, 0.3, 1.0, 5.0, 1e4])
def test_the_kkt_residual_is_rounding(name, t):
    """(x - z) / t is a subgradient of R at z = prox(x)."""
    R, tolerance = ALL[name][0], 1e-14 if name in EXACT else 1e-10
    for x in inputs():
        z = R.prox(x, t)
        assert t * R.subgradient_distance(z, (x - z) / t) <= tolerance * max(np.abs(x).max(), 1e-300)


@given(x=vectors, z=vectors, t=steps)
@every
@settings(max_examples=30)
def test_three_points(name, x, z, t):
    """1/2 |z - p|^2 + 1/2 |x - p|^2 - 1/2 |z - x|^2 <= t R(z) - t R(p), p = prox(x) (Martins et al. 2011, eq. 19)."""
    R, value, _ = ALL[name]
    p = R.prox(x, t)
    left = 0.5 * (np.sum((z - p) ** 2) + np.sum((x - p) ** 2) - np.sum((z - x) ** 2))
    assert left <= t * (value(z) - value(p)) + 1e-9 * (1 + x @ x + z @ z + t * value(z))
    assert np.isclose(R.value(z), value(z), rtol=1e-13)


@given(x=vectors, z=vectors, t=steps)
@every
@settings(max_examples=20)
def test_firmly_nonexpansive(name, x, z, t):
    R = ALL[name][0]
    p, r = R.prox(x, t), R.prox(z, t)
    assert np.sum((p - r) ** 2) <= (p - r) @ (x - z) + 1e-9 * (1 + x @ x + z @ z)


@every
def test_equal_to_a_general_minimiser(name):
    """L-BFGS-B in the sizes of the entries: a prox keeps signs and lowers sizes."""
    R, value, _ = ALL[name]
    for x in list(inputs(1))[:4]:
        size, sign = np.abs(x), np.sign(x)

        def objective(b, size=size):
            return 0.5 * np.sum((b - size) ** 2) + 0.8 * value(b)

        found = min((minimize(objective, start * size + 1e-3, bounds=[(0, None)] * DIM, options={"ftol": 1e-15})
                     for start in (0.0, 0.5, 1.0)), key=lambda result: result.fun)
        z = R.prox(x, 0.8)
        assert objective(np.abs(z)) <= found.fun + 1e-12
        np.testing.assert_allclose(z, sign * found.x, atol=2e-3)
        assert found.fun - objective(np.abs(z)) <= 1e-5


@exact
@given(x=vectors, t=st.floats(0.05, 8.0))
@settings(max_examples=20)
def test_moreau(name, x, t):
    """x = p + t y with y = prox of the conjugate: p and y meet Fenchel's equality, and so do the envelopes."""
    R = EXACT[name][0]
    p = R.prox(x, t)
    y = (x - p) / t
    if name in NORMS:       # conjugate: an indicator, so y is in the dual ball up to rounding
        assert R.dual_norm(y) <= 1 + 1e-12 * (1 + np.abs(x).max() / t)
        y, conjugate = y / max(R.dual_norm(y), 1.0), 0.0
        assert R.dual_norm(0.999 * y) < 1 and R.conjugate(0.999 * y) == 0.0
        assert R.dual_norm(y) == 0.0 or R.conjugate(1.01 * y / R.dual_norm(y)) == np.inf
    else:
        conjugate = R.conjugate(y)
    assert np.isclose(p @ y, R.value(p) + conjugate, rtol=1e-10, atol=1e-12 * (1 + x @ x) / t)
    envelopes = 0.5 * np.sum((x - p) ** 2) + t * R.value(p) + 0.5 * p @ p + t * conjugate
    assert np.isclose(envelopes, 0.5 * x @ x, rtol=1e-10, atol=1e-12)


def test_moreau_against_projections():
    """The prox of a norm is what the projection onto its dual ball leaves."""
    for x in inputs():
        np.testing.assert_allclose(pp.prox_l1(x, 0.6), x - np.clip(x, -0.6, 0.6), rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(pp.prox_l2(x, 0.6), x - pp.project_l2_ball(x, 0.6), rtol=1e-9, atol=1e-15)
        for radius in (0.6, 3.0):
            part = pp.project_l1_ball(x, radius)
            left = np.abs(x - part)         # the prox of radius max |x_k|: what was cut stands at one level
            np.testing.assert_allclose(left[part != 0], left.max(), rtol=1e-9, atol=1e-15)



# duality


@every
def test_dual_norm_is_its_definition(name):
    """max <x, y> over N(x) <= 1, by search from many starts; never below what the search finds."""
    R, _, norm = ALL[name]
    y = np.round(np.random.default_rng(3).standard_normal(DIM), 1)
    b, dual = np.abs(y), R.dual_norm(y)
    found = max(-minimize(lambda z: -(b @ z) / norm(z), start, bounds=[(1e-9, None)] * DIM).fun
                for start in [b + 0.01, *(np.eye(DIM) + 1e-3)])
    assert found <= dual * (1 + 1e-9)
    assert dual <= found * (1.02 if name in EXACT else 1.3)     # where groups overlap an upper bound


@exact
@given(x=vectors, y=vectors)
@settings(max_examples=20)
def test_fenchel_young_and_hoelder(name, x, y):
    R, _, norm = EXACT[name]
    if name not in NORMS:
        assert x @ y <= R.value(x) + R.conjugate(y) + 1e-10 * (1 + abs(x @ y))
    dual = R.dual_norm(y)
    assert abs(x @ y) <= norm(x) * dual * (1 + 1e-12) + 1e-12


@every
@given(x=vectors, g=vectors, z=vectors)
@settings(max_examples=20)
def test_subgradient_distance(name, x, g, z):
    """The distance never falls below what the subgradient inequality proves, and 0 means a subgradient."""
    R = ALL[name][0]
    distance = R.subgradient_distance(x, g)
    # <g - s, z - x> >= <g, z - x> + R(x) - R(z) for a subgradient s
    shown = g @ (z - x) + R.value(x) - R.value(z)
    assert shown <= distance * np.linalg.norm(z - x) + 1e-9 * (1 + np.abs(z).max() ** 3)
    if name in EXACT:                           # where groups overlap, the prox and its distance are inexact
        p = R.prox(x + g)
        assert R.subgradient_distance(p, x + g - p) <= 1e-9


@pytest.mark.parametrize("name", NORMS)
def test_zero_from_the_dual_norm_on(name):
    R = EXACT[name][0]
    y = np.random.default_rng(4).standard_normal(DIM)
    assert not R.prox(y, R.dual_norm(y) * (1 + 1e-14)).any()
    assert R.prox(y, R.dual_norm(y) * (1 - 1e-9)).any()


# single operators


@given(x=st.lists(entries, min_size=1, max_size=30).map(np.array), t=st.floats(1e-3, 1e3))
def test_algorithm_2_as_printed(x, t):
    y = np.sort(np.abs(x))[::-1]
    j = np.arange(1, len(y) + 1)
    inside = y - t / (1 + j * t) * np.cumsum(y) > 0
    rho = int(j[inside].max(initial=0))
    tau = t / (1 + rho * t) * y[:rho].sum()
    expected = np.sign(x) * np.maximum(np.abs(x) - tau, 0)
    np.testing.assert_allclose(pp.prox_squared_l1(x, t), expected, rtol=1e-12, atol=1e-13)


@given(x=st.lists(entries, min_size=1, max_size=30).map(np.array), radius=st.floats(1e-3, 100))
def test_simplex_by_sorting(x, radius):
    u = np.sort(x)[::-1]
    excess = (np.cumsum(u) - radius) / np.arange(1, len(u) + 1)
    tau = excess[np.flatnonzero(u > excess)[-1]]
    np.testing.assert_allclose(pp.project_simplex(x, radius), np.maximum(x - tau, 0), atol=1e-13 * (1 + radius))


def test_sets_that_shrink_slowly_are_sorted():
    """Levels so far apart that a round drops one of them: the sort takes over after 48 rounds."""
    x = np.repeat(-(2.0 ** np.arange(0, 1000, 8)), 3)
    rng = np.random.default_rng(0)
    for y, radius in ((rng.permutation(x), 1e-3), (rng.permutation(x), 1e200), (-np.arange(1e5), 7.0)):
        z = pp.project_simplex(y, radius)
        assert np.isclose(z.sum(), radius, rtol=1e-14)
        above = y[z > 0]
        tau = (y - z)[z > 0]
        assert np.ptp(tau) <= 1e-14 * (np.abs(above).max() + radius)


@pytest.mark.parametrize("q", [1.01, 1.25, 1.5, 2.0, 3.0, 7.5, 60.0])
@pytest.mark.parametrize("t", [1e-300, 1e-12, 1e-2, 1.0, 1e3, 1e12, 1e300])
def test_power_equations(q, t):
    rng = np.random.default_rng(0)
    x = 10.0 ** np.concatenate([rng.uniform(-3, 3, 200), rng.uniform(-300, 300, 200)])
    b = pp.prox_lq(x, t, q)
    assert (b >= 0).all() and (b <= x).all()
    usual = slice(0, 200)
    with np.errstate(over="ignore"):
        power = t * q * b[usual] ** (q - 1)
    fine = np.isfinite(power) & (b[usual] > 1e-290)
    np.testing.assert_allclose((b[usual] + power)[fine], x[usual][fine], rtol=1e-13 * max(1.0, 1e-2 * q))
    # everywhere: in logarithms
    large = b > 1e-290
    term = np.exp(np.log(t * q) + (q - 1) * np.log(b[large]) - np.log(x[large]))
    np.testing.assert_allclose(b[large] / x[large] + term, 1.0, rtol=1e-12 * (1 + q))


@pytest.mark.parametrize("q", [1.5, 2.0, 3.0])
def test_powers_with_closed_forms(q):
    a, t = np.linspace(0, 5, 50), 0.7
    expected = {1.5: (np.sqrt((0.75 * t) ** 2 + a) - 0.75 * t) ** 2, 2.0: a / (1 + 2 * t),
                3.0: (np.sqrt(1 + 12 * t * a) - 1) / (6 * t)}[q]
    np.testing.assert_allclose(pp.prox_lq(a, t, q), expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(pp.prox_squared_lq(a, t, 2.0), a / (1 + t), rtol=1e-14)


@pytest.mark.parametrize("q", [1.01, 1.1, 1.5, 2.0, 3.0, 20.0])
@pytest.mark.parametrize("t", [1e-200, 1e-6, 1.0, 1e4, 1e200])
@pytest.mark.parametrize("scale", [1e-250, 1.0, 1e250])
def test_squared_mixed_norms(q, t, scale):
    """b + t B^(2-q) b^(q-1) = a in units of B."""
    a = np.r_[np.abs(np.random.default_rng(0).standard_normal(50)), 1.0, 1.0, 0.0]
    b = pp.prox_squared_lq(scale * a, t, q) / scale
    largest = b.max()
    if largest * scale < 1e-290:
        return
    B = largest * q_norm(b / largest, q)
    kept = np.minimum(b, b * scale) > 1e-290       # near q = 1 sizes fall far below the range of float64
    np.testing.assert_allclose((b + (t * B) * (b / B) ** (q - 1))[kept], a[kept], rtol=4e-15 * max(q, 1 / (q - 1)))


def test_limits_of_q():
    """Near 1 and for large q the squared norms meet those of l1 and of the maximum."""
    x = np.random.default_rng(0).standard_normal(20)
    np.testing.assert_allclose(pp.prox_squared_lq(x, 0.3, 1.0005), pp.prox_squared_l1(x, 0.3), atol=5e-3)
    z = pp.prox_squared_lq(x, 0.3, 2000.0)
    # Moreau: t/2 max^2 is conjugate to 1/(2t) |.|_1^2
    np.testing.assert_allclose(z, x - 0.3 * pp.prox_squared_l1(x / 0.3, 1 / 0.3), atol=5e-3)


@pytest.mark.parametrize("sweeps", [1, 2, 5, 50])
def test_the_stated_inexactness(sweeps):
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, t = rng.standard_normal(DIM), rng.random()
        z, gap = pp.OverlappingGroupLasso(CHAIN, WEIGHTS, sweeps=sweeps).prox_with_gap(x, t)
        best = OVERLAPPING.prox(x, t)
        assert np.sum((z - best) ** 2) <= 2 * gap + 1e-15
        values = [0.5 * np.sum((x - v) ** 2) + t * OVERLAPPING.value(v) for v in (z, best)]
        assert -1e-12 <= values[0] - values[1] <= gap + 1e-12
        assert np.array_equal(pp.OverlappingGroupLasso(CHAIN, WEIGHTS, sweeps).prox(x, t), z)


def test_trees_are_exact_in_one_round_and_contain_the_others():
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.standard_normal(DIM)
        assert pp.TreeGroupLasso(TREE).prox_with_gap(x, 0.3)[1] <= 1e-14
        leaves = [[k] for k in range(DIM)]
        as_tree = pp.TreeGroupLasso([*PARTS, *leaves], np.r_[WEIGHTS, np.full(DIM, 0.3)])
        np.testing.assert_allclose(as_tree.prox(x), EXACT["sparse group"][0].prox(x), atol=1e-15)
        np.testing.assert_allclose(as_tree.dual_norm(x), EXACT["sparse group"][0].dual_norm(x), rtol=1e-14)
        z = rng.standard_normal(DIM) * (rng.random(DIM) < 0.5)
        np.testing.assert_allclose(as_tree.subgradient_distance(z, x),
                                   EXACT["sparse group"][0].subgradient_distance(z, x), rtol=1e-12)
        np.testing.assert_allclose(pp.prox_tree(x, 0.4, [slice(None)]), pp.prox_l2(x, 0.4), atol=1e-15)
        np.testing.assert_allclose(pp.prox_overlapping(x, 0.4, LABELS), pp.prox_l1(x, 0.4, LABELS), atol=1e-15)


# projections


PROJECTIONS = {
    "simplex": (pp.project_simplex, lambda z, r: abs(z.sum() - r) + np.maximum(-z, 0).sum()),
    "l1": (pp.project_l1_ball, lambda z, r: max(np.abs(z).sum() - r, 0)),
    "l2": (pp.project_l2_ball, lambda z, r: max(np.linalg.norm(z) - r, 0)),
    "l2,1": (lambda x, r: pp.project_l1_ball(x, r, LABELS), lambda z, r: max(group_norms(z, PARTS).sum() - r, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROJECTIONS)
@given(x=vectors, w=vectors, radius=st.floats(0, 10))
@settings(max_examples=50)
def test_projections(name, x, w, radius):
    project, excess = PROJECTIONS[name]
    z, other = project(x, radius), project(w, radius)
    assert excess(z, radius) <= 1e-14 * (radius + 1e-3)
    np.testing.assert_allclose(project(z, radius), z, rtol=0, atol=1e-14 * (radius + 1e-3))
    assert (x - z) @ (other - z) <= 1e-12 * (1 + x @ x + w @ w)      # the angle at the nearest point
    if name != "simplex" and excess(x, radius) == 0:
        np.testing.assert_array_equal(z, x)


@pytest.mark.parametrize("radius", [1e-300, 1e-12, 1e-3, 1.0, 1e300])
def test_a_radius_far_from_the_values_is_kept(radius):
    for x in (np.full(1000, 1e10), np.random.default_rng(0).standard_normal(1000), np.full(7, -1e300)):
        assert np.isclose(np.sum(pp.project_simplex(x, radius) / radius), 1.0, rtol=1e-13)
        z = pp.project_l1_ball(x, radius)
        assert np.isclose(np.sum(np.abs(z) / radius), 1.0, rtol=1e-13) or np.array_equal(z, x)


# groups


@st.composite
def partitions(draw):
    labels = draw(st.lists(st.integers(0, 4), min_size=1, max_size=30))
    return np.unique(labels, return_inverse=True)[1]


@given(labels=partitions(), contiguous=st.booleans(), seed=st.integers(0, 99))
def test_three_forms_give_equal_bits(labels, contiguous, seed):
    rng = np.random.default_rng(seed)
    if contiguous:
        labels = np.sort(labels)
    d, p = len(labels), int(labels.max()) + 1
    arrays = [rng.permutation(np.flatnonzero(labels == g)) for g in range(p)]
    forms = [pp.Groups(labels), pp.Groups(labels.tolist()), pp.Groups(arrays, d),
             pp.Groups([list(a) for a in arrays], d)]
    if contiguous:
        forms.append(pp.Groups([slice(int(a.min()), int(a.max()) + 1) for a in arrays], d))
    x = rng.standard_normal(d)
    for operator in (pp.prox_l1, pp.prox_squared_l1, pp.project_l1_ball,
                     lambda x, t, groups: pp.prox_lq(x, t, 1.5, groups),
                     lambda x, t, groups: pp.prox_sparse_group(x, t, t, groups)):
        results = [operator(x, 0.4, form) for form in (*forms, labels)]
        assert all(np.array_equal(results[0], other) for other in results[1:])
    np.testing.assert_allclose(forms[0].norms(x), group_norms(x, arrays), rtol=1e-14)
    assert np.array_equal(forms[0].spread(np.arange(p)), labels)
    assert np.array_equal(forms[0].scale(x, np.arange(p)), x * labels)
    covers = [pp.OverlappingGroups(form, d) for form in (labels, arrays)]
    assert all(cover.is_tree for cover in covers)
    assert np.array_equal(pp.prox_tree(x, 0.4, covers[0]), pp.prox_tree(x, 0.4, covers[1]))


def test_slices_with_steps_and_groups_in_any_order():
    groups = pp.Groups([slice(-2, None), slice(0, 4, 2), slice(3, 0, -2)], 6)
    assert groups.order.tolist() == [4, 5, 0, 2, 1, 3]
    assert np.array_equal(groups.spread([0, 1, 2]), [1, 2, 1, 2, 0, 0])
    x = np.arange(1.0, 7.0)
    assert np.array_equal(groups.norms(x)[2:], [np.sqrt(20.0)])
    assert np.array_equal(pickle.loads(pickle.dumps(groups)).norms(x), groups.norms(x))


def test_norms_alone_are_enough():
    """Online-MKL: the prox of the norms gives the factors of the groups."""
    x = np.random.default_rng(0).standard_normal(DIM)
    groups = pp.Groups(LABELS)
    norms = groups.norms(x)
    for name, (R, _, _) in EXACT.items():
        if R.groups is None or isinstance(R, (pp.SparseGroupLasso, pp.TreeGroupLasso)):
            continue
        factors = R.factors(norms, 0.4)
        assert ((factors >= 0) & (factors <= 1)).all(), name
        np.testing.assert_allclose(groups.scale(x, factors), R.prox(x, 0.4), rtol=1e-15)
        np.testing.assert_allclose(factors * norms, R.shrink(norms, 0.4), rtol=1e-15)
    assert np.array_equal(pp.SquaredL1().factors([0.0, 2.0, 0.0]), [0.0, 0.5, 0.0])
    np.testing.assert_allclose(pp.L2().factors(norms, 0.4) @ norms**2, pp.prox_l2(x, 0.4) @ x)


@given(seed=st.integers(0, 200))
def test_trees_are_recognised(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 7))
    groups = [np.flatnonzero(rng.random(d) < 0.5) for _ in range(3)] + [np.arange(d)]
    groups = [g for g in groups if len(g)]
    sets = [set(g.tolist()) for g in groups]
    nested = all(a <= b or b <= a or not a & b for a in sets for b in sets)
    assert pp.OverlappingGroups(groups, d).is_tree == nested


# the ends of float64


@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_in_exact_arithmetic(seed):
    """Steps and radii over 36 decades: errors of a few units in the last place of the largest result."""
    rng = np.random.default_rng(seed)

    def threshold(y, mass, c):
        total, count = Fraction(0), 0
        for v in sorted(map(Fraction, y.tolist()), reverse=True):
            if count and v * (count + c) <= total - mass:
                break
            total, count = total + v, count + 1
        return (total - mass) / (count + c)

    for _ in range(100):
        n = int(rng.integers(1, 40))
        y = np.abs(rng.standard_normal(n))
        y = [y, np.round(3 * y), y * 10.0 ** rng.integers(-15, 15, n), 1 + 1e-12 * y][rng.integers(4)]
        t, radius, x = 10.0 ** rng.uniform(-18, 18), 10.0 ** rng.uniform(-12, 12), y * rng.choice([-1.0, 1.0], n)
        for z, v, mass, c in ((pp.prox_squared_l1(y, t), y, 0, 1 / Fraction(t)),
                              (pp.project_simplex(x, radius), x, Fraction(radius), 0)):
            tau = threshold(v, mass, c)
            expected = [max(Fraction(k) - tau, Fraction(0)) for k in v.tolist()]
            error = max(abs(Fraction(a) - b) for a, b in zip(z.tolist(), expected, strict=True))
            assert error <= max(expected) * Fraction(1e-15)


@every
@pytest.mark.parametrize("scale", [1e300, 1e-300, 5e-324])
def test_huge_and_tiny(name, scale):
    """Norms are positively homogeneous, squares of degree two: the prox scales with x where t follows."""
    R = ALL[name][0] if name in EXACT else pp.OverlappingGroupLasso(CHAIN, WEIGHTS)
    x = np.array([1.0, -2.0, 3.0, 0.0, 2.0, 2.0, -1.0, 4.0, 1.0])
    degree = round(np.log2(R.value(2 * np.ones(DIM)) / R.value(np.ones(DIM))), 3)
    t = 0.5 * scale if degree == 1 else 0.5
    z = R.prox(scale * x, t)
    assert np.isfinite(z).all() and (np.abs(z) <= np.abs(scale * x)).all()
    if name in EXACT and scale != 5e-324 and z.any():       # l1.3 of 1e-300 is far below the range
        assert t * R.subgradient_distance(z, (scale * x - z) / t) <= 1e-14 * 4 * scale
    assert (z * x >= 0).all()
    if degree in (1, 2) and not isinstance(R, pp.ElasticNet) and scale != 5e-324:
        np.testing.assert_allclose(z / scale, R.prox(x, 0.5), rtol=1e-13, atol=1e-15)
    assert R.dual_norm(scale * x) > 0
    assert R.subgradient_distance(z, np.zeros(DIM)) >= 0


@pytest.mark.parametrize("t", [0.0, 5e-324, 1e-310, 1e-300, 1e-20, 1e20, 1e300, 1.7e308])
def test_algorithm_2_at_extreme_steps(t):
    """x - z = t sum |z| holds to the last digits, although the result may be 1e300 times smaller than x."""
    for x in (np.array([3.0, -2.0, 1e-20, 0.0]), np.full(5, -1.0), np.array([1.0, 1.0 - 1e-12])):
        z = pp.prox_squared_l1(x, t)
        total = np.abs(z).sum()
        away = z != 0
        np.testing.assert_allclose(np.abs(x)[away] - np.abs(z)[away], t * total, rtol=4e-15, atol=1e-15)
        assert (np.abs(x)[~away] <= t * total * (1 + 1e-14) + 1e-16 * np.abs(x).max()).all()
    assert np.array_equal(pp.prox_squared_l1([1.0, 1e-20], 1e-25), [1.0, 1e-20 - 1e-25])


@pytest.mark.parametrize("scale", [1.7e308, 1e300, 1e-300, 5e-324])
def test_sums_beyond_the_range(scale):
    """Sums of 1e5 huge numbers are never formed."""
    x = np.full(100_000, scale)
    if scale > 1:
        np.testing.assert_allclose(pp.prox_squared_l1(x, 1e-5), scale / 2, rtol=1e-15)
        assert np.isclose(np.sum(pp.project_simplex(x, 1.0)), 1.0)
        assert np.isclose(np.sum(pp.project_l1_ball(-x, scale) / scale), -1.0)
    else:
        assert (pp.prox_squared_l1(x, 1e-5) <= scale).all()
        assert (pp.project_l1_ball(x, 1.0) == scale).all()
    assert np.array_equal(pp.project_simplex([-1.7e308, 1.7e308, 0.0], 2.0), [0.0, 2.0, 0.0])
    assert np.array_equal(pp.project_simplex([-1.7e308], 1.7e308), [1.7e308])
    assert np.array_equal(pp.project_simplex([-1.0, -2.0], 0.0), [0.0, 0.0])


def test_norms_beyond_the_range():
    groups = pp.Groups([0, 0, 1, 1])
    assert np.allclose(groups.norms([3e300, 4e300, 3e-300, 4e-300]) / [1e300, 1e-300], 5.0, rtol=1e-15)
    assert groups.norms([5e-324, 0.0, 0.0, 0.0]).tolist() == [5e-324, 0.0]
    with pytest.raises(NumericalError, match="norm of each group, got inf for group 1; scale x down"):
        pp.prox_l1([0.0, 0.0, 1.7e308, 1.7e308], 1.0, groups)


# determinism


def test_equal_bits_again_and_in_threads():
    rng = np.random.default_rng(0)
    x, groups = rng.standard_normal(4000), pp.Groups(rng.integers(0, 500, 4000) % 499)
    chain = pp.OverlappingGroups([np.arange(k, k + 40) for k in range(0, 3961, 20)], 4000)
    jobs = [lambda: pp.prox_squared_l1(x, 0.01, groups), lambda: pp.prox_squared_lq(x, 0.1, 1.5, groups),
            lambda: pp.project_simplex(x, 3.0), lambda: pp.prox_overlapping(x, 0.1, chain, 3)]
    first = [job() for job in jobs]
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda job: job(), jobs * 8))
    assert all(np.array_equal(first[k % 4], result) for k, result in enumerate(again))


def test_inputs_are_left_alone():
    x = np.random.default_rng(0).standard_normal(DIM)
    kept = x.copy()
    for R, _, _ in ALL.values():
        for t in (0.0, 0.5):
            z = R.prox(x, t)
            assert not np.shares_memory(z, x) and np.array_equal(x, kept)
        assert np.array_equal(R.prox(x, 0.0), x)
    assert not np.shares_memory(pp.project_l1_ball(x, 1e9), x)


def test_empty_vectors():
    empty = np.zeros(0)
    for R in (pp.L1(), pp.L2(), pp.SquaredL2(), pp.ElasticNet(), pp.SquaredL1(), pp.Lq(1.5), pp.SquaredLq(3.0)):
        assert R.prox(empty).shape == (0,) and R.value(empty) == 0 and R.dual_norm(empty) == 0
    assert pp.project_l1_ball(empty).shape == pp.project_l2_ball(empty).shape == (0,)


# errors

G = [[0, 1], [2]]


@pytest.mark.parametrize("call, text", [
    (lambda: pp.Groups([[0, 1], [1, 2]], 3), r"overlap, but feature 1 is in the groups 0 and 1; .*OverlappingGroups"),
    (lambda: pp.Groups([slice(0, 2), slice(1, 3)], 3), "feature 1 is in the groups 0 and 1"),
    (lambda: pp.Groups([[0, 0], [1]], 2), "feature 0 is twice in group 0"),
    (lambda: pp.Groups(G, 5), r"every feature 0..4, but 2 of them, feature 3 first, are in no group; add them"),
    (lambda: pp.OverlappingGroups([[0, 1], [1, 2]], 4), r"every feature 0..3, but 1 of them, feature 3 first"),
    (lambda: pp.OverlappingGroups([[0, 1], [1, 2, 1]], 3), r"feature 1 is twice in group 1; pass np.unique"),
    (lambda: pp.Groups([[0, 1], [2, 7]], 3), r"groups\[1\] must hold features 0..2, got 7"),
    (lambda: pp.Groups([[0, -1], [2]], 3), r"groups\[0\] must hold features 0..2, got -1"),
    (lambda: pp.Groups([slice(0, 4)], 3), r"groups\[0\] must lie within the features 0..2, got slice\(0, 4"),
    (lambda: pp.Groups([[0, 1, 2], []], 3), r"groups\[1\] must hold at least one feature, got none"),
    (lambda: pp.Groups([], 3), "at least one group, got none"),
    (lambda: pp.Groups(G), "dim must be the number of features .* got None"),
    (lambda: pp.Groups([0, 2, 2]), "no feature has the label 1; .*np.unique"),
    (lambda: pp.Groups([0, -1]), "labels 0..p-1, every one used, got -1"),
    (lambda: pp.Groups([0, 9]), "got 9 among 2 labels"),
    (lambda: pp.Groups([0, 1], 3), "one label for each of the 3 features, got 2"),
    (lambda: pp.prox_l1(np.ones(4), 1.0, pp.Groups([0, 1, 1])), "groups have 3 features, but x has 4"),
    (lambda: pp.prox_tree(np.ones(3), 1.0, [[0, 1], [1, 2]]), "tree, but the groups 0 and 1 overlap and neither"),
    (lambda: pp.prox_tree(np.ones(3), 1.0, pp.OverlappingGroups([[0, 1], [1, 2]], 3)), "must form a tree"),
    (lambda: pp.prox_l1([1.0], -1.0), "t must be a finite number >= 0, got -1.0"),
    (lambda: pp.prox_l2([1.0], np.nan), "t must be a finite number >= 0, got nan"),
    (lambda: pp.prox_squared_l1([1.0], np.inf), "t must be a finite number >= 0, got inf"),
    (lambda: pp.prox_elastic_net([1.0], 1.0, -2.0), "l2 must be a finite number >= 0, got -2.0"),
    (lambda: pp.prox_elastic_net([1.0], np.nan, 1.0), "l1 must be a finite number >= 0, got nan"),
    (lambda: pp.prox_sparse_group([1.0], 1.0, np.nan, [0]), "l2 must be a finite number >= 0, got nan"),
    (lambda: pp.prox_lq([1.0], 1.0, 1.0), "q must be a finite number > 1, got 1.0"),
    (lambda: pp.prox_squared_lq([1.0], 1.0, np.nan), "q must be a finite number > 1, got nan"),
    (lambda: pp.prox_overlapping([1.0], 1.0, [0], 0), "sweeps must be an integer >= 1, got 0"),
    (lambda: pp.L1(-0.5), "rate must be a finite number >= 0, got -0.5"),
    (lambda: pp.L1([1.0, -0.5]), "rate must be a finite number >= 0 or a vector of them, got -0.5 at index 1"),
    (lambda: pp.L1([1.0, np.nan]), "got nan at index 1"),
    (lambda: pp.L1([[1.0]]), r"got shape \(1, 1\)"),
    (lambda: pp.L1([1.0, 2.0]).prox(np.ones(3)), r"rate must be a number or have shape \(3,\), .* got \(2,\)"),
    (lambda: pp.SquaredL1(0.0), "rate must be a finite number > 0, got 0.0"),
    (lambda: pp.project_simplex([1.0], -1.0), "radius must be a finite number >= 0, got -1.0"),
    (lambda: pp.project_l1_ball([1.0], np.nan), "radius must be a finite number >= 0, got nan"),
    (lambda: pp.project_l21_ball([1.0], -1.0, [0]), "radius must be a finite number >= 0, got -1.0"),
    (lambda: pp.project_l2_ball([1.0], -1.0), "radius must be a finite number >= 0, got -1.0"),
    (lambda: pp.project_simplex([]), "x must have at least one entry"),
    (lambda: pp.prox_l1([1.0, np.nan], 1.0), "x must be finite, got nan at index 1"),
    (lambda: pp.prox_l1([[1.0]], 1.0), r"x must be a vector, got shape \(1, 1\)"),
    (lambda: pp.SquaredL1().shrink([1.0, -2.0]), "norms must be >= 0, got -2.0 at index 1"),
    (lambda: pp.Groups([0, 1]).scale([1.0, 2.0], [1.0]), r"factors must have shape \(2,\), got \(1,\)"),
])  # fmt: skip
def test_wrong_values(call, text):
    with pytest.raises(ParameterError, match=text):
        call()


@pytest.mark.parametrize("call, text", [
    (lambda: pp.Groups("01"), "groups must be a vector of labels or a list"),
    (lambda: pp.Groups(3), "groups must be a vector of labels or a list"),
    (lambda: pp.Groups([0.0, 1.0]), "groups must be integers, got dtype float64"),
    (lambda: pp.Groups([[0.5], [1]], 2), r"groups\[0\] must be integers, got dtype float64"),
    (lambda: pp.Groups([slice("a", "b")], 2), r"groups\[0\] must be a slice of integers"),
    (lambda: pp.Groups([0, 1]).norms(["a", "b"]), "x must be an array of real numbers"),
    (lambda: pp.prox_l1([1.0], "1"), "t must be a real number, got '1'"),
    (lambda: pp.prox_l1(["a"], 1.0), "x must be a vector of real numbers"),
    (lambda: pp.L1(["a"]), "rate must be a number >= 0 or a vector"),
    (lambda: pp.L1(None), "rate must be a real number, got None"),
    (lambda: pp.Lq("2"), "q must be a real number"),
])  # fmt: skip
def test_wrong_types(call, text):
    with pytest.raises(InputTypeError, match=text):
        call()


def test_none_is_no_bound():
    x = [-3.0, 4.0]
    assert pp.Box(None, 1.0).prox(x).tolist() == [-3.0, 1.0] and pp.Box(0.0, None).prox(x).tolist() == [0.0, 4.0]
    assert pp.Box([None, 5.0], [-4.0, None]).prox(x).tolist() == [-4.0, 5.0]


def test_a_sum_whose_prox_is_not_known_names_what_is():
    with pytest.raises(ParameterError, match=r"L1 with groups can be added to .* got L1; .*SparseGroupLasso"):
        pp.L1(groups=[0, 0, 1]) + pp.L1()


def test_penalties_print_as_the_calls_that_make_them():
    for text in ("L1()", "L1(rate=2.0)", "ElasticNet(l1=0.5)", "Box(lower=0.0)", "SquaredLq(q=1.5, rate=2.0)",
                 "TreeGroupLasso(groups=[[0], [0, 1]])", "L1(rate=0.1) + Box(upper=3.0)"):
        assert repr(eval(text, vars(pp))) == text
    assert repr(pp.SquaredL2(np.ones(3), centre=1.0)) == "SquaredL2(rate=array of shape (3,), centre=1.0)"
