"""Sum the planes of shards to planes of parts, in a fixed order, so that results are the same for any executor."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import scipy.sparse as sp

from ..core.plane import Planes
from ..features._rows import aligned
from ..models.batch_oracle import SPARSE_DIM

WAVE = 16
"""Largest number of shards whose dense slopes are in memory at a time."""
SPARSE_DENSITY = 0.1
"""Default fraction of non-zeros from which sparse sums are returned as dense slopes."""


def reduce_planes(work, shards, n_parts, dim, mapping, sparse=False, dense_from=SPARSE_DENSITY):
    """Return one plane for each part, the sum over its shards.

    Parameters
    ----------
    work : callable
        `work(rows, slope) -> (value, offset)`, adds to `slope` (dim,); may run in several threads.
    shards : list of (part, rows)
        Sorted by part.
    mapping : callable
        `mapping(function, items)`, returns results in order.
    sparse : bool
        Whether to compress the slope of each shard, and to return CSR if few entries are not zero.
    dense_from : float
        Fraction of non-zeros from which slopes are returned dense.
    """
    if sparse and dim >= SPARSE_DIM:
        return _reduce_sparse(work, shards, n_parts, dim, mapping, dense_from)
    values, offsets = np.zeros(n_parts), np.zeros(n_parts)
    slopes = aligned((n_parts, dim), np.float64)
    counts = np.bincount([p for p, _ in shards], minlength=n_parts)

    def shard(item):
        p, rows = item
        slope = slopes[p] if counts[p] == 1 else np.zeros(dim)
        return work(rows, slope), slope

    for first in range(0, len(shards), WAVE):       # in waves, as a mapping may keep all its results in memory
        wave = shards[first:first + WAVE]
        for (p, _), (sums, slope) in zip(wave, mapping(shard, wave), strict=True):
            values[p] += sums[0]
            offsets[p] += sums[1]
            if counts[p] > 1:
                slopes[p] += slope
    return Planes(values, offsets, slopes)


def _reduce_sparse(work, shards, n_parts, dim, mapping, dense_from):
    values, offsets = np.zeros(n_parts), np.zeros(n_parts)
    narrow = np.int32 if dim <= np.iinfo(np.int32).max else np.intp
    rows = [(np.empty(0, dtype=narrow), np.empty(0))] * n_parts
    spare = []                  # zeroed dense slopes for reuse: fresh memory pages cost more than zeroing

    def shard(item):
        try:
            slope = spare.pop()
        except IndexError:
            slope = np.zeros(dim)
        sums = work(item[1], slope)
        index = np.flatnonzero(slope)
        data = slope[index]
        slope[:] = 0.0
        spare.append(slope)
        return item[0], sums, index.astype(narrow), data

    for p, results in groupby(mapping(shard, shards), key=lambda result: result[0]):
        total = None
        for _, sums, index, data in results:
            values[p] += sums[0]
            offsets[p] += sums[1]
            if total is not None:
                total[index] += data
            elif len(rows[p][0]):         # the second shard of the part: sum densely from here on
                total = np.zeros(dim)
                total[rows[p][0]] = rows[p][1]
                total[index] += data
            else:
                rows[p] = index, data
        if total is not None:
            kept = np.flatnonzero(total)
            rows[p] = kept.astype(narrow), total[kept]
    indptr = np.concatenate([[0], np.cumsum([len(index) for index, _ in rows])])
    indices = np.concatenate([index for index, _ in rows])
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(narrow)
    slopes = sp.csr_array((np.concatenate([data for _, data in rows]), indices, indptr), shape=(n_parts, dim))
    if slopes.nnz >= dense_from * n_parts * dim:
        slopes = np.ascontiguousarray(slopes.toarray())
    return Planes(values, offsets, slopes)
