"""Sequence labelling: chain support vector machines and conditional random fields."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.exceptions import ParameterError
from ..core.types import Callbacks, Data, Floats
from ..models.batch_oracle import check_lengths
from ..oracles import forward_backward
from ..solvers.method import Method
from ..templates import Templates
from .labels import label_array
from .probabilities import Probabilities
from .sequences import ChainEstimator
from .structured import check_list

CHAIN = {
    "examples": """X is a list of sequences, y a list of as many sequences of labels, texts or numbers. A sequence of
    tokens is an array (T, d) or CSR matrix, or a list of T tokens, each a dictionary of features, a list of texts or a
    text, as users of CRFsuite write them: `{"word": "the", "is_title": True, "length": 3}` has the features `word:the`
    and `is_title` of value 1 and `length` of value 3. X, y and sequences may be generators. Sequences without a token
    teach nothing, and are labelled by nothing.""",
    "chain_parameters": """start, end : bool
        Whether there are weights of the first and of the last label.
    templates : Templates, optional
        They make the features of tokens, which are tuples of columns or words then, in predictions, too; see
        `pb.templates`.
    hash_bits : int, optional
        Features by name are hashed to `2 ** hash_bits` columns; None learns the vocabulary of the training data.
    min_count : int
        Tokens that a feature by name must occur in to enter the vocabulary.
    token_weights : {"auto", "all", "occurring"}
        Pairs of feature and label that have weights: all, or those that occur together in the training data, as in
        CRFsuite by default, a smaller model that takes less memory. "auto" is "occurring" if tokens are sparse and all
        would be more than 2^20 weights.
    scheme : {"BIO", "IOB1", "BILOU", "IOBES"}, optional
        How y writes chunks. Labellings that break the scheme are never predicted, have probability 0, and are refused
        in y; `pb.metrics.rewritten` mends them. BIO (IOB2): `I-X` follows `B-X` or `I-X`. IOB1: so does `B-X`. BILOU:
        `B-X` and `I-X` are followed by `I-X` or `L-X`, which follow nothing else; IOBES writes E for L and S for U.""",
    "l1": """l1 : float >= 0
        Rate of the l1 norm; above 0 many weights are exactly 0, and `sparsify()` drops features without others; C may
        be infinite.""",
    "chain_attributes": """coef_ : ndarray, shape (dim,)
        All weights; `token_coef_` (K, d), `transition_coef_` (K, K), `start_coef_` and `end_coef_` (K,) are views.
    classes_ : ndarray, shape (K,)
        The labels, in sorted order.
    vocabulary_ : list of str, or None
        Names of the d columns, if they were learnt.
    n_features_in_ : int
        d, the number of features of a token.
    token_support_ : ndarray, shape (m, 2), or None
        Pairs (feature, label) that have weights, int32, by feature, then label; `token_coef_` is a csc_array then.
        None if all have.""",
}
"""Pieces of the docstrings of sequence labellers."""


class ChainSVM(Probabilities, ChainEstimator):
    """Structured support vector machine for sequences of labels, trained to a certified gap.

        F(w) = |w|^2 / (2 C) + l1 |w|_1 + sum_i c_i max_y [ loss(y_i, y) + <w, Psi(x_i, y) - Psi(x_i, y_i)> ],

    where Psi is the joint feature map of a first-order chain (`pb.models.Chain`) and the loss is the number of wrong
    labels.

    {examples}

    Parameters
    ----------
    {C}
    loss : "hamming" or ndarray, shape (K, K)
        Or the sum of costs `loss[truth, label]` >= 0, classes in the order of `classes_`.
    rescaling : {"margin", "slack"}
        "slack" multiplies loss and margin.
    normalised : bool
        Divide the loss of an example by its length.
    {chain_parameters}
    {l1}
    {parameters}

    Attributes
    ----------
    {chain_attributes}
    {certificate}

    Notes
    -----
    `predict` returns a list of lists of labels, `score` the fraction of right labels among all tokens.

    Examples
    --------
    >>> import pybundle as pb
    >>> X = [["the", "dog", "barks"], ["dogs", "bark"], ["the", "cat"]]
    >>> y = [["DET", "N", "V"], ["N", "V"], ["DET", "N"]]
    >>> svm = pb.ChainSVM(C=10.0).fit(X, y)
    >>> svm.predict([["the", "cat", "barks"]]), svm.predict_single(["dogs", "bark"])
    ([['DET', 'N', 'V']], ['N', 'V'])
    >>> svm.certified_, svm.vocabulary_[:2]
    (True, ['bark', 'barks'])
    """

    _pieces = CHAIN
    _log_loss_is = "ChainCRF"

    def __init__(self, C: float = 1.0, *, loss: Any = "hamming", rescaling: str = "margin", normalised: bool = False,
                 start: Any = True, end: Any = True, templates: Templates | None = None,
                 hash_bits: int | None = None, min_count: int = 1, token_weights: str = "auto",
                 scheme: str | None = None, l1: float = 0.0, tol: float = 0.001, atol: float | None = None,
                 method: str | Method = "auto", max_iter: int | None = None, time_limit: float | None = None,
                 n_jobs: int | None = None, random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())


class ChainCRF(Probabilities, ChainEstimator):
    """Linear-chain conditional random field, trained to a certified gap.

        F(w) = |w|^2 / (2 C) + l1 |w|_1 - sum_i c_i log p(y_i | x_i),      p(y | x) proportional to exp <w, Psi(x, y)>

    {examples}

    Parameters
    ----------
    {C}
    {chain_parameters}
    {l1}
    {parameters}

    Attributes
    ----------
    {chain_attributes}
    {certificate}

    Notes
    -----
    `predict` returns the most probable labelling of each example, a list of lists; `score` the fraction of right
    labels among all tokens. CRFsuite's penalty `c2 |w|^2` is `C = 1 / (2 c2)`, its `c1 |w|_1` is `l1`.

    Examples
    --------
    >>> import pybundle as pb
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "dogs"}, {"word": "bark"}]]
    >>> y = [["DET", "N"], ["N", "V"]]
    >>> crf = pb.ChainCRF(C=10.0).fit(X, y)
    >>> crf.predict(X) == y, crf.predict_proba(X)[0].argmax(axis=1).tolist()
    (True, [0, 1])
    >>> sorted(crf.predict_marginals(X)[0][0])
    ['DET', 'N', 'V']
    """

    _pieces = CHAIN
    _log_loss = True

    def __init__(self, C: float = 1.0, *, start: Any = True, end: Any = True, templates: Templates | None = None,
                 hash_bits: int | None = None, min_count: int = 1, token_weights: str = "auto",
                 scheme: str | None = None, l1: float = 0.0, tol: float = 0.001, atol: float | None = None,
                 method: str | Method = "auto", max_iter: int | None = None, time_limit: float | None = None,
                 n_jobs: int | None = None, random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def predict_proba(self, X: Data, known: Any = None) -> list[Floats]:
        """P(label k at token t), a list of arrays (T, K), columns in the order of `classes_`.

        It is the conditional probability given the labels in `known`, see `predict`.
        """
        return [forward_backward(*problem).unary if len(problem[0]) else problem[0]
                for problem in self._each(X, known)]

    def predict_marginals(self, X: Data, known: Any = None) -> list[Any]:
        """The same as dictionaries {label: probability}, a list for each example."""
        labels = self.classes_.tolist()
        return [[dict(zip(labels, row, strict=True)) for row in table.tolist()]
                for table in self.predict_proba(X, known)]

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


def _score(labels, unary, transition, start, end):
    inner = unary[np.arange(len(labels)), labels].sum() + transition[labels[:-1], labels[1:]].sum()
    return inner + start[labels[0]] + end[labels[-1]]
