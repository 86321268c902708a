"""Penalties of estimators, as arguments of `minimize`: squares and absolute values in one."""

from __future__ import annotations

from ..core.validation import check_number
from ..prox import Separable


def elastic(strength, l1_ratio):
    """Return the argument for `strength (rho |w|_1 + (1 - rho)/2 |w|^2)`, rho being `l1_ratio`.

    Squares alone are `lam`, with which `minimize` has more methods.
    """
    ratio = check_number("l1_ratio", l1_ratio, low=0.0, high=1.0)
    if ratio == 0.0 and strength > 0.0:
        return {"lam": strength}
    return {"penalty": Separable(l2=strength * (1.0 - ratio), l1=strength * ratio)}
