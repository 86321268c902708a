"""Checks of the planes that a risk returns: their shapes, finite numbers, and whether they lie below the risk."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, issparse

from ..core.exceptions import ContradictionError, OracleError, ParameterError
from ..core.kept import Kept
from ..core.plane import Plane, Planes
from ..core.protocols import with_errors
from ..core.rounding import UNIT, norm
from ..core.sparse import check_sparse
from ..runtime.lower_bound import LEAST

ROUNDING = 1e-6
"""Relative tolerance of comparisons of planes; it is wide enough for float32."""
UNSTATED = 2.0**-40
"""Assumed rounding error of scores if a risk has no `slope_sizes`, relative to the largest norm of a slope so far."""


class PlaneChecks(Kept):
    """Refuses planes of a risk that contradict each other by more than rounding.

    A call takes planes, the risk, the best point and the values of the parts at that point, or None. It returns the
    planes with their errors, and refuses wrong shapes, NaN, and planes above the risk at the best point.
    """

    kept = "_steepest", "_sizes"

    def __init__(self, risk):
        self._steepest = np.zeros(risk.n_parts)         # norms of the steepest slopes so far
        self._sizes = None                              # bounds on the norms of slopes if the risk states them

    def __call__(self, planes, risk, w, values):
        planes = check_planes(planes, risk)
        if self._stated(risk) is None:
            self._steepest = np.maximum(self._steepest, norms_of(planes.slopes))
        if w is None or values is None:
            return planes
        products = planes.dot(w)
        above = planes.offsets + products - values - self.allowance(risk, w, planes.slope_errors)
        scale = np.abs(planes.offsets) + np.abs(products) + np.abs(values) + np.abs(planes.values)
        refuse_above(above, scale, lambda: self.rounding(risk, w, values), "the plane at the new point",
                     "the best point so far")
        return planes

    def rounding(self, risk, w, values):
        """Return the rounding errors (P,) of `values` of the risk at w, or 0 if the risk does not bound them.

        They need not tend to 0 with w: losses that a decoder adds to scores cancel in values, but not their rounding.
        """
        errors = 0.0 if risk.value_errors is None else risk.value_errors(w, values)
        return errors * 2.0**29 if risk.precision == "float32" else errors

    def allowance(self, risk, w, slope_errors):
        """Return, for each part, how far rounding can lift planes with these errors above the risk at w.

        Errors of slopes and of scores add up; both are proportional to |w|. The sum may be larger than the values of
        the risk: if classes are separated, risk and planes tend to 0, but scores do not.
        """
        unit, sizes = (risk.dim + 16.0) * (2.0**-24 if risk.precision == "float32" else UNIT), self._stated(risk)
        scores = max(unit, UNSTATED) * np.minimum(self._steepest, 1e300) if sizes is None else unit * sizes
        return 2.0 * (slope_errors + scores) * (norm(w) + LEAST)

    def _stated(self, risk):
        if self._sizes is None:             # read once, because the risk computes `slope_sizes` from all examples
            self._sizes = risk.slope_sizes
        return self._sizes


def summed(planes, coordinates):
    """Return the sum of the planes of all parts as a `Plane`; its offset is lowered by the rounding of offsets."""
    slopes, offsets, n_parts = planes.slopes, planes.offsets, len(planes.offsets)
    additions = (n_parts - 1) * UNIT
    errors = planes.offset_errors + additions
    norms = coordinates.norms(norms_of(slopes), planes.last_entries)
    slope = np.asarray(slopes.sum(axis=0)).ravel() if n_parts > 1 or issparse(slopes) else slopes[0]
    error = float(planes.slope_errors.sum()) + 1.01 * additions * float(norms.sum())
    return Plane(float(offsets.sum()) - 1.01 * float(errors @ np.abs(offsets)), slope, error)


def lower_bounds_of(risk):
    """Return the declared lower bounds of the parts, shape (P,); a risk may declare one number for all parts."""
    try:
        return np.array(np.broadcast_to(np.asarray(risk.lower_bounds, dtype=float), (risk.n_parts,)))
    except (TypeError, ValueError) as error:
        raise ParameterError(f"lower_bounds of the risk must be a number or have shape ({risk.n_parts},), got "
                             f"{risk.lower_bounds!r}") from error


def as_arrays(planes: Planes):
    """Return planes as arrays, because a user's risk may return lists, or another sparse format."""
    slopes = planes.slopes
    try:
        if issparse(slopes):
            slopes = csr_array(check_sparse("slopes of the risk", slopes, OracleError))
        else:
            slopes = np.ascontiguousarray(slopes, dtype=np.float64)
        values, offsets = (np.array(part, dtype=np.float64) for part in planes[:2])      # copies, as a run stores them
    except (TypeError, ValueError) as error:
        raise OracleError(f"the risk must return real values (P,) and slopes (P, dim): {error}") from error
    return planes._replace(values=values, offsets=offsets, slopes=slopes)


def check_planes(planes: Planes, risk):
    """Return the planes of a risk with their errors; check shapes, finiteness and signs."""
    n_parts = risk.n_parts
    shapes = {"values": (n_parts,), "offsets": (n_parts,), "slopes": (n_parts, risk.dim)}
    for name, wanted in shapes.items():
        array = getattr(planes, name)
        if tuple(np.shape(array)) != wanted:
            raise OracleError(f"{name} of the risk must have shape {wanted}, got {np.shape(array)}; "
                              f"return one row for each of the {n_parts} parts")
        data = array.data if hasattr(array, "indptr") else array
        if not np.isfinite(data).all():
            raise OracleError(f"{name} of the risk must be finite, got NaN or infinity; check the risk at this w")
    try:
        planes = with_errors(planes, risk)
    except (TypeError, ValueError) as error:
        raise OracleError(f"slope_errors and offset_errors must have shape ({n_parts},): {error}") from error
    if not ((planes.slope_errors >= 0.0).all() and (planes.offset_errors >= 0.0).all()):
        raise OracleError("slope_errors and offset_errors must not be negative or NaN, got "
                          f"{planes.slope_errors} and {planes.offset_errors}")
    return planes


def norms_of(slopes):
    """Return the Euclidean norms of slopes, shape (P,)."""
    if issparse(slopes):
        return np.sqrt(slopes.multiply(slopes).sum(axis=1))
    return np.sqrt(np.einsum("pj,pj->p", slopes, slopes))


def refuse_above(excess, scale, errors, what, where):
    """Raise ContradictionError if a plane lies above the risk by an `excess` that rounding cannot explain.

    `errors()` returns the rounding errors of the values of the risk; it is called only if they may matter.
    """
    if (excess > ROUNDING * scale + 1e-300).any():
        excess = excess - errors()
    bad = (excess > ROUNDING * scale + 1e-300).nonzero()[0]
    if len(bad):
        p = int(bad[0])
        raise ContradictionError(f"the subgradient inequality fails for part {p}: {what} lies {excess[p]:.3g} above "
                                 f"the risk at {where}; the risk must be convex and its slopes subgradients, see "
                                 "pb.check_oracle")
