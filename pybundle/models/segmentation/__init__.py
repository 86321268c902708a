"""Images cut into labelled segments."""

from .model import Segmentation

__all__ = ["Segmentation"]
