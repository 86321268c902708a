"""Quadratic programs over products of simplices, the master problems of bundle methods."""

from ._simplex_qp import MasterSolution, SimplexQP
from .problem import SimplexProblem, solve_simplex_qp

__all__ = ["MasterSolution", "SimplexProblem", "SimplexQP", "solve_simplex_qp"]
