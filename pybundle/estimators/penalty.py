"""Penalties of estimators as arguments of `minimize`."""

import numpy as np

from ..core.exceptions import ParameterError
from ..core.validation import check_number
from ..prox import Separable
from ..solvers.arguments import LARGEST


def rate_of(C, needs_penalty=""):
    """Return lam = 1 / C; an infinite C gives 0, and is refused if only a penalty limits `needs_penalty`."""
    is_infinite = isinstance(C, (float, np.floating)) and C == np.inf
    if is_infinite and needs_penalty:
        raise ParameterError(f"C must be finite, got inf: without a penalty nothing limits {needs_penalty}")
    C = np.inf if is_infinite else check_number("C", C, low=0.0, strict=True)
    if not is_infinite and not 1.0 / LARGEST <= C <= LARGEST:
        raise ParameterError(f"C must lie between {1.0 / LARGEST:g} and {LARGEST:g}, got {C:g}; scale X")
    return 1.0 / C


def squares_and_l1(l2, l1):
    """Return the argument for `l1 |w|_1 + l2/2 |w|^2`: `lam` for squares alone, which more methods accept."""
    return {"lam": l2} if l1 == 0.0 and l2 > 0.0 else {"penalty": Separable(l2=l2, l1=l1)}


def elastic_net(strength, l1_ratio):
    """Return the argument for `strength (rho |w|_1 + (1 - rho)/2 |w|^2)`, rho being `l1_ratio`."""
    ratio = check_number("l1_ratio", l1_ratio, low=0.0, high=1.0)
    return squares_and_l1(strength * (1.0 - ratio), strength * ratio)
