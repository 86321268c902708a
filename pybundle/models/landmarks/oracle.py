"""Landmarks bound to data: batches of decodings, planes and marginals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.exceptions import InputTypeError, ParameterError
from ...core.protocols import Decodings
from ...core.validation import real_array
from ...oracles._grid_marginals import grid_marginals, roundings
from ...oracles._tree import GridTree
from ..batch_oracle import BatchOracle, check_scores


class Prepared(NamedTuple):
    """Weights of a pass: packed weights of the appearance, and the tree with its costs."""

    appearance: object
    tree: GridTree


class LandmarksOracle(BatchOracle):
    """`Landmarks` bound to images X and true positions Y (a list of (L, 2) or an array (n, L, 2))."""

    has_marginals = has_sparse_planes = True

    def __init__(self, model, X, Y, known=True):
        self.model, self._bound = model, model.descriptor.bind(X, model.shape, model.boxes)
        self.n_examples, self.dim = self._bound.n_examples, model.dim
        points = positions_of(Y, model.n_landmarks)
        if len(points) != self.n_examples:
            raise ParameterError(f"X and Y must hold the same number of examples, got {self.n_examples} and "
                                 f"{len(points)}")
        self._truth = model.check_positions(points, "Y")
        self._loss_weights = model.weights_of_loss(points) if known else np.ones(self.n_examples)
        boxes = model.boxes
        places = self._truth - boxes[:, :2]
        self._truth_labels = np.ascontiguousarray(places[..., 1] * boxes[:, 2] + places[..., 0], dtype=np.int32)
        self._truth_deformation = model.deformation(self._truth)
        self._n_positions = int((boxes[:, 2] * boxes[:, 3]).sum())
        # the unit is so large that a shard has some hundred images, because each shard has a slope of its own
        self.sizes = np.full(self.n_examples, 1 + self._n_positions // 8)
        j = model.children
        low, high = boxes[:, :2], boxes[:, :2] + boxes[:, 2:] - 1
        p = model.parents[j]
        u = np.maximum(np.abs(low[j] - high[p] - model.anchors[j]), np.abs(high[j] - low[p] - model.anchors[j]))
        u /= model.spreads[j]
        self.norms = 2.0 * (self._bound.norms + np.sqrt((u**4 + u**2).sum()))
        self.marginal_terms, self.partition_terms = (np.full(self.n_examples, count) for count in
                                                     roundings(model.tree(np.zeros(self.dim))))
        self.fingerprint = self._checksum()

    def _identity(self):
        model = self.model
        return (self._truth, self._loss_weights, model.parents, model.boxes, model.anchors, model.spreads, self._bound)

    def _prepare(self, w):
        return Prepared(self._bound.prepare(w[:self.model.n_appearance]), self.model.tree(w))

    def _decode(self, rows, weights, loss):
        scores, truth = self._scores(rows, weights), self._truth_labels[rows]
        if loss:
            weights.tree.add_distances(truth, self._loss_weights[rows], scores)
        labels, values = np.empty((len(rows), self.model.n_landmarks), dtype=np.int32), np.empty(len(rows))
        weights.tree.decode_batch(scores, labels, values)
        positions = np.stack(np.divmod(labels, self.model.boxes[:, 2])[::-1], axis=-1) + self.model.boxes[:, :2]
        values -= self._truths(truth, weights, scores)
        return Decodings(positions.astype(np.int32), values, values)

    def _scores(self, rows, weights):
        scores = np.empty((len(rows), self._n_positions))
        self._bound.maps(rows, weights.appearance, scores)
        return scores

    def _truths(self, truth, weights, scores):
        """Return the scores of the true labellings, summed in the same order as decoded ones."""
        values = np.empty(len(truth))
        weights.tree.score_batch(scores, truth, values)
        return values

    def _add_planes(self, rows, labellings, scales, slope):
        model, truth = self.model, self._truth[rows]
        positions = self._positions(labellings)
        coefs = np.where((positions == truth).all(axis=2), 0.0, scales[:, None])
        appearance = slope[:model.n_appearance]
        self._bound.add(rows, positions, coefs, appearance)
        self._bound.add(rows, truth, -coefs, appearance)
        slope[model.n_appearance:] += scales @ (model.deformation(positions) - self._truth_deformation[rows])
        return float(scales @ model.deviation(truth, positions, self._loss_weights[rows]))

    def _planes(self, rows, labellings):
        model, truth = self.model, self._truth[rows]
        positions = self._positions(labellings)
        rest = model.deformation(positions) - self._truth_deformation[rows]
        return (model.deviation(truth, positions, self._loss_weights[rows]),
                self._bound.planes(rows, positions, truth, np.ascontiguousarray(rest)))

    def _marginals(self, rows, weights, scales, slope):
        model, n, truth = self.model, len(rows), self._truth[rows]
        scores = self._scores(rows, weights)
        unary, moments = np.empty_like(scores), np.empty((n, model.n_landmarks, 4))
        values, entropies = np.empty(n), np.empty(n)
        grid_marginals(weights.tree, scores, unary, moments, values, entropies)
        values -= self._truths(self._truth_labels[rows], weights, scores)
        check_scores(values + 0.0 * scores.sum(axis=1), rows)
        if scales.any():
            unary *= scales[:, None]
            appearance = slope[:model.n_appearance]
            self._bound.add_expected(rows, unary, appearance)
            self._bound.add(rows, truth, np.repeat(-scales[:, None], model.n_landmarks, axis=1), appearance)
            expected = -(moments[:, model.children] / model.units_of_costs).reshape(n, -1)
            slope[model.n_appearance:] += scales @ (expected - self._truth_deformation[rows])
        return np.maximum(values, 0.0), entropies

    def _positions(self, labellings):
        return self.model.check_positions(np.asarray(labellings), "labellings")

    def additions(self, rows):
        return len(rows) * (1 + int((self.model.boxes[:, 2] * self.model.boxes[:, 3]).max()))

    def _losses(self, rows, labellings):
        return self.model.deviation(self._truth[rows], self._positions(labellings), self._loss_weights[rows])


def round_pixels(points):
    return np.floor(points + 0.5) if points.dtype.kind == "f" else points


def positions_of(Y, n_landmarks, name="Y"):
    """Return true positions (n, L, 2) as float64; a ParameterError names the wrong example and position."""
    wanted = (n_landmarks, 2)
    try:
        if not isinstance(Y, np.ndarray):
            for i, y in enumerate(Y):
                if np.shape(y) != wanted:
                    raise ParameterError(f"{name}[{i}] must have shape (n_landmarks, 2) = {wanted}, got {np.shape(y)}")
        points = real_array(Y if isinstance(Y, np.ndarray) else np.stack([np.asarray(y) for y in Y]))
    except ParameterError:
        raise
    except (TypeError, ValueError) as problem:      # entries that are no numbers, rows of different length
        raise InputTypeError(f"{name} must hold positions (x, y): {problem}") from problem
    if points.ndim != 3 or points.shape[1:] != wanted:
        raise ParameterError(f"{name} must have shape (n, n_landmarks, 2) = (n, {n_landmarks}, 2), got {points.shape}")
    wrong = ~(np.abs(points) < 2.0**30)
    if wrong.any():
        i, j = np.unravel_index(int(np.argmax(wrong.any(axis=2))), points.shape[:2])
        raise ParameterError(f"{name}[{i}][{j}] must be a position in the image, got {points[i, j].tolist()}")
    return points
