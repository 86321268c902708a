"""`Machine`, a solve that a host drives step by step through a solver of `pybundle.h`."""

import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from ..core.exceptions import NumericalError, OracleError, ParameterError, StateError
from ..core.validation import check_choice
from ..runtime.executors import single_threaded_blas
from ..runtime.progress_table import ProgressTable
from ..runtime.result import Status, sentence
from ..solvers.ending import atol_met, for_user, state_kept
from ..solvers.minimize import opened


class Busy(RuntimeError):
    """The machine is at work for another caller."""


class Machine:
    """Life cycle of iterative training: made, stepped until it stops, finished, resumed.

    Parameters
    ----------
    risk : Risk
    settings : dict
        Arguments of `minimize`, and `log`: a function that takes the lines of the progress table in place of stdout.
    w0 : array, shape (dim,), optional

    Notes
    -----
    Steps are those of `minimize`, to the last bit. The machine serves one caller at a time and refuses a second with
    `Busy`, also where that one is a function of the risk.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> machine = Machine(risk, {"lam": 1.0, "tol": 1e-6})
    >>> while not machine.step():
    ...     pass
    >>> machine.finish().success
    True
    >>> machine.close()
    """

    def __init__(self, risk, settings, w0=None):
        self._lock, self._stack = threading.Lock(), ExitStack()
        self._risk, self._solve = risk, None
        self._open(settings, {"w0": w0})

    def _open(self, settings, start):
        """Open a run with these settings in place of the present one."""
        arguments = {name: value for name, value in settings.items() if name != "log"}
        with ExitStack() as stack:
            solve = stack.enter_context(opened(self._risk, **arguments, **start))
            self._leave()
            self._stack = stack.pop_all()
        self._solve, self._settings, self._from = solve, settings, start
        self._is_started, self.status, self._error = False, None, None
        if arguments.get("verbose") and settings.get("log") is not None:
            solve._report = ProgressTable(self._search.settings.factor, settings["log"])

    @property
    def _search(self):
        return self._solve.run.search

    def start_from(self, other):
        """Begin at the best point of another machine of the same risk, with all planes that it knows."""
        with self._alone(), other._alone(), single_threaded_blas():
            if self._is_started:
                raise ParameterError("start_from must be called before the first step")
            other._met_something()
            self._open(self._settings, {"state": other._known()})
            with self._failing():
                self._begin()

    def step(self):
        """Do an iteration; return True if the run has ended, for the reason `status`."""
        with self._alone(), single_threaded_blas():
            if self.status not in (None, Status.FAILED):
                return True
            if self._error is not None:
                raise ParameterError(f"step must not be called after an error ({self._error}); call finish, or "
                                     "resume with settings")
            with self._failing():
                if not self._is_started:
                    self._begin()
                if self.status is None:
                    self.status = self._solve.step()
                if self.status is not None:
                    self._solve._checkpointing.rescue(self._solve.run, self.status)
                    if self._solve._report is not None:
                        self._solve._report(self._solve._progress(), final=True)
            return self.status is not None

    def _begin(self):
        self._solve.begin()
        self._is_started, self.status = True, self._solve.status

    @contextmanager
    def _failing(self):
        """Remember an error: the run cannot go on after it, but after Ctrl-C."""
        try:
            yield
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED
            raise
        except Exception as error:
            self.status, self._error = Status.FAILED, str(error) or type(error).__name__
            self._search.retract(error)
            raise

    def _known(self):
        """Return what another run can start from."""
        return state_kept(self._solve.run) or self._search.state()

    def progress(self):
        """Return where the run stands, see `Progress`."""
        with self._alone():
            self._met_something()
            found, factor = self._search.progress(self._solve.run.n_planes()), self._search.settings.factor
            return replace(found, w=for_user(self._search, found.w), fun=factor * found.fun,
                           lower_bound=factor * found.lower_bound, least=factor * found.least)

    def history(self, column):
        """Return a column of the history, see `Result`."""
        with self._alone():
            columns = self._search.trace.history.columns(self._search.rule.least)
            values = columns[check_choice("column", column, columns)]
            return values if column in ("time", "n_passes", "gap") else values * self._search.settings.factor

    def finish(self, has_certificate=False):
        """Return the certified result of the best point, see `Result`; the run can continue afterwards.

        Its certificate takes evidence from further passes, so it is made only if asked for.
        """
        with self._alone(), single_threaded_blas():
            self._met_something()
            status = Status.CALLBACK if self.status is None else self.status
            return self._solve.so_far(status, self._error is None, has_certificate)

    def resume(self, settings=None):
        """Let further steps continue; with settings, in a new run from the best point and all planes of this one."""
        with self._alone():
            if settings is not None:
                # before its first step a run starts from what it would have started from itself
                self._open(settings, self._from if self._search.w is None else {"state": self._known()})
            elif self._error is not None:
                raise ParameterError(f"settings must be given after an error ({self._error}), got none")
            self.status = None

    def message(self):
        """Return the sentence of the status."""
        if self.status is None:
            return "running"
        progress = self._search.progress()
        return sentence(self.status, progress.gap, progress.tol, self._search.choice,
                        atol=atol_met(self._search, progress.fun, progress.lower_bound))

    def close(self):
        """Write the checkpoint, and end the threads of the run."""
        with self._alone():
            self._leave()

    def _leave(self):
        if self._solve is not None:
            self._solve._checkpointing.rescue(self._solve.run)
        self._stack.close()

    def _met_something(self):
        if self._search.w is None and self._error is not None:
            raise ParameterError(f"there is nothing to tell: the first step failed ({self._error}); mend it and call "
                                 "resume with settings")
        if self._search.w is None:
            raise ParameterError("step must be called, and succeed once, before there is anything to tell")

    @contextmanager
    def _alone(self):
        """Hold the lock, or raise `Busy`: the caller that holds it may be this very thread."""
        if not self._lock.acquire(blocking=False):
            raise Busy("the solver is in use: one thread at a time, and no calls from its own functions")
        try:
            yield
        finally:
            self._lock.release()


def code_of(error):
    """Return the pb_code of an exception."""
    kinds = {"PB_FILE": StateError, "PB_ORACLE": OracleError, "PB_NUMERICAL": NumericalError,
             "PB_MEMORY": MemoryError, "PB_BUSY": Busy, "PB_KEYBOARD": KeyboardInterrupt,
             "PB_PARAMETER": (ValueError, TypeError)}
    return next((name for name, kind in kinds.items() if isinstance(error, kind)), "PB_INTERNAL")
