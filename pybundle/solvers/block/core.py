"""The contract of a core, which stores the blocks of all examples and their point for `BlockMethod`."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ...core.kept import Kept


class Core(Kept, ABC):
    """Blocks of multipliers, one for each example, and passes over them; made by `core(risk, known=blocks, **options)`.

    Attributes
    ----------
    n_examples, dim : int
    w : ndarray, shape (dim,)
        The point (kappa c - phi) / (lam + kappa) of the multipliers; a view that passes may change.
    visits, cached_visits : float
        Examples visited by the oracle so far, and blocks visited over stored planes alone.
    n_merged : int
        Planes that lost their own multipliers to a memory limit.
    bound_takes_pass : bool
        Whether the aggregate costs as much as a pass, so that it is computed only when a value is.
    """

    cached_visits = 0.0
    n_merged = 0
    bound_takes_pass = False

    # ------------------------------------------------------------------ the point
    @abstractmethod
    def place(self, lam, kappa, centre):
        """Set lam, the weight of the centre and the centre c; multipliers stay."""

    @abstractmethod
    def default_kappa(self, lam):
        """Return the weight of the centre that suits the planes known now."""

    def raise_kappa(self):
        """Called when cached passes missed their target: a centre that is lighter than usual gets heavier."""
        return

    @abstractmethod
    def aggregate(self):
        """Return the `Plane` of the multipliers, summed afresh."""

    def shrink(self, lam):
        """Scale the multipliers of a run with a larger lam to this one if that raises the dual."""
        return

    # ------------------------------------------------------------------ passes
    @abstractmethod
    def oracle_pass(self, order):
        """Step on the blocks of the examples of `order`; return the sum of the block gaps before, None if unknown."""

    def cached_pass(self, rng, target):
        """Step on blocks with stored planes until gaps sum to `target`; return an estimate of the sum of all gaps."""
        raise NotImplementedError

    def cached_passes(self, rng, target, most, most_visits):
        """Make at most `most` cached passes, until one returns at most `target`; return whether one did.

        No pass begins once `visits` exceeds `most_visits`. `Accelerated` calls this, other schedules `cached_pass`.
        """
        for _ in range(most):
            if self.cached_pass(rng, target) <= target:
                return True
            if self.visits > most_visits:
                break
        return False

    @abstractmethod
    def evaluate(self, search, w):
        """Decode all examples at w, or at a better point, call `search.observe`, and return F there."""

    # ------------------------------------------------------------------ what is kept, and proven
    def known(self):
        """Return the blocks for another run; None if no run can start from them."""
        return None

    def nbytes(self):
        """Return the bytes of the blocks."""
        return 0

    def n_planes(self):
        """Return the number of planes stored."""
        return 0

    def forget(self):
        """Called after an iteration, to drop idle planes."""
        return

    def known_value(self, search):
        """Return R at the best point and a bound on its rounding error, if a pass has computed both; or None."""
        return None

    def evidence(self, problem, risk, limits=None):
        """Return the `Proof` for `Run.evidence`, within limits of free weights, or None."""
        return None

    # ------------------------------------------------------------------ with penalties only
    def first_lam(self):
        """Return the lam from which the first weight of the centre follows if no weight has a square."""
        raise NotImplementedError

    # ------------------------------------------------------------------ with stored planes only
    offset = None       # B at the running point

    def phi(self):
        """Return phi at the running point, for schedules that watch the dual."""
        raise NotImplementedError

    def solve(self, w, target):
        """Solve the problem of all stored planes from w; return whether its gap is at `target`, or stuck."""
        raise NotImplementedError

    def measure(self):
        """Recompute the gaps at the running point."""
        raise NotImplementedError

    def gaps(self):
        """Return the last known gap of every block, for sampling."""
        raise NotImplementedError
