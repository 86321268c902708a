"""`CertifiedEstimator`, the base class of estimators that `minimize` fits: parameters, `fit`, warm starts."""

from __future__ import annotations

import copy
import math
from functools import partial
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing

from ..core.exceptions import InputTypeError, ParameterError, StateError
from ..core.ragged import Ragged
from ..core.types import Data
from ..core.validation import check_finite, check_flag, real_array
from ..runtime.result import Status
from ..solvers import minimize
from ..solvers.arguments import as_callbacks
from .collections import is_collection, placed
from .compat import CallbackSupportMixin, seed_of, unchanged_by_failure, with_callbacks
from .penalty import rate_of
from .saving import StoredEstimator

C = """C : float
        Weight of the losses against the penalty: `F(w) = |w|^2 / (2 C) + sum_i c_i r_i(w)`, that is `lam = 1/C`
        in the sum scale. Infinity leaves the weights of flat models free."""

PARAMETERS = """tol : float
        Certified relative gap at which the fit ends, `(F(w) - lower bound) / F(w)`.
    atol : float, optional
        The fit also ends at this difference of the two; with `tol=0` at nothing else. Default as in
        `pybundle.minimize`.
    method : str or Method
        Method of `pybundle.minimize`: a record of `pb.methods`, or a text such as "auto" or "bmrm theta=0.02". "auto"
        chooses one that suits the problem. Saved models hold the text.
    max_iter : int, optional
        Maximum number of iterations, 10000 by default.
    time_limit : float, optional
        Time limit in seconds.
    n_jobs : int, optional
        Threads for passes over the data; the results do not depend on their number. -1: one per processor.
    random_state : int, RandomState or None
        Order of the examples in block methods; None is 0.
    warm_start : bool
        Whether to start from the last fit: from its planes and multipliers if the data are the same, else from its
        point.
    verbose : int
        1 or more prints a line a few times a second.
    callback : callable or list of callables, optional
        As in `pybundle.minimize`, see `pb.callbacks`; `progress.estimator` is a copy that predicts with the best point
        so far. Where scikit-learn has callbacks (1.9), `set_callbacks` takes those."""

CERTIFICATE = """gap_, objective_, lower_bound_ : float
        `lower_bound_ <= min F <= F(coef_) = objective_`; the gap is relative, see `pybundle.minimize`.
    certified_, converged_ : bool
        Whether both numbers are proven, recomputed in float64 with all rounding errors counted, however far they lie
        apart (`gap_ = 1` may prove no more than F >= 0), and whether they are close, `gap_ <= tol`.
    n_iter_, n_passes_ : int, float
        Iterations, and passes over the data.
    certificate_ : pb.Certificate or None
        What `pb.verify` checks; not in saved files, it has a `save` of its own.
    history_ : dict of ndarray
        `time`, `n_passes`, `primal`, `best_primal`, `lower_bound`, `gap`, one entry an iteration."""


