"""`ChainEstimator`, the base class of sequence labellers: predictions, scores, names of weights."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import InputTypeError, ParameterError, StateError
from ..core.labels import as_output
from ..core.ragged import Ragged
from ..core.types import Data, Floats
from ..core.validation import check_finite, check_number
from ..core.warn import warn_user
from ..models import Chain
from ..oracles import k_best_viterbi
from ..oracles._chain import ChainTables
from ..oracles.chain import viterbi_unchecked
from ..templates import Templates
from .collections import by_blocks
from .labels import check_kind, label_array
from .penalty import rate_of, squares_and_l1
from .schemes import allowed_by
from .structured import StructuredEstimator, as_fitted, check_list, length
from .token_features import TokenFeatures, as_rows
from .tokens import columns_of, entries, holds_texts, rows_of, single
from .weights import NamedWeights

MOST = 1 << 30
"""Largest `n_features_in_` that is accepted from a file: the number of features with hash_bits=30."""


class ChainEstimator(TokenFeatures, NamedWeights, StructuredEstimator):
    """Base class of `ChainSVM` and `ChainCRF`, which define the loss."""

    normalised: bool = False        # this value and the next three are for subclasses without these parameters
    rescaling: str = "margin"
    loss: str = "hamming"
    l1: float = 0.0
    scheme: str | None = None
    token_weights: str
    templates: Templates | None
    _needs_penalty = "weights of features that the examples lack; l1 > 0 does"
    _unlimited = ("n_iter_", "n_features_in_")      # `_check_state` checks `n_features_in_`

    def _penalty(self, fitted):
        l1 = check_number("l1", self.l1, low=0.0)
        return squares_and_l1(self._lam(), l1)

    def _lam(self):
        return super()._lam() if self.l1 == 0.0 else rate_of(self.C)

    def _take(self, X, y, sample_weight):
        X, y, weights = super()._take(X, y, sample_weight)
        if not any(map(length, X)):       # a block of a Dask bag may have empty sequences only
            return [], [], weights[:0]
        return X, y, weights

    def _last_point(self, risk, fitted):
        w = super()._last_point(risk, fitted)       # with another scheme, other weights are fixed
        return None if w is None or self._of_fit["scheme"] != self.scheme else w

    def _risk(self, X, y, weights, fitted):
        x, truths, weights = self._nonempty(*self._encode_pairs(X, y, fitted), weights)
        if self._surveys_again(fitted):
            fitted |= self._learn_again([self._support(x, truths, fitted)])
        return self._structured(x, truths, weights, fitted)

    def _make_model(self, fitted):
        return Chain(len(fitted.classes_), fitted.n_features_in_, loss=self.loss, normalised=self.normalised,
                     start=self.start, end=self.end, rescaling=self.rescaling, token_support=fitted.token_support_,
                     allowed=None if self.scheme is None else allowed_by(self.scheme, fitted.classes_))

    def _check_state(self):
        support = vars(self).get("token_support_")
        most = np.size(self.coef_) if support is None else MOST
        if not 0 <= self.n_features_in_ <= most:
            raise StateError(f"n_features_in_ must be 0..{most}, got {self.n_features_in_:.3g}")
        super()._check_state()
        if support is not None and not (support.dtype == np.int32 and (support == self.model_.token_support).all()):
            raise StateError("token_support_ must be int32, sorted by feature and label")
        if self.vocabulary_ is not None and len(self.vocabulary_) != self.n_features_in_:
            raise StateError(f"vocabulary_ must hold {self.n_features_in_} names, got {len(self.vocabulary_)}")

    def _scored(self, model, X):
        """Return scores of all tokens (N, K), and the offsets of the sequences among them, shape (n + 1,)."""
        X = self._tokens(X)
        if not holds_texts(X) or (self.vocabulary_ is None and self.hash_bits is None):
            x = as_rows(X, self.n_features_in_, self.vocabulary_, self.hash_bits)
            check_finite("X", x.values, x.name_of)  # errors count the empty sequences, which are left out next
            tokens = model.tokens(Ragged.unchecked(x.values, _full(x.offsets)))
            return model.token_scores(self.coef_, tokens.values), x.offsets
        offsets, *rows = rows_of(X, *self._once("columns", lambda: columns_of(self.vocabulary_, self.hash_bits)))
        unary = model.entry_scores(self.coef_, *rows)
        first = None if rows[0][-1] else next((token for i, x in enumerate(X) for t, token in enumerate(x) if any(
            value for _, value in entries(token, i, t))), None)
        if first is not None:       # no token has a known feature, so only transitions matter
            warn_user(f"{type(self).__name__}: the model knows no feature of X, which begins with {first!r:.40}; "
                      "give features named as in the training", UserWarning)
        return unary, offsets

    @by_blocks
    @as_fitted
    def predict(self, X: Data, output: str = "list", known: Any = None) -> list[Any]:
        """Return the best labelling of every sequence, a list of Python values, or an array with `output="array"`.

        Parameters
        ----------
        X : sequence of sequences of tokens
        output : {"list", "array"}
        known : sequence of sequences, optional
            The label of each token of each sequence, or None where it is to be found; None for a whole sequence, too.

        Raises
        ------
        ParameterError
            If `known` does not fit X, or with `scheme` if no labelling of it has the known labels.
        """
        model, X = self.model_, check_list("X", X)
        unary, offsets = self._scored(model, X)
        self._set_known(unary, offsets, known)
        if not np.isfinite(self.coef_[model.n_token_weights:]).all():       # a user may write to `coef_`
            raise ParameterError("coef_ must be finite, got NaN or infinity among the weights of neighbouring labels")
        full = _full(offsets)
        labels, values = viterbi_unchecked(unary, full, ChainTables(*model.pair_scores(self.coef_)))
        self._check_possible(values, offsets, known)
        return as_output(Ragged.unchecked(labels, offsets), output, self.classes_)

    def predict_single(self, tokens: Any) -> list[Any]:
        """Return the labels of one sequence, a list of Python values."""
        return single(self.predict, tokens)

    def _set_known(self, unary, offsets, known):
        """Set the scores of all other labels to -inf at tokens whose label is known."""
        if known is None:
            return
        known = check_list("known", known)
        if len(known) != len(offsets) - 1:
            raise ParameterError(f"known must have an entry for each sequence of X, {len(offsets) - 1} in all, got "
                                 f"{len(known)}")
        codes = {label: k for k, label in enumerate(self.classes_.tolist())}
        for i, labels in enumerate(known):
            scores = unary[offsets[i]:offsets[i + 1]]
            labels = [None] * len(scores) if labels is None else labels
            if isinstance(labels, str) or not hasattr(labels, "__len__"):
                raise InputTypeError(f"known[{i}] must be a list of labels, None for unknown ones, got {labels!r:.40}")
            if len(labels) != len(scores):
                raise ParameterError(f"known[{i}] must have one entry for each token of X[{i}], {len(scores)}, got "
                                     f"{len(labels)}")
            for t, label in enumerate(labels):
                if label is not None:
                    if not isinstance(label, Hashable) or label not in codes:
                        raise ParameterError(f"known[{i}][{t}] must be a label of classes_ or None, got {label!r:.40}")
                    scores[t, np.arange(len(codes)) != codes[label]] = -np.inf

    def _check_possible(self, values, offsets, known):
        """Raise ParameterError if the best score of a sequence is -inf although weights are finite."""
        bad = np.flatnonzero(np.isneginf(values))
        if len(bad) and (known is not None or self.scheme is not None):
            i = int(np.flatnonzero(np.diff(offsets))[bad[0]])
            what, remedy = ("the labels in known", "change known") if known is not None else (
                "the classes of the training", "leave it out, or train on more classes")
            raise ParameterError(f"X[{i}], of length {offsets[i + 1] - offsets[i]}, must have a labelling in scheme="
                                 f"{self.scheme!r} with {what}, got none; {remedy}")

    def _count(self, X, y):
        found = self.predict(X, output="array")
        right, total = np.zeros(len(found)), np.zeros(len(found))
        for i, (labels, truth) in enumerate(zip(found, y, strict=True)):
            truth = label_array(truth, f"y[{i}]")
            if truth.shape != labels.shape:
                raise ParameterError(f"y[{i}] must have one label for each token of X[{i}], {len(labels)}, got shape "
                                     f"{truth.shape}")
            check_kind(truth, self.classes_, f"y[{i}]")
            right[i], total[i] = np.count_nonzero(labels == truth), len(labels)
        return right, total

    @as_fitted
    def _each(self, X, known=None):
        """Yield for every example the scores of its tokens (T, K), of pairs of labels, first and last labels."""
        model = self.model_
        unary, offsets = self._scored(model, check_list("X", X))
        self._set_known(unary, offsets, known)
        scores = model.pair_scores(self.coef_)
        if known is not None or self.scheme is not None:
            values = viterbi_unchecked(unary, _full(offsets), ChainTables(*scores))[1]
            self._check_possible(values, offsets, known)
        return ((rows, *scores) for rows in Ragged.unchecked(unary, offsets))

    def decision_function(self, X: Data) -> list[Floats]:
        """Max-marginals: the score of the best labelling with label k at token t, a list of arrays (T, K).

        The largest of every row is the score of the prediction.
        """
        return [_max_marginals(*problem) for problem in self._each(X)]

    def margins(self, X: Data) -> list[Floats]:
        """Return the lead of the best labelling over the best one that differs at token t, a list of arrays (T,)."""
        top = [np.partition(table, -2, axis=1) for table in self.decision_function(X)]
        return [table[:, -1] - table[:, -2] for table in top]

    def k_best(self, X: Data, k: int = 3, output: str = "list", known: Any = None) -> tuple[list[Any], list[Floats]]:
        """The k labellings of largest score, best first, with the labels in `known`, see `predict`.

        Returns
        -------
        labellings : list of lists of lists, or of ndarray, shape (k', T), with `output="array"`
            For every example; fewer than k if fewer exist.
        scores : list of ndarray, shape (k',)
        """
        found = [k_best_viterbi(scores, transition, k, start, end) if len(scores) else
                 (np.zeros((1, 0), dtype=np.int64), np.zeros(1)) for scores, transition, start, end in self._each(
                     X, known)]
        return ([self.classes_[labels] if output == "array" else as_output(labels, output, self.classes_)
                 for labels, _ in found], [values for _, values in found])

    def _class_weights(self):
        return self.token_coef_

    def _feature_names(self):
        return self.vocabulary_

    def transitions(self) -> dict[Any, dict[Any, float]]:
        """Return the weights of a label followed by another, as `transitions()[before][after]`; -inf if forbidden."""
        check_is_fitted(self)
        labels = self.classes_.tolist()
        return {label: dict(zip(labels, row, strict=True))
                for label, row in zip(labels, self.model_.pair_scores(self.coef_)[0].tolist(), strict=True)}

    def sparsify(self) -> Self:
        """Drop named features whose weights are 0 for all labels, which are most with an l1 norm; return self.

        Predictions stay the same, as features without a weight add nothing; the model takes less memory, and so does
        its file. With `token_support_` all pairs of feature and label of weight 0 are dropped. Models of arrays and of
        hashes are left as they are. The next fit learns its vocabulary anew.
        """
        check_is_fitted(self)
        if self.vocabulary_ is None:
            return self
        W, *others = self.model_.split(self.coef_)
        if sp.issparse(W):
            some = W.data != 0.0
            if not some.any():          # keep a weight, because a model has at least one feature
                some[0] = True
            kept, features = np.unique(self.token_support_[some, 0], return_inverse=True)
            W, support = W.data[some], np.stack([features.astype(np.int32), self.token_support_[some, 1]], axis=1)
        else:
            kept = np.flatnonzero(W.any(axis=0))
            kept = kept if len(kept) else np.arange(1)
            W, support = W[:, kept], None
        attributes = self.__dict__
        attributes.update(coef_=np.concatenate([W.ravel(), *map(np.ravel, others)]), token_support_=support,
                          vocabulary_=[self.vocabulary_[j] for j in kept.tolist()], n_features_in_=len(kept),
                          _state=None, _kept={})
        return self

    @property
    def token_coef_(self) -> Floats | sp.csc_array:
        """Weights of the features by label, shape (K, d); a csc_array if `token_support_` has only some of them."""
        return self.model_.split(self.coef_)[0]

    @property
    def transition_coef_(self) -> Floats:
        """Weights of a label (row) followed by another, shape (K, K)."""
        return self.model_.rest(self.coef_)[0]

    @property
    def start_coef_(self) -> Floats:
        """Weights of the first label, shape (K,)."""
        return self.model_.rest(self.coef_)[1]

    @property
    def end_coef_(self) -> Floats:
        """Weights of the last label, shape (K,)."""
        return self.model_.rest(self.coef_)[2]


def _full(offsets):
    """Return the offsets of the sequences that are not empty."""
    return offsets[np.append(True, offsets[1:] > offsets[:-1])]


def _max_marginals(unary, transition, start, end):
    T, K = unary.shape
    if T == 0:
        return unary
    before, behind = np.zeros((T, K)), np.zeros((T, K))
    before[0], behind[-1] = start, end
    for t in range(1, T):
        before[t] = (before[t - 1] + unary[t - 1] + transition.T).max(axis=1)
    for t in range(T - 2, -1, -1):
        behind[t] = (transition + unary[t + 1] + behind[t + 1]).max(axis=1)
    return before + unary + behind
