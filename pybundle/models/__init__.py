"""Structured models: features, loss and decoding of one structure each."""

from ..core.graph import Graph, WeightedLabels
from .base import BatchOracle, StructuredModel
from .binary_labeling import BinaryLabeling
from .multiclass import Multiclass

__all__ = ["BatchOracle", "BinaryLabeling", "Graph", "Multiclass", "StructuredModel", "WeightedLabels"]
