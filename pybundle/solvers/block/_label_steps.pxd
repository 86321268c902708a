# The exact step at one example of a hinge risk, or of a loss of one score, from its scores. The numbers of lines are
# those of `_label_dual.pyx`.

from libc.math cimport fabs
from libc.stdint cimport int32_t

from pybundle.features._rows cimport BLOCK, real
from pybundle.risks._engine cimport Curve, curve_loss, curve_slope, curve_term
from pybundle.solvers.block._label_blocks cimport Example
from pybundle.solvers.newton._proximal_steps cimport project


cdef struct Curvature:       # the curvature of the dual along x_i is |x_i|^2 / s
    double s                 # lam + kappa
    double step              # scale^2 / s: a change of a multiplier by 1 changes the packed W by step X_i


# Returns whether x_i is so close to 0 that changes of W along x_i do not change the scores of example i.
cdef inline bint is_flat(const Curvature* p, const Example* x) noexcept nogil:
    return x.square <= 1e-30 * p.s


# Returns the relative change of a multiplier that rounding alone may cause; W is not updated for smaller changes.
cdef inline double rounding_of(const real* alpha) noexcept nogil:
    return 5e-7 if sizeof(real) == 4 else 1e-15


# Does the step over K labels, all labels or those of a working set; returns whether W is to change. u[k * BLOCK] are
# the scores up to a constant, `top` is their maximum, and `vertex` the position of the label with all weight, or -1. If
# W is to change, coef (K,) becomes its change as multiples of X_i. `top` becomes the score that all labels with a
# multiplier have after the step; without a penalty this is the new maximum. The block gap is added to `total`; scratch
# has 2 K entries.
cdef inline bint step_at(const Curvature* p, int K, Example* x, const real* u, double* top, real* alpha, real* coef,
                         double* scratch, int32_t* vertex, double* total) noexcept nogil:
    cdef int k, support = 0, last = 0
    cdef double* v = scratch
    cdef double* new = scratch + K
    cdef double c = x.c, gap = 0.0, rate, largest = 0.0, change, best = top[0]
    cdef real after
    x.active = c > 0.0
    if is_flat(p, x):           # all weight goes to the best label
        change = c
        for k in range(K):
            gap += alpha[k] * (best - u[k * BLOCK])
            new[k] = 0.0
            if u[k * BLOCK] >= best:
                new[k] = change
                change = 0.0
    else:
        rate = p.s / x.square           # line 3
        for k in range(K):
            gap += alpha[k] * (best - u[k * BLOCK])
            v[k] = alpha[k] - rate * (best - u[k * BLOCK])
        project(v, K, c, new)
    total[0] += gap
    for k in range(K):
        after = <real>new[k]
        if after > 0:
            support += 1
            last = k
        largest = max(largest, fabs(<double>after - <double>alpha[k]))
    top[0] = u[last * BLOCK] - (new[last] - alpha[last]) * x.square / p.s
    k = last if support == 1 else -1
    if k == vertex[0] and largest <= rounding_of(alpha) * c:
        return False
    vertex[0] = k
    for k in range(K):                  # line 4
        after = <real>new[k]
        coef[k] = 0
        if after != alpha[k]:
            change = <double>after - <double>alpha[k]
            coef[k] = <real>(-p.step * change)
            alpha[k] = after
    return True


# Sets the only multiplier of an example unless it changes by rounding alone; returns whether it was set.
cdef inline bint move_multiplier(const Curvature* p, Example* x, real after, real* alpha, real* coef) noexcept nogil:
    cdef double change = <double>after - <double>alpha[0]
    if fabs(change) <= rounding_of(alpha) * max(fabs(after), fabs(alpha[0])):
        return False
    coef[0] = <real>(x.y * p.step * change)
    alpha[0] = after
    return True


# Does the step for the binary hinge; `vertex` becomes 0 if alpha is 0, 1 if alpha is c, and -1 otherwise.
cdef inline bint step_at_binary(const Curvature* p, Example* x, double score, real* alpha, real* coef,
                                double* total) noexcept nogil:
    cdef double c = x.c, u = 1.0 - x.y * score, new
    cdef real after
    total[0] += c * max(u, 0.0) - alpha[0] * u
    if is_flat(p, x):
        new = c if u > 0.0 else 0.0
    else:
        new = min(max(alpha[0] + u * p.s / x.square, 0.0), c)
    after = <real>new
    x.vertex = 0 if after == 0 else 1 if after == <real>c else -1
    x.active = c > 0.0 and (x.vertex < 0 or after != alpha[0])
    return move_multiplier(p, x, after, alpha, coef)


# Returns 0 if beta is at its upper end, 1 at its lower end, 2 at a kink of h at 0, and -1 elsewhere. At the first three
# points beta does not change when the score changes a little.
cdef inline int curve_vertex(const Curve* h, double beta) noexcept nogil:
    return 0 if beta == h.high else 1 if beta == h.low else 2 if beta == 0.0 and h.flat > 0.0 else -1


# Does the exact dual step of an example with the loss `c l(u)`, u = y score - target, whose conjugate is h, a `Curve`.
# Its multiplier is alpha = -c beta; the new beta maximises `beta u - h(beta) - q/2 (beta - old beta)^2`, where
# q = c |x_i|^2 / s.
cdef inline bint step_at_curve(const Curvature* p, const Curve* h, double target, Example* x, double score, real* alpha,
                               real* coef, double* total) noexcept nogil:
    cdef double c = x.c, u = x.y * score - target, q, beta, new
    cdef real after
    if c <= 0.0:
        return False
    beta = -alpha[0] / c
    total[0] += c * max(curve_loss(h, u) - curve_term(h, beta, u), 0.0)
    q = c * x.square / p.s
    if is_flat(p, x):
        beta = curve_slope(h, u)
    else:
        new = q * beta + u - h.linear
        new = new - h.flat if new > h.flat else new + h.flat if new < -h.flat else 0.0
        beta = min(max(new / (q + h.square), h.low), h.high)
    after = <real>(-c * beta)
    x.vertex = curve_vertex(h, beta)
    x.active = x.vertex < 0 or after != alpha[0]
    return move_multiplier(p, x, after, alpha, coef)
