"""Drives a run until a rule or the method ends it, and returns the certified result."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np

from ..core.exceptions import BundleError, InputTypeError, OracleError
from ..core.types import Floats
from ..core.warn import warn_user
from ..distributed.waiting import OutOfTime
from ..runtime.result import Result, Status
from ..runtime.stopping import Callback, TimeLimit, first_reason, time_of_end
from .diagnostics import LONG, VERY_LONG, hint
from .ending import confirm, finish, for_user
from .evidence.proof import Proof, certificate_of


class NoCheckpoint:
    """Stand-in for `Checkpointing` if there is no checkpoint file.

    Attributes
    ----------
    path : str or None
        Path of the file.
    seconds, words : float, str, or None
        Elapsed time and status line of a resumed run; None for a new run.
    """

    seconds = words = path = None

    def begin(self, run, w0, state):
        """Start the run; return the run to step, and its status if it has ended already."""
        run.start(w0, state)
        return run, None

    def iteration(self):
        """Return a context for one iteration."""
        return nullcontext()

    def save(self, run):
        """Write the run if that is due; this is called after an iteration."""

    def finish(self, run, status):
        """Return the result of a run that has ended."""
        return finish(run, status)

    def rescue(self, run, status=None):
        """Write the run after an exception or Ctrl-C; `status` is that of the last iteration."""

    def close(self):
        """Release the checkpoint."""

    def explain(self, error):
        """Return the exception to raise in place of `error`."""
        return error


class Driver:
    """Drives a run: `complete` runs it to its end; `Solve` makes the steps one at a time.

    Parameters
    ----------
    run : Run
        A run that is not started yet.
    w0 : array, shape (dim,)
    state : Known or None
        What another run knows, as the start of this run.
    rules : sequence of callable
        Each takes the progress, and returns a status if the run should end.
    report : RunLog or None
    factor : float
        Objective and bounds of a result, also of a result that an exception carries, are multiplied by this number.
    checkpointing : NoCheckpoint
        Writes the run into a file, or resumes the run from the file instead of starting it.
    at_home : Risk or None
        If workers hold the parts of the run, the risk over the data of this process, which the certificate asks if the
        workers are lost.
    home : Risk or None
        The risk over the data of this process, for evidence; None if the user passed a risk whose parts workers hold.

    Attributes
    ----------
    run : Run
    status : Status or None
        Why the run has ended; None if it goes on.
    result : Result or None
    """

    def __init__(self, run: Any, w0: Floats, state: Any = None, rules: Sequence[Any] = (), report: Any = None,
                 factor: float = 1.0, checkpointing: Any = None, at_home: Any = None, home: Any = None) -> None:
        self.run: Any = run
        self.status: Status | None = None
        self.result: Result | None = None
        self._start, self._rules, self._report, self._factor = (w0, state), rules, report, factor
        self._checkpointing: Any = checkpointing or NoCheckpoint()
        self._at_home, self._home = at_home, home
        self._is_asking_user, self._hint, self._due = False, "", LONG
        self._has_begun = self._is_inside = False       # whether the run has begun; whether an iteration runs
        self._error = ""                                # the text of the error that ended the run

    def _begin(self):
        """Start the run, or resume it from its checkpoint, unless an earlier call has done so."""
        if self._has_begun:
            return
        self._tell_waiting()
        self.run, self.status = self._checkpointing.begin(self.run, *self._start)
        if self.run.search.w is None:
            raise InputTypeError(f"start of {type(self.run).__name__} must visit a point, by `self.search.visit`")
        self._has_begun = True
        if self._report is not None:
            self._report.say(self._words())
        seconds = self._checkpointing.seconds
        if seconds is None:
            return
        if self._report is not None:
            self._report.say(self._checkpointing.words)
        # limits count from the first start of the run; callbacks are called after the next iteration
        limits = [rule for rule in self._rules if not isinstance(rule, Callback)]
        for rule in limits:
            if isinstance(rule, TimeLimit):
                rule.deadline -= seconds
        self._tell_waiting()
        self.status = first_reason(limits, self._progress()) if self.status is None else self.status

    def _advance(self):
        """Make one iteration; set the status, which stays None if the run goes on."""
        self._is_asking_user, self._is_inside = False, True
        with self._checkpointing.iteration():
            self.status = self.run.step()
            if self.run.fallbacks is not None:
                before = self.run
                self.run, self.status = before.fallbacks.after(before, self.status)
                if self._report is not None and self.run is not before:
                    self._report.say(f"method '{self.run.method.name}' takes over from '{before.method.name}': "
                                     f"{self.run.describe()}")
            if self.status is Status.CONVERGED and not confirm(self.run):
                self.status = None
        self._is_inside, run = False, self.run
        if self.status is None:
            self._checkpointing.save(run)
        progress = self._progress()
        if self._report is not None:
            self._report(progress)
            if not self._hint and progress.n_passes >= self._due:
                self._hint, self._due = hint(run.search), VERY_LONG if self._due < VERY_LONG else float("inf")
                if self._hint:
                    self._report.say(self._hint)
        self._is_asking_user = True
        reason = first_reason(self._rules, progress)
        self._is_asking_user = False
        self._tell_waiting()
        self.status = reason if self.status is None else self.status

    def complete(self) -> Result:
        """Step until the run ends; return the certified result. Errors carry the result of the best point so far."""
        try:
            try:
                self._begin()
                while self.status is None:
                    self._advance()
                result = self._certified(self.run, self._checkpointing.finish(self.run, self.status), self._home)
            except (KeyboardInterrupt, OutOfTime) as end:
                result = self._ended_early(end)
                self.status = result.status
        except Exception as error:
            self._fail(error)
            raise
        self._tell_end(result)
        self.result = self._as_given(result, self.run)
        return self.result

    def _log_to(self, write):
        """Let a function take the lines that `verbose=1` prints."""
        if self._report is not None:
            self._report.write = write

    def _tell_end(self, result):
        """Print the last line; warn if the gap is above the tolerance, but within the rounding of intercepts."""
        if self._report is not None:
            self._report(self._progress(), final=True)
            self._report.say(result.message)
        search, shift = self.run.search, self.run.risk.shift
        is_near = result.success and shift is not None and result.fun > result.lower_bound
        if is_near and not search.rule.holds(*search.bracket.range):
            warn_user("pybundle: the gap is within the rounding of the intercept, where float64 numbers are "
                      f"{shift.spacing(search.w):.2g} apart; subtract a constant from y or from the columns of "
                      "X", UserWarning)

    # ------------------------------------------------------------------ runs that end early
    def _ended_early(self, end):
        """Return the result after Ctrl-C, or after the time limit while a worker was silent."""
        run = self.run
        if run.search.w is None:    # there is no result before the end of the first pass
            if isinstance(end, KeyboardInterrupt):
                raise end
            raise BundleError("no result: workers did not answer at the first point within the time limit; raise it, "
                              "or look at their logs") from end
        with suppress(KeyboardInterrupt):       # ignores a second Ctrl-C
            self._checkpointing.rescue(run, self.status)
        result = self._without_waiting(isinstance(end, OutOfTime))
        # evidence is made only if it takes no further pass
        return self._certified(run, result, self._home if run.settings.record is None else None)

    def _without_waiting(self, is_late):
        """Return the result of the run without waiting for silent workers."""
        run, status = self.run, Status.TIME_LIMIT if is_late else Status.INTERRUPTED
        if run.risk.remote is None:
            return finish(run, status)
        result = finish(run, status, ask_risk=False, risk=self._at_home)       # first without calls of the risk
        if not result.certified and not is_late:
            run.risk.remote.waiting.end = -np.inf
            with suppress(OutOfTime, BundleError):
                result = finish(run, status)
        if not result.certified and self._at_home is not None:
            with suppress(Exception):
                result = finish(run, status, risk=self._at_home)
        return result

    def _fail(self, error):
        """Remember the error that ends the run, and attach the best result so far to the error."""
        try:
            self._add_result(error)         # before the status becomes FAILED
        finally:
            self.status, self._error = Status.FAILED, str(error) or type(error).__name__

    def _add_result(self, error):
        """Attach the result to an error, or raise the error that explains it."""
        run = self.run
        explained = error if self._is_asking_user else self._checkpointing.explain(error)
        if explained is not error:
            raise explained from error
        if run.search.w is None:
            return
        if not self._is_asking_user:
            run.search.retract(error)
        if not run.search.is_refuted:
            with suppress(Exception):       # only the first error is reported
                self._checkpointing.rescue(run, self.status)
        result = self._failed(error)
        if result is None:
            return
        error.result = self._as_given(result, run)
        if not isinstance(error, BundleError):
            error.add_note(f"pybundle: stopped after {result.nit} iterations at fun {result.fun:.6g}, "
                           f"lower bound {result.lower_bound:.6g}")

    def _failed(self, error):
        """Return the result of a run that an error ended; None if computing the result raises an error, too."""
        if self._at_home is not None and isinstance(error, BundleError) and not isinstance(error, OracleError):
            with suppress(Exception):               # workers have failed, the risk has not
                return finish(self.run, Status.FAILED, risk=self._at_home)
        for ask_risk in dict.fromkeys((self._is_asking_user, False)):
            with suppress(Exception):
                return finish(self.run, Status.FAILED, ask_risk=ask_risk)
        return None

    # ------------------------------------------------------------------ what users get
    def _certified(self, run, result, home=None):
        """Give a result its certificate, with evidence if there is any, which may take passes over the data."""
        if not result.certified or not run.problem.penalty.is_provable:
            return result
        found = None
        if result.state is not None:
            result.state.record = run.settings.record
        if home is not None:
            passes = run.trace.n_passes
            try:
                found = run.evidence(home)
            except KeyboardInterrupt:               # the result is complete, the evidence is not
                result.status = Status.INTERRUPTED
            except Exception as error:              # evidence calls the user's risk again
                warn_user(f"pybundle: no evidence, since the risk failed: {type(error).__name__}: {error}",
                          RuntimeWarning)
            else:
                if found is None and run.settings.record is not None:
                    warn_user("pybundle: no evidence: labellings must be numbers or arrays of numbers, and the "
                              "method must keep some", RuntimeWarning)
            result.n_passes += run.trace.n_passes - passes
        search = run.search
        result.certificate = certificate_of(
            run.risk if home is None else home, run.problem, search.bracket, for_user(search, search.w),
            (found or Proof(None, search.bound))._replace(messages=search.messages), round(1.0 / self._factor))
        return result

    def _as_given(self, result, run):
        """Return the result in the caller's scale: w in user coordinates, objective and bounds times the factor."""
        result.x = for_user(run.search, result.x)
        for name in ("fun", "lower_bound", "error", "slope"):
            result[name] *= self._factor
        for name in ("primal", "best_primal", "lower_bound"):
            result.history[name] *= self._factor
        return result

    def _words(self):
        """Return what runs, and why, in words."""
        risk, choice = self.run.risk, self.run.search.choice
        words = f"{risk.n_examples} examples, dimension {risk.dim}: {self.run.describe()}"
        words += f"; {risk.memory}" if getattr(risk, "memory", "") else ""
        return f"{choice}; {words}" if choice else words

    def _progress(self):
        return self.run.search.progress(self.run.n_planes())

    def _tell_waiting(self):
        """Let the waiting for workers end at the time at which the rules end the run."""
        if self.run.risk.remote is not None:
            self.run.risk.remote.waiting.end = time_of_end(self._rules)
