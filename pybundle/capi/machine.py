"""`Machine`, a solve that a host drives step by step through a solver of `pybundle.h`."""

import threading
from contextlib import contextmanager

from ..core.exceptions import NumericalError, OracleError, ParameterError, StateError
from ..core.validation import check_choice
from ..solvers.ending import state_kept
from ..solvers.solve import Solve


class Busy(RuntimeError):
    """The machine is at work for another caller."""


class Machine:
    """A `Solve` behind a lock, which can begin again with other settings.

    Parameters
    ----------
    risk : Risk
    settings : dict
        Arguments of `minimize`, and `log`: a function that takes the lines which `verbose` prints.
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
        self._lock, self._risk, self._solve = threading.Lock(), risk, None
        self._open(settings, {"w0": w0})

    def _open(self, settings, start):
        """Begin a solve with these settings in place of the present one."""
        solve = Solve(self._risk, **{name: value for name, value in settings.items() if name != "log"}, **start)
        if settings.get("log") is not None:
            solve._log_to(settings["log"])
        if self._solve is not None:
            self._solve.close()
        self._solve, self._settings, self._from = solve, settings, start

    @property
    def status(self):
        return self._solve.status

    def start_from(self, other):
        """Begin at the best point of another machine of the same risk, with all planes that it knows."""
        with self._alone(), other._alone():
            if self._has_begun():
                raise ParameterError("start_from must be called before the first step")
            if not other._has_begun():
                raise ParameterError("step must be called, and succeed once, with the other solver before")
            self._open(self._settings, {"warm_start": other._known()})
            self._solve.begin()

    def step(self):
        """Do an iteration; return True if the run has ended, for the reason `status`."""
        with self._alone():
            return self._solve.step() is not None

    def progress(self):
        """Return where the run stands, see `Progress`."""
        with self._alone():
            return self._solve.progress

    def history(self, column):
        """Return a column of the history, see `Result`."""
        with self._alone():
            search = self._solve.run.search
            columns = search.trace.history.columns(search.rule.least)
            values = columns[check_choice("column", column, columns)]
            return values if column in ("time", "n_passes", "gap") else values * search.settings.factor

    def finish(self, certificate=False):
        """Return the certified result of the best point, see `Result`; the run can continue afterwards."""
        with self._alone():
            return self._solve.finish(certificate)

    def resume(self, settings=None):
        """Let further steps continue; with settings, in a new run from the best point and all planes of this one."""
        with self._alone():
            if settings is None:
                self._solve.resume()
                return
            # before the first step and with a checkpoint keep the start, as a checkpoint is resumed only from its start
            has_own = not self._has_begun() or settings.get("checkpoint") is not None
            self._open(settings, self._from if has_own else {"warm_start": self._known()})

    def message(self):
        """Return the sentence of the status."""
        return self._solve.message

    def close(self):
        """Write the checkpoint, and end the threads of the run."""
        with self._alone():
            self._solve.close()

    def _has_begun(self):
        return self._solve.run.search.w is not None

    def _known(self):
        """Return the state from which another run can start."""
        return state_kept(self._solve.run) or self._solve.run.search.state()

    @contextmanager
    def _alone(self):
        """Hold the lock, or raise `Busy` if another call holds it, perhaps a call of this very thread."""
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
