"""The trace of a run: one row per iteration."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.kept import Kept
from ..core.types import Floats
from .stopping import relative_gap

FIELDS = ("time", "n_passes", "primal", "best_primal", "lower_bound", "gap")


class History(Kept):
    """A table of numbers that grows by one row per `record`; `columns` returns them by name."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, ...]] = []

    def record(self, time: float, n_passes: float, primal: float, best_primal: float, lower_bound: float) -> None:
        """Add a row without the gap, which `columns` computes."""
        self._rows.append((time, n_passes, primal, best_primal, lower_bound))

    def arrays(self) -> dict[str, Any]:
        return {"rows": np.array(self._rows, dtype=float).reshape(len(self._rows), len(FIELDS) - 1)}

    def restore(self, arrays: dict[str, Any]) -> None:
        self._rows = list(map(tuple, arrays["rows"].reshape(-1, len(FIELDS) - 1).tolist()))

    def columns(self, least: float = 0.0) -> dict[str, Floats]:
        """Return the columns as float arrays by name; gaps are relative to at least `least`, see `relative_gap`."""
        rows = [(*row, relative_gap(row[3], row[4], least)) for row in self._rows]
        table = np.array(rows, dtype=float).reshape(len(rows), len(FIELDS))
        return dict(zip(FIELDS, table.T.copy(), strict=True))
