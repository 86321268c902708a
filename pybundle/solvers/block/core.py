"""The interface of a core, which stores the blocks of all examples, and the point that follows from them."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ...core.kept import Kept


class Core(Kept, ABC):
    """Blocks of multipliers, one for each example, and passes over them.

    `BlockMethod` calls `core(risk, problem, known, **options)`, where `known` are the blocks of another run, or None.

    Attributes
    ----------
    n_examples, dim : int
    w : ndarray, shape (dim,)
        The point (kappa c - phi) / (lam + kappa) of the multipliers; a view that passes may change.
    visits, cached_visits : float
        Number of examples decoded so far, and number of steps on blocks with stored planes alone.
    nbytes : float
        Bytes of the blocks.
    n_planes, n_merged : int
        Number of planes stored, and number of merges of two planes, which save memory.
    bound_takes_pass : bool
        Whether the aggregate costs as much as a pass, so that it is computed only together with a value of F.
    first_lam : float
        Constant for the first weight of the centre, in place of lam, if the penalty has no squares.
    """

    cached_visits = nbytes = 0.0
    n_planes = n_merged = 0
    bound_takes_pass = False
    _value = None       # version of the best point, R at that point, and a bound on the rounding error of R

    # ------------------------------------------------------------------ the point
    @abstractmethod
    def place(self, lam, kappa, centre):
        """Set lam, the weight kappa of the centre and the centre c; multipliers do not change."""

    @abstractmethod
    def default_kappa(self, lam):
        """Return a weight of the centre that suits the planes found so far."""

    @abstractmethod
    def aggregate(self):
        """Return the `Plane` of the multipliers as a new sum; set w from this sum, without rounding errors of steps."""

    def shrink(self, lam):
        """Scale the multipliers, which come from a run with a larger lam, down to this lam if that raises the dual."""
        return

    # ------------------------------------------------------------------ passes
    @abstractmethod
    def oracle_pass(self, order):
        """Call the oracle for the examples of `order` and step on their blocks.

        Return the sum of the block gaps before the steps, or None if they are unknown.
        """

    def cached_pass(self, rng, target):
        """Step once on blocks with stored planes; return the last known sum of block gaps, to compare with `target`."""
        raise NotImplementedError

    def cached_passes(self, rng, target, most, most_visits):
        """Make at most `most` cached passes, until a pass returns at most `target`.

        No pass begins once `visits` exceeds `most_visits`. Only `Accelerated` calls this method.
        """
        for _ in range(most):
            if self.cached_pass(rng, target) <= target or self.visits > most_visits:
                break

    @abstractmethod
    def evaluate(self, search, w):
        """Decode all examples at w, or at a better point, call `observe`, and return F at that point."""

    def observe(self, search, w, value, error, inference=0.0):
        """Report w and R at w to the search; return F(w). The value and the bound on its rounding error are kept."""
        fun = search.observe(w, value, inference=inference)
        if search.w is w and np.isfinite(error):
            self._value = search.version, value, error
        return fun

    # ------------------------------------------------------------------ what is kept, and proven
    def known(self):
        """Return the blocks for another run; None if no run can start from them."""
        return None

    def forget(self):
        """Drop idle planes; this is called after each iteration."""
        return

    def known_value(self, search):
        """Return R at the best point and a bound on its rounding error, or None if no pass has computed both."""
        return None if self._value is None or self._value[0] != search.version else self._value[1:]

    def evidence(self, problem, risk, limits=None):
        """Return the `Proof` for `Run.evidence`, or None; the proof needs the `limits` of weights without penalty."""
        return None
