"""Proximity operators, projections and regularisers, of single entries and of groups of features."""

from .base import Regulariser, Sum
from .composed import OverlappingGroupLasso, SparseGroupLasso, TreeGroupLasso
from .groups import Groups, OverlappingGroups
from .groupwise import GroupwiseRegulariser
from .of_norm import Ball
from .operators import (
    prox_elastic_net,
    prox_l1,
    prox_l2,
    prox_lq,
    prox_overlapping,
    prox_sparse_group,
    prox_squared_l1,
    prox_squared_l2,
    prox_squared_lq,
    prox_tree,
)
from .projections import project_l1_ball, project_l2_ball, project_l21_ball, project_simplex
from .regularisers import L1, L2, ElasticNet, Lq, SquaredL1, SquaredL2, SquaredLq
from .separable import Box, Separable

__all__ = [
    "L1", "L2", "Ball", "Box", "ElasticNet", "Groups", "GroupwiseRegulariser", "Lq", "OverlappingGroupLasso",
    "OverlappingGroups", "Regulariser", "Separable", "SparseGroupLasso", "SquaredL1", "SquaredL2", "SquaredLq", "Sum",
    "TreeGroupLasso", "project_l1_ball", "project_l2_ball", "project_l21_ball", "project_simplex", "prox_elastic_net",
    "prox_l1", "prox_l2", "prox_lq", "prox_overlapping", "prox_sparse_group", "prox_squared_l1", "prox_squared_l2",
    "prox_squared_lq", "prox_tree",
]
