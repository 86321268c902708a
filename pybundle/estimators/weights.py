"""`NamedWeights`, a mixin that names the features of largest weight for each label."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import ParameterError
from ..core.validation import check_integer

Pairs: TypeAlias = list[tuple[Any, float]]


class NamedWeights:
    """Mixin of estimators with `classes_` and weights of each class.

    A subclass defines `_class_weights()`, (K, d), dense or sparse, and `_feature_names()`, d texts or None.
    """

    classes_: Any
    _class_weights: Any
    _feature_names: Any

    def top_features(self, label: Any = None, k: int = 10) -> Pairs | dict[Any, Pairs]:
        """Return the k features of largest weight for a label, largest first, as pairs (name, weight).

        Parameters
        ----------
        label
            One of `classes_`; None, the default, returns a dictionary with a list of pairs for every label.
        k : int
            At most so many; weights of 0 are left out. With a negative k the most negative weights come first.

        Returns
        -------
        list of (str or int, float), or dict of such lists
            A name is that which the model knows, or the number of a column without one.

        Raises
        ------
        ParameterError
            If the label is not in `classes_`.
        """
        check_is_fitted(self)
        k, labels, W = check_integer("k", k), self.classes_.tolist(), self._class_weights()
        if label is None:
            return {name: self._top(W, code, k) for code, name in enumerate(labels)}
        if not np.isscalar(label) or label not in labels:
            raise ParameterError(f"label must be a label of classes_, {labels!r:.80}, got {label!r:.40}")
        return self._top(W, labels.index(label), k)

    def _top(self, W, code, k):
        weights, names = W[[code]].toarray()[0] if sp.issparse(W) else W[code], self._feature_names()
        order = np.argsort(-weights if k > 0 else weights, kind="stable")[:abs(k)]
        return [(j if names is None else names[j], weight)
                for j, weight in zip(order.tolist(), weights[order].tolist(), strict=True) if weight * k > 0.0]
