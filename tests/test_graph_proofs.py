"""Claims on labels of graphs hold in exact arithmetic: a sample of `asv_benchmarks/reproduce/proofs.py --graphs`."""

from fractions import Fraction

import numpy as np
import pytest
from reference import exact_graphs, graph_labeling, proofs
from reference.problems import Problem

import pybundle as pb

TRIANGLE = np.zeros((3, 1)), np.array([[0, 1], [2, 1], [0, 2]]), np.ones((3, 1))
DIFFER = np.array([0.0, 0.0, 0.0, 2.0, 2.0, 0.0])       # two weights of nodes, then 2 for ends of different labels


def twin(relaxed, x=TRIANGLE, y=(0, 1, 0)):
    return exact_graphs.graph_labeling([x], [y], 2, "hamming", relaxed=relaxed)


def test_values_are_exact():
    """The truth scores 4. All three labels exchanged score 4 and cost 3; half of each label scores 6 and costs 3/2."""
    assert twin(False).value(DIFFER) == (3, 3)
    assert twin(True).value(DIFFER) == (Fraction(7, 2), Fraction(7, 2))


def test_edges_are_added_and_unknown_nodes_left_out():
    parallel = np.zeros((4, 1)), np.array([[0, 1], [1, 0], [3, 1], [1, 2]]), np.ones((4, 1))
    single = np.zeros((2, 1)), np.array([[0, 1]]), np.full((1, 1), 2.0)
    for relaxed in (False, True):
        one, two = twin(relaxed, parallel, (0, 1, -1, -1)), twin(relaxed, single, (0, 1))
        assert one.value(DIFFER) == two.value(DIFFER)


def test_intervals_hold_the_maximum():
    rng = np.random.default_rng(0)
    exactly = np.vectorize(Fraction, otypes=[object])
    for _ in range(20):
        n, K = rng.integers(2, 5, 2)
        edges = [(a, b) for a in range(n) for b in range(a) if rng.random() < 0.8] or [(0, 1)]
        unaries, tables = rng.standard_normal((n, K)), rng.standard_normal((len(edges), K, K)) - 4.0 * np.eye(K)
        point, upper = graph_labeling.relaxed_interval(exactly(unaries), edges, exactly(tables))
        low = point @ exactly(np.concatenate([unaries.ravel(), tables.ravel()]))
        assert graph_labeling.is_point(point, n, K, edges) and 0 <= upper - low < Fraction(1, 10**25)
        assert float(upper) == pytest.approx(graph_labeling.relaxed_maximum(unaries, np.array(edges), tables))


def test_false_claims_are_noticed():
    """A bound one unit in the last place too large, and a value of the true risk that is said to be of the relaxed."""
    lam, results = 0.01, {}
    for kind in ("relaxed", "true"):
        model = pb.models.GraphLabeling(2, 1, 1, loss="hamming", risk=kind)
        risk = pb.risks.Structured(model, [pb.Graph(*TRIANGLE)], [[0, 1, 0]])
        results[kind] = pb.minimize(risk, lam=lam, tol=1e-9, w0=DIFFER, max_iter=200)
    problem = Problem("", risk, twin(True), (), 1.0, lams=[lam])
    optimum = problem.twin.optimum(lam, results["relaxed"].x)
    assert optimum.low <= optimum.high <= optimum.low * (1 + Fraction(1, 2**80))

    def failures(result, **forged):
        row = proofs.Row("", "", "")
        proofs.judge(problem, lam, [proofs.Claim(pb.Result(dict(result) | forged), lam, row, 1e-9)])
        return {kind for kind in proofs.FAILURES if row.counts[kind]}

    assert failures(results["relaxed"]) == set()
    assert failures(results["relaxed"], lower_bound=np.nextafter(float(optimum.high), 10.0)) == {"bound"}
    at = {"x": DIFFER, "fun": 3.0 + 0.5 * lam * 8.0, "error": 1e-12, "ball": None}
    assert failures(results["true"], **at) == {"value"}
    assert failures(results["true"], **at | {"fun": at["fun"] + 0.5}) == set()


@pytest.mark.parametrize("index", [0, 1])
def test_claims_hold(index):
    failed = [f"problem {index}, {row.risk}, {row.words}: {row.details}" for row in proofs.attack_graphs(0, index)
              if any(row.counts[kind] for kind in proofs.FAILURES)]
    assert not failed, "\n".join(failed)
