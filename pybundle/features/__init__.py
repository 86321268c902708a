"""Rows of features, dense or sparse, and the two products that training takes with them; codes of image windows."""

from ._plane_rows import merge_rows
from ._rows import Rows, RowSums, Weights, kernel_name, sum_rows
from .codes import CodeWindows, MapFeatures, lbp_maps
from .examples import Examples
from .weights import LazyWeights

__all__ = ["CodeWindows", "Examples", "LazyWeights", "MapFeatures", "RowSums", "Rows", "Weights", "kernel_name",
           "lbp_maps", "merge_rows", "sum_rows"]
