"""`StructuredEstimator`, the base class of estimators of structured labels, which learn a model of `pb.models`."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterable, Iterator, Mapping
from functools import wraps
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import InputTypeError, ParameterError, StateError
from ..core.graph import Graph, WeightedLabels
from ..core.labels import example_weights
from ..core.ragged import Ragged
from ..core.types import Data, Floats, Labels
from ..models import StructuredModel
from ..models.batch_oracle import check_lengths
from ..oracles import GraphLabels
from ..risks import Structured
from .base import CertifiedEstimator, without_weightless
from .collections import by_blocks, is_collection, served, summed_by_blocks
from .compat import texts_of

OF_RUNS = {"C", "Cs", "cv", "scoring", "search_tol", "tol", "atol", "method", "max_iter", "time_limit",
           "n_jobs", "random_state", "warm_start", "verbose", "callback"}
"""Parameters of the solver; all other parameters define the model."""


def as_fitted(method):
    """Decorate a method to use the parameters of the fit, whatever `set_params` has changed since."""
    @wraps(method)
    def call(self, *args, **kwargs):
        return method(self._as_fitted(), *args, **kwargs)
    return call


class StructuredEstimator(CertifiedEstimator):
    """Base class of estimators of structured labels.

    Subclasses define `_survey` and `_learn`, `_encode_pairs(X, y, fitted) -> (x, truths)`, `_make_model(attributes)`,
    `_encode(X)`, `_predict`, and `_count(X, y)`: the numerators and the denominators (n,) of the scores of examples.
    """

    _log_loss = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags

    def _listed(self, X, y):
        return check_list("X", X), check_list("y", y)

    def _examples(self, X):
        """Return checked examples for predictions."""
        return check_list("X", X)

    def _take(self, X, y, sample_weight):
        X, y = self._listed(X, y)
        return without_weightless(X, y, example_weights(sample_weight, check_lengths(X, y)))

    def _risk(self, X, y, weights, fitted):
        return self._structured(*self._encode_pairs(X, y, fitted), weights, fitted)

    def _structured(self, x, truths, weights, fitted):
        loss = "logistic" if self._log_loss else "hinge"
        return Structured(self._make_model(SimpleNamespace(**fitted)), x, truths, loss=loss, sample_weight=weights)

    def _store(self, result, fitted):
        super()._store(result, fitted)
        self._of_fit, self._kept = self._parameters(), {}

    def _at(self, fitted, w):
        copied = super()._at(fitted, w)
        copied._of_fit, copied._kept = self._parameters(), {}
        return copied

    def _set_state(self, arrays, values):
        self._of_fit = self._parameters()
        return super()._set_state(arrays, values)

    def _parameters(self):
        return {name: value for name, value in self.get_params(deep=False).items() if name not in OF_RUNS}

    def _as_fitted(self):
        mine = vars(self)
        of_fit = mine.get("_of_fit", {})        # a pickle makes new objects of numbers, so compare values
        if all(mine[k] is v or (type(mine[k]) is type(v) in (int, float) and mine[k] == v) for k, v in of_fit.items()):
            return self
        copied = copy.copy(self)
        vars(copied).update(of_fit, _kept=mine.setdefault("_kept", {}))
        return copied

    def _once(self, name, make):
        """Return `make()`, kept while all parameters and fitted attributes are the same objects."""
        mine = vars(self)
        kept = mine.setdefault("_kept", {})         # set first: the loop below fails if another thread adds a key
        sources = [value for key, value in mine.items() if key[-1] == "_" or key in mine["_of_fit"]]
        known, found = kept.get(name, ((), None))
        if len(known) != len(sources) or any(map(operator.is_not, known, sources)):
            found = make()
            kept[name] = sources, found
        return found

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_kept", None)
        return state

    def _check_state(self):
        super()._check_state()
        if self.coef_.shape != (self.model_.dim,):
            raise StateError(f"coef_ must have the shape ({self.model_.dim},) of the model, got {self.coef_.shape}")

    @property
    @as_fitted
    def model_(self) -> StructuredModel:
        """The model of `pb.models` behind the estimator, built once from parameters and fitted attributes."""
        if "coef_" not in vars(self):       # `check_is_fitted` takes a tenth of the time of a short sentence
            check_is_fitted(self)
        return self._once("model", lambda: self._make_model(self))

    @by_blocks
    @as_fitted
    def predict(self, X: Data) -> Labels:
        """Return the best labellings of the examples X, in the form that the class describes."""
        model, X = self.model_, self._examples(X)
        return self._shaped(X, self._predict(model, self._encode(X)))

    def _shaped(self, X, found):
        """Return predictions in the form of the examples."""
        return found

    @as_fitted
    def decision_function(self, X: Data) -> Floats:
        """Scores `<w, Psi(x, y)>` of the predictions, shape (n,)."""
        model, x = self.model_, self._encode(self._examples(X))
        labels = self._labels(model, x)
        return np.array([(model.joint_feature(one, label) @ self.coef_).item()
                         for one, label in zip(x, labels, strict=True)])

    @as_fitted
    def score(self, X: Data, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the weighted mean over the examples of the score that the class describes; larger is better."""
        if is_collection(X):
            if sample_weight is not None:
                raise ParameterError("sample_weight must be None for Dask bags")
            right, total = summed_by_blocks(served(self)._count, X, y)
            if total == 0.0:
                raise ParameterError("X must hold at least one example with labels, got none in any block")
            return float(right / total)
        X, y = self._listed(X, y)
        n = check_lengths(X, y)
        weights = example_weights(sample_weight, n)
        right, total = self._count(X, y)
        if (weights @ total) == 0.0:
            what = "sample_weight must leave" if np.any(total) else "y must hold"
            raise ParameterError(f"{what} at least one example with known labels, got none")
        return float(weights @ right / (weights @ total))

    def _decoded(self, model, x, truths):
        """Return the best labellings that the model's oracle finds; `truths` may be any admissible labellings."""
        oracle = model.oracle(x, truths)
        return oracle.solve_batch(np.arange(oracle.n_examples), oracle.prepare(self.coef_), loss=False).labellings


