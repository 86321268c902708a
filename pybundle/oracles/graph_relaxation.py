"""The relaxed maximum on any graph: the best point of the local polytope, to a tolerance, with a proven bound.

    max  sum_s <mu_s, theta_s> + sum_e <nu_e, theta_e>     over mu_s >= 0 of sum 1, nu_e >= 0 with
         sum_l nu_e(k, l) = mu_a(k)  and  sum_k nu_e(k, l) = mu_b(l)  for each edge e = (a, b)

The relaxed maximum is convex in the scores, and at least the maximum over labellings, which are the integral points.
For any messages d the dual problem gives an upper bound, `graph_upper`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.types import Floats
from ._graph_labeling import BOUND, POINTS
from .graph_labeling import check_graphs, check_messages, check_scores


class GraphRelaxation(NamedTuple):
    """A point of the local polytope of a graph, or of a batch of graphs, and what is proven about it.

    Attributes
    ----------
    nodes : ndarray, shape (n, K)
        mu, in multiples of 2^-30: every row sums to exactly 1.
    edges : ndarray, shape (m, K, K)
        nu, in multiples of 2^-30: rows and columns of a table sum to exactly the `nodes` of its ends.
    value : float, or ndarray of shape (n_graphs,)
        The score of the point, summed from the arguments.
    upper : float, or ndarray of shape (n_graphs,)
        An upper bound on the score of every point and labelling, roundings included: `graph_upper` of `messages`.
    messages : ndarray, shape (m, 2, K)
        Dual point of the bound, which a later call may start from.
    """

    nodes: Floats
    edges: Floats
    value: Any
    upper: Any
    messages: Floats


def graph_relaxation(unaries: ArrayLike, edges: ArrayLike, pairwise: ArrayLike, *, tol: float = 1e-3, sweeps: int = 400,
                     messages: Any = None) -> GraphRelaxation:
    """Maximise scores over the local polytope of a graph, to an accuracy.

    Parameters
    ----------
    unaries, edges, pairwise
        As in `graph_labeling`.
    tol : float, default 1e-3
        Wanted difference of `upper` and `value`, in units of the scores. Accuracies below about 1e-4 of the scores take
        many sweeps if the point is not a labelling, and may not be reached.
    sweeps : int, default 400
        Most soft sweeps; a search that has stalled ends earlier.
    messages : ndarray of float64, shape (m, 2, K), optional
        Messages of an earlier call on similar scores, or zeros; they are overwritten and returned.

    Returns
    -------
    GraphRelaxation
        `nodes, edges, value, upper, messages`.

    Raises
    ------
    ParameterError, InputTypeError
        If a shape, type or number is wrong, or an edge does not join two nodes of the graph.

    Notes
    -----
    Trees and up to 30 sweeps as in `graph_labeling`; these may stop at a bound that is not the relaxed maximum. Then
    the maximum in their messages becomes soft, T log sum_k exp(. / T). The temperature T begins at tol / 25 or a
    hundredth of the scores, and falls to 3e-4 of the scores when progress is slow. Soft maxima are products of K x K
    matrices with vectors, as in Sinkhorn's iteration, with O(K) exponentials for each edge and sweep. Every five sweeps
    the beliefs become a point: shares of nodes are averaged with the marginals of their edges, tables are scaled to
    them, rounded down, and filled by the north-west corner rule. The best point met is returned; labellings count as
    points. A sweep takes O(K^2) for each edge; memory is about eight tables for each edge.

    Sources: Kolmogorov 2006 and Meltzer, Globerson, Weiss 2009 (sweeps); rounding to a point is our own.

    Examples
    --------
    Every pair of three nodes wants different labels; two labels can please two pairs, half of each label all three:

    >>> from pybundle.oracles import graph_labeling, graph_relaxation
    >>> triangle, differ = [(0, 1), (1, 2), (2, 0)], [[0.0, 1.0], [1.0, 0.0]]
    >>> point = graph_relaxation([[0.0, 0.0]] * 3, triangle, differ, tol=1e-6)
    >>> point.nodes.tolist(), round(point.value, 5), round(point.upper, 5)
    ([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], 3.0, 3.0)
    >>> graph_labeling([[0.0, 0.0]] * 3, triangle, differ).value
    2.0
    """
    found = _relax(check_graphs(unaries, edges, pairwise), tol, sweeps, messages, None)
    return found._replace(value=found.value.item(), upper=found.upper.item())


def graph_relaxation_batch(unaries: ArrayLike, edges: ArrayLike, pairwise: ArrayLike, node_offsets: ArrayLike,
                           edge_offsets: ArrayLike, *, tol: ArrayLike = 1e-3, sweeps: int = 400, messages: Any = None,
                           executor: Any = None) -> GraphRelaxation:
    """Run `graph_relaxation` on many graphs of any sizes.

    Parameters
    ----------
    unaries, edges, pairwise, node_offsets, edge_offsets, executor
        As in `graph_labeling_batch`.
    tol : float or array_like, shape (n_graphs,), default 1e-3
    sweeps : int, default 400
    messages : ndarray of float64, shape (M, 2, K), optional
        Read, overwritten and returned, as in `graph_relaxation`.

    Returns
    -------
    GraphRelaxation
        `nodes` (N, K), `edges` (M, K, K), `value` and `upper` (n_graphs,), `messages` (M, 2, K).

    Examples
    --------
    >>> from pybundle.oracles import graph_relaxation_batch
    >>> found = graph_relaxation_batch(
    ...     [[1, 0], [0, 2], [5, 0], [0, 1]], [(0, 1), (0, 1)], [[3, 0], [0, 3]],
    ...     node_offsets=[0, 2, 4], edge_offsets=[0, 1, 2])
    >>> found.nodes[:, 1].tolist(), found.value.tolist()
    ([1.0, 1.0, 0.0, 0.0], [5.0, 8.0])
    """
    return _relax(check_graphs(unaries, edges, pairwise, node_offsets, edge_offsets), tol, sweeps, messages, executor)


def graph_upper(unaries: ArrayLike, edges: ArrayLike, pairwise: ArrayLike, messages: ArrayLike) -> float:
    """Compute the upper bound that messages prove, on the scores of all labellings and points of the local polytope.

    Parameters
    ----------
    unaries, edges, pairwise
        As in `graph_labeling`.
    messages : array_like, shape (m, 2, K)
        Any finite numbers d below 1e100 in size; those of edges between the same nodes add up.

    Returns
    -------
    float
        ``sum_s max_k [theta_s(k) + sum_{e at s} d_e,s(k)] + sum_e max_kl [theta_e(k, l) - d_e,a(k) - d_e,b(l)]``, plus
        a bound on the rounding of this sum.

    Raises
    ------
    ParameterError, InputTypeError
        As for `graph_labeling`.

    Notes
    -----
    O(K^2) for each edge. This is weak duality: d cancels in the score of every point.

    Source: Werner 2007 (a review of this linear program).

    Examples
    --------
    >>> from pybundle.oracles import graph_relaxation, graph_upper
    >>> scores = [[1.0, 0.0], [0.0, 2.0]], [(0, 1)], [[3.0, 0.0], [0.0, 3.0]]
    >>> round(graph_upper(*scores, [[[0.0, 0.0], [0.0, 0.0]]]), 9)
    6.0
    >>> point = graph_relaxation(*scores)
    >>> graph_upper(*scores, point.messages) == point.upper, round(point.upper, 9)
    (True, 5.0)
    """
    graphs = check_graphs(unaries, edges, pairwise)
    shape = len(graphs.edges), 2, graphs.unaries.shape[1]
    messages = check_scores("messages", messages)
    if messages.shape != shape and messages.size + np.prod(shape) > 0:
        raise ParameterError(f"messages must have shape (m, 2, K) = {shape}, got {messages.shape}")
    upper = np.empty(1)
    graphs.run(BOUND, 0.0, 1, None, messages.reshape(shape).copy(), upper)
    return upper.item()


def _relax(graphs, tol, sweeps, messages, executor):
    K, m, n_graphs = graphs.unaries.shape[1], len(graphs.edges), len(graphs.node_offsets) - 1
    messages = np.zeros((m, 2, K)) if messages is None else check_messages(messages, (m, 2, K))
    nodes, points = np.empty((len(graphs.unaries), K)), np.empty((m, K, K))
    values, uppers = np.empty(n_graphs), np.empty(n_graphs)
    graphs.run(POINTS, tol, sweeps, executor, messages, uppers, values, None, nodes, points)
    return GraphRelaxation(nodes, points, values, uppers, messages)
