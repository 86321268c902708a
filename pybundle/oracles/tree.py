"""Decoders of trees: the best labelling, and marginals, of scores on nodes and edges.

    score(y) = sum_j unaries_j(y_j) + sum over edges (parent i, child j) of E_j(y_i, y_j)

E_j is a table or, for labels that are positions on a grid, minus a quadratic deformation cost.
"""

from __future__ import annotations

from itertools import pairwise as steps
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.ragged import run_shards
from ..core.types import Array, Floats
from ..core.validation import integer_array, real_numbers
from ._tree import GridTree, tables_marginals, tables_max_sum
from .distance_transform import check_scores, refuse_nan


class TreeMarginals(NamedTuple):
    """The marginals of one tree.

    Attributes
    ----------
    log_partition : float
        `log sum_y exp score(y)`.
    unary : list of ndarray, shape (K_j,)
        P(y_j).
    pairwise : list of ndarray, shape (K_parent, K_j), None at the root
        P(y_parent, y_j).
    """

    log_partition: float
    unary: list[Any]
    pairwise: list[Any]


def tree_max_sum(unaries: Any, parents: ArrayLike, pairwise: Any = None, *, deformations: ArrayLike | None = None,
                 anchors: ArrayLike | None = None) -> tuple[Array, float]:
    """Find the labelling of largest score on a tree, with general tables or quadratic deformation.

    Parameters
    ----------
    unaries : list of array_like
        Scores of the labels of every node, shape (K_j,) or, with `deformations`, (H_j, W_j). -inf forbids a label.
    parents : array_like of int, shape (J,)
        Parent of every node, -1 for the root; nodes in any order.
    pairwise : list of array_like, shape (K_parent, K_j) each, None at the root
        Table of the edge from each node to its parent; -inf forbids a pair.
    deformations : array_like, shape (J, 4)
        Instead of `pairwise`: a_x, b_x, a_y, b_y of the edge from each node to its parent, which scores
        `-(a_x dx^2 + b_x dx + a_y dy^2 + b_y dy)` with (dx, dy) = position of the node minus position of its parent
        minus its anchor; x is the column. The row of the root is not used.
    anchors : array_like, shape (J, 2), default 0
        Expected displacement (x, y) of each node from its parent, whole numbers or not. The row of the root is not
        used. For grids with different origins, add the parent's origin minus the node's origin.

    Returns
    -------
    labels : ndarray of int32, shape (J,)
        Label of every node; on maps the flat position `y * W_j + x`. In a tie, the smallest label of the root and
        then, from parents to children, the smallest label of each node given its parent's.
    value : float
        Score of `labels`, recomputed term by term; -inf if every labelling is forbidden.

    Raises
    ------
    ParameterError, InputTypeError
        If parents do not form a tree (the message names the nodes), sizes disagree, or scores are NaN or +inf.

    Notes
    -----
    Max-sum from the leaves to the root. Tables take O(sum K_parent K_j). Deformations take O(sum H_j W_j) by the
    generalised distance transform, for curvatures of any sign (Felzenszwalb, Huttenlocher 2005).

    Examples
    --------
    >>> from pybundle.oracles import tree_max_sum
    >>> labels, value = tree_max_sum([[0.0, 1.0], [0.0, 0.0, 2.0]], [-1, 0],
    ...                              [None, [[0.0, 3.0, 0.0], [0, 0, 0]]])
    >>> labels.tolist(), value
    ([0, 1], 3.0)

    The second landmark is expected two columns to the right of the first:

    >>> import numpy as np
    >>> maps = np.zeros((2, 3, 5))
    >>> maps[0, 1, 1], maps[1, 1, 4] = 9.0, 5.0
    >>> labels, value = tree_max_sum(maps, [-1, 0], deformations=np.ones((2, 4)),
    ...                              anchors=[[0, 0], [2, 0]])
    >>> labels.tolist(), value
    ([6, 9], 12.0)
    """
    parents, order = check_parents(parents)
    maps = [m[None] for m in _check_unaries(unaries, len(parents), 1 if deformations is None else 2)]
    labels, values = _decode(maps, parents, order, pairwise, deformations, anchors, None)
    return labels[0], float(values[0])


