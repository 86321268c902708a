"""Seconds spent in named phases of a run."""

from __future__ import annotations

import time
from typing import Any

from ..core.kept import Kept


class Clock(Kept):
    """Stopwatch of a run; whatever is not in a named phase is "rest".

    >>> clock = Clock()
    >>> clock.add("qp", 0.5)
    >>> clock.seconds()["qp"], sorted(clock.seconds())
    (0.5, ['oracle', 'qp', 'rest', 'total'])
    """

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._spent = {"oracle": 0.0, "qp": 0.0}

    def add(self, phase: str, seconds: float) -> None:
        """Add seconds to a phase; phases do not nest."""
        self._spent[phase] += seconds

    def arrays(self) -> dict[str, Any]:
        """Return the elapsed seconds, so that another process can continue the clock."""
        return {"elapsed": self.elapsed(), "spent": dict(self._spent)}

    def restore(self, arrays: dict[str, Any]) -> None:
        self._start, self._spent = time.perf_counter() - arrays["elapsed"], {
            name: float(arrays["spent"][name]) for name in self._spent}

    def elapsed(self) -> float:
        """Return the seconds since the clock was made."""
        return time.perf_counter() - self._start

    def seconds(self) -> dict[str, float]:
        """Return a dictionary of seconds by phase."""
        total = self.elapsed()
        return {**self._spent, "rest": total - sum(self._spent.values()), "total": total}
