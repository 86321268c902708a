"""Search for the weight alpha of the centre, in Gram space: no vector of length dim is read.

With centre c, `products[j] = <a_j, c>`, `s = lam + 2 alpha`, and `h = H beta` of the solution of the master,

    w = (2 alpha c - A' beta) / s
    |w - c|^2 = (lam^2 |c|^2 + 2 lam <beta, products> + <beta, h>) / s^2

so each trial alpha costs one small QP (Uricar, Franc, Hlavac 2013, eqs 10-13).
"""

from libc.math cimport sqrt


cpdef double step_norm(double lam, double alpha, const double[::1] beta, const double[::1] h,
                       const double[::1] products, double centre_norm2) noexcept:
    """Return `|w(alpha) - c|`; a square that rounding makes negative counts as 0."""
    cdef double square = lam * lam * centre_norm2, s = lam + 2.0 * alpha
    cdef Py_ssize_t j
    with nogil:
        for j in range(beta.shape[0]):
            if beta[j] != 0.0:
                square += beta[j] * (2.0 * lam * products[j] + h[j])
    return sqrt(max(square, 0.0)) / s


def least_alpha(solve, double lam, double radius, double start, const double[::1] products,
                double centre_norm2, int max_doublings=60):
    """Return the least alpha of the grid 0, 1, 2, 4, ... with `|w(alpha) - c| <= radius`, and two solutions.

    The distance decreases in alpha, so the search goes up or down from `start`, a point of the grid.

    Parameters
    ----------
    solve : callable
        `solve(alpha)` returns a solution of the master with fields `beta`, `h`; it may start from an earlier solution.

    Returns
    -------
    alpha : float
    solution
        The solution of the master at alpha.
    plain
        The solution of the master at alpha = 0, which the stopping rule needs.
    """
    plain = solve(0.0)
    if step_norm(lam, 0.0, plain.beta, plain.h, products, centre_norm2) <= radius:
        return 0.0, plain, plain
    cdef double alpha = max(start, 1.0)
    solution = solve(alpha)
    if step_norm(lam, alpha, solution.beta, solution.h, products, centre_norm2) > radius:
        for _ in range(max_doublings):
            alpha *= 2.0
            solution = solve(alpha)
            if step_norm(lam, alpha, solution.beta, solution.h, products, centre_norm2) <= radius:
                break
        return alpha, solution, plain
    while alpha > 1.0:
        shorter = solve(0.5 * alpha)
        if step_norm(lam, 0.5 * alpha, shorter.beta, shorter.h, products, centre_norm2) > radius:
            break
        alpha, solution = 0.5 * alpha, shorter
    return alpha, solution, plain
