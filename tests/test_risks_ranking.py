"""The risk of ranking: all pairs listed, planes below it, parts, threads, workers, certificates, refusals."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import proofs
from reference.ranking_problems import pairs, twin
from reference.workers import InTurn

import pybundle as pb
from pybundle.core._pairs import pair_sums
from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.distributed.workplace import excerpt, grouped
from pybundle.risks import Ranking

FORMS = [(form, margin, weight) for form in ("hinge", "squared") for margin in ("unit", "difference")
         for weight in (None, "difference")]


def data(n=300, d=4, n_groups=20, seed=0, kind="few"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X[:, 0] + 0.5 * rng.standard_normal(n)
    return X, np.clip(np.round(y), -1, 1) if kind == "few" else y, rng.integers(0, n_groups, n)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 10**6), form=st.sampled_from(FORMS), is_censored=st.booleans(),
       kind=st.sampled_from(["tied", "any", "far", "large"]))
def test_values_and_planes_against_listed_pairs(seed, form, is_censored, kind):
    """In exact arithmetic values miss by no more than their errors, and no plane lies above by more than its own."""
    rng = np.random.default_rng(seed)
    n, n_groups = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    X = rng.integers(-2, 3, (n, 2)) * 1.0 if kind == "tied" else rng.standard_normal((n, 2))
    X = X + 1e6 if kind == "far" else X * 1e8 if kind == "large" else X
    y = rng.integers(0, 3, n) * 1.0 if rng.random() < 0.7 else rng.random(n)
    groups = np.unique(rng.integers(0, n_groups, n), return_inverse=True)[1]
    event, weights = rng.random(n) < 0.7 if is_censored else None, rng.integers(0, 4, groups.max() + 1) * 0.7
    if not pairs(y, groups, event):
        with pytest.raises(ParameterError, match="y must have different grades in a group"):
            Ranking(X, y, groups, event)
        return
    options = dict(zip(("form", "margin", "pair_weight"), form, strict=True)) | {"group_weight": weights}
    risk = Ranking(X, y, groups, event, n_parts=2, **options)
    exact = twin(X, y.tolist(), groups.tolist(), event, **options)
    assert risk.n_pairs == len(pairs(y, groups, event))
    for w in (np.zeros(2), rng.standard_normal(2) / np.abs(X).max()):
        planes, (values, errors), true = risk.planes(w), risk.values(w), float(exact.value(w)[0])
        assert abs(values.sum() - true) <= errors.sum() + 1e-15 * true
        assert errors.sum() <= 1e-8 * (1.0 + true)
        assert np.isclose(planes.values.sum(), true, rtol=1e-8, atol=1e-6)
        assert np.isclose(planes.offsets.sum() + planes.slopes.sum(axis=0) @ w, true, rtol=1e-6, atol=1e-5)
        assert risk.slope_sizes is None or (np.linalg.norm(planes.slopes, axis=1) <= risk.slope_sizes + 1e-300).all()
        for v in (w, -w, rng.standard_normal(2) * 10.0 ** rng.uniform(-9, 1)):
            high = exact.value(v)[1]
            height = planes.offsets.sum() + planes.slopes.sum(axis=0) @ v
            allowed = (planes.slope_errors.sum() + 4e-16 * np.abs(planes.slopes).sum()) * np.linalg.norm(v)
            assert height <= float(high) + allowed + 4e-16 * np.abs(planes.offsets).sum()


def test_sums_over_pairs_of_long_groups():
    """Long runs are sorted by merging; both sides of a pair count it."""
    rng = np.random.default_rng(0)
    for n, grades in ((700, 2), (700, 5), (700, 700)):
        key, grade = np.round(rng.standard_normal(n), 2), np.sort(rng.integers(0, grades, n) * 1.0)
        runs = np.r_[np.flatnonzero(np.diff(grade, prepend=-1.0)), n].astype(np.int32)
        for weighted in (False, True):
            for power in (1, 2):
                up, down, value = np.empty(n), np.empty(n), np.empty(1)
                pair_sums(key, grade, np.empty(0, np.uint8), runs, np.array([0, len(runs) - 1], np.int32), np.ones(1),
                          weighted, power, up, down, value)
                h = key[None, :] - (key - 1.0)[:, None]
                c = (grade[:, None] > grade[None, :]) * (grade[:, None] - grade[None, :] if weighted else 1.0) * (h > 0)
                assert np.allclose(up, (c * h ** (power - 1)).sum(axis=1), rtol=1e-12)
                assert np.allclose(down, (c * h ** (power - 1)).sum(axis=0), rtol=1e-12)
                assert np.isclose(value[0], (c * h**power).sum(), rtol=1e-12)


@pytest.mark.parametrize("seed", range(24))
def test_errors_of_sums_over_pairs_are_as_claimed(seed):
    """In rational arithmetic, for groups of one block and of many."""
    rng = np.random.default_rng(seed)
    n, n_grades, power, weighted = int(rng.integers(10, 90)), int(rng.choice([2, 5, 90])), 1 + seed % 2, seed % 4 > 1
    key, grade = rng.standard_normal(n) * 10.0 ** rng.uniform(-3, 2, n), np.sort(rng.integers(0, n_grades, n) * 0.7)
    event = (rng.random(n) < 0.6).astype(np.uint8) if seed % 3 else np.empty(0, np.uint8)
    runs = np.r_[np.flatnonzero(np.diff(grade, prepend=-1.0)), n].astype(np.int32)
    up, down, value, shift = np.empty(n), np.empty(n), np.empty(1), 0.3
    pair_sums(key, grade, event, runs, np.array([0, len(runs) - 1], np.int32), np.full(1, shift), weighted, power, up,
              down, value)
    ups, downs, total = [Fraction(0)] * n, [Fraction(0)] * n, Fraction(0)
    for i, j in pairs(grade, np.zeros(n), event if len(event) else None):
        h = Fraction(key[j]) - Fraction(key[i] - shift)
        if h > 0:
            term = (Fraction(grade[i]) - Fraction(grade[j]) if weighted else 1) * h ** (power - 1)
            ups[i], downs[j], total = ups[i] + term, downs[j] + term, total + term * h
    for found, true in zip([*up, *down], ups + downs, strict=True):
        assert abs(Fraction(found) - true) <= true * Fraction(2 * n + 64, 2**53)
    assert abs(Fraction(value[0]) - total) <= total * Fraction(4 * n + 80, 2**53)


@pytest.mark.parametrize("form", FORMS)
def test_order_of_rows_storage_and_parts_do_not_matter(form):
    X, y, groups = data(kind="few" if form[2] is None else "real")
    w, order = np.array([0.4, -0.1, 0.2, 0.0]), np.random.default_rng(1).permutation(len(y))
    risk = Ranking(X, y, groups, None, *form)
    value, slope = risk.evaluate(w)
    names = np.array([f"query {g}" for g in groups])
    for other in (Ranking(X[order], y[order], groups[order], None, *form), Ranking(X, y, names, None, *form),
                  Ranking(sp.csr_array(X), y, groups, None, *form), Ranking(X + 3.0, y, groups, None, *form),
                  risk.derive(n_parts=7),
                  Ranking(X, y, groups, None, *form, group_weight=np.ones(20), n_parts=3)):
        values, slopes = other.evaluate(w)
        assert np.isclose(values.sum(), value[0], rtol=1e-11) and np.allclose(slopes.sum(axis=0), slope[0], atol=1e-8)
    many = risk.derive(n_parts=100)
    assert many.n_parts == risk.n_groups == 20
    assert sorted(np.concatenate(many.parts).tolist()) == list(range(300))
    assert all(len(set(groups[rows].tolist())) == 1 for rows in many.parts)


def test_groups_without_pairs_are_counted():
    X, y, groups = data(n_groups=4)
    y[groups == 2] = 1.0
    X, y, groups = np.vstack([X, X[:1]]), np.r_[y, 0.0], np.r_[groups, 9]
    risk = Ranking(X, y, groups)
    assert (risk.n_groups, risk.n_idle_groups) == (5, 2)
    kept = (groups != 2) & (groups != 9)
    w = np.ones(4)
    assert risk.evaluate(w)[0][0] == Ranking(X[kept], y[kept], groups[kept]).evaluate(w)[0][0]


def test_lists_of_large_numbers_keep_groups_apart():
    assert Ranking(np.eye(4), [0, 1, 0, 1], [5, 2**63 + 1, 2**63 + 2, 5]).n_groups == 3


def test_offsets_of_many_units_are_rounded_down():
    """Sums of whole numbers have no error in a unit, but may have one where a part adds them up."""
    n = 2 * 8192
    y, groups = np.tile([0.0, 1.0], n // 2), np.repeat([0, 1], n // 2)
    for weight in (3e-9, 5e-9, 7e-9, 9e-9):
        risk = Ranking(np.zeros((n, 1)), y, groups, group_weight=[1.0, weight])
        true = 4096**2 * (1 + Fraction(weight))
        assert len(risk._units) == 2 and Fraction(float(risk.planes(np.zeros(1)).offsets[0])) <= true


@pytest.mark.parametrize("form", ["hinge", "squared"])
def test_parts_alone_have_the_bits_of_the_whole(form):
    X, y, groups = data(n=600, n_groups=30, kind="real")
    if form == "hinge":
        risk = Ranking(X, np.abs(y), groups, y > 0.1, n_parts=5)
    else:
        risk = Ranking(X.astype(np.float32), y, groups, None, form, "difference", "difference",
                       np.linspace(0.0, 2.0, 30), n_parts=5)
    w = np.array([0.3, 0.1, -0.2, 0.0])
    whole, (values, errors) = risk.planes(w), risk.values(w)
    for group in grouped(5, 2):
        part = pickle.loads(pickle.dumps(excerpt(risk, group)))()
        planes, (mine, my_errors) = part.planes(w), part.values(w)
        for name in ("values", "offsets", "slopes", "slope_errors"):
            assert (getattr(planes, name) == getattr(whole, name)[group]).all(), name
        assert (mine == values[group]).all() and (my_errors == errors[group]).all()
    here, there = (pb.minimize(risk, lam=1.0, method="oca", tol=1e-6, executor=executor)
                   for executor in (None, InTurn(2)))
    assert (here.x == there.x).all() and here.lower_bound == there.lower_bound and there.certified


def test_threads_checkpoints_and_changed_data(tmp_path):
    X, y, groups = data(n=30_000, n_groups=300, kind="real")
    risk, path = Ranking(X, y, groups), tmp_path / "run"
    options = {"lam": 1e-3 * risk.n_pairs, "tol": 1e-6}
    whole = pb.minimize(risk, n_jobs=4, **options)
    alone = pb.minimize(risk, n_jobs=1, **options)
    assert (whole.x == alone.x).all() and whole.success and len(risk._units) > 1
    with pytest.warns(pb.ConvergenceWarning):
        pb.minimize(risk, max_iter=3, checkpoint=path, **options)
    resumed = pb.minimize(pickle.loads(pickle.dumps(risk)), checkpoint=path, **options)
    assert (resumed.x == whole.x).all()
    before = risk.fingerprint
    X *= 2.0
    renewed = risk.renewed()
    assert renewed is not risk and renewed.fingerprint != before
    assert np.isclose(renewed.evaluate(np.ones(4))[0][0], Ranking(X, y, groups).evaluate(np.ones(4))[0][0])
    assert Ranking(X, y, groups, form="squared").fingerprint != Ranking(X, y, groups).fingerprint


@pytest.mark.parametrize("form", FORMS)
def test_methods_agree_and_certificates_are_verified(form):
    X, y, groups = data(kind="real")
    risk = Ranking(X, y, groups, None, *form)
    lam = 1e-2 * risk.n_pairs
    found = [pb.minimize(risk, lam=lam, tol=1e-6, method=method, evidence=True)
             for method in ("auto", "oca", "bmrm", *(["lbfgs"] if risk.smooth else []))]
    assert all(result.success and result.certified for result in found)
    assert max(result.lower_bound for result in found) <= min(result.fun for result in found)
    assert all(pb.verify(result.certificate, Ranking(X, y, groups, None, *form), lam=lam).ok for result in found)
    assert not pb.verify(found[0].certificate, Ranking(X, y[::-1].copy(), groups, None, *form), lam=lam).ok
    assert pb.check_oracle(risk)


def test_claims_hold():
    failed = [f"problem {index}, {row.risk}, {row.words}: {row.details}" for index in range(15)
              for row in proofs.attack_ranking(0, index) if any(row.counts[kind] for kind in proofs.FAILURES)]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize(("arguments", "kind", "words"), [
    ({"fit_intercept": True}, ParameterError, "'fit_intercept'; an intercept changes no difference"),
    ({"sample_weight": np.ones(300)}, ParameterError, "'sample_weight'; single rows have no weight in pairs"),
    ({"form": "logistic"}, ParameterError, "form must be one of 'hinge', 'squared'"),
    ({"margin": 1.0}, ParameterError, "margin must be one of"),
    ({"pair_weight": "unit"}, ParameterError, "pair_weight must be one of 'difference'"),
    ({"groups": np.zeros(7)}, ParameterError, r"groups must hold one name .* shape \(300,\), got shape \(7,\)"),
    ({"groups": np.r_[np.zeros(299), np.nan]}, ParameterError, "groups must not be missing, got nan at index 299"),
    ({"groups": np.array([*range(299), "a"], dtype=object)}, InputTypeError, "groups must hold numbers or texts"),
    ({"groups": [1, "1"] * 150}, InputTypeError, "groups must hold numbers or texts, of one type"),
    ({"groups": ["a", np.nan] * 150}, ParameterError, "groups must not be missing, got nan at index 1"),
    ({"groups": ["a", None] * 150}, ParameterError, "groups must not be missing, got None at index 1"),
    ({"groups": np.array(["NaT"] * 300, "M8[D]")}, ParameterError, "groups must not be missing, got NaT at index 0"),
    ({"y": np.zeros(300)}, ParameterError, "got no pair of rows to compare in 20 groups"),
    ({"y": np.r_[np.ones(299), np.nan]}, ParameterError, "y must be finite, got nan at index 299"),
    ({"y": np.arange(300.0) * 1e99}, ParameterError, "y must hold numbers of at most 1e100, got 2.99e.101"),
    ({"y": np.arange(299.0)}, ParameterError, r"y must be of shape \(300,\)"),
    ({"event": np.ones(300, bool), "y": np.arange(300.0) - 1.0}, ParameterError, "times >= 0 .* got -1 at index 0"),
    ({"event": np.zeros(300, bool), "y": np.arange(300.0)}, ParameterError, "censored times permit none"),
    ({"event": np.ones(300)}, ParameterError, r"event must be a bool array .*become bools by np.equal\(.., 1\)"),
    ({"group_weight": np.ones(3)}, ParameterError, r"group_weight must be of shape \(20,\)"),
    ({"group_weight": -np.ones(20)}, ParameterError, "group_weight must not be negative"),
    ({"n_parts": 0}, ParameterError, "n_parts must be an integer >= 1"),
])
def test_refusals(arguments, kind, words):
    X, y, groups = data()
    with pytest.raises(kind, match=words):
        Ranking(**{"X": X, "y": y, "groups": groups} | arguments)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("form", FORMS[4:])
def test_curvatures_by_rows_of_active_pairs(form, convert):
    """By listed pairs: the sum of k_i (x_i - m) (x_i - m)', with the weights k_i of the active pairs of a row."""
    X, y, groups = data(60, 3, 4, kind="real")
    X, w, weights = np.round(X, 1).astype(np.float32).astype(float), np.array([0.5, 0.2, -0.3]), np.arange(4) + 0.5
    k, expected = np.zeros(60), 0.0
    for i, j in pairs(y, groups):
        margin = 1.0 if form[1] == "unit" else y[i] - y[j]
        weight = weights[groups[i]] * (y[i] - y[j] if form[2] else 1.0)
        k[[i, j]] += weight * (margin > (X[i] - X[j]) @ w)
    for g in range(4):
        c, Z = k[groups == g], X[groups == g]
        Z = Z - c @ Z / c.sum()
        expected = expected + (Z.T * c) @ Z
    risk = Ranking(convert(X), y, groups, None, *form, group_weight=weights, n_parts=2)
    assert np.allclose(risk.curvatures(w), expected, rtol=1e-10)


def test_values_that_overflow_are_infinite():
    """They and their errors were NaN, as differences of infinite sums."""
    X, y, groups = data()
    value, error = Ranking(100.0 * X, y, groups, None, "squared").values(np.full(4, 1e153))
    assert np.isposinf(value).all() and np.isposinf(error).all()


def test_uneven_columns_take_few_passes_with_and_without_workers():
    """Runs with workers take second derivatives from the data here, too; without them this takes 372 passes."""
    X, y, groups = data(n=400, d=30, kind="real")
    X = X @ np.random.default_rng(1).standard_normal((30, 30)) * np.logspace(-2.0, 2.0, 30)
    risk = Ranking(X, y, groups, None, "squared", n_parts=2)
    here, there = (pb.minimize(risk, lam=1.0, tol=1e-4, executor=executor) for executor in (None, InTurn(2)))
    assert here.certified and here.n_passes <= 25.0
    assert (here.x == there.x).all() and here.n_passes == there.n_passes
