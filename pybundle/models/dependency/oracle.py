"""`DependencyOracle` binds a model to sentences and trees: batches of decodings, planes and marginals."""

from __future__ import annotations

from copy import copy

import numpy as np

from ...core.exceptions import InputTypeError, ParameterError
from ...core.protocols import Decodings
from ...core.ragged import Ragged
from ...core.validation import check_rows, integer_array
from ...oracles._matrix_tree import tree_errors
from ..batch_oracle import BatchOracle, check_lengths
from ..graphs import split
from ._arcs import RowArcs
from ._kernels import CompiledDependency, add_trees, marginal_sentences, most_additions, solve_sentences, tree_planes

COUNTS = ("both", "heads", "relations")
"""What must differ for a word to be wrong: head or relation, head, relation; numbered as in `_arcs.pxd`."""
UNCOUNTED = len(COUNTS)
"""The number in `_arcs.pxd` for a word that is never wrong."""


class DependencyOracle(BatchOracle):
    """`Dependency` bound to sentences; labellings are a `Ragged` of codes of heads and relations.

    If Y is None, as for predictions, arbitrary trees stand for the truths.
    """

    has_marginals = True
    has_further = True

    def __init__(self, model, X, Y):
        Y, counted = (None, None) if Y is None else split(Y, "iu")
        self.n_examples = check_lengths(X, X if Y is None else Y)
        self.dim, self._single_root, self._R = model.dim, model.single_root, model.n_relations
        self._counts, self._has_relations = model.counts, model.rules is not None
        self._arcs, largest = model._bind(X)
        self._starts = self._arcs.starts_array
        self._truth = self._arcs.any_trees() if Y is None else self._check_truth(Y)
        self._loss = np.full(len(self._truth), COUNTS.index(model.counts), np.uint8)
        if counted is not None:
            self._loss[self._check_counted(counted, Y) == 0.0] = UNCOUNTED
        n_words = np.diff(self._starts) - 1
        # The work for n^2 arcs and n words is counted in large units, so that there are few shards, each with a slope.
        # Error bounds need sizes of at least the number of words, as a feature may occur in all arcs of a tree.
        self.sizes = np.maximum(1 + n_words // 2 + n_words**2 // 32, n_words)
        self.norms = 2.0 * n_words * largest
        self._errors = tree_errors(n_words)
        n = n_words.astype(float)
        # the norm of the features of an arc is at most norms / (2 n)
        self.marginal_terms = self._errors * 2.0**53 / (2.0 * n) + 4.0
        self.partition_terms = n**3 + 16.0 * n + 16.0
        if self._R > 1:
            # roundings in sums over R relations, divisions and logarithms, relative to log(number of labellings)
            self.marginal_terms = self.marginal_terms + self._R + 4.0
            self.partition_terms = self.partition_terms + 2.0 * n * (self._R + 8.0)
        self.fingerprint = self._checksum()

    def _identity(self):
        return self._single_root, self._R, self._loss, self._truth, self._starts, *self._arcs.arrays

    def _check_truth(self, Y):
        values = np.asarray(Y.values)
        if values.dtype.kind not in "iu" or values.ndim != 1:
            raise InputTypeError(f"Y must hold vectors of integers, the heads of words, got dtype {values.dtype} and "
                                 f"items of {values.ndim} dimensions")
        for i, length in enumerate(np.diff(self._starts).tolist()):
            problem = why_no_tree(f"Y[{i}]", Y[i], length, self._single_root, self._R)
            if problem:
                raise ParameterError(problem)
        truth = np.ascontiguousarray(values, dtype=np.int32)
        check_relations(self._arcs, np.arange(self.n_examples), truth, self._starts, "Y[{}]")
        return truth

    def _check_counted(self, counted, Y):
        for i, (weights, y) in enumerate(zip(counted, Y, strict=True)):
            if weights.shape != y.shape or not np.isin(weights, (0, 1)).all():
                raise ParameterError(f"weights of Y[{i}] must be 1 for words that the loss counts, else 0, in all "
                                     f"{len(y)} with that of the root in front, got {weights.tolist()!r:.60}")
        return counted.values

    def _decode(self, rows, weights, loss, **more):
        offsets = self._offsets(rows)
        heads, values = np.empty(offsets[-1], np.int32), np.empty(len(rows))
        solve_sentences(self._arcs, rows, weights, self._truth, self._single_root, heads, offsets, values,
                        self._loss if loss else None, **more)
        return Decodings(Ragged.unchecked(heads, offsets), values, values)

    def _best(self, rows, weights, k):
        """Return best trees, and for each the best trees that differ from it in the head of one word."""
        moves = np.zeros((len(rows), k - 1, 2), np.int32)
        found = self._decode(rows, weights, True, moves=moves)
        owners, which = np.nonzero(moves[:, :, 0])
        further = found.labellings.take(owners)
        word, head = moves[owners, which].T
        further.values[further.offsets[:-1] + word] = head          # `head` is a code: a head and its best relation
        return found, owners, further

    def _compiled(self, batch):
        return CompiledDependency(self._arcs, self._truth, self._loss, self._single_root, min(batch, self.n_examples))

    @property
    def listed_features(self):
        """Feature numbers of the arcs of all sentences, repeated as they occur; None if templates make the features."""
        if not isinstance(self._arcs, RowArcs):
            return None
        _, _, indices, indptr = self._arcs.arrays
        return indices[:indptr[-1]]

    def renumbered(self, places, dim):
        """Return the same oracle with listed feature j renumbered to places[j], below `dim`."""
        oracle, (first_row, data, _, indptr) = copy(self), self._arcs.arrays
        oracle._arcs = RowArcs(self._starts, first_row, (data, places[self.listed_features], indptr), dim)
        oracle.dim = dim
        return oracle

    def solve_scaled(self, rows, w, scales, labels=None):
        """Return `solve_batch` at w with the weights of group g multiplied by scales[g].

        Groups are the templates of a model made with `blocks`. For listed features, `labels`, int32 (dim,), holds the
        group of each feature.
        """
        if self._has_relations:
            raise ParameterError(f"kernel learning takes models without relations, got n_relations = {self._R}")
        return self._decode(check_rows("rows", rows, self.n_examples), w, True, scales=scales, labels=labels)

    def _add_planes(self, rows, labellings, scales, slope):
        heads, offsets = self._heads(rows, labellings)
        return add_trees(self._arcs, rows, self._truth, heads, offsets, scales, slope, self._loss)

    def _planes(self, rows, labellings):
        heads, offsets = self._heads(rows, labellings)
        return tree_planes(self._arcs, rows, self._truth, heads, offsets, self._loss)

    def _losses(self, rows, labellings):
        heads, offsets = self._heads(rows, labellings)
        places = Ragged(self._truth, self._starts).rows(rows)
        wrong = are_wrong(self._truth[places], heads, self._R, self._counts) & (self._loss[places] != UNCOUNTED)
        return np.add.reduceat(wrong, offsets[:-1], dtype=float)

    def _marginals(self, rows, weights, scales, slope):
        values, entropies = np.empty(len(rows)), np.empty(len(rows))
        marginal_sentences(self._arcs, rows, weights, self._truth, self._single_root, scales, slope, values, entropies,
                           self._errors[rows])
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
        offsets = self._offsets(rows)
        found = Ragged.of(labellings, "labellings")
        heads = integer_array("labellings", found.values)
        is_right = np.array_equal(found.offsets, offsets)
        if is_right:
            is_root = np.zeros(len(heads), dtype=bool)
            is_root[offsets[:-1]] = True
            limits = np.repeat(np.diff(offsets), np.diff(offsets))
            is_right = ((heads < 0) == is_root).all() and (heads >= -1).all() and (heads // self._R < limits).all()
        if not is_right:
            raise ParameterError("labellings must be heads of these sentences: -1 for the root, 0..n for words; or "
                                 "R heads + relations for a model with R relations")
        codes = np.ascontiguousarray(heads, dtype=np.int32)
        check_relations(self._arcs, rows, codes, offsets, "labellings[{}]")
        return codes, offsets


def are_wrong(y, y_hat, R, counts):
    """Return for each word whether y_hat is wrong if y is right; both are codes of heads and R relations."""
    if counts == "both":
        return y != y_hat
    return y // R != y_hat // R if counts == "heads" else y % R != y_hat % R


def check_relations(arcs, rows, codes, offsets, name):
    """Raise ParameterError if a word has a relation that `arcs` do not allow; `name` is a format for its index."""
    found = arcs.not_allowed(rows, codes, offsets)
    if found is not None:
        j, m = found
        head, relation = divmod(int(codes[offsets[j] + m]), arcs.n_relations)
        raise ParameterError(f"{name.format(j)} must have relations that `allowed` holds, got relation {relation} for "
                             f"word {m} with head {head}")


def why_no_tree(name, heads, length, single_root, n_relations=1):
    """Return a text that says why `heads`, or codes of heads and relations, are no tree; None if they are one."""
    heads = heads // n_relations
    if heads.ndim == 1 and len(heads) != length and len(heads) and heads[0] == -1:
        return f"{name} must have one head for each of {length - 1} words, got {len(heads) - 1}"
    if heads.ndim != 1 or len(heads) != length:
        return (f"{name} must have shape ({length},): -1 for the root and the head of each of {length - 1} words, got "
                f"shape {heads.shape}")
    if heads[0] != -1:
        return f"{name}[0] must be -1, the place of the root, got {heads[0]}"
    outside = np.flatnonzero((heads[1:] < 0) | (heads[1:] >= length))
    if len(outside):
        m = int(outside[0]) + 1
        return f"{name}: the head of word {m} must be 0..{length - 1}, got {heads[m]}"
    roots = np.flatnonzero(heads == 0)
    if single_root and len(roots) > 1:
        return (f"{name}: word {roots[1]} is a second word on the root beside word {roots[0]}; pass single_root=False "
                "if this is intended")
    # in a tree each word reaches the root in less than `length` steps; each round doubles the steps in `jump`
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
        return (f"{name}: word {min(cycle)} is on a cycle of words, {' -> '.join(map(str, [*cycle, cycle[0]]))}, and "
                "does not reach the root")
    return None
