"""Blocks of examples whose labels can be enumerated, with a separable penalty in place of equal squares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from ...risks.partition import SHARD_ROWS
from .centre_weight import share_of_squares
from .exact_blocks import ExactBlocks


class PenalisedBlocks(ExactBlocks):
    """`ExactBlocks` for a separable penalty; some weights may have no penalty."""

    def __init__(self, risk, problem, known=None):
        super().__init__(risk, problem, known)
        # steps change the intercept of the given columns, not that of centred columns
        self._objective = replace(problem, means=None)
        self._omega = problem.scaled_entries(self.dim)
        self._free = np.flatnonzero(self._objective.is_free)
        self._shares = np.array([share_of_squares(risk.examples, k % (self.dim // risk.n_scores)) for k in self._free])

    def place(self, lam, kappa, centre):
        """Set kappa and the centre; lam only adds to the weight of the centre at unpenalised entries (`_weights`)."""
        self._lam, self._kappa, self._centre, self._pulled, self._w = lam, kappa, centre, centre, None
        self._set_steps()
        omega = self._omega
        self._dual.set_penalised_point(
            omega.l2 * omega.centre + self._weights() * centre - self.aggregate().slope, self.w)

    def _minimiser(self, phi):
        return self._objective.minimiser(phi, self._weights(), self._centre)

    def _weights(self):
        """Return the weight of the centre for each entry of w.

        Nearly all examples have the feature of an unpenalised entry. The weight at such an entry is `kappa + lam` times
        the `share_of_squares` of the feature, so that a step has as much curvature from it as from all other entries.
        """
        weights = np.full(self.dim, self._kappa)
        weights[self._free] = (self._kappa + self._lam) * self._shares
        return weights

    def _set_steps(self):
        """Pass thresholds and bounds of the penalty on to the compiled steps."""
        omega = self._omega
        s = omega.l2 + self._weights()
        self._dual.set_penalty(s, omega.l1, omega.lower, omega.upper, self._curvatures(s))

    def _curvatures(self, s):
        """Return `sum_j x_ij^2 / s_j` of each example, s_j being the minimum over scores; O(n) if the s_j are equal."""
        examples = self.risk.examples
        rates = 1.0 / s.reshape(self.risk.n_scores, -1).min(axis=0)
        bias2 = (examples.bias or 0.0) ** 2
        of_bias, rates = bias2 * rates[-1], rates[:examples.n_features]
        if len(rates) == 0 or rates.min() == rates.max():
            return np.maximum(examples.norms**2 - bias2, 0.0) * rates.max(initial=0.0) + of_bias
        if sp.issparse(examples.X):
            X = examples.X
            squares = sp.csr_array((X.data.astype(np.float64) ** 2, X.indices, X.indptr), X.shape) @ rates
        else:
            blocks = range(0, self.n_examples, SHARD_ROWS)
            squares = np.concatenate([examples.X[first:first + SHARD_ROWS].astype(np.float64) ** 2 @ rates
                                      for first in blocks])
        return examples.scale**2 * squares + of_bias
