"""Rows of features, dense or sparse, and the two products that training takes with them."""

from ._rows import Rows, Weights, kernel_name
from .examples import Examples

__all__ = ["Examples", "Rows", "Weights", "kernel_name"]
