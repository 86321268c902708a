"""Risks and oracles in C against the same ones in Python, to the last bit; and what is said where they fail."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from native.build import NUMBERS, SIGNATURES, sample
from reference import compiled_multiclass as twin
from scipy import LowLevelCallable

import pybundle as pb
from pybundle.core.exceptions import InputTypeError, OracleError, ParameterError
from pybundle.risks._compiled import RISK, spelling

ROWS = ("primal", "best_primal", "lower_bound", "n_passes")


def same(first, second):
    """Whether two runs went the same way, to the last bit."""
    return (np.array_equal(first.x, second.x) and (first.fun, first.lower_bound) == (second.fun, second.lower_bound)
            and all(np.array_equal(first.history[row], second.history[row]) for row in ROWS))


@pytest.mark.parametrize("method", ["bmrm", "oca", "prox-bmrm"])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_risk_in_c_goes_the_way_of_its_python_twin(method, n_jobs):
    data = sample()
    options = dict(lam=0.5, tol=1e-5, method=method)
    compiled = pb.minimize(data.risk(), n_jobs=n_jobs, **options)
    python = pb.minimize(pb.risks.Function(twin.risk(data), 12, 4, lower_bounds=0.0), **options)
    assert compiled.success and same(compiled, python)
    known = pb.minimize(pb.risks.MulticlassHinge(data.arrays[0], data.arrays[1]), lam=0.5, tol=1e-6)
    assert known.lower_bound <= compiled.fun and compiled.lower_bound <= known.fun


@pytest.mark.parametrize("method", ["prox-bcfw", "bcfw", "mp-bcfw", "alm", "oca", "auto"])
def test_an_oracle_in_c_goes_the_way_of_its_python_twin(method):
    data = sample()
    tol = 3e-2 if method in ("bcfw", "mp-bcfw") else 1e-4       # these take long to be exact
    options = dict(lam=0.5, tol=tol, method=method)
    compiled = pb.minimize(data.examples(), n_jobs=2, **options)
    python = pb.minimize(pb.risks.Structured(twin.Model(data), range(60), range(60)), **options)
    assert compiled.success and same(compiled, python)


def test_many_threads_and_parts_give_the_same_planes():
    data = sample(n=500, P=150)
    risk, w = data.risk(), np.linspace(-1.0, 1.0, 12)
    values, slopes = risk.evaluate(w)
    with ThreadPoolExecutor(4) as pool:
        again = risk.derive(executor=pool)
        for _ in range(3):
            more_values, more_slopes = again.evaluate(w)
            assert np.array_equal(values, more_values) and np.array_equal(slopes, more_slopes)
    assert risk.derive().evaluate(w)[0].tolist() == values.tolist()
    with pytest.raises(ParameterError, match="n_parts must be 150 for this risk, which cannot be regrouped, got 3"):
        risk.derive(n_parts=3)


def test_two_solves_at_once_give_the_bits_of_each_alone():
    problems = [(sample(n=300, seed=seed), lam) for seed, lam in ((1, 0.3), (2, 3.0))]

    def solve(problem):
        data, lam = problem
        return [pb.minimize(risk, lam=lam, tol=1e-5, method=method)
                for risk, method in ((data.risk(), "oca"), (data.examples(), "prox-bcfw"))]

    alone = [solve(problem) for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(solve, problems * 2))
    assert all(same(a, b) for one, other in zip(alone * 2, together, strict=True)
               for a, b in zip(one, other, strict=True))


def test_check_oracle_finds_them_valid():
    data = sample()
    assert pb.check_oracle(data.risk())
    report = pb.check_oracle(data.examples(norms=2.0 * np.linalg.norm(data.arrays[0], axis=1)))
    assert report, str(report)


def test_the_fingerprint_names_the_data():
    assert sample().examples().fingerprint == sample().examples().fingerprint
    assert sample().examples().fingerprint != sample(seed=1).examples().fingerprint
    assert sample().examples(fingerprint=1).fingerprint != sample().examples(fingerprint=2).fingerprint


def test_the_last_example_counts_in_the_fingerprint(tmp_path):
    """It once stopped at the 64th."""
    data, other = sample(n=200), sample(n=200)
    other.arrays[0][-1, -1] += 0.5
    assert data.examples().fingerprint != other.examples().fingerprint
    options = {"lam": 1.0, "checkpoint": tmp_path / "run.npz"}
    pb.minimize(data.examples(), **options)
    with pytest.raises(pb.StateError, match="another problem: data is"):
        pb.minimize(other.examples(), **options)


@pytest.mark.parametrize("mistake, message", [
    (7, "fun returned code 7 for part 1; expected 0 for success"),
    (-1, "fun must set a finite value, got nan for part 1"),
    (-2, "fun must set finite subgradients, got inf for part 1"),
    (-7, r"fun set the value -\S+ for part 1, below its lower bound"),
])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_mistakes_of_a_risk_name_the_part(mistake, message, n_jobs):
    data = sample(bad_example=5, mistake=mistake)       # part 5 mod 4
    with pytest.raises(OracleError, match=message):
        pb.minimize(data.risk(), lam=1.0, n_jobs=n_jobs)


@pytest.mark.parametrize("mistake, message", [
    (7, "solve returned code 7 for example 5"),
    (-1, "solve must set a finite value, got nan for example 5"),
    (-6, "solve must set upper to a finite number >= value, or leave it unset, got .* for example 5"),
    (-2, "plane must set finite entries, got inf for example 5"),
    (-3, "plane must set indices 0..dim - 1, got 12 for example 5"),
    (-4, "plane must set n_entries to a number 0..max_entries, got 1000000 for example 5"),
    (-5, "plane must set a finite loss >= 0, got -1.0 for example 5"),
])
@pytest.mark.parametrize("method", ["oca", "bcfw"])
def test_mistakes_of_an_oracle_name_the_example(mistake, message, method):
    with pytest.raises(OracleError, match=message):
        pb.minimize(sample(bad_example=5, mistake=mistake).examples(), lam=1.0, method=method)


def test_sizes_that_no_call_could_fill_are_refused():
    with pytest.raises(pb.ParameterError, match=f"max_entries must be an integer <= 2147483647, got {2**62}"):
        sample().examples(max_entries=2**62)
    oracle = sample().examples().oracle()
    with pytest.raises(pb.ParameterError, match=r"weights must be of shape \(12,\), got \(3,\)"):
        oracle.solve_batch([0], np.zeros(3))


def test_a_failure_on_the_way_hands_back_the_best_state():
    data, calls = sample(), []

    def spoil(progress):
        calls.append(progress.n_iter)
        if len(calls) == 3:
            data.bad_example, data.mistake = 5, 7
    with pytest.raises(OracleError, match="code 7") as caught:
        pb.minimize(data.risk(), lam=0.5, tol=1e-9, method="oca", callback=spoil)
    assert caught.value.result.nit >= 3 and caught.value.result.lower_bound > 0.0


def test_a_compiled_risk_alone_is_told_what_to_be_wrapped_in():
    function = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)
    for w0 in (None, np.zeros(3)):
        with pytest.raises(InputTypeError, match=r"pb\.risks\.Function\(compiled, dim, n_parts\), .*ExampleFunctions"):
            pb.minimize(LowLevelCallable(function), w0, lam=1.0)


def test_wrong_callables_are_refused():
    data = sample()
    with pytest.raises(InputTypeError, match=r"fun must have the signature 'int \(double \*, int64, .*got 'int \("):
        pb.risks.Function(data.callable("solve"), 12)
    with pytest.raises(InputTypeError, match=r"solve must be a scipy\.LowLevelCallable, got function; wrap a ctypes"):
        pb.risks.ExampleFunctions(lambda w: 0, data.callable("plane"), 60, 12)
    with pytest.raises(ParameterError, match="sizes must not be negative, got -1 for example 0"):
        data.examples(sizes=np.full(60, -1))
    with pytest.raises(ParameterError, match="label_size must be an integer >= 1, got 0"):
        data.examples(label_size=0)
    with pytest.raises(ParameterError, match=r"w must have shape|of shape \(12,\), got shape \(3,\)"):
        data.risk().evaluate(np.zeros(3))
    with pytest.raises(ParameterError, match="w must be finite, got nan at index 0"):
        data.risk().evaluate(np.full(12, np.nan))
    assert np.array_equal(data.risk().evaluate([0] * 12)[0], data.risk().evaluate(np.zeros(12))[0])
    with pytest.raises(NotImplementedError, match="predict with code of your own"):
        data.examples().predict_losses(np.zeros(12))


@pytest.mark.parametrize("signature", [
    RISK,
    "int (double const *, int64_t, int64_t, double *, double *, void *)",
    "int(const double*,long long,longlong,double*,double*,void*)",
    "int32_t (double *, __pyx_t_7_libc_6stdint_int64_t, int64_t, double *, double *, void *)",
])
def test_spellings_of_a_signature(signature):
    assert spelling(signature) == RISK


def check_absolute_values(function, user_data=None):
    """The risk sum_k |w_k| a_k, a_k of the user data or 1, one part for each coordinate."""
    risk = pb.risks.Function(LowLevelCallable(function, user_data), 3, n_parts=3, lower_bounds=0.0)
    values, slopes = risk.evaluate(np.array([1.0, -2.0, 0.5]))
    factors = np.array([1.0, 2.0, 4.0]) if user_data is not None else np.ones(3)
    assert np.array_equal(values, factors * [1.0, 2.0, 0.5])
    assert np.array_equal(slopes, np.diag(factors * [1.0, -1.0, 1.0]))


def test_ctypes_functions_in_python():
    @ctypes.CFUNCTYPE(ctypes.c_int, *SIGNATURES["risk"])
    def fun(w, dim, part, value, slope, data):
        factor = ctypes.cast(data, NUMBERS)[part] if data else 1.0
        value[0], slope[part] = factor * abs(w[part]), factor if w[part] > 0 else -factor
        return 0
    check_absolute_values(fun)
    factors = (ctypes.c_double * 3)(1.0, 2.0, 4.0)
    check_absolute_values(fun, ctypes.cast(factors, ctypes.c_void_p))


def test_cffi_functions():
    ffi = pytest.importorskip("cffi").FFI()

    @ffi.callback("int (const double *, int64_t, int64_t, double *, double *, void *)")
    def fun(w, dim, part, value, slope, data):
        factor = ffi.cast("double *", data)[part] if data != ffi.NULL else 1.0
        value[0], slope[part] = factor * abs(w[part]), factor if w[part] > 0 else -factor
        return 0
    check_absolute_values(fun)
    factors = ffi.new("double[]", [1.0, 2.0, 4.0])
    check_absolute_values(fun, ffi.cast("void *", factors))
