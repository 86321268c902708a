"""`OnlineMKL`: multiple kernel learning of structured and flat models, by online rounds or with a certified gap."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.labels import as_output
from ..core.ragged import ENTRIES, Ragged, array_of
from ..core.types import Array, Callbacks, Data, Floats, Labels
from ..core.validation import check_finite
from ..core.warn import warn_user
from ..models.callable_model import as_model
from ..models.graphs import labels_of
from ..runtime.executors import make_executor, single_threaded_blas
from ..runtime.stopping import relative_gap
from .online_learner import OnlineLearner
from .settings import check_settings
from .structure import TokenStructure, as_structure, classes_of
from .tokens import TokenLearner
from .vectors import VectorLearner, are_of_weights


class OnlineMKL(OnlineLearner):
    """Online proximal multiple kernel learning, Algorithm 3 of Martins et al. 2011.

    A group is a kernel or a set of features. With a function `f_k` in the Hilbert space of every group k, it minimises

        F(f) = lam/2 (sum_k |f_k|)^2 + 1/n sum_i L(sum_k f_k; x_i, y_i)                     (mean scale)

    where L is the structured hinge `max_y f(x_i, y) - f(x_i, y_i) + loss(y_i, y)` or the log-loss. Groups that do not
    help get norm 0. The kernel weights are `|f_k| / sum_j |f_j|`.

    Parameters
    ----------
    groups : list
        Kernels of `pb.mkl`, functions `(X, Z) -> values`, and `pb.mkl.Features` for groups with explicit weights, in
        any mixture. Each uses single tokens; a chain adds a group for its pairs of labels, first and last label.
        Or, for any model, the groups of its weights in a form that `pb.prox.Groups` accepts; None for a model with
        blocks of weights, `pb.models.Dependency.hashed(..., blocks=True)`, whose groups are its templates.
    model : StructuredModel, optional
        None is flat multiclass: rows X and classes y of any type. Kernels need a `Chain` or `Multiclass`.
    lam : float, default 1e-4
        Regularisation constant, mean scale; the rest of the package uses the sum scale, n times this value.
    loss : {"hinge", "logistic"}
    rate : {"invsqrt", "fixed", "strong"}
        eta_t = eta0 / sqrt(t), eta0, or 1 / (sigma t).
    eta0 : float or "auto"
        "auto" takes the best of 0.01, 0.1, 1 and 10 after 3 epochs on at most 1000 examples.
    sigma : float, optional
        Strong convexity of the loss, for rate="strong".
    n_epochs : int, default 20
        Passes of `fit`; a call of `partial_fit` is one pass.
    batch : int, default 1
        Number of examples in a round.
    average : bool, default False
        Whether to predict with the mean of all points instead of the last one.
    radius : float, "auto" or None
        Radius of the Euclidean ball that points are projected onto; "auto" is the bound (9.1) on the solution.
    regulariser : GroupwisePenalty, optional
        Function of the norms, with its rate, instead of lam/2 (sum)^2; for example `pb.prox.SquaredLq(1.5, rate=1e-4)`.
    precision : {"float64", "float32"}
        Data type of Gram matrices.
    drop : float, default 1e-12
        Support tokens with coefficients below this fraction of the largest one are dropped after a call.
    solver : {"auto", "online", "certified"}
        "auto" takes "certified" for kernels and `Features` if Gram matrices and points need at most 4 GiB. It takes
        "online" if they need more, for groups of weights and kernels that are not definite, with a `callback`, and with
        options that "certified" does not have; `solver_` tells which. `partial_fit` is always online. "certified"
        continues until the gap is below `tol`, so it finds the minimiser. It accepts kernels, `Features`, and groups of
        weights of any model, also of one with nonnegative weights. The hinge uses block steps in the dual, the log-loss
        quasi-Newton steps on functions and kernel weights together. The norms of groups that do not help become small,
        but not exactly 0.
    tol : float, default 1e-2
        Relative gap (F - LB) / F of "certified".
    max_iter : int, default 500
        Maximum number of passes of "certified"; a ConvergenceWarning is issued if the gap is then above `tol`.
    certify : bool, default True
        Whether `fit` of "online" ends with value and bound. This costs a pass and a product of each Gram matrix with
        the planes of the last epochs: labellings of 20 epochs for the hinge, marginals of 5 for the log-loss. For
        groups of weights it keeps 5 vectors of all weights (of listed features only those that occurred). Ignored with
        `average` or `regulariser`.
    callback : callable, optional
        `callback(learner)` is called after each epoch of "online", when `norms_`, `weights_` and `n_rounds_` are up to
        date; a true return value ends the run.
    random_state : int or None
        Seed for the order of the examples.
    n_jobs : int, optional
        Number of threads, see Notes. The results do not depend on it, bit for bit.

    Attributes
    ----------
    weights_ : ndarray, shape (n_groups,)
        Kernel weights.
    norms_ : ndarray, shape (n_groups,)
        |f_k| of the last point.
    objective_, lower_bound_, gap_ : float
        F, a lower bound of min F (up to rounding), and (F - lower_bound) / F, if certified: mean scale, on the data of
        `fit`, with the Gram matrices as stored. NaN after a later `partial_fit`.
    solver_ : {"online", "certified"}
        The solver of the last call of `fit` or `partial_fit`.
    eta0_ : float
        The eta0 given or chosen.
    n_rounds_ : int
        Number of rounds; for "certified" the number of passes.
    history_ : dict of ndarray
        For every epoch `seconds`, `online` (mean of lam Omega + L at the points of its rounds), `weights`.
    classes_ : ndarray
        Classes of y, without a model.
    coef_ : ndarray, shape (dim,)
        Weights for predictions, if the groups are weights of a model.

    Notes
    -----
    With the hinge a round costs O(n) for each wrong token and kernel (`B1Spline`: the nonzeros of a row), where n is
    the number of tokens of the call, and O(active features) for each token of `Features`. Memory: a Gram matrix of the
    tokens of a call for each kernel; `partial_fit` in pieces needs only the matrices of a piece. Groups of norm 0 need
    no scores. Several threads, without the GIL, compute rows of Gram matrices, scores of new tokens (in blocks of
    1024), the products of Gram matrices and planes for a certificate, and passes over the examples of other models.
    Rounds depend on each other and run in one thread; so do the block steps of "certified" with the hinge and kernels.
    Source: Martins, Smith, Xing, Aguiar, Figueiredo 2011 (Online learning of structured predictors with multiple
    kernels), Algorithm 3; sparse updates as in section 3.3 there.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> kernels = [pb.mkl.Linear(), pb.mkl.Polynomial(2, offset=0.0)]
    >>> learner = pb.mkl.OnlineMKL(kernels, lam=1e-3, random_state=0)
    >>> bool(learner.fit(X[:100], y[:100]).score(X[100:], y[100:]) > 0.9)
    True
    >>> int(learner.weights_.argmax())
    1
    """

    classes_: Array
    solver_: str
    n_rounds_: int
    eta0_: float
    norms_: Array
    weights_: Array
    objective_: float
    lower_bound_: float
    gap_: float
    history_: dict[str, Any]

    def __init__(self, groups: Any, *, model: Any = None, lam: float = 0.0001, loss: str = "hinge",
                 rate: str = "invsqrt", eta0: float | str = "auto", sigma: float | None = None, n_epochs: int = 20,
                 batch: int = 1, average: bool = False, radius: float | None = None, regulariser: Any = None,
                 precision: str = "float64", drop: float = 1e-12, solver: str = "online", tol: float = 0.01,
                 max_iter: int = 500, certify: bool = True, callback: Callbacks = None, random_state: Any = None,
                 n_jobs: int | None = None) -> None:
        self.groups: Any = groups
        self.model: Any = model
        self.lam: float = lam
        self.loss: str = loss
        self.rate: str = rate
        self.eta0: float | str = eta0
        self.sigma: float | None = sigma
        self.n_epochs: int = n_epochs
        self.batch: int = batch
        self.average: bool = average
        self.radius: float | None = radius
        self.regulariser: Any = regulariser
        self.precision: str = precision
        self.drop: float = drop
        self.solver: str = solver
        self.tol: float = tol
        self.max_iter: int = max_iter
        self.certify: bool = certify
        self.callback: Callbacks = callback
        self.random_state: Any = random_state
        self.n_jobs: int | None = n_jobs

    def fit(self, X: Data, Y: Data) -> Self:
        """Learn from scratch, in `n_epochs` passes in random order or until the gap is small.

        After Ctrl-C the learner keeps what it has learnt ("certified": the best point with its value and bound), and
        KeyboardInterrupt is raised.

        Parameters
        ----------
        X : array or CSR, shape (n, n_features); for chains a list of such arrays or a `Ragged`
        Y : classes (n,); for chains a list of label arrays or a `Ragged`
        """
        settings = check_settings(self)
        with self._all_or_nothing():
            self._start(settings, X, Y, None if self.model is not None else classes_of(Y), settings.n_epochs)
        return self

    def partial_fit(self, X: Data, Y: Data, classes: ArrayLike | None = None) -> Self:
        """Continue with one pass over more examples; the first call may list all classes.

        After a certified fit the rounds begin at its point, with steps as small as after as many rounds as the
        certified passes had visits of examples; `n_rounds_` counts these visits then, too.
        If an error is raised, for bad data or scores that overflow, the learner is unchanged. Ctrl-C keeps the rounds
        that were made.
        """
        settings, is_fitted = check_settings(self), hasattr(self, "_learner")
        if settings.solver == "certified":
            raise ParameterError("partial_fit needs solver='online' or 'auto', got 'certified'")
        settings = settings._replace(solver="online")
        with self._all_or_nothing(is_fitted):
            if is_fitted:
                self._continue(settings._replace(certify=False), X, Y)
            else:
                if self.model is None:
                    classes = classes_of(Y) if classes is None else classes_of(classes, "classes")
                self._start(settings, X, Y, classes, 1)
        return self

    def _continue(self, settings, X, Y):
        """Run one more epoch, over new examples."""
        learner = self._learner
        self.objective_ = self.lower_bound_ = self.gap_ = np.nan        # the numbers held for the earlier data
        with closing(make_executor(self.n_jobs)) as executor, single_threaded_blas():
            if self.solver_ == "certified":
                saved = learner.saved()
                try:
                    eta0 = self._choose_eta0(learner.session(X, Y, settings, executor))
                finally:
                    learner.restore(saved)
                self.solver_, self.eta0_, self.n_rounds_ = "online", eta0, self._n_visits
                self._clear_history()
            self._run(learner.session(X, Y, settings, executor), 1)

    def decision_function(self, X: Data) -> Floats | list[Floats]:
        """Return scores (n, n_labels) of labels; for chains a list of such arrays, without scores of label pairs."""
        structure = self._learnt_structure()
        if structure is None:
            raise ParameterError(f"{type(self.model).__name__} has no scores of single labels; use predict, which "
                                 "returns labellings")
        with closing(make_executor(self.n_jobs)) as executor, single_threaded_blas():
            scores, offsets = self._learner.scores(X, executor)
        return scores if structure.is_flat else list(Ragged(scores, offsets))

    def predict(self, X: Data, output: str = "list") -> Labels:
        """Return classes (n,), or a list of labellings: lists of Python values, or arrays with `output="array"`."""
        structure = self._learnt_structure()
        with closing(make_executor(self.n_jobs)) as executor, single_threaded_blas():
            found = self._learner.predict(X, executor)
        return found if structure is not None and structure.is_flat else as_output(found, output)

    def score(self, X: Data, Y: Data) -> float:
        """Return the fraction of tokens with the right label; for other models 1 minus the mean loss per entry."""
        found: Any = self.predict(X, output="array")
        structure = self._learner.structure
        if structure is None:
            # the heads of a sentence begin with -1 for the root, which is not a word
            n_entries = sum(np.count_nonzero(np.asarray(labels_of(y)) != -1) for y in Y)
            return 1.0 - sum(self.model.loss(y, y_hat) for y, y_hat in zip(Y, found, strict=True)) / n_entries
        if structure.is_flat:
            Y = check_finite("Y", array_of(Y, "Y", ENTRIES + "mM"))
            if Y.shape != found.shape:
                raise ParameterError(f"Y must have a class for each row of X, shape {found.shape}, got {Y.shape}")
            return float(np.mean(found == Y))
        return float(np.mean(np.concatenate(found) == np.concatenate([np.asarray(y) for y in Y])))

    def functions(self) -> list[tuple[Any, Array, Array]]:
        """Return the learnt function of every kernel or `Features`; weights of label pairs are in `link_weights`.

        Returns
        -------
        list of (kernel, support, coefficients)
            The kernel with the parameters chosen from the data, its support tokens, and (n_support, n_labels)
            coefficients: `f(x, c) = sum_j kernel(x, support[j]) coefficients[j, c]` at the last point. For `Features`
            support is None and the coefficients are weights (n_columns, n_labels).

        Raises
        ------
        ParameterError
            If the groups are weights of a model.
        """
        if self._learnt_structure() is None:
            raise ParameterError("functions are learnt for kernels and Features, got groups of the weights of a model")
        return [part.function() for part in self._learner.parts]

    def link_weights(self) -> tuple[Floats, Floats, Floats]:
        """Return the weights of neighbouring labels that `functions` leaves out.

        Returns
        -------
        transition, start, end : ndarray, shape (n_labels, n_labels), (n_labels,) and (n_labels,)

        Raises
        ------
        ParameterError
            If the model is no chain, or the groups are not kernels or `Features`.
        """
        if self._learnt_structure() is None or self._learner.links is None:
            raise ParameterError("link weights are learnt for chains with groups of kernels or Features; groups of the "
                                 "weights of a model have coef_")
        return self._learner.links.weights()

    @property
    def coef_(self) -> Floats:
        if not isinstance(getattr(self, "_learner", None), VectorLearner):
            raise AttributeError("coef_ is learnt by fit for groups of the weights of a model; kernels and Features "
                                 "have functions()")
        return self._learner.weights()

    def _learnt_structure(self):
        """Return the `TokenStructure`, or None for groups of weights; raise StateError before the first call."""
        self._check_learnt()
        return self._learner.structure

    def _start(self, settings, X, Y, classes, n_epochs):
        """Start a new learner; if this fails, the old one is unchanged."""
        if self.model is None:
            structure = TokenStructure(1.0 - np.eye(len(classes)), classes=classes)
        else:
            model = as_model(self.model, X, Y)
            structure = None if are_of_weights(self.groups) else as_structure(model)
        if structure is None:
            learner = VectorLearner(model, self.groups, settings.average)
        elif not hasattr(self.groups, "__len__") or isinstance(self.groups, (str, bytes)) or len(self.groups) == 0:
            raise InputTypeError(f"groups must be a list of kernels or Features, at least one, got {self.groups!r}")
        else:
            learner = TokenLearner(structure, self.groups, settings.average)
        with closing(make_executor(self.n_jobs)) as executor, single_threaded_blas():
            session = learner.session(X, Y, settings, executor)
            if session.settings.solver == "certified":
                found = session.certify()
                session.finish()
                self._store(session, found)
                return
            if settings.regulariser is not None:
                settings.regulariser.shrink(np.zeros(learner.n_groups))         # checks the number of rates
            self._begin(session)
            self.classes_, self.solver_ = learner.classes, "online"
            self._run(session, n_epochs)

    def _store(self, session, found):
        """Store a certified result, whose point is in the learner of the session."""
        settings, self._learner = session.settings, session.learner
        self.classes_, self.n_rounds_ = self._learner.classes, found.n_passes
        self._rng = np.random.default_rng(settings.random_state)
        self._n_visits = int(found.n_passes * session.n_examples)
        self.solver_, self.eta0_ = "certified", np.nan
        self._set_norms(found.norms)
        self._set_bound(found.objective, found.lower_bound)
        names = ("seconds", "objective", "lower_bound", "n_passes", "weights")
        self.history_ = {name: np.array([row[j] for row in found.history]) for j, name in enumerate(names)}
        if found.is_interrupted:
            raise KeyboardInterrupt
        if self.gap_ > settings.tol:
            remedy = "raise max_iter or tol" if found.n_passes >= settings.max_iter else (
                "rounding prevents further descent; raise tol or lam")
            warn_user(f"the gap {self.gap_:.3g} is above tol {settings.tol:.3g} after {found.n_passes:g} passes; "
                      + remedy)

    def _run(self, session, n_epochs):
        """Run epochs, then compute the certificate if asked for; Ctrl-C keeps what was learnt."""
        self.objective_ = self.lower_bound_ = self.gap_ = np.nan
        try:
            self._epochs(session, n_epochs)
            if session.settings.certify:
                self._set_bound(*session.certificate())
        finally:
            self._set_norms(session.norms())
            session.finish()

    def _columns(self, session):
        self._set_norms(session.norms())
        return {"weights": self.weights_}

    def _clear_history(self):
        super()._clear_history()
        self.history_["weights"] = np.zeros((0, self._learner.n_groups))

    def _set_bound(self, objective, bound):
        self.objective_, self.lower_bound_ = objective, min(bound, objective)  # rounding may make the bound exceed F
        self.gap_ = relative_gap(self.objective_, self.lower_bound_)

    def _set_norms(self, norms):
        total = norms.sum()
        self.norms_, self.weights_ = norms, norms / total if total > 0.0 else np.zeros(len(norms))
