"""`Machine`, a solve that a host drives step by step through a solver of `pybundle.h`."""

import threading
from contextlib import contextmanager

from ..core.exceptions import NumericalError, OracleError, StateError
from ..solvers.ending import state_kept
from ..solvers.solve import Solve


class Busy(RuntimeError):
    """The machine is at work for another caller."""


class Machine:
    """Life cycle of iterative training: made, stepped until it stops, finished, resumed.

    Parameters
    ----------
    risk : Risk
    settings : dict
        Arguments of `minimize`: lam, penalty, method, tol, atol, max_iter, time_limit, memory_limit, n_parts, n_jobs,
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
        self._lock, self._risk, self._start = threading.Lock(), risk, {"w0": w0}
        self._solve = Solve(risk, **self._start, **settings)

    @property
    def status(self):
        return self._solve.status

    def step(self):
        """Do an iteration; return True if the run has ended, for the reason `status`."""
        with self._alone():
            return self._solve.step() is not None

    def progress(self):
        """Return where the run stands, see `Progress`."""
        with self._alone():
            return self._solve.progress

    def finish(self):
        """Return the certified result of the best point, see `Result`; the run can continue afterwards."""
        with self._alone():
            return self._solve.finish()

    def resume(self, settings=None):
        """Let further steps continue; with settings, in a new run from the best point and all planes of this one."""
        with self._alone():
            if settings is None:
                self._solve.resume()
                return
            run = self._solve.run
            # before its first step a run starts from what it would have started from itself
            start = self._start if run.search.w is None else {"warm_start": state_kept(run)}
            solve = Solve(self._risk, **start, **settings)
            self._solve.close()
            self._solve, self._start = solve, start

    def message(self):
        """Return the sentence of the status."""
        return self._solve.message

    def close(self):
        """End the threads of the run."""
        with self._alone():
            self._solve.close()

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
             "PB_KEYBOARD": KeyboardInterrupt, "PB_PARAMETER": (ValueError, TypeError, StateError)}
    return next((name for name, kind in kinds.items() if isinstance(error, kind)), "PB_INTERNAL")
