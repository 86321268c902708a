"""Access to the single examples of a linear risk, whatever its loss."""

from __future__ import annotations

import numpy as np

from ..core.exceptions import ParameterError
from ..core.protocols import Decoded, ExamplePlane
from ..core.validation import check_integer, check_vector


class LinearOracle:
    """Examples of a `LinearRisk`, one at a time; the risk says what a labelling is.

    ====================  =====================================================================
    risk                  labelling
    ====================  =====================================================================
    `MulticlassHinge`     a class 0..K-1
    `BinaryHinge`         1 where the loss counts, 0 where it does not
    `Logistic`            the score <w, x_i> at which the loss is linearised, any finite number
    ====================  =====================================================================

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import BinaryHinge
    >>> oracle = BinaryHinge(np.array([[2.0], [1.0]]), [1, -1]).oracle()
    >>> oracle.solve(0, np.array([0.25]))
    Decoded(labelling=1, value=0.5, upper=0.5)
    """

    def __init__(self, risk):
        self.n_examples, self.dim = risk.n_examples, risk.dim
        self._risk = risk

    def solve(self, i, w):
        """The labelling of largest loss plus score; exact, so value = upper."""
        risk, i = self._risk, self._row(i)
        scores = check_vector("w", w, self.dim).reshape(risk.n_scores, -1) @ risk.examples.row(i)
        labelling, loss = risk._decode(int(risk.labels[i]), scores)
        value = float(risk.sample_weight[i] * loss)
        return Decoded(labelling, value, value)

    def plane(self, i, labelling):
        """The plane of a labelling: its offset, and for every class a multiple of x_i."""
        risk, i = self._risk, self._row(i)
        offset, coefficients = risk._linearise(int(risk.labels[i]), labelling)
        slope = np.zeros((risk.n_scores, risk.examples.width))
        if coefficients:
            x = risk.sample_weight[i] * risk.examples.row(i)
            for k, coefficient in coefficients:
                slope[k] = coefficient * x
        return ExamplePlane(float(risk.sample_weight[i] * offset), slope.ravel())

    def key(self, labelling):
        """The labelling itself, as a plain number."""
        return self._risk._key(labelling)

    def _row(self, i):
        i = check_integer("i", i, low=0)
        if i >= self.n_examples:
            raise ParameterError(f"i must be a row number 0..{self.n_examples - 1}, got {i}")
        return i
