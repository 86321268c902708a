"""The proximal centre of a block method: where it lies, and its weight.

    c = x + mom (x - x_before),   mom = (1 - sqrt q) / (1 + sqrt q),   q = lam / (lam + kappa),

where x is the present point w, and x_before was w at the last move. This is the extrapolation of accelerated proximal
point methods [Lin, Mairal, Harchaoui 2015]. A move has mom = 0 if the last centre lies beyond x, or if F rose twice
[O'Donoghue & Candes 2015]. All moves have mom = 0 if passes are too inexact for extrapolation.

If the weight follows from the gap (`balance.py`), the centre returns to the best point after 20 values without
progress, because a line search, or a probe for limits of weights without penalty, may have found that point far from w.
"""

from __future__ import annotations

import numpy as np

from ...core.exceptions import ParameterError
from ...core.kept import Kept
from ..problem.coordinates import inner
from .balance import Balance

IDLE = 20       # values of F without progress after which the centre returns to the best point


class Centre(Kept):
    """The centre of the square `kappa/2 |w - c|^2`.

    Parameters
    ----------
    problem : Problem
    schedule : Schedule
    wanted : float or None
        Weight of the centre; None leaves the choice to `Balance` or to the core, which often takes `sqrt(lam Rbar^2)`,
        where Rbar^2 is the mean squared norm of the slopes.

    Attributes
    ----------
    kappa : float
        The weight of the centre, 0 if the schedule is not proximal.
    c, before : ndarray, shape (dim,)
        The centre, and w at its last move. Both arrays are replaced, never changed in place.
    """

    kept = ("kappa", "c", "before", "_rises", "_last", "_balance")

    def __init__(self, problem, schedule, wanted=None):
        self._problem, self._schedule, self._wanted, self.kappa = problem, schedule, wanted, 0.0
        self._rises, self._last = 0, np.inf
        self._is_penalised, self._modulus = problem.even is None, problem.least_modulus
        self._balance = Balance() if self._is_penalised or not schedule.extrapolates else None

    def start(self, w0, core, search):
        """Put the centre at w0, and pass it on to the core."""
        self.c = self.before = np.asarray(w0)
        if self._schedule.is_proximal:
            self.kappa = self._weight(core, search)
        self.place(core)

    def place(self, core):
        """Pass the centre on to a core, which computes its point; multipliers do not change."""
        core.place(self._modulus, self.kappa, self.c)

    def move(self, core, search):
        """Move the centre to the extrapolated point, or to w if the module docstring says mom = 0."""
        lam, x = self._lam(core, search), core.w.copy()
        idle = IDLE * self._schedule.every
        is_lost = self._balance is not None and search.idle > 0 and search.idle % idle == 0
        if is_lost:
            self._balance.restart()
        self.kappa = self._weight(core, search)
        root = np.sqrt(lam / (lam + self.kappa))
        momentum = (1.0 - root) / (1.0 + root)
        is_ahead = inner(self.c - x, x - self.before) > 0.0
        if not self._schedule.extrapolates or is_ahead or self._rises >= 2:
            momentum, self._rises = 0.0, 0
        self.c, self.before = x + momentum * (x - self.before), x
        if is_lost:
            self.c = self.before = search.w
        self.place(core)

    def note(self, value, core, search):
        """Note a value of F, on which the next move and a balanced weight depend."""
        if self._balance is not None and (search.free is None or search.free.are_limited):
            self._balance.update(self._problem, search.w, search.risk_value, search.bound, core.aggregate(), self.kappa,
                                 self._schedule.every)
        self._rises = self._rises + 1 if value > self._last else 0
        self._last = value

    def _lam(self, core, search):
        """Return the constant of strong convexity from which weight and momentum follow.

        With another penalty than a square the constant is at least `lam = gap / |w|^2` at the best point w, since a
        term `lam/2 |.|^2` would add only half the gap to F(w).
        """
        modulus = self._modulus
        if not self._is_penalised:
            return modulus
        gap, square = search.gap, float(np.sum(search.w**2))
        if square > 0.0 and np.isfinite(gap):
            return max(modulus, gap / square)
        return modulus or core.first_lam

    def _weight(self, core, search):
        is_unique = self._modulus > 0.0 and not self._problem.is_free.any()
        # the weight must be positive, by default 1, if w is unique only because of the centre
        least = 0.0 if is_unique or (self._balance is None and self._problem.classes is None) else 1.0
        if self._wanted is not None:
            if self._wanted == 0.0 < least:
                raise ParameterError("kappa must be > 0 for a penalty without a square of every weight, got 0; leave "
                                     "it out")
            return float(self._wanted)
        if self._balance is not None and self._balance.kappa is not None:
            return self._balance.kappa
        return float(core.default_kappa(self._lam(core, search))) or least
