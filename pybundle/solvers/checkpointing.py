"""Save and resume runs: when a checkpoint is written, which arguments must match, how a run resumes.

A resumed run returns the same bits as an uninterrupted one if only limits and callbacks differ, and if decoding depends
on its arguments alone, unlike in `GraphLabeling`. With another tolerance the saved run continues. If the tolerance or
the memory limit needs another kind of run, a new run starts from the saved state. Counters and history always continue.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from ..core.archive import refusing
from ..core.exceptions import BundleError, StateError
from ..core.plane import Plane
from ..core.protocols import name_of
from ..core.types import PathLike
from ..core.validation import check_number, check_path
from ..proof.score_limits import ScoreLimits
from ..prox import Groups, OverlappingGroups, Penalty
from ..runtime.checkpoint import CheckpointFile
from ..runtime.interrupts import interrupts_wait
from ..runtime.lower_bound import Bracket, LowerBound
from ..runtime.result import Status
from .driver import NoCheckpoint
from .ending import finish
from .interior.barrier import Point
from .problem.free_weights import LimitProof
from .state import is_fine

ENDED = (Status.CONVERGED, Status.STALLED, Status.INFERENCE)
"""Statuses of runs that are finished for good."""
RECORDS = (Plane, LowerBound, Bracket, LimitProof, ScoreLimits, Point)
"""Named tuples and dataclasses that runs keep."""
SAME = 1e-9
"""Relative difference up to which values of a risk without a fingerprint count as equal."""
RAW = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError, NameError)
"""Exceptions that inconsistent contents of a checkpoint may cause."""
OURS = sys.stdlib_module_names | {"pybundle", "numpy", "scipy"}


@dataclass(frozen=True)
class Checkpoint:
    """The file to which a run is written, for `checkpoint=` of `minimize`, `path` and `Solve`.

    A path alone stands for `Checkpoint(path)`. See "Long runs" in the documentation for what must match when a run
    resumes.

    Parameters
    ----------
    path : str or path
        The file appears when the run starts, and is always complete.
    every : float, optional
        Seconds between two writes, checked after each iteration; None is 60, or more if a write takes over 3. 0 writes
        after every iteration.

    Raises
    ------
    ParameterError
        If `every` is negative or no number.
    InputTypeError
        If `path` is no path.

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.Checkpoint("run.npz", every=10)
    Checkpoint(path='run.npz', every=10.0)
    """

    path: PathLike
    every: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", check_path("path", self.path))
        if self.every is not None:
            object.__setattr__(self, "every", check_number("every", self.every, low=0.0))


def as_checkpoint(given):
    """Return the argument `checkpoint` as a `Checkpoint`, or None."""
    return given if given is None or isinstance(given, Checkpoint) else Checkpoint(check_path("checkpoint", given))


class Checkpointing(NoCheckpoint):
    """Write a run into its checkpoint periodically, and resume a run from its checkpoint.

    Parameters
    ----------
    checkpoint : Checkpoint
    risk : Risk
        The risk whose planes the run asks for.
    terms : dict
        What must match for the run to resume, from `terms_of`.
    settings : Settings
    make : callable
        `make(name, memory_limit)` builds the run of a method.
    report : RunLog or None
    """

    def __init__(self, checkpoint, risk, terms, settings, make, report=None):
        self._file = CheckpointFile(checkpoint.path, checkpoint.every, terms, RECORDS, report)
        self._settings, self._is_inside, self._is_over, self._has_read = settings, False, False, False
        self._risk, self._make = risk, make

    def begin(self, run, w0, state):
        self._file.lock()
        found = self._file.read()
        if found is None:
            run.start(w0, state)
            self.write(run)             # this fails at once if the file cannot be written
            return run, None
        self._has_read = True
        run, status = self._take_up(run, found)
        self._recognise(run)
        trace, self.seconds = run.trace, run.trace.clock.elapsed()
        self.words = (f"{self._file.path}: " + ("ended" if status is not None else "resumed")
                      + f" after {trace.n_iter} iterations, {trace.n_passes:.4g} passes, {self.seconds:.4g} s")
        return run, status

    @contextmanager
    def iteration(self):
        """Defer Ctrl-C to the end of the iteration, when the run can be written."""
        self._is_inside = True
        with interrupts_wait():
            yield
            self._is_inside = False

    def save(self, run):
        if self._file.is_due():
            self.write(run)

    def finish(self, run, status):
        # a run that a limit ends is written before its certificate takes a pass, which a resumed run would not make
        if status not in ENDED and run.trace.n_iter != self._file.n_iter:
            self.write(run)
        result = finish(run, status)
        if status in ENDED and not self._is_over:
            self.write(run, status)
        return result

    @property
    def path(self):
        return self._file.path

    def lock(self):
        """Take the file, which no other run may use."""
        self._file.lock()

    def write(self, run, status=None):
        """Write the run at once, and its status if the run is finished for good."""
        left = None if run.fallbacks is None else run.fallbacks.arrays()
        held = {"method": run.method.name, "run": run.arrays(), "fallbacks": left}
        self._file.write(held, run.trace.n_iter, status=int(status) if status in ENDED else None,
                         settings=self._changeable())

    def rescue(self, run, status=None):
        """Write the run if the file lacks its last iteration; a run inside an iteration is not written."""
        trace, written = run.trace, self._file.n_iter
        if written is None or self._is_inside:          # None: the run has not begun
            return
        if trace.n_iter != written or (status in ENDED and not self._is_over):
            with suppress(StateError):          # an earlier write has raised this error: no file can hold the contents
                self.write(run, status)

    def close(self):
        self._file.close()

    def explain(self, error):
        """Return an error that names the file if this package or its libraries raised an error of a resumed run."""
        if not self._has_read or isinstance(error, BundleError) or not isinstance(error, RAW):
            return error
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in OURS:
                return error
            trace = trace.tb_next
        return StateError(f"checkpoint {self._file.path}: its contents are inconsistent ({error!r:.200}); "
                          "delete it, or choose another path")

    # ------------------------------------------------------------------ inside
    def _changeable(self):
        # settings that may differ between calls; another value may need a new run
        gap = self._settings.gap
        return [gap.tol, gap.atol, self._settings.memory_limit]

    def _take_up(self, fresh, found):
        held, status = found.run, found.header["status"]
        with refusing(f"checkpoint {self._file.path}: not readable; delete it, or choose another path", StateError):
            tol, atol, memory = found.header["settings"]
            old = self._make(held["method"], memory)
            old.restore(held["run"])
            left = held["fallbacks"]
        search, gap = old.search, self._settings.gap
        is_same, bracket = (tol, atol, memory) == tuple(self._changeable()), search.bracket
        is_over = status is not None and (is_same or (bracket is not None and search.rule.holds(*bracket.range)))
        self._is_over = is_over         # a run that is over leaves the file as it is, with its own settings
        # a fine tolerance takes other methods in "auto" and float64 scores, so it needs a new run
        is_other = not is_same and (memory != self._settings.memory_limit or is_fine(tol) != is_fine(gap.tol))
        if not is_over and (is_other or old.kind != held["run"]["kind"]):
            state, fresh.search.trace = old.state() or search.state(), search.trace
            fresh.start(state.w, state)
            return fresh, None
        if left is not None and fresh.fallbacks is not None:
            fresh.fallbacks.restore(left)
            old.fallbacks = fresh.fallbacks
        return old, (Status(status) if is_same else Status.CONVERGED) if is_over else None

    def _recognise(self, run):
        """Compare the stored value at the best point with a new value if the risk has no fingerprint; this is no pass.

        Two functions may agree near w0, where `_probe` evaluates them, and a finished run would not call the risk.
        """
        search = run.search
        if self._risk.fingerprint is not None or search.w is None or not np.isfinite(search.risk_value):
            return
        if not self._risk.decodes_exactly:
            self._risk.aim(0.0)
        planes = self._risk.planes(search.w.copy())
        low = value = float(np.sum(planes.values))
        if not self._risk.decodes_exactly:      # plane and upper bound enclose the value in both passes
            low = float(np.sum(planes.offsets + planes.dot(search.w)))
        digits = 1e-4 if self._risk.precision == "float32" else SAME
        scale = abs(value) + abs(search.risk_value) + 1e-3 * abs(search.size.value)
        if not (low <= search.risk_value + digits * scale
                and value >= search.risk_value - search.inference - digits * scale):
            raise StateError(f"checkpoint {self._file.path} belongs to another problem: at its best point the risk was "
                             f"{search.risk_value:.9g} and is {value:.9g}; delete it, or choose another path")


def terms_of(risk, given, problem, method, warm, w0, **parameters):
    """Return in JSON form what must match for a run to resume.

    Parameters
    ----------
    risk, given : Risk
        The risk divided into the parts of the run, and the risk as the caller passed it.
    problem : Problem
    method : Method
    warm : Known or None
    w0 : array, shape (dim,)
    **parameters
        Arguments of `minimize`.
    """
    terms = {"risk": name_of(risk), "dim": int(risk.dim), "n_examples": int(risk.n_examples),
             "n_parts": int(risk.n_parts), "precision": given.precision}
    fingerprint = risk.fingerprint
    terms["data"] = _probe(risk, problem.project(w0)) if fingerprint is None else _word(fingerprint)
    terms |= {name: _word(value) for name, value in parameters.items()}
    return terms | {"method": str(method), "w0": _word(w0 if w0.any() else None),
                    "warm_start": None if warm is None else _word(warm.w)}


def _word(value):
    """Return a value in JSON form; arrays and other objects become check sums."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray):
        return f"array {value.shape} of check sum {crc32(np.ascontiguousarray(value))}"
    if isinstance(value, Penalty):
        text = _spelled(value)
        return text if len(text) <= 50 else f"{type(value).__name__} of check sum {crc32(text.encode())}"
    return f"{type(value).__name__} of check sum {crc32(repr(value).encode())}"


