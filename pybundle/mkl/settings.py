"""The parameters of `OnlineMKL`, checked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import check_choice, check_integer, check_number
from ..prox import GroupwiseRegulariser
from .schedules import RATES, check_rate


class Settings(NamedTuple):
    """The checked parameters of a learner."""

    lam: float
    loss: str
    rate: str
    eta0: object
    sigma: float | None
    n_epochs: int
    batch: int
    average: bool
    radius: float
    regulariser: object
    precision: str
    drop: float
    solver: str
    tol: float
    max_iter: int
    certify: bool
    random_state: object


def check_settings(learner):
    """The parameters of an `OnlineMKL`, checked, before anything is touched."""
    check_choice("rate", learner.rate, RATES)
    check_rate(learner.rate, learner.eta0, learner.sigma)
    check_choice("loss", learner.loss, ("hinge", "logistic"))
    check_choice("precision", learner.precision, ("float64", "float32"))
    if not isinstance(learner.average, (bool, np.bool_)):
        raise InputTypeError(f"average must be True or False, got {learner.average!r}")
    if learner.regulariser is not None and not isinstance(learner.regulariser, GroupwiseRegulariser):
        raise InputTypeError("regulariser must be a GroupwiseRegulariser of pb.prox, got "
                             f"{type(learner.regulariser).__name__}")
    check_choice("solver", learner.solver, ("online", "certified"))
    has_objective = learner.regulariser is None and not learner.average
    if learner.solver == "certified" and not (has_objective and learner.batch == 1 and learner.radius is None):
        raise ParameterError("solver='certified' needs average=False, batch=1 and neither radius nor regulariser")
    radius = learner.radius
    if isinstance(radius, str):
        check_choice("radius", radius, ("auto",))
        if learner.regulariser is not None:
            raise ParameterError("radius='auto' holds the solution for lam/2 (sum_k |f_k|)^2 only, got a regulariser "
                                 "beside it; pass a number")
    elif radius is not None:
        radius = check_number("radius", radius, low=0.0, strict=True)
    return Settings(check_number("lam", learner.lam, low=0.0, strict=True), learner.loss, learner.rate, learner.eta0,
                    learner.sigma, check_integer("n_epochs", learner.n_epochs, low=1),
                    check_integer("batch", learner.batch, low=1), bool(learner.average),
                    np.inf if radius is None else radius, learner.regulariser, learner.precision,
                    check_number("drop", learner.drop, low=0.0, high=1.0), learner.solver,
                    check_number("tol", learner.tol, low=0.0, strict=True),
                    check_integer("max_iter", learner.max_iter, low=1),
                    bool(learner.certify) and has_objective, check_seed(learner.random_state))


def check_seed(random_state):
    """None, or an integer >= 0."""
    return None if random_state is None else check_integer("random_state", random_state, low=0)
