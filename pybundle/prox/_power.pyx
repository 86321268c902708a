"""Equations with powers for the prox of lq norms: find b >= 0 with b + s b^(q-1) = a, for a, s >= 0 and q > 1.

In units of min(a, (a/s)^(1/(q-1))) the equation is A v + B v^(q-1) = 1 with max(A, B) = 1, so 0 < v <= 1 and nothing
overflows. The left side is convex in v for q >= 2, and in v^(q-1) for q < 2. In that variable Newton's method decreases
from 1 to the root without passing it, in about five steps.
"""

from libc.math cimport INFINITY, exp, fabs, log, pow, sqrt

cdef enum:
    STEPS = 100
# If s a^(q-2) is outside this range, its logarithm is used, which is less accurate but does not overflow.
cdef double LEAST = 1e-290, LARGEST = 1e290, LOWEST = 1e-300
cdef double ROUNDING = 2.0**-53


cdef double _unit_root(double A, double B, double q) noexcept nogil:
    # Returns v in (0, 1] with A v + B v^(q-1) = 1, for A + B >= 1.
    cdef bint convex = q >= 2.0
    cdef double r = q - 1.0 if convex else 1.0 / (q - 1.0)
    cdef double high = B if convex else A, low = A if convex else B     # high z^r + low z = 1
    cdef double z = 1.0, power, step
    cdef int _
    for _ in range(STEPS):
        power = high * pow(z, r - 1.0)
        step = (power * z + low * z - 1.0) / (r * power + low)
        z -= step
        if step <= ROUNDING * z:
            break
    return z if convex else pow(z, r)


cdef double power_root(double a, double s, double q) noexcept nogil:
    cdef double kappa, exponent = -1.0 / (q - 1.0), A, power
    if a == 0.0 or s == 0.0:
        return a
    kappa = s * pow(a, q - 2.0)
    if LEAST < kappa < LARGEST:
        if kappa <= 1.0:
            return a * _unit_root(1.0, kappa, q)
        A = pow(kappa, exponent)
        # with kappa A^(q-1) in place of its exact value 1, the rounding error of A cancels
        return a * A * _unit_root(A, kappa * pow(A, q - 1.0), q) if A > 0.0 else 0.0
    kappa = log(s) + (q - 2.0) * log(a)
    if kappa <= 0.0:
        return a * _unit_root(1.0, exp(kappa), q)
    A = exp(exponent * kappa)
    power = s * pow(a * A, q - 1.0) / a
    return a * A * _unit_root(A, power if 0.5 < power < 2.0 else 1.0, q)


def power_roots(const double[::1] a, const double[::1] s, double q, double[::1] out):
    """Solve `out_i + s_i out_i^(q-1) = a_i`; s has one entry, or an entry for each of a."""
    cdef Py_ssize_t i, step = s.shape[0] > 1
    with nogil:
        for i in range(a.shape[0]):
            out[i] = power_root(a[i], s[i * step], q)


def mixed_norm_root(const double[::1] a, double t, double q, double tol, double[::1] out):
    """Solve `out + t B^(2-q) out^(q-1) = a` with B = |out|_q.

    With beta = out / B every entry solves `beta + t beta^(q-1) = a / B`, and B is such that |beta|_q = 1. The logarithm
    of `sum beta^q` decreases in log B with slopes between -q and -q / (q - 1), so Newton's method in logarithms needs
    few steps; a bracket safeguards them.

    Parameters
    ----------
    a : (n,)
        Numbers with the norm |a|_q = 1, so that B <= 1.
    tol : float
        Allowed relative error of B.
    """
    cdef Py_ssize_t i, n = a.shape[0]
    cdef int _
    cdef double B, beta, power, total, slope, move, low, high = 1.0
    # 1 / B = |a / B|_q <= 1 + t |beta^(q-1)|_q <= 1 + t n^max(0, 2/q - 1)
    low = B = max(1.0 / (1.0 + t * (pow(<double>n, 2.0 / q - 1.0) if q < 2.0 else 1.0)), LOWEST)
    with nogil:
        for _ in range(STEPS):
            total = slope = 0.0
            for i in range(n):
                beta = power_root(a[i] / B, t, q)
                out[i] = beta
                if beta > 0.0:
                    power = t * pow(beta, q - 1.0)
                    beta = pow(beta, q)
                    total += beta
                    slope += beta * ((out[i] + power) / (out[i] + (q - 1.0) * power))
            # if a power overflows, `move` is infinite or NaN, and the bracket is halved
            move = log(total) * (total / slope) / q if slope > 0.0 else -INFINITY
            if total >= 1.0:
                low = B
            else:
                high = B
            if fabs(move) <= tol:
                break
            B *= exp(move)
            if not low <= B <= high:
                B = sqrt(low) * sqrt(high)
                if high <= low * (1.0 + tol):
                    break
        for i in range(n):
            out[i] *= B
