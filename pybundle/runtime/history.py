"""The trace of a run: one row per iteration."""

from __future__ import annotations

import numpy as np

from ..core.kept import Kept
from .stopping import relative_gap

FIELDS = ("time", "n_passes", "primal", "best_primal", "lower_bound", "gap")


class History(Kept):
    """A table of numbers that grows by one row per `record`; `columns` returns them by name."""

    def __init__(self):
        self._rows = []

    def record(self, time, n_passes, primal, best_primal, lower_bound):
        """Add a row without the gap, which `columns` computes."""
        self._rows.append((time, n_passes, primal, best_primal, lower_bound))

    def arrays(self):
        return {"rows": np.array(self._rows, dtype=float).reshape(len(self._rows), len(FIELDS) - 1)}

    def restore(self, arrays):
        self._rows = list(map(tuple, arrays["rows"].reshape(-1, len(FIELDS) - 1).tolist()))

    def columns(self, least=0.0):
        """Return the columns as float arrays by name; gaps are relative to at least `least`, see `relative_gap`."""
        rows = [(*row, relative_gap(row[3], row[4], least)) for row in self._rows]
        table = np.array(rows, dtype=float).reshape(len(rows), len(FIELDS))
        return dict(zip(FIELDS, table.T.copy(), strict=True))
