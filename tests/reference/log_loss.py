"""Log-losses in exact arithmetic: features as fractions, all labellings listed, logarithms of 60 digits."""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise, product
from math import prod

import numpy as np
from reference.arborescence import all_trees


def decimal(x):
    x = Fraction(x)
    return Decimal(x.numerator) / Decimal(x.denominator)


def dot(psi, w):
    """<w, psi>, exact, of features {number: Fraction}."""
    return sum((value * Fraction(float(w[j])) for j, value in psi.items()), Fraction(0))


def add(total, pieces, sign=1):
    for j, value in pieces:
        total[j] = total.get(j, Fraction(0)) + sign * Fraction(value)
    return total


def log_loss(psis, w):
    """log sum exp <w, psi>."""
    with localcontext(prec=60):
        scores = [decimal(dot(psi, w)) for psi in psis]
        top = max(scores)
        return top + sum((s - top).exp() for s in scores).ln()


def differences(features, truth):
    """psi(y) = Psi(y) - Psi(truth) for all labellings y, from the pieces that Psi is added from."""
    return [add(add({}, pieces), features[truth], -1) for pieces in features.values()]


def multiclass(x, y, K):
    d = len(x)
    return differences({k: [(k * d + j, float(v)) for j, v in enumerate(x)] for k in range(K)}, int(y))


def chain(x, y, K, start, end, support=None):
    """Weights in the order of `pb.models.Chain`: tokens (K, d) or `support`, transitions (K, K), start, end."""
    T, d = x.shape
    features = {}
    for labels in product(range(K), repeat=T):
        pieces = [(k * d + j, float(v)) for k, token in zip(labels, x, strict=True) for j, v in enumerate(token)]
        pieces += [(K * d + a * K + b, 1) for a, b in pairwise(labels)]
        pieces += [(K * d + K * K + labels[0], 1)] if start else []
        pieces += [(K * d + K * K + K * start + labels[-1], 1)] if end else []
        features[labels] = pieces
    psis = differences(features, tuple(int(k) for k in y))
    if support is None:
        return psis
    places = {k * d + j: p for p, (j, k) in enumerate(support.tolist())}
    places |= {j: len(support) + j - K * d for j in range(K * d, K * (d + K + start + end))}
    return [{places[j]: value for j, value in psi.items() if j in places} for psi in psis]


def dependency(x, y, single_root):
    """x: dense rows of arcs (h, m), m != h, ordered by h and then m."""
    n = len(y) - 1
    arcs = {arc: [(j, float(v)) for j, v in enumerate(row) if v] for arc, row in
            zip([(h, m) for h in range(n + 1) for m in range(1, n + 1) if m != h], x, strict=True)}
    features = {tuple(map(int, t)): [p for m in range(1, n + 1) for p in arcs[int(t[m]), m]]
                for t in all_trees(n, single_root)}
    return differences(features, tuple(map(int, y)))


def landmarks(x, y, parents, shape):
    """x (pixels, d): `MapFeatures` of every pixel; boxes are the whole image, anchors 0, spreads 1."""
    (H, W), d, L = shape, x.shape[1], len(parents)
    children, features = [j for j in range(L) if parents[j] >= 0], {}
    for places in product(range(H * W), repeat=L):
        pieces = [(j * d + f, float(v)) for j, place in enumerate(places) for f, v in enumerate(x[place])]
        for c, j in enumerate(children):
            for axis, (a, b) in enumerate([(places[j] % W, places[parents[j]] % W),
                                           (places[j] // W, places[parents[j]] // W)]):
                pieces += [(L * d + 4 * c + 2 * axis, -(a - b)**2), (L * d + 4 * c + 2 * axis + 1, -(a - b))]
        features[places] = pieces
    return differences(features, tuple(int(p[1]) * W + int(p[0]) for p in y))


def tree_partition(weights, single_root=False):
    """The sum over trees of the products of weights, a fraction: elimination without a rounding."""
    return prod(eliminate(weights, single_root)[1][1:])


def eliminate(weights, single_root):
    """Weights as they are when each word goes, and their sums over its heads."""
    n = len(weights)
    W, D = [[Fraction(float(v)) for v in row] for row in weights], [None] * n
    for v in range(n - 1, 0, -1):
        D[v] = sum(W[h][v] for h in range(int(single_root and v > 1), v))
        for h in range(v):
            for m in range(1, v):
                if m != h:
                    W[h][m] += W[h][v] * W[v][m] / D[v]
    return W, D


def tree_marginals(weights, single_root=False):
    """Arc marginals of p(tree) ~ prod weights[head, word], as fractions: the elimination, backwards."""
    n, (W, D) = len(weights), eliminate(weights, single_root)
    A = [[Fraction(0)] * n for _ in range(n)]
    for v in range(1, n):
        first = int(single_root and v > 1)
        inner = [sum(A[h][m] * W[v][m] for m in range(1, v) if m != h) for h in range(v)]
        top = 1 - sum(W[h][v] / D[v] * inner[h] for h in range(v))
        for m in range(1, v):
            A[v][m] = sum(W[h][v] / D[v] * A[h][m] for h in range(v) if h != m)
        for h in range(v):
            A[h][v] = ((top if h >= first else 0) + inner[h]) / D[v]
    return np.array([[a * Fraction(float(w)) for a, w in zip(*rows, strict=True)]
                     for rows in zip(A, weights, strict=True)])
