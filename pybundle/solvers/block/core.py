"""What `BlockMethod` and its schedules ask of a core, which keeps the blocks of all examples and their point."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Core(ABC):
    """Multipliers of every example (a block), and passes over them; made as `core(risk, known=blocks, **options)`.

    Attributes
    ----------
    n_examples, dim : int
    w : ndarray, shape (dim,)
        The point (kappa c - phi) / (lam + kappa) of the multipliers; a view that passes may change.
    visits, cached_visits : float
        Examples visited by the oracle so far, and blocks visited over stored planes alone.
    n_merged : int
        Planes that lost their own multipliers to a memory limit.
    """

    cached_visits = 0.0
    n_merged = 0

    # ------------------------------------------------------------------ the point
    @abstractmethod
    def place(self, lam, kappa, centre):
        """Sets lam, the weight of the centre and the centre c; multipliers stay."""

    @abstractmethod
    def default_kappa(self, lam):
        """The weight of the centre that suits the planes known now."""

    @abstractmethod
    def aggregate(self):
        """(offset B, phi, error of phi in norm, error of B) of the multipliers, summed afresh."""

    # ------------------------------------------------------------------ passes
    @abstractmethod
    def oracle_pass(self, order):
        """Asks the oracle for each example of `order` and steps on its block; the sum of the block gaps before."""

    @abstractmethod
    def cached_pass(self, rng, target):
        """Steps over what is known to matter; an estimate of the sum of all gaps, of which `target` is enough."""

    @abstractmethod
    def evaluate(self, run, w):
        """Asks the oracle for all examples at w, or at a better point, tells `run.observe`, and returns F there."""

    # ------------------------------------------------------------------ what is kept, and proven
    def known(self):
        """The blocks, for another run; None where no run can go on from them."""
        return None

    def nbytes(self):
        """Memory of the blocks."""
        return 0

    @classmethod
    def memory(cls, risk, **options):
        """As `Run.memory`, before anything large is made."""
        return {}

    def n_planes(self):
        """Planes stored."""
        return 0

    def forget(self):
        """An iteration has ended: what is idle may go."""
        return

    def known_value(self, w):
        """R at the best point w and a bound on its rounding error, where a pass has told both; or None."""
        return None

    def evidence(self, objective, risk):
        """As `Run.evidence`."""
        return None

    # ------------------------------------------------------------------ with stored planes only
    offset = None       # B at the running point

    def phi(self):
        """phi at the running point, for schedules that watch the dual."""
        raise NotImplementedError

    def solve(self, w, target):
        """Steps from w on the problem of all stored planes; whether its gap is `target`, or as small as can be."""
        raise NotImplementedError

    def measure(self):
        """Makes the gaps those at the running point."""
        raise NotImplementedError

    def gaps(self):
        """The last gap known of every block, for sampling."""
        raise NotImplementedError
