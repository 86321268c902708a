"""Exact steps at a group of rows that were scored together.

Dense rows are scored four at a time, a group, which the tile of the score kernels wants; where a row moves W, the
scores of the rows behind it in the group are corrected by `<x_i, x_j>`, so that the steps are those of one row after
the other.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from ..features._rows cimport BLOCK, STEP, real
from ._block_step cimport Example, Point, highest, move, move_binary
from ._engine cimport MULTICLASS, Engine
from ._sdm cimport Blocks, prefetch


cdef class Stepper:
    """Exact block steps at rows of `blocks`, by the kernels that fit its data.

    Attributes
    ----------
    size : int
        Rows of a group; 1 for sparse data.
    """

    def __init__(self, Blocks blocks):
        cdef Engine e = blocks.e
        self.size = STEP if blocks.dense else 1
        if blocks.is_single:
            self._score, self.update = e.kernels.step32[e.kind], e.kernels.update32[e.kind]
            self.dots, self.products = e.kernels.dots32[e.kind], e.kernels.products32[e.kind]
        else:
            self._score, self.update = e.kernels.step64[e.kind], e.kernels.update64[e.kind]
            self.dots, self.products = e.kernels.dots64[e.kind], e.kernels.products64[e.kind]

    cdef void score(self, const Py_ssize_t* rows, int count, int ahead, const void* W, real* S, Blocks b,
                    Engine e) noexcept nogil:
        cdef int K = e.n_scores, q
        cdef real* beta
        if real is float:
            beta = &b.beta32[0, 0]
        else:
            beta = &b.beta64[0, 0]
        for q in range(count, count + ahead):
            prefetch(&b.rows[rows[q]])
            prefetch(beta + rows[q] * K)
            prefetch(beta + rows[q] * K + K - 1)
        self._score(&e.X, rows, count, ahead, W, b.ldw, K, S)

    cdef int64_t decide(self, const Py_ssize_t* rows, int count, double* base, real* S, real* coef, real* products,
                        bint lags, double* scratch, double* total, Blocks b, Engine e) noexcept nogil:
        """Steps at the rows of a group.

        Parameters
        ----------
        base : (K,)
            What the bias adds to the scores; moves with W.
        S : (K, BLOCK)
            `W x` of these rows; overwritten.
        coef : (size, ldc)
            Changes of W that the rows bring; defined where one moved, for all rows.
        products : (2 STEP, STEP) or NULL
            `<x_e, x_r>` of the group before and of this one, where they are known.
        lags : bool
            Where they are not: they are asked for together with those of the group before.
        scratch : (2 K,)
        total : double
            The block gaps met are added.
        """
        cdef int K = e.n_scores, ldc = b.ldc, r, q, k
        cdef real* beta
        cdef real own[2 * STEP * STEP]
        cdef real top[STEP]
        cdef int64_t moved = 0
        cdef bint has_moved, has_products = products != NULL, many = e.loss == MULTICLASS
        cdef Example* x
        cdef Point point = Point(K, b.s, e.scale, e.bias, base)
        if real is float:
            beta = &b.beta32[0, 0]
        else:
            beta = &b.beta64[0, 0]
        if not has_products:
            products = own
        if e.has_bias:
            for k in range(K):
                for q in range(STEP):
                    S[k * BLOCK + q] += <real>base[k]
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
            if not moved:
                for q in range(self.size):
                    if q != r:
                        memset(coef + q * ldc, 0, K * sizeof(real))
            moved |= 1 << r
            if r + 1 == count:
                continue
            if not has_products and lags:
                self.products(&e.X, rows, count, products)
                has_products = True
            elif not has_products:
                self.dots(&e.X, rows[r], rows + r + 1, count - r - 1, products + (STEP + r) * STEP + r + 1)
            for q in range(r + 1, count):
                products[(STEP + r) * STEP + q] += <real>b.constant
            for k in range(K):
                if coef[r * ldc + k] != 0:
                    for q in range(r + 1, count):
                        S[k * BLOCK + q] += coef[r * ldc + k] * products[(STEP + r) * STEP + q]
            if many:
                highest(S, K, top, b.dense)
        return moved
