"""Structured models: features, loss and decoding of one structure each."""

from ..core.graph import Graph, WeightedLabels
from ..core.images import paint
from .base import StructuredModel
from .batch_oracle import BatchOracle
from .binary_labeling import BinaryLabeling
from .chain import Chain
from .dependency import TREEBANK_RELATION_TEMPLATES, TREEBANK_TEMPLATES, Dependency
from .graph_labeling import GraphLabeling
from .landmarks import Landmarks
from .multiclass import Multiclass
from .optimizer import Optimizer
from .segmentation import Segmentation

__all__ = [
    "TREEBANK_RELATION_TEMPLATES",
    "TREEBANK_TEMPLATES",
    "BatchOracle",
    "BinaryLabeling",
    "Chain",
    "Dependency",
    "Graph",
    "GraphLabeling",
    "Landmarks",
    "Multiclass",
    "Optimizer",
    "Segmentation",
    "StructuredModel",
    "WeightedLabels",
    "paint",
]
