"""Report the progress of a run: on the screen with `verbose=1`, and to the logger `pybundle`, silent by default."""

import logging
import time
from functools import partial

HEADER = "   pass        objective      lower bound      gap  planes   oracle       qp     rest"
INTERVAL = 0.3      # seconds between two rows on the screen

LOGGER = logging.getLogger("pybundle")
LOGGER.addHandler(logging.NullHandler())


def open_log(scale, verbose):
    """Return the `RunLog` of a run; None if nobody reads it, so that its lines need not be made."""
    return RunLog(scale, bool(verbose)) if verbose or LOGGER.isEnabledFor(logging.INFO) else None


class RunLog:
    """Sentences and a table of progress, told while a run goes on; to the run it is a stopping rule that never stops.

    The logger gets sentences at INFO and a row for every iteration at DEBUG; the screen shows the same sentences, and a
    few rows a second at most.

    Parameters
    ----------
    scale : float
        Factor on objective and bound (1/n for the mean scale).
    is_printed : bool
        Whether the screen shows it, too.

    Attributes
    ----------
    write : callable
        Takes the lines for the screen.
    """

    def __init__(self, scale=1.0, is_printed=True):
        self.scale, self._is_printed, self.write = scale, is_printed, partial(print, flush=True)
        self._last = -float("inf")
        self._has_header = False

    def say(self, line):
        """Tell a line that is no row of the table."""
        LOGGER.info("%s", line)
        if self._is_printed:
            self.write(line)

    def __call__(self, progress, *, final=False):
        now = time.perf_counter()
        is_logged = not final and LOGGER.isEnabledFor(logging.DEBUG)
        is_printed = self._is_printed and (final or now - self._last >= INTERVAL)
        if not is_logged and not is_printed:
            return
        seconds = progress.seconds
        row = (f"{progress.n_passes:7.1f} {self.scale * progress.fun:16.8g} {self.scale * progress.lower_bound:16.8g} "
               f"{progress.gap:8.2e} {progress.n_planes:7d} {seconds['oracle']:7.2f}s {seconds['qp']:7.2f}s "
               f"{seconds['rest']:7.2f}s")
        rows = (row,) if self._has_header else (HEADER, row)
        self._has_header = True
        for line in rows:
            if is_logged:
                LOGGER.debug("%s", line)
            if is_printed:
                self.write(line)
        self._last = now if is_printed else self._last
