"""What differs between the versions of scikit-learn, 1.5 on."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import scipy.sparse as sp

from ..core.sparse import check_sparse


class NoCallbacks:
    """Stands for the callbacks of scikit-learn where it has none, before 1.9."""


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
    """That of scikit-learn, which does not look at the indices of sparse matrices."""
    if sp.issparse(X):
        check_sparse("X", X)
    return _validate_data(estimator, X, *y, **options)