class CertifiedEstimator(CallbackSupportMixin, StoredEstimator):
    """Base class of the estimators that `minimize` fits.

    Before the solve, `fit` summarises the data by a survey of each block, because several workers may hold the blocks.
    A subclass defines

    * `_take(X, y, sample_weight) -> (X, y, weights)`: the checked data, without examples of weight 0;
    * `_survey(X, y, weights)`: the properties of a block that the fitted attributes depend on;
    * `_learn(surveys) -> dict`: the fitted attributes that are known before the solve;
    * `_risk(X, y, weights, fitted)`: the risk of a block.

    If `_surveys_again(fitted)` is true, some fitted attributes depend on the data and on those in `fitted`.
    `_learn_again` computes the former from the results of `_survey_again(X, y, weights, fitted)` for all blocks. For
    data in memory `_risk` adds them to `fitted`.

    Docstrings of subclasses are filled in: `{C}`, `{parameters}` after the parameters of the class, `{certificate}`,
    and the names in `_pieces`.
    """

    _pieces: Any = MappingProxyType({})         # texts that replace `{name}` in docstrings
    _further: Any = MappingProxyType({})        # options of `minimize` that only the command line sets
    _column_names: Any = None       # names of the columns of a file
    _hint = ""                      # advice in the result of the last run
    _shift: Any = None      # `features.shift.Shift` of the last fit with a free intercept
    _dtypes: tuple[Any, ...] = (np.float64,)    # types that weights may have
    _dtype: Any = np.float64                    # type of the weights of the present fit
    _needs_penalty = "weights of features that the examples lack"       # names what only a penalty limits
    _unlimited: tuple[str, ...] = ("n_iter_",)      # fitted integers that may exceed the number of weights

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, text in {"C": C, "parameters": PARAMETERS, "certificate": CERTIFICATE, **cls._pieces}.items():
            cls.__doc__ = (cls.__doc__ or "").replace(f"{{{name}}}", text)

    def __setattr__(self, name: str, value: Any) -> None:
        """Convert weights that a user sets to float64, and check that they have the shape of the fit."""
        if name in ("coef_", "intercept_"):
            value = checked_weights(name, value, vars(self).get(name), hasattr(self, "densify"))
        super().__setattr__(name, value)

    @with_callbacks
    def fit(self, X: Data, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Trains on the examples X with the labels y.

        Parameters
        ----------
        X, y
            Data as described in the class, or Dask arrays or bags of such data; their blocks stay on the workers of the
            current `distributed.Client`.
        sample_weight : array, shape (n,), optional
            Weights c_i >= 0 of the examples: 0 leaves an example out, 2 counts it twice. With Dask data a
            Dask array or bag with the same blocks.

        Returns
        -------
        self
            On Ctrl-C the best state so far is stored, then KeyboardInterrupt is raised.

        Raises
        ------
        ParameterError, InputTypeError
            For parameters and data: ValueError and TypeError of scikit-learn's kind, which name the argument.
        """
        with unchanged_by_failure(self):
            if hasattr(self, "_init_callback_context"):         # scikit-learn sets its callbacks up first
                self._init_callback_context(max_subtasks=None).call_on_fit_task_begin(estimator=self, X=X, y=y)
            if is_collection(X) or is_collection(y):
                if self._validation_fraction() is not None:
                    raise ParameterError("callback must not have a validation_fraction with Dask collections; pass "
                                         "EarlyStopping(X, y) with data that are in memory")
                with placed(self, X, y, sample_weight) as (risk, fitted):
                    return self._solve(risk, fitted, X, y)
            X, y = self._listed(X, y)
            risk, fitted = self._prepare(X, y, sample_weight)
            return self._solve(risk, fitted, X, y)

    def _surveys_again(self, fitted):
        """Return whether `fitted` lacks attributes that need a second survey of the data."""
        return False

    def _listed(self, X, y):
        """Return the data in a form that can be read more than once."""
        return X, y

    def _prepare(self, X, y, sample_weight):
        """Return the risk of the data, and the fitted attributes that are known before the solve."""
        X, y, weights = self._take(X, y, sample_weight)
        if len(weights) == 0:
            raise ParameterError("sample_weight must leave at least one example, got weights of zero for all"
                                 if sample_weight is not None else "X must hold at least one example that is not empty")
        fraction, held_out = self._validation_fraction(), None
        if fraction is not None:
            kept, others = self._split(y, fraction)
            held_out = tuple(take_rows(data, others) for data in (X, y, weights))
            X, y, weights = (take_rows(data, kept) for data in (X, y, weights))
        fitted = self._learn([self._survey(X, y, weights)])
        risk = self._risk(X, y, weights, fitted)
        self._held_out = held_out               # `_watch` removes this attribute
        return risk, fitted

    def _validation_fraction(self):
        """Return the fraction of the examples that a callback holds out, or None."""
        found = [callback.validation_fraction for callback in as_callbacks(self.callback)
                 if getattr(callback, "validation_fraction", None) is not None]
        if len(found) > 1:
            raise ParameterError(f"callback must have one validation_fraction at most, got {len(found)}")
        return found[0] if found else None

    def _split(self, y, fraction):
        """Return the indices of training and held-out examples, stratified for classifiers."""
        try:
            rows = train_test_split(np.arange(len(y)), test_size=fraction, random_state=seed_of(self.random_state) or 0,
                                    stratify=y if is_classifier(self) else None)
        except ValueError as problem:
            raise ParameterError(f"validation_fraction = {fraction:g} cannot be held out of {len(y)} examples: "
                                 f"{problem!s:.90}") from problem
        return map(np.sort, rows)

    def _unpack(self, w):
        """Return the fitted attributes that follow from w."""
        return {"coef_": w}

    def _last_point(self, risk, fitted):
        """Return the point of the last fit, or None if that fit solved a different problem."""
        mine = vars(self)
        is_same = "coef_" in mine and all(name in mine and _equal(mine[name], value)
                                          for name, value in fitted.items())
        return mine["coef_"] if is_same and mine["coef_"].shape == (risk.dim,) else None

    def _solve(self, risk, fitted, X, y):
        """Minimise the risk and store the result, then re-raise Ctrl-C; X and y are those that the user passed."""
        check_flag("warm_start", self.warm_start)
        self._shift, self._dtype, warm = fitted.pop("_shift", None), fitted.pop("_dtype", np.float64), {}
        if self.warm_start:
            state = vars(self).get("_state")
            if state is not None and state.fingerprint == risk.fingerprint:
                warm = {"warm_start": state}
            else:
                warm = {"w0": self._last_point(risk, fitted)}
        risk.column_names = vars(self).get("feature_names_in_", self._column_names)
        result = minimize(risk, **self._penalty(fitted), callback=self._watch(fitted, X, y),
                          n_jobs=self.n_jobs, **self._options(), **warm)
        self._store(result, fitted)
        self._state = result.state if self.warm_start else None
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if hasattr(self, "_callback_fit_ctx"):
            self._callback_fit_ctx.call_on_fit_task_end(estimator=self, X=X, y=y,
                                                        reconstruction_attributes=lambda: {})
        return self

    def _penalty(self, fitted):
        """Return the penalty as an argument of `minimize`."""
        return {"lam": self._lam()}

    def _lam(self):
        return rate_of(self.C, self._needs_penalty)

    def _options(self):
        """Return the arguments of `minimize` that are parameters of the estimator, except `n_jobs`."""
        return {"tol": self.tol, "atol": self.atol, "method": self.method,
                "max_iter": self.max_iter, "time_limit": self.time_limit, "random_state": seed_of(self.random_state),
                "verbose": self.verbose, **self._further}

    def _store(self, result, fitted):
        self._hint = result.hint
        vars(self).update(fitted | self._unpack(result.x) | {
            "objective_": float(result.fun), "lower_bound_": float(result.lower_bound), "gap_": float(result.gap),
            "certified_": bool(result.certified), "converged_": bool(result.success), "n_iter_": int(result.nit),
            "n_passes_": float(result.n_passes), "history_": result.history, "certificate_": result.certificate,
        })

    def _watch(self, fitted, X, y):
        """Return callbacks for `minimize`: those of the user, each in a `_WithEstimator`, and those of scikit-learn."""
        held_out = vars(self).pop("_held_out", None)
        callbacks = [_WithEstimator(function, self, fitted, held_out) for function in as_callbacks(self.callback)]
        if getattr(self, "_skl_callbacks", None):
            callbacks.append(_bridge(self, fitted, X, y))
        return callbacks

    def _at(self, fitted, w):
        """Return a copy that predicts with w."""
        copied = copy.copy(self)
        vars(copied).update(fitted | self._unpack(w))
        return copied

    def _check_state(self):
        super()._check_state()
        mine = vars(self)
        coef = mine.get("coef_")
        numbers = coef.data if sp.issparse(coef) else coef
        if not isinstance(numbers, np.ndarray) or numbers.dtype not in self._dtypes or not np.isfinite(numbers).all():
            raise StateError("coef_ must be an array of finite float64 numbers")
        size = math.prod(coef.shape)
        centre = mine.get("centre_")
        if centre is not None and not (np.shape(centre) == (mine["n_features_in_"],) and centre.dtype == np.float64
                                       and np.isfinite(centre).all()):
            raise StateError("centre_ must be None, or hold a finite float64 number for each column")
        for name, value in mine.items():        # predictions allocate arrays of such sizes, so limit them
            if name.endswith("_") and name not in self._unlimited and isinstance(value, int) \
                    and not 0 <= value <= size:
                raise StateError(f"{name} must be 0..{size}, the number of weights, got {value:.3g}")

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        # planes and multipliers of all examples, the solver that they belong to, and the data during a fit
        for name in ("_state", "_solver", "_training"):
            state.pop(name, None)
        return state


def checked_weights(name, value, fitted, may_be_sparse):
    """Return weights as a CSR matrix, C-contiguous array or float; refuse another shape than `fitted`, inf and NaN."""
    try:
        value = sp.csr_matrix(value, dtype=np.float64) if may_be_sparse and sp.issparse(value) else real_array(value)
    except TypeError as problem:
        raise InputTypeError(f"{name} must be real numbers, got {type(value).__name__}: {problem!s:.90}") from problem
    expected, shape = np.shape(fitted), np.shape(value)
    if sp.issparse(value) != sp.issparse(fitted):       # sparse weights of one score are a row (1, d)
        expected, shape = (1, *expected)[-2:], (1, *shape)[-2:]
    if fitted is not None and shape != expected:
        raise ParameterError(f"{name} must have the shape {np.shape(fitted)} of the fit, got {np.shape(value)}")
    check_finite(name, value)
    return value if shape else float(value)


def take_rows(data, rows):
    """Return the examples at these indices."""
    return data.take(rows) if isinstance(data, Ragged) else _safe_indexing(data, rows)


def without_weightless(X, y, weights):
    """Leave out examples of weight 0, whose classes and features must not count."""
    kept = np.flatnonzero(weights)
    if len(kept) == len(weights):
        return X, y, weights
    return take_rows(X, kept), take_rows(y, kept), weights[kept]


def _equal(one, other):
    """Return whether values are equal; lists do not become arrays, which would pad texts to the longest."""
    return one == other if isinstance(one, list) and isinstance(other, list) else np.array_equal(one, other)


class _WithEstimator:
    """Calls a callback of the user with a `progress` that has the estimator as fitted so far."""

    def __init__(self, function, estimator, fitted, held_out):
        self._function, self._estimator, self._fitted, self._held_out = function, estimator, fitted, held_out
        self.ends_path = getattr(function, "ends_path", True)

    def __call__(self, progress):
        # made on demand: a copy takes longer than everything else between two iterations
        progress.make_estimator = partial(self._estimator._at, self._fitted, progress.x)
        progress.score_held_out = partial(self._score, progress)
        return self._function(progress)

    def _score(self, progress):
        estimator = progress.estimator
        vars(estimator).pop("feature_names_in_", None)      # held-out examples are arrays without column names
        return estimator.score(*self._held_out)

    def close(self):
        if hasattr(self._function, "close"):
            self._function.close()


def _bridge(estimator, fitted, X, y):
    """Return a callback that calls the callbacks of scikit-learn, which see each iteration as a subtask of the fit."""
    def call(progress):
        w, task = progress.x, estimator._callback_fit_ctx.subcontext(task_name="iteration")
        arguments = {"estimator": estimator, "X": X, "y": y,
                     "reconstruction_attributes": lambda: fitted | estimator._unpack(w)}
        task.call_on_fit_task_begin(**arguments)
        return task.call_on_fit_task_end(**arguments)
    return call
