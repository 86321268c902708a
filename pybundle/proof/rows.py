"""Linear constraints of a certificate, `A w <= upper`, and their multipliers y >= 0.

For all w that meet the constraints, `R(w) >= offset + <phi, w> >= (offset - y'upper) + <phi + A'y, w>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.kept import check_array
from . import exact as ex
from .plane import UNIT, ProvenPlane

MEETS = 1e-10       # a point meets a row if the violation is at most this fraction of the sizes of the terms


@dataclass(frozen=True, eq=False)
class Rows:
    """Linear constraints and multipliers.

    Attributes
    ----------
    A : csr_array, shape (m, dim)
    upper, multipliers : ndarray, shape (m,)
    """

    A: Any
    upper: np.ndarray
    multipliers: np.ndarray

    def arrays(self) -> Any:
        """Return the named arrays for a file."""
        return {"A_data": self.A.data, "A_indices": self.A.indices, "A_indptr": self.A.indptr, "row_bounds": self.upper,
                "row_multipliers": self.multipliers}

    @classmethod
    def from_arrays(cls, arrays: Any, dim: int) -> Any:
        """Make the object from the result of `arrays`."""
        data, indices, indptr, upper, multipliers = (arrays.pop(name) for name in (
            "A_data", "A_indices", "A_indptr", "row_bounds", "row_multipliers"))
        A = sp.csr_array((data, indices, indptr), shape=(len(upper), dim))
        A.check_format(full_check=True)
        return cls(A, upper, multipliers)

    def check(self, dim: int) -> None:
        """Raise ValueError if the arrays cannot be constraints."""
        m = len(self.upper)
        if self.A.shape != (m, dim):
            raise ValueError(f"A must have shape ({m}, {dim})")
        check_array("A", self.A.data, self.A.data.shape)
        check_array("upper", self.upper, (m,))
        check_array("multipliers", self.multipliers, (m,), low=0.0)
        if max(np.abs(array).max(initial=0.0) for array in (self.A.data, self.upper, self.multipliers)) > 1e120:
            raise ValueError("numbers of the constraints must be at most 1e120")

    def contains(self, w):
        """Return whether w meets all rows, up to `MEETS`."""
        sizes = abs(self.A) @ np.abs(w) + np.abs(self.upper)
        return bool((self.A @ w - self.upper <= MEETS * (1.0 + 1e-3) * sizes).all())

    def add_to(self, plane):
        """Return the plane `(offset - y'upper) + <phi + A'y, w>`, which is below R where w meets the constraints."""
        y = self.multipliers
        if plane.phi.dtype == object:
            phi, offset = plane.phi.copy(), Fraction(plane.offset)
            entries = self.A.tocoo()
            for i, k, a in zip(entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True):
                phi[k] += Fraction(a) * Fraction(y[i])
            return ProvenPlane(offset - ex.product(y[None], self.upper[:, None])[0, 0], phi, plane.offset_error)
        pull, size = self.A.T @ y, abs(self.A).T @ y
        terms = np.bincount(self.A.indices, minlength=1).max(initial=0) + 4.0
        error = 1.01 * terms * UNIT * float(np.linalg.norm(size)) + 2.0 * UNIT * float(np.linalg.norm(plane.phi))
        offset = Fraction(plane.offset) - sum(Fraction(a) * Fraction(b) for a, b in zip(
            y.tolist(), self.upper.tolist(), strict=True) if a)
        last_error = None if plane.last_error is None else plane.last_error + error
        return ProvenPlane(offset, plane.phi + pull, plane.offset_error, plane.slope_error + error, last_error,
                           plane.means)
