"""Print the progress of a run (`verbose=1`), a few lines a second at most."""

import time
from functools import partial

HEADER = "   pass        objective      lower bound      gap  planes   oracle       qp     rest"
INTERVAL = 0.3      # seconds between two lines


class ProgressTable:
    """A table of progress, printed while a run goes on; to the run it is a stopping rule that never stops.

    Parameters
    ----------
    scale : float
        Factor on objective and bound (1/n for the mean scale).
    write : callable, optional
        Takes each line; default prints it.
    """

    def __init__(self, scale=1.0, write=None):
        self.scale, self._write = scale, write or partial(print, flush=True)
        self._last = -float("inf")
        self._has_header = False

    def say(self, line):
        """Print a line that is no row of the table."""
        self._write(line)

    def __call__(self, progress, *, final=False):
        now = time.perf_counter()
        if not final and now - self._last < INTERVAL:
            return None
        self._last = now
        if not self._has_header:
            self._write(HEADER)
            self._has_header = True
        seconds = progress.seconds
        self._write(f"{progress.n_passes:7.1f} {self.scale * progress.fun:16.8g} "
                    f"{self.scale * progress.lower_bound:16.8g} {progress.gap:8.2e} {progress.n_planes:7d} "
                    f"{seconds['oracle']:7.2f}s {seconds['qp']:7.2f}s {seconds['rest']:7.2f}s")
        return None
