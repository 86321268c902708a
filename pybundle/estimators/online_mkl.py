"""Multiple kernel learning for two or more classes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import InputTypeError, ParameterError, StateError
from ..core.measurements import warn_of_measurements
from ..core.types import Array, Callbacks, Data, Floats
from ..core.warn import warn_user
from ..mkl import Features, OnlineMKL
from ..mkl.parts import block_scores
from ..risks import OneClass
from ..runtime.executors import make_executor
from ..solvers.scaling import scaling
from .compat import seed_of, unchanged_by_failure, validate_data
from .kernels import described, listed, n_columns, part_of, suggested, support_of
from .penalty import rate_of
from .probabilities import NeedsLogLoss, Probabilities
from .saving import StoredEstimator

FORMATS = {"accept_sparse": "csr", "dtype": np.float64, "order": "C"}


class OnlineMKLClassifier(Probabilities, ClassifierMixin, StoredEstimator):
    """Support vector machine or logistic regression that learns which of several kernels help.

        F(f) = (sum_k |f_k|)^2 / (2 C) + sum_i L(sum_k f_k; x_i, y_i)

    f_k being a function of the Hilbert space of kernel k, a value for each class, and L the hinge of Crammer and
    Singer, `max_c [ [c != y_i] + f(x_i, c) - f(x_i, y_i) ]`, or the log-loss. At the minimum the sum of norms sets
    kernels that do not help to 0. Linear learning of groups of columns is the same with `pb.mkl.Features(columns)`.

    Parameters
    ----------
    C : float
        Weight of the losses; `lam = 1 / (C n)` in the mean scale of `pb.mkl.OnlineMKL`, n examples in `fit`, or in the
        first call of `partial_fit`.
    kernels : list, optional
        Of `pb.mkl`: kernels, functions `(X, Z) -> values`, `Features`. None: `Linear`, `Polynomial(2)`, and three
        Gaussians as wide as half, once and twice the square root of the sum of the variances of X.
    loss : {"hinge", "logistic"}
    solver : {"auto", "online", "certified"}
        "online" makes `n_epochs` epochs of proximal gradient steps, example by example. "certified" makes passes until
        the gap is at most `tol`. "auto" takes "certified" if Gram matrices and points of all kernels need at most 4 GiB
        (five kernels: about 10 000 examples in float64, 14 000 in float32), and "online" beyond, with a `callback`, or
        if a kernel is not definite. `partial_fit` is always online.
    n_epochs : int
        Number of epochs of `fit` for "online"; a call of `partial_fit` is one.
    eta0 : float or "auto"
        Step `eta0 / sqrt(t)`; "auto" takes the best of 0.01, 0.1, 1 and 10 after 3 epochs on at most 1000 examples.
    tol : float
        Relative gap `(F - lower bound) / F`; "online" does not look at it, but for `converged_`.
    max_iter : int
        Maximum number of passes of "certified".
    precision : {"float64", "float32"}
        Of Gram matrices.
    n_jobs : int, optional
        Threads for Gram matrices and predictions; -1: one per processor.
    random_state : int, RandomState or None
        Order of the examples; None is 0.
    callback : callable, optional
        `callback(learner)` after each epoch of "online", with the `pb.mkl.OnlineMKL` at work; a true return value ends
        the run. With a callback "auto" takes "online". `pb.callbacks.TimeLimit` and `StopSignal` serve here, too.

    Attributes
    ----------
    classes_ : ndarray, shape (K,)
        The classes in sorted order; the second of two is the positive one.
    kernels_ : list
        As in `kernels`, with the widths that the data decided.
    kernel_weights_ : ndarray, shape (n_kernels,)
        `|f_k| / sum_j |f_j|`.
    norms_ : ndarray, shape (n_kernels,)
        |f_k|.
    support_vectors_ : list
        For every kernel the examples that it compares with, or None for `Features`; its columns only.
    dual_coef_ : list of ndarray
        For every kernel (n_support, K), for `Features` the weights (n_columns, K).
    n_features_in_, feature_names_in_ : int, ndarray
        Number of columns of X; their names, where X had some.
    objective_, lower_bound_, gap_ : float
        F of the data of `fit`, what no F falls below, relative gap; NaN after `partial_fit`.
    certified_, converged_ : bool
        Whether there is a bound, and whether `gap_ <= tol`.
    solver_ : {"online", "certified"}
        The solver of the last call of `fit` or `partial_fit`.
    eta0_ : float
        Step in use; NaN for "certified".
    n_iter_, n_passes_ : int, float
        Epochs or passes over the data.
    history_ : dict of ndarray
        For every epoch `seconds`, `weights` of the kernels, and `online`, the mean online objective, or `objective`,
        `lower_bound` and `n_passes` of "certified"; in the mean scale.

    Notes
    -----
    X (n, d) may be dense or CSR, y (n,) holds texts, numbers or NumPy's dates. Memory O(n^2) for every kernel
    while it learns. Kernels compare examples, so features should be scaled alike; `kernels` normalise their values
    themselves.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> kernels = [pb.mkl.Linear(), pb.mkl.Polynomial(2, offset=0.0)]
    >>> svm = pb.OnlineMKLClassifier(kernels=kernels)
    >>> _ = svm.fit(X[:100], y[:100])
    >>> svm.solver_
    'certified'
    >>> svm.gap_ <= 1e-2, svm.kernel_weights_.argmax(), svm.score(X[100:], y[100:]) > 0.9
    (True, np.int64(1), True)
    """

    kernels_: Any
    support_vectors_: Any
    dual_coef_: Any

    _log_loss_is = "loss='logistic' in the fit, or MulticlassLogistic"
    _takes_sparse = True

    def __init__(self, C: float = 1.0, *, kernels: Sequence[Any] | None = None, loss: str = "hinge",
                 solver: str = "auto", n_epochs: int = 20, eta0: float | str = "auto", tol: float = 0.01,
                 max_iter: int = 500, precision: str = "float64", n_jobs: int | None = None,
                 random_state: int | None = None, callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def fit(self, X: Data, y: ArrayLike) -> Self:
        """Learns from scratch.

        Parameters
        ----------
        X : array or CSR, shape (n, d)
        y : array, shape (n,)

        Returns
        -------
        self
            After Ctrl-C what was learnt is stored before KeyboardInterrupt is raised.
        """
        with unchanged_by_failure(self):
            X, y = self._checked(X, y, reset=True)
            learner = self._learner(X)
            if (y == y[0]).all():
                raise ParameterError(f"y must hold at least two classes, got one class only, {y[:1].tolist()[0]!r}")
            return self._learn(learner, learner.fit, X, y)

    @available_if(lambda estimator: estimator.solver != "certified")
    def partial_fit(self, X: Data, y: Any, classes: ArrayLike | None = None) -> Self:
        """Run one epoch over more examples from the present state; the first call may name all classes.

        For `solver="online"` and "auto", which is online here. C and kernels stay as in the first call. After a
        certified fit the epoch begins at its point, with steps as small as after as many rounds as the certified passes
        had visits of examples.

        Raises
        ------
        StateError
            After `pb.load`: a file holds what predictions need; pickles hold all.
        """
        with unchanged_by_failure(self):
            if not hasattr(self, "history_"):
                X, y = self._checked(X, y, reset=True)
                learner = self._learner(X)
            elif not hasattr(self, "_mkl"):
                raise StateError("partial_fit needs what learning keeps in memory, and this classifier comes from a "
                                 "file; call fit, or pickle the estimator instead of saving it")
            else:
                X, y = self._checked(X, y, reset=False)
                learner = self._mkl
            return self._learn(learner, learner.partial_fit, X, y, *(() if classes is None else (classes,)))

    def _checked(self, X, y, reset):
        X, y = validate_data(self, X, y, reset=reset, **FORMATS)
        check_classification_targets(y)
        warn_of_measurements(y)
        return X, y

    def _learner(self, X):
        """Return a new learner with the parameters of this estimator."""
        seed = 0 if self.random_state is None else seed_of(self.random_state)
        if self.callback is not None and not callable(self.callback):
            raise InputTypeError(f"callback must be callable, got {type(self.callback).__name__}")
        if self.kernels is not None and (not isinstance(self.kernels, (list, tuple)) or not len(self.kernels)):
            raise InputTypeError(f"kernels must be a list of kernels of pb.mkl, at least one, got {self.kernels!r:.60}")
        lam = rate_of(self.C, "the functions of kernels") / X.shape[0]
        return OnlineMKL(suggested(X) if self.kernels is None else list(self.kernels), lam=lam, loss=self.loss,
                         solver=self.solver, n_epochs=self.n_epochs, eta0=self.eta0, tol=self.tol,
                         max_iter=self.max_iter, precision=self.precision, n_jobs=self.n_jobs, random_state=seed,
                         callback=self.callback)

    def _learn(self, learner, call, *data):
        try:
            call(*data)
        except KeyboardInterrupt:
            if hasattr(learner, "norms_"):
                self._store(learner, data[0])
            raise
        finally:
            if hasattr(learner.callback, "close"):
                learner.callback.close()
        self._store(learner, data[0])
        if self.certified_ and not self.converged_:
            risk = OneClass(data[0], 0.5)
            risk.column_names = vars(self).get("feature_names_in_")
            if about_data := scaling(risk):
                warn_user(about_data)
        return self

    def _store(self, learner, X):
        kernels, support, coefs = zip(*learner.functions(), strict=True)
        history = learner.history_
        n_passes = len(history["seconds"]) if learner.solver_ == "online" else learner.n_rounds_
        vars(self).update({
            "classes_": learner.classes_, "solver_": learner.solver_, "kernels_": list(kernels),
            "support_vectors_": list(support), "dual_coef_": list(coefs), "kernel_weights_": learner.weights_,
            "norms_": learner.norms_, "objective_": float(X.shape[0] * learner.objective_), "gap_": float(learner.gap_),
            "lower_bound_": float(X.shape[0] * learner.lower_bound_), "certified_": bool(np.isfinite(learner.gap_)),
            "converged_": bool(learner.gap_ <= self.tol), "eta0_": float(getattr(learner, "eta0_", np.nan)),
            "n_iter_": int(n_passes), "n_passes_": float(n_passes), "history_": dict(history), "_mkl": learner,
        })

    def decision_function(self, X: Data) -> Floats:
        """Return the scores of the classes, shape (n, K); for two classes their difference, shape (n,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Data) -> Array:
        """Classes of the examples X (n, d), shape (n,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    @property
    def _log_loss(self):
        return self.loss == "logistic"

    @NeedsLogLoss
    def predict_proba(self, X: Data) -> Floats:
        """Probabilities of the classes, shape (n, K); for `loss="logistic"` only."""
        return softmax(self._scores(X), axis=1)

    def _scores(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **FORMATS)
        K = len(self.classes_)
        with closing(make_executor(self.n_jobs)) as executor:
            return block_scores([part_of(*function, X, K).scorer(X) for function in self._functions()], X.shape[0], K,
                                executor)

    def _functions(self):
        return zip(self.kernels_, self.support_vectors_, self.dual_coef_, strict=True)

    # ------------------------------------------------------------------ the fitted state, for files
    def _get_state(self):
        plain = copy.copy(self)
        kernels, arrays = {}, {}
        for index, (kernel, support, coefs) in enumerate(self._functions()):
            kernels |= described(kernel, str(index))
            arrays[f"{index}.coef"] = coefs
            if sp.issparse(support):
                arrays |= {f"{index}.{name}": getattr(support, name) for name in ("data", "indices", "indptr")}
                arrays[f"{index}.shape"] = np.array(support.shape)
            elif support is not None:
                arrays[f"{index}.support"] = support
        del plain.support_vectors_
        plain.kernels_, plain.dual_coef_ = kernels, arrays
        return super(OnlineMKLClassifier, plain)._get_state()

    def _set_state(self, arrays, values):
        super()._set_state(arrays, values)
        self.kernels_, arrays = listed(self.kernels_), self.dual_coef_
        n_kernels = range(len(self.kernels_))
        self.support_vectors_ = [support_of(arrays, str(index)) for index in n_kernels]
        self.dual_coef_ = [arrays.pop(f"{index}.coef") for index in n_kernels]
        if arrays:
            raise StateError(f"no kernel has the array {min(arrays)!r:.60}")
        return self

    def _check_state(self):
        super()._check_state()
        K, found = len(self.classes_), self.n_features_in_
        for kernel, support, coefs in self._functions():
            n = n_columns(kernel, found) if support is None else support.shape[0]
            if coefs.shape != (n, K) or coefs.dtype != np.float64 or not np.isfinite(coefs).all():
                raise StateError(f"the coefficients of {type(kernel).__name__} must be ({n}, {K}) finite float64 "
                                 f"numbers, got shape {coefs.shape}")
            if isinstance(kernel, Features) != (support is None) or \
                    (support is not None and support.shape[1] != n_columns(kernel, found)):
                raise StateError(f"the examples of {type(kernel).__name__} do not fit its columns")
            row = sp.csr_array((1, found))
            block_scores([part_of(kernel, support, coefs, row, K).scorer(row)], 1, K)