def tree_max_sum_batch(unaries: Any, parents: ArrayLike, pairwise: Any = None, *, deformations: ArrayLike | None = None,
                       anchors: ArrayLike | None = None, executor: Any = None) -> tuple[Array, Floats]:
    """Find the best labellings of n examples with the same tree and pairwise scores.

    Parameters
    ----------
    unaries : list of J arrays, shape (n, K_j) or, with `deformations`, (n, H_j, W_j)
        Scores of node j in every example.
    parents, pairwise, deformations, anchors
        As in `tree_max_sum`.
    executor : object with ``map(function, items)``, optional
        Runs shards of examples, for instance a thread pool; the result does not depend on it.

    Returns
    -------
    labels : ndarray of int32, shape (n, J)
    values : ndarray, shape (n,)

    Examples
    --------
    >>> from pybundle.oracles import tree_max_sum_batch
    >>> labels, values = tree_max_sum_batch([[[0, 1], [1, 0]], [[0, 0], [0, 5]]], [1, -1],
    ...                                     [[[0, 0], [4, 4]], None])
    >>> labels.tolist(), values.tolist()
    ([[1, 1], [0, 1]], [5.0, 10.0])
    """
    parents, order = check_parents(parents)
    maps = _check_unaries(unaries, len(parents), 1 if deformations is None else 2, batch=True)
    return _decode(maps, parents, order, pairwise, deformations, anchors, executor)


def tree_marginals(unaries: Any, parents: ArrayLike, pairwise: Any) -> TreeMarginals:
    """Compute log partition function and marginals of `P(y) = exp(score(y)) / Z` on a tree.

    Parameters
    ----------
    unaries : list of array_like, shape (K_j,)
        -inf forbids a label.
    parents : array_like of int, shape (J,)
        -1 for the root.
    pairwise : list of array_like, shape (K_parent, K_j), None at the root

    Returns
    -------
    TreeMarginals
        `log_partition, unary, pairwise`; marginals of each node and edge sum to 1 up to rounding.

    Raises
    ------
    ParameterError, InputTypeError
        As for `tree_max_sum`, and if every labelling is forbidden.

    Notes
    -----
    Sum-product in log space. The largest term of every sum is factored out, so scores of any size are safe. Time and
    memory are O(sum K_parent K_j), with one exponential for each entry of a table.

    Examples
    --------
    >>> from pybundle.oracles import tree_marginals
    >>> log_partition, unary, pairwise = tree_marginals(
    ...     [[0.0, 0.0], [0.0, 1e3]], [-1, 0], [None, [[0, 0], [0, 0]]])
    >>> round(log_partition, 6), unary[0].tolist(), pairwise[1].tolist()
    (1000.693147, [0.5, 0.5], [[0.0, 0.5], [0.0, 0.5]])
    """
    parents, order = check_parents(parents)
    vectors = _check_unaries(unaries, len(parents), 1)
    sizes = np.array([len(v) for v in vectors])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    tables, starts = _check_tables(pairwise, parents, sizes)
    unary, edges = np.empty(offsets[-1]), np.empty(len(tables))
    log_partition = tables_marginals(np.concatenate(vectors), offsets, order, parents, tables,
                                           starts, unary, edges)
    if log_partition == -np.inf:
        raise ParameterError("unaries and pairwise forbid every labelling (a score of -inf); allow at least one")
    return TreeMarginals(
        float(log_partition), [unary[a:b] for a, b in steps(offsets)],
        [None if p < 0 else edges[starts[j]:starts[j + 1]].reshape(sizes[p], sizes[j])
         for j, p in enumerate(parents)])


def check_parents(parents):
    """Return `parents` as int32, and an order of the nodes with children first; a ParameterError names the wrong node.

    >>> check_parents([-1, 0, 1])[1].tolist()
    [2, 1, 0]
    """
    parents = integer_array("parents", parents)
    if parents.ndim != 1 or len(parents) == 0:
        raise ParameterError(f"parents must have shape (n_nodes,) with at least one node, got shape {parents.shape}")
    J = len(parents)
    above = parents.tolist()
    for j, p in enumerate(above):
        if not -1 <= p < J:
            raise ParameterError(f"parents[{j}] must be a node 0..{J - 1} or -1 for the root, got {p}")
    roots = [j for j, p in enumerate(above) if p < 0]
    depth = [0 if p < 0 else -1 for p in above]
    for j in range(J):
        path, seen = [], set()
        while depth[j] < 0:
            if j in seen:
                cycle = path[path.index(j):]
                raise ParameterError(f"parents must form a tree, but nodes {' -> '.join(map(str, [*cycle, j]))} form "
                                     f"a cycle; give one of them -1 or a parent outside the cycle")
            path.append(j)
            seen.add(j)
            j = above[j]
        for distance, node in enumerate(reversed(path), start=1):
            depth[node] = depth[j] + distance
    if len(roots) > 1:
        raise ParameterError(f"parents must have exactly one root (-1), but nodes {', '.join(map(str, roots))} are "
                             f"roots; add a common parent with a single label")
    order = np.argsort(-np.array(depth), kind="stable").astype(np.int32)
    return np.ascontiguousarray(parents, dtype=np.int32), order