class BoundedEstimator(StructuredEstimator):
    """A structured estimator whose model bounds the scores of all labellings; `_given` makes predictions of labels."""

    def _predict(self, model, x):
        return self._given(model.decode_batch(self.coef_, x).labels)

    @as_fitted
    def decode(self, X: Data) -> GraphLabels:
        """Return predictions, with bounds that show how good they are.

        Returns
        -------
        GraphLabels
            `labels` as from `predict`; `value` (n,), the scores of these; `upper` (n,), bounds on the scores of all
            labellings. If both are equal up to rounding, the labelling is the best one.
        """
        model, X = self.model_, self._examples(X)
        found = model.decode_batch(self.coef_, self._encode(X))
        return GraphLabels(self._shaped(X, self._given(found.labels)), found.value, found.upper)

    def decision_function(self, X: Data) -> Floats:
        """Scores of the predictions, shape (n,)."""
        return self.decode(X).value


def check_list(name, value):
    """Return a sequence of examples; iterators and columns of tables become lists."""
    if isinstance(value, (Graph, WeightedLabels)) and not isinstance(value[0], Ragged):
        raise InputTypeError(f"{name} must be a list with one entry for each example, got one {type(value).__name__}; "
                             f"pass [{name.lower()}]")
    is_table = hasattr(value, "columns") or issparse(value)
    if is_table or isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        remedy = ("a table is no list of sequences: each is a list of tokens, as group.to_dict('records') makes of the "
                  "rows of one" if is_table else "a sequence is a list of tokens, one alone is [sequence]")
        kind = type(value).__name__
        raise InputTypeError(f"{name} must be a list with one entry for each example, got {kind}; {remedy}")
    # other sequences, like columns of tables, may have indices that do not begin at 0
    examples = value if isinstance(value, (list, tuple, np.ndarray, Ragged)) else list(value)
    if len(examples) == 0:
        raise ParameterError(f"{name} must hold at least one example, got none")
    if not isinstance(examples, (list, tuple)):
        return examples
    for i, example in enumerate(examples if name == "X" else ()):
        if hasattr(example, "columns") and (texts := texts_of(example)):
            column, text = next(iter(texts.items()))
            raise InputTypeError(f"X[{i}] must hold real numbers where it is a table, got {str(text)!r:.30} in column "
                                 f"{column!r:.30}; tokens with texts are dictionaries, table.to_dict('records')")
    if not any(isinstance(example, Iterator) or hasattr(example, "to_list") for example in examples):
        return examples
    return [list(example) if isinstance(example, Iterator) else
            example.to_list() if hasattr(example, "to_list") else example for example in examples]


def length(x):
    """Return the number of tokens or words of an example; 1 for a non-sequence, which the encoder refuses."""
    shape = getattr(x, "shape", None)
    if shape is not None:
        return shape[0] if shape else 1
    return len(x) if hasattr(x, "__len__") else 1
