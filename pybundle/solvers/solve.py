"""`Solve`, a solve in steps: checks the arguments of `minimize` and builds the run, which it drives."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from copy import copy
from dataclasses import replace
from typing import Any, Never, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import Callbacks, PathLike
from ..core.validation import check_choice, check_flag, read_only
from ..core.warn import warn_user
from ..distributed.placing import placed, placing
from ..prox import Penalty
from ..runtime.executors import make_executor, single_threaded_blas
from ..runtime.log import open_log
from ..runtime.result import Result, Status, sentence
from ..runtime.stopping import Callback, Progress, as_seen
from .arguments import (
    as_callbacks,
    as_risk,
    is_intercept_bounded,
    make_problem,
    make_rules,
    make_settings,
    make_start,
    precision_of,
    regrouped,
    signs_of,
)
from .checkpointing import Checkpoint, Checkpointing, as_checkpoint, terms_of
from .driver import Driver, NoCheckpoint
from .ending import atol_met, finish, for_user
from .evidence.proof import check_provable
from .evidence.record import Record
from .method import Method
from .methods import make_run, method_of, refuse
from .search import Search
from .state import Known


class Solve(Driver):
    """A solve in steps, with the arguments of `minimize`: after `step` a host may look, save, stop or go on.

    `minimize` completes such a solve, so that the steps are the same, to the last bit. A `with` statement, or `close`,
    ends threads and gives back workers and the lock of a checkpoint. A solve belongs to one thread at a time; several
    solves may use the same risk.

    Parameters
    ----------
    risk, w0, ...
        As in `minimize`; `time_limit` counts from here, with pauses.

    Attributes
    ----------
    status : Status or None
        Why the run has ended; None if it goes on.
    result : Result or None
        What `complete` has returned.
    run : Run
        The run of the method; in "auto" that of the present one.

    Raises
    ------
    ParameterError, InputTypeError, StateError
        As in `minimize`, for wrong arguments.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> with pb.Solve(risk, lam=1.0, method=pb.methods.BMRM(theta=0.05), tol=1e-6) as solve:
    ...     while solve.step() is None:
    ...         assert solve.progress.lower_bound <= solve.progress.fun
    ...     result = solve.finish()
    >>> result.success
    True
    """

    def __init__(self, risk: Any, w0: ArrayLike | None = None, *, lam: float | ArrayLike | None = None,
                 penalty: Penalty | None = None, method: str | Method = "auto", tol: float = 0.01,
                 atol: float | None = None, warm_start: Result | Known | None = None, constraints: Any = None,
                 n_parts: int | None = None, max_iter: int | None = None, time_limit: float | None = None,
                 memory_limit: int | None = None, callback: Callbacks = None, verbose: int = 0,
                 n_jobs: int | None = None, executor: Any = None, checkpoint: PathLike | Checkpoint | None = None,
                 random_state: int | None = None, evidence: bool = False, scale: str = "sum",
                 **unknown: Never) -> None:
        refuse(unknown, tuple(Solve.__init__.__kwdefaults__ or ()))
        check_choice("scale", scale, ("sum", "mean"))
        if not isinstance(verbose, (int, np.integer)) or verbose < 0:
            raise ParameterError(f"verbose must be an integer >= 0, got {verbose!r}")
        method, checkpoint = method_of(method, penalty), as_checkpoint(checkpoint)
        callbacks = as_callbacks(callback)
        given = risk = as_risk(risk, w0)
        known = state_of(warm_start)
        # planes of changed data prove nothing: all data are read, to detect changes, only if planes of another run are
        # used
        risk = risk.renewed(whole=checkpoint is not None or known is not None)
        signs = signs_of(risk)
        if risk.linear_risk is not None and not is_intercept_bounded(risk, penalty, signs, constraints):
            risk = risk.linear_risk.centred()
        n = risk.n_examples if scale == "mean" else 1
        problem = make_problem(method, risk, signs, n, lam=lam, penalty=penalty, constraints=constraints)
        settings = make_settings(tol, atol, memory_limit, n, random_state)
        rules = make_rules(max_iter, time_limit, method)
        start = make_start(w0, risk.dim, risk.shift)
        check_flag("evidence", evidence)
        if evidence:
            if checkpoint is not None:
                raise ParameterError("evidence=True takes no checkpoint, which would not hold it; leave one of them "
                                     "out")
            check_provable(problem)
            settings = replace(settings, record=getattr(known, "record", None) or Record())
        with ExitStack() as stack:
            pool = stack.enter_context(closing(make_executor(n_jobs))) if executor is None else executor
            places = None if executor is None else placing(executor)
            if places is not None and problem.classes is not None:       # workers know means of their own rows only
                problem = replace(problem, anchors=None, means=None)
            takes_oca = problem.rows is not None or (problem.entries is None and problem.ball is None)
            risk = regrouped(risk, n_parts, method, pool, settings, places is not None, takes_oca)
            watching = [Callback(function, settings.factor, risk.shift) for function in callbacks]
            for rule in reversed(watching):
                stack.callback(_close, rule)
            stack.callback(lambda: self._checkpointing.close())
            self._checkpointing = NoCheckpoint()
            working = risk
            if places is not None or risk.remote is not None:
                working = stack.enter_context(placed(risk, places, precision_of(settings)))
            run, report = make_run(method, Search(working, problem, settings)), open_log(settings.factor, verbose)

            def written(checkpoint):
                """Return the `Checkpointing` of the run."""
                return Checkpointing(
                    checkpoint, working,
                    terms_of(risk, given, problem, method, known, start, lam=lam, penalty=penalty, nonneg=signs,
                             constraints=problem.rows, scale=scale, random_state=random_state), settings,
                    lambda name, limit: make_run(
                        method.stage(name), Search(working, problem, replace(settings, memory_limit=limit))), report)
            self._written = written
            # home: the data of this process, for evidence; at_home: the same if workers compute, in case they fail
            home = risk if risk.remote is None else None
            at_home = risk.remote.home if home is None else None if working is risk else risk
            super().__init__(run, start, known, rules + watching, report, settings.factor,
                             None if checkpoint is None else written(checkpoint), at_home, home)
            self._method, self._stack, self._is_closed = method, stack.pop_all(), False

    def step(self) -> Status | None:
        """Make one iteration; the first also computes the first planes, or resumes from the checkpoint.

        Returns
        -------
        Status or None
            Why the run has ended, None if it goes on: compare with None, as CONVERGED is 0. A run that has ended makes
            no further step.

        Raises
        ------
        OracleError and others
            As in `minimize`. `finish` then returns the best state so far, and no further step is possible. After
            KeyboardInterrupt the status is INTERRUPTED, and `resume` lets the run go on.
        ParameterError
            If an error has ended the run before.
        """
        self._check_open("step")
        if self.status is None:
            with self._watched():
                self._begin()
                if self.status is None:
                    self._advance()
            if self.status is not None and self._report is not None:
                self._report(self._progress(), final=True)
                self._report.say(self.message)
        return self.status

    def begin(self) -> None:
        """Compute the first planes, or resume from the checkpoint, unless that was done; `step` does it, too."""
        self._check_open("begin")
        with self._watched():
            self._begin()

    @contextmanager
    def _watched(self):
        """Work with one BLAS thread; note what ends the run, and attach the best result so far to errors."""
        with single_threaded_blas():
            try:
                yield
            except KeyboardInterrupt:
                self.status = Status.INTERRUPTED
                raise
            except Exception as error:
                self._fail(error)
                raise

    def resume(self) -> None:
        """Let a run that has ended go on with the next `step`; a rule that still holds ends it again.

        Raises
        ------
        ParameterError
            If an error has ended the run.
        """
        self._check_open("resume")
        if self._is_inside:         # Ctrl-C ended an iteration half way
            with self._watched():
                self._renew()
        self.status = None
        self.result: Result | None = None

    def _renew(self):
        """Replace the run by a new run of the same method that starts from the state of the old run."""
        old, known = self.run, self.run.state() or self.run.search.state()
        run = make_run(self._method.stage(old.method.name), old.search.successor())
        run.fallbacks = old.fallbacks
        run.start(known.w, replace(known, scores=None))
        self.run: Any = run
        self._is_inside = False

    @property
    def message(self) -> str:
        """Why the run has ended, in a sentence; "running" if it goes on."""
        if self.status is None or self.run.search.w is None:
            return f"the first step failed: {self._error}" if self._error else "running"
        progress = self._progress()
        return sentence(self.status, progress.gap, progress.tol, self.run.search.choice,
                        atol=atol_met(self.run, progress.fun, progress.lower_bound))

    @property
    def progress(self) -> Progress:
        """Where the run stands: best point, best value and bound, counts. The numbers are not certified yet.

        The point is read-only. Raises ParameterError before the first step, when there is no point.
        """
        self._check_something()
        found = self._progress()
        return as_seen(replace(found, x=read_only(for_user(self.run.search, found.x))), self._factor, None)

    def finish(self, certificate: bool = True) -> Result:
        """Certify the best point so far, which takes a pass; a run that has not ended can go on afterwards.

        Parameters
        ----------
        certificate : bool
            False leaves `result.certificate` None, and saves the passes that its evidence may take.

        Returns
        -------
        Result
            As of `minimize`, without a ConvergenceWarning. The status of a run that goes on is that of a callback.

        Raises
        ------
        ParameterError
            If there is no point yet.
        """
        self._check_something()
        run = copy(self.run)        # `finish` may change the search of a run or count a pass
        run.search = copy(run.search)
        run.search.trace = copy(run.search.trace)
        with single_threaded_blas():
            if self._error:
                result = finish(run, Status.FAILED, ask_risk=False)
            elif self.status in (None, Status.INTERRUPTED):
                result = finish(run, Status.CALLBACK if self.status is None else self.status)
            else:
                result = self._checkpointing.finish(run, self.status)
            if certificate:
                result = self._certified(run, result, None if self._error else self._home)
            return self._as_given(result, run)

    def complete(self) -> Result:
        """Step until the run ends, and finish; an error has the best result so far as `error.result`.

        Ctrl-C returns the best state so far.
        """
        self._check_open("complete")
        if self.result is not None:
            return self.result
        with single_threaded_blas():
            return super().complete()

    def save(self, path: PathLike) -> None:
        """Write the run into a file, from which `checkpoint=path` with the same other arguments resumes.

        Parameters
        ----------
        path : str or path
            An old file is replaced.

        Raises
        ------
        ParameterError
            If there is no point yet, the run keeps evidence, or Ctrl-C ended its last iteration half way.
        StateError
            If another run uses the file, or it cannot be written.
        """
        self._check_something()
        if self.run.settings.record is not None:
            raise ParameterError("save holds no evidence; leave out evidence=True")
        if self._is_inside:
            raise ParameterError("save must not be called where Ctrl-C ended an iteration half way; call resume first")
        file = self._written(as_checkpoint(path))
        if file.path == self._checkpointing.path:
            self._checkpointing.write(self.run, self.status)
            return
        with closing(file):
            file.lock()
            file.write(self.run, self.status)

    def describe(self) -> str:
        """Return in words what runs, and the memory that it expects to need; before the first step, too."""
        return self._words()

    def close(self) -> None:
        """Write the checkpoint, if there is one; end threads; give back workers, callbacks and the lock of the file."""
        is_written = self.result is not None or self._is_closed         # `complete` has written the file
        if self._has_begun and not is_written and not self.run.search.is_refuted:
            self._checkpointing.rescue(self.run, self.status)
        self._is_closed = True
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> Never:
        raise InputTypeError("a Solve cannot be pickled or copied, as it may hold files and threads; pickle result, "
                             "or resume from checkpoint=")

    def _check_open(self, name):
        if self._is_closed:
            raise ParameterError(f"{name} must not be called after close; begin another solve")
        if self._error:
            raise ParameterError(f"{name} must not be called after an error ({self._error}); call finish, or begin "
                                 "another solve with warm_start=")

    def _check_something(self):
        if self.run.search.w is None:
            why = f"the first step failed ({self._error})" if self._error else "step was not called yet"
            raise ParameterError(f"there is no point: {why}")


def state_of(warm):
    """Return the state of the argument `warm_start`: that of a Result, or the argument itself."""
    state = getattr(warm, "state", warm)
    if warm is not None and not isinstance(state, Known):
        raise InputTypeError("warm_start must be a Result that has a state, or that state, got "
                             + (f"{type(warm).__name__}" if not hasattr(warm, "x") else "a Result without one, as "
                                "not the last of a path; pass w0=result.x to start from its point"))
    return state


def _close(rule):
    """Close a callback after the run; if that fails, the result or the error of the run still counts."""
    try:
        rule.close()
    except Exception as error:
        name = getattr(rule.function, "__name__", type(rule.function).__name__)
        warn_user(f"pybundle: the callback {name} failed at its close: {type(error).__name__}: {error}",
                  RuntimeWarning)
