"""Newton directions of the augmented Lagrangian, by conjugate gradients with a preconditioner, or by a factorisation.

    (lam I + sigma A'A) d = -g,      A has one row for every direction of every face

Far from the solution there are many faces, and the diagonal is a good preconditioner (Jacobi). Near the solution sigma
is large and faces are few. Then the preconditioner comes from a Cholesky factor of the small matrix
`(lam / sigma) I + A A'`, which gives the inverse of the large matrix up to rounding (Woodbury). If there are few
weights, the large matrix itself is factored, which works for columns of any scale.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ...core.kept import Kept

LARGEST_RANK = 6000
"""Maximum order of the small matrix, if it is to be factored: 150 MB in float32."""
FEW = 2000
"""Maximum order of the large matrix, if it is to be factored: 32 MB."""
EXACT = 8.0
"""The large matrix is factored if that costs less than this many times the small factor. Its factor is float64, and
works where columns of unequal scale make Jacobi slow and float32 products inaccurate."""
PAYS_OFF = 8.0
"""Speed of a factorisation in operations per second, divided by the speed of products of the operator."""
TOO_ROUGH = 20
"""If conjugate gradients with a small factor need more iterations than this, later factors are float64."""


class NewtonDirection(Kept):
    """The solver of the Newton systems of a run; it remembers whether the last system was solved with a factor.

    Parameters
    ----------
    lam : float
    row_size : float
        Mean number of entries of a row of X that a product reads.
    largest_rank, max_iter : int
        Maximum order of a factored matrix, and maximum number of products.
    """

    kept = "_spent", "_last", "_factored", "_kind"

    def __init__(self, lam, row_size, largest_rank=LARGEST_RANK, max_iter=60):
        self.lam, self.largest_rank, self.max_iter = lam, largest_rank, max_iter
        self._row_size = row_size
        self._spent, self._last, self._factored = 0, 0, False
        self._kind = np.float32

    def restart(self):
        """Begin a new subproblem, on which no products have been spent."""
        self._spent = 0

    def __call__(self, faces, gradient, sigma, tol):
        """Return d, with `|H d + g| <= tol |g|` if `max_iter` products suffice, and the number of products."""
        is_whole, self._factored = self._choice(faces, len(gradient))
        direction = self._solution(faces, sigma, gradient) if self._factored and is_whole else None
        if direction is not None:
            return direction, 1
        precondition = self._factor(faces, sigma) if self._factored and not is_whole else None
        if precondition is None:
            with np.errstate(over="ignore"):                    # infinite curvature gives a step of 0
                diagonal = self.lam + sigma * faces.diagonal()
            precondition = lambda r: r / diagonal                                                   # noqa: E731
        direction, n_products = conjugate_gradients(
            lambda v: self.lam * v + sigma * faces.product(v), gradient, precondition, tol, self.max_iter)
        self._last = n_products
        self._spent += n_products
        if self._factored and n_products > TOO_ROUGH:
            self._kind = np.float64
        return direction, n_products

    def _choice(self, faces, dim):
        # Returns whether to take the large matrix, and whether to factor at all. The small matrix is factored once the
        # products of this subproblem have cost as much as the factor, the large one once the products of the last
        # direction have cost as much. All later directions use a factor, since faces get fewer and sigma larger.
        rank, size, factor, whole = float(faces.rank), self._row_size, np.inf, np.inf
        if faces.fraction == 1.0 and rank <= self.largest_rank:
            factor = rank * rank * (size + rank / 3.0)
        if dim <= min(FEW, self.largest_rank):
            whole = dim * dim * (0.5 * faces.n_rows + dim / 3.0)
        unit = PAYS_OFF * 4.0 * (rank + faces.n_rows) * size
        has_paid = factor <= self._spent * unit or whole <= self._last * unit
        return whole < EXACT * factor, min(whole, factor) < np.inf and (self._factored or has_paid)

    def _solution(self, faces, sigma, gradient):
        # factors the large matrix, which is float64; products of the operator may use float32 scores
        with np.errstate(over="ignore", invalid="ignore"):
            H = faces.matrix()
            H *= sigma
        H.flat[::len(H) + 1] += self.lam
        try:
            return cho_solve(cho_factor(H.T, overwrite_a=True), -gradient)
        except (LinAlgError, ValueError):       # the matrix is not finite
            return None

    def _factor(self, faces, sigma):
        for kind in (self._kind, np.float64):
            with np.errstate(over="ignore", invalid="ignore"):      # if float32 overflows, the diagonal is infinite
                X, Q = faces.directions(kind)
                H = X @ X.T
                H = H.toarray() if sp.issparse(H) else H
                for start in range(0, len(H), 512):             # so Q Q' is never stored as a whole
                    H[start:start + 512] *= Q[start:start + 512] @ Q.T
                H.flat[::len(H) + 1] += self.lam / sigma
            if not np.isfinite(H.diagonal()).all():
                self._kind = np.float64
                continue
            try:
                factor = cho_factor(H.T, overwrite_a=True, check_finite=False)
            except LinAlgError:
                self._kind = np.float64
                continue
            return lambda r: self._woodbury(X, Q, factor, r)
        return None

    def _woodbury(self, X, Q, factor, r):
        V = r.reshape(Q.shape[1], -1).astype(Q.dtype)
        z = cho_solve(factor, np.einsum("ek,ek->e", X @ V.T, Q), check_finite=False)
        back = X.T @ (Q * z[:, None])
        return (r - np.ascontiguousarray(back.T).ravel()) / self.lam


@np.errstate(over="ignore", invalid="ignore")
def conjugate_gradients(product, gradient, precondition, tol, max_iter):
    """Return d with `|H d + g| <= tol |g|`, or the iterate after `max_iter` products of H, and the number of products.

    d is always a descent direction. The iterations end at a product that overflows.
    """
    d, r = np.zeros_like(gradient), -gradient
    z = precondition(r)
    p, rz, goal = z.copy(), float(r @ z), tol * float(np.linalg.norm(gradient))
    for k in range(1, max_iter + 1):
        q = product(p)
        curvature = float(p @ q)
        if not 0.0 < curvature < np.inf or not 0.0 < rz < np.inf:
            return d if k > 1 else r, k
        step = rz / curvature
        d += step * p
        r -= step * q
        if float(np.linalg.norm(r)) <= goal:
            break
        z = precondition(r)
        rz, before = float(r @ z), rz
        p *= rz / before
        p += z
    return d, k
