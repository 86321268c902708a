"""Decoders: scores in, labelling and value out; they know nothing of weights, features and losses."""

from .arborescence import (
    arborescence_marginals,
    arborescence_marginals_batch,
    max_arborescence,
    max_arborescence_batch,
)
from .argmax import argmax_batch
from .graphcut import min_cut, min_cut_batch
from .segmentation import Segments, segment, segment_batch

__all__ = [
    "Segments",
    "arborescence_marginals",
    "arborescence_marginals_batch",
    "argmax_batch",
    "max_arborescence",
    "max_arborescence_batch",
    "min_cut",
    "min_cut_batch",
    "segment",
    "segment_batch",
]
