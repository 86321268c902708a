"""Settings of the online learners: checks of their parameters, and rates of the rounds with their regret bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import check_choice, check_flag, check_integer, check_number
from ..prox import GroupwisePenalty


class Rate:
    """`eta0` ("fixed"), `eta0 / sqrt(t)` ("invsqrt") or `1 / (sigma t)` ("strong"), t = 1, 2, ...

    >>> Rate("invsqrt", 2.0)(4, 2).round(3)
    array([1.   , 0.894])
    """

    def __init__(self, kind, eta0=1.0, sigma=None):
        self.kind = check_choice("rate", kind, ("fixed", "invsqrt", "strong"))
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


class OnlineSettings(NamedTuple):
    """Checked parameters of a learner; `OnlineProximal` has no parameters for the fields with defaults."""

    loss: str
    rate: str
    eta0: object
    sigma: float | None
    n_epochs: int
    batch: int
    average: bool
    radius: float
    random_state: object
    lam: float = 0.0
    regulariser: object = None      # replaces lam/2 (sum_k |theta_k|)^2; several regularisers are a tuple
    precision: str = "float64"
    drop: float = 0.0
    solver: str = "online"          # may be "auto" until the data are known
    tol: float = 0.0
    max_iter: int = 0
    certify: bool = False


def check_rounds(learner):
    """Return the checked parameters of rounds; the caller checks a radius that is a string."""
    if isinstance(learner.eta0, str) and learner.eta0 != "auto":
        raise ParameterError(f"eta0 must be a number > 0 or 'auto', got {learner.eta0!r}")
    Rate(learner.rate, 1.0 if isinstance(learner.eta0, str) else learner.eta0, learner.sigma)
    check_choice("loss", learner.loss, ("hinge", "logistic"))
    check_flag("average", learner.average)
    radius, seed = np.inf if learner.radius is None else learner.radius, learner.random_state
    if learner.radius is not None and not isinstance(radius, str):
        radius = check_number("radius", radius, low=0.0, strict=True)
    return OnlineSettings(learner.loss, learner.rate, learner.eta0, learner.sigma,
                          check_integer("n_epochs", learner.n_epochs, low=1),
                          check_integer("batch", learner.batch, low=1), bool(learner.average), radius,
                          None if seed is None else check_integer("random_state", seed, low=0))


def check_settings(learner):
    """Return the checked parameters of an `OnlineMKL`."""
    settings = check_rounds(learner)
    check_choice("precision", learner.precision, ("float64", "float32"))
    if learner.regulariser is not None and not isinstance(learner.regulariser, GroupwisePenalty):
        raise InputTypeError("regulariser must be a GroupwisePenalty of pb.prox, got "
                             f"{type(learner.regulariser).__name__}")
    solver = check_choice("solver", learner.solver, ("auto", "online", "certified"))
    has_objective = learner.regulariser is None and not learner.average
    is_plain = has_objective and learner.batch == 1 and learner.radius is None
    if solver == "auto" and (not is_plain or learner.callback is not None):
        solver = "online"           # "certified" has neither these options nor callbacks
    if solver == "certified" and not is_plain:
        raise ParameterError("solver='certified' needs average=False, batch=1 and neither radius nor regulariser")
    if isinstance(learner.radius, str):
        check_choice("radius", learner.radius, ("auto",))
        if learner.regulariser is not None:
            raise ParameterError("radius='auto' is only valid for lam/2 (sum_k |f_k|)^2, got a regulariser as well; "
                                 "pass a number")
    return settings._replace(lam=check_number("lam", learner.lam, low=0.0, strict=True),
                             regulariser=learner.regulariser, precision=learner.precision,
                             drop=check_number("drop", learner.drop, low=0.0, high=1.0), solver=solver,
                             tol=check_number("tol", learner.tol, low=0.0, strict=True),
                             max_iter=check_integer("max_iter", learner.max_iter, low=1),
                             certify=bool(learner.certify) and has_objective)
