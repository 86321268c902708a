"""Landmarks in images: a tree of parts."""

from .model import Landmarks

__all__ = ["Landmarks"]
