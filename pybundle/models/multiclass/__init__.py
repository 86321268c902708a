"""One label for each example."""

from .model import Multiclass

__all__ = ["Multiclass"]
