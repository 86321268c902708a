"""Checks of the parameters of the online learners, and the record of the checked parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import check_choice, check_flag, check_integer, check_number
from ..prox import GroupwiseRegulariser
from .schedules import RATES, check_rate


class OnlineSettings(NamedTuple):
    """Checked parameters of a learner; `regularisers` belongs to `OnlineProximal`, other defaults to `OnlineMKL`."""

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
    regulariser: object = None      # replaces lam/2 (sum_k |theta_k|)^2
    regularisers: tuple = ()
    precision: str = "float64"
    drop: float = 0.0
    solver: str = "online"          # "auto" until the data are known
    tol: float = 0.0
    max_iter: int = 0
    certify: bool = False


def check_rounds(learner):
    """Return the checked parameters of rounds; a radius that is a string is left to the caller."""
    check_choice("rate", learner.rate, RATES)
    check_rate(learner.rate, learner.eta0, learner.sigma)
    check_choice("loss", learner.loss, ("hinge", "logistic"))
    check_flag("average", learner.average)
    radius = np.inf if learner.radius is None else learner.radius
    if learner.radius is not None and not isinstance(radius, str):
        radius = check_number("radius", radius, low=0.0, strict=True)
    seed = learner.random_state
    return OnlineSettings(learner.loss, learner.rate, learner.eta0, learner.sigma,
                    check_integer("n_epochs", learner.n_epochs, low=1), check_integer("batch", learner.batch, low=1),
                    bool(learner.average), radius, None if seed is None else check_integer("random_state", seed, low=0))


def check_settings(learner):
    """Return the checked parameters of an `OnlineMKL`, which is not changed."""
    settings = check_rounds(learner)
    check_choice("precision", learner.precision, ("float64", "float32"))
    if learner.regulariser is not None and not isinstance(learner.regulariser, GroupwiseRegulariser):
        raise InputTypeError("regulariser must be a GroupwiseRegulariser of pb.prox, got "
                             f"{type(learner.regulariser).__name__}")
    check_choice("solver", learner.solver, ("auto", "online", "certified"))
    has_objective = learner.regulariser is None and not learner.average
    is_plain, solver = has_objective and learner.batch == 1 and learner.radius is None, learner.solver
    if solver == "auto" and (not is_plain or learner.callback is not None):
        solver = "online"           # the certified solver has no use for these options
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
