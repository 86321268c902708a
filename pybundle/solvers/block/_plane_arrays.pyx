"""The planes of all blocks as arrays, for proofs, for other runs, and for checkpoints."""

from libc.stdint cimport int32_t, int64_t

import numpy as np
from scipy.sparse import csr_array

from pybundle.solvers.block._block cimport (Block, extend_block, padded, pb_slope, pb_slope_value, store_plane)
from pybundle.solvers.block._plane_cache cimport PlaneCache

cdef int MOST_ROOM = 1024       # a block in a checkpoint may have room for so many planes, even if it holds fewer now


def arrays_of(PlaneCache cache):
    """Return what `Blocks.arrays` describes."""
    cdef Py_ssize_t i, j = 0, at = 0, k, entries = 0, n = 0
    cdef int q
    cdef pb_slope* a
    for i in range(cache.n_blocks):
        n += cache.blocks[i].n - 1
        for q in range(1, cache.blocks[i].n):
            entries += cache.blocks[i].planes[q].slope.n
    rows, start = np.empty(n, dtype=np.intp), np.zeros(n + 1, dtype=np.int64)
    offsets, alpha = np.empty(n), np.empty(n)
    indices, data = np.empty(entries, dtype=np.int32), np.empty(entries)
    cdef Py_ssize_t[::1] row = rows
    cdef int64_t[::1] starts = start
    cdef double[::1] offset = offsets, multiplier = alpha, value = data
    cdef int32_t[::1] index = indices
    for i in range(cache.n_blocks):
        for q in range(1, cache.blocks[i].n):
            a = &cache.blocks[i].planes[q].slope
            row[j], offset[j], multiplier[j] = i, cache.blocks[i].planes[q].offset, cache.blocks[i].alpha[q]
            for k in range(a.n):
                if pb_slope_value(a, k) != 0.0:
                    index[at] = a.index[k] if a.index != NULL else <int32_t>k
                    value[at] = pb_slope_value(a, k)
                    at += 1
            j += 1
            starts[j] = at
    slopes = csr_array((n, cache.dim))
    slopes.data, slopes.indices, slopes.indptr = data[:at], indices[:at], start
    return rows, offsets, alpha, slopes


def state_of(PlaneCache cache):
    """Return the whole state of the planes as arrays: block after block, truths first.

    `room` and `wasted` describe memory, which decides when a memory limit next drops planes.
    """
    cdef Py_ssize_t i, j = 0, at = 0
    cdef int q, r
    cdef Block* b
    _, offsets, _, slopes = arrays_of(cache)
    n = len(offsets) + cache.n_blocks
    sizes, last = cache.sizes(), np.empty(n, dtype=np.int32)
    used, gaps = np.empty(cache.n_blocks, dtype=np.int32), np.empty(cache.n_blocks)
    room, wasted = np.empty(cache.n_blocks, dtype=np.int32), np.empty(cache.n_blocks, dtype=np.int64)
    all_alpha, gram = np.empty(n), np.empty(int(np.sum(sizes * sizes)))
    cdef int32_t[::1] tick = last, n_used = used
    cdef double[::1] multiplier = all_alpha, product = gram, gap = gaps
    cdef int32_t[::1] rooms = room
    cdef int64_t[::1] waste = wasted
    for i in range(cache.n_blocks):
        b = &cache.blocks[i]
        n_used[i], gap[i] = b.n_used, b.gap
        rooms[i], waste[i] = b.room, b.wasted
        for q in range(b.n):
            tick[j], multiplier[j] = b.planes[q].last, b.alpha[q]
            j += 1
            for r in range(b.n):
                product[at] = b.gram[q * b.room + r]
                at += 1
    return {"sizes": sizes, "last": last, "alpha": all_alpha, "gram": gram, "used": used, "gaps": gaps,
            "offsets": offsets, "slopes": slopes, "tick": cache.tick, "work": cache.work,
            "n_merged": cache.n_merged, "merging_error": cache.merging_error, "room": room, "wasted": wasted}


