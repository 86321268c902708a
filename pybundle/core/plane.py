"""Planes `offset + <slope, w>`, the affine lower bounds of a convex risk, with bounds on their rounding errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from ..core.types import Array, Floats
from .exceptions import OracleError
from .rounding import UNIT, norm


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane below a convex risk: `R(v) >= offset - offset_error + <slope, v>` for all v, up to `slope_error |v|`.

    Attributes
    ----------
    offset : float
        For an aggregate with multipliers beta: `sum_j beta_j b_j`.
    slope : ndarray, shape (dim,)
        float64; for an aggregate `sum_j beta_j a_j`.
    slope_error : float or ndarray, shape (dim,)
        Bound on the rounding error of the slope: a number bounds its Euclidean norm, an array bounds its entries in the
        `Coordinates` of the problem.
    offset_error : float
        Bound on the rounding error of the offset; absolute, unlike those of `Planes`.

    Examples
    --------
    In one dimension |v| lies above 0 + <1, v>, a plane without rounding:

    >>> import numpy as np
    >>> from pybundle.methods import Plane
    >>> plane = Plane(0.0, np.array([1.0]))
    >>> plane.slope_error, plane.offset_error
    (0.0, 0.0)
    """

    offset: float
    slope: Any
    slope_error: Any = 0.0
    offset_error: float = 0.0


def combined(first: Plane, second: Plane, w: Array, lam: float) -> Plane:
    """Return the convex combination of two planes that proves the largest bound with the penalty `lam/2 |w|^2`; O(dim).

    With w the minimiser of penalty plus first plane, `first + theta (second - first)` proves what the first plane does
    and `theta (b + <a, w>) - theta^2 |a|^2 / (2 lam)` more, b and a the differences of offsets and slopes; with signs
    of weights at least that much. The errors count the rounding of the sums.
    """
    step = second.slope - first.slope
    gain, curvature = second.offset - first.offset + float(step @ w), float(step @ step)
    theta = min(lam * gain / curvature, 1.0) if gain > 0.0 and curvature > 0.0 else float(gain > 0.0)
    if theta in (0.0, 1.0):
        return second if theta else first
    error = max(norm(first.slope_error), norm(second.slope_error))
    error += 4.0 * UNIT * (norm(first.slope) + theta * norm(second.slope))
    offset_error = max(first.offset_error, second.offset_error)
    offset_error += 4.0 * UNIT * (abs(first.offset) + theta * abs(second.offset))
    step *= theta
    step += first.slope
    return Plane(first.offset + theta * (second.offset - first.offset), step, error, offset_error)


class Planes(NamedTuple):
    """One plane per part of a risk, computed at one point w.

    `R_p(v) >= offsets[p] + <slopes[p], v>` for all v, with equality at v = w up to rounding.

    Attributes
    ----------
    values : ndarray, shape (P,)
        `R_p(w)`, sums over the examples of a part.
    offsets : ndarray, shape (P,)
        Sums of losses if the risk can compute these; they lose no digits by cancellation.
    slopes : ndarray or csr_array, shape (P, dim)
        float64; C-contiguous when dense. Owned by the receiver.
    slope_errors, offset_errors : ndarray, shape (P,), or None
        Bounds on the rounding error of each slope (Euclidean norm) and offset (relative). None means that the bounds of
        the risk apply, see `core.protocols.with_errors`.
    origin : int
        Index of w in the `Record` of a run with evidence, else -1.
    """

    values: np.ndarray
    offsets: np.ndarray
    slopes: Any
    slope_errors: Any = None
    offset_errors: Any = None
    origin: int = -1

    def dot(self, w: ArrayLike) -> Floats:
        """Return `<slopes[p], w>` for every part, shape (P,).

        Products are computed one part at a time: in a product of all rows at once, the bits of a part would depend on
        the others. A product that overflows is infinite or NaN.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if issparse(self.slopes):
                return np.asarray(self.slopes @ w).ravel()
            return np.array([slope @ w for slope in self.slopes])

    def last_entries(self) -> Floats:
        """Return the last entry of every slope, shape (P,)."""
        last = self.slopes[:, [-1]]
        return (last.toarray() if issparse(last) else np.asarray(last)).ravel()

    @classmethod
    def from_subgradients(cls, values: ArrayLike, slopes: Any, w: ArrayLike) -> Planes:
        """Return planes of a general convex risk: `offset = R_p(w) - <slope, w>`, lowered by a bound of its rounding.

        The offset is lowered because a plane must lie below the risk, and the difference loses digits if `|slope| |w|`
        is large. Dense products are summed pairwise, with an error of at most
        `(log2 d + 25) 2^-53 sum_j |slope_j w_j|`; for CSR the number of entries of the row replaces `log2 d + 25`.
        """
        values, w = (np.asarray(given, dtype=np.float64) for given in (values, w))
        if values.ndim != 1 or np.shape(slopes) != (len(values), len(w)):
            raise OracleError(f"evaluate of the risk must return values (P,) and slopes (P, dim) for dim = {len(w)}, "
                              f"got shapes {values.shape} and {np.shape(slopes)}")
        if issparse(slopes):
            rows = slopes.tocsr()
            sizes = csr_array((np.abs(rows.data), rows.indices, rows.indptr), shape=rows.shape)
            inner, size, terms = slopes @ w, sizes @ np.abs(w), np.diff(rows.indptr) + 2.0
        else:
            products = np.multiply(slopes, w, dtype=np.float64, order="C")
            inner, terms = products.sum(axis=1), np.log2(products.shape[1]) + 25.0
            size = np.abs(products, out=products).sum(axis=1)
        offsets = values - inner
        return cls(values, offsets - UNIT * (1.01 * terms * size + 2.0 * np.abs(offsets)), slopes)

    def density(self) -> float:
        """Return the fraction of slope entries that are not zero."""
        rows, dim = self.slopes.shape
        count = self.slopes.nnz if issparse(self.slopes) else np.count_nonzero(self.slopes)
        return count / max(1, rows * dim)
