"""Converts multipliers of single examples to planes of parts, from which a bundle method starts.

With phi_i = sum_q alpha_iq psi_iq and B_i = sum_q alpha_iq ell_iq, the plane `sum_{i in part p} (B_i + <phi_i, w>)`
lies below R_p. The sum of these P planes proves exactly the bound D(alpha) of the block method. If earlier multipliers
proved a better bound, `Known.bound` holds it.
"""

from __future__ import annotations

import numpy as np

from ...core.exceptions import ParameterError
from ...core.plane import Planes
from ...core.protocols import errors_of
from ...core.rounding import UNIT
from ...risks.partition import part_of
from ..block._bcfw import Blocks
from ..block._label_dual import LabelDual


def part_planes(risk, blocks):
    """Return planes of the parts of `risk` from the blocks of a `Known`; None if the risk cannot use such blocks.

    The values of these planes are NaN, because they belong to no point. A remote risk cannot use blocks, because it
    does not know which examples a part has.
    """
    if risk.remote is not None:
        return None
    if isinstance(blocks, Blocks):
        return blocks.of_parts(part_of(risk.parts, risk.n_examples), *errors_of(risk))
    if isinstance(blocks, np.ndarray) and risk.has_exact_blocks:
        return _of_labels(risk, blocks)
    return None


def _of_labels(risk, alpha):
    dual, n_parts = LabelDual(risk.engine, "float64"), risk.n_parts
    if alpha.shape != dual.alpha.shape or not np.isfinite(alpha).all():
        raise ParameterError("multipliers must be finite and of shape (n_examples, n_scores) = "
                             f"{dual.alpha.shape}, got shape {alpha.shape}; start from a point only, w0=result.x")
    offsets, slopes, errors = np.empty(n_parts), np.empty((n_parts, risk.dim)), np.empty(n_parts)
    far = 0.0 if risk.means is None else float(np.linalg.norm(risk.means))
    for p, rows in enumerate(risk.parts):
        inside = np.zeros(alpha.shape)      # examples of other parts have multipliers 0 and add nothing
        inside[rows] = alpha[rows]
        dual.restore(inside)
        plane = dual.aggregate(far=far)
        offsets[p], errors[p] = plane.offset - plane.offset_error, plane.slope_error
        slopes[p] = risk.examples.unscale(plane.slope, risk.n_scores)
    own_slopes, own_offsets = errors_of(risk)
    return Planes(np.full(n_parts, np.nan), offsets, slopes, own_slopes + errors, own_offsets + UNIT)
