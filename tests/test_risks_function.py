import doctest

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
import pybundle.risks.function as module
from pybundle.core.exceptions import InputTypeError, OracleError, ParameterError
from pybundle.core.protocols import Risk
from pybundle.risks import Function


def test_one_and_many_parts():
    one = Function(lambda w: (w @ w, 2 * w), 3)
    values, slopes = one.evaluate(np.array([1.0, 2.0, 3.0]))
    assert values.tolist() == [14.0] and slopes.tolist() == [[2.0, 4.0, 6.0]]
    assert isinstance(one, Risk) and one.n_examples == 1 and one.lower_bounds.tolist() == [-np.inf]
    two = Function(lambda w: (np.array([w[0], 0.0]), np.eye(2)), 2, n_parts=2, lower_bounds=[-np.inf, 0.0])
    assert two.evaluate(np.array([5.0, 1.0]))[1].shape == (2, 2)
    sparse = Function(lambda w: (w[:2], sp.csr_array(np.eye(2))), 2, n_parts=2)
    assert isinstance(sparse.evaluate(np.zeros(2))[1], sp.csr_array)


def test_what_comes_back_is_ours():
    kept = np.ones(2)
    slopes = Function(lambda w: (0.0, kept), 2).evaluate(np.zeros(2))[1]
    slopes[:] = 7.0
    assert kept.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("answer, message", [
    (3.0, r"fun must return a pair \(value, subgradient\), or .*, got float"),
    ((1.0, 2.0, 3.0, 4.0), "got tuple of length 4"),
    ((1.0, np.ones(2), 0.5), "upper bounds at or above its values, got 0.5 and 1 for part 0"),
    ((1.0, np.ones(2), np.inf), "finite upper bounds"),
    ((np.ones(2), np.ones(2)), r"one value, got shape \(2,\)"),
    ((1.0, np.ones(3)), r"a subgradient of shape \(2,\), got \(3,\)"),
    ((np.nan, np.ones(2)), "finite values, got nan for part 0"),
    ((1.0, np.array([1.0, np.inf])), "finite subgradients"),
    (("a", np.ones(2)), "real values"),
    ((1j, np.ones(2)), "real values"),
    (([[1.0], [1.0, 2.0]], np.ones(2)), "real values, got list"),
    ((10**400, np.ones(2)), "real values"),
    ((1.0, [[1.0], [1.0, 2.0]]), "real subgradients, got list"),
    ((1.0, np.array([1j, 1.0])), "real subgradients"),
    ((1.0, sp.csr_array(np.array([[1j, 1.0]]))), "real subgradients"),
    ((1.0, "b"), "real subgradients"),
    ((-1.0, np.ones(2)), "below its lower bound 0"),
])
def test_answers_are_checked(answer, message):
    with pytest.raises(OracleError, match=message):
        Function(lambda w: answer, 2, lower_bounds=0.0).evaluate(np.zeros(2))


def test_foreign_errors_pass_through():
    def fun(w):
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        Function(fun, 2).evaluate(np.zeros(2))


def test_arguments_are_checked():
    with pytest.raises(InputTypeError, match="fun must be callable"):
        Function(3, 2)
    with pytest.raises(ParameterError, match="dim must be an integer >= 1"):
        Function(abs, 0)
    with pytest.raises(ParameterError, match="lower_bounds must be finite or -inf"):
        Function(abs, 1, lower_bounds=np.nan)


def test_lower_bounds_are_one_for_all_or_one_for_each():
    assert Function(abs, 1, n_parts=3, lower_bounds=2).lower_bounds.tolist() == [2.0, 2.0, 2.0]
    for wrong in ([0.0], [0.0, 0.0], [[0.0, 0.0, 0.0]]):
        with pytest.raises(ParameterError, match=r"lower_bounds must be a number or have shape \(3,\), got shape"):
            Function(abs, 1, n_parts=3, lower_bounds=wrong)
    for wrong in ([0.0, 0.0, 1j], [[0.0], [0.0, 1.0]], "zero"):
        with pytest.raises(InputTypeError, match="lower_bounds must be a number or have shape"):
            Function(abs, 1, n_parts=3, lower_bounds=wrong)


@pytest.mark.parametrize("w", [np.zeros(2, dtype=complex), [1.0, 1j], [[1.0], [1.0, 2.0]], ["1", "2"], [10**400, 1]])
def test_points_are_vectors_of_real_numbers(w):
    with pytest.raises(InputTypeError, match="w must be a vector of real numbers"):
        Function(lambda w: (0.0, w), 2).evaluate(w)


def test_doctest():
    assert doctest.testmod(module).failed == 0


def test_a_callable_says_that_it_is_smooth():
    """Only classes could, by an attribute that was documented for them."""
    A = np.random.default_rng(0).standard_normal((30, 5))

    def fun(w):
        return float(np.logaddexp(0.0, A @ w).sum()), A.T @ (1.0 / (1.0 + np.exp(-A @ w)))

    smooth = pb.minimize(pb.risks.Function(fun, 5, smooth=True), lam=0.1, tol=1e-6)
    plain = pb.minimize(pb.risks.Function(fun, 5), lam=0.1, tol=1e-6)
    assert "'lbfgs': the risk is smooth" in smooth.message and smooth.n_passes < plain.n_passes
    assert smooth.success and smooth.fun == pytest.approx(plain.fun, rel=1e-5)
    with pytest.raises(pb.InputTypeError, match="smooth must be True or False, got 'yes'"):
        pb.risks.Function(fun, 5, smooth="yes")


def test_the_check_of_a_callable_takes_a_start_or_a_dimension():
    def fun(w):         # the slope is wrong at the start alone
        return np.abs(w).sum(), np.sign(w) * (3.0 if w[0] == 7.0 else 1.0)

    w0 = np.full(3, 7.0)
    assert pb.check_oracle(fun, dim=3) and pb.check_oracle(fun, w0=np.ones(3))
    assert "subgradient inequality" in str(pb.check_oracle(fun, w0=w0))
    assert "subgradient inequality" in str(pb.check_oracle(pb.risks.Function(fun, 3), w0=w0))
    with pytest.raises(pb.ParameterError, match="w0"):
        pb.check_oracle(fun, dim=2, w0=w0)
    with pytest.raises(pb.InputTypeError, match="pass dim= or w0="):
        pb.check_oracle(fun)
