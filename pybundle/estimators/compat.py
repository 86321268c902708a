"""Bridge differences between versions of scikit-learn from 1.5 on, and add input checks that it lacks."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning as OfScikitLearn
from sklearn.utils import check_random_state

from ..core.exceptions import ConvergenceWarning, InputTypeError, ParameterError
from ..core.sparse import check_sparse
from ..core.validation import refuse_masked, refuse_rounded
from .labels import check_known, check_objects, check_one_label, check_one_type

Function = TypeVar("Function", bound=Callable[..., Any])


class FitConvergenceWarning(ConvergenceWarning, OfScikitLearn):
    """A fit stopped before its gap reached the tolerance; filters for scikit-learn's class also hold for this one."""


def _newer(module, name, fallback) -> Any:
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError):
        return fallback


if TYPE_CHECKING:
    class CallbackSupportMixin:
        """A class that scikit-learn has since 1.9 only."""
else:
    CallbackSupportMixin = _newer("sklearn.callback", "CallbackSupportMixin", type("NoCallbacks", (), {}))
with_callbacks: Callable[[Function], Function] = _newer("sklearn.callback", "with_callbacks", lambda method: method)
_validate_data = _newer("sklearn.utils.validation", "validate_data", lambda estimator, *data, **options:
                        estimator._validate_data(*data, **options))         # scikit-learn before 1.6


def validate_data(estimator, X, *y, **options):
    """Call scikit-learn's function; also check indices of sparse matrices and types of labels, and name columns."""
    refuse_masked("X", X)
    numbers = ("X", X), *(("y", labels) for labels in y if options.get("y_numeric"))
    for name, value in numbers:
        for k, dtype in enumerate(np.atleast_1d(getattr(value, "dtypes", getattr(value, "dtype", None)))):
            if getattr(dtype, "kind", "") in ("m", "M", "V"):
                where = f" in column {value.columns[k]!r:.30}" if hasattr(value, "columns") else ""
                raise InputTypeError(f"{name} must hold numbers, got dtype {dtype}{where}; {DATES}")
    for labels in y:
        refuse_masked("y", labels)
        check_one_type(labels)
        check_one_label(estimator, labels)
        if not options.get("y_numeric"):
            check_objects(labels)
        dtype = getattr(labels, "dtype", None)
        own = None if isinstance(dtype, np.dtype) else getattr(dtype, "numpy_dtype", None)
        if getattr(own, "kind", "O") in "iub" and hasattr(labels, "isna") and not labels.isna().any():
            y = (np.asarray(labels, own),)      # scikit-learn makes floats of pandas' own integers and truth values
    if sp.issparse(X):
        check_sparse("X", X)
    try:
        found = _validate_data(estimator, X, *y, **options)
        for name, value in numbers:
            columns = (value.iloc[:, j] for j in range(value.shape[1])) if hasattr(value, "iloc") and value.ndim == 2 \
                else (np.array(value, dtype=object) if isinstance(value, (list, tuple)) else value,)
            for column in columns:
                refuse_rounded(name, column.tocoo().data if sp.issparse(column) else np.asarray(column))
        if y and not options.get("y_numeric"):
            check_known(y[0], found[1])
        return found
    except (TypeError, ValueError, OverflowError) as problem:
        if isinstance(problem, OverflowError):
            raise InputTypeError(f"X and y must hold numbers of float64: {problem}") from problem
        if "fill value must be 0" in str(problem):
            raise ParameterError("X must be 0 where sparse columns of pandas store nothing, got another fill value; "
                                 "X.sparse.to_dense() has none") from problem
        if "complex" in str(problem).lower():
            name = "y" if any(map(np.iscomplexobj, y)) else "X"
            raise ParameterError(f"Complex data not supported: {name} must hold real numbers") from problem
        for column, value in (texts := texts_of(X)).items():
            names = [name for name in texts if not _is_date(texts[name])]
            remedy = DATES if _is_date(value) else f"use ColumnTransformer([('', OneHotEncoder(), {names!r:.60})], " \
                "remainder='passthrough')"
            raise ParameterError(f"X must hold numbers, got {str(value)!r:.30} in column {column!r:.30}; {remedy}"
                                 ) from problem
        targets = np.array(y, dtype=object).ravel() if options.get("y_numeric") else ()
        if (date := next(filter(_is_date, targets), None)) is not None:
            raise ParameterError(f"y must hold numbers, got {str(date)!r:.30}; {DATES}") from problem
        raise


DATES = "pass dates as numbers of one unit, such as days since the first"
LIKE_A_DATE = re.compile(r"\d{1,4}([-/:])\d{1,2}\1\d{1,4}|\d{1,2}\.\d{1,2}\.\d{4}")


def _is_date(value):
    """Return whether a value is a date, a time or a duration, or a text that begins like one."""
    return any(hasattr(value, part) for part in ("year", "hour", "days")) or bool(LIKE_A_DATE.match(str(value)))


def texts_of(X):
    """Return by column the first text or date of X; of a data frame return the first value that is no number."""
    X = np.array(X, dtype=object) if isinstance(X, (list, tuple)) else X
    if sp.issparse(X) or len(getattr(X, "shape", ())) != 2:
        return {}
    is_frame, columns = hasattr(X, "columns"), getattr(X, "iloc", X)

    def is_text(value):
        try:
            float(value)
        except (TypeError, ValueError):
            return isinstance(value, (str, bytes)) or _is_date(value) or (
                is_frame and str(value) not in ("None", "<NA>"))
        return False

    found = {}
    for j, name in enumerate(X.columns if is_frame else range(X.shape[1])):
        column = np.asarray(columns[:, j])
        text = next(filter(is_text, () if column.dtype.kind in "biufc" else column), None)
        found |= {} if text is None else {name: text}
    return found


def seed_of(random_state):
    """Return `random_state` as an integer or None; a generator draws the integer."""
    if random_state is None or isinstance(random_state, (int, np.integer)):
        return random_state
    return int(check_random_state(random_state).randint(2**31 - 1))


@contextmanager
def unchanged_by_failure(estimator):
    """Restore the attributes that input checks have set if a fit ends without a model.

    A fit that returns a model also drops the column names that the command line stored for an earlier one.
    """
    mine, names = vars(estimator), ("n_features_in_", "feature_names_in_")
    before, last = {name: mine[name] for name in names if name in mine}, mine.get("history_")
    try:
        yield
    except BaseException:
        if mine.get("history_") is last:
            for name in names:
                mine.pop(name, None)
            mine.update(before)
        raise
    finally:
        if mine.get("history_") is not last:
            mine.pop("_columns", None)
