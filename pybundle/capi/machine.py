"""`Machine`, a solve that a host drives step by step through a solver of `pybundle.h`."""

import threading
from contextlib import contextmanager
from copy import copy

from ..core.exceptions import NumericalError, OracleError, ParameterError
from ..core.protocols import completed
from ..core.validation import check_choice, check_integer
from ..runtime.executors import make_executor, single_threaded_blas
from ..runtime.result import Status, sentence
from ..runtime.stopping import first_reason
from ..solvers.arguments import make_objective, make_rules, make_settings, make_start, regrouped
from ..solvers.method import Problem
from ..solvers.methods import METHODS, make_run


class Busy(RuntimeError):
    """The machine is at work for another caller."""


class Machine:
    """Life cycle of iterative training: made, stepped until it stops, finished, resumed.

    Parameters
    ----------
    risk : Risk
    settings : dict
        Arguments of `minimize`: lam, radius, method, tol, atol, max_iter, time_limit, memory_limit, n_parts, n_jobs,
        random_state.
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
        self._lock = threading.Lock()
        self._risk, self._w0 = completed(risk), make_start(w0, risk.dim)
        self._pool = self._run = None
        self._begin(settings, None)

    def _begin(self, settings, state):
        lam, radius, method = settings.get("lam"), settings.get("radius"), settings.get("method", "auto")
        check_choice("method", method, tuple(METHODS))
        objective = make_objective(method, self._risk, self._risk.nonneg, lam=lam, radius=radius)
        wanted = make_settings(settings.get("tol", 1e-2), settings.get("atol"), settings.get("memory_limit"), {},
                               1)
        rules = make_rules(settings.get("max_iter"), settings.get("time_limit"), method)
        pool = make_executor(settings.get("n_jobs"))
        try:
            risk = regrouped(self._risk, settings.get("n_parts"), method, pool, wanted)
            seed = check_integer("random_state", settings.get("random_state", 0), low=0)
            run = make_run(method, Problem(risk, objective, wanted, {}, seed, True))
        except BaseException:
            pool.close()
            raise
        if self._pool is not None:
            self._pool.close()
        self._pool, self._run, self._rules, self._state = pool, run, rules, state
        self._is_started, self.status, self._error = False, None, None

    def step(self):
        """Do an iteration; return True if the run has ended, for the reason `status`."""
        with self._alone(), single_threaded_blas():
            run = self._run
            if self.status not in (None, Status.FAILED):
                return True
            if self._error is not None:
                raise ParameterError(f"step must not be called after an error ({self._error}); call finish, or "
                                     "resume with settings")
            try:
                if not self._is_started:
                    run.start(self._w0, self._state)
                    self._is_started = True
                status = run.step()
                if status is Status.CONVERGED and not run.confirm():
                    status = None
            except KeyboardInterrupt:
                self.status = Status.INTERRUPTED
                raise
            except Exception as error:
                self.status, self._error = Status.FAILED, str(error) or type(error).__name__
                run.blame(error)
                raise
            reason = first_reason(self._rules, run.progress())
            self.status = reason if status is None else status
            return self.status is not None

    def progress(self):
        """Return where the run stands, see `Progress`."""
        with self._alone():
            self._met_something()
            return self._run.progress()

    def finish(self):
        """Return the certified result of the best point, see `Result`; the run can continue afterwards."""
        with self._alone(), single_threaded_blas():
            self._met_something()
            status = Status.CALLBACK if self.status is None else self.status
            run = copy(self._run.at_work)    # to finish may settle on a point, or count a pass
            run.trace = copy(run.trace)
            return run.finish(status, ask_risk=self._error is None)

    def resume(self, settings=None):
        """Let further steps continue; with settings, in a new run from the best point and all planes of this one."""
        with self._alone():
            if settings is not None:
                # a run that has not started would have started from the same state
                self._begin(settings, self._state if self._run.w is None else self._run.kept_state())
            elif self._error is not None:
                raise ParameterError(f"settings must be given after an error ({self._error}), got none")
            self.status = None

    def message(self):
        """Return the sentence of the status."""
        if self.status is None:
            return "running"
        progress = self._run.progress()
        return sentence(self.status, progress.gap, progress.tol, self._run.choice,
                        atol=self._run.atol_met(progress.fun, progress.lower_bound))

    def close(self):
        """End the threads of the run."""
        with self._alone():
            self._pool.close()

    def _met_something(self):
        if self._run.w is None and self._error is not None:
            raise ParameterError(f"there is nothing to tell: the first step failed ({self._error}); mend it and call "
                                 "resume with settings")
        if self._run.w is None:
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
