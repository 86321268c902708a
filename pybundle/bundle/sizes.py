"""Estimate the memory of planes, their Gram matrix and the master problem, and how many planes fit into a limit."""

from __future__ import annotations

import numpy as np

from ..core.exceptions import ParameterError
from ..core.validation import check_integer, check_number

ENTRY = 12           # bytes of an entry of a sparse slope
PAIR = 24.0          # bytes of a pair of planes: in H, and in the copy of H and the factor of a master
SPARSE_BELOW = 0.1   # slopes are stored as CSR if the first planes are less dense


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
