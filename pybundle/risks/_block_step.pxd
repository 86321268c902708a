# The exact step on one block of multipliers, from the scores of its example.

from libc.math cimport fabs
from libc.stdint cimport int32_t

from ..features._rows cimport BLOCK, STEP, real
from ._simplex_rows cimport project


cdef struct Example:         # what a step needs of an example beside x_i and beta_i: half a cache line
    double c
    double square            # |x_i|^2, scale and bias included
    int32_t y
    int32_t vertex           # label of the vertex where beta_i is, -1 elsewhere; binary: 0, 1, -1
    int32_t active
    int32_t spare


cdef struct Point:           # what belongs to W
    int K
    double s                 # lam + kappa, the curvature
    double scale             # of the features
    double bias
    double* base             # (K,) what the bias adds to the scores


cdef inline void highest(const real* S, int K, real* top, bint dense) noexcept nogil:
    # top[r] = max_k S[k * BLOCK + r], of one row where the data are sparse
    cdef int k, r
    if not dense:
        top[0] = S[0]
        for k in range(1, K):
            top[0] = S[k * BLOCK] if S[k * BLOCK] > top[0] else top[0]
        return
    for r in range(STEP):
        top[r] = S[r]
    for k in range(1, K):
        for r in range(STEP):
            top[r] = S[k * BLOCK + r] if S[k * BLOCK + r] > top[r] else top[r]


cdef inline bint move(Point* p, Example* x, const real* u, double top, real* beta, real* coef, double* scratch,
                      double* total) noexcept nogil:
    # block step at u[k * BLOCK] = L(y, k) + <W_k, x> of maximum top, up to a constant; the change of W in coef, the
    # block gap added to total
    cdef int K = p.K, k, support = 0, last = 0
    cdef double* v = scratch
    cdef double* found = scratch + K
    cdef double c = x.c, gap = 0.0, rate, largest = 0.0, step = -p.scale * p.scale / p.s, change
    cdef real after
    x.active = c > 0.0
    if x.square <= 1e-30 * p.s:         # W x stays where it is
        change = c
        for k in range(K):
            gap += beta[k] * (top - u[k * BLOCK])
            found[k] = 0.0
            if u[k * BLOCK] >= top:
                found[k] = change
                change = 0.0
    else:
        rate = p.s / x.square
        for k in range(K):
            gap += beta[k] * (top - u[k * BLOCK])
            v[k] = beta[k] - rate * (top - u[k * BLOCK])
        project(v, K, c, found)
    total[0] += gap
    for k in range(K):
        after = <real>found[k]
        if after > 0:
            support += 1
            last = k
        largest = max(largest, fabs(<double>after - <double>beta[k]))
    k = last if support == 1 else -1
    # rounding alone moves a multiplier by a few units: not worth touching W
    if k == x.vertex and largest <= (5e-7 if sizeof(real) == 4 else 1e-15) * c:
        return False
    x.vertex = k
    for k in range(K):
        after = <real>found[k]
        coef[k] = 0
        if after != beta[k]:
            change = <double>after - <double>beta[k]
            coef[k] = <real>(step * change)
            p.base[k] -= change / p.s * p.bias * p.bias
            beta[k] = after
    return True


cdef inline bint move_binary(Point* p, Example* x, double score, real* beta, real* coef, double* total) noexcept nogil:
    # the same for one score: beta_i in [0, c_i], u = 1 - y <w, x_i>
    cdef double c = x.c, u = 1.0 - x.y * score, found, change
    cdef real after
    total[0] += c * max(u, 0.0) - beta[0] * u
    if x.square <= 1e-30 * p.s:
        found = c if u > 0.0 else 0.0
    else:
        found = min(max(beta[0] + u * p.s / x.square, 0.0), c)
    after = <real>found
    x.vertex = 0 if after == 0 else 1 if after == <real>c else -1
    x.active = c > 0.0 and (x.vertex < 0 or after != beta[0])
    change = <double>after - <double>beta[0]
    if fabs(change) <= (5e-7 if sizeof(real) == 4 else 1e-15) * c:
        return False
    coef[0] = <real>(x.y * p.scale * p.scale / p.s * change)
    p.base[0] += x.y * change / p.s * p.bias * p.bias
    beta[0] = after
    return True
