"""Random small problems of labels on graphs for the proofs, of the relaxed and of the true risk."""

import copy
import itertools

import numpy as np
import scipy.sparse as sp

import pybundle as pb

from . import exact_graphs
from .problems import HINGE, labels, matrix, sample_weights, scale_of, stored

MOST = 260
"""Labellings of a graph, which the twins list; some graphs have up to 1024."""


def edges_of(rng, size, is_frustrated):
    """No edges, a forest, a cycle, all pairs, or any pairs, also parallel ones; nodes may be isolated."""
    kind = rng.choice(["cycle", "complete"] if is_frustrated else [
        "none", "forest", "cycle", "complete", "any", "any"])
    order = rng.permutation(size)
    if size < 2 or kind == "none":
        return np.zeros((0, 2), dtype=int)
    if kind == "forest":
        found = [(order[j], order[rng.integers(j)]) for j in range(1, size) if rng.random() < 0.8]
    elif kind == "cycle":
        found = [(order[j], order[(j + 1) % size]) for j in range(size)]        # for two nodes a parallel edge
    elif kind == "complete":
        found = [(a, b) for a in range(size) for b in range(a)]
    else:
        found = [rng.choice(size, 2, replace=False) for _ in range(int(rng.integers(1, 2 * size)))]
    found = np.array(found, dtype=int).reshape(-1, 2)
    turned = rng.random(len(found)) < 0.5
    found[turned] = found[turned, ::-1]
    return np.vstack([found, found[:1, ::-1]]) if rng.random() < 0.2 else found


def kinds_of(rng, p):
    """Features of edges that treat both ends alike."""
    kinds = rng.choice(["symmetric", "antisymmetric", "any"], p)
    if rng.random() < 0.4:
        return {}
    return {name: np.flatnonzero(kinds == name).tolist() for name in ("symmetric", "antisymmetric")}


def costs_of(rng, n_nodes, K):
    """Weights of nodes and of classes, or None."""
    nodes = rng.choice([0.0, 1.0, 0.3, 1e4], n_nodes, p=[0.15, 0.4, 0.35, 0.1]) if rng.random() < 0.4 else None
    classes = rng.choice([0.0, 1.0, 0.1, 7.0], K, p=[0.1, 0.4, 0.3, 0.2]) if rng.random() < 0.4 else None
    return nodes, classes


def weights_of(rng, n):
    if rng.random() < 0.7:
        return sample_weights(rng, n)
    return rng.choice([0.0, 1.0, 1e6], n)


def graph_labeling(rng, relaxed):
    n, K, d, p = (int(rng.integers(1, most)) for most in (5, 4, 4, 3))
    K += 1
    loss, kinds = str(rng.choice(["mean", "hamming", "balanced"])), kinds_of(rng, p)
    sizes = [min(int(rng.integers(1, 6)), 5 if rng.random() < 0.05 else int(np.log(MOST) / np.log(K)))
             for _ in range(n)]
    is_frustrated = rng.random() < 0.4          # pairs want different labels, which not all can have
    if is_frustrated:
        sizes = [max(size, 3) for size in sizes]
    edges = [edges_of(rng, size, is_frustrated) for size in sizes]
    nodes = matrix(rng, sum(sizes), d)
    Y = labels(rng, nodes, K)
    if is_frustrated:
        nodes = nodes[:1] + rng.choice([0.0, 1e-3, 0.1]) * nodes
        Y = np.concatenate([rng.permutation(K)[np.arange(size) % 2] for size in sizes])
    nodes, exact_nodes = stored(rng, nodes)
    size = scale_of(rng) if rng.random() < 0.3 else max(np.abs(exact_nodes).max(), 1e-8)
    factor, n_edges = size * 10.0 ** rng.integers(-2, 3), sum(map(len, edges))
    kind = "ones" if is_frustrated and rng.random() < 0.7 else rng.choice(["ones", "integers", "normal"])
    pairs = np.ones((n_edges, p)) if kind == "ones" else rng.integers(-2, 3, (n_edges, p)) * 1.0 if (
        kind == "integers") else rng.standard_normal((n_edges, p))
    pairs = pairs * factor
    if rng.random() < 0.2:
        pairs = pairs.astype(np.float32)
    exact_pairs = pairs.astype(np.float64)
    pairs = sp.csr_array(pairs) if n_edges and rng.random() < 0.2 else pairs
    node_weights, class_weights = costs_of(rng, len(Y), K)
    cuts, ends = (np.concatenate([[0], np.cumsum(part)]) for part in (sizes, [len(e) for e in edges]))

    def split(array, at):
        return [array[a:b] for a, b in itertools.pairwise(at)]

    Y = split(np.where((rng.random(len(Y)) < 0.2) & (rng.random() < 0.4), -1, Y), cuts)
    if (Y[0] < 0).all():
        Y[0] = np.zeros(len(Y[0]), dtype=int)
    X = [list(graph) for graph in zip(split(nodes, cuts), edges, split(pairs, ends), strict=True)]
    exact_X = [list(graph) for graph in zip(split(exact_nodes, cuts), edges, split(exact_pairs, ends), strict=True)]
    node_weights = None if node_weights is None else split(node_weights, cuts)
    if n > 1 and rng.random() < 0.5:            # the same graph with other labels
        X[-1], exact_X[-1], Y[-1] = X[0], exact_X[0], np.where(Y[0] < 0, -1, (Y[0] + 1) % K)
        node_weights = None if node_weights is None else [*node_weights[:-1], node_weights[0]]
    weights = weights_of(rng, n)
    model = pb.models.GraphLabeling(K, d, p, loss=loss, class_weights=class_weights,
                                    risk="relaxed" if relaxed else "true", **kinds)
    given = Y if node_weights is None else [
        pb.models.WeightedLabels(y, c) for y, c in zip(Y, node_weights, strict=True)]
    risk = pb.risks.Structured(model, [pb.Graph(*x) for x in X], given, sample_weight=weights)
    twin = exact_graphs.graph_labeling(exact_X, Y, K, loss, class_weights, node_weights, **kinds, weights=weights,
                                       relaxed=relaxed)
    return risk, twin, HINGE


KINDS = {
    "graphs, relaxed": (1, lambda rng: graph_labeling(rng, True)),
    "graphs, true": (1, lambda rng: graph_labeling(rng, False)),
}


def other_risk(risk):
    """The relaxed risk of the same data if `risk` is the true one, and the other way round."""
    model = copy.copy(risk.model)
    model.risk = "true" if model.risk == "relaxed" else "relaxed"
    return pb.risks.Structured(model, risk.X, risk.Y, sample_weight=risk.sample_weight)
