"""Rows of features, dense or sparse, and the two products of rows that training needs; codes of image windows."""

from ._rows import kernel_name
from .codes import CodeWindows, MapFeatures, lbp_maps

__all__ = ["CodeWindows", "MapFeatures", "kernel_name", "lbp_maps"]
