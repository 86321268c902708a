"""Learned costs: a solver finds the decision of least predicted cost, and the model learns to predict the costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, OracleError, ParameterError
from ..core.protocols import Decodings
from ..core.rounding import UNIT
from ..core.types import Array, Data, Floats
from ..core.validation import check_choice, check_count, check_flag, check_table, read_only
from .batch_oracle import BatchOracle, check_lengths, check_scores
from .model_oracle import CLIPPED, ROUGH


class Optimizer:
    """Predicted costs `W x`, w = W.ravel(), W (m, p), for which a solver finds the decision v of least `<W x, v>`.

    The risk of an example x is one of

        max_v <c - 2 W x, v - v*>,   v* = argmin_v <c, v>           loss = "spo+", Y holds the costs c (n, m)
        max_v <q(v*), v - v*> - <W x, v - v*>                       loss = "inverse", Y holds the decisions v* (n, m)

    The first bounds the regret `<c, v - v*>` of the best v for W x [Elmachtoub, Grigas 2022, definition 3]. To
    maximise, negate costs.

    Parameters
    ----------
    solver : callable
        `solver(costs (n, m)) -> decisions (n, m)`; if decisions need not be best, a pair of these and of proven lower
        bounds (n,) on the least costs. It must not depend on earlier calls, and several threads may call it at a time.
    n_costs, n_features : int
        m and p.
    loss : {"spo+", "inverse"}
    distance : callable, optional
        q, for loss="inverse"; the default `1 - 2 v*` counts the entries in which decisions of zeros and ones differ.
    by_row : bool
        Whether the solver takes the costs (m,) of one example, and returns a decision (m,), or it and a bound.

    Notes
    -----
    If the solver proves only a bound on `<c, v*>`, the bound takes its place in the loss, which still bounds the regret
    and is not negative. Errors of rounding are bounded for decisions whose norm is at most the largest one seen so far.
    A warm start or checkpoint must be of the same solver: the fingerprint knows at most its decisions for Y.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> solver = lambda costs: np.eye(3)[costs.argmin(axis=1)]
    >>> model = pb.models.Optimizer(solver, n_costs=3, n_features=2)
    >>> X, C = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 2, 3], [2, 1, 3]])
    >>> W = pb.minimize(pb.risks.Structured(model, X, C), lam=0.1).x.reshape(3, 2)
    >>> model.solve(X @ W.T)[0].argmax(axis=1)
    array([0, 1])
    """

    def __init__(self, solver: Callable[..., Any], n_costs: int, n_features: int, *, loss: str = "spo+",
                 distance: Callable[[Array], Any] | None = None, by_row: bool = False) -> None:
        for name, function in (("solver", solver), ("distance", solver if distance is None else distance)):
            if not callable(function):
                raise InputTypeError(f"{name} must be a function, got {type(function).__name__}")
        self.solver: Callable[..., Any] = solver
        self.n_costs: int = check_count("n_costs", n_costs)
        self.n_features: int = check_count("n_features", n_features)
        self.loss_name: str = check_choice("loss", loss, ("spo+", "inverse"))
        if loss == "spo+" and distance is not None:
            raise ParameterError("distance must be None for loss='spo+', whose distance is the cost of a decision")
        self.distance: Any = distance
        self.by_row: bool = check_flag("by_row", by_row)
        self.dim: int = self.n_costs * self.n_features
        self.factor: float = 2.0 if loss == "spo+" else 1.0

    def solve(self, costs: Array, rows: Any = None) -> tuple[Floats, Floats]:
        """Return the decisions of the solver for costs (n, m), and its bounds (n,), NaN if it returns none.

        An error of the solver gets a note with the number of the example, the first one of the call; `rows` holds them.
        """
        costs = check_table("costs", costs, (None, self.n_costs))
        found, bounds = np.empty(costs.shape), np.full(len(costs), np.nan)
        for k in range(len(costs)) if self.by_row else [slice(None)] * (len(costs) > 0):
            try:
                answer = self.solver(costs[k].copy())
            except Exception as problem:
                number = np.ravel((np.arange(len(costs)) if rows is None else rows)[k])[0]
                problem.add_note(f"pybundle: while the solver decided from example {number} on")
                raise
            parts = answer if isinstance(answer, tuple) else (answer,)
            if len(parts) not in (1, 2):
                raise OracleError(f"solver must return decisions or a pair of these and bounds, got {len(parts)} items")
            found[k] = check_table("decisions of the solver", parts[0], costs[k].shape, OracleError)
            if len(parts) > 1:
                bounds[k] = check_table("bounds of the solver", parts[1], costs[k].shape[:-1], OracleError)
        return found, bounds

    def oracle(self, X: Data, Y: Data) -> BatchOracle:
        """Return the model bound to features X (n, p) and costs or decisions Y (n, m); costs are solved here."""
        return OptimizerOracle(self, X, Y)


class OptimizerOracle(BatchOracle):
    """`Optimizer` bound to X and Y; labellings are decisions v (m,), with loss `<q, v - v*> + gap`, for spo+ q = c."""

    def __init__(self, model, X, Y):
        n, m = check_lengths(X, Y), model.n_costs
        self.model, self.n_examples, self.dim, self.sizes = model, n, model.dim, np.full(n, 64)
        self._X, self.given = check_table("X", X, (n, model.n_features)), check_table("Y", Y, (n, m))
        if model.loss_name == "spo+":
            self._q, (self.truths, bounds) = self.given, model.solve(self.given)
            # the gap is `<c, v*>` minus the bound of the solver, or 0 without a bound
            gaps = np.nan_to_num((self._q * self.truths).sum(axis=1) - bounds)
        else:
            self.truths, gaps, q_of = self.given, np.zeros(n), model.distance or (lambda v: 1.0 - 2.0 * v)
            if model.distance is None and not np.isin(self.truths, (0.0, 1.0)).all():
                raise ParameterError("Y must hold decisions of zeros and ones without distance=, got other numbers")
            self._q = check_table("values of distance", q_of(self.truths.copy()), (n, m))
            bounds = model.solve(self._q[:1])[1]        # shows whether the solver gives bounds
        self.gaps, self.decodes_exactly = np.maximum(gaps, 0.0), bool(np.isnan(bounds).all())
        self._lengths, self._sizes = (np.linalg.norm(a, axis=1) for a in (self._X, self._q))
        self._longest = float(np.linalg.norm(self.truths, axis=1).max())
        self.loss_size = float(self._sizes.max())
        self.met_norms = 2.0 * model.factor * self._longest * self._lengths
        self._refuse(np.arange(n), gaps, 0.0, self._sizes * self._longest)
        self.fingerprint = self._checksum()

    def _identity(self):
        return self.model.loss_name, self._X, self.given, self.truths, self._q, self.gaps

    def _prepare(self, w):
        return read_only(w.reshape(self.model.n_costs, -1)), float(np.linalg.norm(w))

    def _decode(self, rows, weights, loss):
        (W, norm), model, truths = weights, self.model, self.truths[rows]
        costs = model.factor * (self._X[rows] @ W.T)
        check_scores(costs.sum(axis=1), rows)
        sizes, gaps = model.factor * norm * self._lengths[rows], np.zeros(len(rows))
        if loss:
            costs, sizes, gaps = costs - self._q[rows], sizes + self._sizes[rows], self.gaps[rows]
        found, bounds = model.solve(costs, rows)
        spread = 2.0 * np.linalg.norm(found, axis=1).max(initial=self._longest)
        self.met_norms[rows] = np.maximum(self.met_norms[rows], model.factor * spread * self._lengths[rows])
        values, is_bounded = (costs * (truths - found)).sum(axis=1) + gaps, ~np.isnan(bounds)
        uppers = np.where(is_bounded, (costs * truths).sum(axis=1) - bounds + gaps, values)
        # rounding errors of predicted costs, of the sums here, and of the sums that an exact solver compares
        error = (model.n_features + 3.0 * model.n_costs + 14.0) * UNIT * (sizes * spread + np.abs(uppers) + gaps)
        best = np.maximum(values, gaps)
        self._refuse(rows, uppers, best, sizes * spread)
        worse = loss & is_bounded & (values < gaps)
        found[worse], values[worse] = truths[worse], gaps[worse]
        return Decodings(found, values, np.where(is_bounded, np.maximum(uppers, best), uppers) + error)

    def _add_planes(self, rows, labellings, scales, slope):
        apart, losses = self._apart(rows, labellings)
        slope.reshape(self.model.n_costs, -1)[:] -= (self.model.factor * scales[:, None] * apart).T @ self._X[rows]
        return float(scales @ losses)

    def _planes(self, rows, labellings):
        (apart, losses), p = self._apart(rows, labellings), self.model.n_features
        owners, pieces = np.nonzero(apart)
        entries = -self.model.factor * apart[owners, pieces][:, None] * self._X[rows[owners]]
        ends = np.r_[0, p * np.cumsum(np.bincount(owners, minlength=len(rows)))].astype(np.int32)
        columns = (p * pieces[:, None] + np.arange(p)).ravel().astype(np.int32)
        slopes = sp.csr_array((entries.ravel(), columns, ends), shape=(len(rows), self.dim))
        slopes.eliminate_zeros()
        return losses, slopes

    def _apart(self, rows, labellings):
        """Return decisions minus truths (n, m), and losses (n,) minus their errors, so that planes are lower bounds."""
        apart = check_table("labellings", labellings, (len(rows), self.model.n_costs)) - self.truths[rows]
        losses, sizes = (self._q[rows] * apart).sum(axis=1) + self.gaps[rows], np.linalg.norm(apart, axis=1)
        sizes *= self._sizes[rows]
        self._refuse(rows, losses, 0.0, sizes)
        return apart, losses - 1.01 * (self.model.n_costs + 4.0) * UNIT * sizes

    def _refuse(self, rows, values, least, sizes):
        """Raise OracleError if a value is below `least`, because then the solver, a truth or the distance is wrong."""
        bad = np.flatnonzero(values < least - ROUGH * sizes - CLIPPED)
        if len(bad):
            raise OracleError("solver must return best decisions, or bounds that no cost is below, and Y must hold "
                              f"admissible decisions, with distances >= 0, but example {rows[bad[0]]} has the value "
                              f"{values[bad[0]]:.6g}, less than that of a known decision")
