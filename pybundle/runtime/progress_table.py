"""Print the progress of a run (`verbose=1`), a few lines a second at most."""

import time

HEADER = "   pass        objective      lower bound      gap  planes   oracle       qp     rest"
INTERVAL = 0.3      # seconds between two lines


class ProgressTable:
    """A table of progress, printed while a run goes on; to the run it is a stopping rule that never stops.

    Parameters
    ----------
    scale : float
        Factor on objective and bound (1/n for the mean scale).
    """

    def __init__(self, scale=1.0):
        self.scale = scale
        self._last = -float("inf")
        self._has_header = False

    def say(self, line):
        """Print a line that is no row of the table."""
        print(line)

    def __call__(self, progress, *, final=False):
        now = time.perf_counter()
        if not final and now - self._last < INTERVAL:
            return None
        self._last = now
        if not self._has_header:
            print(HEADER)
            self._has_header = True
        seconds = progress.seconds
        print(f"{progress.n_passes:7.1f} {self.scale * progress.fun:16.8g} {self.scale * progress.lower_bound:16.8g} "
              f"{progress.gap:8.2e} {progress.n_planes:7d} {seconds['oracle']:7.2f}s {seconds['qp']:7.2f}s "
              f"{seconds['rest']:7.2f}s", flush=True)
        return None
