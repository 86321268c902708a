"""The max-oracle of a linear risk: labellings and planes of single examples."""

from __future__ import annotations

import numpy as np

from ..core.exceptions import NumericalError
from ..core.protocols import Decodings
from ..features._rows import RowSums, sum_rows
from ..features.weights import LazyWeights
from ..models.batch_oracle import BatchOracle
from ._linear_oracle import CompiledLinear


class LinearOracle(BatchOracle):
    """Max-oracle of a `LinearRisk`, for single examples or batches. The risk determines what a labelling is.

    ====================  =====================================================================
    risk                  labelling
    ====================  =====================================================================
    `MulticlassHinge`     a class 0..K-1
    `BinaryHinge`         1 if the loss counts, 0 if it does not
    `Logistic`            the score <w, x_i> at which the loss is linearised, any finite number
    ====================  =====================================================================

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import BinaryHinge
    >>> oracle = BinaryHinge(np.array([[2.0], [1.0]]), [1, -1]).oracle()
    >>> oracle.solve(0, np.array([0.25]))
    Maximum(labelling=1, value=0.5, upper=0.5)
    """

    has_predictions = False

    def __init__(self, risk):
        self.n_examples, self.dim = risk.n_examples, risk.dim
        self._risk = risk

    @property
    def sizes(self):
        """Work of each example, shape (n,): number of non-zeros plus number of scores."""
        storage = self._risk.examples.storage
        entries = np.diff(storage[2]) if len(storage) == 3 else np.full(self.n_examples, storage[0].shape[1])
        return entries + self._risk.n_scores

    def _prepare(self, w):
        return LazyWeights(self._risk.engine, w)

    def _decode(self, rows, weights, loss):
        """Return the labellings of largest loss plus score in float64; each costs O(nnz(x_i) K) operations."""
        risk, scores = self._risk, weights.scores(rows)
        is_finite = np.isfinite(scores).all(axis=1)
        if not is_finite.all():
            raise NumericalError(f"example {rows[int(np.argmin(is_finite))]} has scores beyond the range of float64; "
                                 "rescale the features")
        labellings, losses = risk._decode(risk.labels[rows], scores)
        values = risk.sample_weight[rows] * losses
        return Decodings(labellings, values, values)

    def _compiled(self, batch):
        return None if self._risk.smooth else CompiledLinear(self._risk.engine, self.dim, batch)

    def solve(self, i, w):
        """Return the labelling of largest loss plus score, a plain number; the search is exact: value = upper."""
        found = super().solve(i, w)
        return found._replace(labelling=found.labelling.item())

    def _planes(self, rows, labellings):
        risk = self._risk
        offsets, classes, coefs = risk._linearise(risk.labels[rows], labellings)
        c, per_row = risk.sample_weight[rows], classes.shape[1]
        sums = RowSums(risk.engine, np.repeat(rows, per_row), classes.ravel(), (c[:, None] * coefs).ravel(),
                       np.arange(0, per_row * len(rows) + 1, per_row))
        return c * offsets, sum_rows(self.dim, sums)
