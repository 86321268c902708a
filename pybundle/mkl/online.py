"""Online proximal learning with composite regularisers, Algorithm 1 of Martins et al. 2011."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import Data
from ..core.validation import check_number, check_vector
from ..models.callable_model import as_model
from ..models.decoded import labelling_of
from ..prox import GroupwisePenalty, Penalty
from ..runtime.executors import single_threaded_blas
from .online_learner import OnlineLearner
from .settings import Rate, check_rounds
from .vectors import VectorLearner


class Regret(NamedTuple):
    """`regret = sum_t [R(theta_t) + L_t(theta_t)] - n_rounds F(theta)`, and its theoretical bound (NaN: none)."""

    regret: float
    bound: float


class OnlineProximal(OnlineLearner):
    """Online proximal learning of any structured model.

    Minimises `F(theta) = sum_j Omega_j(theta) + 1/n sum_i L(theta; x_i, y_i)` (mean scale) over a ball, in rounds

        theta <- theta - eta_t g,  g a subgradient of L;    theta <- prox of eta_t Omega_j, j = 1..J;    projection

    Parameters
    ----------
    model : StructuredModel
        A model of `pb.models`, your own subclass, or a pair of callables as for `pb.risks.Structured`.
    regularisers : Penalty or list of Penalty
        Regularisers of `pb.prox` with their rates, in an order in which no prox raises an earlier regulariser: l1
        before groups, children before parents. Lemma 4 of the paper needs this order.
    loss : {"hinge", "logistic"}
    rate : {"invsqrt", "fixed", "strong"}
        eta_t = eta0 / sqrt(t), eta0, or 1 / (sigma t).
    eta0 : float or "auto"
        "auto" takes the best of 0.01, 0.1, 1 and 10 after 3 epochs on at most 1000 examples.
    sigma : float, optional
        For rate="strong": strong convexity of the loss, with a quadratic part of Omega if that is counted there.
    n_epochs : int, default 20
        Number of passes of `fit`.
    batch : int, default 1
        Number of examples in a round.
    average : bool, default False
        Whether to predict with the mean of all points.
    radius : float, optional
        Radius of the Euclidean ball that points are projected onto.
    random_state : int or None
        Seed for the order of the examples.

    Attributes
    ----------
    coef_ : ndarray, shape (dim,)
        Weights for predictions.
    eta0_ : float
        The eta0 given or chosen.
    n_rounds_ : int
        Number of rounds so far.
    history_ : dict of ndarray
        For every epoch `seconds` and `online`, the mean of Omega + L at the points of its rounds.

    Notes
    -----
    A round costs a decoding and O(dim) for every regulariser. With a single groupwise regulariser that has groups,
    steps and averages cost O(active features) (lazy scales). Only writing theta out for the decoder is then O(dim), and
    `pb.models.Dependency` with listed features does not need that.

    Examples
    --------
    >>> import pybundle as pb
    >>> from pybundle.prox import SquaredL2
    >>> X, y = [[1.0, 0.1], [-1.0, 0.2], [2.0, -0.1], [-1.0, -0.3]], [0, 1, 0, 1]
    >>> learner = pb.mkl.OnlineProximal(pb.models.Multiclass(2, 2), SquaredL2(0.1),
    ...                                 eta0=1.0, random_state=0)
    >>> learner.fit(X, y).predict([[3.0, 1.0]])
    [0]
    >>> learner.partial_fit([[0.0, 2.0]], [0]).n_rounds_
    81
    """

    coef_: Any

    def __init__(self, model: Any, regularisers: Any, *, loss: str = "hinge", rate: str = "invsqrt",
                 eta0: float | str = "auto", sigma: float | None = None, n_epochs: int = 20, batch: int = 1,
                 average: bool = False, radius: float | None = None, random_state: Any = None) -> None:
        self.model: Any = model
        self.regularisers: Any = regularisers
        self.loss: str = loss
        self.rate: str = rate
        self.eta0: float | str = eta0
        self.sigma: float | None = sigma
        self.n_epochs: int = n_epochs
        self.batch: int = batch
        self.average: bool = average
        self.radius: float | None = radius
        self.random_state: Any = random_state

    def fit(self, X: Data, Y: Data) -> Self:
        """Learn from scratch in `n_epochs` passes in random order."""
        settings = self._settings()
        with self._all_or_nothing():
            self._start(settings, X, Y, settings.n_epochs)
        return self

    def partial_fit(self, X: Data, Y: Data) -> Self:
        """Make one pass over more examples; if an error is raised, the learner is unchanged."""
        settings, is_fitted = self._settings(), hasattr(self, "_learner")
        with self._all_or_nothing(is_fitted):
            if is_fitted:
                self._run(self._session(self._learner, X, Y, settings), 1)
            else:
                self._start(settings, X, Y, 1)
        return self

    def predict(self, X: Data) -> list[Any]:
        """Return the labellings of the examples."""
        self._check_learnt()
        return [labelling_of(self._learner.model.decode(self.coef_, x)) for x in X]

    def score(self, X: Data, Y: Data) -> float:
        """Return 1 minus the mean loss of an example."""
        found = self.predict(X)
        if len(Y) != len(found):
            raise ParameterError(f"Y must hold a labelling for each example, {len(found)} in all, got {len(Y)}")
        return 1.0 - float(np.mean([self._learner.model.loss(y, z) for y, z in zip(Y, found, strict=True)]))

    def regret(self, theta: ArrayLike, mean_loss: float) -> Regret:
        """Return the regret against a fixed point so far (13), and its bound (14), (15) or (16).

        Parameters
        ----------
        theta : array, shape (dim,)
            The best fixed point, for example from `pb.minimize`.
        mean_loss : float
            Mean of L(theta) over the examples of the rounds.

        Returns
        -------
        Regret
            The bound uses the largest gradient norm so far as G. (15) is NaN without a radius; (16) holds only if the
            loss is strongly convex with `sigma`, which is not checked.
        """
        self._check_learnt()
        theta = check_vector("theta", theta, len(self.coef_))
        mean_loss = check_number("mean_loss", mean_loss, low=0.0)
        value = mean_loss + sum(R.value(theta) for R in _as_list(self.regularisers))
        rate = Rate(self.rate, self.eta0_, self.sigma)
        distance = float(np.linalg.norm(theta))
        if self.rate == "invsqrt":
            distance = np.nan if self.radius is None else 2.0 * float(self.radius)
        return Regret(self._online - self.n_rounds_ * value,
                      rate.regret_bound(self.n_rounds_, self._largest_gradient, distance))

    def _start(self, settings, X, Y, n_epochs):
        """Start a new learner; if this fails, the old one is unchanged."""
        R = settings.regulariser
        groups = R[0].groups if len(R) == 1 and isinstance(R[0], GroupwisePenalty) else None
        learner = VectorLearner(as_model(self.model, X, Y), groups, self.average, is_dense=groups is None)
        session = self._session(learner, X, Y, settings)
        self._begin(session)
        self._largest_gradient = 0.0
        self._run(session, n_epochs)

    @staticmethod
    def _session(learner, X, Y, settings):
        return learner.session(X, Y, settings if learner.is_dense else settings._replace(
            regulariser=settings.regulariser[0]))

    def _run(self, session, n_epochs):
        try:
            with single_threaded_blas():
                self._epochs(session, n_epochs)
        finally:
            session.finish()
            self._largest_gradient = max(self._largest_gradient, session.largest_gradient)
            self.coef_ = self._learner.weights()

    def _settings(self):
        regularisers = _as_list(self.regularisers)
        for j, R in enumerate(regularisers):
            if not isinstance(R, Penalty):
                raise InputTypeError(f"regularisers[{j}] must be a Penalty of pb.prox, got {type(R).__name__}")
        if not regularisers:
            raise ParameterError("regularisers must hold at least one Penalty, got none")
        settings = check_rounds(self)
        if isinstance(self.radius, str):
            raise InputTypeError(f"radius must be a number > 0 or None, got {self.radius!r}")
        return settings._replace(regulariser=tuple(regularisers))


def _as_list(regularisers):
    return list(regularisers) if isinstance(regularisers, (list, tuple)) else [regularisers]
