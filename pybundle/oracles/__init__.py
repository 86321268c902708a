"""Decoders: find the best labelling, or marginals, for given scores; weights, features and losses are not involved."""

from .arborescence import arborescence_marginals, arborescence_marginals_batch, max_arborescence, max_arborescence_batch
from .argmax import argmax_batch
from .chain import (
    BatchMarginals,
    Marginals,
    forward_backward,
    forward_backward_batch,
    k_best_viterbi,
    viterbi,
    viterbi_batch,
)
from .decisions import assignment_batch, milp_batch, shortest_path_batch
from .distance_transform import distance_transform, distance_transform_batch
from .graph_labeling import GraphLabels, graph_labeling, graph_labeling_batch
from .graph_relaxation import GraphRelaxation, graph_relaxation, graph_relaxation_batch, graph_upper
from .graphcut import min_cut, min_cut_batch
from .segmentation import Segments, segment, segment_batch
from .tree import TreeMarginals, tree_marginals, tree_max_sum, tree_max_sum_batch

__all__ = [
    "BatchMarginals",
    "GraphLabels",
    "GraphRelaxation",
    "Marginals",
    "Segments",
    "TreeMarginals",
    "arborescence_marginals",
    "arborescence_marginals_batch",
    "argmax_batch",
    "assignment_batch",
    "distance_transform",
    "distance_transform_batch",
    "forward_backward",
    "forward_backward_batch",
    "graph_labeling",
    "graph_labeling_batch",
    "graph_relaxation",
    "graph_relaxation_batch",
    "graph_upper",
    "k_best_viterbi",
    "max_arborescence",
    "max_arborescence_batch",
    "milp_batch",
    "min_cut",
    "min_cut_batch",
    "segment",
    "segment_batch",
    "shortest_path_batch",
    "tree_marginals",
    "tree_max_sum",
    "tree_max_sum_batch",
    "viterbi",
    "viterbi_batch",
]
