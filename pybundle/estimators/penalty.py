"""Penalties of estimators, as arguments of `minimize`: squares and absolute values in one."""

from __future__ import annotations

import numbers

import numpy as np

from ..core.exceptions import ParameterError
from ..core.validation import check_number
from ..prox import Separable


def rate_of(C, needs_penalty=""):
    """Return lam = 1 / C, 0 for infinity; ParameterError where `needs_penalty` says what only a penalty limits."""
    if not isinstance(C, numbers.Real) or C != np.inf:
        return 1.0 / check_number("C", C, low=0.0, strict=True)
    if needs_penalty:
        raise ParameterError(f"C must be finite, got {C!r}: without a penalty nothing limits {needs_penalty}; pass a "
                             "large number")
    return 0.0


def squares_and_l1(l2, l1):
    """Return the argument for `l1 |w|_1 + l2/2 |w|^2`: `lam` for squares alone, with which there are more methods."""
    return {"lam": l2} if l1 == 0.0 and l2 > 0.0 else {"penalty": Separable(l2=l2, l1=l1)}


def elastic_net(strength, l1_ratio):
    """Return the argument for `strength (rho |w|_1 + (1 - rho)/2 |w|^2)`, rho being `l1_ratio`."""
    ratio = check_number("l1_ratio", l1_ratio, low=0.0, high=1.0)
    return squares_and_l1(strength * (1.0 - ratio), strength * ratio)
