"""Storage of planes, with a Gram matrix that grows, pruning of idle planes and aggregation."""

from .bundle import Bundle
from .sizes import ENTRY, PAIR, SPARSE_BELOW, estimate_bytes, planes_within

__all__ = ["ENTRY", "PAIR", "SPARSE_BELOW", "Bundle", "estimate_bytes", "planes_within"]
