"""Decoders of structures: scores in, labelling and value out; they know nothing of weights, features or losses."""

from .distance_transform import distance_transform, distance_transform_batch
from .tree import tree_marginals, tree_max_sum, tree_max_sum_batch

__all__ = [
    "distance_transform",
    "distance_transform_batch",
    "tree_marginals",
    "tree_max_sum",
    "tree_max_sum_batch",
]
