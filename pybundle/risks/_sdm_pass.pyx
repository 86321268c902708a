"""A pass of exact block steps, row after row.

    u_i = L(y_i, .) + W x_i,   beta_i <- Proj(beta_i + s u_i / |x_i|^2),   W -= (beta_new - beta) x_i' / s

Dense rows are scored four at a time, a group, which the tile of the score kernels wants, and their moves reach W
together. Where a row moves, the scores of the rows behind it in the group are corrected by `<x_i, x_j>`, so that the
steps are those of one row after the other.
"""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.string cimport memset

from ..features._rows cimport BLOCK, STEP, pb_dots_fn, pb_score_fn, pb_update_fn, real
from ._block_step cimport Example, Point, highest, move, move_binary
from ._engine cimport MULTICLASS, Engine
from ._sdm cimport Blocks, prefetch

from ..features._rows import aligned


def visit(Blocks blocks, const Py_ssize_t[::1] order):
    """Exact block steps at the rows of `order`, one after the other; a row may come twice.

    O(nnz(X) K) for the scores, and a row of W for every multiplier that changes.

    Returns
    -------
    total : float
        The sum of the block gaps met.

    Raises
    ------
    ValueError
        For rows outside 0..n-1, before any step.
    KeyboardInterrupt
        Between two groups: W and multipliers are in accord then.
    """
    cdef Py_ssize_t j, n = order.shape[0], lowest = order[0] if n else 0, highest_row = lowest
    for j in range(n):
        lowest, highest_row = min(lowest, order[j]), max(highest_row, order[j])
    if lowest < 0 or highest_row >= blocks.e.n_examples:
        raise ValueError(f"order must hold rows 0..{blocks.e.n_examples - 1}, got {lowest}..{highest_row}")
    if n == 0:
        return 0.0
    scores = aligned((blocks.e.n_scores, BLOCK), blocks.packed.dtype)
    coefs = aligned((STEP, blocks.ldc), blocks.packed.dtype)
    scratch = np.empty(2 * blocks.e.n_scores)
    if blocks.is_single:
        return _visit[float](blocks, blocks.e, order, blocks.beta32, blocks.packed, scores, coefs, scratch)
    return _visit[double](blocks, blocks.e, order, blocks.beta64, blocks.packed, scores, coefs, scratch)


cdef double _visit(Blocks b, Engine e, const Py_ssize_t[::1] order, real[:, ::1] betas, real[:, ::1] packed,
                   real[:, ::1] scores, real[:, ::1] coefs, double[::1] scratch) except? -1.0:
    cdef const Py_ssize_t* rows
    cdef Py_ssize_t left = order.shape[0], next_look = left - b.patience
    cdef int K = e.n_scores, size = STEP if b.dense else 1, count, ahead, q
    cdef pb_score_fn score = e.kernels.step32[e.kind] if real is float else e.kernels.step64[e.kind]
    cdef pb_update_fn update = e.kernels.update32[e.kind] if real is float else e.kernels.update64[e.kind]
    cdef real* beta = &betas[0, 0]
    cdef real* W = &packed[0, 0]
    cdef real* S = &scores[0, 0]
    cdef real* coef = &coefs[0, 0]
    cdef double total = 0.0
    with nogil:
        rows = &order[0]
        while left > 0:
            count = <int>min(<Py_ssize_t>size, left)
            ahead = <int>min(<Py_ssize_t>max(size, 2), left - count)
            for q in range(count, count + ahead):
                prefetch(&b.rows[rows[q]])
                prefetch(beta + rows[q] * K)
                prefetch(beta + rows[q] * K + K - 1)
            score(&e.X, rows, count, ahead, W, b.ldw, K, S)
            if _step(b, e, rows, count, beta, S, coef, &scratch[0], &total):
                update(&e.X, rows, count, coef, b.ldc, K, W, b.ldw)
            b.visits += count
            rows += count
            left -= count
            if left <= next_look:
                next_look = left - b.patience
                with gil:
                    PyErr_CheckSignals()
    return total


cdef bint _step(Blocks b, Engine e, const Py_ssize_t* rows, int count, real* beta, real* S, real* coef,
                double* scratch, double* total) noexcept nogil:
    """Steps at the rows of a group, from S (K, BLOCK), `W x` of these rows; whether any of them moved.

    If one moved, coef (STEP, ldc) becomes the changes of W that the rows bring. Block gaps met are added to `total`.
    """
    cdef int K = e.n_scores, ldc = b.ldc, r, q, k
    cdef pb_dots_fn dots = e.kernels.dots32[e.kind] if real is float else e.kernels.dots64[e.kind]
    cdef real products[STEP]
    cdef real top[STEP]
    cdef bint has_moved, any_moved = False, many = e.loss == MULTICLASS
    cdef Example* x
    cdef Point point = Point(K, b.s, e.scale, e.bias, &b.base[0])
    if e.has_bias:
        for k in range(K):
            for q in range(STEP):
                S[k * BLOCK + q] += <real>b.base[k]
    if many:                # S becomes u, up to a constant for the 0/1 loss
        for r in range(count):
            x = &b.rows[rows[r]]
            if e.has_cost:
                for k in range(K):
                    S[k * BLOCK + r] += <real>e.cost[x.y, k]
            else:
                S[x.y * BLOCK + r] -= 1
        highest(S, K, top, b.dense)
    for r in range(count):
        x = &b.rows[rows[r]]
        if not many:
            has_moved = move_binary(&point, x, S[r], beta + rows[r] * K, coef + r * ldc, total)
        elif x.vertex >= 0 and S[x.vertex * BLOCK + r] >= top[r]:
            x.active = False
            continue
        else:
            has_moved = move(&point, x, S + r, top[r], beta + rows[r] * K, coef + r * ldc, scratch, total)
        if not has_moved:
            continue
        if not any_moved:
            any_moved = True
            for q in range(count):
                if q != r:
                    memset(coef + q * ldc, 0, K * sizeof(real))
        if r + 1 == count:
            continue
        dots(&e.X, rows[r], rows + r + 1, count - r - 1, products + r + 1)
        for q in range(r + 1, count):
            products[q] += <real>b.constant
        for k in range(K):
            if coef[r * ldc + k] != 0:
                for q in range(r + 1, count):
                    S[k * BLOCK + q] += coef[r * ldc + k] * products[q]
        if many:
            highest(S, K, top, b.dense)
    return any_moved
