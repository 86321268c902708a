"""Sums over the examples of a risk whose labels can be enumerated: losses at a point, and the aggregate of multipliers.

The sums enter certificates, and therefore include all labels, whatever the working sets are: `value` and `mark` use the
scores of all labels, and `aggregate` uses all multipliers, which it makes feasible.
"""

import numpy as np

from libc.math cimport INFINITY, fabs

from pybundle.features._rows cimport BLOCK, PB_FLOAT32, PB_UINT8, real
from pybundle.risks._engine cimport CURVE, MULTICLASS, Curve, Engine, curve_loss, curve_term
from pybundle.solvers.block._label_blocks cimport Example, LabelBlocks, keep_near, prefetch

from pybundle.core.plane import Plane

cdef enum:
    SPARSE_BLOCK = 1024     # number of sparse rows that are summed together, class by class

cdef double UNIT = 2.0 ** -53       # relative rounding error of one float64 operation


cdef class LabelSums(LabelBlocks):
    """`LabelBlocks` with sums of losses and of multipliers over examples; it has the same parameters and attributes."""

    # ------------------------------------------------------------------ values at a point
    def mark(self, const real[:, ::1] S, Py_ssize_t first=0):
        """Return the sum of the losses of the rows from `first` on, at their scores S with bias; mark the active rows.

        A row is active if alpha_i is no vertex, or if the label with all weight leads by less than `margin`. Working
        sets are chosen again. Threads may mark different rows.
        """
        cdef Engine e = self.e
        cdef Py_ssize_t i
        cdef int K = e.n_scores, k
        cdef double risk = 0.0, top, second, v
        cdef Example* x
        cdef const real* s
        cdef double[::1] u = np.empty(K)
        if not 0 <= first <= e.n_examples - S.shape[0] or S.shape[1] != K:
            raise ValueError(f"S must hold scores of rows from {first} on, at most {e.n_examples} in all, in {K} "
                             f"columns, got shape ({S.shape[0]}, {S.shape[1]})")
        with nogil:
            for i in range(S.shape[0]):
                x = &self.rows[first + i]
                s = &S[i, 0]
                if e.loss == CURVE:
                    v = x.y * <double>s[0] - e.target[first + i]
                    risk += x.c * curve_loss(&e.curve, v)
                    x.active = x.c > 0.0 and may_leave(&e.curve, x.vertex, v, self.margin)
                    continue
                if e.loss != MULTICLASS:
                    v = 1.0 - x.y * <double>s[0]
                    risk += x.c * max(v, 0.0)
                    x.active = x.c > 0.0 and (x.vertex < 0 or (v > -self.margin if x.vertex == 0 else v < self.margin))
                    continue
                for k in range(K):
                    u[k] = s[k] + (e.cost[x.y, k] if e.has_cost else 0.0)
                u[x.y] -= 0.0 if e.has_cost else 1.0
                top = second = -INFINITY
                for k in range(K):
                    second = max(second, min(u[k], top))
                    top = max(top, u[k])
                risk += x.c * max(top - u[x.y], 0.0)
                x.active = x.c > 0.0
                if x.vertex >= 0:
                    x.active &= u[x.vertex] < top or top < second + self.margin
                if self.set_capacity:
                    keep_near(self, first + i, &u[0], 1, top)
        return risk

    def value(self, const double[:, ::1] S):
        """Return R at the point with scores S (n, K), as a plain sum of losses, none of which is negative."""
        cdef Engine e = self.e
        cdef Py_ssize_t i
        cdef int K = e.n_scores, k, y
        cdef double risk = 0.0, top
        if S.shape[0] != e.n_examples or S.shape[1] != K:
            raise ValueError(f"S must have shape ({e.n_examples}, {K}), got ({S.shape[0]}, {S.shape[1]})")
        with nogil:
            for i in range(e.n_examples):
                y, top = e.y[i], 0.0
                if e.loss == CURVE:
                    top = curve_loss(&e.curve, y * S[i, 0] - e.target[i])
                elif e.loss != MULTICLASS:
                    top = max(0.0, 1.0 - y * S[i, 0])
                else:
                    for k in range(K):
                        if k != y:
                            top = max(top, (e.cost[y, k] if e.has_cost else 1.0) + (S[i, k] - S[i, y]))
                risk += e.c[i] * top
        return risk

    # ------------------------------------------------------------------ evidence
    def aggregate(self, Py_ssize_t first=0, last=None, double far=0.0):
        """Return the `Plane` of the multipliers, with sums in float64.

        The slope is `sum_ik alpha_ik (e_k - e_y) X_i`, without scale, and the offset `sum_ik alpha_ik L(y_i, k)`.
        If the planes of two ranges are added, the sum of their errors also covers the roundings of this addition.

        Parameters
        ----------
        first, last : int
            The sum is over the rows `first <= i < last`; None means n. Threads may sum different rows.
        far : float
            Norm |m| of column means m. The error of the slope also covers `a - m a_b`, for each row a of the slope with
            last entry a_b.

        Raises
        ------
        ValueError
            For rows outside 0..n.

        Notes
        -----
        The multiplier of the truth is c_i minus the sum over the other labels. If this sum exceeds c_i by rounding, it
        is scaled down, so that the multipliers are feasible.
        """
        cdef Engine e = self.e
        cdef Py_ssize_t end = e.n_examples if last is None else last
        if not 0 <= first <= end <= e.n_examples:
            raise ValueError(f"first and last must be 0 <= first <= last <= {e.n_examples}, got {first} and {end}")
        if self.is_single:
            return self._aggregate(self.alpha32, first, end, far)
        return self._aggregate(self.alpha64, first, end, far)

    def _aggregate(self, const real[:, ::1] alphas, Py_ssize_t first, Py_ssize_t last, double far):
        cdef Engine e = self.e
        cdef int K = e.n_scores, k, y
        # dense rows: a block stays in the cache; sparse rows, in longer blocks: the slope of one class stays in it
        cdef Py_ssize_t i = first, size, entries = 0, products = 0, block = BLOCK if self.dense else SPARSE_BLOCK
        cdef double offset = 0.0, total, c, b, ratio, beta
        cdef double offset_size = 0.0, slope_size = 0.0     # sums of |terms| of the offset, of norms of slopes
        cdef bint is_multiclass = e.loss == MULTICLASS
        cdef int idle = 2 if e.loss == CURVE else 0         # rows with this vertex add nothing
        # rows of a block and their coefficients for each class; a class has at most one coefficient of each row
        cdef Py_ssize_t[:, ::1] row = np.empty((K, block), dtype=np.intp)
        cdef double[:, ::1] coef = np.empty((K, block))
        cdef int[::1] count = np.zeros(K, dtype=np.intc)
        cdef Py_ssize_t[::1] entries_of = np.zeros(K, dtype=np.intp)
        summed = np.zeros(K * e.width)
        cdef double[::1] slope = summed
        with nogil:
            while i < last:
                size = 0
                while i < last and size < block:
                    y, c = e.y[i], e.c[i]
                    if self.dense and self.rows[i].vertex != (y if is_multiclass else idle):
                        fetch_row(e, i)
                    if e.loss == CURVE:
                        b = min(max(<double>alphas[i, 0], -e.curve.high * c), -e.curve.low * c)
                        if b != 0.0:
                            beta = min(max(-b / c, e.curve.low), e.curve.high)
                            b = -c * beta
                            offset += c * curve_term(&e.curve, beta, -e.target[i])
                            offset_size += c * (fabs(beta * e.target[i]) + fabs(curve_term(&e.curve, beta, 0.0))
                                                + 2.0 * fabs(beta * e.curve.linear))
                            slope_size += fabs(b) * (e.norms[i] + far)
                            row[0, count[0]] = i
                            coef[0, count[0]] = -b * y
                            count[0] += 1
                            size += 1
                    elif not is_multiclass:
                        b = min(max(<double>alphas[i, 0], 0.0), c)
                        if b > 0.0:
                            offset += b
                            slope_size += b * (e.norms[i] + far)
                            row[0, count[0]] = i
                            coef[0, count[0]] = -b * y
                            count[0] += 1
                            size += 1
                    elif self.rows[i].vertex != y:
                        total = 0.0
                        for k in range(K):
                            if k != y:
                                total += alphas[i, k]
                        if total > 0.0:
                            ratio = c / total if total > c else 1.0
                            size += 1
                            total = 0.0
                            for k in range(K):
                                if k != y and alphas[i, k] > 0:
                                    b = ratio * alphas[i, k]
                                    total += b
                                    offset += b * (e.cost[y, k] if e.has_cost else 1.0)
                                    row[k, count[k]] = i
                                    coef[k, count[k]] = b
                                    count[k] += 1
                            row[y, count[y]] = i
                            coef[y, count[y]] = -total
                            count[y] += 1
                            slope_size += 2.0 * total * (e.norms[i] + far)
                    i += 1
                for k in range(K):
                    if count[k]:
                        e.accumulate(&row[k, 0], &coef[k, 0], count[k], &slope[0] + k * e.width)
                        entries_of[k] += count[k]
                        count[k] = 0
        for k in range(K):
            entries = max(entries, entries_of[k])
            products += entries_of[k]
        # an entry of the slope is a sum of at most `entries` products, and the offset one of `products`. The sum for a
        # truth, the ratio and the excess of a sum over c add 2 K + 4 roundings, and the addition of two planes one
        return Plane(offset, summed, 1.01 * UNIT * (entries + 2 * K + 7) * slope_size,
                     1.01 * UNIT * (products + K + 15) * offset_size if e.loss == CURVE else
                     1.01 * UNIT * (products + K + 7) * offset)


cdef inline void fetch_row(Engine e, Py_ssize_t i) noexcept nogil:
    # prefetches a dense row, because rows that are far apart in memory load slowly
    cdef Py_ssize_t size = e.n_features * (1 if e.kind == PB_UINT8 else 4 if e.kind == PB_FLOAT32 else 8), at = 0
    cdef const char* row = <const char*>e.X.data + i * size
    while at < size:
        prefetch(row + at)
        at += 64


cdef inline bint may_leave(const Curve* h, int vertex, double u, double margin) noexcept nogil:
    """Return whether a change of the score by less than `margin` may change the multiplier."""
    cdef double v = u - h.linear
    if vertex == 0:
        return v < h.square * h.high + (h.flat if h.high > 0.0 else -h.flat if h.high < 0.0 else 0.0) + margin
    if vertex == 1:
        return v > h.square * h.low + (h.flat if h.low > 0.0 else -h.flat if h.low < 0.0 else 0.0) - margin
    return vertex < 0 or fabs(v) > h.flat - margin
