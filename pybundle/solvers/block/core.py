"""The contract of a core, which stores the blocks of all examples and their point for `BlockMethod`."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ...core.kept import Kept


class Core(Kept, ABC):
    """Blocks of multipliers, one for each example, and passes over them.

    `BlockMethod` makes one by `core(risk, problem, known, **options)`, known being the blocks of another run or None.

    Attributes
    ----------
    n_examples, dim : int
    w : ndarray, shape (dim,)
        The point (kappa c - phi) / (lam + kappa) of the multipliers; a view that passes may change.
    visits, cached_visits : float
        Examples visited by the oracle so far, and blocks visited over stored planes alone.
    nbytes : float
        Bytes of the blocks.
    n_planes, n_merged : int
        Planes stored, and planes that lost their own multipliers to a memory limit.
    bound_takes_pass : bool
        Whether the aggregate costs as much as a pass, so that it is computed only when a value is.
    first_lam : float
        The lam from which the first weight of the centre follows if no weight has a square; with penalties only.
    """

    cached_visits = nbytes = 0.0
    n_planes = n_merged = 0
    bound_takes_pass = False
    _value = None       # (version, R, bound on its rounding error) of the best point

    # ------------------------------------------------------------------ the point
    @abstractmethod
    def place(self, lam, kappa, centre):
        """Set lam, the weight of the centre and the centre c; multipliers stay."""

    @abstractmethod
    def default_kappa(self, lam):
        """Return the weight of the centre that suits the planes known now."""

    @abstractmethod
    def aggregate(self):
        """Return the `Plane` of the multipliers, summed afresh; the point follows, which removes its drift."""

    def shrink(self, lam):
        """Scale the multipliers of a run with a larger lam to this one if that raises the dual."""
        return

    # ------------------------------------------------------------------ passes
    @abstractmethod
    def oracle_pass(self, order):
        """Step on the blocks of the examples of `order`; return the sum of the block gaps before, None if unknown."""

    def cached_pass(self, rng, target):
        """Step once on blocks with stored planes; return the last known sum of their gaps, which should be `target`."""
        raise NotImplementedError

    def cached_passes(self, rng, target, most, most_visits):
        """Make at most `most` cached passes, until one returns at most `target`.

        No pass begins once `visits` exceeds `most_visits`. `Accelerated` calls this, other schedules `cached_pass`.
        """
        for _ in range(most):
            if self.cached_pass(rng, target) <= target or self.visits > most_visits:
                break

    @abstractmethod
    def evaluate(self, search, w):
        """Decode all examples at w, or at a better point, call `observe`, and return F there."""

    def observe(self, search, w, value, error):
        """Report w and R at w to the search; return F(w). The value and the bound on its rounding error are kept."""
        fun = search.observe(w, value)
        if search.w is w and np.isfinite(error):
            self._value = search.version, value, error
        return fun

    # ------------------------------------------------------------------ what is kept, and proven
    def known(self):
        """Return the blocks for another run; None if no run can start from them."""
        return None

    def forget(self):
        """Called after an iteration, to drop idle planes."""
        return

    def known_value(self, search):
        """Return R at the best point and a bound on its rounding error, if a pass has computed both; or None."""
        return None if self._value is None or self._value[0] != search.version else self._value[1:]

    def evidence(self, problem, risk, limits=None):
        """Return the `Proof` for `Run.evidence`, within limits of free weights, or None."""
        return None
