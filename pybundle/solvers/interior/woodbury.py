"""The Newton system of the interior point method where columns outnumber rows: n equations [Woodbury 1950]."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

SMALL = 1e-4    # entries of D below this times the median are small: their inverses would swamp all others


def wide_solver(A, Q, D):
    """Return a function that solves `(D + A'QA) x = b` for A (m, d) with m < d; D is 0 for few columns only.

    With k = QAx, columns f of small D and all others p, S = A_p D^-1 A_p' + 1/Q:

        S k = A_p D^-1 b_p + A_f x_f,    A_f' k + D x_f = b_f

    A second solve, for the residual, corrects what the inverses lose.
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
