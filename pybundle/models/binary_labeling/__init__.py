"""Binary labels of the nodes of a graph; labels of neighbours tend to be equal."""

from .model import BinaryLabeling

__all__ = ["BinaryLabeling"]
