"""Rows of features, dense or sparse, and the two products that training takes with them; codes of image windows."""

from ._rows import kernel_name
from .codes import CodeWindows, MapFeatures, lbp_maps

__all__ = ["CodeWindows", "MapFeatures", "kernel_name", "lbp_maps"]
