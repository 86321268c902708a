"""Decoder of binary labels on a graph with submodular scores: the exact maximum by one minimum cut.

    max_y  sum_j unary_j(y_j) + sum_{e = (a, b)} pair_e(y_a, y_b),        y in {0, 1}^n,
    pair_e(0, 0) + pair_e(1, 1) >= pair_e(0, 1) + pair_e(1, 0)

The cut is a maximum flow, found by incremental breadth-first search (Goldberg, Hed, Kaplan, Tarjan, Werneck 2011) on
float64 capacities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.ragged import check_offsets, run_shards
from ..core.types import Array, Floats
from ..core.validation import integer_array, real_numbers
from ._graphcut import MAX_SIZE, solve

BAD_UNARY, BAD_END, SELF_LOOP, BAD_PAIR, NOT_SUBMODULAR, TOO_LARGE = range(1, 7)


def min_cut(unary: ArrayLike, edges: ArrayLike, pairwise: ArrayLike) -> tuple[Array, float, float]:
    """Find the binary labelling of largest score, by one minimum cut.

    Parameters
    ----------
    unary : array_like, shape (n,) or (n, 2)
        Score of label 1 at each node (label 0 scores 0), or the scores of both labels. -inf forbids a label.
    edges : array_like of int, shape (m, 2)
        The nodes (a, b) of each edge; edges between the same nodes add up.
    pairwise : array_like, shape (m,) or (m, 2, 2)
        Weights >= 0: an edge scores `-weight` if the labels of its ends differ, else 0. Or tables: edge e scores
        `pairwise[e, y_a, y_b]`, and each table t has ``t[0, 0] + t[1, 1] >= t[0, 1] + t[1, 0]``; -inf off the
        diagonal forbids a pair of labels.

    Returns
    -------
    labels : ndarray of uint8, shape (n,)
        The best labelling; if there are several, the one with the smallest set of ones, a subset of all others.
    value : float
        Its score, summed from the arguments; -inf if every labelling is forbidden.
    upper : float
        Upper bound on the score of every labelling: a dual bound computed from the flow, roundings included. It
        exceeds `value` by rounding only, about 1e-13 of the sum of the absolute scores.

    Raises
    ------
    ParameterError, InputTypeError
        If a shape, type or number is wrong, an edge does not join two nodes of the graph, or a table is not submodular.

    Notes
    -----
    O(n^2 m) in the worst case; close to linear on images. A plain minimum s-t cut is ``unary = capacity from the
    source - capacity to the sink``: the cut costs ``np.maximum(unary, 0).sum() - value`` plus the smaller of both
    capacities at every node.

    Sources: Kolmogorov, Zabih 2004 (tables as capacities); Goldberg et al. 2011 (flow).

    Examples
    --------
    >>> from pybundle.oracles import min_cut
    >>> labels, value, upper = min_cut([3.0, -1.0, -4.0], [(0, 1), (1, 2)], [2.0, 0.5])
    >>> labels.tolist(), value
    ([1, 1, 0], 1.5)
    """
    unary, edges, pairwise = _check_arrays(unary, edges, pairwise)
    node_offsets, edge_offsets = check_graph_offsets(None, None, len(unary), len(edges))
    labels, values, uppers = np.empty(len(unary), np.uint8), np.empty(1), np.empty(1)
    error = solve(unary.reshape(-1), edges.reshape(-1), pairwise.reshape(-1), unary.ndim == 2, pairwise.ndim == 3,
                  node_offsets, edge_offsets, 0, 1, labels, values, uppers)
    if error is not None:
        _refuse(error, unary, edges, pairwise, node_offsets, edge_offsets, single=True)
    return labels, values.item(), uppers.item()


def min_cut_batch(unary: ArrayLike, edges: ArrayLike, pairwise: ArrayLike, node_offsets: ArrayLike,
                  edge_offsets: ArrayLike, executor: Any = None) -> tuple[Array, Floats, Floats]:
    """Run `min_cut` on many graphs of any sizes.

    Parameters
    ----------
    unary : array_like, shape (N,) or (N, 2)
        Scores of the nodes of all graphs, one graph after another.
    edges : array_like of int, shape (M, 2)
        Nodes are numbered from 0 in each graph.
    pairwise : array_like, shape (M,) or (M, 2, 2)
    node_offsets, edge_offsets : array_like of int, shape (n_graphs + 1,)
        Graph i has the nodes ``node_offsets[i]:node_offsets[i + 1]`` and the edges
        ``edge_offsets[i]:edge_offsets[i + 1]``.
    executor : object with ``map(function, items)``, optional
        For instance a `concurrent.futures.ThreadPoolExecutor`; the results do not depend on it.

    Returns
    -------
    labels : ndarray of uint8, shape (N,)
    values, uppers : ndarray, shape (n_graphs,)

    Examples
    --------
    >>> from pybundle.oracles import min_cut_batch
    >>> labels, values, uppers = min_cut_batch(
    ...     [1.0, -2.0, 5.0, -1.0], [(0, 1), (0, 1)], [0.5, 3.0],
    ...     node_offsets=[0, 2, 4], edge_offsets=[0, 1, 2])
    >>> labels.tolist(), values.tolist()
    ([1, 0, 1, 1], [0.5, 4.0])
    """
    unary, edges, pairwise = _check_arrays(unary, edges, pairwise)
    node_offsets, edge_offsets = check_graph_offsets(node_offsets, edge_offsets, len(unary), len(edges))
    n_nodes, n_edges = np.diff(node_offsets), np.diff(edge_offsets)
    labels, values, uppers = np.empty(len(unary), np.uint8), np.empty(len(n_nodes)), np.empty(len(n_nodes))
    arrays = unary.reshape(-1), edges.reshape(-1), pairwise.reshape(-1), unary.ndim == 2, pairwise.ndim == 3
    errors = []

    def run(first, last):
        error = solve(*arrays, node_offsets, edge_offsets, first, last, labels, values, uppers)
        if error is not None:
            errors.append(error)

    run_shards(run, n_nodes + 2 * n_edges, executor)
    if errors:
        _refuse(min(errors), unary, edges, pairwise, node_offsets, edge_offsets)
    return labels, values, uppers


def _check_arrays(unary, edges, pairwise):
    """Return the arrays in C order: float64, int32 or int64, float64; the kernel checks their numbers."""
    unary, pairwise = _floats("unary", unary), _floats("pairwise", pairwise)
    if not (unary.ndim == 1 or (unary.ndim == 2 and unary.shape[1] == 2)):
        raise ParameterError(f"unary must have shape (n,) or (n, 2), got {unary.shape}")
    edges = check_edges(edges)
    if edges.dtype not in (np.int32, np.int64) or not edges.flags.c_contiguous:
        edges = np.ascontiguousarray(edges, np.int64)
    m = len(edges)
    if m == 0 and pairwise.size == 0:
        pairwise = pairwise.reshape(0)
    if pairwise.shape != (m,) and pairwise.shape != (m, 2, 2):
        raise ParameterError(f"pairwise must have shape (m,) = ({m},), one weight an edge, or (m, 2, 2) = ({m}, 2, 2), "
                             f"got {pairwise.shape}")
    return unary, edges, pairwise


def _floats(name, value):
    if type(value) is np.ndarray and value.dtype == np.float64 and value.flags.c_contiguous and value.flags.aligned:
        return value
    return real_numbers(f"{name} must be an array of real numbers, got {type(value).__name__}", value)


def check_edges(edges):
    """Return edges as an array of integers (m, 2)."""
    edges = integer_array("edges", edges)
    if edges.size == 0:
        edges = np.empty((0, 2), np.int64)
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise ParameterError(f"edges must have shape (m, 2), two nodes an edge, got {edges.shape}")
    if edges.dtype == np.uint64 and (wrong := (edges > np.iinfo(np.int64).max).any(axis=1)).any():
        edge = int(np.argmax(wrong))
        raise ParameterError(f"edges[{edge}] must join nodes 0..n - 1, got {tuple(edges[edge].tolist())}")
    return edges


def check_graph_offsets(node_offsets, edge_offsets, n, m):
    """Return both offsets of a batch of graphs with n nodes and m edges; None makes it one graph."""
    if node_offsets is None:
        n_nodes, n_edges, offsets = n, m, (np.array((0, n)), np.array((0, m)))
    else:
        offsets = check_offsets(node_offsets, n, "node_offsets"), check_offsets(edge_offsets, m, "edge_offsets")
        if len(offsets[0]) != len(offsets[1]):
            raise ParameterError(f"node_offsets and edge_offsets must describe the same graphs, got "
                                 f"{len(offsets[0]) - 1} and {len(offsets[1]) - 1} graphs")
        n_nodes, n_edges = (np.diff(ends).max(initial=0) for ends in offsets)
    if n_nodes > MAX_SIZE or n_edges > MAX_SIZE:
        raise ParameterError(f"a graph must have at most {MAX_SIZE} nodes and {MAX_SIZE} edges, got {n_nodes} and "
                             f"{n_edges}")
    return offsets


def refuse_edge(edge, ends, n, place="", unary="unary"):
    """Raise the ParameterError of an edge that does not join two of the n nodes of a graph."""
    if ends[0] == ends[1] and 0 <= ends[0] < n:
        raise ParameterError(f"edges[{edge}] must join two different nodes, got {tuple(ends)}{place}; drop it, or add "
                             f"its score to {unary}")
    raise ParameterError(f"edges[{edge}] must join nodes 0..{n - 1}, got {tuple(ends)}{place}")


def _refuse(error, unary, edges, pairwise, node_offsets, edge_offsets, single=False):
    """Raise the ParameterError of a kernel's `error`: the graph, the node or edge in it, and the code."""
    graph, where, code = error
    node, edge = where + int(node_offsets[graph]) * unary.ndim, where + int(edge_offsets[graph])
    size = int(node_offsets[graph + 1] - node_offsets[graph])
    place = "" if single else f" (graph {graph}, " + (
        f"node {where // unary.ndim} of it)" if code == BAD_UNARY else f"edge {where} of it)")
    if code == BAD_UNARY:
        index = f"{node // 2}, {node % 2}" if unary.ndim == 2 else f"{node}"
        raise ParameterError(f"unary[{index}] must be a finite number or -inf, got {unary.flat[node]}{place}")
    if code == TOO_LARGE:
        which = "the graph" if single else f"graph {graph}"
        raise ParameterError(f"the scores of {which} must sum to less than 1e307 in size; divide them all by a number")
    ends = tuple(edges[edge].tolist())
    if code in (BAD_END, SELF_LOOP):
        refuse_edge(edge, ends, size, place)
    if code == BAD_PAIR and pairwise.ndim == 1:
        raise ParameterError(f"pairwise[{edge}] must be a finite weight >= 0, got {pairwise[edge]} on edge "
                             f"{ends}{place}; a reward for different labels is not submodular")
    table = pairwise[edge]
    if code == BAD_PAIR:
        raise ParameterError(f"pairwise[{edge}] must hold finite numbers or -inf, got {table.tolist()}{place}")
    raise ParameterError(f"pairwise[{edge}] of edge {ends} is not submodular{place}: t[0, 0] + t[1, 1] = "
                         f"{table[0, 0] + table[1, 1]:g} must be at least t[0, 1] + t[1, 0] = "
                         f"{table[0, 1] + table[1, 0]:g} (and the diagonal finite), got {table.tolist()}")
