"""Chains bound to data: batches of decodings, planes and marginals."""

from __future__ import annotations

import numpy as np

from ...core.exceptions import InputTypeError, NumericalError
from ...core.protocols import Decodings
from ...core.ragged import Ragged, blocks
from ...features._sparse_weights import SparseWeightRows
from ...features.examples import Examples
from ...features.weights import LazyWeights
from ...oracles._chain import ChainTables, k_best_items
from ..batch_oracle import BatchOracle, LabelledTokens, check_lengths, check_scores
from ._kernels import ChainData, CompiledChain, augment
from ._marginals import ColumnSums, subtract_truths
from ._slack import slack_items

BLOCK = 2048
"""Tokens whose scores are computed at a time; they fit in the second-level cache."""


class ChainWeights:
    """The blocks of w in the form of the kernels: of tokens, of (transition, start, end), and the decoder's tables."""

    def __init__(self, model, rows, w):
        self.tokens = LazyWeights(rows, w)
        self.pairs = model.pair_scores(w)
        self.tables = ChainTables(*self.pairs)


class ChainOracle(BatchOracle):
    """`Chain` bound to sequences of tokens and their labellings."""

    has_marginals = True

    def __init__(self, model, X, Y):
        self.n_examples = check_lengths(X, Y)
        self._model, self.dim = model, model.dim
        self._tokens = model.tokens(X)
        self._truth = model.labels(Y, self._tokens.sizes)
        examples = Examples(self._tokens.values, name_of=self._tokens.name_of)
        if model.token_support is not None and not examples.is_sparse:
            raise InputTypeError("X must hold CSR tokens for a model with token_support, got dense ones; pass "
                                 "token_support=None, or scipy.sparse.csr_array(x) for every x")
        self.examples, self.has_sparse_planes = examples, examples.is_sparse
        self._rows = examples.rows(model.n_labels, None if model.token_support is None else model.columns)
        self.sizes = self._tokens.sizes
        self._factors = 1.0 / self.sizes if model.normalised else np.ones(self.n_examples)
        token_norms = np.add.reduceat(examples.norms, self._tokens.offsets[:-1])
        self._data = ChainData(self._rows, self._truth.values, self._truth.offsets, model.costs, self._factors,
                               model.start, model.end, model.rescaling == "slack")
        self.norms = 2.0 * (1.0 + 1e-12) * (token_norms + self.sizes - 1 + model.start + model.end)
        if model.rescaling == "slack":
            self.norms *= self.sizes * self._factors        # times the largest loss
        # the numbers of roundings are those of PB_CHAIN_TERMS in _chain.h
        self.marginal_terms = self.sizes * (6.0 * model.n_labels + 40.0)
        self.partition_terms = 4.0 * self.sizes + 2.0 * model.n_labels + 16.0
        # pairs of labels and labels at the ends are features of norm 1
        squares = np.add.reduceat(examples.norms**2, self._tokens.offsets[:-1])
        squares += self.sizes - 1 + model.start + model.end
        self._labelled = LabelledTokens(self._rows, self._truth.values, self._truth.offsets, model.masks, model.start,
                                        model.end, squares)
        self.fingerprint = self._checksum()

    def _identity(self):
        model, truth = self._model, self._truth
        return ((model.normalised, model.start, model.end, model.rescaling), model.token_support, model.costs,
                *(model.allowed or ()), truth.offsets, truth.values, self.examples)

    def sums_of_pairs(self, c):
        """Return slopes in the weights of pairs and ends: of labellings with one label only, and of the truths.

        c (n,) are weights of the examples; the result has shape (K + 1, K^2 + number of weights of ends).
        """
        K, y, first = self._model.n_labels, self._truth.values, self._truth.offsets[:-1]
        found = np.zeros((K + 1, self.dim - self._model.n_token_weights))
        is_inner = np.isin(np.arange(1, len(y)), first, invert=True)
        found[K, :K * K] = np.bincount((y[:-1] * K + y[1:])[is_inner], np.repeat(c, self.sizes)[1:][is_inner], K * K)
        found[np.arange(K), np.arange(K) * (K + 1)] = found[K, :K * K].sum()
        low = K * K
        for has_weights, ends in ((self._model.start, first), (self._model.end, self._truth.offsets[1:] - 1)):
            if has_weights:
                found[K, low:low + K] = np.bincount(y[ends], c, K)
                found[np.arange(K), low + np.arange(K)] = c.sum()
                low += K
        return found

    def _prepare(self, w):
        return ChainWeights(self._model, self._rows, w)

    def _decode(self, rows, weights, loss):
        if loss and self._model.rescaling == "slack":
            return self._solve_slack(rows, weights)
        packed = weights.tokens.packed(int(self.sizes[rows].sum()))
        labels, offsets, values = self._data.solve(rows, packed, weights.tokens.W, weights.tables, loss)
        return Decodings(Ragged.unchecked(labels, offsets), values, values)

    def _best(self, rows, weights, k):
        """Return the k labellings of largest value: O(L K (K + k log K)) for a sequence of length L."""
        labels, values, offsets = self._empty(rows)
        owners, paths = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.int32)]
        for low, high, unary, truths in self._scores(rows, offsets, weights, True):
            items = offsets[low:high + 1] - offsets[low]
            counts, found, best = k_best_items(unary, items, weights.tables, k)
            if (counts == 0).any():
                raise NumericalError(f"example {rows[low + int(np.argmin(counts))]} has scores beyond the range of "
                                     "float64; rescale the features")
            owner = np.repeat(np.arange(low, high), counts)
            is_first = np.diff(owner, prepend=-1) > 0
            values[low:high] = best[is_first] - truths
            of_first = np.repeat(is_first, self.sizes[rows[owner]])
            labels[offsets[low]:offsets[high]] = found[of_first]
            owners.append(owner[~is_first])
            paths.append(found[~of_first])
        owners = np.concatenate(owners)
        ends = np.concatenate([[0], np.cumsum(self.sizes[rows[owners]])])
        return (Decodings(Ragged.unchecked(labels, offsets), values, values), owners,
                Ragged.unchecked(np.concatenate(paths), ends))

    @property
    def has_further(self):
        """Whether the oracle finds more than the best labelling; with slack rescaling it does not."""
        return self._model.rescaling != "slack"

    def _compiled(self, batch):
        if self._model.rescaling == "slack":
            return None
        return CompiledChain(self._data, self.dim, self.sizes, min(batch, self.n_examples), self._model.masks)

    def _solve_slack(self, rows, weights):
        labels, values, offsets = self._empty(rows)
        truth = self._truth.take(rows).values
        for low, high, unary, truths in self._scores(rows, offsets, weights):
            first, last = offsets[low], offsets[high]
            slack_items(unary, truth[first:last], offsets[low:high + 1] - first, self._factors[rows[low:high]],
                        weights.tables, truths, labels[first:last], values[low:high])
        return Decodings(Ragged.unchecked(labels, offsets), values, values)

    def _add_planes(self, rows, labellings, scales, slope):
        found = self._found(rows, labellings)
        return self._data.add(rows, found.values, found.offsets, scales, slope)

    def _planes(self, rows, labellings):
        found = self._found(rows, labellings)
        return self._data.planes(rows, found.values, found.offsets, self.dim)

    def _losses(self, rows, labellings):
        found = self._found(rows, labellings)
        return self._data.losses(rows, found.values, found.offsets)

    def _marginals(self, rows, weights, scales, slope):
        _, values, offsets = self._empty(rows)
        entropies = np.empty((len(rows), 2))
        tables, K = ChainTables(*weights.pairs, True), self._model.n_labels
        sums = ExpectedFeatures(self, rows, offsets, scales, slope)
        for low, high, unary, truths in self._scores(rows, offsets, weights):
            items = offsets[low:high + 1] - offsets[low]
            p, pairs = np.empty_like(unary), np.zeros((1, K, K))
            tables.marginal_items(unary, items, 0, high - low, scales[low:high], p, values[low:high],
                                  entropies[low:high], pairs)
            values[low:high] -= truths
            # a score of -inf is an overflow, too, although the kernel treats it as a forbidden label
            check_scores(values[low:high] + 0.0 * np.add.reduceat(unary.ravel(), items[:-1] * unary.shape[1]),
                         rows[low:high])
            sums.add(low, high, p, pairs[0])
        sums.finish()
        return np.maximum(values, 0.0), np.maximum(entropies[:, 0] - entropies[:, 1], 0.0)

    def _labelled_tokens(self):
        return self._labelled

    def _expectations(self, rows, distributions, scales, slope):
        offsets = np.concatenate([[0], np.cumsum(self.sizes[rows])])
        entropies = np.empty((len(rows), 2))
        sums = ExpectedFeatures(self, rows, offsets, scales, slope)
        for low, high in blocks(offsets, BLOCK):
            p = np.empty((offsets[high] - offsets[low], self._model.n_labels))
            entropies[low:high], pairs = distributions.marginals(rows[low:high], scales[low:high], p)
            sums.add(low, high, p, pairs.reshape(self._model.n_labels, -1))
        sums.finish()
        return np.maximum(entropies[:, 0] - entropies[:, 1], 0.0)

    def additions(self, rows):
        return 2 * int(self.sizes[rows].sum())      # a position adds its marginals and subtracts its truth

    def _empty(self, rows):
        offsets = np.concatenate([[0], np.cumsum(self.sizes[rows])])
        return np.empty(offsets[-1], dtype=np.int32), np.empty(len(rows)), offsets

    def _scores(self, rows, offsets, weights, loss=False):
        """Yield blocks of examples: first, end, scores of tokens (with `loss` plus losses), scores of the truths."""
        tokens, truth = self._tokens.rows(rows), self._truth.take(rows).values
        for low, high in blocks(offsets, BLOCK):
            first, last = offsets[low], offsets[high]
            unary = weights.tokens.scores(tokens[first:last], len(tokens))
            truths = np.empty(high - low)
            augment(unary, truth[first:last], offsets[low:high + 1] - first, self._model.costs,
                    self._factors[rows[low:high]], weights.tables, loss, truths)
            yield low, high, unary, truths

    def _found(self, rows, labellings):
        return self._model.labels(labellings, self.sizes[rows], "labellings")


