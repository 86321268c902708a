"""Proximity operators, projections and penalties, of single entries and of groups of features."""

from .base import Penalty, Sum
from .composed import OverlappingGroupLasso, SparseGroupLasso, TreeGroupLasso
from .groups import Groups, OverlappingGroups
from .groupwise import GroupwisePenalty
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
from .penalties import L1, L2, ElasticNet, Lq, SquaredL1, SquaredL2, SquaredLq
from .projections import project_l1_ball, project_l2_ball, project_l21_ball, project_simplex
from .separable import Box, Separable

__all__ = [
    "L1", "L2", "Ball", "Box", "ElasticNet", "Groups", "GroupwisePenalty", "Lq", "OverlappingGroupLasso",
    "OverlappingGroups", "Penalty", "Separable", "SparseGroupLasso", "SquaredL1", "SquaredL2", "SquaredLq", "Sum",
    "TreeGroupLasso", "project_l1_ball", "project_l2_ball", "project_l21_ball", "project_simplex", "prox_elastic_net",
    "prox_l1", "prox_l2", "prox_lq", "prox_overlapping", "prox_sparse_group", "prox_squared_l1", "prox_squared_l2",
    "prox_squared_lq", "prox_tree",
]
