"""Decoders: scores in, labelling and value out; they know nothing of weights, features and losses."""

from .argmax import argmax_batch
from .graphcut import min_cut, min_cut_batch
from .segmentation import Segments, segment, segment_batch

__all__ = ["Segments", "argmax_batch", "min_cut", "min_cut_batch", "segment", "segment_batch"]
