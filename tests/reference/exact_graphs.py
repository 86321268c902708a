"""Exact twins of `GraphLabeling`: the true risk lists all labellings, the relaxed one solves linear programs.

The relaxed twin is a true one to which vertices of the local polytope are added, those that are best at a point met:
from below F is the maximum over these rows, from above it has the bound of messages in rational numbers.
"""

import itertools
import math
from fractions import Fraction

import numpy as np

from . import exact
from .graph_labeling import relaxed_interval

ROUNDS = 40
"""Most vertices that are added on the way to a minimiser."""


class Graph:
    """One example: scores of its cells [n K of nodes | m K^2 of tables] are `costs + (M / 2^k) w`."""

    def __init__(self, M, costs, K, edges, truth):
        self.M, self.costs, self.K, self.edges = M, costs, K, edges
        self.n = (len(M) - len(edges) * K * K) // K
        self.truth = self.cells(truth)

    def cells(self, labels):
        n, K = self.n, self.K
        return [s * K + y for s, y in enumerate(labels)] + [
            (n * K + e * K * K) + labels[a] * K + labels[b] for e, (a, b) in enumerate(self.edges)]

    def rows(self):
        """(loss, factor, psi) of all labellings."""
        origin = self.M[self.truth].sum(axis=0)
        for y in itertools.product(range(self.K), repeat=self.n):
            cells = self.cells(y)
            yield sum(self.costs[cells], Fraction(0)), 1, self.M[cells].sum(axis=0) - origin

    def row(self, point):
        """(loss, factor, psi) of a point of the local polytope."""
        q = math.lcm(1, *(v.denominator for v in point))
        whole = np.array([int(v * q) for v in point], dtype=object)
        return point @ self.costs, Fraction(1, q), whole @ self.M - q * self.M[self.truth].sum(axis=0)

    def best(self, W, scale):
        """A point, and an upper bound on the scores of all points relative to the truth, at w = W / scale."""
        products, cut = self.M @ W, self.n * self.K
        scores = np.array([Fraction(int(v), scale) for v in products], dtype=object) + self.costs
        point, upper = relaxed_interval(scores[:cut].reshape(self.n, self.K), self.edges,
                                        scores[cut:].reshape(-1, self.K, self.K))
        return point, upper - sum(scores[self.truth], Fraction(0))


class Relaxed(exact.Risk):
    """R(w) = sum_i c_i max over the local polytope of graph i; values come as intervals, which are usually points."""

    def __init__(self, dim, graphs, k, weights):
        self.graphs, self.k, self.known, self.n_added = graphs, k, {}, 0
        self.lists = [(c, list(graph.rows())) for c, graph in zip(weights, graphs, strict=True)]
        super().__init__(dim, self.lists, k)

    def value(self, w):
        W, scale = exact._integers(w)
        key = (scale, *W)
        if key not in self.known:
            self.known[key] = self._value(W, scale)
        return self.known[key]

    def _value(self, W, scale):
        low = high = Fraction(0)
        is_new = False
        for (c, rows), graph in zip(self.lists, self.graphs, strict=True):
            if not c or not graph.n:
                continue
            size = scale << self.k
            best = max(loss + factor * Fraction(int(psi @ W), size) for loss, factor, psi in rows)
            point, upper = graph.best(W, size)
            if point is not None and upper > best:
                loss, factor, psi = graph.row(point)
                value = loss + factor * Fraction(int(psi @ W), size)
                if value > best:
                    rows.append((loss, factor, psi))
                    best, is_new, self.n_added = value, True, self.n_added + 1
            assert best <= upper
            low, high = low + exact.fraction(c) * best, high + exact.fraction(c) * upper
        if is_new:
            super().__init__(self.dim, self.lists, self.k)
        return low, high

    def optimum(self, lam, guess, nonneg=None, n=1):
        """The minimiser over the vertices so far, until it has none that is better there."""
        lam = exact.fraction(lam)
        for _ in range(ROUNDS):
            w = exact.active_set(self, lam * n, guess, nonneg)
            if w is None:
                return None
            square, restricted = lam / 2 * sum(v * v for v in w), exact.Risk.value(self, w)[0]
            low, high = self.value(w)
            if low == restricted:       # no vertex was added
                reach = exact.root(2 * (high - low) / (n * lam))
                return exact.Optimum(w, reach, square + low / n, square + high / n)
            guess = [float(v) for v in w]
        return None


