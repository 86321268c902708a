"""Solvers: one bundle loop with policies, SGD, paths over lam."""

from .memory import estimate_memory
from .minimize import minimize
from .path import path

__all__ = ["estimate_memory", "minimize", "path"]
