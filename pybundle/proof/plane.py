"""Planes below R in the verifier, and the bound that a plane proves with a square penalty or in a ball."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

UNIT = 2.0**-53


@dataclass
class ProvenPlane:
    """`R(v) >= offset - offset_error + <phi, v> - slope_error |v|` for all v; phi has floats or fractions as entries.

    `last_error` bounds the error of the last entry of phi; None stands for `slope_error`. With `means` m, it is a
    number for which `slope_error + last_error |m|` bounds the error of `phi - m phi_last`. `entry_errors`, if they are
    known, bound the errors of single entries of phi, and are sharper than `slope_error`.
    """

    offset: float | Fraction
    phi: np.ndarray
    offset_error: float = 0.0
    slope_error: float = 0.0
    last_error: float | None = None
    means: np.ndarray | None = None
    entry_errors: np.ndarray | None = None

    @property
    def errors(self):
        """Bounds on the errors of entries of phi if they are known, else the bound on the norm of the error."""
        return self.slope_error if self.entry_errors is None else self.entry_errors

    def moved(self, means):
        """Return the plane with slope `phi - phi_b m`, for the intercept at the means m of the columns."""
        if means is None:
            return self
        last = self.phi[-1]
        if self.phi.dtype == object:
            phi = [x - last * Fraction(m) for x, m in zip(self.phi.tolist(), means.tolist(), strict=True)]
            return ProvenPlane(self.offset, np.array(phi, dtype=object), self.offset_error)
        size = float(np.linalg.norm(means))
        is_known = self.last_error is not None and (self.means is None or np.array_equal(self.means, means))
        last_error = self.last_error if is_known else self.slope_error
        rounding = 4.0 * UNIT * (float(np.linalg.norm(self.phi)) + abs(last) * size)
        error = self.slope_error + last_error * size + rounding
        entries = self.entry_errors
        if entries is not None:
            sizes = np.abs(self.phi) + abs(last) * np.abs(means)
            entries = 1.01 * (entries + last_error * np.abs(means)) + 4.0 * UNIT * sizes
        return ProvenPlane(self.offset, self.phi - last * means, self.offset_error, 1.01 * error, entry_errors=entries)

    def distance(self, phi):
        """Return the Euclidean distance of the slope from a claimed slope `phi`."""
        return float(np.linalg.norm((self.phi - phi).astype(np.float64)))

    def bounds(self, lam, radius, nonneg, divisor):
        """Return two fractions: one is below the lower bound of F that the plane proves, the other one is above."""
        phi = self.phi if nonneg is None else np.where(nonneg, np.minimum(self.phi, 0), self.phi)
        if phi.dtype == object:
            square = sum(x * x for x in phi.tolist())
            root = math.isqrt(int(square * 4**600))
            norms = Fraction(root, 2**600), Fraction(root + (square > 0), 2**600)
        else:
            norm = math.sqrt(math.fsum((phi * phi).tolist()))
            spread = self.slope_error + 8.0 * UNIT * norm
            square, norms = None, (Fraction(max(norm - spread, 0.0)), Fraction(norm + spread))
        offset, error = Fraction(self.offset), Fraction(self.offset_error)
        found = []
        for norm, b in zip(norms, (offset + error, offset - error), strict=True):
            price = Fraction(radius) * norm if radius is not None else (
                norm**2 if square is None else square) / (2 * Fraction(lam) * divisor)
            found.append((b - price) / divisor)
        return found[1], found[0]
