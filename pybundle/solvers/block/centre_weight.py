"""The weight of the proximal centre for examples whose labels can be enumerated."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ...core.exceptions import NumericalError
from ...core.kept import Kept
from ._label_blocks import set_capacity

SAMPLE = 32     # number of examples from which the inner products of rows are estimated
PIECE = 1 << 16     # number of indices of sparse rows that are converted at a time
COLUMNS = 4096  # number of columns of dense rows that are multiplied at a time
ORTHOGONAL = 0.1    # examples are nearly orthogonal if mean <x_i, x_j>^2 < ORTHOGONAL (mean |x|^2)^2
LIGHT = 0.5         # factor of the weight of the centre if examples have working sets: measured
CROWDED = 3e-3      # limit of the weight, divided by n rho Rbar^2 / u: measured
GROWTH = 1.5        # factor by which the limit grows after an iteration whose cached passes have missed their target


class CentreWeight(Kept):
    """The weight of the centre, `min(factor sqrt(lam R^2 / u), limit)`.

    psi is the slope of a plane of one label, and `c_i x_i` for one score. R^2 is the median of the |psi|^2 > 0, and
    Rbar^2 the mean of all |psi|^2. Long documents of word counts can make the mean 100 times the median, and then the
    median suits most examples better. The unit u of the losses is `mean_weight` times the mean of the largest cost
    of each label, or of |y| in a regression. Because of the division by u, w stays the same if F is multiplied by a
    power of 2; if the targets y are, w is multiplied by the same number.

    The limit is infinite unless examples are nearly orthogonal, see ORTHOGONAL. If they are, the steps of a pass hardly
    interact, and a heavier centre only slows w down. The limit is `CROWDED n rho Rbar^2 / u`, where rho is the mean of
    `<x_i, x_j>^2` over (mean |x|^2)^2, with the mean example subtracted in the products. Close to the minimum steps do
    interact, and `raise_limit` is called.

    If sparse rows of one score use more columns than there are rows, later steps undo little of an earlier step. Then
    the factor is `(rows / columns)^1.5`, and there is no limit. On word counts of 840 to 12544 texts this saves up to
    three quarters of the passes in most runs, and costs up to a fifth more in a few. On tf-idf this has little effect.

    In all other cases the factor is LIGHT with working sets of labels, and 1 without. A lighter centre needs more steps
    on working sets, but these are cheap compared to an evaluation of F.

    Parameters
    ----------
    risk : LinearRisk
    norms : ndarray, shape (n,)
        |x_i|, of centred rows if intercepts have no penalty.

    Attributes
    ----------
    first_lam : float
        n Rbar^2 / u: with this lam, multipliers at their limits give scores of about 1 at most.
    """

    kept = ("_limit",)

    def __init__(self, risk, norms):
        copies = 2.0 if risk.n_scores > 1 else 1.0      # psi holds x_i for label k, and -x_i for y_i
        norms = risk.sample_weight * norms
        if not copies * float(norms.sum()) < 1e153:     # below this sum, squares of sums of slopes are finite
            raise NumericalError("squares of the slopes overflow; scale the data or sample_weight down")
        unit = mean_weight(risk.sample_weight)
        if risk.loss is not None:
            unit *= float(np.mean(np.max(risk.loss, axis=1)))
        elif risk.is_regression:
            unit *= float(np.mean(np.abs(risk.labels)))
        unit = unit if unit > 1e-300 else 1.0       # without losses; inverses of smaller ones overflow
        self.first_lam = risk.n_examples * copies * float(np.mean(norms**2)) / unit
        radius = float(np.sqrt(copies / unit) * np.median(norms[norms > 0.0])) if norms.any() else 0.0
        self._rate = radius * (LIGHT if set_capacity(risk.engine) else 1.0)
        self._limit, share = np.inf, _rows_per_column(risk.examples) if risk.n_scores == 1 else 1.0
        if share < 1.0:
            self._rate *= share**1.5
            return
        raw, centred = _squared_products(risk.examples)
        if raw < ORTHOGONAL:
            self._limit = CROWDED * centred * self.first_lam

    def at(self, lam):
        """Return the weight for an objective with this lam."""
        return min(self._rate * float(np.sqrt(lam)), self._limit)

    def raise_limit(self):
        """Raise the limit, because cached passes no longer solve the proximal problem well enough."""
        self._limit *= GROWTH


def mean_weight(weights):
    """Return the mean of the weights c_i > 0 of examples, or 1 if all weights are 0."""
    return float(np.mean(weights[weights > 0.0])) if np.any(weights) else 1.0


def share_of_squares(examples, feature):
    """Return the mean square of a feature divided by the mean of |x|^2, at least 1e-8.

    A weight without penalty, such as an intercept, gets this share of the weight of the centre.
    """
    if feature == examples.n_features:
        column = examples.bias
    else:
        column = examples.X[:, [feature]].astype(np.float64) * examples.scale
        column = column.toarray() if sp.issparse(column) else column
    whole = float(np.mean(examples.norms**2))
    return float(np.clip(np.mean(np.square(column)) / whole, 1e-8, 1.0)) if whole > 0.0 else 1.0


def _rows_per_column(examples):
    """Return the number of sparse rows divided by the number of columns in use, at most 1; return 1 for dense rows."""
    if not examples.is_sparse or examples.n_examples >= examples.n_features:
        return 1.0
    is_used = np.zeros(examples.n_features, dtype=bool)
    for first in range(0, len(examples.X.indices), PIECE):      # NumPy is slow with indices of another type than intp
        is_used[examples.X.indices[first:first + PIECE].astype(np.intp)] = True
    return min(examples.n_examples / max(np.count_nonzero(is_used), 1), 1.0)


def _squared_products(examples):
    """Return the mean of `<x_i, x_j>^2`, i != j, divided by (mean |x|^2)^2, for a sample of examples.

    The second number returned is this mean with the mean example subtracted in the products. Both are 1 if unknown.
    """
    rows = np.linspace(0, examples.n_examples - 1, min(examples.n_examples, SAMPLE)).astype(np.intp)
    gram = np.full((len(rows), len(rows)), ((examples.bias or 0.0) / examples.scale) ** 2)
    if sp.issparse(examples.X):
        X = examples.X[rows].astype(np.float64)
        gram += (X @ X.T).toarray()
    else:                   # a float64 copy of long rows would take more memory than all points
        for first in range(0, examples.X.shape[1], COLUMNS):
            X = examples.X[rows, first:first + COLUMNS].astype(np.float64)
            gram += X @ X.T
    square, pairs = float(np.trace(gram)) / len(gram), len(gram) * (len(gram) - 1)
    if pairs == 0 or not 0.0 < square * square < np.inf:
        return 1.0, 1.0
    means = gram.mean(axis=0)
    centred = gram + (means.mean() - means - means[:, None])
    return tuple((float(np.sum(G * G)) - float(np.sum(np.diag(G) ** 2))) / (pairs * square * square)
                 for G in (gram, centred))
