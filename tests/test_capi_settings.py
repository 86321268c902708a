"""Each field of pb_problem and pb_settings does what the argument of `minimize` does that it stands for."""

import ctypes

import numpy as np
import pytest
import scipy.sparse as sp
from native.build import library, sample
from native.interface import API, Api, Problem, Refused, Result, Settings, Solver, of_examples, of_risk

import pybundle as pb

DIM = 12
LAMS = np.linspace(0.5, 2.0, DIM)
GROUPS = np.repeat([0, 1, 2], 4)
A = sp.csr_array(np.vstack([np.eye(3, DIM), np.ones((1, DIM))]))


def same(problem, risk, settings, **arguments):
    """Train through the interface and by `minimize`, and compare all bits."""
    result, w = Solver(problem, **settings).run()
    expected = pb.minimize(risk, **arguments)
    assert np.array_equal(w, expected.x) and result.n_iter == expected.nit
    assert (result.fun, result.lower_bound, result.status) == (expected.fun, expected.lower_bound, expected.status)
    return expected


def test_the_structs_of_these_tests_are_those_of_the_header():
    sizes = (ctypes.c_int64 * 4)()
    library("host").sizes(sizes)
    assert list(sizes) == [ctypes.sizeof(kind) for kind in (Problem, Settings, Result, Api)]
    assert API.abi == 2 and API.size == ctypes.sizeof(Api)


@pytest.mark.parametrize("settings, penalty", [
    ({"lams": LAMS}, pb.prox.SquaredL2(LAMS)),
    ({"lam": 0.5, "l1": 0.1}, pb.prox.L1(0.1) + pb.prox.SquaredL2(0.5)),
    ({"l1": 0.1}, pb.prox.L1(0.1)),
    ({"lam": 0.5, "n_groups": 3, "groups": GROUPS, "group_rates": [0.1, 0.5, 2.0]},
     pb.prox.L1([0.1, 0.5, 2.0], GROUPS) + pb.prox.SquaredL2(0.5)),
    ({"lam": 0.5, "l1": 0.1, "n_groups": 3, "groups": GROUPS, "group_rates": [0.1, 0.5, 2.0]},
     pb.prox.SparseGroupLasso(GROUPS, 0.1, [0.1, 0.5, 2.0]) + pb.prox.SquaredL2(0.5)),
    ({"lam": 0.5, "lower": np.zeros(DIM)}, pb.prox.Box(lower=0.0) + pb.prox.SquaredL2(0.5)),
    ({"lams": LAMS, "upper": np.full(DIM, 0.1)}, pb.prox.Box(upper=0.1) + pb.prox.SquaredL2(LAMS)),
    ({"radius": 0.5}, pb.prox.Ball(0.5)),
    ({"radius": 0.5, "lower": np.zeros(DIM)}, pb.prox.Ball(0.5) + pb.prox.Box(lower=0.0)),
])
def test_penalties(settings, penalty):
    data = sample()
    arguments = {"lam": LAMS} if list(settings) == ["lams"] else {"penalty": penalty}
    result = same(of_risk(data), data.risk(), {**settings, "tol": 1e-3}, **arguments, tol=1e-3)
    assert result.success and result.fun == pytest.approx(
        penalty.value(result.x) + data.risk().evaluate(result.x)[0].sum(), rel=1e-9)


def test_constraints():
    data, lower, upper = sample(), [-np.inf] * 3 + [0.1], [0.05] * 3 + [0.2]
    rows = {"n_rows": 4, "row_starts": A.indptr, "row_columns": A.indices, "row_values": A.data, "row_upper": upper}
    settings = {"lam": 0.5, **rows, "row_lower": lower, "tol": 1e-4}
    result = same(of_risk(data), data.risk(), settings, lam=0.5, constraints=(A, lower, upper), tol=1e-4)
    assert result.success and (A @ result.x <= np.array(upper) + 1e-9).all()
    same(of_risk(data), data.risk(), {"lam": 0.5, **rows}, lam=0.5, constraints=(A, None, upper))
    with pytest.raises(Refused, match="row_values of pb_settings must not be NULL where n_rows > 0"):
        Solver(of_risk(data), **{**settings, "row_values": None})
    with pytest.raises(Refused, match="must form a CSR matrix: index pointer should start with 0"):
        Solver(of_risk(data), **{**settings, "row_starts": A.indptr + 1, "row_columns": np.zeros(A.nnz + 1)})
    with pytest.raises(Refused, match="constraints must have column indices in 0"):
        Solver(of_risk(data), **{**settings, "row_columns": A.indices + 9})


def test_sample_weights():
    data, weights = sample(), np.linspace(0.0, 3.0, 60)
    risk = data.examples(sample_weight=weights)
    same(of_examples(data, sample_weight=weights), risk, {"lam": 0.5, "method": "prox-bcfw"}, lam=0.5,
         method="prox-bcfw")
    with pytest.raises(Refused, match="sample_weight of pb_problem must be NULL where risk is set"):
        Solver(of_risk(data, sample_weight=weights), lam=0.5)


@pytest.mark.parametrize("method, record", [
    ("bmrm theta=0.3 max_idle=10", pb.methods.BMRM(theta=0.3, max_idle=10)),
    ("prox-bmrm K=0.4 T=100 max_idle=10 stop=published",
     pb.methods.ProxBMRM(K=0.4, T=100, max_idle=10, stop="published")),
    ("oca line_search=false", pb.methods.OCA(line_search=False)),
])
def test_methods_with_options(method, record):
    data = sample()
    same(of_risk(data), data.risk(), {"lam": 0.5, "method": method}, lam=0.5, method=record)


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
def test_other_fields():
    data = sample()
    same(of_examples(data), data.examples(), {"lam": 0.01, "is_mean": 1, "atol": 0.02, "tol": 0.0}, lam=0.01,
         scale="mean", atol=0.02, tol=0.0)
    same(of_risk(data), data.risk(), {"lam": 0.5, "max_iter": 3, "method": "bmrm"}, lam=0.5, max_iter=3, method="bmrm")


@pytest.mark.parametrize("settings, words", [
    ({"lam": 1.0, "method": "bmrm theta"}, "each option once as name=value, got 'theta'"),
    ({"lam": 1.0, "method": "bmrm theta=1 theta=2"}, "each option once as name=value, got 'theta=2'"),
    ({"lam": 1.0, "method": "bmrm speed=9"}, "unknown option 'speed' for method 'bmrm'"),
    ({"lam": 1.0, "method": "bmrm tol=0.1"}, "unknown option 'tol' for method 'bmrm'"),
    ({"lam": 1.0, "method": ""}, "method must be one of"),
    ({"lam": 1.0, "lams": LAMS}, "lam of pb_settings must be 0 where lams is set"),
    ({"lam": 1.0, "groups": GROUPS}, "groups and group_rates of pb_settings must both be set"),
    ({"lam": 1.0, "groups": GROUPS + 1, "group_rates": [1.0] * 3, "n_groups": 3}, "groups"),
    ({"lam": 1.0, "n_rows": -1}, "n_rows"),
    ({"lam": 1.0, "lower": np.ones(DIM), "upper": np.zeros(DIM)}, "lower must be at most upper"),
])
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(Refused, match=f"^-1: .*{words}"):
        Solver(of_risk(sample()), **settings)
