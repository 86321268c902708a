"""Structured models: features, loss and decoding of one structure each."""

from .base import BatchOracle, StructuredModel
from .dependency import Dependency
from .multiclass import Multiclass

__all__ = ["BatchOracle", "Dependency", "Multiclass", "StructuredModel"]
