"""Rows of features, dense or sparse, and the two products that training takes with them; codes of image windows."""

from ._rows import Rows, RowSums, Weights, kernel_name, sum_rows
from .codes import CodeWindows, MapFeatures, lbp_maps
from .examples import Examples

__all__ = ["CodeWindows", "Examples", "MapFeatures", "RowSums", "Rows", "Weights", "kernel_name", "lbp_maps",
           "sum_rows"]
