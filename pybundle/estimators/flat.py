"""`FlatEstimator`, base of classifiers and regressors on rows: weights may be sparse, and free of a penalty."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import StateError
from ..core.sparse import check_sparse
from ..core.validation import check_flag
from .base import CertifiedEstimator


class FlatEstimator(CertifiedEstimator):
    """Base class of estimators of rows of a matrix; `coef_` may be a CSR matrix."""

    coef_: Any
    fit_intercept: bool
    _needs_penalty = ""
    _takes_sparse = True

    def _has_intercept(self):
        return check_flag("fit_intercept", self.fit_intercept)

    def sparsify(self) -> Self:
        """Make `coef_` a CSR matrix, until the next fit; returns the estimator itself."""
        check_is_fitted(self)
        self.__dict__["coef_"] = sp.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Make `coef_` an array again; returns the estimator itself."""
        check_is_fitted(self)
        self.__dict__["coef_"] = self._dense_coef()
        return self

    def _dense_coef(self):
        if not sp.issparse(self.coef_):
            return self.coef_
        return self.coef_.toarray()[0] if np.ndim(self.intercept_) == 0 else self.coef_.toarray()

    def _check_state(self):
        if sp.issparse(vars(self).get("coef_")):
            check_sparse("coef_", self.coef_, StateError)
        super()._check_state()
