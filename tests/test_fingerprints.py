"""Two problems of the same size whose values differ at some point have different fingerprints, for each argument."""

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.risks import (
    Absolute,
    BinaryHinge,
    EpsilonInsensitive,
    FScore,
    Huber,
    Logistic,
    MulticlassHinge,
    OneClass,
    Pinball,
    PrecisionAtK,
    Ranking,
    ROCArea,
    SquaredHinge,
)

rng = np.random.default_rng(0)
N, D = 12, 3
X, SIGNS, CLASSES = rng.normal(size=(N, D)), np.tile([-1, 1], 6), np.tile([0, 1, 2], 4)
TARGETS, WEIGHTS, COSTS = rng.normal(size=N), rng.random(N) + 0.5, rng.random((3, 3)) * (1.0 - np.eye(3))


def moved(a, where=-1, by=0.5):
    """Return a copy of an array with another entry."""
    other = np.array(a, dtype=float if by % 1 else None)
    other.flat[where] += by
    return other


def switched(y, k=0, m=1):
    """Return a copy of labels with two of them exchanged."""
    other = np.array(y)
    other[[k, m]] = other[[m, k]]
    return other


def signs(risk, **more):
    return risk, {"X": X, "y": SIGNS} | more, {"X": moved(X), "y": switched(SIGNS)}


LINEAR = {"sample_weight": WEIGHTS, "scale": 0.5}
VALUES = {"sample_weight": WEIGHTS, "scale": 0.5, "X": moved(X), "y": moved(TARGETS)}
FLAT = {
    "BinaryHinge": (BinaryHinge, {"X": X, "y": SIGNS}, {"X": moved(X), "y": switched(SIGNS), **LINEAR}),
    "bias": (BinaryHinge, {"X": X, "y": SIGNS, "bias": 1.0}, {"bias": 2.0}),
    "Logistic": (Logistic, {"X": X, "y": SIGNS}, {"X": moved(X), "y": switched(SIGNS), **LINEAR}),
    "SquaredHinge": (SquaredHinge, {"X": X, "y": SIGNS}, {"X": moved(X), "y": switched(SIGNS), **LINEAR}),
    "MulticlassHinge": (MulticlassHinge, {"X": X, "y": CLASSES},
                        {"X": moved(X), "y": switched(CLASSES), "loss": COSTS, **LINEAR}),
    "Absolute": (Absolute, {"X": X, "y": TARGETS}, VALUES),
    "EpsilonInsensitive": (EpsilonInsensitive, {"X": X, "y": TARGETS}, VALUES | {"epsilon": 0.2}),
    "Huber": (Huber, {"X": X, "y": TARGETS}, VALUES | {"delta": 0.5}),
    "Pinball": (Pinball, {"X": X, "y": TARGETS}, VALUES | {"quantile": 0.7}),
    "OneClass": (OneClass, {"X": X, "nu": 0.5}, {"X": 1.5 * X, "nu": 0.25, "sample_weight": WEIGHTS}),
    "Ranking": (Ranking, {"X": X, "y": TARGETS}, {
        "X": moved(X), "y": TARGETS[::-1].copy(), "groups": np.repeat([0, 1], 6), "form": "squared",
        "margin": "difference", "pair_weight": "difference"}),
    "Ranking in groups": (Ranking, {"X": X, "y": TARGETS, "groups": np.repeat([0, 1], 6)},
                          {"groups": np.tile([0, 1], 6), "group_weight": np.array([1.0, 2.0])}),
    "censored": (Ranking, {"X": X, "y": np.exp(TARGETS), "event": np.ones(N, bool)}, {"event": np.arange(N) % 3 > 0}),
    "FScore": (FScore, {"X": X, "y": SIGNS, "bias": 2.0}, {
        "X": moved(X), "y": switched(SIGNS), "beta": 2.0, "bias": 1.0}),
    "PrecisionAtK": (PrecisionAtK, {"X": X, "y": SIGNS, "k": 3}, {"X": moved(X), "y": switched(SIGNS), "k": 4}),
    "ROCArea": (ROCArea, {"X": X, "y": SIGNS}, {"X": moved(X), "y": switched(SIGNS)}),
}