def set_state(PlaneCache cache, state):
    """Give an empty cache the state that `state_of` described; raise ValueError if the arrays are no such state."""
    cdef const Py_ssize_t[::1] size = state["sizes"]
    cdef const int32_t[::1] tick = state["last"], n_used = state["used"]
    cdef const double[::1] multiplier = state["alpha"], product = state["gram"], gap = state["gaps"]
    cdef const double[::1] offset = state["offsets"], value = state["slopes"].data
    cdef const int32_t[::1] index = state["slopes"].indices
    cdef const int64_t[::1] start = state["slopes"].indptr.astype(np.int64)
    cdef const int32_t[::1] room = state["room"]
    cdef const int64_t[::1] wasted = state["wasted"]
    cdef Py_ssize_t i, j = 0, at = 0, plane = 0, k
    cdef int q, r, n, used
    cdef Block* b
    cdef const int32_t* indices
    cdef const double* values
    n_all = int(np.sum(state["sizes"]))
    if (size.shape[0] != cache.n_blocks or n_used.shape[0] != cache.n_blocks or gap.shape[0] != cache.n_blocks
            or (np.asarray(state["sizes"]) < 1).any() or (np.asarray(state["sizes"]) > n_all).any()
            or room.shape[0] != cache.n_blocks or wasted.shape[0] != cache.n_blocks or tick.shape[0] != n_all
            or multiplier.shape[0] != n_all or offset.shape[0] != n_all - cache.n_blocks
            or product.shape[0] != int(np.sum(np.asarray(state["sizes"]) ** 2))
            or state["slopes"].shape != (n_all - cache.n_blocks, cache.dim)):
        raise ValueError("the arrays of blocks do not agree")
    for name, low in (("alpha", 0.0), ("gaps", 0.0), ("gram", -np.inf), ("offsets", -np.inf)):
        if not (np.isfinite(state[name]).all() and (state[name] >= low).all()):
            raise ValueError(f"{name} of blocks must be finite, and multipliers and gaps at least 0")
    if not np.isfinite(state["slopes"].data).all():
        raise ValueError("slopes of blocks must be finite")
    for i in range(cache.n_blocks):
        b = &cache.blocks[i]
        n = <int>size[i]
        cache._reserve(b, n)
        for q in range(1, n):
            k = start[plane + 1] - start[plane]
            indices, values = &index[start[plane]] if k else NULL, &value[start[plane]] if k else NULL
            store_plane(b, &b.planes[q], offset[plane], k, indices, values, cache.dim, &cache.bytes)
            b.n = q + 1             # `store_plane` moves b.n slopes if memory grows
            plane += 1
        used = 0
        for q in range(n):
            b.planes[q].last, b.alpha[q] = tick[j], multiplier[j]
            used += multiplier[j] > 0.0
            j += 1
            for r in range(n):
                b.gram[q * b.room + r] = product[at]
                at += 1
            if b.gram[q * b.room + q] < 0.0:
                raise ValueError("squares of slopes must not be negative")
        b.n_used, b.gap = n_used[i], gap[i]
        if used != b.n_used:
            raise ValueError("the planes in use are those with a multiplier")
        if not (n <= room[i] <= max(2 * max(n, cache.cap), MOST_ROOM) and
                0 <= wasted[i] <= cache.cap * <int64_t>padded(12 * cache.dim)):
            raise ValueError("blocks must have room for their planes, and not much more")
        cache._resize(b, room[i])
        extend_block(b, wasted[i], &cache.bytes)
        b.wasted = wasted[i]
    cache.n_planes, cache.tick, cache.work = plane, state["tick"], state["work"]
    if not 0.0 <= state["merging_error"] < np.inf:
        raise ValueError("merging_error of blocks must be a number of at least 0")
    cache.n_merged, cache.merging_error = state["n_merged"], state["merging_error"]
