"""Sum-product on a `GridTree`: marginals of positions and expected displacements.

A quadratic cost is a sum over the two axes. So the message from a node with a grid (h, w) to its parent with a grid
(H, W) takes two small steps,

    R(y, X) = log sum_x exp(U(y, x) + c_x(x - X)),      message(Y, X) = log sum_y exp(R(y, X) + c_y(y - Y)),

of h w W and h W H terms; a single step would have h w H W terms. The terms, divided by their sums, are P(x | y, X) and
P(y | Y, X), which are stored on the way to the root and used on the way back. Marginals, moments and entropy belong to
the distribution of the computed conditionals, so rounding of the scores does not matter. They are sums of products
>= 0, and `roundings` bounds their relative errors.
"""

from libc.math cimport INFINITY, exp, log1p
from libc.string cimport memcpy

import numpy as np

from ._tree cimport GridTree


cdef double _normalise(Py_ssize_t k, double* P, double top, double* entropy) noexcept nogil:
    """Replace P by exp(P) / sum, or by 0 if every entry is -inf; return the log of the sum, and set the entropy of P.

    The entropy is a sum of terms >= 0. Terms below exp(-700), for which exp is inaccurate, are set to 0.
    """
    cdef Py_ssize_t q, best = -1
    cdef double rest = 0.0, s, expected = 0.0
    entropy[0] = 0.0
    if top == -INFINITY:
        for q in range(k):
            P[q] = 0.0
        return -INFINITY
    for q in range(k):
        s = P[q] - top
        if s == 0.0 and best < 0:
            best = q
            P[q] = 1.0
        elif s >= -700.0:
            P[q] = exp(s)
            rest += P[q]
            expected -= P[q] * s
        else:
            P[q] = 0.0
    for q in range(k):
        P[q] /= 1.0 + rest
    entropy[0] = log1p(rest) + expected / (1.0 + rest)
    return top + log1p(rest)


def roundings(GridTree tree):
    """Return two counts of roundings: of any marginal, moment or entropy, and `partition_terms` of `BatchOracle`."""
    cdef int j, p
    cdef Py_ssize_t h, w, H, W, root = 0, sums = 16, deepest = 16
    for j in range(tree.n_nodes):
        p = tree.parents[j]
        h, w = tree.heights[j], tree.widths[j]
        if p < 0:
            root = h * w
            continue
        H, W = tree.heights[p], tree.widths[p]
        # two conditionals of h and w terms, their sums over H and W, and the terms of moments and of entropies
        sums += 2 * (h + w + 8) + H + W + H * W + h * W
        deepest += 2 * (h + w + 8)
    return float(sums + 2 * root), float(deepest + 2 * root)


cdef Py_ssize_t _room(GridTree tree, int j) noexcept nogil:
    """Return the number of doubles that are stored for the edge above node j."""
    cdef Py_ssize_t h = tree.heights[j], w = tree.widths[j], H, W
    if tree.parents[j] < 0:
        return 0
    H, W = tree.heights[tree.parents[j]], tree.widths[tree.parents[j]]
    return h * W * (w + 1) + W * H * (h + 1)


