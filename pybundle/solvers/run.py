"""A run of one method: what it keeps beside its search. A method adds `start`, `iterate` and its state.

A `Solve` calls `start`, `step` and `describe`; `ending` says whether a run may end, and makes its result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.exceptions import InputTypeError
from ..core.kept import Kept
from ..core.protocols import RiskBase
from ..core.rounding import UNIT
from ..core.types import Floats
from ..runtime.result import Status
from .counting import Trace
from .evidence.proof import Proof
from .inexact_decoding import is_mostly_inference
from .state import Known, Settings

LAST_DIGITS = 8.0 * UNIT
"""A gap that shrinks by at most this fraction of F in a step does so by rounding, which is no progress."""


class Run(Kept):
    """A run of a method: what it keeps beside its search, and its steps.

    A method of your own derives its run from this class. It defines `start` and `iterate`, which move the point w, and
    names in `kept` what they change. The rest of this class has defaults: `describe`, `n_planes`, `state`,
    `known_value` and `evidence` may be replaced if the method knows more. See "Write your own method" in the
    documentation.

    Attributes
    ----------
    search : Search
        The risk, the best point and the best bound. All passes go through it.
    risk : Risk
        `search.risk`, with all members of `RiskBase`.
    problem : Problem
        The objective `F(w) = factor Omega(w) + R(w)`: `problem.square.lam` for a method with penalties "none", and
        `problem.point(phi, lam)`, the minimiser of `lam/2 |w|^2 + <phi, w>`; `problem.minimiser(phi)` for other
        penalties.
    settings : Settings
        `gap`, `memory_limit`, `record`, `factor`, `random_state` of the call.
    trace : Trace
        The counters of `search`: `n_iter`, `n_passes`, and others.
    kept : tuple of str
        Names of the attributes that a checkpoint holds: all that `start` or `iterate` change. They are numbers, texts,
        arrays, generators, lists, tuples and dicts of these, or further objects with a `kept` of their own. What
        follows from the record, the risk and the search is not among them.
    patience : int
        Number of iterations in a row that moved neither best value nor best bound beyond rounding, after which the run
        has stalled.
    method : Method
        The record from which the run began; set by the solve.
    is_published : bool
        Whether the rule of the method's paper ends the run, instead of best value and best bound.
    fallbacks : Fallbacks or None
        The methods that take over from it in "auto".
    """

    patience: int = 300
    method: Any = None
    is_published: bool = False
    fallbacks: Any = None

    def __init__(self, search: Any) -> None:
        self.search: Any = search
        self.problem: Any = search.problem
        self.settings: Settings = search.settings

    @property
    def risk(self) -> RiskBase:
        return self.search.risk

    @property
    def trace(self) -> Trace:
        return self.search.trace

    # ------------------------------------------------------------------ what a method adds
    def start(self, w0: Floats, state: Known | None = None) -> None:
        """Make the first pass at w0, or at the best point of another run.

        It may be called again, at a better point: then everything begins anew but the search.

        Parameters
        ----------
        w0 : ndarray, shape (dim,)
            Starting point, which need not be feasible: begin at `self.search.take(w0, state)`.
        state : Known or None
            What another run has left, for a warm start. Its `bundle`, `blocks` or `pairs` may be used if they are those
            of this method.
        """
        raise NotImplementedError

    def iterate(self) -> Status | None:
        """Make one iteration.

        It adds 1 to `trace.n_iter`, makes a pass at least now and then, offers a lower bound, and logs F at its point.

        Returns
        -------
        Status or None
            `Status.CONVERGED` if `search.is_close()`, another status if the run cannot go on, None if it goes on. True
            and False are refused.
        """
        raise NotImplementedError

    # ------------------------------------------------------------------ steps
    def step(self) -> Status | None:
        """One iteration; a Status when the run is over, else None."""
        search = self.search
        before, gap = (search.version, search.bound_version), search.gap
        status = self.iterate()
        if status is not None:
            if not isinstance(status, Status):
                raise InputTypeError(f"iterate of {type(self).__name__} must return a Status or None, got "
                                     f"{status!r:.40}")
            return status
        has_moved = (search.version, search.bound_version) != before
        with np.errstate(invalid="ignore"):         # without a bound the gap is infinite
            is_rounding = gap - search.gap <= LAST_DIGITS * abs(search.fun)
        search.idle = 0 if has_moved and not is_rounding else search.idle + 1
        if search.inexact.leaves_gap():
            return Status.INFERENCE
        status = self.stalled() if self.is_stalled() else None
        return Status.INFERENCE if status is Status.STALLED and is_mostly_inference(search) else status

    def is_stalled(self) -> bool:
        """Whether neither best value nor best bound has moved for long."""
        found = self.problem.dependence      # with nearly dependent columns limits are rarely proven
        is_hard = is_mostly_inference(self.search) or (found is not None and found.near)
        return self.search.idle >= (min(self.patience, 30) if is_hard else self.patience)

    def stalled(self) -> Status | None:
        """Return the status at which a stalled run ends, or None if it can continue in another way."""
        return Status.STALLED

    # ------------------------------------------------------------------ what subclasses answer
    def describe(self) -> str:
        """Return a few words for the user, which `verbose=1` prints: what runs, and the memory that it needs, about."""
        return f"method {self.method.name!r}"

    def n_planes(self) -> int:
        """Return the number of planes kept at the moment."""
        return 0

    def is_short_of_memory(self) -> bool:
        """Return whether `memory_limit` has cost the run planes."""
        return False

    def state(self) -> Known | None:
        """Return what another run could start from, or None.

        A method that keeps more than point and bound returns `search.state(blocks=...)` or one with another field of
        `Known`.
        """
        return self.search.state()

    # ------------------------------------------------------------------ checkpoints
    @property
    def kind(self) -> str:
        """Name of what moves w: if that of a checkpoint differs, a new run starts from its state."""
        return type(self).__name__

    def arrays(self) -> dict[str, Any]:
        """Return what a checkpoint holds: the attributes in `kept`, and what the search keeps."""
        return {"kind": self.kind, "search": self.search.arrays(), **super().arrays()}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Become the run that `arrays` described; this replaces `start`.

        Objects in `kept` that have a `kept` of their own must be there after `__init__`, or be made here before. Extend
        this method to check what it reads, or to compute what follows from it.

        Parameters
        ----------
        arrays : dict
            As `arrays` returned it in a run of the same class on the same risk.
        """
        self.search.restore(arrays["search"])
        super().restore({name: arrays[name] for name in self.kept})

    def to_float64(self) -> None:
        """Compute anew what was computed in float32.

        It is called if the certificate in float64 missed the tolerance; `risk` works in float64 from then on. A method
        that stores no scores or planes need not do anything.
        """

    def settle(self) -> None:
        """Choose the last point if no value of F is known yet; called before the run is finished."""

    def known_value(self) -> tuple[Any, Any] | None:
        """Return R at the best point in float64 and a bound on its rounding error, or None, the default.

        None makes the solve spend one more pass at the best point for the certificate, unless the risk bounds the
        errors of its values (`RiskBase.value_errors`). A method whose last pass was at the best point, in float64,
        returns `search.exact_value(self.risk)`, which is None if the risk bounds no errors.

        Returns
        -------
        value, error : float, or ndarray, shape (P,), for the parts
            Or None.
        """
        return None

    def evidence(self, risk: Any) -> Proof | None:
        """Return the `Proof` of a lower bound over the data of `risk`, or None."""
        return None
