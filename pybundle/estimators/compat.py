"""What differs between the versions of scikit-learn, 1.5 on."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import Any

import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning as OfScikitLearn

from ..core.exceptions import ConvergenceWarning
from ..core.sparse import check_sparse
from ..core.validation import refuse_masked
from .labels import check_one_type


class FitConvergenceWarning(ConvergenceWarning, OfScikitLearn):
    """A fit stopped before its gap reached the tolerance: filters for scikit-learn's class hold for it."""


class NoCallbacks:
    """Replace scikit-learn's callbacks, which exist from version 1.9 on."""


def undecorated(method):
    """Stands for `with_callbacks` there."""
    return method


def data_validated(estimator, X, y="no_validation", **options):
    """`sklearn.utils.validation.validate_data` before 1.6."""
    return estimator._validate_data(X, y, **options)


def _newer(module, name, fallback) -> Any:
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError):
        return fallback


CallbackSupportMixin = _newer("sklearn.callback", "CallbackSupportMixin", NoCallbacks)
with_callbacks = _newer("sklearn.callback", "with_callbacks", undecorated)
_validate_data = _newer("sklearn.utils.validation", "validate_data", data_validated)


def validate_data(estimator, X, *y, **options):
    """That of scikit-learn, which looks neither at the indices of sparse matrices nor at the types of labels."""
    refuse_masked("X", X)
    for labels in y:
        refuse_masked("y", labels)
        check_one_type(labels)
    if sp.issparse(X):
        check_sparse("X", X)
    return _validate_data(estimator, X, *y, **options)


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
