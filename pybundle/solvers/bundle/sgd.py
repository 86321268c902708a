"""Stochastic subgradient descent as a policy of the bundle loop: epochs move w, and their planes prove the bound.

    w <- w - eta_t (lam w + n r_i'(w)),   eta_t = 1 / (lam (t0 + t))          [Uricar & Franc 2012, sec. 4]

An epoch visits every example once. The planes of the labellings found sum to one plane for each part, which is valid
although w has changed between the visits. The master over these planes proves a lower bound.
"""

from __future__ import annotations

import numpy as np

from ...core.kept import check_array
from ._sgd import epoch
from .policies import Policy, StepOutcome

TUNING_SHARE = 0.1
GRID = 10.0 ** np.arange(0, 9)
WEIGHTS_PER_EXAMPLE = 1 << 16       # a step on labellings costs O(dim), and so uses more examples if dim is larger


class StochasticSubgradient(Policy):
    """Epochs of SGD, each followed by an exact pass at its last w.

    Parameters
    ----------
    t0 : float or None
        Offset of the step length; None tries powers of ten on 10 % of the examples and takes the best.
    random_state : int or None
        Seed of the order of examples.
    """

    kept = "t0", "_rng", "_t", "_w"

    def __init__(self, t0=None, random_state=None):
        self.t0 = t0
        self._rng = np.random.default_rng(random_state)
        self._t = 0

    def resume(self, loop, state):
        self._w = loop.search.w.copy()
        if self.t0 is None:
            self.t0 = self._tune(loop)

    def propose(self, loop, k):
        risk, problem = loop.risk, loop.master.problem
        with loop.search.working("oracle", passes=1):
            order = self._rng.permutation(risk.n_examples)
            record, kept = loop.settings.record, {}
            if record is not None and not risk.smooth:
                kept = {"latest": [None] * risk.n_examples}
            self._t, from_epoch = sgd_epoch(risk, self._w, order, problem.square.lam, self._t, self.t0, **kept)
            if kept:
                from_epoch = from_epoch._replace(origin=record.labels(kept["latest"]))
            self._w = problem.project(self._w)
        search = loop.search
        planes, self._fun = search.visit(self._w.copy())
        from_epoch = search.checks(from_epoch, risk, search.w, search.values)   # planes of epochs must lie below R
        loop.append(planes)
        loop.append(from_epoch)
        return loop.solve()

    def advance(self, loop, solution, aggregate):
        """Return a `StepOutcome` with F at the end of the epoch, and without planes, which are stored already."""
        return StepOutcome([], self._fun, loop.has_converged(self._fun, aggregate))

    def _tune(self, loop):
        """Return the t0 that gives the least objective after one epoch from the present w over 10 % of the examples."""
        risk, problem, n = loop.risk, loop.master.problem, loop.risk.n_examples
        sample = self._rng.permutation(n)[:max(1, round(TUNING_SHARE * n))]
        oracle = risk.oracle()
        best, best_fun = GRID[-1], np.inf
        for t0 in GRID:
            w = self._w.copy()
            with loop.search.working("oracle"):
                sgd_epoch(risk, w, sample, problem.square.lam, 0, t0)
            if not np.isfinite(w).all():
                continue
            with loop.search.working("oracle", passes=2.0 * len(sample) / n):
                losses = sum(oracle.solve(int(i), w).value for i in sample)
            fun = problem.value(w) + losses * n / len(sample)
            if fun < best_fun:
                best, best_fun = t0, fun
        return best


def sgd_epoch(risk, w, order, lam, t=0, t0=1.0, latest=None):
    """Make stochastic subgradient steps over the examples `order`; w changes in place.

    A step is `w <- w - eta (lam w + n r_i'(w))` with `eta = 1 / (lam (t0 + t))`; t counts the steps, and `lam` belongs
    to the sum scale. On flat data a step reads one example and changes two rows of W, see `_sgd.pyx`. On other data a
    step costs O(dim), and for 2^17 weights or more it uses the mean over several examples.

    Parameters
    ----------
    risk : Risk
        A `LinearRisk`, or a risk whose `oracle()` returns labellings.
    w : float64 array, shape (dim,)
        C-contiguous; overwritten.
    order : intp array
        Row numbers, usually a permutation.
    t, t0 : float
        `t0 + t >= 1`.
    latest : list, optional
        For hinge losses: entry i becomes the labelling of example i in the planes, if the epoch visits it.

    Returns
    -------
    t : float
        The number of steps so far.
    planes : Planes
        For every part the sum of the planes of its examples found on the way, without further oracle calls. If an
        example was visited twice, its last plane counts. An example that was not visited adds the plane 0, which is
        valid because no loss is negative. `values` are the values of the planes at the last w.
    """
    check_array("w", w, (risk.dim,))        # a checkpoint may hold a w of another shape
    steps = _over_labellings if risk.linear_risk is None else _over_rows
    n_steps, add = steps(risk, w, order, lam, t0 + t, latest)
    planes = risk.sum_planes(lambda rows, slope: (0.0, add(rows, slope)))
    return t + n_steps, planes._replace(values=planes.offsets + planes.dot(w))


def _over_rows(risk, w, order, lam, start, latest):
    """Make the steps; return their number, and `add(rows, slope) -> offset`, which adds the planes found at `rows`."""
    label, coef, offset = epoch(risk.engine, w, order, lam, start)
    if latest is not None:
        found = risk._labellings(label, coef)
        for i in order.tolist():
            latest[i] = found[i]
    return len(order), lambda rows, slope: risk.engine.planes_of(label, coef, offset, rows, slope)


def _over_labellings(risk, w, order, lam, start, latest):
    oracle, batch = risk.oracle(), max(1, risk.dim // WEIGHTS_PER_EXAMPLE)
    latest = [None] * risk.n_examples if latest is None else latest
    for first in range(0, len(order), batch):
        rows = order[first:first + batch]
        labellings = oracle.solve_batch(rows, oracle.prepare(w)).labellings
        for i, labelling in zip(rows, labellings, strict=True):
            latest[i] = labelling
        eta = 1.0 / (lam * (start + first / batch))
        w *= 1.0 - eta * lam
        oracle.add_planes(rows, labellings, np.full(len(rows), -eta * risk.n_examples / len(rows)), w)
        if risk.nonneg is not None:
            w[risk.nonneg] = np.maximum(w[risk.nonneg], 0.0)

    def add(rows, slope):
        rows = np.array([i for i in rows if latest[i] is not None], dtype=np.intp)
        return oracle.add_planes(rows, [latest[i] for i in rows], np.ones(len(rows)), slope) if len(rows) else 0.0

    return -(-len(order) // batch), add
