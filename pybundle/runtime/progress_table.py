"""`verbose=1`: a line a few times a second at most."""

from __future__ import annotations

import sys
import time

HEADER = "   pass        objective      lower bound      gap  planes   oracle       qp     rest"


class ProgressTable:
    """Prints progress; a stopping rule that never stops.

    Parameters
    ----------
    interval : float
        Seconds between two lines.
    scale : float
        Factor on objective and bound (1/n for the mean scale).
    """

    def __init__(self, scale=1.0, interval=0.3, file=None):
        self.scale, self.interval = scale, interval
        self.file = file
        self._last = -float("inf")
        self._has_header = False

    def say(self, line):
        """Prints a line of its own."""
        print(line, file=self.file or sys.stdout)

    def __call__(self, progress, *, final=False):
        now = time.perf_counter()
        if not final and now - self._last < self.interval:
            return None
        self._last = now
        file = self.file or sys.stdout
        if not self._has_header:
            print(HEADER, file=file)
            self._has_header = True
        seconds = progress.seconds
        print(f"{progress.n_passes:7.1f} {self.scale * progress.fun:16.8g} {self.scale * progress.lower_bound:16.8g} "
              f"{progress.gap:8.2e} {progress.n_planes:7d} {seconds['oracle']:7.2f}s {seconds['qp']:7.2f}s "
              f"{seconds['rest']:7.2f}s", file=file, flush=True)
        return None
