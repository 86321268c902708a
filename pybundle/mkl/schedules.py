"""Learning rates of the online learners, with radii and regret bounds."""

from __future__ import annotations

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import check_choice, check_number

RATES = ("fixed", "invsqrt", "strong")
GRID = (0.01, 0.1, 1.0, 10.0)
"""Values of eta0 that eta0="auto" compares, as published."""
TRIAL_EPOCHS = 3
"""Number of epochs after which they are compared."""
TRIAL_EXAMPLES = 1000
"""Maximum number of examples for this comparison."""


class Rate:
    """`eta0` ("fixed"), `eta0 / sqrt(t)` ("invsqrt") or `1 / (sigma t)` ("strong"), t = 1, 2, ...

    >>> Rate("invsqrt", 2.0)(4, 2).round(3)
    array([1.   , 0.894])
    """

    def __init__(self, kind, eta0=1.0, sigma=None):
        self.kind = check_choice("rate", kind, RATES)
        if kind == "strong":
            if sigma is None:
                raise ParameterError("rate='strong' needs sigma, the strong convexity of the loss, got None")
            self.sigma = check_number("sigma", sigma, low=0.0, strict=True)
        else:
            self.eta0 = check_number("eta0", eta0, low=0.0, strict=True)

    def __call__(self, t, count):
        """Return the rates of the rounds t, t + 1, ..., shape (count,)."""
        times = np.arange(t, t + count, dtype=np.float64)
        if self.kind == "strong":
            return 1.0 / (self.sigma * times)
        return np.full(count, self.eta0) if self.kind == "fixed" else self.eta0 / np.sqrt(times)

    def regret_bound(self, n_rounds, lipschitz, distance):
        """Return the bound (14), (15) or (16) on the regret of `n_rounds` rounds.

        Parameters
        ----------
        lipschitz : float
            G, a bound on the norm of subgradients of the loss.
        distance : float
            |theta*| for "fixed" rates, the diameter of the set of points for "invsqrt"; not used for "strong".
        """
        T, G, D = float(n_rounds), lipschitz, distance
        if self.kind == "fixed":
            return self.eta0 * T * G * G / 2.0 + D * D / (2.0 * self.eta0)
        if self.kind == "invsqrt":
            return (D * D / (2.0 * self.eta0) + G * G * self.eta0) * np.sqrt(T)
        return G * G * (1.0 + np.log(T)) / (2.0 * self.sigma)


def check_rate(rate, eta0, sigma):
    """Check the arguments of `Rate`; `eta0` may also be "auto"."""
    if isinstance(eta0, str):
        if eta0 != "auto":
            raise ParameterError(f"eta0 must be a number > 0 or 'auto', got {eta0!r}")
        eta0 = 1.0
    elif isinstance(eta0, bool):
        raise InputTypeError(f"eta0 must be a number > 0 or 'auto', got {eta0!r}")
    Rate(rate, eta0, sigma)


def best_rate(trial, grid=GRID):
    """Return the entry of the grid whose trial returns the least objective; one that overflows counts as infinite."""
    found = []
    for eta0 in grid:
        try:
            value = trial(eta0)
        except ArithmeticError:
            value = np.inf
        found.append(value if np.isfinite(value) else np.inf)
    return grid[int(np.argmin(found))]


def optimal_radius(lam, largest):
    """Return sqrt(largest / lam): by (9.1) the ball holds the minimiser of `lam/2 |theta|_{2,1}^2 + mean loss`.

    `largest` is the largest loss of a labelling for the hinge, the largest log(number of labellings) for the log-loss.
    """
    return float(np.sqrt(largest / lam))
