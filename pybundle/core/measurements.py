"""A warning of labels that look like measurements."""

from __future__ import annotations

import numpy as np

from .exceptions import LabelWarning
from .warn import warn_user

FEW = 20
"""Up to this many labels may all differ without a warning, as in scikit-learn."""


def warn_of_measurements(y):
    """Warn if labels are numbers that look like measurements: fractions, or more than 20 numbers that all differ.

    Parameters
    ----------
    y : array, shape (n,)
        Labels of all examples, or of all tokens; texts and booleans are never warned of.

    Warns
    -----
    LabelWarning

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_measurements([1, 2, 3])
    ...     warn_of_measurements([1.0, 2.0, 2.5])
    >>> [str(warning.message)[:56] for warning in caught]
    ['y holds fractions, got 2.5 at index 2, as measurements d']
    """
    y = np.asarray(y)
    if y.dtype.kind == "f":
        fractions = np.flatnonzero(y != np.floor(y))
        if len(fractions):
            i = int(fractions[0])
            warn_user(f"y holds fractions, got {y[i]:g} at index {i}, as measurements do; every value becomes a class "
                      "of its own: is this the column of labels?", LabelWarning)
            return
    if y.dtype.kind in "iuf" and len(y) > FEW and len(np.unique(y)) == len(y):
        warn_user(f"y holds {len(y)} numbers that all differ, as measurements do; every value becomes a class of its "
                  "own: is this the column of labels?", LabelWarning)
