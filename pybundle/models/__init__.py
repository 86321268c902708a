"""Structured models: features, loss and decoding of one structure each."""

from .base import BatchOracle, StructuredModel
from .landmarks import Landmarks
from .multiclass import Multiclass

__all__ = ["BatchOracle", "Landmarks", "Multiclass", "StructuredModel"]
