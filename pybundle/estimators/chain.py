"""Sequence labelling: chain support vector machines and conditional random fields."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import ParameterError, StateError
from ..core.ragged import Ragged, array_of
from ..core.types import Array, Callbacks, Data, Floats
from ..core.validation import check_integer, check_number
from ..features.examples import not_finite
from ..models import Chain
from ..models.batch_oracle import check_lengths
from ..models.chain.oracle import scores as token_scores
from ..oracles import forward_backward, k_best_viterbi
from ..oracles.chain import viterbi_batch
from .base import documented
from .labels import encode_labels, label_array, label_classes, merged_classes
from .penalty import squares_and_l1
from .structured import StructuredEstimator, as_fitted, check_list, length
from .tokens import (
    SEQUENCES,
    as_lists,
    check_bits,
    check_tokens,
    count_features,
    encode,
    encode_hashed,
    frequent_features,
    holds_texts,
)

EXAMPLES = """X is a list of sequences, y a list of as many sequences of labels, texts or numbers. A sequence of tokens
    is an array (T, d) or CSR matrix, or a list of T tokens, each a dictionary of features, a list of texts or a text,
    as users of CRFsuite write them: `{"word": "the", "is_title": True, "length": 3}` has the features `word:the` and
    `is_title` of value 1 and `length` of value 3. X, y and sequences may be generators. Sequences without a token teach
    nothing, and are labelled by nothing."""

CHAIN_PARAMETERS = """start, end : bool
        Whether there are weights of the first and of the last label.
    hash_bits : int, optional
        Features by name are hashed to `2 ** hash_bits` columns; None learns the vocabulary of the training data.
    min_count : int
        Tokens that a feature by name must occur in to enter the vocabulary.
    l1 : float >= 0
        Rate of the l1 norm; if it is above 0, many weights are exactly 0."""

CHAIN_ATTRIBUTES = """coef_ : ndarray, shape (dim,)
        All weights; `token_coef_` (K, d), `transition_coef_` (K, K), `start_coef_` and `end_coef_` (K,) are views.
    classes_ : ndarray, shape (K,)
    vocabulary_ : list of str, or None
        Names of the d columns, if they were learnt.
    n_features_in_ : int
        d."""


class ChainEstimator(StructuredEstimator):
    """Base of `ChainSVM` and `ChainCRF`."""

    normalised: bool
    rescaling: str
    loss: str

    normalised, rescaling, loss = False, "margin", "hamming"       # a log-loss has none
    l1: float = 0.0         # of classes without such a parameter

    def _regulariser(self, fitted):
        return squares_and_l1(self._lam(), check_number("l1", self.l1, low=0.0))

    def _take(self, X, y, sample_weight):
        X, y, weights = super()._take(X, y, sample_weight)
        if not any(map(length, X)):       # a block of Dask bags, for instance
            return [], [], weights[:0]
        return X, y, weights

    def _survey(self, X, y, weights):
        """Classes, in how many tokens a feature by name occurs (None for arrays and hashes), number of columns."""
        X, classes = as_lists(X), label_classes(y)
        _check_sizes(X, np.array([len(labels) for labels in y]))
        if not holds_texts(X):
            shape = (X.values if isinstance(X, Ragged) else _first(X)).shape[1:]
            return classes, None, int(shape[0]) if shape else 1
        if self.hash_bits is not None:
            return classes, None, 1 << check_bits(self.hash_bits)
        return classes, count_features(X), None

    def _learn(self, surveys):
        classes = merged_classes([classes for classes, _, _ in surveys])
        if len(classes) < 2:
            raise ParameterError(f"y must hold at least two classes, got one class only, {classes.tolist()[0]!r}")
        widths = {width for _, _, width in surveys}
        if len(widths) > 1:
            raise ParameterError("X must hold features by name, or arrays of one width, in all blocks, got "
                                 + " and ".join(sorted("names" if width is None else str(width) for width in widths)))
        vocabulary, width = None, widths.pop()
        if width is None:
            counts = sum((counts for _, counts, _ in surveys[1:]), surveys[0][1])
            vocabulary = frequent_features(counts, self.min_count)
            width = len(vocabulary)
        return {"classes_": classes, "vocabulary_": vocabulary, "n_features_in_": width}

    def _encode_pairs(self, X, y, fitted):
        x = _encode(as_lists(X), fitted["n_features_in_"], fitted["vocabulary_"], self.hash_bits)
        return x, encode_labels(y, fitted["classes_"])

    def _risk(self, X, y, weights, fitted):
        x, truths = self._encode_pairs(X, y, fitted)
        kept = np.flatnonzero(x.sizes)      # left out as late as here, so that messages count the user's sequences
        if len(kept) < len(x):
            x, truths, weights = x.take(kept), truths.take(kept), weights[kept]
        return self._structured(x, truths, weights, fitted)

    def _make_model(self, fitted):
        return Chain(len(fitted.classes_), fitted.n_features_in_, loss=self.loss, normalised=self.normalised,
                     start=self.start, end=self.end, rescaling=self.rescaling)

    def _check_state(self):
        super()._check_state()
        if self.vocabulary_ is not None and len(self.vocabulary_) != self.n_features_in_:
            raise StateError(f"vocabulary_ must hold {self.n_features_in_} names, got {len(self.vocabulary_)}")

    def _encode(self, X):
        x = _encode(as_lists(X), self.n_features_in_, self.vocabulary_, self.hash_bits)
        _check_finite(x)
        return x

    def _predict(self, model, x):
        return [self.classes_[labels] for labels in self._labels(model, x)]

    def _labels(self, model, x):
        full = _without_empty(model, x)
        _, transition, start, end = self._weights(model)
        labels, _ = viterbi_batch(self._scores(model, full), full.offsets, transition, start, end)
        return Ragged(labels, x.offsets)

    def _scores(self, model, x):
        return np.asarray(token_scores(x.values, model.split(self.coef_)[0]), dtype=np.float64)

    def _weights(self, model):
        W, transition, start, end = model.split(self.coef_)
        return W, transition, start if model.start else None, end if model.end else None

    def _count(self, X, y):
        found = self.predict(X)
        right, total = np.zeros(len(found)), np.zeros(len(found))
        for i, (labels, truth) in enumerate(zip(found, y, strict=True)):
            truth = np.asarray(truth)
            if truth.shape != labels.shape:
                raise ParameterError(f"y[{i}] must have {len(labels)} labels, one for each token of X[{i}], got shape "
                                     f"{truth.shape}")
            right[i], total[i] = np.count_nonzero(labels == truth), len(labels)
        return right, total

    @as_fitted
    def _each(self, X):
        """For every example its scores of tokens (T, K), then what `_weights` has of transitions."""
        model = self.model_
        x = self._encode(check_list("X", X))
        unary, weights = Ragged(self._scores(model, _without_empty(model, x)), x.offsets), self._weights(model)[1:]
        return ((scores, *weights) for scores in unary)

    def decision_function(self, X: Data) -> list[Floats]:
        """Max-marginals: the score of the best labelling with label k at token t, a list of arrays (T, K).

        The largest of every row is the score of the prediction.
        """
        return [_max_marginals(*problem) for problem in self._each(X)]

    def margins(self, X: Data) -> list[Floats]:
        """By how much the best labelling wins over the best one that differs at token t, a list of arrays (T,)."""
        top = [np.partition(table, -2, axis=1) for table in self.decision_function(X)]
        return [table[:, -1] - table[:, -2] for table in top]

    def k_best(self, X: Data, k: int = 3) -> tuple[list[Array], list[Floats]]:
        """The k labellings of largest score, best first.

        Returns
        -------
        labellings : list of ndarray, shape (k', T)
            For every example; fewer than k if fewer exist.
        scores : list of ndarray, shape (k',)
        """
        found = [k_best_viterbi(scores, transition, k, start, end) if len(scores) else
                 (np.zeros((1, 0), dtype=np.int64), np.zeros(1)) for scores, transition, start, end in self._each(X)]
        return [self.classes_[labels] for labels, _ in found], [values for _, values in found]

    def top_features(self, label: Any, k: int = 10) -> list[tuple[Any, float]]:
        """Return the k features of largest weight for a label, largest first, as pairs (name, weight).

        A name is that of `vocabulary_`, or the number of a column without one. Weights of 0 are left out, so that there
        may be fewer than k pairs. The most negative weights come first with a negative k.

        Raises
        ------
        ParameterError
            If the label is not in `classes_`.
        """
        k, weights = check_integer("k", k), self.token_coef_[self._code("label", label)]
        order = np.argsort(-weights if k > 0 else weights, kind="stable")[:abs(k)]
        names = order.tolist() if self.vocabulary_ is None else [self.vocabulary_[j] for j in order.tolist()]
        return [(name, weight) for name, weight in zip(names, weights[order].tolist(), strict=True) if weight * k > 0.0]

    def transitions(self) -> dict[Any, dict[Any, float]]:
        """Return the weights of a label followed by another, as `transitions()[before][after]`."""
        check_is_fitted(self)
        labels = self.classes_.tolist()
        return {label: dict(zip(labels, row, strict=True))
                for label, row in zip(labels, self.transition_coef_.tolist(), strict=True)}

    def _code(self, name, label):
        """The number of a label."""
        check_is_fitted(self)
        labels = self.classes_.tolist()
        if label not in labels:
            raise ParameterError(f"{name} must be a label of classes_, {labels!r:.80}, got {label!r:.40}")
        return labels.index(label)

    @property
    def token_coef_(self) -> Floats:
        """Weights of the features by label, shape (K, d)."""
        return self.model_.split(self.coef_)[0]

    @property
    def transition_coef_(self) -> Floats:
        """Weights of a label (row) followed by another, shape (K, K)."""
        return self.model_.split(self.coef_)[1]

    @property
    def start_coef_(self) -> Floats:
        """Weights of the first label, shape (K,)."""
        return self.model_.split(self.coef_)[2]

    @property
    def end_coef_(self) -> Floats:
        """Weights of the last label, shape (K,)."""
        return self.model_.split(self.coef_)[3]


@documented(examples=EXAMPLES, chain_parameters=CHAIN_PARAMETERS, chain_attributes=CHAIN_ATTRIBUTES)
class ChainSVM(ChainEstimator):
    """Structured support vector machine for sequences of labels, trained to a certified gap.

        F(w) = |w|^2 / (2 C) + l1 |w|_1 + sum_i c_i max_y [ loss(y_i, y) + <w, Psi(x_i, y) - Psi(x_i, y_i)> ],

    where Psi is the joint feature map of a first-order chain (`pb.models.Chain`) and the loss is the number of wrong
    labels.

    {examples}

    Parameters
    ----------
    {parameters}
    loss : "hamming" or ndarray, shape (K, K)
        Or the sum of costs `loss[truth, label]` >= 0, classes in the order of `classes_`.
    rescaling : {"margin", "slack"}
        "slack" multiplies loss and margin.
    normalised : bool
        Divide the loss of an example by its length.
    {chain_parameters}

    Attributes
    ----------
    {chain_attributes}
    {certificate}

    Notes
    -----
    `predict` returns a list of arrays of labels, `score` the fraction of right labels among all tokens.

    Examples
    --------
    >>> import pybundle as pb
    >>> X = [["the", "dog", "barks"], ["dogs", "bark"], ["the", "cat"]]
    >>> y = [["DET", "N", "V"], ["N", "V"], ["DET", "N"]]
    >>> svm = pb.ChainSVM(C=10.0).fit(X, y)
    >>> [labels.tolist() for labels in svm.predict([["the", "cat", "barks"]])]
    [['DET', 'N', 'V']]
    >>> svm.certified_, svm.vocabulary_[:2]
    (True, ['bark', 'barks'])
    """

    def __init__(self, C: float = 1.0, *, loss: Any = "hamming", rescaling: str = "margin", normalised: bool = False,
                 start: Any = True, end: Any = True, hash_bits: int | None = None, min_count: int = 1, l1: float = 0.0,
                 tol: float = 0.001, method: str = "auto", max_iter: int | None = None, time_limit: float | None = None,
                 n_jobs: int | None = None, random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self.C = C
        self.loss = loss
        self.rescaling = rescaling
        self.normalised = normalised
        self.start = start
        self.end = end
        self.hash_bits = hash_bits
        self.min_count = min_count
        self.l1 = l1
        self.tol = tol
        self.method = method
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback


@documented(examples=EXAMPLES, chain_parameters=CHAIN_PARAMETERS, chain_attributes=CHAIN_ATTRIBUTES)
class ChainCRF(ChainEstimator):
    """Linear-chain conditional random field, trained to a certified gap.

        F(w) = |w|^2 / (2 C) + l1 |w|_1 - sum_i c_i log p(y_i | x_i),      p(y | x) proportional to exp <w, Psi(x, y)>

    {examples}

    Parameters
    ----------
    {parameters}
    {chain_parameters}

    Attributes
    ----------
    {chain_attributes}
    {certificate}

    Notes
    -----
    `predict` returns the most probable labelling of each example, a list of arrays; `score` the fraction of right
    labels among all tokens. CRFsuite's penalty `c2 |w|^2` is `C = 1 / (2 c2)`, its `c1 |w|_1` is `l1`.

    Examples
    --------
    >>> import pybundle as pb
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "dogs"}, {"word": "bark"}]]
    >>> y = [["DET", "N"], ["N", "V"]]
    >>> crf = pb.ChainCRF(C=10.0).fit(X, y)
    >>> crf.predict(X)[0].tolist(), crf.predict_proba(X)[0].argmax(axis=1).tolist()
    (['DET', 'N'], [0, 1])
    >>> sorted(crf.predict_marginals(X)[0][0])
    ['DET', 'N', 'V']
    """

    _log_loss = True

    def __init__(self, C: float = 1.0, *, start: Any = True, end: Any = True, hash_bits: int | None = None,
                 min_count: int = 1, l1: float = 0.0, tol: float = 0.001, method: str = "auto",
                 max_iter: int | None = None, time_limit: float | None = None, n_jobs: int | None = None,
                 random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self.C = C
        self.start = start
        self.end = end
        self.hash_bits = hash_bits
        self.min_count = min_count
        self.l1 = l1
        self.tol = tol
        self.method = method
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    def predict_proba(self, X: Data) -> list[Floats]:
        """P(label k at token t), a list of arrays (T, K), columns in the order of `classes_`."""
        return [forward_backward(*problem).unary if len(problem[0]) else problem[0] for problem in self._each(X)]

    def predict_marginals(self, X: Data) -> list[Any]:
        """The same as dictionaries {label: probability}, a list for each example."""
        labels = self.classes_.tolist()
        return [[dict(zip(labels, row, strict=True)) for row in table.tolist()] for table in self.predict_proba(X)]

    def log_likelihood(self, X: Data, y: Any) -> Floats:
        """log p(y | x) of every example, shape (n,)."""
        X, y = check_list("X", X), check_list("y", y)
        check_lengths(X, y)
        found, codes_of = [], {label: code for code, label in enumerate(self.classes_.tolist())}
        for i, (problem, labels) in enumerate(zip(self._each(X), y, strict=True)):
            codes = [codes_of.get(label) for label in label_array(labels, f"y[{i}]").tolist()]
            if len(codes) != len(problem[0]) or None in codes:
                raise ParameterError(f"y[{i}] must hold {len(problem[0])} labels of classes_, got {labels!r:.60}")
            codes = np.array(codes, dtype=np.int64)
            found.append(_score(codes, *problem) - forward_backward(*problem).log_partition if len(codes) else 0.0)
        return np.array(found)


def _check_sizes(X, n_labels):
    """Check that each sequence has as many labels as tokens; the encoder refuses what is not a sequence."""
    if isinstance(X, Ragged):
        sizes = X.sizes.tolist()
    else:
        sizes = [x.shape[0] if len(getattr(x, "shape", ())) == 2 else len(x) if isinstance(x, SEQUENCES) else None
                 for x in X]
    for i, (size, n) in enumerate(zip(sizes, n_labels.tolist(), strict=True)):
        if size not in (n, None):
            raise ParameterError(f"y[{i}] must have {size} labels, one for each token of X[{i}], got {n}")


def _first(X):
    """The first example that is not empty, as an array of tokens."""
    check_tokens(X)
    i, x = next((i, x) for i, x in enumerate(X) if length(x))
    return array_of(x, f"X[{i}]")


def _check_finite(x):
    """Refuses NaN and infinities in tokens by the words of a fit, which looks at them on its own."""
    values = x.values
    numbers = values.data if sp.issparse(values) else values
    if numbers.dtype.kind != "f" or values.ndim != 2 or np.isfinite(numbers).all():
        return
    bad = np.argwhere(~np.isfinite(numbers))[0, 0]
    row = np.searchsorted(values.indptr, bad, side="right") - 1 if sp.issparse(values) else bad
    raise ParameterError(not_finite(values, row, x.name_of))


def _without_empty(model, x):
    """The tokens of all sequences that have some: the others have none to add."""
    if x.sizes.all():
        return model.tokens(x)
    full = x.take(np.flatnonzero(x.sizes))
    return model.tokens(full) if len(full) else full


def _encode(X, width, vocabulary, hash_bits):
    """Tokens as rows of `width` columns."""
    if not isinstance(X, Ragged) and not any(map(length, X)):
        return Ragged(np.zeros((0, width)), np.zeros(len(X) + 1, dtype=np.int64))
    if not holds_texts(X):
        check_tokens(X)
        if vocabulary is not None:
            raise ParameterError("X must hold features by name, dictionaries or texts, as in the fit, got arrays")
        if isinstance(X, Ragged) or all(map(length, X)):
            return Ragged.of(X)
        nothing = _first(X)[:0]
        return Ragged.of([x if length(x) else nothing for x in X])
    if vocabulary is not None:
        return encode(X, vocabulary)
    if hash_bits is None:
        raise ParameterError("X must hold arrays or CSR matrices, as in the fit, got features by name")
    return encode_hashed(X, check_bits(hash_bits))


def _score(labels, unary, transition, start, end):
    total = unary[np.arange(len(labels)), labels].sum() + transition[labels[:-1], labels[1:]].sum()
    return total + (0.0 if start is None else start[labels[0]]) + (0.0 if end is None else end[labels[-1]])


def _max_marginals(unary, transition, start, end):
    T, K = unary.shape
    if T == 0:
        return unary
    before, behind = np.zeros((T, K)), np.zeros((T, K))
    before[0] = 0.0 if start is None else start
    behind[-1] = 0.0 if end is None else end
    for t in range(1, T):
        before[t] = (before[t - 1] + unary[t - 1] + transition.T).max(axis=1)
    for t in range(T - 2, -1, -1):
        behind[t] = (transition + unary[t + 1] + behind[t + 1]).max(axis=1)
    return before + unary + behind
