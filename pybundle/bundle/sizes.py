"""Estimates of the memory that planes, Gram matrix and master problem take, and of how many planes a limit allows."""

from __future__ import annotations

import numpy as np

from ..core.exceptions import ParameterError
from ..core.validation import check_integer, check_number

ENTRY = 12           # bytes of an entry of a sparse slope
PAIR = 24.0          # bytes for each pair of planes: an entry of H, of the copy of H in the QP, and of its factor
SPARSE_BELOW = 0.1   # slopes are stored as CSR if the first planes have a smaller fraction of entries other than 0


def estimate_bytes(dim: int, n_planes: int, density: float = 1.0) -> int:
    """Return the bytes of `n_planes` planes with slopes of this density, their Gram matrix and the master problem."""
    dim, n_planes = check_integer("dim", dim, low=0), check_integer("n_planes", n_planes, low=0)
    density = check_number("density", density, low=0.0)
    slopes = float(ENTRY) * density if density < SPARSE_BELOW else 8.0
    return int(slopes * dim * n_planes + PAIR * n_planes**2)


def planes_within(limit: int, dim: int, density: float = 1.0) -> int:
    """Return the largest number of planes whose `estimate_bytes` is at most `limit`."""
    dim, density = check_integer("dim", dim, low=0), check_number("density", density, low=0.0)
    limit = check_number("limit", limit, low=0.0, high=2.0**63)
    slopes = (ENTRY * density if density < SPARSE_BELOW else 8.0) * dim
    if limit < slopes + PAIR:
        raise ParameterError(f"memory_limit must hold one plane of {slopes + PAIR:.0f} bytes, got {limit:.0f}; raise "
                             "it")
    return int((-slopes + np.sqrt(slopes**2 + 4.0 * PAIR * limit)) / (2.0 * PAIR))
