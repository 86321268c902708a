"""Max-sum and sum-product on trees: messages from the leaves to the root, labels on the way back.

    message_j(p) = max_q [ U_j(q) + E_j(p, q) ],   U_j = unaries of j + messages of its children,

E_j, of the edge from j to its parent, is a table (`tables_*`), or minus a quadratic of the displacement of q from its
expected position given p (`GridTree`). The message is then a generalised distance transform: O(positions) instead of
O(positions^2).
"""

from libc.math cimport INFINITY, exp, log, sqrt
from libc.stdint cimport int64_t
from libc.string cimport memcpy

import numpy as np

from ._distance_transform cimport line_transform, reciprocals, transpose

cdef extern from *:
    """
    #include "_simd.h"

    /* max_q U[q] + E[q], and its first position; the maximum is taken in eight independent lanes */
    PB_INLINE double pb_best_sum_body(int n, const double *PB_RESTRICT U, const double *PB_RESTRICT E, int* at)
    {
        double lane[8], best, s;
        int q = 0, k;
        for (k = 0; k < 8; k++) lane[k] = -INFINITY;
        for (; q + 8 <= n; q += 8)
            for (k = 0; k < 8; k++) {
                s = U[q + k] + E[q + k];
                lane[k] = s > lane[k] ? s : lane[k];
            }
        best = -INFINITY;
        for (k = 0; k < 8; k++) best = lane[k] > best ? lane[k] : best;
        for (; q < n; q++) {
            s = U[q] + E[q];
            best = s > best ? s : best;
        }
        for (q = 0; q < n - 1; q++)
            if (U[q] + E[q] == best) break;
        *at = best == -INFINITY ? 0 : q;
        return best;
    }
    PB_CLONES(double, return, pb_best_sum, (int n, const double *U, const double *E, int *at), (n, U, E, at))
    """
    double pb_best_sum(int n, const double* U, const double* E, int* at) nogil


cdef int _first_best(Py_ssize_t n, const double* f) noexcept nogil:
    cdef Py_ssize_t q, best = 0
    for q in range(1, n):
        if f[q] > f[best]:
            best = q
    return <int>best