cdef double _marginals(GridTree tree, const double* unaries, double* unary, double* moments, double* entropy,
                       double* kept, double* U, double* R) noexcept nogil:
    cdef int i, j, p
    cdef Py_ssize_t h, w, H, W, x, y, X, Y
    cdef double top, d, s, log_z, mass, E1, E2, e1, e2
    cdef const double* cost
    cdef double* P
    cdef double* room
    cdef double* PX
    cdef double* PY
    cdef double* HX
    cdef double* HY
    memcpy(U, unaries, tree.total * sizeof(double))
    room = kept
    for i in range(tree.n_nodes - 1):
        j = tree.order[i]
        p = tree.parents[j]
        h, w, H, W = tree.heights[j], tree.widths[j], tree.heights[p], tree.widths[p]
        cost = &tree.deformation[j, 0]
        PX, PY, HX = room, room + h * W * w, room + h * W * w + W * H * h
        HY = HX + h * W
        for y in range(h):
            for X in range(W):
                P = PX + (y * W + X) * w
                top = -INFINITY
                for x in range(w):
                    d = x - X - tree.anchors[j, 0]
                    P[x] = U[tree.offsets[j] + y * w + x] - cost[0] * (d * d) - cost[1] * d
                    top = max(top, P[x])
                R[X * h + y] = _normalise(w, P, top, HX + y * W + X)
        for X in range(W):
            for Y in range(H):
                P = PY + (X * H + Y) * h
                top = -INFINITY
                for y in range(h):
                    d = y - Y - tree.anchors[j, 1]
                    P[y] = R[X * h + y] - cost[2] * (d * d) - cost[3] * d
                    top = max(top, P[y])
                U[tree.offsets[p] + Y * W + X] += _normalise(h, P, top, HY + X * H + Y)
        room += _room(tree, j)
    j = tree.order[tree.n_nodes - 1]
    P = unary + tree.offsets[j]
    top = -INFINITY
    for x in range(tree.offsets[j + 1] - tree.offsets[j]):
        P[x] = U[tree.offsets[j] + x]
        top = max(top, P[x])
    log_z = _normalise(tree.offsets[j + 1] - tree.offsets[j], P, top, entropy)
    for x in range(4):
        moments[4 * j + x] = 0.0
    for i in range(tree.n_nodes - 2, -1, -1):
        j = tree.order[i]
        p = tree.parents[j]
        h, w, H, W = tree.heights[j], tree.widths[j], tree.heights[p], tree.widths[p]
        room -= _room(tree, j)
        PX, PY, HX = room, room + h * W * w, room + h * W * w + W * H * h
        HY = HX + h * W
        for y in range(h * W):
            R[y] = 0.0                                  # will hold P(y, X)
        E1 = E2 = 0.0
        for X in range(W):
            for Y in range(H):
                mass = unary[tree.offsets[p] + Y * W + X]
                if mass == 0.0:
                    continue
                entropy[0] += mass * HY[X * H + Y]
                P = PY + (X * H + Y) * h
                e1 = e2 = 0.0
                for y in range(h):
                    s = mass * P[y]
                    d = y - Y - tree.anchors[j, 1]
                    R[X * h + y] += s
                    e1 += s * d
                    e2 += s * (d * d)
                E1 += e1
                E2 += e2
        moments[4 * j + 2], moments[4 * j + 3] = E2, E1
        for x in range(h * w):
            unary[tree.offsets[j] + x] = 0.0
        E1 = E2 = 0.0
        for y in range(h):
            for X in range(W):
                mass = R[X * h + y]
                if mass == 0.0:
                    continue
                entropy[0] += mass * HX[y * W + X]
                P = PX + (y * W + X) * w
                e1 = e2 = 0.0
                for x in range(w):
                    s = mass * P[x]
                    d = x - X - tree.anchors[j, 0]
                    unary[tree.offsets[j] + y * w + x] += s
                    e1 += s * d
                    e2 += s * (d * d)
                E1 += e1
                E2 += e2
        moments[4 * j], moments[4 * j + 1] = E2, E1
    return log_z


def grid_marginals(GridTree tree, const double[:, ::1] unaries, double[:, ::1] unary, double[:, :, ::1] moments,
                   double[::1] log_partitions, double[::1] entropies):
    """Compute the marginals of n examples.

    Parameters
    ----------
    unaries : array, shape (n, total)
    unary : array, shape (n, total)
        Filled with the probability of every position of every node.
    moments : array, shape (n, J, 4)
        Filled with E[dx^2], E[dx], E[dy^2], E[dy] of the displacement of every node from its anchor, 0 at the root.
    log_partitions, entropies : array, shape (n,)
        Filled with log sum_y exp score(y), -inf if nothing is allowed, and with the entropy minus its rounding error.
    """
    cdef Py_ssize_t i, size = 1
    cdef int j
    cdef double kept_fraction = 1.0 - roundings(tree)[0] * 2.0**-53
    for j in range(tree.n_nodes):
        size += _room(tree, j)
    cdef double[::1] kept = np.empty(size), U = np.empty(tree.total)
    cdef double[::1] R = np.empty(<Py_ssize_t>tree.longest * tree.longest)
    with nogil:
        for i in range(unaries.shape[0]):
            log_partitions[i] = _marginals(tree, &unaries[i, 0], &unary[i, 0], &moments[i, 0, 0], &entropies[i],
                                           &kept[0], &U[0], &R[0])
            entropies[i] *= kept_fraction
