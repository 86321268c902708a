"""What all estimators share: their parameters, the solve behind `fit`, warm starts, and the fitted state as arrays."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from ..core.exceptions import InputTypeError, StateError
from ..core.validation import check_number
from ..runtime.result import Status
from ..solvers import minimize
from ..solvers.minimize import as_callbacks
from .compat import CallbackSupportMixin

PARAMETERS = """C : float
        Weight of the losses against the regulariser: `F(w) = |w|^2 / (2 C) + sum_i c_i r_i(w)`, that is `lam = 1/C`
        in the sum scale.
    tol : float
        Certified relative gap at which the fit ends, `(F(w) - lower bound) / F(w)`.
    method : str
        Method of `pybundle.minimize`; "auto" takes the one that suits the problem.
    max_iter : int, optional
        Most iterations, 10000 by default.
    time_limit : float, optional
        Seconds.
    n_jobs : int, optional
        Threads for passes over the data; any number gives the same bits. -1: one per processor.
    random_state : int, RandomState or None
        Order of the examples in block methods; None is 0.
    warm_start : bool
        Start from the last fit: with planes and multipliers where the data are the same, else from its point.
    verbose : {0, 1}
        1 prints a line a few times a second.
    callback : callable or list of callables, optional
        As in `pybundle.minimize`, see `pb.callbacks`; `progress.estimator` is a copy that predicts with the best point
        so far. Where scikit-learn has callbacks (1.9), `set_callbacks` takes those."""

CERTIFICATE = """gap_, objective_, lower_bound_ : float
        `lower_bound_ <= min F <= F(coef_) = objective_`; the gap is relative.
    certified_, converged_ : bool
        Whether both numbers were recomputed in float64 with all rounding errors counted, and whether `gap_ <= tol`.
    n_iter_ : int
    n_passes_ : float
        Iterations, and passes over the data.
    history_ : dict of ndarray
        `time`, `n_passes`, `primal`, `best_primal`, `lower_bound`, `gap`, one entry an iteration."""


def documented(cls):
    """Fills `{parameters}` and `{certificate}` in the docstring of a class."""
    if cls.__doc__ is not None:             # python -OO
        cls.__doc__ = cls.__doc__.replace("{parameters}", PARAMETERS).replace("{certificate}", CERTIFICATE)
    return cls


class CertifiedEstimator(CallbackSupportMixin, BaseEstimator):
    """Base of all estimators.

    The fitted state is what stands in attributes with a trailing underscore: arrays, numbers, texts and dictionaries of
    arrays, nothing else. Whatever a prediction needs beyond is made from them and the parameters.
    """

    def _solve(self, risk, fitted, unpack, X, y, w0=None):
        """Minimises the risk and stores the outcome; Ctrl-C stores the best state and goes on.

        Parameters
        ----------
        fitted : dict
            Attributes that are known before the solve.
        unpack : callable
            Attributes that follow from w.
        X, y
            As the user gave them, for scikit-learn's callbacks.
        w0 : ndarray, optional
            First point, unless the state of the last fit is at hand.
        """
        warm = {"w0": w0}
        state = vars(self).get("_state")
        if self.warm_start and state is not None and state.fingerprint == getattr(risk, "fingerprint", ()):
            warm = {"warm_start": state}
        result = minimize(risk, lam=self._lam(), callback=self._watch(fitted, unpack, X, y), **self._options(), **warm)
        self._store(result, {**fitted, **unpack(result.x)})
        self._state = result.state if self.warm_start else None
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if hasattr(self, "_callback_fit_ctx"):
            self._callback_fit_ctx.call_on_fit_task_end(estimator=self, X=X, y=y,
                                                        reconstruction_attributes=lambda: {})
        return self

    def _begin_callbacks(self, X, y):
        """scikit-learn's callbacks are set up; to be called first in a `fit` decorated with `with_callbacks`."""
        if hasattr(self, "_init_callback_context"):
            self._init_callback_context(max_subtasks=None).call_on_fit_task_begin(estimator=self, X=X, y=y)

    def _lam(self):
        return 1.0 / check_number("C", self.C, low=0.0, strict=True)

    def _options(self):
        """Arguments of `minimize` that are parameters here."""
        seed = self.random_state
        if seed is not None and not isinstance(seed, (int, np.integer)):
            seed = int(check_random_state(seed).randint(2**31 - 1))
        for name in ("warm_start",):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InputTypeError(f"{name} must be True or False, got {getattr(self, name)!r}")
        return {"tol": self.tol, "method": self.method, "max_iter": self.max_iter, "time_limit": self.time_limit,
                "n_jobs": self.n_jobs, "random_state": seed, "verbose": int(self.verbose)}

    def _store(self, result, attributes):
        attributes |= {
            "objective_": float(result.fun), "lower_bound_": float(result.lower_bound), "gap_": float(result.gap),
            "certified_": bool(result.certified), "converged_": bool(result.success), "n_iter_": int(result.nit),
            "n_passes_": float(result.n_passes), "history_": result.history,
        }
        vars(self).update(attributes)

    def _watch(self, fitted, unpack, X, y):
        """Callbacks for `minimize`: the user's, with the estimator so far, and scikit-learn's."""
        def copied(w):
            return {**fitted, **unpack(w)}

        callbacks = [_WithEstimator(function, self, copied) for function in as_callbacks(self.callback)]
        if getattr(self, "_skl_callbacks", None):
            callbacks.append(_Bridge(self, copied, X, y))
        return callbacks

    # ------------------------------------------------------------------ the fitted state, for files
    def _get_state(self):
        """The fitted state as `(arrays, values)`: a dictionary of arrays and one that JSON can hold.

        Keys are names of attributes, `name/key` for a dictionary of arrays.
        """
        arrays, values = {}, {}
        for name, value in vars(self).items():
            if not name.endswith("_") or name.startswith("_"):
                continue
            for key, item in ({f"{name}/{k}": v for k, v in value.items()} if isinstance(value, dict)
                              else {name: value}).items():
                if isinstance(item, np.ndarray):
                    arrays[key] = _plain(key, item)
                elif item is None or isinstance(item, (bool, int, float, str)):
                    values[key] = item
                else:
                    raise StateError(f"{key} of {type(self).__name__} must be an array, a number or a text to be "
                                     f"saved, got {type(item).__name__}")
        return arrays, values

    def _set_state(self, arrays, values):
        """Takes over what `_get_state` of an estimator with the same parameters gave; returns self."""
        attributes = {}
        for name, value in {**arrays, **values}.items():
            name, _, key = name.partition("/")
            if key:
                attributes.setdefault(name, {})[key] = value
            else:
                attributes[name] = value
        vars(self).update(attributes)
        return self

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.pop("_state", None)           # planes and multipliers of all examples: larger than the data
        return state


