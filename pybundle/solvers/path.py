"""`path`: solve for many regularisation constants or penalties, each run warm-started by the previous one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.protocols import completed
from ..core.types import Callbacks, PathLike
from ..core.validation import check_choice, check_flag, check_number, is_scalar
from ..core.warn import warn_user
from ..prox import Penalty
from ..runtime.result import Result, Status
from ..runtime.stopping import Callback, one_clock
from .arguments import as_callbacks
from .checkpointing import Checkpoint, as_checkpoint
from .lam_range import SHARE, reach
from .method import Method
from .minimize import minimize
from .state import Known


class Arguments(TypedDict, total=False):
    """Arguments of `minimize` that `path` passes on."""

    tol: float
    atol: float | None
    warm_start: Result | Known | None
    constraints: Any
    n_parts: int | None
    max_iter: int | None
    time_limit: float | None
    memory_limit: int | None
    callback: Callbacks
    verbose: int
    n_jobs: int | None
    executor: Any
    checkpoint: PathLike | Checkpoint | None
    random_state: int | None
    evidence: bool
    scale: str


def path(risk: Any, lams: ArrayLike | Sequence[Penalty], *, reuse: str = "planes", interval: bool = False,
         w0: ArrayLike | None = None, method: str | Method = "auto", **options: Unpack[Arguments]) -> list[Result]:
    """Solve `min lam/2 |w|^2 + R(w)` for every lam of a grid, or of an interval; or for every penalty of a list.

    Parameters
    ----------
    risk, w0, method, **options
        As in `minimize`, w0 for the first solve; with `checkpoint="run.npz"` the solves write the files run-0.npz,
        run-1.npz, ...
    lams : sequence of float, or of Penalty
        Regularisation constants are solved from the largest to the smallest. Penalties of `pybundle.prox` are solved in
        their order, which should be from the heaviest to the lightest: `[L1(rate) for rate in (1.0, 0.3, 0.1)]`.
    reuse : {"planes", "solution"}
        "planes" keeps all planes: they bound R and do not depend on lam or penalty, so the next run starts with a lower
        bound and without an oracle call; "lbfgs" keeps its bound and its pairs, and starts with one pass. "solution"
        keeps only the minimiser, the REUSE of Uricar & Franc (2013).
    interval : bool
        True takes `lams = (high, low)` as the ends of an interval and certifies all of it: every lam in between lies in
        the `lam_range` of a result, whose point has the relative gap `tol` there. Each lam is solved to `tol / 2`, and
        the next lam is the lower end of its range. The risk must never be negative. If a run does not reach `tol`, its
        `lam_range` is None and the path ends. It ends, too, if a run that misses `tol / 2` has a tiny range, as all
        that follow would have. The default of `atol` is 0 here. An interval has no penalties.

    Returns
    -------
    list of Result
        In the order of `lams`; for an interval from the largest lam down. Each result has the field `lam`, or
        `penalty` where that is what was given, and with `interval` also `lam_range = (low, high)`. Only the last one
        that was solved keeps its `state`. After Ctrl-C, or if a callback stops the path, the results so far; an
        exception carries them as `error.finished`.

    Raises
    ------
    ParameterError, InputTypeError
        As in `minimize`; if `lams` mixes numbers and penalties, or a number is not positive; with `interval` if there
        are not two ends, the risk may be negative, a weight is free, or there are constraints.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> [round(r.fun, 3) for r in pb.path(risk, [1.0, 0.1], tol=1e-8)]
    [0.5, 0.05]
    >>> ranges = [r.lam_range for r in pb.path(risk, (10.0, 0.1), interval=True, tol=0.1)]
    >>> ranges[0][1], ranges[-1][0], all(a[0] == b[1] for a, b in zip(ranges, ranges[1:]))
    (10.0, 0.1, True)
    """
    check_choice("reuse", reuse, ("planes", "solution"))
    for name in ("lam", "penalty"):
        if name in options:
            raise ParameterError(f"{name} is no argument of path; write path(risk, lams), where lams are numbers or "
                                 "penalties")
    if not isinstance(lams, (list, tuple, np.ndarray)) or len(lams) == 0 or not all(map(is_scalar, lams)):
        raise ParameterError(f"lams must be a non-empty sequence of numbers or of penalties, got {lams!r:.60}")
    are_penalties = all(isinstance(lam, Penalty) for lam in lams)
    if not are_penalties and any(isinstance(lam, Penalty) for lam in lams):
        raise InputTypeError("lams must be numbers or penalties, got some of each; call path once for each kind")
    if not are_penalties:
        lams = [check_number("lams", lam, low=0.0, strict=True) for lam in lams]
    arguments: dict[str, Any] = dict(options)
    checkpoint = as_checkpoint(arguments.pop("checkpoint", None))
    check_flag("interval", interval)
    if are_penalties and interval:
        raise ParameterError("lams must be (high, low) with interval=True, got penalties, between which nothing is "
                             "certified; leave out interval")
    plan = Interval(risk, lams, arguments) if interval else Grid(lams, "penalty" if are_penalties else "lam")
    return _collected(plan, runs(plan, risk, reuse=reuse, w0=w0, method=method, checkpoint=checkpoint, **arguments))


def _collected(plan, results):
    """Return all results in the order of the plan; an exception carries the results so far."""
    found = []
    try:
        for result in results:
            found.append(result)
    except KeyboardInterrupt:
        if not found:
            raise
    except Exception as error:
        error.finished = plan.sort(found)
        raise
    return plan.sort(found)


def runs(plan, risk, *, reuse="planes", w0=None, warm_start=None, checkpoint=None, callback=None, **options):
    """Yield the results of a plan, each run warm-started by the one before, until a callback ends the path."""
    callbacks = as_callbacks(callback)
    watching = [_OfPath(function) for function in callbacks]
    previous, n = None, 0
    warm = {name: value for name, value in (("w0", w0), ("warm_start", warm_start)) if value is not None}
    lam = plan.first
    with one_clock(callbacks):
        while lam is not None:
            for function in watching:
                function.asked = False
            result = minimize(risk, **{plan.argument: lam}, checkpoint=_numbered(checkpoint, n), callback=watching,
                              **warm, **options)
            if previous is not None:
                previous.state = None           # the new bundle has the planes of the previous run
            previous, result[plan.argument], n = result, lam, n + 1
            warm = {"w0": result.x} | ({"warm_start": result} if reuse == "planes" else {})
            # without `time_limit` only a callback can end a run by its time, and that limit holds for the whole path
            is_over = result.status is Status.TIME_LIMIT and options.get("time_limit") is None
            is_over |= result.status is Status.INTERRUPTED
            is_over |= result.status is Status.CALLBACK and any(function.asked for function in watching)
            yield result
            lam = plan.next(result)
            if is_over:
                return


class _OfPath(Callback):
    """A callback that ends the whole path when it stops a run, unless its `ends_path` is False."""

    asked = False

    def __call__(self, progress):
        reason = super().__call__(progress)
        self.asked |= reason is not None and getattr(self.function, "ends_path", True)
        return reason


def _numbered(checkpoint, k):
    """Return the file of the k-th solve."""
    if checkpoint is None:
        return None
    stem, extension = os.path.splitext(os.fspath(checkpoint.path))
    return replace(checkpoint, path=f"{stem}-{k}{extension}")


CRAWL = 0.1
"""An interval ends at a run without convergence that covers less than this part of the range of a converged run."""


class Grid:
    """Every lam of a list, largest first, or every penalty in the given order.

    `argument` is the name of the argument of `minimize`, and of the field of its result.
    """

    def __init__(self, lams, argument="lam"):
        self.lams, self.argument, self.n = lams, argument, 0
        self.order = sorted(range(len(lams)), key=lambda k: -lams[k] if argument == "lam" else k)
        self.first = lams[self.order[0]]

    def next(self, result):
        self.n += 1
        return self.lams[self.order[self.n]] if self.n < len(self.lams) else None

    def sort(self, found):
        """Return the results in the order of the list."""
        return [result for _, result in sorted(zip(self.order, found, strict=False), key=lambda pair: pair[0])]


class Interval:
    """Each lam is the smallest that the previous certificate covers. The constructor sets tol, atol in `options`."""

    argument = "lam"

    def __init__(self, risk, lams, options):
        if len(lams) != 2:
            raise ParameterError(f"lams must be (high, low) with interval=True, got {len(lams)} numbers")
        if completed(risk).free is not None:
            raise ParameterError("risk must have no free intercept with interval=True, whose bounds count all weights; "
                                 "pass a grid of lams")
        if options.get("constraints") is not None:
            raise ParameterError("constraints must be left out with interval=True, whose bounds leave them out; pass "
                                 "a grid of lams")
        bounds = getattr(risk, "lower_bounds", -np.inf)         # a plain function declares no bounds
        if not np.all(bounds >= 0.0):
            raise ParameterError("risk must have lower_bounds >= 0 with interval=True, since a relative gap means "
                                 "little where F can be 0; pass a grid of lams")
        self.first, self.least = max(lams), min(lams)
        self.tol = check_number("tol", options.get("tol", 1e-2), low=0.0, strict=True)
        options["tol"] = SHARE * self.tol
        options.setdefault("atol", 0.0)         # `reach` keeps the relative gap only
        self.floor = float(np.sum(bounds)) / (risk.n_examples if options.get("scale") == "mean" else 1)

    def next(self, result):
        result.lam_range = None
        if not (result.certified and result.gap <= self.tol):
            return None
        low = reach(result, result.lam, self.least, self.tol, self.floor)
        result.lam_range = low, result.lam
        if low == result.lam > self.least:
            warn_user(f"pybundle.path: the certificate of lam = {low:g} reaches no further; raise tol")
        # see `lam_range.py`: a run to half the tolerance serves a relative width of about sqrt(tol F / 2 c)
        if not result.success and low > (1.0 - CRAWL * self.tol**0.5) * result.lam:
            return None
        return low if self.least < low < result.lam else None

    def sort(self, found):
        return found
