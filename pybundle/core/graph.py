"""Graphs and labels of their nodes, the examples of models that label graphs."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from .images import image_graph, mask_labels


class Graph(NamedTuple):
    """A graph with features of nodes and edges, or many graphs, if all three are `Ragged`.

    Attributes
    ----------
    nodes : ndarray (float32, float64, uint8) or CSR matrix, shape (n, d)
    edges : ndarray of int, shape (m, 2)
        The two nodes of each edge, numbered from 0 in each graph.
    edge_features : ndarray, shape (m, p)
        Models need at least one column, such as ones, and refuse None by name.
    """

    nodes: Any
    edges: Any
    edge_features: Any = None

    @classmethod
    def from_image(cls, image: ArrayLike, segments: ArrayLike | None = None, *, features: ArrayLike | None = None,
                   neighbours: int = 4) -> Graph:
        """Returns the graph of an image: its nodes are pixels or segments, edges join those that touch.

        Parameters
        ----------
        image : array_like, shape (H, W) or (H, W, F)
            Features of the pixels, for instance colours; with `neighbours=6` a volume, (D, H, W) or (D, H, W, F).
            They are taken as they are: divide bytes by 255.
        segments : array_like of int, shape (H, W) or (D, H, W), optional
            The id of the segment of each pixel. Ids may be any integers, also 0 and negative ones, with holes in the
            numbers; a segment is all pixels of an id, connected or not. Node j is the segment of the j-th smallest id.
            By default each pixel is a node, row by row.
        features : array_like, shape (n, d), optional
            Further features of the nodes. What is a mean over a segment can be a channel of `image`, too.
        neighbours : {4, 8, 6}
            Pixels that touch: at a side; at a side or corner; at a side in a volume.

        Returns
        -------
        Graph
            nodes : ndarray, shape (n, F + d + 1)
                The mean of `image` over the pixels of the node, `features`, and 1. float32 if the image is and there
                are no `features`, else float64.
            edges : ndarray of int32, shape (m, 2)
                Each pair once.
            edge_features : ndarray, shape (m, 3), with segments (m, 4)
                All at least 0, as `BinaryLabeling` needs them, and symmetric: 1; contrast; similarity; with segments
                the length of the boundary.

        Raises
        ------
        ParameterError, InputTypeError
            If shapes differ, the image is empty, numbers are not finite, or ids are not integers.

        Warns
        -----
        UserWarning
            If the image holds integers above 15, as bytes do; if it has more than four channels and as many as rows or
            columns, as a volume has.

        Notes
        -----
        With the means f_a, f_b of `image` at the ends of edge e, and n_e pairs of neighbouring pixels across it,

            contrast_e = |f_a - f_b|,        similarity_e = exp(-contrast_e^2 / (2 v)),
            v = sum_e contrast_e^2 / m,      length_e = n_e / (sum_e n_e / m),

        v as in Rother, Kolmogorov and Blake, GrabCut (2004), eq. 5. Lengths are relative to their mean because solvers
        need a quarter of the passes then. It takes O(N (F + log N)) for N pixels.

        Examples
        --------
        >>> import numpy as np
        >>> import pybundle as pb
        >>> image = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
        >>> x = pb.Graph.from_image(image, segments=[[3, 3, 8], [3, 8, 8]])
        >>> x.nodes.tolist(), x.edges.tolist(), x.edge_features.round(2).tolist()
        ([[0.0, 1.0], [1.0, 1.0]], [[0, 1]], [[1.0, 1.0, 0.61, 1.0]])
        >>> pb.Graph.from_image(image).edges.shape   # of pixels: four to the right, three down
        (7, 2)
        """
        return cls(*image_graph(image, segments, features, neighbours))


class WeightedLabels(NamedTuple):
    """Labels of the nodes of a graph and their weights in the loss, or those of many graphs, if both are `Ragged`.

    For `Dependency` these are heads, and weights 0 and 1 of the words.

    Attributes
    ----------
    labels : ndarray of int, shape (n,)
    weights : ndarray, shape (n,)
        Nonnegative, for instance areas.
    """

    labels: Any
    weights: Any

    @classmethod
    def from_mask(cls, mask: ArrayLike, segments: ArrayLike | None = None, *,
                  ignore: int | None = 255) -> WeightedLabels:
        """Returns the labels of pixels or segments, those of `Graph.from_image`, from a label for each pixel.

        Parameters
        ----------
        mask : array_like of int or bool, shape (H, W) or (D, H, W)
            Labels 0, 1, ...; -1 where the label is not known.
        segments : array_like of int, of the same shape, optional
            The id of the segment of each pixel.
        ignore : int or None
            Pixels of this label are not known either.

        Returns
        -------
        WeightedLabels
            labels : ndarray of int64, shape (n,)
                The label of most of the known pixels of the node, the smallest of several; -1 if none is known, which
                `GraphLabeling` leaves out of training.
            weights : ndarray, shape (n,)
                The area: the number of known pixels.

        Raises
        ------
        ParameterError, InputTypeError
            If shapes differ, or labels are not such integers.

        Warns
        -----
        LabelWarning
            If 255 is ignored and the rest is 0, as in a mask of two labels whose foreground is white.

        Notes
        -----
        It takes O(N log N) for N pixels.

        Examples
        --------
        >>> from pybundle.models import WeightedLabels
        >>> segments = [[5, 5, 5], [5, 9, 9]]
        >>> y = WeightedLabels.from_mask([[2, 2, 0], [1, 255, 255]], segments)
        >>> y.labels.tolist(), y.weights.tolist()
        ([2, -1], [4.0, 0.0])
        """
        return cls(*mask_labels(mask, segments, ignore))