def graph_labeling(graphs, Y, n_labels, loss="mean", class_weights=None, node_weights=None, symmetric=(),
                   antisymmetric=(), weights=None, relaxed=False):
    """Labels of graphs (nodes, edges, edge features), dense: -1 is unknown, and tables of parallel edges are added."""
    *lifted, k = exact.lift(*(part for nodes, _, pairs in graphs for part in (nodes, pairs)))
    K, d, p = n_labels, lifted[0].shape[1], lifted[1].shape[1]
    places, n_pairs = _places(K, p, symmetric, antisymmetric)
    dim, examples = K * d + n_pairs, []
    for i, (_, edges, _) in enumerate(graphs):
        nodes, pairs, truth = lifted[2 * i], lifted[2 * i + 1], [int(y) for y in Y[i]]
        known = [s for s, y in enumerate(truth) if y >= 0]
        number, kept = {s: j for j, s in enumerate(known)}, {}
        for e, (a, b) in enumerate(np.asarray(edges).reshape(-1, 2).tolist()):
            if a in number and b in number:
                kept.setdefault((min(number[a], number[b]), max(number[a], number[b])), []).append((e, a > b))
        cells = len(known) * K
        M = np.zeros((cells + len(kept) * K * K, dim), dtype=object)
        for j, s in enumerate(known):
            for label in range(K):
                M[j * K + label, label * d:(label + 1) * d] = nodes[s]
        for number_of_edge, parallel in enumerate(kept.values()):
            for e, is_turned in parallel:
                for (a, b, c), (column, sign) in places.items():
                    row = (b, a) if is_turned else (a, b)
                    M[cells + number_of_edge * K * K + row[0] * K + row[1], K * d + column] += sign * pairs[e, c]
        labels = [truth[s] for s in known]
        given = [1.0] * len(known) if node_weights is None else [node_weights[i][s] for s in known]
        wrong = _costs(labels, [exact.fraction(c) for c in given], K, loss, class_weights)
        costs = np.array([Fraction(0)] * len(M), dtype=object)
        for j, (label, cost) in enumerate(zip(labels, wrong, strict=True)):
            costs[[j * K + other for other in range(K) if other != label]] = cost
        examples.append(Graph(M, costs, K, list(kept), labels))
    weights = [1.0] * len(examples) if weights is None else weights
    if relaxed:
        return Relaxed(dim, examples, k, weights)
    return exact.Risk(dim, [(c, list(graph.rows())) for c, graph in zip(weights, examples, strict=True)], k)


def _places(K, p, symmetric, antisymmetric):
    """Weight and sign of the entry (k, l) for edge feature c, and the number of weights of pairs.

    Without features that treat both ends alike the order is (k, l, c); else c comes first.
    """
    if not len(symmetric) + len(antisymmetric):
        return {(a, b, c): ((a * K + b) * p + c, 1) for a in range(K) for b in range(K) for c in range(p)}, K * K * p
    places, size = {}, 0
    for c in range(p):
        for a, b in itertools.product(range(K), repeat=2):
            if c in symmetric and a > b:
                places[a, b, c] = places[b, a, c]
            elif c in antisymmetric and a >= b:
                if a > b:
                    places[a, b, c] = places[b, a, c][0], -1
            else:
                places[a, b, c], size = (size, 1), size + 1
    return places, size


def _costs(labels, counts, K, loss, class_weights):
    """The cost of a wrong label at each node."""
    factors = [Fraction(1)] * K if class_weights is None else [exact.fraction(c) for c in class_weights]
    costs = [c * factors[y] for c, y in zip(counts, labels, strict=True)]
    if loss == "hamming":
        return costs
    totals = [sum(c for c, y in zip(counts, labels, strict=True) if loss == "mean" or y == mine) for mine in labels]
    return [cost / ((total or 1) * (K if loss == "balanced" else 1))
            for cost, total in zip(costs, totals, strict=True)]
