"""Decides whether H is positive semidefinite up to the rounding of a Gram matrix, and bounds its negative curvature.

In floating point, an entry of A A' that sums K products has an error of about sqrt(K) u sqrt(H_ii H_jj) (Higham, Mary
2019), with the unit roundoff u = eps / 2. So with D = diag(H) no eigenvalue of D^-1/2 H D^-1/2 is below -n sqrt(K) u.
The bound is -256 n eps for K = 2^18 terms added one by one, or for more terms added in blocks, as BLAS does. The
scaling by D makes the bound the same for rows of any size.

If H was centred after it had been computed, every entry has an error of about eps max(D), even in rows of points that
equal the mean. Then H + shift I may be semidefinite for a small shift, which is added to the gap. If the mean of the
data is far larger than their spread, centring H loses more digits, and the data must be centred instead.
"""

import numpy as np
from scipy.linalg import lapack

from pybundle.core.exceptions import ParameterError

SUMS = 256.0
LARGEST_FACTOR = 2000


def rounding(n, kind):
    """Return the relative error of a Gram matrix of n rows that was computed in the type `kind`."""
    return min(SUMS * n * float(np.finfo(kind).eps), 2.0**-4)


def needed_shift(H, f, kind, is_bounded=True, met=0.0):
    """Return a shift for which H + shift I is semidefinite up to rounding; ParameterError if it is too large.

    Rounding in `kind` explains a shift of 256 n eps max(D). If no entry of D is positive (a centred constant), max |f|
    takes the place of max(D). If variables are unbounded, no shift is allowed. Up to n = 2000 a pivoted Cholesky factor
    decides whether a matrix is semidefinite, for larger n a test of all pairs of variables. The shift is at least
    -met max(D), because a direction d with d'Hd = met max(D) d'd has been found.
    """
    largest = max(float(H.diagonal().max()), 0.0)
    explained = rounding(len(H), kind) * (largest or float(np.abs(f).max())) if is_bounded else 0.0
    peak, tiny = max(float(H.max()), -float(H.min())), float(np.finfo(kind).tiny)
    shift, failed, first = -met * largest, -met * largest, max(float(np.finfo(kind).eps) * peak, tiny)
    # The last argument is the least diagonal entry that counts: rows whose squares underflow in `kind` count as zero.
    while shift < np.inf and not _is_semidefinite(H, shift, rounding(len(H), kind), max(2.0**-100 * peak, tiny)):
        failed, shift = shift, max((4.0 if shift < explained else 256.0) * shift, first)
    if shift > explained:
        raise ParameterError(f"H must be positive semidefinite, got a direction d with d'Hd = -{failed:.3g} d'd or less"
                             f"; pass A @ A.T of centred A in float64, or add at least {shift:.2g} to the diagonal")
    return shift


def _is_semidefinite(H, shift, allowed, least):
    diagonal = H.diagonal() + shift
    size = np.sqrt(np.maximum(diagonal, least))
    C = H / size
    C /= size[:, None]
    np.fill_diagonal(C, diagonal / size**2)
    if len(H) > LARGEST_FACTOR:
        return max(float(np.abs(row).max()) for row in C) <= 1.0 + allowed
    C.flat[::len(H) + 1] += allowed
    return lapack.dpstrf(C.T, overwrite_a=True)[2] == len(H)