SIZES = [3, 2, 4]
TOKENS, TAGS = [rng.normal(size=(n, 2)) for n in SIZES], [rng.integers(0, 3, n) for n in SIZES]
TRUTHS = [np.array([0, 1, 2]), np.array([1, 2]), np.array([2, 0, 0, 1])]
ALLOWED = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]], dtype=bool), np.ones(3, bool), np.ones(3, bool)
ALSO = ALLOWED[0], np.ones(3, bool), np.array([False, True, True])
EDGES = [np.array([[0, 1], [1, 2]]), np.array([[0, 1]])]
NODES, BONDS = [rng.normal(size=(3, 2)), rng.normal(size=(2, 2))], [rng.random((2, 2)), rng.random((1, 2))]
GRAPHS = [pb.Graph(*graph) for graph in zip(NODES, EDGES, BONDS, strict=True)]
ARCS = [sp.csr_array(rng.normal(size=(4, 2))), sp.csr_array(rng.normal(size=(9, 2)))]
HEADS = [np.array([-1, 0, 1]), np.array([-1, 0, 1, 2])]
IMAGES, POINTS = rng.normal(size=(3, 16, 2)), rng.integers(0, 4, (3, 2, 2))


def weighted(Y, weights):
    """Return labels, the first ones with weights."""
    return [pb.models.WeightedLabels(Y[0], np.array(weights)), *Y[1:]]


def other_graphs(**changes):
    """Return the graphs with another first one."""
    fields = {"nodes": NODES[0], "edges": EDGES[0], "edge_features": BONDS[0]} | changes
    return [pb.Graph(*fields.values()), GRAPHS[1]]


