"""Whether H is positive semidefinite, but for the rounding of a Gram matrix.

An entry of A A' that sums K products is off by about sqrt(K) u sqrt(H_ii H_jj) in floating point (Higham, Mary 2019).
So with D = diag(H) no eigenvalue of D^-1/2 H D^-1/2 is below -n sqrt(K) u: that is -256 n eps for K = 2^18 terms added
one by one, and more in blocks, as BLAS does. Scaled this way, rows of any size count alike.
"""

import numpy as np
from scipy.linalg import eigvalsh, lapack

from pybundle.core.exceptions import ParameterError

SUMS = 256.0
LARGEST_FACTOR = 2000


def refuse_indefinite(H, kind, met=0.0):
    """Raise ParameterError for a matrix of a negative curvature that rounding in the type `kind` does not explain.

    The curvature d'Hd / d'Dd is `met` if it is negative; else that of pairs d, and up to n = 2000 the least one, which
    is looked for only if a pivoted Cholesky factor ends early.
    """
    n = len(H)
    if met == 0.0 and n <= LARGEST_FACTOR:
        C = _scaled(H, kind)
        C.flat[::n + 1] += _allowed(n, kind)
        if lapack.dpstrf(C.T, overwrite_a=True)[2] == n:
            return
        C = np.clip(_scaled(H, kind), -2.0, 2.0)        # larger ones only say more of the same
        met = float(eigvalsh(0.5 * (C + C.T), subset_by_index=[0, 0])[0])
    elif met == 0.0:
        met = 1.0 - max(float(np.abs(row).max()) for row in _scaled(H, kind))
    if met < -_allowed(n, kind):
        raise ParameterError(f"H must be positive semidefinite, got a direction d with d'Hd = {met:.3g} d'Dd, D the "
                             f"diagonal; pass A @ A.T computed in float64, or multiply D by {1.0 - met:.4g} or more")


def _allowed(n, kind):
    return SUMS * n * float(np.finfo(kind).eps)


def _scaled(H, kind):
    """D^-1/2 H D^-1/2; what underflows in `kind` is none of its rows."""
    diagonal = H.diagonal()
    size = np.sqrt(np.maximum(diagonal, max(2.0**-100 * diagonal.max(), float(np.finfo(kind).tiny))))
    C = H / size
    C /= size[:, None]
    return C