cdef class GridTree:
    """Decoder of one tree over grids.

    Parameters
    ----------
    order, parents, heights, widths : int32 array, shape (J,)
        Every node after its children in `order`; parents[root] = -1.
    deformation : array, shape (J, 4)
        a_x, b_x, a_y, b_y; the row of the root is not used.
    anchors : array, shape (J, 2)
        x and y; the row of the root is not used.
    """

    def __init__(self, order, parents, heights, widths, deformation, anchors):
        cdef int j
        self.n_nodes = len(parents)
        sizes = heights.astype(np.int64) * widths
        above = np.maximum(parents, 0)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        # tables of best positions: over rows (height, parent's width), then over columns (parent's width, parent's
        # height)
        winners = np.where(parents < 0, 0, widths[above] * (heights.astype(np.int64) + heights[above]))
        self.places = np.concatenate([[0], np.cumsum(winners)])
        self.order, self.parents, self.heights, self.widths = order, parents, heights, widths
        self.offsets, self.deformation, self.anchors = offsets, deformation, anchors
        self.starts_x = (np.cumsum(widths) - widths).astype(np.int64)
        self.starts_y = (np.cumsum(heights) - heights).astype(np.int64)
        self.inverse_x, self.inverse_y = np.zeros(widths.sum()), np.zeros(heights.sum())
        self.longest = max(heights.max(), widths.max())
        self.total = self.offsets[self.n_nodes]
        area = int(heights.max()) * int(widths.max())
        self.n_floats = self.total + 2 * area + self.longest
        self.n_ints = self.places[self.n_nodes] + self.longest
        for j in range(self.n_nodes):
            reciprocals(self.widths[j], self.deformation[j, 0], &self.inverse_x[self.starts_x[j]])
            reciprocals(self.heights[j], self.deformation[j, 2], &self.inverse_y[self.starts_y[j]])

    cdef double decode(self, const double* unaries, int* labels, double* floats, int* ints) noexcept nogil:
        cdef double* U = floats
        cdef double* first = U + self.total
        cdef double* second = first + (self.n_floats - self.total - self.longest) // 2
        cdef double* z = floats + self.n_floats - self.longest
        cdef int* hull = ints + self.n_ints - self.longest
        cdef int i, j, p, x, y, h, w, up_h, up_w, q_y
        cdef int* row_winners
        cdef int* column_winners
        cdef double* target
        cdef const double* inverse
        memcpy(U, unaries, self.total * sizeof(double))
        for i in range(self.n_nodes - 1):
            j = self.order[i]
            p = self.parents[j]
            h, w, up_h, up_w = self.heights[j], self.widths[j], self.heights[p], self.widths[p]
            row_winners = ints + self.places[j]
            column_winners = row_winners + <Py_ssize_t>h * up_w
            # d = q - p - anchor is minus the d of line_transform, therefore -b
            inverse = &self.inverse_x[self.starts_x[j]]
            for y in range(h):
                line_transform(w, U + self.offsets[j] + <Py_ssize_t>y * w, self.deformation[j, 0],
                               -self.deformation[j, 1], inverse, up_w, self.anchors[j, 0],
                               first + <Py_ssize_t>y * up_w, row_winners + <Py_ssize_t>y * up_w, hull, z)
            transpose(h, up_w, first, second)
            inverse = &self.inverse_y[self.starts_y[j]]
            for x in range(up_w):
                line_transform(h, second + <Py_ssize_t>x * h, self.deformation[j, 2], -self.deformation[j, 3],
                               inverse, up_h, self.anchors[j, 1], first + <Py_ssize_t>x * up_h,
                               column_winners + <Py_ssize_t>x * up_h, hull, z)
            target = U + self.offsets[p]
            for y in range(up_h):
                for x in range(up_w):
                    target[<Py_ssize_t>y * up_w + x] += first[<Py_ssize_t>x * up_h + y]
        j = self.order[self.n_nodes - 1]
        labels[j] = _first_best(<Py_ssize_t>self.heights[j] * self.widths[j], U + self.offsets[j])
        for i in range(self.n_nodes - 2, -1, -1):
            j = self.order[i]
            p = self.parents[j]
            y, x = labels[p] // self.widths[p], labels[p] % self.widths[p]
            row_winners = ints + self.places[j]
            column_winners = row_winners + <Py_ssize_t>self.heights[j] * self.widths[p]
            q_y = column_winners[<Py_ssize_t>x * self.heights[p] + y]
            labels[j] = q_y * self.widths[j] + row_winners[<Py_ssize_t>q_y * self.widths[p] + x]
        return self.score(unaries, labels)

    cdef double score(self, const double* unaries, const int* labels) noexcept nogil:
        cdef int j, p
        cdef double s = 0.0, dx, dy
        for j in range(self.n_nodes):
            s += unaries[self.offsets[j] + labels[j]]
            p = self.parents[j]
            if p < 0:
                continue
            dx = labels[j] % self.widths[j] - labels[p] % self.widths[p] - self.anchors[j, 0]
            dy = labels[j] // self.widths[j] - labels[p] // self.widths[p] - self.anchors[j, 1]
            s -= (self.deformation[j, 0] * (dx * dx) + self.deformation[j, 1] * dx
                  + self.deformation[j, 2] * (dy * dy) + self.deformation[j, 3] * dy)
        return s

    def decode_batch(self, const double[:, ::1] unaries, int[:, ::1] labels, double[::1] values):
        """Decode every row of unaries (n, total) into a row of labels (n, J) and an entry of values (n,)."""
        cdef double[::1] floats = np.empty(self.n_floats)
        cdef int[::1] ints = np.empty(self.n_ints, np.int32)
        cdef Py_ssize_t i
        with nogil:
            for i in range(unaries.shape[0]):
                values[i] = self.decode(&unaries[i, 0], &labels[i, 0], &floats[0], &ints[0])

    def add_distances(self, const int[:, ::1] labels, const double[::1] scales, double[:, ::1] unaries):
        """Add to unaries (n, total) scales[i] times the distance of each position from that of labels (n, J)."""
        cdef Py_ssize_t i
        cdef int j, x, y, x_0, y_0
        cdef double* row
        with nogil:
            for i in range(unaries.shape[0]):
                row = &unaries[i, 0]
                for j in range(self.n_nodes):
                    x_0, y_0 = labels[i, j] % self.widths[j], labels[i, j] // self.widths[j]
                    for y in range(self.heights[j]):
                        for x in range(self.widths[j]):
                            # sums of whole numbers below 2^53 are exact: only the square root is rounded
                            row[x] += scales[i] * sqrt(<double>(x - x_0) * (x - x_0) + <double>(y - y_0) * (y - y_0))
                        row += self.widths[j]

    def score_batch(self, const double[:, ::1] unaries, const int[:, ::1] labels, double[::1] values):
        """Set values (n,) to the scores of the given labels, summed in the order of `decode_batch`."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(unaries.shape[0]):
                values[i] = self.score(&unaries[i, 0], &labels[i, 0])


def tables_max_sum(const double[:, ::1] unaries, const int64_t[::1] offsets, const int[::1] order,
                   const int[::1] parents, const double[::1] tables, const int64_t[::1] table_offsets,
                   int[:, ::1] labels, double[::1] values):
    """Decode every row of unaries (n, total); table j, (K_parent, K_j), begins at tables[table_offsets[j]]."""
    cdef int J = <int>parents.shape[0], i, j, p, q, k, k_up
    cdef int64_t[::1] places = np.zeros(J, np.int64)
    cdef Py_ssize_t row, size = 0
    for j in range(J):
        places[j] = size
        if parents[j] >= 0:
            size += offsets[parents[j] + 1] - offsets[parents[j]]
    cdef double[::1] U = np.empty(unaries.shape[1])
    cdef int[::1] winners = np.empty(max(size, 1), np.int32)
    cdef double s
    with nogil:
        for row in range(unaries.shape[0]):
            memcpy(&U[0], &unaries[row, 0], U.shape[0] * sizeof(double))
            for i in range(J - 1):
                j = order[i]
                p = parents[j]
                k = <int>(offsets[j + 1] - offsets[j])
                k_up = <int>(offsets[p + 1] - offsets[p])
                for q in range(k_up):
                    U[offsets[p] + q] += pb_best_sum(k, &U[offsets[j]], &tables[table_offsets[j] + <Py_ssize_t>q * k],
                                                     &winners[places[j] + q])
            j = order[J - 1]
            labels[row, j] = _first_best(offsets[j + 1] - offsets[j], &U[offsets[j]])
            for i in range(J - 2, -1, -1):
                j = order[i]
                labels[row, j] = winners[places[j] + labels[row, parents[j]]]
            s = 0.0
            for j in range(J):
                s += unaries[row, offsets[j] + labels[row, j]]
                if parents[j] >= 0:
                    s += tables[table_offsets[j] + labels[row, parents[j]] * (offsets[j + 1] - offsets[j])
                                + labels[row, j]]
            values[row] = s


def tables_marginals(const double[::1] unaries, const int64_t[::1] offsets, const int[::1] order,
                     const int[::1] parents, const double[::1] tables, const int64_t[::1] table_offsets,
                     double[::1] unary, double[::1] pairwise):
    """Fill the marginals of nodes (total,) and of edges, laid out as the tables; return log Z.

    On the way to the root each table becomes P(child | parent); on the way back its rows are scaled by P(parent).
    """
    cdef int J = <int>parents.shape[0], i, j, p
    cdef Py_ssize_t q, r, k, k_up
    cdef double top, total, log_z
    cdef const double* E
    cdef double* P
    cdef double* U
    cdef double[::1] scores = np.array(unaries)
    with nogil:
        for i in range(J - 1):
            j = order[i]
            p = parents[j]
            k, k_up = offsets[j + 1] - offsets[j], offsets[p + 1] - offsets[p]
            U = &scores[offsets[j]]
            for r in range(k_up):
                E = &tables[table_offsets[j] + r * k]
                P = &pairwise[table_offsets[j] + r * k]
                top = -INFINITY
                for q in range(k):
                    P[q] = U[q] + E[q]
                    top = max(top, P[q])
                scores[offsets[p] + r] += _normalise(k, P, top)
        j = order[J - 1]
        k = offsets[j + 1] - offsets[j]
        P = &unary[offsets[j]]
        top = -INFINITY
        for q in range(k):
            P[q] = scores[offsets[j] + q]
            top = max(top, P[q])
        log_z = _normalise(k, P, top)
        for i in range(J - 2, -1, -1):
            j = order[i]
            p = parents[j]
            k, k_up = offsets[j + 1] - offsets[j], offsets[p + 1] - offsets[p]
            for q in range(k):
                unary[offsets[j] + q] = 0.0
            for r in range(k_up):
                P = &pairwise[table_offsets[j] + r * k]
                total = unary[offsets[p] + r]
                for q in range(k):
                    P[q] *= total
                    unary[offsets[j] + q] += P[q]
    return log_z


cdef double _normalise(Py_ssize_t k, double* P, double top) noexcept nogil:
    """Replace P by exp(P) / sum exp(P), or by 0 if every entry is -inf; return log sum exp(P)."""
    cdef Py_ssize_t q
    cdef double total = 0.0
    if top == -INFINITY:
        for q in range(k):
            P[q] = 0.0
        return -INFINITY
    for q in range(k):
        P[q] = exp(P[q] - top)
        total += P[q]
    for q in range(k):
        P[q] /= total
    return top + log(total)
