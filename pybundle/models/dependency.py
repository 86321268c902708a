"""Dependency parsing: trees over the words of a sentence, scored arc by arc."""

from __future__ import annotations

from copy import copy
from math import isqrt
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..core.checksum import checksum
from ..core.exceptions import InputTypeError, ParameterError
from ..core.protocols import Decodings
from ..core.ragged import Ragged
from ..core.validation import check_count, check_integer, check_rows, check_vector, contiguous, integer_array
from ..features.examples import Examples
from ..oracles._matrix_tree import tree_errors
from ..oracles.arborescence import max_arborescence
from ._arcs import HashedArcs, RowArcs, arc_scores
from ._dependency import add_trees, marginal_sentences, most_additions, solve_sentences, tree_planes
from ._dependency_finder import DependencyFinder
from .arc_templates import DEFAULT_TEMPLATES, MOST_KINDS, make_keys, parse_templates
from .base import StructuredModel
from .batch_oracle import BatchOracle, check_lengths, check_sums


class Dependency(StructuredModel):
    """Dependency trees: `<w, Psi(x, y)> = sum over words m of <w, f(x, y[m], m)>`, loss = number of wrong heads.

    A labelling is `heads`, int32 of shape (n + 1,), for a sentence of n words: `heads[0] = -1` is the root, words are
    1..n, `heads[m] = 0` hangs a word on the root. Trees need not be projective.

    Parameters
    ----------
    n_features : int
        Columns of the arc features. An example x is then a CSR matrix with a row for each arc (h, m), h = 0..n,
        m = 1..n, m != h, ordered by h and then m: n^2 rows. See `Dependency.hashed` for features made from words.
    single_root : bool, default True
        Whether exactly one word hangs on the root, in the truths and in predictions.

    Notes
    -----
    Decoding takes O(n^2) beside the products with w (`pb.oracles.max_arborescence`), the log-loss O(n^3)
    (`pb.oracles.arborescence_marginals`). `X` may be a list of examples or a `Ragged` of their rows, `Y` a list of
    heads or a `Ragged`.
    Source: McDonald, Crammer, Pereira 2005; McDonald, Pereira, Ribarov, Hajic 2005; Koo et al. 2007 (log-loss).

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> import pybundle as pb
    >>> x = sp.csr_array(np.eye(4))          # arcs 0 -> 1, 0 -> 2, 1 -> 2, 2 -> 1
    >>> model = pb.models.Dependency(4)
    >>> risk = pb.risks.Structured(model, [x], [np.array([-1, 0, 1])])
    >>> result = pb.minimize(risk, lam=0.1, tol=1e-6)
    >>> model.decode(result.x, x).tolist()
    [-1, 0, 1]
    """

    def __init__(self, n_features, *, single_root=True):
        self.dim = check_count("n_features", n_features)
        if not isinstance(single_root, (bool, np.bool_)):
            raise InputTypeError(f"single_root must be True or False, got {single_root!r}")
        self.single_root = bool(single_root)
        self.attributes, self.templates, self.bits, self.blocks, self.template_names = None, None, None, False, None

    @classmethod
    def hashed(cls, bits=20, attributes=("word", "pos"), templates=DEFAULT_TEMPLATES, *, single_root=True,
               blocks=False):
        """A model whose arc features are made from attributes of words by templates, hashed to `2 ** bits` weights.

        Parameters
        ----------
        bits : int, 1 to 30
        attributes : sequence of str
            Names of the columns of an example x, an array of non-negative integers of shape (n, n_attributes).
        templates : sequence of str
            A template is a list of atoms; each value they take together is a feature. Atoms: ``h.NAME`` and
            ``m.NAME``, an attribute of head or word; ``h+1.NAME``, ``m-2.NAME``, of words near them; ``direction``;
            ``distance``, which is direction and bucket; ``set.NAME``, all values of an attribute met between head and
            word; ``each.NAME``, a feature for each of those values. Attributes under ``set`` and ``each`` must be
            below 64. The root and the outside of the sentence have attributes of their own.
        single_root : bool, default True
        blocks : bool, default False
            Whether every template has `2 ** bits` weights of its own, those of number t from `t 2 ** bits` on, in the
            order of the attribute `template_names` of the model (those with ``each`` last).

        Examples
        --------
        >>> import numpy as np
        >>> import pybundle as pb
        >>> model = pb.models.Dependency.hashed(10, ["pos"], ["h.pos m.pos direction"])
        >>> X = [np.array([[0], [1]]), np.array([[1], [0], [0]])]
        >>> Y = [np.array([-1, 2, 0]), np.array([-1, 0, 1, 1])]
        >>> result = pb.minimize(pb.risks.Structured(model, X, Y), lam=0.1, tol=1e-6)
        >>> model.decode(result.x, np.array([[0], [0], [1]])).tolist()
        [-1, 3, 3, 0]
        """
        bits = check_integer("bits", bits, low=1)
        if bits > 30:
            raise ParameterError(f"bits must be 1..30, got {bits}")
        attributes = tuple(attributes)
        if not attributes or len(set(attributes)) < len(attributes):
            raise ParameterError(f"attributes must be different names, at least one, got {attributes}")
        if not isinstance(blocks, (bool, np.bool_)):
            raise InputTypeError(f"blocks must be True or False, got {blocks!r}")
        parsed = parse_templates(templates, attributes)
        dim = len(parsed) << bits if blocks else 1 << bits
        if dim > 1 << 30:
            raise ParameterError(f"bits must leave at most 2^30 weights, got {len(parsed)} templates of 2^{bits}")
        model = cls(dim, single_root=single_root)
        model.attributes, model.bits, model.templates, model.blocks = attributes, bits, parsed, bool(blocks)
        model.template_names = sorted(templates, key=lambda text: "each." in text)
        return model

    def joint_feature(self, x, y):
        """Psi(x, y) as a CSR row."""
        arcs, _ = self._bind([x])
        heads = self._check_heads("y", y, int(arcs.starts_array[1]))
        slope = np.zeros(self.dim)
        # against a truth without any head: psi is Psi
        add_trees(arcs, np.zeros(1, np.intp), np.full(len(heads), -1, np.int32), heads, np.zeros(1, np.int64),
                  np.ones(1), slope)
        return sp.csr_array(slope[None])

    def loss(self, y, y_hat):
        y, y_hat = integer_array("y", y), integer_array("y_hat", y_hat)
        if y.ndim != 1 or y.shape != y_hat.shape:
            raise ParameterError(f"y and y_hat must be heads of the same words, got shapes {y.shape} and {y_hat.shape}")
        return float(np.count_nonzero(y[1:] != y_hat[1:]))

    def decode(self, w, x):
        return max_arborescence(self.arc_scores(w, x), self.single_root)[0]

    def loss_augmented_decode(self, w, x, y):
        scores = self.arc_scores(w, x)
        heads = self._check_heads("y", y, len(scores))
        scores[heads[1:], np.arange(1, len(heads))] -= 1.0
        return max_arborescence(scores, self.single_root)[0]

    def oracle(self, X, Y):
        return DependencyOracle(self, X, Y)

    def arc_scores(self, w, x):
        """Scores <w, f(h, m)> of all arcs of a sentence, shape (n + 1, n + 1), zero in column 0 and on the diagonal."""
        arcs, _ = self._bind([x])
        return arc_scores(arcs, 0, check_vector("w", w, self.dim))

    def _bind(self, X):
        """Features of the arcs of the sentences X, and for each a bound on the norms of the features of an arc."""
        X = Ragged.of(X)
        return self._bind_rows(X) if self.templates is None else self._bind_words(X)

    def _bind_rows(self, X):
        if not sp.issparse(X.values):
            raise InputTypeError("X must hold CSR matrices with a row for each arc; Dependency.hashed takes arrays of "
                                 "attributes")
        n_words = np.array([isqrt(size) for size in X.sizes.tolist()], dtype=np.int64)
        wrong = np.flatnonzero((n_words**2 != X.sizes) | (n_words == 0))
        if len(wrong):
            i = int(wrong[0])
            raise ParameterError(f"X[{i}] must have n^2 rows, one for each arc of n >= 1 words, got {X.sizes[i]}")
        if X.values.shape[1] != self.dim:
            raise ParameterError(f"X must have n_features = {self.dim} columns, got {X.values.shape[1]}")
        examples = Examples(X.values, name_of=X.name_of)
        starts = np.concatenate([[0], np.cumsum(n_words + 1)])
        return (RowArcs(starts, X.offsets, examples.storage, self.dim),
                np.maximum.reduceat(examples.norms, X.offsets[:-1]))

    def _bind_words(self, X):
        values, n_attributes = np.asarray(X.values), len(self.attributes)
        if values.dtype.kind not in "iu":
            raise InputTypeError(f"X must hold integers, the attributes {', '.join(self.attributes)} of words, got "
                                 f"dtype {values.dtype}")
        if values.ndim != 2 or values.shape[1] != n_attributes:
            raise ParameterError(f"X[0] must have shape (n_words, {n_attributes}) for the attributes "
                                 f"{', '.join(self.attributes)}, got {X[0].shape}")
        if (X.sizes == 0).any():
            raise ParameterError(f"X[{int(np.argmin(X.sizes))}] has no words; leave empty sentences out")
        limits = np.full(n_attributes, np.iinfo(np.int64).max)
        limits[[c for t in self.templates for c in (t.set_column, t.each_column) if c >= 0]] = MOST_KINDS
        wrong = np.argwhere((values < 0) | (values >= limits))
        if len(wrong):
            row, column = map(int, wrong[0])
            high = f"..{MOST_KINDS - 1}, as a template looks at all between" if limits[column] < 99 else " or more"
            raise ParameterError(f"{X.name_of(row)} must have the attribute {self.attributes[column]!r} "
                                 f"0{high}, got {values[row, column]}")
        starts = X.offsets + np.arange(len(X) + 1)
        padded = np.zeros((starts[-1], n_attributes), np.int64)
        is_word = np.ones(len(padded), dtype=bool)
        is_word[starts[:-1]] = False
        padded[is_word] = values
        keys = make_keys(self.templates, padded, starts, self.bits, self.blocks)
        n_each = sum(t.each_column >= 0 for t in self.templates)
        pieces = len(self.templates) - n_each + n_each * np.minimum(X.sizes, MOST_KINDS)
        return HashedArcs(starts, *keys, self.dim), pieces.astype(float)

    def _check_heads(self, name, y, length):
        heads = np.asarray(y)
        if heads.dtype.kind not in "iu":
            raise InputTypeError(f"{name} must hold integers, the heads of words, got dtype {heads.dtype}")
        problem = _why_bad(name, heads, length, self.single_root)
        if problem:
            raise ParameterError(problem)
        return contiguous(heads, np.int32)


