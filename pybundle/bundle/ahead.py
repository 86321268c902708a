"""Planes of a round that come one after another: what can be done about them before the last is there."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

N_THREADS = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
LARGE = 1 << 20
"""Numbers from which threads pay."""


class Ahead:
    """Slopes of the planes that have come, and their inner products with each other and with those of a dense store.

    A bundle with the same planes as at the start, but for those that it dropped since (`keep`), stores all of them
    without another product. The bits are those of products all at once.

    Attributes
    ----------
    slopes : ndarray, shape (n, dim)
        Zero where none has come yet.
    products : ndarray, shape (n, n_planes + n)
    """

    def __init__(self, store, slopes):
        self.slopes, self._store, self._n_planes = slopes, store, len(store)
        self.products = np.empty((len(slopes), len(store) + len(slopes)))
        self._seen = np.empty(0, dtype=np.intp)

    def take(self, rows, planes):
        """Planes that become these rows of `slopes`, each of them once."""
        rows, n = np.asarray(rows, dtype=np.intp), self._n_planes
        planes.write_to(self.slopes, rows)
        self._seen = np.concatenate([self._seen, rows])
        found = self._inner(rows, n + len(self._seen))
        self.products[rows, :n] = found[:, :n]
        self.products[np.ix_(rows, n + self._seen)] = found[:, n:]
        self.products[np.ix_(self._seen, n + rows)] = found[:, n:].T

    def _inner(self, rows, n):
        # memory is what products with many planes wait for, and the other processors have nothing else to do when no
        # worker has
        if not self.is_complete() or N_THREADS == 1 or n * self.slopes.shape[1] < LARGE:
            return self._store.inner_with(self.slopes, rows, self._seen, 0, n)
        edges = np.linspace(0, n, N_THREADS + 1).astype(int)
        with ThreadPoolExecutor(N_THREADS) as pool:
            return np.concatenate(list(pool.map(
                lambda first, last: self._store.inner_with(self.slopes, rows, self._seen, first, last),
                edges[:-1], edges[1:])), axis=1)

    def is_complete(self):
        return len(self._seen) == len(self.slopes)

    def keep(self, order):
        """Plane k of the store is now the one that was `order[k]`."""
        self.products = np.concatenate([self.products[:, order], self.products[:, self._n_planes:]], axis=1)
        self._n_planes = len(order)
