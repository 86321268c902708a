"""Solvers for `pb.models.Optimizer`, which find decisions of least cost: assignments, paths, mixed-integer programs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment, milp

from ..core.exceptions import OracleError, ParameterError
from ..core.types import Floats
from ..core.validation import check_table, integer_array


def assignment_batch(costs: ArrayLike) -> Floats:
    """Return the cheapest assignments of k rows to k columns, by SciPy's `linear_sum_assignment`.

    `costs` (n, k^2) holds the cost of row a and column b at index k a + b; decisions (n, k^2) are 1 for assigned pairs.
    An assignment takes O(k^3). Costs that are not finite, or not of k^2 columns, raise ParameterError.

    Examples
    --------
    >>> from pybundle.oracles import assignment_batch
    >>> assignment_batch([[1.0, 2.0, 0.0, 4.0]])
    array([[0., 1., 1., 0.]])
    """
    costs = check_table("costs", costs, (None, None))
    k = round(costs.shape[1] ** 0.5)
    if k * k != costs.shape[1] or k == 0:
        raise ParameterError(f"costs must have k^2 columns, one for each row and column, got {costs.shape[1]}")
    found = np.zeros((len(costs), k, k))
    for table, pairs in zip(costs.reshape(-1, k, k), found, strict=True):
        pairs[linear_sum_assignment(table)] = 1.0
    return found.reshape(costs.shape)


def shortest_path_batch(costs: ArrayLike, arcs: ArrayLike) -> Floats:
    """Return shortest paths from node 0 to the last node of a graph without cycles, for costs (n, m) of any sign.

    `arcs` (m, 2) are pairs a < b: nodes are numbered in topological order. Decisions (n, m) are 1 for arcs of the path.
    Dynamic programming takes O(m (n + number of nodes)). Other arcs, and those without a path, raise ParameterError.

    Examples
    --------
    >>> from pybundle.oracles import shortest_path_batch
    >>> shortest_path_batch([[1.0, 5.0, 1.0]], arcs=[[0, 1], [0, 2], [1, 2]])
    array([[1., 0., 1.]])
    """
    costs, arcs = check_table("costs", costs, (None, None)), integer_array("arcs", arcs)
    m = costs.shape[1]
    if arcs.shape != (m, 2) or m == 0 or arcs.min() < 0 or not (arcs[:, 0] < arcs[:, 1]).all():
        raise ParameterError(f"arcs must be {m} pairs a < b of nodes 0, 1, .., one for each column of costs, got "
                             f"{arcs.tolist()!r:.40}; graphs with cycles need milp_batch")
    zero = arcs.dtype.type(0)           # a zero of another type would round large numbers
    names, numbers = np.unique(np.append(zero, arcs), return_inverse=True)      # nodes without arcs do not count
    tails, heads = numbers[1:].reshape(m, 2).T
    last, each = int(heads.max()), np.arange(len(costs))
    lengths, entered = np.full((last + 1, len(costs)), np.inf), np.zeros((last + 1, len(costs)), dtype=np.intp)
    lengths[0] = 0.0
    for node in np.unique(heads):
        into = np.flatnonzero(heads == node)
        ends = lengths[tails[into]] + costs[:, into].T
        best = ends.argmin(axis=0)
        lengths[node], entered[node] = ends[best, each], into[best]
    if not np.isfinite(lengths[last]).all():
        raise ParameterError(f"arcs must lead from node 0 to the last node, {names[-1]}, got no path")
    found, nodes = np.zeros(costs.shape), np.full(len(costs), last)
    while len(rows := np.flatnonzero(nodes)):
        arc = entered[nodes[rows], rows]
        found[rows, arc], nodes[rows] = 1.0, tails[arc]
    return found


def milp_batch(costs: ArrayLike, integrality: ArrayLike = 1, **options: Any) -> tuple[Floats, Floats]:
    """Return decisions (n, m) of mixed-integer programs that differ only in their costs (n, m), and lower bounds (n,).

    `scipy.optimize.milp` finds both, with its arguments as `options`; a bound holds within the tolerances of HiGHS.
    By default all variables are integers; `integrality=0` makes them real. Without a solution it raises OracleError.

    Examples
    --------
    >>> from scipy.optimize import Bounds, LinearConstraint
    >>> from pybundle.oracles import milp_batch
    >>> room = LinearConstraint([[2, 3, 1]], ub=4)
    >>> milp_batch([[-3.0, -4.0, -2.0]], bounds=Bounds(0, 1), constraints=room)
    (array([[0., 1., 1.]]), array([-6.]))
    """
    costs = check_table("costs", costs, (None, None))
    found, lower = np.empty(costs.shape), np.empty(len(costs))
    for i, c in enumerate(costs):
        try:
            solved = milp(c, integrality=integrality, **options)
        except (ValueError, TypeError, OverflowError) as problem:
            raise ParameterError(f"arguments must be as scipy.optimize.milp takes them, got: {problem}") from problem
        bound = solved.fun if solved.mip_dual_bound is None else solved.mip_dual_bound
        if solved.x is None or not np.isfinite(bound):
            remedy = "; raise time_limit or node_limit in options" if solved.status == 1 else ""
            raise OracleError(f"milp must find a decision and a bound for costs[{i}], got: {solved.message:.120}"
                              f"{remedy}")
        found[i], lower[i] = np.where(np.isin(integrality, (1, 3)), np.round(solved.x), solved.x), bound
    return found, lower
