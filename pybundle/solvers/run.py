"""A run of one method: what it keeps beside its search. A method adds `start`, `iterate` and its state.

A `Solve` calls `start`, `step` and `describe`; `ending` says whether a run may end, and makes its result.
"""

from __future__ import annotations

from ..core.exceptions import InputTypeError
from ..core.kept import Kept
from ..runtime.result import Status


class Run(Kept):
    """Base class of the methods: a method adds `start` and `iterate`, which move w, and names what it keeps.

    Attributes
    ----------
    search : Search
        The risk, the best point and the best bound.
    patience : int
        Steps in a row that moved neither best value nor best bound, after which the run has stalled.
    kept : tuple of str
        Names of the attributes that a checkpoint holds beside the search, see `core.kept`.
    method : Method or None
        The record from which the run began; None if no record made it.
    is_published : bool
        Whether the rule of the method's paper ends the run, instead of best value and best bound.
    fallbacks : Fallbacks or None
        The methods that take over from it.
    """

    patience = 300
    method, is_published, fallbacks = None, False, None

    def __init__(self, search):
        self.search, self.problem, self.settings = search, search.problem, search.settings

    @property
    def risk(self):
        return self.search.risk

    @property
    def trace(self):
        return self.search.trace

    # ------------------------------------------------------------------ what a method adds
    def start(self, w0, state=None):
        """Begin at w0, or at the best point of the state of another run, see `Search.take`.

        It may be called again, at a better point: everything begins anew but the search.
        """
        raise NotImplementedError

    def iterate(self):
        """Make one iteration: count it, log F at its point, and return a Status if the run is over, else None."""
        raise NotImplementedError

    # ------------------------------------------------------------------ steps
    def step(self):
        """One iteration; a Status when the run is over, else None."""
        search = self.search
        before = search.version, search.bound_version
        status = self.iterate()
        if status is not None:
            if not isinstance(status, Status):
                raise InputTypeError(f"iterate of {type(self).__name__} must return a Status or None, got "
                                     f"{status!r:.40}")
            return status
        search.idle = 0 if (search.version, search.bound_version) != before else search.idle + 1
        return self.stalled() if self.is_stalled() else None

    def is_stalled(self):
        """Whether neither best value nor best bound has moved for long."""
        found = self.problem.dependence      # nearly dependent columns: limits are rarely proven
        return self.search.idle >= (self.patience if found is None or not found.near else min(self.patience, 30))

    def stalled(self):
        """Return the status at which a stalled run ends, or None if it can continue in another way."""
        return Status.STALLED

    # ------------------------------------------------------------------ what subclasses answer
    def describe(self):
        """Return a few words for the user: what is about to run, and the memory that it expects to need."""
        return f"method {self.method.name!r}"

    def n_planes(self):
        """Return the number of planes kept at the moment."""
        return 0

    def is_short_of_memory(self):
        """Return whether `memory_limit` has cost the run planes."""
        return False

    def state(self):
        """Return what another run could start from, or None."""
        return self.search.state()

    # ------------------------------------------------------------------ checkpoints
    @property
    def kind(self):
        """Name of what moves w: if that of a checkpoint differs, a new run starts from its state."""
        return type(self).__name__

    def arrays(self):
        """Return what a checkpoint holds."""
        return {"kind": self.kind, "search": self.search.arrays(), **super().arrays()}

    def restore(self, arrays):
        """Become the run that `arrays` described; this replaces `start`.

        What is `Kept` itself must be there after `__init__`, or be made here before.
        """
        self.search.restore(arrays["search"])
        super().restore({name: arrays[name] for name in self.kept})

    def to_float64(self):
        """Renew what was computed before: the certificate missed the tolerance, and `risk` now works in float64."""

    def settle(self):
        """Choose the last point if no value of F is known yet; called before the run is finished."""

    def known_value(self):
        """Return R at the best point in float64 and a bound on its rounding error, if a pass has computed both."""
        return None

    def evidence(self, risk):
        """Return the `Proof` of a lower bound over the data of `risk`, or None."""
        return None