class DependencyOracle(BatchOracle):
    """`Dependency` bound to sentences; labellings are a `Ragged` of heads."""

    has_marginals = True
    has_further = True

    def __init__(self, model, X, Y):
        self.n_examples, self.dim, self._single_root = check_lengths(X, Y), model.dim, model.single_root
        self._arcs, largest = model._bind(X)
        self._starts = self._arcs.starts_array
        Y = Ragged.of(Y, "Y", integers="iu")
        self._gold = self._check_gold(Y)
        n_words = np.diff(self._starts) - 1
        # n^2 arcs, and what every word costs; large, because a shard has a slope of its own. At least as many as words:
        # a feature may be in all arcs of a tree
        self.sizes = np.maximum(1 + n_words // 2 + n_words**2 // 32, n_words)
        self.norms = 2.0 * n_words * largest
        self._errors = tree_errors(n_words)
        n = n_words.astype(float)
        # the features of an arc are at most norms / 2 n
        self.marginal_terms = self._errors * 2.0**53 / (2.0 * n) + 4.0
        self.partition_terms = n**3 + 16.0 * n + 16.0
        self.fingerprint = self._checksum()

    def _checksum(self):
        mark = crc32(repr((type(self).__name__, self.dim, self._single_root)).encode())
        for array in (self._gold, self._starts, *self._arcs.arrays):
            mark = checksum(array, mark)
        return mark

    def is_current(self):
        return self._checksum() == self.fingerprint

    def _check_gold(self, Y):
        values = np.asarray(Y.values)
        if values.dtype.kind not in "iu" or values.ndim != 1:
            raise InputTypeError(f"Y must hold vectors of integers, the heads of words, got dtype {values.dtype} and "
                                 f"items of {values.ndim} dimensions")
        for i, length in enumerate(np.diff(self._starts).tolist()):
            problem = _why_bad(f"Y[{i}]", Y[i], length, self._single_root)
            if problem:
                raise ParameterError(problem)
        return np.ascontiguousarray(values, dtype=np.int32)

    def solve_batch(self, rows, weights, loss=True):
        rows = check_rows("rows", rows, self.n_examples)
        offsets = self._offsets(rows)
        heads, values = np.empty(offsets[-1], np.int32), np.empty(len(rows))
        solve_sentences(self._arcs, rows, weights, self._gold, loss, self._single_root, heads, offsets, values)
        return Decodings(Ragged.unchecked(heads, offsets), values, values)

    def best_batch(self, rows, weights, k):
        """Best trees, and the best of those that differ from them in the head of one word."""
        rows = check_rows("rows", rows, self.n_examples)
        offsets, moves = self._offsets(rows), np.zeros((len(rows), max(k - 1, 0), 2), np.int32)
        heads, values = np.empty(offsets[-1], np.int32), np.empty(len(rows))
        solve_sentences(self._arcs, rows, weights, self._gold, True, self._single_root, heads, offsets, values, moves)
        found = Ragged.unchecked(heads, offsets)
        owners, which = np.nonzero(moves[:, :, 0])
        further = found.take(owners)
        word, head = moves[owners, which].T
        further.values[further.offsets[:-1] + word] = head
        return Decodings(found, values, values), owners, further

    def finder(self, batch):
        return DependencyFinder(self._arcs, self._gold, self._single_root, min(batch, self.n_examples))

    @property
    def listed_features(self):
        """Feature numbers of the arcs of all sentences, as often as they occur; None where templates make them."""
        if not isinstance(self._arcs, RowArcs):
            return None
        _, _, indices, indptr = self._arcs.arrays
        return indices[:indptr[-1]]

    def renumbered(self, places, dim):
        """The same oracle with places[j] in the place of the listed feature j, of `dim`."""
        oracle, (first_row, data, _, indptr) = copy(self), self._arcs.arrays
        oracle._arcs = RowArcs(self._starts, first_row, (data, places[self.listed_features], indptr), dim)
        oracle.dim = dim
        return oracle

    def solve_scaled(self, rows, w, scales, labels=None, loss=True):
        """`solve_batch` at w with the weights of group g multiplied by scales[g].

        Groups are the templates of a model made with `blocks`; those of listed features need `labels`, int32 (dim,).
        """
        rows = check_rows("rows", rows, self.n_examples)
        offsets = self._offsets(rows)
        heads, values = np.empty(offsets[-1], np.int32), np.empty(len(rows))
        solve_sentences(self._arcs, rows, w, self._gold, loss, self._single_root, heads, offsets, values,
                        scales=scales, labels=labels)
        return Decodings(Ragged.unchecked(heads, offsets), values, values)

    def add_planes(self, rows, labellings, scales, slope):
        rows, scales = check_sums(self, rows, scales, slope)
        rows, heads, offsets = self._heads(rows, labellings)
        return add_trees(self._arcs, rows, self._gold, heads, offsets, np.asarray(scales, dtype=np.float64), slope)

    def planes(self, rows, labellings):
        rows, heads, offsets = self._heads(check_rows("rows", rows, self.n_examples, labellings), labellings)
        return tree_planes(self._arcs, rows, self._gold, heads, offsets)

    def losses(self, rows, labellings):
        rows, heads, offsets = self._heads(rows, labellings)
        gold = self._gold[Ragged(self._gold, self._starts).rows(rows)]
        return np.add.reduceat(heads != gold, offsets[:-1]).astype(float) if len(rows) else np.zeros(0)

    def marginals_batch(self, rows, weights, scales, slope):
        rows, scales = check_sums(self, rows, scales, slope)
        values, entropies = np.empty(len(rows)), np.empty(len(rows))
        marginal_sentences(self._arcs, rows, weights, self._gold, self._single_root,
                           np.asarray(scales, dtype=np.float64), slope, values, entropies, self._errors[rows])
        return values, entropies

    def additions(self, rows):
        if isinstance(self._arcs, RowArcs):
            first_row, _, indices, indptr = self._arcs.arrays
            ends = first_row[rows] + (np.diff(self._starts)[rows] - 1)**2
            listed = [indices[indptr[a]:indptr[b]] for a, b in zip(first_row[rows], ends, strict=True)]
            return int(np.bincount(np.concatenate(listed), minlength=1).max())
        return most_additions(self._arcs, np.asarray(rows, dtype=np.intp))

    def _offsets(self, rows):
        return np.concatenate([[0], np.cumsum(self._starts[rows + 1] - self._starts[rows])])

    def _heads(self, rows, labellings):
        rows = check_rows("rows", rows, self.n_examples)
        offsets = self._offsets(rows)
        if len(rows) == 0:
            return rows, np.zeros(0, np.int32), offsets
        found = Ragged.of(labellings, "labellings")
        heads = np.ascontiguousarray(found.values, dtype=np.int32)
        is_right = np.array_equal(found.offsets, offsets)
        if is_right:
            is_root = np.zeros(len(heads), dtype=bool)
            is_root[offsets[:-1]] = True
            limits = np.repeat(np.diff(offsets), np.diff(offsets))
            is_right = ((heads < 0) == is_root).all() and (heads >= -1).all() and (heads < limits).all()
        if not is_right:
            raise ParameterError("labellings must be heads of the sentences asked for: -1 of the root, 0..n of words")
        return rows, heads, offsets


def _why_bad(name, heads, length, single_root):
    """What keeps `heads` from being a tree, in words, or None."""
    if heads.ndim != 1 or len(heads) != length:
        return (f"{name} must have shape ({length},): -1 for the root and the head of each of {length - 1} words, got "
                f"shape {heads.shape}")
    if heads[0] != -1:
        return f"{name}[0] must be -1, the place of the root, got {heads[0]}"
    outside = np.flatnonzero((heads[1:] < 0) | (heads[1:] >= length))
    if len(outside):
        m = int(outside[0]) + 1
        return f"{name}[{m}] must be a head 0..{length - 1}, got {heads[m]}"
    roots = np.flatnonzero(heads == 0)
    if single_root and len(roots) > 1:
        return (f"{name}[{roots[1]}] is 0, a second word on the root beside word {roots[0]}; pass single_root=False "
                "where that is meant")
    # a word reaches the root in less than `length` steps: by doubling, all at once
    jump = np.maximum(heads, 0)
    for _ in range(int(length).bit_length()):
        jump = jump[jump]
    if jump.any():
        m = int(np.flatnonzero(jump)[0])
        seen = []
        while m not in seen:
            seen.append(m)
            m = int(heads[m])
        cycle = seen[seen.index(m):]
        return (f"{name}[{min(cycle)}] is on a cycle of words, {' -> '.join(map(str, [*cycle, cycle[0]]))}, and does "
                "not reach the root")
    return None
