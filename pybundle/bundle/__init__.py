"""Plane storage, the growing Gram matrix, pruning and aggregation."""

from .bundle import Bundle, estimate_bytes, planes_within

__all__ = ["Bundle", "estimate_bytes", "planes_within"]
