"""Certificates of graphs with any number of labels: points of the local polytope, and messages, as evidence."""

import dataclasses
import functools
import warnings

import numpy as np
import pytest
from reference.graph_labeling import exact_bound

import pybundle as pb
from pybundle.core.ragged import Ragged
from pybundle.models.graph_labeling.points import UNIT
from pybundle.proof.graphs import dual_values
from pybundle.solvers.evidence import record

LAM = 3.0


def hard_graphs(rng, n_graphs, K):
    """Graphs with cycles, parallel edges either way round, an isolated node, one without edges, unknown labels."""
    X, Y = [], []
    for i in range(n_graphs):
        n, m = 6, 0 if i == 1 else 8
        edges = np.array([rng.choice(n - 1, 2, replace=False) for _ in range(m)]).reshape(m, 2)
        y = rng.integers(0, K, n)
        nodes = np.concatenate([np.eye(K)[y] + rng.normal(size=(n, K)), np.ones((n, 1))], axis=1)
        if m:
            edges[-1] = edges[0][::-1]
        X.append(pb.Graph(nodes, edges, rng.normal(size=(m, 2))))
        Y.append(np.where(rng.random(n) < 0.1, -1, y))
    return X, Y


def problem(kind, K=3, seed=0, n_graphs=20):
    rng = np.random.default_rng(seed)
    X, Y = hard_graphs(rng, n_graphs, K)
    model = pb.models.GraphLabeling(K, K + 1, 2, symmetric=[0], antisymmetric=[1], risk=kind)
    return pb.risks.Structured(model, X, Y, sample_weight=np.append([0.0, 50.0], rng.random(n_graphs - 2)))


@functools.cache
def solved(kind, method="auto", K=3):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        return pb.minimize(problem(kind, K), lam=LAM, method=method, evidence=True,
                           max_iter=15 if method == "mp-bcfw" else 60)


@pytest.mark.parametrize("K", (2, 4))
@pytest.mark.parametrize("method", ("auto", "oca", "bmrm", "mp-bcfw"))
@pytest.mark.parametrize("kind", ("relaxed", "true"))
def test_evidence_proves_what_it_claims(kind, method, K, tmp_path):
    result = solved(kind, method, K)
    certificate = result.certificate
    report = pb.verify(certificate, problem(kind, K), lam=LAM)
    assert report.ok, report
    # two labels of the true risk are cut, which needs no messages
    assert (certificate.messages is None) == (kind == "true" and K == 2)
    assert report.fun <= (result.fun + result.error) * (1.0 + 1e-8)
    if method == "auto":
        assert certificate.lower_bound >= result.lower_bound - 1e-6 * result.fun
    certificate.save(tmp_path / "proof.npz")
    assert pb.verify(tmp_path / "proof.npz", problem(kind, K), lam=LAM).ok


@pytest.mark.parametrize("scale", (1e-12, 1.0, 1e9))
def test_the_bound_of_messages_in_exact_arithmetic(scale):
    risk, rng = problem("relaxed"), np.random.default_rng(1)
    oracle, w = risk.oracle(), rng.normal(size=risk.dim)
    messages = scale * rng.normal(size=oracle.dual_point.shape)
    values, errors = dual_values(oracle, w, messages)
    unaries, edges, tables, nodes, ends = oracle.relative_scores(np.arange(risk.n_examples), oracle.prepare(w), True)
    for i in range(risk.n_examples):
        of_nodes, of_edges = slice(nodes[i], nodes[i + 1]), slice(ends[i], ends[i + 1])
        exact = exact_bound(unaries[of_nodes], edges[of_edges], tables[of_edges], messages[of_edges])
        assert abs(max(exact, 0) - values[i].item()) <= errors[i] <= 1e-13 * (scale + values[i])


def with_points(certificate, change):
    """A certificate whose points were changed, one after another as arrays (nnz, 2)."""
    points = [change(np.array(point)) for point in certificate.evidence.labellings]
    return dataclasses.replace(certificate, evidence=dataclasses.replace(
        certificate.evidence, labellings=Ragged.of(points)))


def moved(point):
    """One share of a node goes to its neighbour."""
    point[0, 0] ^= 1
    return point


def heavier(point):
    point[0, 1] += 1
    return point


