"""Planes of parts as sums over shards, in a fixed order: any executor gives the same bits."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import scipy.sparse as sp

from ..core.plane import Planes
from ..features._rows import aligned

WAVE = 16
"""Shards whose dense slopes are there at a time."""
SPARSE_DIM = 16384
"""Slopes of sparse features are gathered sparsely from this dimension on ..."""
SPARSE_DENSITY = 0.1
"""... and returned sparse below this share of non-zeros, where nobody asks for another one."""


def reduce_planes(work, shards, n_parts, dim, mapping, sparse=False, dense_from=SPARSE_DENSITY):
    """Planes from the sums over the shards of every part.

    Parameters
    ----------
    work : callable
        `work(rows, slope) -> (value, offset)`, adds to `slope` (dim,); may run in several threads.
    shards : list of (part, rows)
        Part by part.
    mapping : callable
        `mapping(function, items)`, results in order.
    sparse : bool
        Compress slopes at once, and return CSR where few entries are not zero.
    dense_from : float
        Share of non-zeros from which it is dense.
    """
    if sparse and dim >= SPARSE_DIM:
        return _reduce_sparse(work, shards, n_parts, dim, mapping, dense_from)
    values, offsets = np.zeros(n_parts), np.zeros(n_parts)
    slopes = aligned((n_parts, dim), np.float64)
    counts = np.bincount([p for p, _ in shards], minlength=n_parts)

    def shard(item):
        p, rows = item
        slope = slopes[p] if counts[p] == 1 else np.zeros(dim)   # a part of one shard needs no sum
        return work(rows, slope), slope

    for first in range(0, len(shards), WAVE):       # a mapping may keep what it has found
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
    spare = []                  # dense slopes, zero again: one for each thread, as fresh pages cost more than zeros

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
            elif len(rows[p][0]):         # a second shard: one dense sum at a time
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
