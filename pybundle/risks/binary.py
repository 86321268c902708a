"""Binary risks of one score: hinge and logistic loss."""

from __future__ import annotations

from .labels import example_weights, sign_labels
from .linear import LinearRisk


class _Binary(LinearRisk):
    """One score for each example, labels -1/+1; the loss is `_loss` of the pass engine."""

    _loss = None
    n_classes = 2

    def __init__(self, X, y, n_parts=None, *, sample_weight=None, scale=1.0, bias=None, partition="strided",
                 random_state=0, precision=None):
        self._build(X, lambda n: (sign_labels(y, n), 1, None, self._loss), n_parts, sample_weight, scale, bias,
                    partition, random_state, precision, example_weights)


class BinaryHinge(_Binary):
    """Binary hinge risk: R(w) = sum_i c_i max(0, 1 - y_i <w, x_i>).

    Parameters
    ----------
    X, n_parts, sample_weight, scale, bias, partition, random_state, precision
        As in `MulticlassHinge`; w has shape (d,), or (d + 1,) with `bias`.
    y : array, shape (n,)
        -1/+1 or 0/1.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import BinaryHinge
    >>> BinaryHinge(np.array([[2.0], [1.0]]), [1, -1]).evaluate(np.array([0.25]))[0]
    array([1.75])
    """

    _loss = 1


class Logistic(_Binary):
    """Logistic risk: R(w) = sum_i c_i log(1 + exp(-y_i <w, x_i>)), smooth and positive.

    Offsets are sums of `r_i - r_i' <w, x_i>` = c_i times the entropy of the predicted label, in a form without
    cancellation. In float32 values and planes are those of the rounded scores: the planes are valid, the values
    carry the rounding error of float32.

    Parameters
    ----------
    X, y, n_parts, sample_weight, scale, bias, partition, random_state, precision
        As in `BinaryHinge`.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import Logistic
    >>> Logistic(np.array([[2.0], [1.0]]), [1, -1]).evaluate(np.zeros(1))[0].round(4)
    array([1.3863])
    """

    _loss = 2
    _piecewise_linear = False
