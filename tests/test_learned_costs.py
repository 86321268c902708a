"""Learned costs: solvers and losses against enumeration, certificates, bounds, the estimator, refusals."""

import itertools
from functools import partial

import numpy as np
import pytest
from reference import proofs
from reference.cost_problems import Listed
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import pybundle as pb
from pybundle.core.exceptions import InputTypeError, OracleError, ParameterError

SETS = np.array([v for v in itertools.product((0.0, 1.0), repeat=5) if 1 <= sum(v) <= 3])
ARCS = np.array([(a, b) for a in range(6) for b in range(a + 1, min(a + 4, 6))])


def data(n=60, m=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, (0.5 * X @ rng.standard_normal((3, m)) + 1.0) ** 3 + rng.standard_normal((n, m))


def cheap(costs):
    """Take each piece whose cost is negative."""
    return (costs < 0.0) * 1.0


def paths():
    """All paths in ARCS from 0 to 5."""
    found = []
    for k in range(5):
        for inner in itertools.combinations(range(1, 5), k):
            arcs = set(itertools.pairwise((0, *inner, 5)))
            if arcs <= set(map(tuple, ARCS.tolist())):
                found.append([float(tuple(arc) in arcs) for arc in ARCS.tolist()])
    return np.array(found)


@pytest.mark.parametrize("seed", range(5))
def test_solvers_find_what_enumeration_finds(seed):
    costs = np.random.default_rng(seed).integers(-4, 5, (40, 16)) * 1.0
    tables = np.array([np.eye(4)[list(p)].ravel() for p in itertools.permutations(range(4))])
    weights = np.array([2.0, 3.0, 1.0, 4.0, 2.0])
    knapsacks = np.array([v for v in itertools.product((0.0, 1.0), repeat=5) if weights @ v <= 6.0])
    programs = partial(pb.oracles.milp_batch, bounds=Bounds(0, 1), constraints=LinearConstraint(weights[None], ub=6.0))
    for solver, listed in ((pb.oracles.assignment_batch, tables), (programs, knapsacks),
                           (partial(pb.oracles.shortest_path_batch, arcs=ARCS), paths())):
        few = costs[:, :listed.shape[1]]
        answer = solver(few)
        decisions, lower = answer if isinstance(answer, tuple) else (answer, None)
        best = (few @ listed.T).min(axis=1)
        assert np.array_equal((few * decisions).sum(axis=1), best)
        assert (listed[:, None] == decisions[None]).all(axis=2).any(axis=0).all()
        assert lower is None or (lower <= best + 1e-9).all()


def test_only_whole_numbers_are_rounded():
    """Semicontinuous pieces are 0 or between their bounds."""
    found, lower = pb.oracles.milp_batch([[-1.0, -1.0, -1.0]], integrality=[2, 3, 0], bounds=Bounds(0.4, 2.7))
    assert np.allclose(found, [[2.7, 2.0, 2.7]]) and np.allclose(lower, -7.4)


def test_the_first_loss_is_that_of_elmachtoub_and_grigas():
    """Equation by equation: max_v (c - 2 c^) v + 2 c^ v* - c v*, at least the regret, and its subgradient."""
    X, C = data()
    model = pb.models.Optimizer(Listed(SETS), 5, 3)
    risk, rng = pb.risks.Structured(model, X, C), np.random.default_rng(1)
    assert pb.check_oracle(risk), pb.check_oracle(risk)
    for _ in range(20):
        W, total, slope = rng.standard_normal((5, 3)), 0.0, np.zeros((5, 3))
        for x, c in zip(X, C, strict=True):
            best, predicted = SETS[np.argmin(SETS @ c)], W @ x
            decided, worst = SETS[np.argmin(SETS @ predicted)], SETS[np.argmax(SETS @ (c - 2.0 * predicted))]
            loss = (c - 2.0 * predicted) @ worst + 2.0 * predicted @ best - c @ best
            assert loss >= c @ (decided - best) - 1e-9
            total, slope = total + loss, slope + 2.0 * np.outer(best - worst, x)
        values, slopes = risk.evaluate(W.ravel())
        assert np.isclose(values.sum(), total) and np.allclose(slopes.sum(axis=0), slope.ravel())


@pytest.mark.parametrize("distance", [None, np.negative])
def test_the_loss_of_decisions(distance):
    X, C = data()
    decisions = SETS[np.argmin(C @ SETS.T, axis=1)]
    model = pb.models.Optimizer(Listed(SETS), 5, 3, loss="inverse", distance=distance)
    risk, W = pb.risks.Structured(model, X, decisions), np.random.default_rng(1).standard_normal((5, 3))
    assert pb.check_oracle(risk), pb.check_oracle(risk)
    total = 0.0
    for x, v in zip(X, decisions, strict=True):
        far = (SETS != v).sum(axis=1) if distance is None else ((SETS < v) * v).sum(axis=1)
        total += max(far + (v - SETS) @ (W @ x))
    assert np.isclose(risk.evaluate(W.ravel())[0].sum(), total)
    assert np.isclose(risk.oracle().losses([3], SETS[[7]])[0], far[7] if 3 == len(X) - 1 else (
        (SETS[7] != decisions[3]).sum() if distance is None else ((SETS[7] < decisions[3]) * decisions[3]).sum()))


@pytest.mark.parametrize("loss", ["spo+", "inverse"])
@pytest.mark.parametrize("loose", [0.0, 0.05])
def test_methods_agree_and_certificates_verify(loss, loose):
    X, C = data()
    Y = C if loss == "spo+" else SETS[np.argmin(C @ SETS.T, axis=1)]
    model = pb.models.Optimizer(Listed(SETS, loose), 5, 3, loss=loss)
    risk = pb.risks.Structured(model, X, Y)
    assert risk.decodes_exactly == (loose == 0.0)
    results = [pb.minimize(risk, lam=1.0, method=method, tol=1e-3, max_iter=30, evidence=True)
               for method in ("auto", "oca", "bmrm", "mp-bcfw")]
    assert all(result.certified for result in results)
    assert max(r.lower_bound for r in results) <= min(r.fun for r in results)
    assert loose > 0.0 or results[0].success
    assert all(pb.verify(r.certificate, pb.risks.Structured(model, X, Y), lam=1.0).ok for r in results)
    assert not pb.verify(results[0].certificate, pb.risks.Structured(model, X[::-1], Y), lam=1.0).ok


@pytest.mark.parametrize("seed", range(4))
def test_bounds_of_inexact_runs_hold_for_the_exact_risk(seed):
    """With the truths and gaps of the inexact solver the exact risk lies between its bounds, and the gaps are known."""
    X, C = data(seed=seed)
    loose = Listed(SETS, 0.05)
    inexact = pb.minimize(pb.risks.Structured(pb.models.Optimizer(loose, 5, 3), X, C), lam=1.0, tol=1e-2, max_iter=40)
    truths, lower = loose(C)
    calls = []

    def exact(costs):
        calls.append(len(costs))
        return (truths, lower) if len(calls) == 1 else Listed(SETS)(costs)

    result = pb.minimize(pb.risks.Structured(pb.models.Optimizer(exact, 5, 3), X, C), lam=1.0, tol=1e-9)
    assert inexact.lower_bound <= result.fun and result.lower_bound <= inexact.fun
    gaps = (C * truths).sum(axis=1) - lower
    assert (gaps >= 0.0).all() and result.fun >= gaps.sum()


def test_rows_sums_and_data_that_change():
    X, C = data()
    batch = pb.risks.Structured(pb.models.Optimizer(Listed(SETS), 5, 3), X, C)
    single = pb.risks.Structured(pb.models.Optimizer(lambda c: SETS[np.argmin(SETS @ c)], 5, 3, by_row=True), X, C)
    w = np.random.default_rng(0).standard_normal(15)
    assert np.allclose(batch.evaluate(w)[0], single.evaluate(w)[0])
    oracle, rows = batch.oracle(), np.array([3, 1, 3])
    found = oracle.solve_batch(rows, oracle.prepare(w)).labellings
    losses, slopes = oracle.planes(rows, found)
    total = np.zeros(15)
    assert np.isclose(oracle.add_planes(rows, found, np.array([1.0, 2.0, 0.5]), total), losses @ [1.0, 2.0, 0.5])
    assert np.allclose(total, slopes.T @ [1.0, 2.0, 0.5]) and slopes.has_sorted_indices
    before = pb.minimize(batch, lam=1.0).fun
    C *= 2.0
    assert pb.minimize(batch, lam=1.0).fun > 1.5 * before


def test_gaps_of_truths_belong_to_the_problem():
    """Planes of a run whose solver had wider gaps lie above the risk, so they must be no start of another run."""
    X, C = data()

    def with_gap(gap):
        def solver(costs):
            found = Listed(SETS)(costs)
            return found, (costs * found).sum(axis=1) - gap
        return pb.risks.Structured(pb.models.Optimizer(solver, 5, 3), X, C)

    state = pb.minimize(with_gap(5.0), lam=1.0, tol=0.9).state
    with pytest.raises(ParameterError, match=r"the run to start from .* must be on the same risk"):
        pb.minimize(with_gap(1e-9), lam=1.0, warm_start=state)


def test_claims_hold():
    failed = [f"problem {index}, {row.risk}, {row.words}: {row.details}" for index in range(12)
              for row in proofs.attack_costs(0, index) if any(row.counts[kind] for kind in proofs.FAILURES)]
    assert not failed, "\n".join(failed)


# ---------------------------------------------------------------------- estimator

class Some:
    """Take one or two of each piece."""

    def __call__(self, costs):
        return 1.0 + cheap(costs)

    def __repr__(self):
        return "Some()"         # names of tests must not hold addresses


# weights in the cross-validation of scikit-learn's ridge regression are no repetitions
@parametrize_with_checks([pb.DecisionFocusedRegressor(Some(), C=0.1, centre=None, tol=1e-9)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_centre_and_its_pull(tmp_path):
    X, C = data(200)
    kept = pb.DecisionFocusedRegressor(Listed(SETS), C=0.0).fit(X, C)
    assert kept.certified_ and np.allclose(np.c_[kept.coef_, kept.intercept_], kept.prior_, rtol=1e-12)
    zero = pb.DecisionFocusedRegressor(Listed(SETS), centre=None, fit_intercept=False, C=0.1).fit(X, C)
    risk = pb.risks.Structured(pb.models.Optimizer(Listed(SETS), 5, 3), X, C)
    assert np.isclose(pb.minimize(risk, lam=10.0, tol=1e-3).fun, zero.objective_, rtol=2e-3)
    model = pb.DecisionFocusedRegressor(Listed(SETS), C=0.1).fit(X, C)
    given = pb.DecisionFocusedRegressor(Listed(SETS), C=0.1, centre=model.prior_).fit(X, C)
    assert np.array_equal(given.coef_, model.coef_)
    decided, best = SETS[np.argmin(model.predict(X) @ SETS.T, axis=1)], (C @ SETS.T).min(axis=1)
    assert np.isclose(model.score(X, C), -((C * decided).sum() - best.sum()) / np.abs(best).sum())
    with pytest.raises(pb.BundleError, match="solver of DecisionFocusedRegressor cannot be saved"):
        model.save(tmp_path / "model.npz")
    model.set_params(solver=None).save(tmp_path / "model.npz")
    again = pb.load(tmp_path / "model.npz")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.set_params(solver=Listed(SETS)).score(X, C) > -1.0


def test_a_warm_start_forgets_planes_of_another_solver():
    """Its decisions may be none of the new one, of which the same best decisions for the data tell nothing."""
    X, C = data()
    fewer = Listed(np.unique(Listed(SETS)(C), axis=0))
    model = pb.DecisionFocusedRegressor(Listed(SETS), C=1.0, warm_start=True).fit(X, C)
    n_passes = model.n_passes_
    assert model.fit(X, C).n_passes_ < n_passes
    warm = model.set_params(solver=fewer).fit(X, C)
    cold = pb.DecisionFocusedRegressor(fewer, C=1.0, tol=1e-6).fit(X, C)
    assert warm.certified_ and warm.lower_bound_ <= cold.objective_


def test_C_is_chosen_among_the_centre_and_others():
    X, C = data()
    model = pb.DecisionFocusedRegressor(Listed(SETS), C="cv", tol=3e-2).fit(X, C)
    search = GridSearchCV(pb.DecisionFocusedRegressor(Listed(SETS), tol=3e-2),
                          {"C": [0.0, *(10.0 ** np.arange(-1, 4) / len(X))]}).fit(X, C)
    scores = dict(zip(search.cv_results_["param_C"].data, search.cv_results_["mean_test_score"], strict=True))
    assert model.C_ in scores and scores[model.C_] >= search.best_score_ - 0.02
    linear = X @ np.random.default_rng(5).standard_normal((3, 5)) + 5.0
    assert pb.DecisionFocusedRegressor(Listed(SETS), C="cv", max_iter=20).fit(X, linear).C_ == 0.0


def test_decisions_as_targets():
    X, _ = data(200)
    W = np.random.default_rng(2).standard_normal((5, 3))
    decisions = SETS[np.argmin(X @ W.T @ SETS.T, axis=1)]
    model = pb.DecisionFocusedRegressor(Listed(SETS), C=10.0, centre=None, loss="inverse").fit(X, decisions)
    wrong = (model.decide(X) != decisions).sum(axis=1).mean()
    assert wrong < 0.1 and np.isclose(model.score(X, decisions), -wrong)


@pytest.mark.parametrize(("options", "change", "kind", "words"), [
    ({"solver": 3}, {}, InputTypeError, "solver must be a function, got int"),
    ({"solver": lambda c: c[:, 1:]}, {}, OracleError, r"decisions of the solver must have shape \(60, 5\), got"),
    ({"solver": lambda c: c * np.nan}, {}, OracleError, r"decisions of the solver must be finite, got nan at \[0, 0\]"),
    ({"solver": lambda c: (cheap(c), np.zeros(3))}, {}, OracleError, r"bounds of the solver must have shape \(60,\)"),
    ({"solver": lambda c: (cheap(c), c.sum(axis=1) + 99.0)}, {}, OracleError, "bounds that no cost is below"),
    ({"solver": lambda c: (c > 0.0) * 1.0}, {}, OracleError, "solver must return best decisions"),
    ({"solver": lambda c: ()}, {}, OracleError, "solver must return decisions or a pair .* bounds, got 0 items"),
    ({"solver": lambda c: (cheap(c), c[:, 0], 1)}, {}, OracleError, "solver must return .* got 3 items"),
    ({"solver": lambda c: "abc"}, {}, InputTypeError, "decisions of the solver must hold real numbers"),
    ({"loss": "mse"}, {}, ParameterError, "loss must be one of 'spo.', 'inverse'"),
    ({"distance": np.negative}, {}, ParameterError, "distance must be None for loss='spo.'"),
    ({"loss": "inverse"}, {}, ParameterError, "Y must hold decisions of zeros and ones without distance="),
    ({"loss": "inverse", "distance": 3}, {}, InputTypeError, "distance must be a function, got int"),
    ({"loss": "inverse", "distance": lambda v: v[:2]}, {}, ParameterError, "values of distance must have shape"),
    ({"by_row": 1}, {}, InputTypeError, "by_row must be True or False"),
    ({}, {"Y": np.full((60, 5), np.nan)}, ParameterError, r"Y must be finite, got nan at \[0, 0\]"),
    ({}, {"Y": np.zeros((60, 4))}, ParameterError, r"Y must have shape \(60, 5\), got \(60, 4\)"),
    ({}, {"Y": np.zeros((59, 5))}, ParameterError, "X and Y must hold the same number of examples"),
    ({}, {"X": np.zeros((60, 2))}, ParameterError, r"X must have shape \(60, 3\)"),
])
def test_refusals(options, change, kind, words):
    X, C = data()
    with pytest.raises(kind, match=words):
        risk = pb.risks.Structured(pb.models.Optimizer(**{"solver": cheap, "n_costs": 5, "n_features": 3} | options),
                                   **{"X": X, "Y": C} | change)
        pb.minimize(risk, lam=1.0)


@pytest.mark.parametrize(("by_row", "number"), [(False, 0), (True, 2)])
def test_errors_of_the_solver_name_the_example(by_row, number):
    X, C = data()

    def fails(costs):
        if costs.ravel()[-1] == (C[2, 4] if by_row else C[-1, 4]):
            raise ZeroDivisionError("no")
        return cheap(costs)

    with pytest.raises(ZeroDivisionError) as caught:
        pb.models.Optimizer(fails, 5, 3, by_row=by_row).oracle(X, C)
    assert caught.value.__notes__ == [f"pybundle: while the solver decided from example {number} on"]


def test_a_limit_before_the_first_bound_has_a_remedy(monkeypatch):
    found = OptimizeResult(x=np.ones(5), fun=5.0, mip_dual_bound=-np.inf, status=1, message="Time limit reached.")
    monkeypatch.setattr("pybundle.oracles.decisions.milp", lambda *args, **options: found)
    with pytest.raises(OracleError, match=r"a bound for costs\[0\], got: Time limit reached.; raise time_limit"):
        pb.oracles.milp_batch(np.ones((2, 5)))


@pytest.mark.parametrize("method", ["prox-bcfw", "mp-bcfw"])
def test_methods_that_take_no_centre_name_one_that_does(method):
    X, C = data()
    with pytest.raises(ParameterError, match=f"method '{method}' takes .* centre.*use 'oca'"):
        pb.DecisionFocusedRegressor(cheap, method=method).fit(X, C)
    assert pb.DecisionFocusedRegressor(cheap, method="oca").fit(X, C).certified_
    assert pb.DecisionFocusedRegressor(cheap, method=method, centre=None).fit(X, C).certified_


def test_nodes_without_arcs_do_not_count():
    """Paths of a graph whose numbers are above the number of arcs were refused, as if it had a cycle."""
    costs, numbers = np.random.default_rng(0).standard_normal((20, len(ARCS))), np.array([0, 3, 40, 41, 10**9, 10**12])
    found = pb.oracles.shortest_path_batch(costs, numbers[ARCS])
    assert np.array_equal(found, pb.oracles.shortest_path_batch(costs, ARCS))
    with pytest.raises(pb.ParameterError, match="lead from node 0 to the last node, 1000000000000, got no path"):
        pb.oracles.shortest_path_batch(costs, numbers[ARCS] + (ARCS == 0))


def test_large_unsigned_node_numbers_stay_different():
    """They became floats, so that two neighbouring nodes were one, and the path lacked the arc between them."""
    arcs = np.array([[0, 2**60], [2**60, 2**60 + 1]], dtype=np.uint64)
    assert pb.oracles.shortest_path_batch([[1.0, 1.0]], arcs).tolist() == [[1.0, 1.0]]


def test_a_search_of_c_fits_a_ridge_regression_once_in_a_fold(monkeypatch):
    fits, fit = [], RidgeCV.fit
    monkeypatch.setattr(RidgeCV, "fit", lambda self, X, *rest: fits.append(len(X)) or fit(self, X, *rest))
    X, C = data()
    pb.DecisionFocusedRegressor(cheap, C="cv", tol=0.1, max_iter=5).fit(X, C)
    assert fits == [60] + 5 * [48]


@pytest.mark.parametrize(("call", "words"), [
    (lambda c: pb.oracles.assignment_batch(c), r"costs must have k\^2 columns, one for each row and column, got 5"),
    (lambda c: pb.oracles.assignment_batch(c[:, :0]), r"costs must have k\^2 columns, .*, got 0"),
    (lambda c: pb.oracles.assignment_batch(c[0]), r"costs must have shape \(any, any\), got \(5,\)"),
    (lambda c: pb.oracles.shortest_path_batch(c, ARCS), "arcs must be 5 pairs a < b"),
    (lambda c: pb.oracles.shortest_path_batch(c, ARCS[:5, ::-1]), "graphs with cycles need milp_batch"),
    (lambda c: pb.oracles.shortest_path_batch(c, [[0, 1]] * 4 + [[2, 3]]), "arcs must lead from node 0 to .* 3"),
    (lambda c: pb.oracles.milp_batch(c, bounds=Bounds(0, 1), constraints=LinearConstraint(np.ones((1, 5)), lb=9)),
     r"milp must find a decision and a bound for costs\[0\], got: The problem is infeasible"),
    (lambda c: pb.oracles.milp_batch(c, limits=3), "arguments must be as scipy.optimize.milp takes them, .*'limits'"),
])
def test_refused_costs(call, words):
    with pytest.raises(pb.BundleError, match=words):
        call(np.ones((2, 5)))


@pytest.mark.parametrize(("options", "words"), [
    ({"centre": "lasso"}, "centre must be 'ridge' for costs, else None or an array, got 'lasso'"),
    ({"loss": "inverse"}, "centre must be 'ridge' for costs, else None or an array, got 'ridge' with loss='inverse'"),
    ({"centre": np.zeros((5, 3))}, r"centre must have shape \(5, 4\)"),
    ({"C": -1.0}, "C must be a finite number >= 0"), ({"C": "best"}, "C must be a real number, got 'best'"),
    ({"C": np.ones(3)}, "C must be a real number"), ({"C": "cv", "tol": "low"}, "tol must be a real number"),
    ({"fit_intercept": "yes"}, "fit_intercept must be True or False"), ({"loss": "mse"}, "loss must be one of 'spo.'"),
])
def test_refused_parameters(options, words):
    with pytest.raises(pb.BundleError, match=words):
        pb.DecisionFocusedRegressor(**{"solver": Listed(SETS)} | options).fit(*data())
