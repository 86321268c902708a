"""Slow twins of labels on graphs: all labellings, the linear program of the local polytope, and exact arithmetic."""

import itertools
from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog


def table(pairwise, e):
    return pairwise if np.ndim(pairwise) == 2 else pairwise[e]


def score(unaries, edges, pairwise, labels, number=float):
    """Score of one labelling, straight from the definition; exact if `number` is Fraction."""
    total = sum((number(float(unaries[s][k])) for s, k in enumerate(labels)), number(0))
    return total + sum((number(float(table(pairwise, e)[labels[a]][labels[b]])) for e, (a, b) in enumerate(edges)),
                       number(0))


def best_score(unaries, edges, pairwise, number=float):
    n, K = np.shape(unaries)
    return max(score(unaries, edges, pairwise, y, number) for y in itertools.product(range(K), repeat=n))


def merged(unaries, edges, pairwise):
    """The same graph with parallel edges added up."""
    tables = {}
    for e, (a, b) in enumerate(np.asarray(edges).tolist()):
        key, add = ((a, b), table(pairwise, e)) if a < b else ((b, a), np.transpose(table(pairwise, e)))
        tables[key] = tables.get(key, 0) + add
    K = np.shape(unaries)[1]
    return unaries, np.array(list(tables), int).reshape(-1, 2), np.array(list(tables.values())).reshape(-1, K, K)


def relaxed_maximum(unaries, edges, pairwise):
    """Maximum over the local polytope by HiGHS."""
    unaries, edges, tables = merged(unaries, edges, pairwise)
    found = _program(*polytope(*np.shape(unaries), edges), np.concatenate([np.ravel(unaries), tables.ravel()]))
    return -found.fun


def polytope(n, K, edges):
    """The local polytope `A z = b, z >= 0` of a graph without parallel edges, z = [nodes | tables]."""
    m, edges = len(edges), np.asarray(edges)
    blocks = [[sp.kron(sp.eye(n), np.ones((1, K))), sp.csr_matrix((n, m * K * K))]]
    for end, sums in ((0, np.kron(np.eye(K), np.ones((1, K)))), (1, np.kron(np.ones((1, K)), np.eye(K)))):
        if m:
            at = sp.csr_matrix((np.ones(m), (np.arange(m), edges[:, end])), shape=(m, n))
            blocks.append([-sp.kron(at, np.eye(K)), sp.kron(sp.eye(m), sums)])
    return sp.csr_matrix(sp.bmat(blocks)), np.concatenate([np.ones(n), np.zeros(2 * m * K)])


def _program(A, b, scores, method="highs"):
    found = linprog(-scores, A_eq=A, b_eq=b, method=method)
    assert found.status == 0
    return found


def relaxed_interval(unaries, edges, tables, rounds=6, digits=100):
    """A point of the local polytope and an upper bound on all of them, both exact and usually equal to 2^-`digits`.

    HiGHS solves the program; its duals become messages in rational numbers, and what they leave, scaled up, is the next
    program.

    Parameters
    ----------
    unaries, tables : object arrays of Fraction, shapes (n, K) and (m, K, K)
    edges : sequence of pairs
        No two of them join the same nodes.

    Returns
    -------
    point : object array of Fraction, shape (n K + m K^2,), or None
        The best vertex met; None if none was recognised.
    upper : Fraction
    """
    (n, K), m = unaries.shape, len(edges)
    A, b = polytope(n, K, edges)
    scores = np.concatenate([unaries.ravel(), tables.ravel()])
    nodes, rest, point, low, upper, size = unaries.copy(), tables.copy(), None, None, None, None
    for _ in range(rounds):
        tops = nodes.max(axis=1), rest.reshape(m, K * K).max(axis=1) if m else np.zeros(0, dtype=object)
        total = sum(tops[0], Fraction(0)) + sum(tops[1], Fraction(0))
        upper = total if upper is None else min(upper, total)
        left = np.concatenate([(nodes - tops[0][:, None]).ravel(), (rest - tops[1][:, None, None]).ravel()])
        size = -left.min() if size is None else size
        gap = size if low is None else total - low
        if gap <= size / 2**digits:
            break
        unit = Fraction(2) ** (gap.numerator.bit_length() - gap.denominator.bit_length())
        found = _program(A, b, np.array([float(max(v / unit, -10000)) for v in left]), "highs-ds")
        z = np.array([Fraction(v).limit_denominator(500) for v in found.x.tolist()], dtype=object)
        if is_point(z, n, K, edges) and (low is None or z @ scores > low):
            point, low = z, z @ scores
        d = np.array([-Fraction(v) * unit for v in found.eqlin.marginals[n:].tolist()], dtype=object)
        for end, at in enumerate(d.reshape(2, m, K)):
            rest = rest - (at[:, :, None] if end == 0 else at[:, None, :])
            for e, pair in enumerate(edges):
                nodes[pair[end]] = nodes[pair[end]] + at[e]
    return point, upper


def is_point(z, n, K, edges):
    """Whether z lies in the local polytope, exactly."""
    nodes, tables = z[:n * K].reshape(n, K), z[n * K:].reshape(-1, K, K)
    return bool((z >= 0).all() and (nodes.sum(axis=1) == 1).all() and all(
        (table.sum(axis=1) == nodes[a]).all() and (table.sum(axis=0) == nodes[b]).all()
        for table, (a, b) in zip(tables, edges, strict=True)))


def exact_bound(unaries, edges, pairwise, messages):
    """The dual value of messages in exact arithmetic, parallel edges added up."""
    K = np.shape(unaries)[1]
    nodes = [[Fraction(float(x)) for x in row] for row in unaries]
    tables = {}
    for e, (a, b) in enumerate(np.asarray(edges).tolist()):
        entry = tables.setdefault((min(a, b), max(a, b)), {})
        for k, l in itertools.product(range(K), repeat=2):
            value = Fraction(float(table(pairwise, e)[k][l])) - Fraction(float(messages[e][0][k]))
            value -= Fraction(float(messages[e][1][l]))
            place = (k, l) if a < b else (l, k)
            entry[place] = entry.get(place, Fraction(0)) + value
        for k in range(K):
            nodes[a][k] += Fraction(float(messages[e][0][k]))
            nodes[b][k] += Fraction(float(messages[e][1][k]))
    return sum(map(max, nodes), Fraction(0)) + sum((max(entry.values()) for entry in tables.values()), Fraction(0))
