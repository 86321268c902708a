"""Chains: sequences of tokens with a label for each token; tokens and pairs of neighbouring labels have scores."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ...core.exceptions import InputTypeError, ParameterError
from ...core.labels import cost_matrix
from ...core.ragged import Ragged
from ...core.types import Array, Data, Floats, Rows
from ...core.validation import (
    check_choice,
    check_count,
    check_finite,
    check_flag,
    check_vector,
    contiguous,
    integer_array,
    refuse_masked,
)
from ...features.examples import LARGEST_INDEX
from ...oracles import viterbi
from ..base import StructuredModel
from ..batch_oracle import BatchOracle, check_lengths
from ._token_scores import token_scores
from .allowed import Allowed, refuse_impossible
from .oracle import ChainOracle


class Chain(StructuredModel):
    """First-order linear chain.

    `<w, Psi(x, y)> = sum_t <W[y_t], x_t> + sum_{t > 1} transition[y_{t-1}, y_t] + start[y_1] + end[y_T]`

    with w = [W (K, d) | transition (K, K) | start (K) | end (K)], row after row. An example is an array of tokens
    (T, d), dense (float32, float64, uint8) or CSR, a labelling T integers 0..K-1, T >= 1. Examples come as a list
    or as a `Ragged`, which is not copied.

    Parameters
    ----------
    n_labels, n_features : int
        K and d.
    loss : "hamming" or array_like, shape (K, K)
        Number of wrong labels, or the sum of ``loss[y_t, y_hat_t]`` >= 0 with zero diagonal.
    normalised : bool
        Divide the loss of an example by its length.
    start, end : bool
        Whether there are weights of the first and of the last label.
    rescaling : {"margin", "slack"}
        "slack" is exact for the Hamming loss, at O(T^2 K^2) for a chain of T tokens.
    indicators : bool
        Tokens are given as integer arrays (T, F) of feature numbers 0..d-1, -1 for none: the same as a CSR matrix
        of ones (a number that occurs twice counts twice).
    token_support : array_like of int, shape (m, 2), optional
        Pairs (feature, label) that have weights, for sparse tokens; None is all. `occurring` finds the pairs of data. w
        then begins with a weight for each pair, sorted by feature, then label, where W would stand: the `data` of W as
        a CSC matrix.
    allowed : array_like of bool, shape (K, K), or three of shapes (K, K), (K,) and (K,), optional
        ``allowed[j, k]`` says whether label j may be followed by k; the other two say which labels may be first and
        last, None for all. Other labellings are never decoded, have probability 0, and are refused in Y. Their weights
        stay 0, since no example has their features; other values in a `w0` only shrink.

    Notes
    -----
    A maximum over allowed labellings is at most that over all, so planes of other labellings prove nothing: `allowed`
    is part of the fingerprint, and evidence with such a labelling is refused.

    A pass costs one product of the tokens with W, O(K^2) for each token (Viterbi), and the rows of tokens whose label
    is wrong. Marginals, for the log-loss (conditional random field), by forward-backward. Memory beside data and
    slopes: O(K) for each of a few thousand tokens. With `token_support` a token costs one product for each weight of
    each of its features, in place of K for each feature.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> X = [np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 1.0]])]
    >>> Y = [np.array([0, 1]), np.array([1])]
    >>> model = pb.models.Chain(n_labels=2, n_features=2)
    >>> result = pb.minimize(pb.risks.Structured(model, X, Y), lam=0.1, tol=1e-6)
    >>> model.decode(result.x, X[0])
    array([0, 1], dtype=int32)
    """

    token_support: Any

    def __init__(self, n_labels: int, n_features: int, loss: Any = "hamming", normalised: bool = False,
                 start: bool = True, end: bool = True, indicators: bool = False, rescaling: str = "margin",
                 token_support: ArrayLike | None = None, allowed: Any = None) -> None:
        self.n_labels: int = check_count("n_labels", n_labels)
        self.n_features: int = check_count("n_features", n_features)
        if isinstance(loss, str):
            check_choice("loss", loss, ("hamming",))
            self.costs: Floats = 1.0 - np.eye(self.n_labels)
        else:
            self.costs = cost_matrix(loss, self.n_labels)
            if self.costs is None:
                raise InputTypeError("loss must be 'hamming' or a matrix of costs, got None")
        self.rescaling: str = check_choice("rescaling", rescaling, ("margin", "slack"))
        if rescaling == "slack" and not isinstance(loss, str):
            raise ParameterError("rescaling='slack' is exact for loss='hamming' only, got a matrix of costs; use "
                                 "rescaling='margin'")
        self.normalised: bool = check_flag("normalised", normalised)
        self.start: bool = check_flag("start", start)
        self.end: bool = check_flag("end", end)
        self.indicators: bool = check_flag("indicators", indicators)
        self.token_support = None if token_support is None else self._checked(token_support)
        rules = Allowed.of(allowed, self.n_labels)
        self.allowed: Allowed | None = None if allowed is None else rules
        self.masks: tuple[Floats, Floats, Floats] = rules.masks()

    @property
    def n_token_weights(self) -> int:
        """Number of weights of features: K d, or those of `token_support`."""
        return self.n_labels * self.n_features if self.token_support is None else len(self.token_support)

    @property
    def dim(self) -> int:
        """Length of w."""
        return self.n_token_weights + self.n_labels * (self.n_labels + self.start + self.end)

    @cached_property
    def columns(self) -> tuple[Array, Array]:
        """`(starts, labels)` of W as a CSC matrix with `token_support`, see `SparseWeightRows`.

        Computed on first use: loading a hostile file must not allocate `n_features` numbers.
        """
        features, labels = self.token_support.T
        starts = np.concatenate([[0], np.cumsum(np.bincount(features, minlength=self.n_features))])
        return starts, np.ascontiguousarray(labels)

    def _checked(self, support):
        """Return pairs (feature, label) as an int32 array (m, 2), sorted and distinct."""
        refuse_masked("token_support", support)
        support, sizes = integer_array("token_support", support), (self.n_features, self.n_labels)
        if support.ndim != 2 or support.shape[1] != 2 or len(support) == 0:
            raise ParameterError(f"token_support must have shape (m, 2), m >= 1, got {support.shape}; occurring(X, Y) "
                                 "finds the pairs of data")
        if self.n_features > LARGEST_INDEX:
            raise ParameterError(f"n_features must be below 2^31 with token_support, got {self.n_features}")
        bad = ((support < 0) | (support >= sizes)).any(axis=1)
        if bad.any():
            q = int(np.argmax(bad))
            raise ParameterError(f"token_support[{q}] must be a feature 0..{sizes[0] - 1} and a label 0.."
                                 f"{sizes[1] - 1}, got {support[q].tolist()}")
        codes = support[:, 0].astype(np.int64) * self.n_labels + support[:, 1]
        if (np.diff(codes) <= 0).any():
            support = np.stack(np.divmod(np.unique(codes), self.n_labels), axis=1)
        return np.array(support, dtype=np.int32, order="C")

    def occurring(self, X: Data, Y: Data) -> Chain:
        """Return the model with weights only for the pairs of feature and label that occur together in data.

        Texts have few of them: 1 of 11 on CoNLL-2000. A feature adds nothing to the score of other labels, as in
        CRFsuite without `feature.possible_states`. O(non-zeros of X) time and memory.

        Parameters
        ----------
        X, Y
            Examples as for `pb.risks.Structured`; tokens are CSR, or feature numbers with `indicators`.

        Returns
        -------
        Chain
            With these pairs as `token_support`.

        Raises
        ------
        InputTypeError
            For dense tokens.
        ParameterError
            If all tokens are 0.

        Examples
        --------
        >>> import numpy as np
        >>> import pybundle as pb
        >>> X, Y = [np.array([[0, 2], [1, -1]])], [np.array([0, 1])]
        >>> model = pb.models.Chain(n_labels=2, n_features=3, indicators=True).occurring(X, Y)
        >>> model.token_support.tolist(), model.dim
        ([[0, 0], [1, 1], [2, 0]], 11)
        """
        check_lengths(X, Y)
        tokens = self.tokens(X)
        labels, x = self.labels(Y, tokens.sizes).values, tokens.values
        if not sp.issparse(x):
            raise InputTypeError("X must hold CSR tokens, got dense ones; convert each by scipy.sparse.csr_array(x)")
        members = sp.csr_array((np.ones(len(labels), dtype=bool), (labels, np.arange(len(labels)))),
                               shape=(self.n_labels, len(labels)))
        found = sp.coo_array(members @ sp.csr_array((x.data != 0, x.indices, x.indptr), shape=x.shape))
        if not found.data.any():
            raise ParameterError(f"X must have an entry that is not 0, got none in {len(labels)} tokens")
        model = copy(self)
        vars(model).pop("columns", None)
        model.token_support = self._checked(np.stack([found.col, found.row], axis=1)[found.data])
        return model

    def split(self, w: Array) -> tuple[Any, Floats, Floats, Floats]:
        """Return views of w: W (K, d), transition (K, K), start (K,) and end (K,), empty if there is none.

        With `token_support` W is a csc_array whose `data` are a view.
        """
        K, d, size = self.n_labels, self.n_features, self.n_token_weights
        if self.token_support is None:
            W = w[:size].reshape(K, d)
        else:
            starts, labels = self.columns
            W = sp.csc_array((w[:size], labels, starts), shape=(K, d))
            W.data = w[:size]           # the constructor may have copied w
        return W, *self.rest(w)

    def rest(self, w: Array) -> tuple[Floats, Floats, Floats]:
        """Return views of w: transition (K, K), start (K,) and end (K,), empty if there is none."""
        K, size = self.n_labels, self.n_token_weights
        first = size + K * K
        second = first + K * self.start
        return w[size:first].reshape(K, K), w[first:second], w[second:second + K * self.end]

    def pair_scores(self, w: Array) -> tuple[Floats, Floats, Floats]:
        """Return scores of pairs (K, K), first and last labels (K,): weights, or 0 without, or -inf if forbidden."""
        pairs, first, last = (mask + part if len(part) else mask
                              for mask, part in zip(self.masks, self.rest(w), strict=True))
        return pairs, first, last

    def token_scores(self, w: Array, x: Any) -> Floats:
        """Return scores (T, K) of checked tokens, an array or CSR; see `entry_scores`."""
        if not sp.issparse(x):
            return np.asarray(x, dtype=np.float64) @ self.split(w)[0].T
        return self.entry_scores(w, x.indptr, x.indices, x.data)

    def entry_scores(self, w: Array, ends: Array, columns: Array, values: Array) -> Floats:
        """Return scores (T, K) of the rows of a checked CSR matrix; only weights of its entries are read."""
        support = () if self.token_support is None else self.columns
        return token_scores(contiguous(ends, np.int64), contiguous(columns, np.int32), contiguous(values, np.float64),
                            contiguous(w, np.float64), self.n_features, self.n_labels, *support)

    def joint_feature(self, x: Any, y: Any) -> Rows:
        tokens = self.tokens([x])
        x, y = tokens.values, self.labels([y], tokens.sizes, "y").values
        K, T = self.n_labels, len(y)
        rest = np.zeros(self.dim - self.n_token_weights)
        np.add.at(rest[:K * K].reshape(K, K), (y[:-1], y[1:]), 1.0)
        if self.start:
            rest[K * K + y[0]] += 1.0
        if self.end:
            rest[K * K + K * self.start + y[-1]] += 1.0
        members = sp.csr_array((np.ones(T), (y, np.arange(T))), shape=(K, T))
        block = members @ x
        if self.token_support is not None:
            block = self._supported(sp.coo_array(block))
        if sp.issparse(block):
            return sp.hstack([block.reshape(1, -1), sp.csr_array(rest[None])], format="csr")
        return np.concatenate([block.ravel(), rest])

    def _supported(self, block):
        """Return sums of tokens by label (K, d) as a CSR row (1, m), with entries for the pairs of `token_support`."""
        K, (features, labels) = self.n_labels, self.token_support.T.astype(np.int64)
        _, places, found = np.intersect1d(features * K + labels, block.col.astype(np.int64) * K + block.row,
                                          assume_unique=True, return_indices=True)
        return sp.csr_array((block.data[found], places, [0, len(places)]), shape=(1, len(features)))

    def loss(self, y: Any, y_hat: Any) -> float:
        y = Ragged.of([y], "y", kinds="iu")
        y = self._codes(y, y.sizes, "y").values
        y_hat = self._codes([y_hat], np.array([len(y)]), "y_hat").values
        return float(self.costs[y, y_hat].sum()) / (len(y) if self.normalised else 1)

    def decode(self, w: Array, x: Any) -> Array:
        return self._best(w, self.tokens([x]).values)

    def loss_augmented_decode(self, w: Array, x: Any, y: Any) -> Array:
        if self.rescaling == "slack":
            return self.oracle([x], [y]).solve(0, w).labelling
        tokens = self.tokens([x])
        y = self.labels([y], tokens.sizes, "y").values
        return self._best(w, tokens.values, self.costs[y] / (len(y) if self.normalised else 1))

    def _best(self, w, x, losses=0.0):
        w = check_vector("w", w, self.dim)
        labels, value = viterbi(self.token_scores(w, x) + losses, *self.pair_scores(w))
        refuse_impossible(np.array([value]), "x")
        return labels

    def oracle(self, X: Data, Y: Data) -> BatchOracle:
        return ChainOracle(self, X, Y)

    def tokens(self, X: Data, name: str = "X") -> Ragged:
        """Return the examples as a Ragged of tokens, dense or CSR."""
        X = Ragged.of(X, name)
        empty = np.flatnonzero(X.sizes == 0)
        if len(empty):
            raise ParameterError(f"{name}[{empty[0]}] must have at least one token, got none; leave the example out")
        if len(X.values.shape) != 2:
            raise ParameterError(f"{name}[0] must have shape (tokens, features), got {X[0].shape}; one sequence alone "
                                 "is [sequence]")
        if self.indicators:
            return Ragged(self._from_indicators(X, name), X.offsets)
        if X.values.dtype.kind not in "biuf":
            raise InputTypeError(f"{name} must hold real numbers, got dtype {X.values.dtype}; tokens with texts are "
                                 "dictionaries, as table.to_dict('records') makes of rows")
        if X.values.shape[1] != self.n_features:
            raise ParameterError(f"{name}[0] must have n_features = {self.n_features} columns, got "
                                 f"{X.values.shape[1]}" + ("; feature numbers need indicators=True" if
                                                           getattr(X.values, "dtype", None) in (np.int32, np.int64)
                                                           else ""))
        check_finite(name, X.values, lambda row: X.name_of(row, name))
        return X

    def _from_indicators(self, X, name):
        numbers = X.values
        if sp.issparse(numbers) or numbers.dtype.kind not in "iu":
            raise InputTypeError(f"{name} must hold integer feature numbers, as indicators=True, got "
                                 f"{'a sparse matrix' if sp.issparse(numbers) else f'dtype {numbers.dtype}'}")
        bad = (numbers < -1) | (numbers >= self.n_features)
        if bad.any():
            t, f = (int(index[0]) for index in np.nonzero(bad))
            i, position = X.place(t)
            raise ParameterError(f"{name}[{i}][{position}, {f}] must be a feature number 0..{self.n_features - 1} or "
                                 f"-1 for none, got {numbers[t, f]}")
        given = numbers >= 0
        indptr = np.concatenate([[0], np.cumsum(given.sum(axis=1))])
        indices = numbers[given].astype(np.int32)
        matrix = sp.csr_array((np.ones(len(indices), np.float32), indices, indptr),
                              shape=(len(numbers), self.n_features))
        matrix.sum_duplicates()
        return matrix

    def labels(self, Y: Data, sizes: Array, name: str = "Y") -> Ragged:
        """Return labellings as a Ragged of int32, `sizes[i]` labels each, all of them allowed."""
        found = self._codes(Y, sizes, name)
        if self.allowed is not None:
            self.allowed.check(found, name)
        return found

    def _codes(self, Y, sizes, name):
        Y = Ragged.of(Y, name, kinds="iu")
        values = Y.values
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise InputTypeError(f"{name} must hold one integer label for each token, got dtype {values.dtype}, "
                                 f"shape {values.shape} in all")
        if len(Y.sizes) != len(sizes):
            raise ParameterError(f"{name} must have {len(sizes)} labellings, one for each example of X, got {len(Y)}")
        bad = np.flatnonzero(Y.sizes != sizes)
        if len(bad):
            i = int(bad[0])
            raise ParameterError(f"{name}[{i}] must have one label for each token of X[{i}], {sizes[i]}, got "
                                 f"{Y.sizes[i]}")
        if len(values) and (values.min() < 0 or values.max() >= self.n_labels):
            t = int(np.flatnonzero((values < 0) | (values >= self.n_labels))[0])
            raise ParameterError(f"{Y.name_of(t, name)} must be a label 0..{self.n_labels - 1}, got {values[t]}")
        return Ragged.unchecked(contiguous(values, np.int32), Y.offsets)