def check_deformations(deformations, anchors, n_nodes):
    """Return costs (J, 4) and anchors (J, 2) as finite float64."""
    found = []
    for name, value, columns in (("deformations", deformations, 4), ("anchors", anchors, 2)):
        value = np.zeros((n_nodes, 2)) if value is None else value
        array = real_numbers(f"{name} must be an array of real numbers", value)
        if array.shape != (n_nodes, columns):
            raise ParameterError(f"{name} must have shape (n_nodes, {columns}) = ({n_nodes}, {columns}), got shape "
                                 f"{array.shape}")
        if not (np.abs(array) < 1e100).all():        # otherwise a cost may overflow
            j = int(np.argmin((np.abs(array) < 1e100).all(axis=1)))
            raise ParameterError(f"{name}[{j}] must be finite and below 1e100, got {array[j].tolist()}")
        found.append(array)
    return found


def _decode(maps, parents, order, pairwise, deformations, anchors, executor):
    n = len(maps[0])
    labels, values = np.empty((n, len(parents)), dtype=np.int32), np.empty(n)
    flat = np.concatenate([m.reshape(n, -1) for m in maps], axis=1) if n else np.empty((0, 1))
    sizes = np.array([np.prod(m.shape[1:]) for m in maps], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    if (pairwise is None) == (deformations is None):
        raise ParameterError("exactly one of pairwise (tables) and deformations (quadratic costs) must be given")
    if pairwise is not None:
        if anchors is not None:
            raise ParameterError("anchors belong to deformations; leave them out if pairwise tables are given")
        tables, starts = _check_tables(pairwise, parents, sizes)
        work = int(sizes.sum()) + len(tables)

        def run(first, last):
            tables_max_sum(flat[first:last], offsets, order, parents, tables, starts, labels[first:last],
                           values[first:last])
    else:
        heights, widths = (np.array([m.shape[k] for m in maps], dtype=np.int32) for k in (1, 2))
        tree = GridTree(order, parents, heights, widths, *check_deformations(deformations, anchors, len(parents)))
        work = int(sizes.sum())

        def run(first, last):
            tree.decode_batch(flat[first:last], labels[first:last], values[first:last])

    run_shards(run, np.full(n, work), executor)
    return labels, values


def _listed(name, value):
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        raise InputTypeError(f"{name} must be a list with an array for every node, got {type(value).__name__}")
    return value


def _check_unaries(unaries, n_nodes, dimensions, batch=False):
    """Return float64 scores of every node with `dimensions` axes of labels; a `batch` has an axis of examples first."""
    unaries = _listed("unaries", unaries)
    if len(unaries) != n_nodes:
        raise ParameterError(f"unaries must hold one array for each of the {n_nodes} nodes of parents, got "
                             f"{len(unaries)}")
    maps = [check_scores(f"unaries[{j}]", table, (dimensions,), batch) for j, table in enumerate(unaries)]
    for j, table in enumerate(maps if batch else ()):
        if len(table) != len(maps[0]):
            raise ParameterError(f"unaries[{j}] must have {len(maps[0])} examples like unaries[0], got {len(table)}")
    return maps


def _check_tables(pairwise, parents, sizes):
    """Return all tables in one array, and their starts (J + 1,)."""
    pairwise = _listed("pairwise", pairwise)
    if len(pairwise) != len(parents):
        raise ParameterError(f"pairwise must hold one table for each of the {len(parents)} nodes, None at the root, "
                             f"got {len(pairwise)}")
    tables = [np.empty(0)]
    starts = np.zeros(len(parents) + 1, dtype=np.int64)
    for j, (p, table) in enumerate(zip(parents, pairwise, strict=True)):
        starts[j + 1] = starts[j]
        if p < 0:
            continue
        if table is None:
            raise InputTypeError(f"pairwise[{j}] must be the table of the edge to node {p}, got None; only the root "
                                 f"has none")
        table = real_numbers(f"pairwise[{j}] must be a table of real scores", table)
        if table.shape != (sizes[p], sizes[j]):
            raise ParameterError(f"pairwise[{j}] must have shape (labels of node {p}, labels of node {j}) = "
                                 f"({sizes[p]}, {sizes[j]}), got shape {table.shape}")
        refuse_nan(f"pairwise[{j}]", table)
        tables.append(table.ravel())
        starts[j + 1] += table.size
    return np.concatenate(tables), starts
