"""Solves the d equations of a Newton system by m other equations if there are m < d rows [Woodbury 1950]."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

SMALL = 1e-4    # entries of D below SMALL times their median are not inverted: 1/D would dominate the sum S


def wide_solver(A, Q, D):
    """Return a function that solves `(D + A'QA) x = b` for A (m, d) with m < d. Few entries of D may be 0.

    Let k = QAx, let f be the columns with small entries of D, and p all others. With S = A_p D_p^-1 A_p' + 1/Q:

        S k = A_p D_p^-1 b_p + A_f x_f,    A_f' k + D_f x_f = b_f

    One step of iterative refinement reduces the rounding errors that the inverses cause.
    """
    m, least = len(A), SMALL * np.median(D)
    is_small = D <= min(least, np.partition(D, m - 1)[m - 1])
    f, p = np.flatnonzero(is_small), np.flatnonzero(~is_small)
    B, Z, inverse = A[:, p], A[:, f], 1.0 / D[p]
    S = cho_factor((B * inverse) @ B.T + np.diag(1.0 / Q), check_finite=False)
    Y = cho_solve(S, Z, check_finite=False)
    schur = cho_factor(Z.T @ Y + np.diag(D[f]), check_finite=False) if len(f) else None

    def plain(b):
        x, k = np.zeros(len(b)), cho_solve(S, B @ (inverse * b[p]), check_finite=False)
        if schur is not None:
            x[f] = cho_solve(schur, b[f] - Z.T @ k, check_finite=False)
            k += Y @ x[f]
        x[p] = inverse * (b[p] - B.T @ k)
        return x

    def solve(b):
        x = plain(b)
        return x + plain(b - D * x - A.T @ (Q * (A @ x)))

    return solve
