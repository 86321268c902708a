"""What the loop demands of a risk: shapes, finite numbers, and planes that lie below it."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, issparse

from ..core.exceptions import ContradictionError, OracleError, ParameterError
from ..core.plane import Planes
from ..core.protocols import with_errors
from ..core.sparse import check_sparse


def lower_bounds_of(risk):
    """Lower bounds of the parts, shape (P,); a single number holds for all."""
    try:
        return np.array(np.broadcast_to(np.asarray(risk.lower_bounds, dtype=float), (risk.n_parts,)))
    except (TypeError, ValueError) as problem:
        raise ParameterError(f"lower_bounds of the risk must be a number or have shape ({risk.n_parts},), got "
                             f"{risk.lower_bounds!r}") from problem


def as_arrays(planes: Planes):
    """Return planes as arrays: a user's risk may return lists, or another sparse format."""
    slopes = planes.slopes
    try:
        if issparse(slopes):
            slopes = csr_array(check_sparse("slopes of the risk", slopes, OracleError))
        else:
            slopes = np.ascontiguousarray(slopes, dtype=np.float64)
        values, offsets = (np.array(part, dtype=np.float64) for part in planes[:2])      # which a run keeps
    except (TypeError, ValueError) as problem:
        raise OracleError(f"the risk must return real values (P,) and slopes (P, dim): {problem}") from problem
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
    except (TypeError, ValueError) as problem:
        raise OracleError(f"slope_errors and offset_errors must have shape ({n_parts},): {problem}") from problem
    if not ((planes.slope_errors >= 0.0).all() and (planes.offset_errors >= 0.0).all()):
        raise OracleError("slope_errors and offset_errors must not be negative or NaN, got "
                          f"{planes.slope_errors} and {planes.offset_errors}")
    return planes


def norms_of(slopes):
    """Euclidean norms of slopes, shape (P,)."""
    if issparse(slopes):
        return np.sqrt(slopes.multiply(slopes).sum(axis=1))
    return np.sqrt(np.einsum("pj,pj->p", slopes, slopes))


def refuse_above(excess, scale, rounding, what, where):
    """Raise if a plane lies above the risk by more than rounding can explain."""
    bad = np.flatnonzero(excess > rounding * scale + 1e-300)
    if len(bad):
        p = int(bad[0])
        raise ContradictionError(f"the subgradient inequality fails for part {p}: {what} lies {excess[p]:.3g} above "
                                 f"the risk at {where}; the risk must be convex and its slopes subgradients")
