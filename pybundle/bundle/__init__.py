"""Storage of planes, with a Gram matrix that grows, pruning of idle planes and aggregation."""

from ..core.plane import Planes
from .bundle import Bundle
from .sizes import ENTRY, PAIR, SPARSE_BELOW, estimate_bytes, planes_within

__all__ = ["ENTRY", "PAIR", "SPARSE_BELOW", "Bundle", "Planes", "estimate_bytes", "planes_within"]
