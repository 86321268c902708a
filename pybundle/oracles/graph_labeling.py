"""Decoder of labels on any graph: exact on forests and for two labels with submodular scores, else with a proven bound.

    max_y  sum_s theta_s(y_s) + sum_{e = (a, b)} theta_e(y_a, y_b),        y in {0, ..., K - 1}^n

In other cases the maximum is NP-hard. Sequential reweighted message passing lowers an upper bound, and each sweep
suggests a labelling. `graph_relaxation` computes the relaxed maximum, which the upper bound approaches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.ragged import run_shards
from ..core.types import Array, Floats
from ..core.validation import check_count, real_numbers
from ._graph_labeling import LABELS, solve
from .graphcut import check_edges, check_graph_offsets, refuse_edge

LIMIT = 1e100
"""Scores and messages must be smaller than this number, so that no sum of them overflows."""
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
        Maximum number of sweeps over the graph; a search that has stalled ends earlier.
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

    Memory is two padded copies of the tables. The bound is that of `graph_upper`.

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


def search_bytes(K: int, n: int, m: int) -> tuple[int, int]:
    """Return the memory of the kernel for a graph of n nodes and m edges, and what its soft stage takes in addition."""
    width = (K + 7) // 8 * 8
    return (8 * (2 * n + 4 * m + 2 * m * K) * width + 40 * n + 8 * m,
            8 * (2 * m + 2 * m * K) * width + 8 * (n + m * K) * K + 8 * m)


class Graphs(NamedTuple):
    """The checked arrays of a batch of graphs: float64 and int64, in C order but for the tables (M, K, K)."""

    unaries: Floats
    edges: Array
    tables: Floats
    node_offsets: Array
    edge_offsets: Array

    def run(self, task: int, tol: Any, sweeps: Any, executor: Any, messages: Any, uppers: Any, values: Any = None,
            labels: Any = None, nodes: Any = None, points: Any = None) -> None:
        """Call the kernel for all graphs in shards; it overwrites the arrays from `messages` on."""
        sweeps, tol = check_count("sweeps", sweeps), _check_tol(tol, len(uppers))
        sizes = np.diff(self.node_offsets) + np.diff(self.edge_offsets) * self.unaries.shape[1]
        first, place = self._parallel_edges()
        graphs, sums, of_pairs, rounding = self, messages, points, 0.0      # type: Graphs, Any, Any, Any
        if len(first) < len(place):
            graphs, sums, rounding = self._without_parallel_edges(first, place, messages)
            of_pairs = None if points is None else np.empty(graphs.tables.shape)

        def solve_shard(start, stop):
            solve(task, *graphs, start, stop, tol, sweeps, sums, uppers, values, labels, nodes, of_pairs)

        run_shards(solve_shard, sizes * 64, executor)
        uppers += rounding
        if values is not None:
            np.maximum(uppers, values, out=uppers)
        if graphs is not self:
            messages[:] = 0.0
            messages[first] = sums
            if points is not None:
                points[:] = np.where(self._turned(first, place), of_pairs[place].transpose(0, 2, 1), of_pairs[place])

    def at_edges(self, values):
        """Return one of the values of all graphs for each edge; that of a single graph stays alone."""
        return values if len(values) == 1 else np.repeat(values, np.diff(self.edge_offsets))

    def _parallel_edges(self):
        """Return the first edge of each pair of nodes, ascending, and for each edge the number of its pair."""
        a, b = self.edges.T
        pair = (self.at_edges(self.node_offsets[:-1]) + np.minimum(a, b)) * (len(self.unaries) + 1) + np.maximum(a, b)
        ordered = np.sort(pair)
        if (ordered[1:] != ordered[:-1]).all():
            return pair, pair
        _, first, place = np.unique(pair, return_index=True, return_inverse=True)
        return np.sort(first), np.searchsorted(np.sort(first), first[place])

    def _turned(self, first, place):
        return (self.edges[:, 0] != self.edges[first[place], 0])[:, None, None]

    def _without_parallel_edges(self, first, place, messages):
        """Return graphs with parallel edges added up, their messages, and a bound on the rounding of each graph."""
        m, n_graphs, turned = len(place), len(self.node_offsets) - 1, self._turned(first, place)
        add = sp.csr_array((np.ones(m), (place, np.arange(m))))
        tables = np.where(turned, self.tables.transpose(0, 2, 1), self.tables)
        tables, messages = ((add @ part.reshape(m, -1)).reshape(-1, *part.shape[1:])
                            for part in (tables, np.where(turned, messages[:, ::-1], messages)))
        counts, graph = np.bincount(place)[place], np.repeat(np.arange(n_graphs), np.diff(self.edge_offsets))
        terms = np.where(counts > 1, counts, 0) * np.abs(self.tables).max(axis=(1, 2))
        return (Graphs(self.unaries, self.edges[first], tables, self.node_offsets,
                       np.searchsorted(first, self.edge_offsets)),
                messages, np.finfo(float).eps * np.bincount(graph, terms, n_graphs))


def check_graphs(unaries, edges, pairwise, node_offsets=None, edge_offsets=None):
    """Return the `Graphs` of a call; an error names the argument, the place in it and the graph."""
    unaries = check_scores("unaries", unaries)
    if unaries.ndim != 2 or not 2 <= unaries.shape[1] <= MAX_LABELS:
        raise ParameterError(f"unaries must have shape (n, K) with at least 2 and at most {MAX_LABELS} labels, got "
                             f"shape {unaries.shape}")
    K, edges = unaries.shape[1], check_edges(edges).astype(np.int64, order="C", copy=False)
    tables = check_scores("pairwise", pairwise)
    if len(edges) == 0 and tables.size == 0:
        tables = tables.reshape(0, K, K)
    if tables.shape not in {(K, K), (len(edges), K, K)}:
        raise ParameterError(f"pairwise must have shape (m, K, K) = ({len(edges)}, {K}, {K}), a table an edge, or "
                             f"(K, K) = ({K}, {K}), got {tables.shape}")
    if tables.ndim == 2:
        tables = np.broadcast_to(tables, (len(edges), K, K))
    if K == 2:                                      # minimum cuts read tables in C order
        tables = np.ascontiguousarray(tables)
    graphs = Graphs(unaries, edges, tables, *check_graph_offsets(node_offsets, edge_offsets, len(unaries), len(edges)))
    sizes = graphs.at_edges(np.diff(graphs.node_offsets))
    wrong = (edges.view(np.uint64) >= sizes.view(np.uint64)[:, None]).any(axis=1) | (edges[:, 0] == edges[:, 1])
    if wrong.any():
        edge = int(np.argmax(wrong))
        graph = int(np.searchsorted(graphs.edge_offsets, edge, side="right")) - 1
        place = "" if node_offsets is None else f" (graph {graph}, edge {edge - int(graphs.edge_offsets[graph])} of it)"
        refuse_edge(edge, edges[edge].tolist(), int(np.diff(graphs.node_offsets)[graph]), place, "unaries")
    return graphs


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
    shape = len(graphs.edges), 2, graphs.unaries.shape[1]
    messages = np.zeros(shape) if messages is None else check_messages(messages, shape)
    labels, values, uppers = np.empty(n, np.int32), np.empty(n_graphs), np.empty(n_graphs)
    graphs.run(LABELS, tol, sweeps, executor, messages, uppers, values, labels)
    return GraphLabels(labels, values, uppers)


def _check_tol(tol, n_graphs):
    """Return one tolerance for each graph."""
    tol = real_numbers("tol must be a number or one for each graph", tol)
    if tol.shape not in {(), (n_graphs,)}:
        raise ParameterError(f"tol must be a number or {n_graphs} of them, one for each graph, got shape {tol.shape}")
    fine = (tol >= 0) & (tol < np.inf)
    if not fine.all():
        raise ParameterError(f"tol must be finite and >= 0, got {tol[~fine].flat[0]}")
    return tol if tol.ndim else np.full(n_graphs, tol)


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

