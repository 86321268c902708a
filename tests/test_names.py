"""Names that people try: options of a solve and fields of a result."""

import copy
import pickle

import numpy as np
import pytest

import pybundle as pb


def distance(w):
    return np.abs(w - 1.0).sum(), np.sign(w - 1.0)


def hinge():
    return pb.risks.MulticlassHinge(np.eye(3), [0, 1, 2])


@pytest.mark.parametrize(("option", "words"), [
    ("maxiter", "did you mean max_iter?"),
    ("bounds", "did you mean penalty=pb.prox.Box"),
    ("warmstart", "did you mean warm_start?"),
    ("x0", "did you mean w0?"),
    ("jac", "fun returns the value and a subgradient"),
    ("args", "bind them in fun, as by functools.partial"),
    ("C", "lam = 1/C"),
    ("ftol", "did you mean tol?"),
    ("seed", "did you mean random_state?"),
    ("timeout", "did you mean time_limit?"),
    ("tolerance", "did you mean tol?"),
    ("eps", "did you mean tol?"),
    ("maxfun", "did you mean max_iter?"),
    ("bound", "did you mean penalty=pb.prox.Ball(radius), or pb.prox.Box(lower)?"),
    ("something else", "it takes lam, penalty, method, tol"),
    ("theta", "it is an option of a method: method=pb.methods.BMRM(theta=...), also of ProxBMRM, OCA, SGD"),
])
def test_unknown_options_of_a_plain_callable(option, words):
    with pytest.raises(pb.ParameterError, match=f"unknown argument {option!r}") as caught:
        pb.minimize(distance, np.zeros(3), lam=1.0, **{option: 1.0})
    assert words in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(("method", "words"), [
    ("oca unheard_of=1", "for method 'oca'; it takes theta, max_idle, stop, mu, line_search"),
    ("alm grwth=2", "for method 'alm'; did you mean growth"), ("newton x=1", "for method 'newton'; it takes none"),
    ("auto kappa=1.0", "for method 'auto'; it belongs to 'prox-bcfw'; write prox_bcfw.kappa"),
    ("auto x=1", "for method 'auto'; it takes prox_bcfw, alm, lbfgs, newton, interior_point, oca, bmrm"),
    ("auto oca.x=1", "for method 'oca'; it takes theta"),
])
def test_options_of_a_method_are_listed(method, words):
    with pytest.raises(pb.ParameterError, match=f"unknown option .* {words}"):
        pb.minimize(hinge(), lam=1.0, method=method)


def test_n_iter_is_nit():
    result = pb.minimize(hinge(), lam=1.0)
    assert result.n_iter == result["n_iter"] == result.nit > 0 and "n_iter" not in result
    assert "n_iter" in dir(result)
    result.nit = 77
    assert result.n_iter == 77
    other = pickle.loads(pickle.dumps(copy.deepcopy(result)))
    assert other.n_iter == 77 and other.fun == result.fun


def test_unknown_fields_say_what_there_is():
    result = pb.minimize(hinge(), lam=1.0)
    with pytest.raises(AttributeError, match="no field of a Result, did you mean n_passes"):
        _ = result.n_pass
    with pytest.raises(AttributeError, match=r"there are .*lower_bound.*x"):
        _ = result.coefficients
    with pytest.raises(KeyError, match="did you mean lower_bound"):
        result["lowerbound"]
    assert not hasattr(result, "rounds") and result.get("rounds") is None
