"""Solvers: one bundle loop with policies, SGD, paths over lam."""

from .minimize import minimize
from .path import path

__all__ = ["minimize", "path"]