def other_labels(point):
    """Other shares of nodes, whole and of sum 1, with the same tables of edges."""
    return np.concatenate([np.stack([3 * np.arange(6), np.full(6, UNIT)], axis=1), point[6:]])


FORGERIES = {
    "a bound": lambda c: dataclasses.replace(c, lower_bound=c.lower_bound * (1.0 + 1e-6)),
    "a value": lambda c: dataclasses.replace(c, fun=c.fun * (1.0 - 1e-6)),
    "an offset": lambda c: dataclasses.replace(c, offset=c.offset * (1.0 + 1e-6)),
    "a slope": lambda c: dataclasses.replace(c, phi=0.999999 * c.phi),
    "masses": lambda c: dataclasses.replace(c, evidence=dataclasses.replace(
        c.evidence, masses=c.evidence.masses * 1.01)),
    "examples": lambda c: dataclasses.replace(c, evidence=dataclasses.replace(
        c.evidence, examples=np.full_like(c.evidence.examples, 5))),
    "a share moved": lambda c: with_points(c, moved),
    "a share of more than 1": lambda c: with_points(c, heavier),
    "other labels": lambda c: with_points(c, other_labels),
    "places beyond the graph": lambda c: with_points(c, lambda point: point + np.array([10**6, 0])),
    "no points": lambda c: with_points(c, lambda point: point[:0]),
    "messages": lambda c: dataclasses.replace(c, messages=0.99 * c.messages),
    "messages of another shape": lambda c: dataclasses.replace(c, messages=c.messages[:-1]),
    "messages that overflow": lambda c: dataclasses.replace(c, messages=np.full_like(c.messages, 1e119)),
    "messages that cancel": lambda c: dataclasses.replace(c, messages=c.messages + np.array([[1e17], [-1e17]])),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(name):
    certificate = solved("relaxed").certificate
    assert pb.verify(certificate, problem("relaxed")).ok
    assert not pb.verify(FORGERIES[name](certificate), problem("relaxed")).ok


def test_points_prove_nothing_about_the_true_risk():
    """Not even if the fingerprint is forged: relaxed maxima are larger, and so is the bound."""
    certificate, true = solved("relaxed").certificate, problem("true")
    report = pb.verify(certificate, true)
    assert not report.ok
    report = pb.verify(dataclasses.replace(certificate, fingerprint=true.fingerprint), true)
    assert not report.ok and "must be arrays of labels" in str(report)


def test_random_changes_prove_no_more():
    """Whatever the numbers of a proof are, no bound is accepted that lies above a value."""
    result, risk, rng = solved("relaxed"), problem("relaxed"), np.random.default_rng(3)
    certificate, accepted = result.certificate, 0
    best = pb.minimize(risk, lam=LAM, tol=1e-4, max_iter=300).fun
    for _ in range(40):
        masses = certificate.evidence.masses
        masses = masses * rng.choice([1.0, 0.0, 0.999, 1.0 + 1e-15], len(masses))
        messages = certificate.messages + rng.choice([0.0, 1e-3, 10.0]) * rng.normal(size=certificate.messages.shape)
        forged = dataclasses.replace(
            certificate, evidence=dataclasses.replace(certificate.evidence, masses=masses), messages=messages,
            slope_error=1e3 * certificate.slope_error, fun=2.0 * best,
            lower_bound=best * float(rng.choice([1.0001, 1.1])))
        accepted += pb.verify(forged, risk).ok
    assert accepted == 0


def test_exact_arithmetic_takes_whole_labels():
    for kind in ("relaxed", "true"):
        with pytest.raises(pb.ParameterError, match="graphs whose labels are all known, and risk='true'"):
            pb.verify(solved(kind).certificate, problem(kind), exact=True)
    unknown = problem("true")
    known = pb.risks.Structured(unknown.model, unknown.X, [np.maximum(y, 0) for y in unknown.Y])
    certificate = pb.minimize(known, lam=LAM, evidence=True).certificate
    assert pb.verify(certificate, known, exact=True, lam=LAM).ok


def test_without_messages_the_verifier_decodes(monkeypatch):
    monkeypatch.setattr(record, "MOST_BYTES", 0)
    certificate = solved.__wrapped__("relaxed").certificate
    report = pb.verify(certificate, problem("relaxed"), lam=LAM)
    assert certificate.messages is None and report.ok and "the upper bounds of the decoder" in str(report)
