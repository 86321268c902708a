"""Decoder of labels on any graph: exact on forests and for two labels with submodular scores, else with a proven bound.

    max_y  sum_s theta_s(y_s) + sum_{e = (a, b)} theta_e(y_a, y_b),        y in {0, ..., K - 1}^n

Elsewhere the maximum is NP-hard. Sequential reweighted message passing lowers a bound of it, and each sweep suggests a
labelling. `graph_relaxation` computes the relaxed maximum, which that bound approaches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.ragged import check_offsets, run_shards
from ..core.types import Array, Floats
from ..core.validation import check_count, integer_array, real_numbers
from ._graph_labeling import LABELS, solve
from ._graphcut import MAX_SIZE

LIMIT = 1e100
"""Scores and messages are smaller, so that no sum of them overflows."""
"""Largest number of nodes and of edges of a graph: the two ends of an edge are counted by int32."""
MAX_LABELS = (1 << 15) - 1


class GraphLabels(NamedTuple):
    """A labelling of a graph, or of a batch of graphs, and what is proven about it.

    Attributes
    ----------
    labels : ndarray of int32, shape (n,)
        Models and estimators return one item for each graph of a batch.
    value : float, or ndarray of shape (n_graphs,)
        The score of the labels, summed from the arguments.
    upper : float, or ndarray of shape (n_graphs,)
        An upper bound on the score of every labelling, roundings included.
    """

    labels: Any
    value: Any
    upper: Any


def graph_labeling(unaries: ArrayLike, edges: ArrayLike, pairwise: ArrayLike, *, tol: float = 1e-3, sweeps: int = 100,
                   messages: Any = None) -> GraphLabels:
    """Find a labelling of large score on a graph, and an upper bound on all scores.

    Parameters
    ----------
    unaries : array_like, shape (n, K)
        Scores of the K >= 2 labels at each node; all scores are finite and below 1e100 in size.
    edges : array_like of int, shape (m, 2)
        The nodes (a, b) of each edge; edges between the same nodes add up.
    pairwise : array_like, shape (m, K, K) or (K, K)
        Edge e scores `pairwise[e, y_a, y_b]`, or `pairwise[y_a, y_b]` if all edges share a table.
    tol : float, default 1e-3
        Wanted difference of `upper` and `value`, in units of the scores. It is reached on forests and, up to rounding,
        whenever the bound of the local polytope is the maximum and the sweeps find it.
    sweeps : int, default 100
        Most sweeps over the graph; a search that has stalled ends earlier.
    messages : ndarray of float64, shape (m, 2, K), optional
        Messages to both ends of each edge, from an earlier call on similar scores, or zeros. They are read as the start
        and then overwritten with those that prove `upper`, except by minimum cuts, which do not need any.

    Returns
    -------
    GraphLabels
        `labels, value, upper`.

    Raises
    ------
    ParameterError, InputTypeError
        If a shape, type or number is wrong, or an edge does not join two nodes of the graph.

    Notes
    -----
    * Each component that is a tree is solved by dynamic programming, in O(K^2) for each edge.
    * A graph with K = 2 whose tables t all have ``t[0, 0] + t[1, 1] >= t[0, 1] + t[1, 0]`` is solved by `min_cut`.
    * Otherwise a sweep takes O(K^2) for each edge (Kolmogorov 2006, figure 3, for maxima). Node s, in the given order,
      with gamma_s = 1 / max(number of earlier, of later neighbours), sends along each edge e to a later node t::

          m_e,t(l) = max_k [gamma_s (theta_s(k) + sum_e' m_e',s(k)) - m_e,s(k) + theta_e(k, l)]

      and then the same in reverse order. Labels are chosen one after another, given those of earlier nodes and the
      messages of later ones, and then improved one at a time. The best labelling met is returned.

    Memory is two padded copies of the tables, one if they are shared. The bound is that of `graph_upper`.

    Source: Kolmogorov 2006 (convergent tree-reweighted message passing). Differences: the bound is summed anew from the
    messages, with its rounding; trees are solved apart, because these sweeps are not exact there.

    Examples
    --------
    >>> from pybundle.oracles import graph_labeling
    >>> labels, value, upper = graph_labeling(
    ...     [[1.0, 0.0, 0.0], [0.0, 0.8, 0.0], [0.0, 0.0, 3.0]], [(0, 1), (1, 2), (2, 0)],
    ...     [[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.5]])
    >>> labels.tolist(), value, round(upper, 9)
    ([0, 1, 2], 4.8, 4.8)
    """
    graphs = check_graphs(unaries, edges, pairwise)
    labels, values, uppers = _label(graphs, tol, sweeps, messages, None)
    return GraphLabels(labels, values.item(), uppers.item())


def graph_labeling_batch(unaries: ArrayLike, edges: ArrayLike, pairwise: ArrayLike, node_offsets: ArrayLike,
                         edge_offsets: ArrayLike, *, tol: ArrayLike = 1e-3, sweeps: int = 100, messages: Any = None,
                         executor: Any = None) -> GraphLabels:
    """Run `graph_labeling` on many graphs of any sizes.

    Parameters
    ----------
    unaries : array_like, shape (N, K)
        Scores of the nodes of all graphs, one graph after another.
    edges : array_like of int, shape (M, 2)
        Nodes are numbered from 0 in each graph.
    pairwise : array_like, shape (M, K, K) or (K, K)
    node_offsets, edge_offsets : array_like of int, shape (n_graphs + 1,)
        Graph i has the nodes ``node_offsets[i]:node_offsets[i + 1]`` and the edges
        ``edge_offsets[i]:edge_offsets[i + 1]``.
    tol : float or array_like, shape (n_graphs,), default 1e-3
    sweeps : int, default 100
    messages : ndarray of float64, shape (M, 2, K), optional
        Read and overwritten, as in `graph_labeling`.
    executor : object with ``map(function, items)``, optional
        For instance a `concurrent.futures.ThreadPoolExecutor`; the results do not depend on it.

    Returns
    -------
    GraphLabels
        `labels` (N,), `value` and `upper` (n_graphs,).

    Examples
    --------
    >>> from pybundle.oracles import graph_labeling_batch
    >>> labels, values, uppers = graph_labeling_batch(
    ...     [[1, 0], [0, 2], [5, 0], [0, 1]], [(0, 1), (0, 1)], [[3, 0], [0, 3]],
    ...     node_offsets=[0, 2, 4], edge_offsets=[0, 1, 2])
    >>> labels.tolist(), values.tolist()
    ([1, 1, 0, 0], [5.0, 8.0])
    """
    return _label(check_graphs(unaries, edges, pairwise, node_offsets, edge_offsets), tol, sweeps, messages, executor)


class Graphs(NamedTuple):
    """The checked arrays of a batch of graphs: float64 and int64 in C order; one table if all edges share it."""

    unaries: Floats
    edges: Array
    tables: Floats
    shared: bool
    node_offsets: Array
    edge_offsets: Array

    def run(self, task: int, tol: Any, sweeps: Any, executor: Any, *outputs: Any) -> None:
        """Call the kernel for all graphs, with checked settings, in shards."""
        sweeps = check_count("sweeps", sweeps)
        sizes = np.diff(self.node_offsets) + np.diff(self.edge_offsets) * self.unaries.shape[1]
        tol = _check_tol(tol, len(sizes))
        run_shards(lambda first, last: solve(task, *self, first, last, tol, sweeps, *outputs), sizes * 64, executor)


def check_graphs(unaries, edges, pairwise, node_offsets=None, edge_offsets=None):
    """Return the `Graphs` of a call; an error names the argument, the place in it and the graph."""
    unaries = check_scores("unaries", unaries)
    if unaries.ndim != 2 or not 2 <= unaries.shape[1] <= MAX_LABELS:
        raise ParameterError(f"unaries must have shape (n, K) with at least 2 and at most {MAX_LABELS} labels, got "
                             f"shape {unaries.shape}")
    K = unaries.shape[1]
    edges = integer_array("edges", edges)
    if edges.size == 0:
        edges = np.empty((0, 2), np.int64)
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise ParameterError(f"edges must have shape (m, 2), two nodes an edge, got {edges.shape}")
    edges = np.ascontiguousarray(edges, np.int64)
    tables = check_scores("pairwise", pairwise)
    shared = tables.shape == (K, K)
    if len(edges) == 0 and tables.size == 0:
        tables = tables.reshape(0, K, K)
    if not shared and tables.shape != (len(edges), K, K):
        raise ParameterError(f"pairwise must have shape (m, K, K) = ({len(edges)}, {K}, {K}), a table an edge, or "
                             f"(K, K) = ({K}, {K}), got {tables.shape}")
    single = node_offsets is None
    node_offsets = np.array((0, len(unaries))) if single else check_offsets(node_offsets, len(unaries), "node_offsets")
    edge_offsets = np.array((0, len(edges))) if single else check_offsets(edge_offsets, len(edges), "edge_offsets")
    if len(node_offsets) != len(edge_offsets):
        raise ParameterError(f"node_offsets and edge_offsets must describe the same graphs, got "
                             f"{len(node_offsets) - 1} and {len(edge_offsets) - 1} graphs")
    n_nodes, n_edges = np.diff(node_offsets), np.diff(edge_offsets)
    if max(n_nodes.max(initial=0), n_edges.max(initial=0)) > MAX_SIZE:
        raise ParameterError(f"a graph must have at most {MAX_SIZE} nodes and {MAX_SIZE} edges, got "
                             f"{n_nodes.max()} and {n_edges.max()}")
    sizes = len(unaries) if single else np.repeat(n_nodes, n_edges)[:, None]
    wrong = (edges < 0) | (edges >= sizes) | (edges[:, :1] == edges[:, 1:])
    if wrong.any():
        _refuse_edge(int(np.argmax(wrong.any(axis=1))), edges, n_nodes, edge_offsets, single)
    return Graphs(unaries, edges, tables[None] if shared else tables, shared, node_offsets, edge_offsets)


def check_messages(messages, shape):
    """Return messages that the kernel may overwrite: the array of the caller itself."""
    if not isinstance(messages, np.ndarray) or messages.dtype != np.float64:
        what = f"dtype {messages.dtype}" if isinstance(messages, np.ndarray) else type(messages).__name__
        raise InputTypeError(f"messages must be a float64 array, which is overwritten, got {what}; start with "
                             f"np.zeros({shape})")
    flags = messages.flags
    if messages.shape != shape or not (flags.c_contiguous and flags.writeable and flags.aligned):
        raise ParameterError(f"messages must be a writeable array in C order of shape (m, 2, K) = {shape}, got shape "
                             f"{messages.shape}; start with np.zeros({shape})")
    return _bounded("messages", messages)


def _label(graphs, tol, sweeps, messages, executor):
    n, n_graphs = len(graphs.unaries), len(graphs.node_offsets) - 1
    if messages is not None:
        messages = check_messages(messages, (len(graphs.edges), 2, graphs.unaries.shape[1]))
    labels, values, uppers = np.empty(n, np.int32), np.empty(n_graphs), np.empty(n_graphs)
    graphs.run(LABELS, tol, sweeps, executor, uppers, messages, values, labels)
    return GraphLabels(labels, values, uppers)


def _check_tol(tol, n_graphs):
    """Return one tolerance for each graph."""
    tol = real_numbers("tol must be a number or one for each graph", tol)
    if tol.shape not in {(), (n_graphs,)}:
        raise ParameterError(f"tol must be a number or {n_graphs} of them, one for each graph, got shape {tol.shape}")
    if not ((tol >= 0) & (tol < np.inf)).all():
        raise ParameterError(f"tol must be finite and >= 0, got {tol[~((tol >= 0) & (tol < np.inf))].flat[0]}")
    return np.ascontiguousarray(np.broadcast_to(tol, (n_graphs,)))


def check_scores(name, value):
    """Return numbers below 1e100 in size as float64 in C order."""
    return _bounded(name, np.ascontiguousarray(real_numbers(f"{name} must be an array of real numbers", value)))


def _bounded(name, array):
    if not (np.abs(array) < LIMIT).all():
        index = np.unravel_index(int(np.argmin(np.abs(array) < LIMIT)), array.shape)
        place = ", ".join(str(int(i)) for i in index)
        raise ParameterError(f"{name}[{place}] must be finite and below {LIMIT:g} in size, got {array[index]}; to "
                             f"forbid a label, give it a score below all others")
    return array


def _refuse_edge(edge, edges, n_nodes, edge_offsets, single):
    graph = int(np.searchsorted(edge_offsets, edge, side="right")) - 1
    place = "" if single else f" (graph {graph}, edge {edge - int(edge_offsets[graph])} of it)"
    a, b = edges[edge].tolist()
    if a == b and 0 <= a < n_nodes[graph]:
        raise ParameterError(f"edges[{edge}] must join two different nodes, got {(a, b)}{place}; drop it, or add its "
                             f"score to unaries")
    raise ParameterError(f"edges[{edge}] must join nodes 0..{n_nodes[graph] - 1}, got {(a, b)}{place}")
