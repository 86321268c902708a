"""`MulticlassSVM`, linear support vector machines for two or more classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.exceptions import ParameterError
from ..core.types import Callbacks
from ..core.validation import check_number
from ..risks import BinaryHinge, MulticlassHinge
from ..solvers.method import Method
from .linear_classifier import LinearClassifierEstimator
from .probabilities import Probabilities


class MulticlassSVM(Probabilities, LinearClassifierEstimator):
    """Linear support vector machine for two or more classes, trained to a certified gap.

    Three classes or more (Crammer and Singer), `w_k` being the rows of `coef_`:

        F(W) = |W|^2 / (2 C) + sum_i c_i max_k [ [k != y_i] + <w_k - w_{y_i}, x_i> ]

    Two classes, with labels -1, +1: `F(w) = |w|^2 / (2 C) + sum_i c_i max(0, 1 - y_i <w, x_i>)`. Both are objectives of
    scikit-learn's `LinearSVC` (`multi_class="crammer_singer"`, `loss="hinge"`). With `rho = l1_ratio > 0` the penalty
    is `(rho |W|_1 + (1 - rho)/2 |W|^2) / C`.

    Parameters
    ----------
    {C}
    l1_ratio : float in [0, 1]
        Share rho of the l1 norm in the penalty; with 1 many weights are exactly 0.
    fit_intercept : bool
        Adds a constant feature of value `intercept_scaling`. Its weight is *regularised* like the others, as in
        `LinearSVC`; a large `intercept_scaling` makes that negligible, at the price of more iterations. Data that are
        centred do without.
    intercept_scaling : float
        Value of the constant feature.
    class_weight : dict, "balanced" or None
        Factors of the weights c_i by class; "balanced" makes the weights of all classes sum to the same number.
    loss : ndarray, shape (K, K), optional
        Cost `loss[truth, label]` >= 0 instead of `[label != truth]`, classes in the order of `classes_`; three classes
        or more.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray, shape (K, d), or (1, d) for two classes
    intercept_ : ndarray, shape (K,) or (1,)
    classes_, class_weight_ : ndarray, shape (K,)
        Classes in sorted order, the second of two is the positive one; factors of their weights.
    n_features_in_, feature_names_in_ : int, ndarray
        Number of columns of X; their names, where X had some.
    {certificate}

    Notes
    -----
    X (n, d) may be dense (float32, float64, uint8) or CSR (float32, float64), which is not copied, y (n,) holds
    texts, numbers or NumPy's dates. float32 data are searched in float32 and certified in float64. Small tolerances
    (1e-6 to 1e-10) are for coefficients and scores that are to be compared.

    Examples
    --------
    >>> import pybundle as pb
    >>> X, y, X_test, y_test = pb.datasets.load_digits()
    >>> svm = pb.MulticlassSVM(C=1.0).fit(X, y)
    >>> svm.score(X_test, y_test) > 0.95, svm.gap_ <= 1e-3, svm.certified_
    (True, True, True)
    >>> labels, scores = svm.k_best(X_test[:5], k=2)
    >>> labels.shape
    (5, 2)
    """

    _log_loss_is = "MulticlassLogistic, or calibrate by CalibratedClassifierCV"

    def __init__(self, C: float = 1.0, *, l1_ratio: float = 0.0, fit_intercept: bool = True,
                 intercept_scaling: float = 1.0, class_weight: dict[Any, float] | str | None = None, loss: Any = None,
                 tol: float = 0.001, atol: float | None = None,
                 method: str | Method = "auto", max_iter: int | None = None,
                 time_limit: float | None = None, n_jobs: int | None = None, random_state: Any = None,
                 warm_start: Any = False, verbose: int = 0, callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def _risk(self, X, y, weights, fitted):
        classes = fitted["classes_"]
        codes = np.searchsorted(classes, y)
        weights = weights * fitted["class_weight_"][codes]
        scaling = check_number("intercept_scaling", self.intercept_scaling, low=0.0, strict=True)
        options = {"sample_weight": weights, "bias": scaling if self._has_intercept() else None,
                   "n_classes": len(classes)}       # a block of a collection may lack some classes
        if len(classes) == 2:
            if self.loss is not None:
                raise ParameterError("loss must be None for two classes, got a matrix; use class_weight, which is the "
                                     "same")
            return BinaryHinge(X, 2 * codes - 1, **options)
        return MulticlassHinge(X, codes, loss=self.loss, **options)
