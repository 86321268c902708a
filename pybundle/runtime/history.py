"""The trace of a run: one row per iteration."""

from __future__ import annotations

import numpy as np

from .stopping import relative_gap

FIELDS = ("time", "n_passes", "primal", "best_primal", "lower_bound", "gap")


class History:
    """Grows by one row per `record`; `arrays` gives equal-length float arrays."""

    def __init__(self):
        self._rows = []

    def record(self, time, n_passes, primal, best_primal, lower_bound):
        """Adds a row; the gap is that of best value and best bound."""
        gap = relative_gap(best_primal, lower_bound)
        self._rows.append((time, n_passes, primal, best_primal, lower_bound, gap))

    def arrays(self, scale=1.0):
        """Dictionary of arrays; objective values and bounds are multiplied by `scale`."""
        table = np.array(self._rows, dtype=float).reshape(len(self._rows), len(FIELDS))
        table[:, 2:5] *= scale
        return dict(zip(FIELDS, table.T.copy(), strict=True))
