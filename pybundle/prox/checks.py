"""Checks of the arguments of `pybundle.prox`: steps, rates and norms."""

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import check_number, check_vector, real_array


def check_step(t):
    """Return the step of a prox as a finite float >= 0."""
    return check_number("t", t, low=0.0)


def check_norms(norms):
    """Return a vector of finite nonnegative numbers."""
    norms = check_vector("norms", norms)
    if len(norms) and norms.min() < 0.0:
        k = int(norms.argmin())
        raise ParameterError(f"norms must be >= 0, got {norms[k]} at index {k}; pass the norms of the groups")
    return norms


def check_rates(name, rates):
    """Return a finite nonnegative number, or a vector of such numbers."""
    try:
        if np.ndim(rates) == 0:
            return check_number(name, rates, low=0.0)
        rates = real_array(rates, copy=True)
    except ParameterError:
        raise
    except (TypeError, ValueError) as problem:      # for rows of different lengths
        raise InputTypeError(f"{name} must be a number >= 0 or a vector of them: {problem}") from problem
    bad = np.flatnonzero(~(np.isfinite(rates) & (rates >= 0.0)))
    if rates.ndim != 1 or len(bad):
        got = f"shape {rates.shape}" if rates.ndim != 1 else f"{rates[bad[0]]} at index {bad[0]}"
        raise ParameterError(f"{name} must be a finite number >= 0 or a vector of them, got {got}")
    return rates


def match_rates(name, rates, size):
    """Return the rates after a check that a vector of rates has `size` entries."""
    if np.ndim(rates) == 1 and len(rates) != size:
        raise ParameterError(f"{name} must be a number or have shape ({size},), one for each entry of x or each group, "
                             f"got ({len(rates)},)")
    return rates