def _spelled(value):
    """Return a penalty with all its attributes in words; arrays are check sums."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_spelled, value))}]"
    if isinstance(value, dict):
        return ", ".join(f"{name}={_spelled(part)}" for name, part in sorted(value.items()))
    if isinstance(value, (Penalty, Groups, OverlappingGroups)):
        return f"{type(value).__name__}({_spelled(vars(value))})"
    return str(_word(value))


def _probe(risk, w):
    """Return a substitute for a fingerprint from the risk at w and at a nearby point; the calls do not count as passes.

    The text has the values of the parts, and products of their slopes with fixed random vectors, to nine digits.
    Coordinates with other signs or in another order change the products.
    """
    rng, marks = np.random.default_rng(0), []
    for point in (w, w + rng.standard_normal(len(w))):
        planes = risk.planes(point)
        products = np.asarray(planes.slopes @ rng.standard_normal((len(w), 3)))
        marks += [f"{x:.9g}" for x in (*planes.values, *products.ravel())]
        if len(marks) <= 4 * len(planes.values):
            value, slope = np.sum(planes.values), np.asarray(planes.slopes.sum(axis=0)).ravel()
            words = f"value {value:.9g}, slope {np.linalg.norm(slope):.9g} at w0"
    return f"{words}, check sum {crc32(' '.join(marks).encode())}"
