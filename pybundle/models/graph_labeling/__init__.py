"""Labels of the nodes of any graph, from any number of labels."""

from .model import GraphLabeling

__all__ = ["GraphLabeling"]
