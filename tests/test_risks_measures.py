"""Risks of measures of whole samples: all labellings listed, bounds on the measure, parts, certificates, refusals."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.ranking_problems import measure_twin
from reference.workers import InTurn

import pybundle as pb
from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.distributed.workplace import excerpt
from pybundle.risks import FScore, PrecisionAtK, Ranking, ROCArea


def data(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X[:, 0] + 0.4 * rng.standard_normal(n) > 0.8).astype(int)


def risks(X, y, k=20):
    return [ROCArea(X, y), PrecisionAtK(X, y, k), PrecisionAtK(X, y, len(y) // 2), FScore(X, y, bias=1.0),
            FScore(X, y, 0.5), FScore(X, y, 2.0)]


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 10**6), measure=st.sampled_from(["area", "precision", "score"]),
       kind=st.sampled_from(["tied", "any", "far", "large"]))
def test_values_and_planes_against_all_labellings(seed, measure, kind):
    """In exact arithmetic values miss by no more than their errors, and no plane lies above by more than its own."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    y = np.r_[1, 0, rng.integers(0, 2, n - 2)]
    X = rng.integers(-2, 3, (n, 2)) * 1.0 if kind == "tied" else rng.standard_normal((n, 2))
    X = X + 1e6 if kind == "far" else X * 1e8 if kind == "large" else X
    k, beta = int(rng.integers(1, n + 1)), float(rng.choice([0.001, 0.4, 1.0, 3.0]))
    risk, arguments = {"area": (ROCArea(X, y), ()), "precision": (PrecisionAtK(X, y, k), (k,)),
                       "score": (FScore(X, y, beta), (beta,))}[measure]
    exact = measure_twin(X, y.tolist(), measure, *arguments)
    for w in (np.zeros(2), rng.standard_normal(2) / np.abs(X).max(), rng.integers(-1, 2, 2) * 0.5):
        planes, (values, errors), true = risk.planes(w), risk.values(w), exact.value(w)[0]
        size = float(true) + (np.abs(X) @ np.abs(w)).sum()
        assert abs(values[0] - true) <= errors[0] and errors[0] <= 1e-8 * (1.0 + size)
        assert np.isclose(planes.values[0], float(true), rtol=1e-12, atol=1e-14 * size)
        assert np.isclose(planes.offsets[0] + planes.slopes[0] @ w, float(true), rtol=1e-12, atol=1e-12 * size)
        assert np.linalg.norm(planes.slopes) <= risk.slope_sizes[0]
        for v in (w, -w, rng.standard_normal(2) * 10.0 ** rng.uniform(-9, 1)):
            height = planes.offsets[0] + planes.slopes[0] @ v
            allowed = (planes.slope_errors[0] + 4e-16 * np.abs(planes.slopes).sum()) * np.linalg.norm(v)
            assert height <= float(exact.value(v)[1]) + allowed + 4e-16 * planes.offsets[0]


