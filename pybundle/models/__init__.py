"""Structured models: features, loss and decoding of one structure each."""

from .base import BatchOracle, StructuredModel
from .chain import Chain
from .multiclass import Multiclass
from .segmentation import Segmentation

__all__ = ["BatchOracle", "Chain", "Multiclass", "Segmentation", "StructuredModel"]
