"""The class with the largest score, for every example."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.types import Array, Floats
from ..core.validation import real_numbers


def argmax_batch(scores: ArrayLike) -> tuple[Array, Floats]:
    """Return the best label k and its value `max_k scores[i, k]` for every i.

    Parameters
    ----------
    scores : array of float, shape (n, K)
        -inf forbids a class; NaN and +inf are refused.

    Returns
    -------
    labels : ndarray of int32, shape (n,)
        The smallest class of those with the same score.
    values : ndarray, shape (n,)

    Examples
    --------
    >>> from pybundle.oracles import argmax_batch
    >>> labels, values = argmax_batch([[1.0, 3.0, 3.0], [0.5, -2.0, 0.0]])
    >>> labels.tolist(), values.tolist()
    ([1, 0], [3.0, 0.5])
    """
    scores = real_numbers("scores must be real numbers", scores)
    if scores.ndim != 2 or scores.shape[1] == 0:
        raise ParameterError(f"scores must have shape (n, K) with K >= 1, got shape {scores.shape}")
    labels = scores.argmax(axis=1).astype(np.int32)     # NaN is found, too, because argmax treats NaN as the maximum
    values = scores[np.arange(len(scores)), labels]
    bad = np.flatnonzero(~(np.abs(values) < np.inf))
    if len(bad):
        i = int(bad[0])
        wanted = "at least one class that is not forbidden" if values[i] == -np.inf else "finite numbers or -inf"
        raise ParameterError(f"scores[{i}] must hold {wanted}, got {values[i]} at class {labels[i]}")
    return labels, values