GRAPH_DATA = {"X": GRAPHS, "Y": [np.array([0, 1, 1]), np.array([1, 0])]}
GRAPH_CHANGES = {
    "nodes": {"X": other_graphs(nodes=moved(NODES[0]))}, "edges": {"X": other_graphs(edges=np.array([[0, 1], [0, 2]]))},
    "edge features": {"X": other_graphs(edge_features=moved(BONDS[0]))},
    "labels": {"Y": [np.array([0, 1, 0]), np.array([1, 0])]}, "loss": {"loss": "hamming"},
    "class weights": {"class_weights": (1.0, 2.0)}, "weights": {"Y": weighted([np.array([0, 1, 1]), np.array([1, 0])],
                                                                            [1.0, 1.5, 1.0])},
}
SOLVER = pb.oracles.assignment_batch
MODELS = {
    "Multiclass": (pb.models.Multiclass, {"n_classes": 3, "n_features": D}, {"X": X, "Y": CLASSES}, {
        "X": {"X": moved(X)}, "Y": {"Y": switched(CLASSES)}, "loss": {"loss": COSTS}}),
    "costs": (pb.models.Multiclass, {"n_classes": 3, "n_features": D, "loss": COSTS}, {"X": X, "Y": CLASSES}, {
        "rescaling": {"rescaling": "slack"}, "costs": {"loss": moved(COSTS, 1)}}),
    "Chain": (pb.models.Chain, {"n_labels": 3, "n_features": 2}, {"X": TOKENS, "Y": TRUTHS}, {
        "X": {"X": [*TOKENS[:2], moved(TOKENS[2])]}, "Y": {"Y": [*TRUTHS[:2], switched(TRUTHS[2])]},
        "loss": {"loss": COSTS}, "normalised": {"normalised": True}, "rescaling": {"rescaling": "slack"},
        "allowed": {"allowed": ALLOWED}}),
    "Chain with rules": (pb.models.Chain, {"n_labels": 3, "n_features": 2, "allowed": ALLOWED},
                         {"X": TOKENS, "Y": TRUTHS}, {"allowed": {"allowed": ALSO}}),
    "Chain with one end": (pb.models.Chain, {"n_labels": 3, "n_features": 2, "start": True, "end": False},
                           {"X": TOKENS, "Y": TRUTHS}, {"end": {"start": False, "end": True}}),
    "Dependency": (pb.models.Dependency, {"n_features": 2, "single_root": False},
                   {"X": ARCS, "Y": [np.array([-1, 0, 0]), np.array([-1, 0, 1, 2])]}, {
        "X": {"X": [ARCS[0], sp.csr_array(moved(ARCS[1].toarray()))]}, "Y": {"Y": HEADS}, 
        "weights": {"Y": weighted([np.array([-1, 0, 0]), HEADS[1]], [0.0, 0.0, 1.0])}}),
    "one root": (pb.models.Dependency, {"n_features": 2, "single_root": False}, {"X": ARCS, "Y": HEADS}, {
        "root": {"single_root": True}}),
    "BinaryLabeling": (pb.models.BinaryLabeling, {"n_features": 2, "n_edge_features": 2}, GRAPH_DATA, GRAPH_CHANGES),
    "GraphLabeling": (pb.models.GraphLabeling, {"n_labels": 2, "n_features": 2, "n_edge_features": 2}, GRAPH_DATA, {
        **GRAPH_CHANGES, "risk": {"risk": "true"}}),
    "folded": (pb.models.GraphLabeling, {"n_labels": 2, "n_features": 2, "n_edge_features": 2, "symmetric": [0],
                                         "antisymmetric": [1]}, GRAPH_DATA,
               {"columns": {"symmetric": [1], "antisymmetric": [0]}}),
    "Landmarks": (pb.models.Landmarks, {"shape": (4, 4), "parents": [-1, 0], "descriptor": pb.features.MapFeatures(2)},
                  {"X": IMAGES, "Y": POINTS}, {
        "X": {"X": 1.5 * IMAGES}, "Y": {"Y": moved(POINTS, by=0) ^ 1}, "unit": {"unit": 2.0},
        "anchors": {"anchors": np.array([[0.0, 0.0], [1.0, 0.5]])},
        "spreads": {"spreads": np.array([[1.0, 1.0], [2.0, 0.5]])}}),
    "Segmentation": (pb.models.Segmentation, {"height": 2, "widths": np.array([1, 2])}, {
        "X": [rng.normal(size=(3, 2)), rng.normal(size=(2, 2))], "Y": [np.array([0, 1]), np.array([1])]}, {
        "widths": {"widths": np.array([2, 1]), "Y": [np.array([1, 0]), np.array([0])]},
        "Y": {"Y": [np.array([1, 0]), np.array([1])]}, "symbols": {"symbols": np.array([0, 0])},
        "loss": {"loss": "symbol"}, "rescaling": {"rescaling": "slack"}}),
    "Optimizer": (pb.models.Optimizer, {"solver": SOLVER, "n_costs": 4, "n_features": D},
                  {"X": X, "Y": rng.normal(size=(N, 4))}, {
        "X": {"X": moved(X)}, "Y": {"Y": rng.normal(size=(N, 4))}, "loss": {
            "loss": "inverse", "Y": np.tile([1.0, 0.0, 0.0, 1.0], (N, 1))}}),
}


def differ(first, second):
    """Return whether the values of two risks differ at some of ten points; points >= 0 suit every model."""
    points = np.random.default_rng(1).random((10, first.dim)) * np.logspace(-2, 1, 10)[:, None]
    return any(first.derive(n_parts=1).evaluate(w)[0][0] != second.derive(n_parts=1).evaluate(w)[0][0] for w in points)


@pytest.mark.parametrize(("name", "argument"), [(name, key) for name, (*_, changes) in FLAT.items() for key in changes])
def test_arguments_of_risks(name, argument):
    risk, given, changes = FLAT[name]
    first, second = risk(**given), risk(**given | {argument: changes[argument]})
    assert differ(first, second), "the change must matter"
    assert first.fingerprint != second.fingerprint
    assert first.fingerprint == risk(**given).fingerprint


@pytest.mark.parametrize(("name", "change"), [(name, key) for name, (*_, changes) in MODELS.items() for key in changes])
def test_arguments_of_models(name, change):
    model, settings, data, changes = MODELS[name]

    def risk(**changed):
        data_of = {key: changed.pop(key, data[key]) for key in ("X", "Y")}
        return pb.risks.Structured(model(**settings | changed), **data_of)

    first, second = risk(), risk(**changes[change])
    assert first.dim == second.dim
    assert differ(first, second), "the change must matter"
    assert first.fingerprint != second.fingerprint
    assert first.fingerprint == risk().fingerprint
