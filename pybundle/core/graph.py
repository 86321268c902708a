"""Graphs and labels of their nodes, the examples of binary labelling."""

from __future__ import annotations

from typing import Any, NamedTuple


class Graph(NamedTuple):
    """A graph with features of nodes and edges, or many graphs, if all three are `Ragged`.

    Attributes
    ----------
    nodes : ndarray (float32, float64, uint8) or CSR matrix, shape (n, d)
    edges : ndarray of int, shape (m, 2)
        The two nodes of each edge, numbered from 0 in each graph.
    edge_features : ndarray, shape (m, p)
    """

    nodes: Any
    edges: Any
    edge_features: Any


class WeightedLabels(NamedTuple):
    """Labels of the nodes of a graph and their weights in the loss, or those of many graphs, if both are `Ragged`.

    Attributes
    ----------
    labels : ndarray of int, shape (n,)
    weights : ndarray, shape (n,)
        Nonnegative, for instance areas.
    """

    labels: Any
    weights: Any