class ExpectedFeatures:
    """Accumulate `sum_j scales[j] E psi_j` of the examples `rows` in `slope`, from blocks of their marginals."""

    def __init__(self, oracle, rows, offsets, scales, slope):
        self._oracle, self._scales, self._offsets = oracle, scales, offsets
        self._tokens = oracle._tokens.rows(rows)
        self._truth = oracle._truth.take(rows).values
        self._transition, self._start, self._end = oracle._model.rest(slope)
        self._rows, examples, K = oracle._rows, oracle.examples, oracle._model.n_labels
        self._of_tokens, self._columns = slope[:self._rows.n_weights], None
        if isinstance(self._rows, SparseWeightRows):
            return
        self._of_tokens = self._of_tokens.reshape(K, -1)
        if examples.is_sparse and scales.any():
            self._columns = ColumnSums(examples.storage, examples.n_features, K, self._tokens)

    def add(self, low, high, p, pairs):
        """Add examples low..high - 1 from the marginals p, which is overwritten, and scaled pair marginals (K, K)."""
        if not self._scales[low:high].any():          # only values are needed
            return
        first, last = self._offsets[low], self._offsets[high]
        subtract_truths(p, self._truth[first:last], self._offsets[low:high + 1] - first, self._scales[low:high],
                        pairs, self._start, self._end)
        self._transition += pairs
        tokens = self._tokens[first:last]
        if isinstance(self._rows, SparseWeightRows):
            self._rows.add_expectations(tokens, p, self._of_tokens)
        elif self._columns is not None:
            self._columns.add(tokens, p)
        else:
            is_run = (np.diff(tokens) == 1).all()       # a slice of consecutive tokens needs no copy
            X = self._oracle.examples.X[slice(tokens[0], tokens[-1] + 1) if is_run else tokens]
            self._of_tokens += p.T @ X.astype(np.float64, copy=False)

    def finish(self):
        """Add the sums that were collected for the columns of sparse tokens."""
        if self._columns is not None:
            self._columns.add_to(self._of_tokens)

