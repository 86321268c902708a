"""`Accounts` records bytes, waiting times and work of every round of questions to workers."""

import time

import numpy as np

FIELDS = ("started", "bytes_out", "bytes_in", "waiting", "oracle", "longest", "driver")


class Accounts:
    """A table with one row for every round, that is for every w that was sent.

    Columns: `started` (seconds since the table was made), `bytes_out`, `bytes_in`, `waiting` (seconds in which the
    driver had nothing to do), `oracle` (seconds of all workers), `longest` (seconds of the slowest group), `driver`
    (seconds from the last answer to this round: master problem, bundle).
    """

    def __init__(self, n_workers):
        self.n_workers, self._rows = n_workers, []
        self._began, self._last = time.perf_counter(), None

    def open(self):
        """Start a new round; return its number."""
        now = time.perf_counter()
        self._rows.append([now - self._began, 0, 0, 0.0, 0.0, 0.0, 0.0 if self._last is None else now - self._last])
        return len(self._rows) - 1

    def sent(self, number, nbytes):
        self._rows[number][1] += nbytes

    def received(self, number, answer):
        row, self._last = self._rows[number], time.perf_counter()
        row[2] += answer.nbytes
        row[4] += answer.seconds
        row[5] = max(row[5], answer.seconds)

    def waited(self, seconds):
        self._rows[-1][3] += seconds

    def arrays(self):
        """Return the columns as arrays by name, and `idle`, the fraction of the workers' time without work.

        `idle` counts from the second round on, because the first one waits until workers have their data.
        """
        table = np.array(self._rows, dtype=float).reshape(len(self._rows), len(FIELDS))
        found = dict(zip(FIELDS, table.T.copy(), strict=True))
        if len(table) < 2 or self._last is None:
            return {**found, "idle": float("nan")}
        span = self._last - self._began - found["started"][1]
        return {**found, "idle": 1.0 - found["oracle"][1:].sum() / (self.n_workers * span) if span > 0.0 else 0.0}