def _plain(name, array):
    """An array of objects, as labels from pandas are, as texts; others as they are."""
    if array.dtype != object:
        return array
    if not all(isinstance(item, str) for item in array.ravel()):
        raise StateError(f"{name} must hold numbers or texts to be saved, got {type(array.ravel()[0]).__name__}")
    return array.astype(str)


class _WithEstimator:
    """A callback that is told the estimator so far."""

    def __init__(self, function, estimator, attributes):
        self._function, self._estimator, self._attributes = function, estimator, attributes

    def __call__(self, progress):
        return self._function(replace(progress, estimator=_copy(self._estimator, self._attributes(progress.w))))

    def close(self):
        if hasattr(self._function, "close"):
            self._function.close()


class _Bridge:
    """scikit-learn's callbacks: each iteration is a task below the fit."""

    def __init__(self, estimator, attributes, X, y):
        self._estimator, self._attributes, self._data = estimator, attributes, {"X": X, "y": y}
        self._context = estimator._callback_fit_ctx

    def __call__(self, progress):
        task = self._context.subcontext(task_name="iteration")
        w = progress.w
        arguments = {"estimator": self._estimator, **self._data,
                     "reconstruction_attributes": lambda: self._attributes(w)}
        task.call_on_fit_task_begin(**arguments)
        return task.call_on_fit_task_end(**arguments)


def _copy(estimator, attributes):
    copied = copy.copy(estimator)
    vars(copied).update(attributes)
    return copied
