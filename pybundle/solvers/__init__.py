"""Solvers: five folders of methods (block, bundle, newton, smooth, interior), and the code that runs them."""

from .checkpointing import Checkpoint
from .minimize import minimize
from .path import path
from .solve import Solve

__all__ = ["Checkpoint", "Solve", "minimize", "path"]
