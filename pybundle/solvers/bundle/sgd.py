"""Stochastic subgradient descent as a policy of the bundle loop: epochs move w, the planes they meet give the bound.

    w <- w - eta_t (lam w + n r_i'(w)),   eta_t = 1 / (lam (t0 + t))          [Uricar & Franc 2012, sec. 4]

One pass over the data visits every example once; the labellings met add up to one valid plane for each part,
whatever w was at each visit. The master over these planes is a proven lower bound.
"""

from __future__ import annotations

import numpy as np

from ...core.protocols import EPOCHS
from ..method import BUNDLE, Method, Option, number, or_none
from .bundle_method import BundleMethod
from .policies import Found, Policy

TUNING_SHARE = 0.1
GRID = 10.0 ** np.arange(0, 9)


class StochasticSubgradient(Policy):
    """Epochs of SGD, each followed by an exact pass at its last w.

    Parameters
    ----------
    t0 : float or None
        Offset of the step length; None tries powers of ten on 10 % of the examples and takes the best.
    random_state : int or None
        Seed of the order of examples.
    """

    def __init__(self, t0=None, random_state=None):
        self.t0 = t0
        self._rng = np.random.default_rng(random_state)
        self._t = 0

    def resume(self, loop, state):
        self._w = loop.w.copy()
        if self.t0 is None:
            self.t0 = self._tune(loop)

    def propose(self, loop, k):
        risk, objective = loop.risk, loop.master.objective
        with loop.counted(passes=1):
            order = self._rng.permutation(risk.n_examples)
            record, met = loop.settings.record, {}
            if record is not None and not risk.smooth:
                met = {"met": [None] * risk.n_examples}
            self._t, harvest = risk.sgd_epoch(self._w, order, objective.lam, self._t, self.t0, **met)
            if met:
                harvest = harvest._replace(origin=record.labels(met["met"]))
            self._w = objective.project(self._w)
        planes = loop.evaluate(self._w)
        self._fun = loop.observe(self._w.copy(), float(planes.values.sum()), planes.values)
        loop.check(harvest)           # must lie below the risk at the best point like all others
        loop.append(planes)
        loop.append(harvest)
        return loop.solve()

    def advance(self, loop, solution, aggregate):
        """The epoch is done; report where it ended."""
        return Found([], self._fun, loop.rule.holds(self._fun, aggregate.dual))

    def _tune(self, loop):
        """The t0 of least objective after one epoch over 10 % of the examples, from the present w."""
        risk, objective, n = loop.risk, loop.master.objective, loop.risk.n_examples
        sample = self._rng.permutation(n)[:max(1, round(TUNING_SHARE * n))]
        oracle = risk.oracle()
        best, best_fun = GRID[-1], np.inf
        for t0 in GRID:
            w = self._w.copy()
            with loop.counted():
                risk.sgd_epoch(w, sample, objective.lam, 0, t0)
            if not np.isfinite(w).all():
                continue
            with loop.counted(passes=2.0 * len(sample) / n):
                losses = sum(oracle.solve(int(i), w).value for i in sample)
            fun = objective.value(w) + losses * n / len(sample)
            if fun < best_fun:
                best, best_fun = t0, fun
        return best


def sgd(problem, t0):
    policy = StochasticSubgradient(t0, problem.random_state)
    return BundleMethod(problem.risk, problem.objective, policy, problem.settings)


SGD = Method(sgd, {**BUNDLE, "t0": Option(None, or_none(number(low=1.0)))}, needs=(EPOCHS,),
             serialised=(BundleMethod, StochasticSubgradient), n_epochs=10)
