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
    (n, K), m = np.shape(unaries), len(edges)
    blocks = [[sp.kron(sp.eye(n), np.ones((1, K))), sp.csr_matrix((n, m * K * K))]]
    for end, sums in ((0, np.kron(np.eye(K), np.ones((1, K)))), (1, np.kron(np.ones((1, K)), np.eye(K)))):
        at = sp.csr_matrix((np.ones(m), (np.arange(m), edges[:, end])), shape=(m, n))
        blocks.append([-sp.kron(at, np.eye(K)), sp.kron(sp.eye(m), sums)])
    A = sp.bmat(blocks[:1] + (blocks[1:] if m else []), format="csr")
    found = linprog(-np.concatenate([np.ravel(unaries), tables.ravel()]), A_eq=A,
                    b_eq=np.concatenate([np.ones(n), np.zeros(2 * m * K)]), method="highs")
    assert found.status == 0
    return -found.fun


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
