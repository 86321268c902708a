"""Decoders: scores in, labelling and value out; they know nothing of weights, features and losses."""

from .argmax import argmax_batch
from .segmentation import Segments, segment, segment_batch

__all__ = ["Segments", "argmax_batch", "segment", "segment_batch"]
