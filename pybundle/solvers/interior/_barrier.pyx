"""The loops over rows of the interior point method, see `barrier.py`: Newton system, directions, complementarity.

    row i:  max(lo_i r_i, hi_i r_i) = min hi_i u_i - lo_i v_i,  u, v >= 0, u - v = r;   multiplier lo_i <= a_i <= hi_i
    target of a Newton step:  u (hi - a) = mu,  v (a - lo) = mu,  u - v = r

The corrections of second order are the products of the predictor's directions, which `da`, `du`, `dv` hold; zeros at
the predictor itself.
"""

cdef double LEAST = 1e-15       # of the width of a box: no multiplier is closer to an end, so that quotients are finite


cdef inline double room(double x, double width) noexcept nogil:
    return max(x, LEAST * width)


def weigh(const double[::1] r, const double[::1] a, const double[::1] u, const double[::1] v, const double[::1] lo,
          const double[::1] hi, double mu, const double[::1] da, const double[::1] du, const double[::1] dv,
          double[::1] Q, double[::1] t):
    """Set Q and t such that the step of the multipliers is `da = Q (t - dr)` for a change dr of the scores."""
    cdef Py_ssize_t i, n = r.shape[0]
    cdef double p, m
    with nogil:
        for i in range(n):
            p, m = 1.0 / room(hi[i] - a[i], hi[i] - lo[i]), 1.0 / room(a[i] - lo[i], hi[i] - lo[i])
            Q[i] = 1.0 / (u[i] * p + v[i] * m)
            t[i] = r[i] - (mu + da[i] * du[i]) * p + (mu - da[i] * dv[i]) * m


def directions(const double[::1] scores, const double[::1] a, const double[::1] u, const double[::1] v,
               const double[::1] lo, const double[::1] hi, double mu, double[::1] da, double[::1] du, double[::1] dv,
               const double[::1] Q, const double[::1] t):
    """Replace da, du, dv by the step for changes of the scores; return the longest steps of a and of (u, v), at most 1.
    """
    cdef Py_ssize_t i, n = a.shape[0]
    cdef double p, m, d, first, second, dual = 1.0, primal = 1.0
    with nogil:
        for i in range(n):
            p, m = 1.0 / room(hi[i] - a[i], hi[i] - lo[i]), 1.0 / room(a[i] - lo[i], hi[i] - lo[i])
            d = Q[i] * (t[i] - scores[i])
            first = (mu + da[i] * du[i] + u[i] * d) * p - u[i]
            second = (mu - da[i] * dv[i] - v[i] * d) * m - v[i]
            da[i], du[i], dv[i] = d, first, second
            dual = max(dual, max(d * p, -d * m))
            primal = max(primal, max(-first / u[i], -second / v[i]))
    return 1.0 / dual, 1.0 / primal


def complementarity(const double[::1] a, const double[::1] u, const double[::1] v, const double[::1] lo,
                    const double[::1] hi, const double[::1] da, const double[::1] du, const double[::1] dv,
                    double dual, double primal):
    """Return `sum_i u_i (hi_i - a_i) + v_i (a_i - lo_i)` after steps of these lengths."""
    cdef Py_ssize_t i, n = a.shape[0]
    cdef double x, total = 0.0
    with nogil:
        for i in range(n):
            x = a[i] + dual * da[i]
            total += (u[i] + primal * du[i]) * (hi[i] - x) + (v[i] + primal * dv[i]) * (x - lo[i])
    return total
