"""Labels of the nodes of any graph; there may be any number of labels."""

from .model import GraphLabeling

__all__ = ["GraphLabeling"]