@pytest.mark.parametrize("seed", range(40))
def test_risks_bound_their_measures(seed):
    """R is at least the lost share of the measure, times its scale; at w = 0 and for labels apart it is known."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    y, scores = np.r_[1, 0, rng.integers(0, 2, n - 2)], rng.permutation(n) - n / 2.5
    X, w, n_positive = scores[:, None], np.array([0.7]), int(y.sum())
    true, others = scores[y == 1], scores[y == 0]
    lost = np.mean(true[:, None] < others[None, :])
    assert ROCArea(X, y).evaluate(w)[0][0] >= n_positive * lost
    assert np.isclose(ROCArea(X, y).evaluate(w)[0][0], Ranking(X, y).evaluate(w)[0][0] / len(others))
    top = y[np.argsort(-scores)]
    for k in range(1, n + 1):
        missed = min(k, n_positive) - top[:k].sum()
        assert PrecisionAtK(X, y, k).evaluate(w)[0][0] >= missed - 1e-9 * n * n
    for beta in (0.5, 1.0, 2.0):
        a, b = np.count_nonzero(true > 0.0), np.count_nonzero(others > 0.0)
        score = (1.0 + beta**2) * a / (beta**2 * n_positive + a + b)
        risk = FScore(X, y, beta)
        assert risk.evaluate(w)[0][0] >= 2.0 * n_positive * (1.0 - score) - 1e-9 * n * n
        assert np.isclose(risk.evaluate(np.zeros(1))[0][0], 2.0 * n_positive)
    apart = np.where(y == 1, 3.0 * n, -3.0 * n)[:, None]
    assert all(risk.evaluate(np.eye(risk.dim)[0])[0][0] == 0.0 for risk in risks(apart, y, 1))


def test_order_of_rows_storage_and_labels_do_not_matter():
    X, y = data()
    order = np.random.default_rng(1).permutation(len(y))
    for number, risk in enumerate(risks(X, y)):
        w = np.linspace(-0.4, 0.7, risk.dim)
        value, slope = risk.evaluate(w)
        for other in (risks(X[order], y[order])[number], risks(X, 2 * y - 1)[number], risks(X, y == 1)[number],
                      risks(sp.csr_array(X), y)[number], risk.derive(n_parts=7)):
            values, slopes = other.evaluate(w)
            assert other.n_parts == 1
            assert np.isclose(values[0], value[0], rtol=1e-12) and np.allclose(slopes, slope, rtol=1e-10, atol=1e-10)
    ones = np.c_[X, np.ones(len(y))]
    assert np.allclose(FScore(X, y, bias=1.0).evaluate(np.ones(5))[1], FScore(ones, y).evaluate(np.ones(5))[1])


def test_constants_change_no_ranking_measure():
    X, y = data()
    for k in (1, 20, 60, 150, 299):
        there, here = PrecisionAtK(X + 100.0, y, k), PrecisionAtK(X, y, k)
        assert np.allclose(there.evaluate(np.ones(4))[0], here.evaluate(np.ones(4))[0], rtol=1e-11)


def test_workers_threads_checkpoints_and_changed_data(tmp_path):
    X, y = data(n=9000)
    X = X.astype(np.float32)
    for number, risk in enumerate(risks(X, y)):
        path = tmp_path / str(number)
        options = {"lam": 1e-2 * len(y), "tol": 1e-4}
        whole = pb.minimize(risk, n_jobs=4, **options)
        alone = pb.minimize(risk, n_jobs=1, **options)
        there = pb.minimize(risk, executor=InTurn(2), **options)
        assert (whole.x == alone.x).all() and (whole.x == there.x).all() and whole.success and there.certified
        with pytest.warns(pb.ConvergenceWarning):
            pb.minimize(risk, max_iter=3, checkpoint=path, **options)
        resumed = pb.minimize(pickle.loads(pickle.dumps(risk)), checkpoint=path, **options)
        assert (resumed.x == whole.x).all()
        w = np.linspace(-0.4, 0.7, risk.dim)
        part = pickle.loads(pickle.dumps(excerpt(risk, [0])))()
        assert (part.planes(w).slopes == risk.planes(w).slopes).all() and part.values(w) == risk.values(w)
    before, others = risk.fingerprint, {risk.fingerprint for risk in risks(X, y)}
    assert len(others) == 6 and len({FScore(X, y, bias=b).fingerprint for b in (None, 1.0, 2.0)}) == 3
    biased = FScore(X, y, bias=2.0)
    X *= 2.0
    assert risk.renewed().fingerprint != before
    assert (biased.renewed().evaluate(np.ones(5))[1] == FScore(X, y, bias=2.0).evaluate(np.ones(5))[1]).all()


def test_methods_agree_and_certificates_are_verified():
    X, y = data()
    for number, risk in enumerate(risks(X, y)):
        found = [pb.minimize(risk, lam=0.3, tol=1e-6, method=method, evidence=True) for method in ("auto", "bmrm")]
        assert all(result.success and result.certified for result in found)
        assert max(result.lower_bound for result in found) <= min(result.fun for result in found)
        assert all(pb.verify(result.certificate, risks(X, y)[number], lam=0.3).ok for result in found)
        assert not pb.verify(found[0].certificate, risks(X, 1 - y)[number], lam=0.3).ok
        assert pb.check_oracle(risk)


def test_all_rows_are_the_first_n():
    X, y = data(20)
    risk = PrecisionAtK(X, y, 20)
    assert risk.evaluate(np.ones(4))[0][0] == 0.0
    assert pb.minimize(risk, lam=1.0).gap == 0.0        # no rounding is counted where no row has a share


@pytest.mark.parametrize(("make", "arguments", "kind", "words"), [
    (ROCArea, {"fit_intercept": True}, ParameterError, "'fit_intercept'; an intercept changes no order"),
    (FScore, {"fit_intercept": True}, ParameterError, r"'fit_intercept'; .* FScore has bias=1.0"),
    (FScore, {"sample_weight": np.ones(300)}, ParameterError, "'sample_weight'; .* no weights of single rows"),
    (PrecisionAtK, {"n_parts": 2, "k": 3}, ParameterError, "'n_parts'; a measure of the whole sample has one part"),
    (PrecisionAtK, {"k": 0}, ParameterError, "k must be an integer >= 1, got 0"),
    (PrecisionAtK, {"k": 301}, ParameterError, "k must be an integer <= 300, got 301"),
    (PrecisionAtK, {"k": 2.5}, InputTypeError, "k must be an integer"),
    (FScore, {"beta": 0.0}, ParameterError, "beta must be .*0.001"),
    (FScore, {"beta": -1.0}, ParameterError, "beta must be"),
    (FScore, {"beta": np.nan}, ParameterError, "beta must be"),
    (FScore, {"y": np.ones(300)}, ParameterError, "y must hold rows of both classes, got one class only, 1"),
    (ROCArea, {"y": -np.ones(300)}, ParameterError, "y must hold rows of both classes, got one class only, -1"),
    (ROCArea, {"y": np.arange(300) % 3}, ParameterError, r"y must hold -1 and \+1, or 0 and 1"),
    (ROCArea, {"y": np.r_[np.ones(299), np.nan]}, ParameterError, "y must hold integers, got nan at index 299"),
    (FScore, {"y": np.ones(299)}, ParameterError, r"y must have one label for each row of X, shape \(300,\)"),
    (FScore, {"X": np.full((300, 4), np.nan)}, ParameterError, "X must be finite, got nan in row 0"),
])
def test_refusals(make, arguments, kind, words):
    X, y = data()
    with pytest.raises(kind, match=words):
        make(**{"X": X, "y": y} | arguments)
