"""Solvers: five folders of methods (block, bundle, newton, smooth, interior), and what drives them all."""

from .minimize import minimize
from .path import path

__all__ = ["minimize", "path"]
