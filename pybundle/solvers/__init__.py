"""Solvers in four wings: block, bundle, Newton-type and smooth methods; what drives them all stands here."""

from .minimize import minimize
from .path import path

__all__ = ["minimize", "path"]
