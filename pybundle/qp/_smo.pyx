"""Pairwise steps on a QP over a product of simplices, with second-order selection of the pair.

One step moves weight tau from v to u, two variables of one part:

    u = argmin g,   tau = min(x_v, (g_v - g_u) / D),   D = scale (Q_uu - 2 Q_uv + Q_vv),
    v = argmax (g_v - g_u) tau - D tau^2 / 2.

This is SMO with the choice of Fan, Chen, Lin 2005 ("Working set selection using second order information"), made exact
for a step that is clipped at x_v. The zero plane of a part counts as a variable whose row of Q is zero. A variable
without a sum has no partner: it makes a Newton step of its own, clipped at 0.
"""

from libc.math cimport fabs

cdef extern from "_kernels.h" nogil:
    void pb_shift(int n, double step, const double* up, const double* down, double* g)

# A smaller weight is a rounding error and becomes 0: planes are dropped only after weights of exactly 0 for some time.
cdef double CRUMB = 1e-15
# Least curvature D of a pair, as a fraction of scale (Q_uu + Q_vv).
cdef double CURVATURE_FLOOR = 1e-12


cdef Py_ssize_t smo(int n, const double* Q, int ldq, double scale, double* g, double* x, int n_parts,
                    const int* start, double* rest, const unsigned char* has_slack, double tol,
                    Py_ssize_t max_steps, double* gap) noexcept nogil:
    cdef Py_ssize_t steps = 0
    cdef double share = tol / (3.0 * (n_parts + 1)), total, part_gap
    cdef int p, repeat
    cdef bint moved = True
    while moved:
        total = 0.0
        moved = False
        for p in range(n_parts):
            for repeat in range(3):
                part_gap = _pair_step(n, Q, ldq, scale, g, x, start[p], start[p + 1], &rest[p],
                                      has_slack[p], share, steps < max_steps)
                if repeat == 0:
                    total += part_gap
                if part_gap <= share or steps >= max_steps:
                    break
                steps += 1
                moved = True
        if start[n_parts] < n:
            total += _newton_steps(n, Q, ldq, scale, g, x, start[n_parts], share, max_steps, &steps, &moved)
        if total <= tol or steps >= max_steps:
            break
    gap[0] = total
    return steps


cdef double _pair_step(int n, const double* Q, int ldq, double scale, double* g, double* x, int low, int high,
                       double* rest, bint has_slack, double share, bint move) noexcept nogil:
    """Make one step in the part low..high - 1 unless its gap is at most `share`; return its gap before the step."""
    cdef int u = -1, v = -1, j
    cdef double g_u, part_gap = 0.0, drop, den, tau, gain, best = 0.0, best_tau = 0.0, q_uu = 0.0, floor
    cdef const double* row = NULL
    if has_slack:
        g_u = 0.0
    elif high > low:
        g_u = g[low]
        u = low
    else:
        return 0.0
    for j in range(low, high):
        if g[j] < g_u:
            g_u = g[j]
            u = j
    for j in range(low, high):
        part_gap += x[j] * (g[j] - g_u)
    if has_slack:
        part_gap -= rest[0] * g_u
    if part_gap <= share or not move:
        return part_gap
    if u >= 0:
        row = Q + <Py_ssize_t>u * ldq
        q_uu = row[u]
    for j in range(low, high):
        if x[j] <= 0.0 or g[j] <= g_u:
            continue
        drop = g[j] - g_u
        den = Q[<Py_ssize_t>j * ldq + j] + q_uu
        floor = CURVATURE_FLOOR * den
        if row != NULL:
            den -= 2.0 * row[j]
        den = scale * (den if den > floor else floor)
        tau = x[j]
        if drop < tau * den:
            tau = drop / den
        gain = drop * tau - 0.5 * den * tau * tau
        if gain > best:
            best = gain
            best_tau = tau
            v = j
    if has_slack and u >= 0 and rest[0] > 0.0:
        drop = -g_u
        den = scale * q_uu
        tau = rest[0]
        if drop < tau * den:
            tau = drop / den
        gain = drop * tau - 0.5 * den * tau * tau
        if gain > best:
            best = gain
            best_tau = tau
            v = -1
    if best <= 0.0:
        return part_gap
    tau = best_tau
    if v >= 0:
        if x[v] - tau <= CRUMB:
            tau = x[v]
            x[v] = 0.0
        else:
            x[v] -= tau
    else:
        if rest[0] - tau <= CRUMB:
            tau = rest[0]
            rest[0] = 0.0
        else:
            rest[0] -= tau
    if u >= 0:
        x[u] += tau
    else:
        rest[0] += tau
    pb_shift(n, scale * tau, row, Q + <Py_ssize_t>v * ldq if v >= 0 else NULL, g)
    return part_gap


cdef double _newton_steps(int n, const double* Q, int ldq, double scale, double* g, double* x, int low,
                          double share, Py_ssize_t max_steps, Py_ssize_t* steps, bint* moved) noexcept nogil:
    """Make a step in each variable without a sum, from `low` on; return the sum of their gaps before the steps."""
    cdef int j
    cdef double total = 0.0, gap, den, tau
    share /= n - low
    for j in range(low, n):
        den = scale * Q[<Py_ssize_t>j * ldq + j]
        if g[j] >= 0.0:
            gap = g[j] * x[j]
            tau = -x[j] if g[j] >= x[j] * den else -g[j] / den
        elif den > 0.0:
            gap = fabs(g[j]) * max(x[j], fabs(g[j]) / den)
            tau = -g[j] / den
        else:
            continue
        total += gap
        if gap <= share or tau == 0.0 or steps[0] >= max_steps:
            continue
        x[j] += tau
        pb_shift(n, scale * tau, Q + <Py_ssize_t>j * ldq, NULL, g)
        steps[0] += 1
        moved[0] = True
    return total
