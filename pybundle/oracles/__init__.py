"""Decoders: scores in, labelling and value out. They know nothing of weights, features or losses."""

from .graphcut import min_cut, min_cut_batch

__all__ = ["min_cut", "min_cut_batch"]
