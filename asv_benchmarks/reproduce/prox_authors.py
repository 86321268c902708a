"""Prox-BMRM by the rule of the authors' C++ instead of the report's: a method "prox-authors", for comparing counts.

Read from the behaviour of SHOGUN's libppbm and libp3bm; it differs from [Uricar & Franc 2013, Alg. 2] in four ways:

1.  K is 0.01 |w_1|, or 0.4 for w_1 = 0, whatever the caller gave.
2.  A step that gains too little is kept; alpha is tuned in the next iteration, not instead of the step.
3.  Values include the proximity: V_t = F(w_t) + alpha |w_t - w_{t-1}|^2. With D_t the dual value of the proximal master
    and D_t^0 that without proximity, both of iteration t, tuning gives

        gamma = (V_{t-1} r - D_t^0) / (T r),   r = D_t / V_t      (the report: F(w_t) / T - D_t^0 / (T (1 - eps)))

    and alpha is tuned next if V_{t-1} - V_t <= gamma.
4.  The stop is V_t - D_t <= eps |V_t|, tested only when alpha = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pybundle as pb
from pybundle.solvers.bundle.bundle_method import BundleMethod
from pybundle.solvers.bundle.policies import PublishedProximity, StepOutcome
from pybundle.solvers.methods import METHODS


def proximal_dual(master, solution):
    """D_t: the dual value of the master with its proximity, `f' beta - beta' H beta / (2 s) + alpha lam |c|^2 / s`."""
    alpha, lam, beta, centre = solution.alpha, solution.lam, solution.beta, master.bundle.centre
    s = lam + 2.0 * alpha
    linear = float(beta @ master.bundle.offsets) + 2.0 * alpha / s * float(beta @ master.bundle.products)
    return linear - 0.5 * float(beta @ solution.h) / s + alpha * lam * float(centre @ centre) / s


class AuthorsProximity(PublishedProximity):
    """The policy; `alpha`, centre and search are those of the published one."""

    def begin(self, loop):
        super().begin(loop)
        self._tunes, self._has_changed, self._gamma, self._last = True, False, 0.0, loop.search.fun

    def propose(self, loop, k):
        if not self._tunes:
            self._has_changed = False
            return loop.solve(self.alpha)
        before, solution = self.alpha, self._tune(loop)
        self._has_changed |= not before == self.alpha == 0.0
        self._plain_dual = proximal_dual(loop.master, self._plain)
        return solution

    def advance(self, loop, solution, aggregate):
        w = self.point(loop, solution, aggregate.slope)
        step, dual = w - loop.master.bundle.centre, proximal_dual(loop.master, solution)
        planes, fun = loop.visit(w, solution)
        value = fun + self.alpha * float(step @ step)
        if self._has_changed:
            r = dual / value
            self._gamma = (self._last * r - self._plain_dual) / (self.T * r)
        self._tunes = self._last - value <= self._gamma
        has_converged = self.alpha == 0.0 and loop.search.rule.holds(value, dual)
        self._last = value
        self.move(loop, solution, w, fun)
        return StepOutcome([planes], fun, has_converged)


@dataclass(frozen=True, kw_only=True)
class ProxAuthors(pb.methods.ProxBMRM):
    """`ProxBMRM` by the authors' rule."""

    name: ClassVar[str] = "prox-authors"

    def begin(self, search):
        return BundleMethod(search, AuthorsProximity("auto", 100, True), self)


METHODS[ProxAuthors.name] = ProxAuthors
