"""The proximal step of the dual of a hinge risk, one example after the other: a projection onto a scaled simplex.

Row i of the multipliers holds `alpha_i >= 0` with sum `c_i` (multiclass), or one number in `[0, c_i]` (binary hinge).
The step at scores S is

    a_i = argmax_a <a, u_i> - |a - alpha_i|^2 / (2 sigma) = P(alpha_i + sigma u_i),  u_ik = L(y_i, k) + s_ik - s_{i y_i}

where P projects onto this simplex or interval. In `plane_step` the known planes of example i take the place of its
labels, u_i are their values at w, and c_i = 1.

All numbers are float64. The projection of a row tries, as a rule, two or three sets of labels, at a cost of O(K) each.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t


cdef int project(double* v, int K, double mass, double* out) noexcept nogil:
    # Michelot's algorithm: theta starts below the solution and rises, so that the set {v > theta} shrinks.
    cdef double top = -INFINITY, theta = -mass, total
    cdef int k, count = 0, last = K + 1
    for k in range(K):
        top = max(top, v[k])
    for k in range(K):
        v[k] -= top             # otherwise a mass far smaller than the values would be lost in rounding
    if mass <= 0.0:
        for k in range(K):
            out[k] = 0.0
        return 0
    while True:
        total = 0.0
        count = 0
        for k in range(K):
            if v[k] > theta:
                total += v[k]
                count += 1
        if count >= last or count == 0:         # only rounding lets the set grow; then theta could oscillate
            break
        last = count
        theta = (total - mass) / count
    count = 0
    for k in range(K):
        out[k] = max(v[k] - theta, 0.0)
        count += out[k] > 0.0
    return count


def project_rows(const double[:, ::1] V, const double[::1] mass, double[:, ::1] out):
    """Set out[i] to the point of `{a >= 0, sum a = mass_i}` nearest to V[i], and to 0 if mass_i is 0."""
    cdef Py_ssize_t i
    cdef int k, K = <int>V.shape[1]
    cdef double[::1] v = np.empty(K)
    if out.shape[0] != V.shape[0] or out.shape[1] != K or mass.shape[0] != V.shape[0]:
        raise ValueError("V and out must have the same shape (n, K), mass n entries")
    with nogil:
        for i in range(V.shape[0]):
            for k in range(K):
                v[k] = V[i, k]
            project(&v[0], K, mass[i], &out[i, 0])


cdef int _check_step(const double[:, ::1] alpha, const double[:, ::1] S, const int32_t[::1] y, const double[::1] c,
                     Py_ssize_t start, Py_ssize_t stop, double[:, ::1] out, int32_t[::1] support) except -1:
    cdef Py_ssize_t n = y.shape[0], K = S.shape[1]
    if not (alpha.shape[0] == out.shape[0] == S.shape[0] == c.shape[0] == support.shape[0] == n
            and alpha.shape[1] == out.shape[1] == K >= 1 and 0 <= start <= stop <= n):
        raise ValueError(f"alpha, S and out must have the same shape (n, K) with n = {n}")
    return 0


def multiclass_step(const double[:, ::1] alpha, const double[:, ::1] S, const int32_t[::1] y, const double[::1] c, cost,
                    double sigma, Py_ssize_t start, Py_ssize_t stop, double[:, ::1] out, int32_t[::1] support):
    """Proximal step of the rows start..stop of a multiclass hinge.

    Parameters
    ----------
    alpha, S : (n, K)
        Multipliers and scores.
    cost : (K, K) float64 array or None
        L; None means the 0/1 loss.
    out : (n, K)
        New multipliers a. Only the rows start..stop are written, as in `support`.
    support : (n,)
        Number of labels with a_ik > 0, or 0 if the truth is the only such label.

    Returns
    -------
    smooth, offset, risk : float
        Sums over the rows of `<a, u> - |a - alpha|^2 / (2 sigma)`, of `<a, L>` and of `c max u`.
    """
    cdef Py_ssize_t i
    cdef int k, truth, count, K = <int>S.shape[1]
    cdef double smooth = 0.0, offset = 0.0, risk = 0.0, base, inner, moved, losses, top, ci, step = 0.5 / sigma
    cdef const double[:, ::1] L
    cdef const double* loss = NULL
    cdef const double* s
    cdef const double* old
    cdef double* new
    cdef double[:, ::1] memory = np.empty((2, K))
    cdef double* u = &memory[0, 0]
    cdef double* v = &memory[1, 0]
    _check_step(alpha, S, y, c, start, stop, out, support)
    if cost is not None:
        L = cost
    with nogil:
        for i in range(start, stop):
            truth, ci = y[i], c[i]
            s, old, new = &S[i, 0], &alpha[i, 0], &out[i, 0]
            base, top = s[truth], 0.0
            if cost is None:
                for k in range(K):
                    u[k] = 1.0 + (s[k] - base)
            else:
                loss = &L[truth, 0]
                for k in range(K):
                    u[k] = loss[k] + (s[k] - base)
            u[truth] = 0.0
            for k in range(K):
                top = max(top, u[k])
                v[k] = old[k] + sigma * u[k]
            count = project(v, K, ci, new)
            risk += ci * top
            if count == 1 and new[truth] > 0.0:
                support[i] = 0
                if old[truth] == ci:
                    continue            # as in most rows, all weight was on the truth and stays there
            else:
                support[i] = count
            inner = moved = losses = 0.0
            for k in range(K):
                inner += new[k] * u[k]
                moved += (new[k] - old[k]) * (new[k] - old[k])
            if cost is None:
                for k in range(K):
                    losses += new[k] if k != truth else 0.0
            else:
                for k in range(K):
                    losses += new[k] * loss[k]
            smooth += inner - step * moved
            offset += losses
    return smooth, offset, risk


def hinge_step(const double[:, ::1] alpha, const double[:, ::1] S, const int32_t[::1] y, const double[::1] c, cost,
               double sigma, Py_ssize_t start, Py_ssize_t stop, double[:, ::1] out, int32_t[::1] support):
    """Proximal step of a binary hinge: `u = 1 - y s` and a in [0, c]. Other arguments are those of `multiclass_step`.

    The support of an example is 0 at a = 0, 1 at a = c, and 2 in between.
    """
    cdef Py_ssize_t i
    cdef double smooth = 0.0, offset = 0.0, risk = 0.0, u, a, step = 0.5 / sigma
    _check_step(alpha, S, y, c, start, stop, out, support)
    with nogil:
        for i in range(start, stop):
            u = 1.0 - y[i] * S[i, 0]
            a = min(max(alpha[i, 0] + sigma * u, 0.0), c[i])
            support[i] = 0 if a <= 0.0 else 1 if a >= c[i] else 2
            smooth += a * u - (a - alpha[i, 0]) * (a - alpha[i, 0]) * step
            offset += a
            risk += c[i] * max(u, 0.0)
            out[i, 0] = a
    return smooth, offset, risk


def plane_step(const Py_ssize_t[::1] start, const double[::1] alpha, const double[::1] u, double sigma,
               double[::1] out, int32_t[::1] support):
    """Proximal step over the planes of all examples, which are numbered example after example.

    Example i has the planes `start[i], ..., start[i + 1] - 1`.

    Parameters
    ----------
    start : (n + 1,)
    alpha, u : (m,)
        Multipliers and values of the planes.
    out : (m,)
    support : (n,)
        Number of planes with a > 0.

    Returns
    -------
    smooth, risk : float
    """
    cdef Py_ssize_t i, first
    cdef int k, K, most = 1
    cdef double smooth = 0.0, risk = 0.0, top, moved, step = 0.5 / sigma
    if not alpha.shape[0] == u.shape[0] == out.shape[0] or start.shape[0] != support.shape[0] + 1:
        raise ValueError("alpha, u and out must have the same shape (m,), start n + 1 entries for n of support")
    for i in range(support.shape[0]):
        if not 0 <= start[i] < start[i + 1] <= u.shape[0]:
            raise ValueError("start must rise within 0..m")
        most = max(most, <int>(start[i + 1] - start[i]))
    cdef double[::1] v = np.empty(most)
    with nogil:
        for i in range(support.shape[0]):
            first, K = start[i], <int>(start[i + 1] - start[i])
            top = u[first]
            for k in range(K):
                top = max(top, u[first + k])
                v[k] = alpha[first + k] + sigma * u[first + k]
            support[i] = project(&v[0], K, 1.0, &out[first])
            moved = 0.0
            for k in range(first, first + K):
                smooth += out[k] * u[k]
                moved += (out[k] - alpha[k]) * (out[k] - alpha[k])
            smooth -= step * moved
            risk += top
    return smooth, risk
