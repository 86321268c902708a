"""`Machine`, a solve that a host drives step by step through a solver of `pybundle.h`."""

import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from ..core.exceptions import NumericalError, OracleError, ParameterError
from ..runtime.executors import single_threaded_blas
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
        Arguments of `minimize`.
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
        self._risk = risk
        self._begin(settings, {"w0": w0})

    def _begin(self, settings, start):
        with ExitStack() as stack:
            self._solve = stack.enter_context(opened(self._risk, **settings, **start))
            self._stack.close()
            self._stack, self._from = stack.pop_all(), start
        self._is_started, self.status, self._error = False, None, None

    @property
    def _search(self):
        return self._solve.run.search

    def step(self):
        """Do an iteration; return True if the run has ended, for the reason `status`."""
        with self._alone(), single_threaded_blas():
            if self.status not in (None, Status.FAILED):
                return True
            if self._error is not None:
                raise ParameterError(f"step must not be called after an error ({self._error}); call finish, or "
                                     "resume with settings")
            try:
                if not self._is_started:
                    self._solve.begin()
                    self._is_started = True
                self.status = self._solve.step()
            except KeyboardInterrupt:
                self.status = Status.INTERRUPTED
                raise
            except Exception as error:
                self.status, self._error = Status.FAILED, str(error) or type(error).__name__
                self._search.retract(error)
                raise
            return self.status is not None

    def progress(self):
        """Return where the run stands, see `Progress`."""
        with self._alone():
            self._met_something()
            found = self._search.progress(self._solve.run.n_planes())
            return replace(found, w=for_user(self._search, found.w))

    def finish(self):
        """Return the certified result of the best point, see `Result`; the run can continue afterwards."""
        with self._alone(), single_threaded_blas():
            self._met_something()
            status = Status.CALLBACK if self.status is None else self.status
            return self._solve.so_far(status, ask_risk=self._error is None)

    def resume(self, settings=None):
        """Let further steps continue; with settings, in a new run from the best point and all planes of this one."""
        with self._alone():
            if settings is not None:
                # before its first step a run starts from what it would have started from itself
                self._begin(settings, self._from if self._search.w is None else {"state": state_kept(self._solve.run)})
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
        """End the threads of the run."""
        with self._alone():
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
    kinds = {"PB_ORACLE": OracleError, "PB_NUMERICAL": NumericalError, "PB_MEMORY": MemoryError, "PB_BUSY": Busy,
             "PB_KEYBOARD": KeyboardInterrupt, "PB_PARAMETER": (ValueError, TypeError)}
    return next((name for name, kind in kinds.items() if isinstance(error, kind)), "PB_INTERNAL")
