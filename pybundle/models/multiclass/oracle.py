"""Rows bound to their classes: batches of decodings, planes and marginals."""

from __future__ import annotations

import numpy as np

from ...core.exceptions import ParameterError
from ...core.labels import class_labels
from ...core.protocols import Decodings
from ...core.rounding import UNIT
from ...core.validation import check_indices
from ...features._rows import RowSums, sum_rows
from ...features.examples import Examples
from ...features.weights import LazyWeights
from ..batch_oracle import BatchOracle, LabelledTokens, check_scores

LEAST = -700.0
"""A label has probability 0 in a softmax if its margin minus the largest margin is below this number."""


class MulticlassOracle(BatchOracle):
    """`Multiclass` bound to rows X (dense float32, float64, uint8 or CSR) and classes Y."""

    has_marginals = True

    def __init__(self, model, X, Y):
        examples = Examples(X)
        if examples.n_features != model.n_features:
            raise ParameterError(f"X must have n_features = {model.n_features} columns, got {examples.n_features}")
        self._y, _ = class_labels(Y, examples.n_examples, model.n_classes)
        self.examples = examples
        self._rows, self._costs, self._rescaling = examples.rows(model.n_classes), model.costs, model.rescaling
        self.n_examples, self.dim = examples.n_examples, model.dim
        self.sizes, self.loss_size = np.full(self.n_examples, 8), float(model.costs.max())
        largest = model.costs.max() if model.rescaling == "slack" else 1.0
        self.norms = 2.0 * largest * examples.norms
        self.marginal_terms = np.full(self.n_examples, model.n_classes + 16.0)
        # a score has n_features terms, not dim
        self.partition_terms = self.marginal_terms - (self.dim - model.n_features)
        offsets = np.arange(self.n_examples + 1)        # an example is a chain of one token
        self._labelled = LabelledTokens(self._rows, self._y, offsets, None, False, False, examples.norms**2)
        self.fingerprint = self._checksum()

    def _identity(self):
        return self._rescaling, self._costs, self._y, self.examples

    def _prepare(self, w):
        return LazyWeights(self._rows, w)

    def _decode(self, rows, weights, loss):
        margins = self._margins(rows, weights)
        values = violations(margins, self._costs[self._y[rows]], self._rescaling) if loss else margins
        labels = np.argmax(values, axis=1)
        best = values[np.arange(len(rows)), labels]
        return Decodings(labels, best, best)

    def _add_planes(self, rows, labellings, scales, slope):
        labels, losses = self._labels(labellings), self._losses(rows, labellings)
        coefs = np.where(labels == self._y[rows], 0.0, scales * losses if self._rescaling == "slack" else scales)
        self._rows.add(np.concatenate([rows, rows]), np.concatenate([labels, self._y[rows]]),
                       np.concatenate([coefs, -coefs]), slope)
        return float(scales @ losses)

    def _planes(self, rows, labellings):
        labels, truth = self._labels(labellings), self._y[rows]
        losses = self._costs[truth, labels]
        coefs = np.where(labels == truth, 0.0, losses if self._rescaling == "slack" else 1.0)
        sums = RowSums(self._rows, np.repeat(rows, 2), np.stack([labels, truth], axis=1).ravel(),
                       np.stack([coefs, -coefs], axis=1).ravel(), np.arange(0, 2 * len(rows) + 1, 2))
        return losses, sum_rows(self.dim, sums)

    def _losses(self, rows, labellings):
        return self._costs[self._y[rows], self._labels(labellings)]

    def _labels(self, labellings):
        return check_indices("labellings", labellings, len(self._costs)).astype(np.int32)

    def _marginals(self, rows, weights, scales, slope):
        return self._softmax(rows, self._margins(rows, weights), scales, slope)

    def _labelled_tokens(self):
        return self._labelled

    def _expectations(self, rows, distributions, scales, slope):
        return self._softmax(rows, distributions.nodes[rows].astype(np.float64), scales, slope)[1]

    def _softmax(self, rows, margins, scales, slope):
        """Return the logarithms of the sums of exp(margins), and entropies; add the expected features to the slope.

        The margins are overwritten, because new arrays of this size would take a third of the time.
        """
        n, K = margins.shape
        each, best = np.arange(n), margins.argmax(axis=1)
        largest = margins[each, best]
        margins -= largest[:, None]
        e = np.exp(margins)
        if margins.min() < LEAST:               # exp is inaccurate below LEAST
            e[margins < LEAST] = 0.0
        e[each, best] = 0.0
        rest = e @ np.ones(K)       # faster than sums of short rows
        values = np.log1p(rest)
        # the entropy of e / sum(e), less its error: margins are log(e), and all terms are >= 0
        entropies = (1.0 - (2.0 * K + 32.0) * UNIT) * (values - np.einsum("ik,ik->i", e, margins) / (1.0 + rest))
        if scales.any():
            e[each, best] = 1.0
            e *= (scales / (1.0 + rest))[:, None]
            e[each, self._y[rows]] -= scales
            if self.examples.is_sparse:
                self._rows.add(np.repeat(rows, K), np.tile(np.arange(K), n), e.ravel(), slope)
            else:
                some = slice(rows[0], rows[0] + n) if np.array_equal(rows, rows[:1] + each) and n else rows
                slope.reshape(K, -1)[:] += e.T @ self.examples.X[some].astype(np.float64, copy=False)
        return largest + values, entropies

    def additions(self, rows):
        return len(rows)

    def _margins(self, rows, weights):
        scores = weights.scores(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            margins = scores - scores[np.arange(len(rows)), self._y[rows]][:, None]
            if not np.isfinite(margins.sum()):
                check_scores(margins.sum(axis=1), rows)
        return margins


def violations(margins, costs, rescaling):
    return costs * (1.0 + margins) if rescaling == "slack" else costs + margins
