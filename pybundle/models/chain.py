"""Chains: sequences of tokens, a label for each, scores of tokens and of neighbouring labels."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, ParameterError
from ..core.labels import cost_matrix
from ..core.protocols import Decodings, ExamplePlane
from ..core.ragged import Ragged
from ..core.validation import check_choice, check_integer, check_vector
from ..features import Examples
from ..oracles import viterbi
from ..oracles._chain import ChainTables
from ._chain import augment, count, losses
from ._chain_slack import slack_items
from .base import BatchOracle, StructuredModel, check_lengths

BLOCK = 2048
"""Tokens whose scores are held at once: they stay in the second cache."""
NARROW = 2
"""A batch whose non-zeros are this many times fewer than the features reads W as it stands."""
SPARSE_DIM = 16384
"""Planes of single examples over sparse features are sparse from this dimension on."""


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

    Notes
    -----
    A pass costs one product of the tokens with W, O(K^2) for each token (Viterbi), and the rows of tokens whose label
    is wrong. Marginals, for the log-loss (conditional random field), by forward-backward. Memory beside data and
    slopes: O(K) for each of a few thousand tokens.

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

    def __init__(self, n_labels, n_features, loss="hamming", normalised=False, start=True, end=True,
                 indicators=False, rescaling="margin"):
        self.n_labels = check_integer("n_labels", n_labels, low=1)
        self.n_features = check_integer("n_features", n_features, low=1)
        if isinstance(loss, str):
            check_choice("loss", loss, ("hamming",))
            self.costs = 1.0 - np.eye(self.n_labels)
        else:
            self.costs = cost_matrix(loss, self.n_labels)
            if self.costs is None:
                raise InputTypeError("loss must be 'hamming' or a matrix of costs, got None")
        self.rescaling = check_choice("rescaling", rescaling, ("margin", "slack"))
        if rescaling == "slack" and not isinstance(loss, str):
            raise ParameterError("rescaling='slack' is exact for loss='hamming' only, got a matrix of costs; use "
                                 "rescaling='margin'")
        for name, value in (("normalised", normalised), ("start", start), ("end", end), ("indicators", indicators)):
            if not isinstance(value, (bool, np.bool_)):
                raise InputTypeError(f"{name} must be True or False, got {value!r}")
        self.normalised, self.start, self.end, self.indicators = map(bool, (normalised, start, end, indicators))
        self.dim = self.n_labels * (self.n_features + self.n_labels + self.start + self.end)

    def split(self, w):
        """Views of w: W (K, d), transition (K, K), start (K,) and end (K,), empty where there is none."""
        K, d = self.n_labels, self.n_features
        first = K * d + K * K
        second = first + K * self.start
        return (w[:K * d].reshape(K, d), w[K * d:first].reshape(K, K), w[first:second],
                w[second:second + K * self.end])

    def joint_feature(self, x, y):
        tokens = self.tokens([x])
        return self.feature(tokens.values, self.labels([y], tokens.sizes, "y").values)

    def feature(self, x, y):
        """Psi(x, y) of tokens and labels that are checked."""
        K, d, T = self.n_labels, self.n_features, len(y)
        rest = np.zeros(self.dim - K * d)
        np.add.at(rest[:K * K].reshape(K, K), (y[:-1], y[1:]), 1.0)
        if self.start:
            rest[K * K + y[0]] += 1.0
        if self.end:
            rest[K * K + K * self.start + y[-1]] += 1.0
        members = sp.csr_array((np.ones(T), (y, np.arange(T))), shape=(K, T))
        block = members @ x
        if sp.issparse(block):
            return sp.hstack([block.reshape(1, K * d), sp.csr_array(rest[None])], format="csr")
        return np.concatenate([block.ravel(), rest])

    def loss(self, y, y_hat):
        y, y_hat = np.asarray(y), np.asarray(y_hat)
        return float(self.costs[y, y_hat].sum()) / (len(y) if self.normalised else 1)

    def decode(self, w, x):
        return self._best(w, self.tokens([x]).values)

    def loss_augmented_decode(self, w, x, y):
        if self.rescaling == "slack":
            return self.oracle([x], [y]).solve(0, w).labelling
        tokens = self.tokens([x])
        y = self.labels([y], tokens.sizes, "y").values
        return self._best(w, tokens.values, self.costs[y] / (len(y) if self.normalised else 1))

    def _best(self, w, x, losses=0.0):
        W, transition, start, end = self.split(check_vector("w", w, self.dim))
        return viterbi(_unary(x, W) + losses, transition, start if self.start else None, end if self.end else None)[0]

    def oracle(self, X, Y):
        return ChainOracle(self, X, Y)

    def tokens(self, X, name="X"):
        """The examples as a Ragged of tokens, dense or CSR."""
        X = Ragged.of(X, name)
        empty = np.flatnonzero(X.sizes == 0)
        if len(empty):
            raise ParameterError(f"{name}[{empty[0]}] must have at least one token, got none; leave the example out")
        if len(X.values.shape) != 2:
            raise ParameterError(f"{name}[0] must have shape (tokens, features), got {X[0].shape}")
        if self.indicators:
            return Ragged(self._from_indicators(X, name), X.offsets)
        if X.values.shape[1] != self.n_features:
            raise ParameterError(f"{name}[0] must have n_features = {self.n_features} columns, got "
                                 f"{X.values.shape[1]}" + ("; feature numbers need indicators=True" if
                                                           getattr(X.values, "dtype", None) in (np.int32, np.int64)
                                                           else ""))
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

    def labels(self, Y, sizes, name="Y"):
        """Labellings as a Ragged of int32, `sizes[i]` labels each."""
        Y = Ragged.of(Y, name, integers="iu")
        values = Y.values
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise InputTypeError(f"{name} must hold one integer label for each token, got dtype {values.dtype}, "
                                 f"shape {values.shape} in all")
        bad = np.flatnonzero(Y.sizes != sizes)
        if len(bad):
            i = int(bad[0])
            raise ParameterError(f"{name}[{i}] must have {sizes[i]} labels, one for each token of X[{i}], got "
                                 f"{Y.sizes[i]}")
        if values.min() < 0 or values.max() >= self.n_labels:
            t = int(np.flatnonzero((values < 0) | (values >= self.n_labels))[0])
            raise ParameterError(f"{Y.name_of(t, name)} must be a label 0..{self.n_labels - 1}, got {values[t]}")
        return Ragged(np.ascontiguousarray(values, dtype=np.int32), Y.offsets)


class ChainWeights:
    """w for the kernels: transition, start and end (K,), the tables of the decoder, and W, packed when first wanted.

    A batch that reads few of many sparse features does without packing; which one does depends on the batch alone.
    """

    def __init__(self, model, examples, rows, w):
        self._W, self.transition, start, end = (np.ascontiguousarray(part) for part in model.split(w))
        nothing = np.zeros(model.n_labels)
        self.start, self.end = start if model.start else nothing, end if model.end else nothing
        self.tables = ChainTables(self.transition, self.start, self.end)
        self._examples, self._rows = examples, rows
        self._packed = None if examples.is_sparse else rows.pack(self._W)

    def unary(self, tokens, blocks):
        """Scores (last - first, K) of the tokens first..last, for each such pair in `blocks`."""
        X = self._examples
        if X.is_sparse and len(tokens) * X.X.nnz * NARROW < X.n_examples * X.n_features:
            for first, last in blocks:
                yield _unary(X.X[tokens[first:last]], self._W)
            return
        if self._packed is None:       # two threads may both do it: they get the same
            self._packed = self._rows.pack(self._W)
        for first, last in blocks:
            out = np.empty((last - first, len(self._W)))
            self._rows.scores(self._packed, tokens[first:last], out)
            yield out


class ChainOracle(BatchOracle):
    """`Chain` bound to sequences of tokens and their labellings."""

    has_marginals = True

    def __init__(self, model, X, Y):
        self.n_examples = check_lengths(X, Y)
        self._model, self.dim = model, model.dim
        self._tokens = model.tokens(X)
        self._gold = model.labels(Y, self._tokens.sizes)
        examples = Examples(self._tokens.values, name_of=self._tokens.name_of)
        self._examples, self._rows = examples, examples.rows(model.n_labels)
        self.sizes = self._tokens.sizes
        self._factors = 1.0 / self.sizes if model.normalised else np.ones(self.n_examples)
        token_norms = np.add.reduceat(examples.norms, self._tokens.offsets[:-1])
        self.norms = 2.0 * (1.0 + 1e-12) * (token_norms + self.sizes - 1 + model.start + model.end)
        if model.rescaling == "slack":
            self.norms *= self.sizes * self._factors        # the largest loss
        settings = (type(self).__name__, self.dim, model.normalised, model.start, model.end, model.rescaling,
                    examples.fingerprint)
        self.fingerprint = crc32(self._gold.values, crc32(self._gold.offsets, crc32(
            model.costs.tobytes() + repr(settings).encode())))

    def prepare(self, w):
        return ChainWeights(self._model, self._examples, self._rows, w)

    def solve_batch(self, rows, weights, loss=True):
        rows = np.asarray(rows, dtype=np.intp)
        labels, values, offsets = self._empty(rows)
        if loss and self._model.rescaling == "slack":
            return self._solve_slack(rows, weights, labels, values, offsets)
        for low, high, unary, truths in self._scores(rows, offsets, weights, loss):
            weights.tables.viterbi_items(unary, offsets[low:high + 1] - offsets[low], 0, high - low,
                                         labels[offsets[low]:offsets[high]], values[low:high])
            values[low:high] -= truths
        return Decodings(Ragged(labels, offsets), values, values)

    def _solve_slack(self, rows, weights, labels, values, offsets):
        gold = self._gold.take(rows).values
        for low, high, unary, truths in self._scores(rows, offsets, weights, False):
            first, last = offsets[low], offsets[high]
            slack_items(unary, gold[first:last], offsets[low:high + 1] - first, self._factors[rows[low:high]],
                        weights.transition, weights.start, weights.end, truths, labels[first:last], values[low:high])
        return Decodings(Ragged(labels, offsets), values, values)

    def add_planes(self, rows, labellings, scales, slope):
        rows = np.asarray(rows, dtype=np.intp)
        scales = np.ascontiguousarray(scales, dtype=np.float64)
        found, gold = self._found(rows, labellings), self._gold.take(rows)
        costs = self._losses(rows, found, gold)
        total = float(scales @ costs)
        if self._model.rescaling == "slack":
            scales = scales * costs
        W, transition, start, end = self._model.split(slope)
        count(found.values, gold.values, gold.offsets, scales, transition, start, end)
        wrong = np.flatnonzero(found.values != gold.values)
        tokens = self._tokens.rows(rows)[wrong]
        coefs = np.repeat(scales, gold.sizes)[wrong]
        self._rows.add(np.concatenate([tokens, tokens]), np.concatenate([found.values[wrong], gold.values[wrong]]),
                       np.concatenate([coefs, -coefs]), W.ravel())
        return total

    def losses(self, rows, labellings):
        rows = np.asarray(rows, dtype=np.intp)
        return self._losses(rows, self._found(rows, labellings), self._gold.take(rows))

    def marginals_batch(self, rows, weights, scales, slope):
        rows = np.asarray(rows, dtype=np.intp)
        scales = np.ascontiguousarray(scales, dtype=np.float64)
        _, values, offsets = self._empty(rows)
        entropies = np.empty(len(rows))
        W, transition, start, end = self._model.split(slope)
        tables = ChainTables(weights.transition, weights.start, weights.end, True)
        gold, tokens = self._gold.take(rows).values, self._tokens.rows(rows)
        for low, high, unary, truths in self._scores(rows, offsets, weights, False):
            first, last = offsets[low], offsets[high]
            items, y = offsets[low:high + 1] - first, gold[first:last]
            p, pairs = np.empty_like(unary), np.zeros((1, *transition.shape))
            tables.marginal_items(unary, items, 0, high - low, scales[low:high], p, values[low:high],
                                  entropies[low:high], pairs)
            values[low:high] -= truths
            p[np.arange(last - first), y] -= 1.0
            p *= np.repeat(scales[low:high], np.diff(items))[:, None]
            inside = np.delete(np.arange(last - first), items[:-1])
            np.subtract.at(pairs[0], (y[inside - 1], y[inside]), np.repeat(scales[low:high], np.diff(items) - 1))
            transition += pairs[0]
            if self._model.start:
                start += p[items[:-1]].sum(axis=0)
            if self._model.end:
                end += p[items[1:] - 1].sum(axis=0)
            x = self._examples.X[tokens[first:last]]
            if sp.issparse(x):
                columns, x = _narrow(x)
                W[:, columns] += (x.T @ p).T
            else:
                W += p.T @ x.astype(np.float64, copy=False)
        return values, entropies

    def plane(self, i, labelling):
        """Plane of a labelling; a CSR row where features are sparse and many."""
        if not self._examples.is_sparse or self.dim < SPARSE_DIM:
            return super().plane(i, labelling)
        model, x, gold = self._model, self._tokens[i], self._gold[i]
        labelling = self._found([i], [labelling]).values
        cost = model.loss(gold, labelling)
        slope = sp.csr_array(model.feature(x, labelling) - model.feature(x, gold))
        slope.eliminate_zeros()
        return ExamplePlane(cost, cost * slope if model.rescaling == "slack" else slope)

    def _empty(self, rows):
        offsets = np.concatenate([[0], np.cumsum(self.sizes[rows])])
        return np.empty(offsets[-1], dtype=np.int32), np.empty(len(rows)), offsets

    def _scores(self, rows, offsets, weights, loss):
        """Blocks of examples: first, last, scores of their tokens with the loss, scores of the truths."""
        tokens, gold = self._tokens.rows(rows), self._gold.take(rows).values
        blocks = list(_blocks(offsets))
        ranges = [(offsets[low], offsets[high]) for low, high in blocks]
        for (low, high), unary in zip(blocks, weights.unary(tokens, ranges), strict=True):
            first, last = offsets[low], offsets[high]
            truths = np.empty(high - low)
            augment(unary, gold[first:last], offsets[low:high + 1] - first, self._model.costs,
                    self._factors[rows[low:high]], weights.transition, weights.start, weights.end, loss, truths)
            yield low, high, unary, truths

    def _found(self, rows, labellings):
        return self._model.labels(labellings, self.sizes[rows], "labellings")

    def _losses(self, rows, found, gold):
        out = np.empty(len(rows))
        losses(found.values, gold.values, gold.offsets, self._model.costs, self._factors[rows], out)
        return out


def _blocks(offsets):
    """Ranges of neighbouring items of at most BLOCK tokens, or one item."""
    first = 0
    while first < len(offsets) - 1:
        last = max(int(np.searchsorted(offsets, offsets[first] + BLOCK, side="right")) - 1, first + 1)
        yield first, last
        first = last


def _unary(x, W):
    """x W' for a few tokens; of sparse ones only the columns that occur are read."""
    if not sp.issparse(x):
        return np.asarray(x, dtype=np.float64) @ W.T
    columns, x = _narrow(x)
    return np.ascontiguousarray(x @ W[:, columns].T)


def _narrow(x):
    """The columns of a CSR matrix that have entries, and the matrix of those alone."""
    columns, places = np.unique(x.indices, return_inverse=True)
    return columns, sp.csr_array((x.data.astype(np.float64, copy=False), places, x.indptr),
                                 shape=(x.shape[0], len(columns)))
