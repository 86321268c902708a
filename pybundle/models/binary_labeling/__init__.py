"""Two labels for the nodes of a graph, neighbours alike."""

from .model import BinaryLabeling

__all__ = ["BinaryLabeling"]
