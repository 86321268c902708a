"""Dependency parsing: trees over the words of a sentence, scored arc by arc, with or without relations."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ...core.exceptions import InputTypeError, ParameterError
from ...core.graph import WeightedLabels
from ...core.ragged import Ragged
from ...core.types import Array, Data, Floats
from ...core.validation import (
    check_choice,
    check_count,
    check_flag,
    check_integer,
    check_vector,
    contiguous,
    integer_array,
)
from ...features.examples import Examples
from ...oracles.arborescence import max_arborescence
from ..base import StructuredModel
from ..batch_oracle import BatchOracle
from ..graphs import labels_of
from ._arcs import RowArcs
from ._hashed_arcs import HashedArcs
from ._kernels import tree_planes
from ._relations import RelationArcs
from .oracle import COUNTS, DependencyOracle, are_wrong, check_relations, why_no_tree
from .rules import RelationRules
from .templates import DEFAULT_TEMPLATES, MOST_KINDS, RELATION_TEMPLATES, KeyMaker, parse_templates


class Dependency(StructuredModel):
    """Dependency trees: `<w, Psi(x, y)> = sum over words m of <w, f(x, y[m], m)>`, loss = number of wrong words.

    A labelling is `heads`, int32 of shape (n + 1,), for a sentence of n words: `heads[0] = -1` is the root, words are
    1..n, `heads[m] = 0` if a word hangs on the root. Trees need not be projective. With R relations a labelling holds
    `R heads + relations`, relations 0..R - 1, and -1 for the root; `divmod(y, R)` returns both. A truth may be
    `pb.models.WeightedLabels(heads, weights)`: the loss does not count words of weight 0; others must have weight 1.

    Parameters
    ----------
    n_features : int
        Columns of the arc features. An example x is then a CSR matrix with a row for each arc (h, m), h = 0..n,
        m = 1..n, m != h, ordered by h and then m: n^2 rows. See `Dependency.hashed` for features made from words.
    single_root : bool, default True
        Whether exactly one word hangs on the root, in the truths and in predictions.
    n_relations : int, optional
        R: each arc has one of R relations, and w holds R vectors of n_features weights, one for each relation. None if
        arcs have no relations; then R = 1.
    counts : {"both", "heads", "relations"}, default "both"
        Which words are wrong: "both", with another head or relation; else with another head, or another relation.

    Notes
    -----
    An arc takes its best relation before the tree is found, and the log-loss sums over relations within the
    determinant; both are exact. Decoding takes O(n^2) beside the products with w (`pb.oracles.max_arborescence`), the
    log-loss O(n^3) (`pb.oracles.arborescence_marginals`). `X` may be a list of examples or a `Ragged` of their rows,
    `Y` a list of heads or a `Ragged`.
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

    def __init__(self, n_features: int, *, single_root: bool = True, n_relations: int | None = None,
                 counts: str = "both") -> None:
        self.n_features: int = check_count("n_features", n_features)
        self.n_relations: int = 1 if n_relations is None else check_count("n_relations", n_relations)
        self.dim: int = self.n_features * self.n_relations
        self.counts = check_choice("counts", counts, COUNTS)
        self.rules: Any = None if n_relations is None else RelationRules(self.n_relations)
        self.single_root: bool = check_flag("single_root", single_root)
        self.attributes: Sequence[str] | None = None
        self.template_names: Sequence[str] | None = None
        self.templates: Any = None
        self.bits: int | None = None
        self.blocks = False
        self._make_keys: Any = None
        self._relation_keys: Any = None

    @classmethod
    def hashed(cls, bits: int = 20, attributes: Sequence[str] = ("word", "pos"),
               templates: Sequence[str] = DEFAULT_TEMPLATES, *, single_root: bool = True,
               blocks: bool = False, n_relations: int | None = None, counts: str = "both",
               relation_templates: Sequence[str] = RELATION_TEMPLATES, tag: str | None = None,
               allowed: ArrayLike | None = None) -> Dependency:
        """A model whose arc features are made from attributes of words by templates, hashed to `2 ** bits` weights.

        Parameters
        ----------
        bits : int, 1 to 30
        attributes : sequence of str
            Names of the columns of an example x, an array of non-negative integers of shape (n, n_attributes).
        templates : sequence of str
            A template is a list of atoms; each combination of their values is a feature. Atoms: ``h.NAME`` and
            ``m.NAME``, an attribute of head or word; ``h+1.NAME``, ``m-2.NAME``, of words near them; ``direction``;
            ``distance``, direction and range of the distance; ``set.NAME``, the set of the values of an attribute
            between head and word; ``each.NAME``, a feature for each of those values. Attributes in ``set`` and ``each``
            must be below 64. The root and places outside of the sentence have values of their own.
        single_root : bool, default True
        blocks : bool, default False
            Whether every template has `2 ** bits` weights of its own: those of template t begin at `t 2 ** bits`, in
            the order of the attribute `template_names` of the model (templates with ``each`` last).
        n_relations, counts
            As in the class. The score of an arc is that of `templates` plus that of `relation_templates` for the
            relation.
        relation_templates : sequence of str
            Templates of features that have a weight for each relation, among the same `2 ** bits`.
        tag : str, optional
            The attribute whose values are the tags in `allowed`; None if all words have the same tag.
        allowed : array of int, shape (n_rules, 4), optional
            Rows (tag of the head, -1 for the root; tag of the word; 1 if the word is on the right of its head, else 0;
            relation), the most frequent first. An arc may have the relations of the rules that fit it. If none fits, it
            has that of the first rule with the tag of its word and the same kind of head, root or word. None: all.

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
        bits = check_integer("bits", bits, low=1, high=30)
        attributes = tuple(attributes)
        if not attributes or len(set(attributes)) < len(attributes):
            raise ParameterError(f"attributes must be different names, at least one, got {attributes}")
        blocks = check_flag("blocks", blocks)
        parsed = parse_templates(templates, attributes)
        dim = len(parsed) << bits if blocks else 1 << bits
        if dim > 1 << 30:
            raise ParameterError(f"bits must leave at most 2^30 weights, got {len(parsed)} templates of 2^{bits}")
        if blocks and n_relations is not None:
            raise ParameterError("blocks must be False for a model with relations, got True")
        if n_relations is None and allowed is not None:
            raise ParameterError("allowed is for models with relations, got n_relations = None")
        model = cls(dim, single_root=single_root, n_relations=n_relations, counts=counts)
        model.dim = dim
        if n_relations is not None:
            if n_relations > dim:
                raise ParameterError(f"bits must leave 2^bits >= n_relations = {n_relations} weights, got {bits}")
            column = None if tag is None else attributes.index(check_choice("tag", tag, attributes))
            model.rules = RelationRules(n_relations, column, allowed)
            model._relation_keys = KeyMaker(parse_templates(relation_templates, attributes, "relation_templates"), bits)
        model.attributes, model.bits, model.templates, model.blocks = attributes, bits, parsed, blocks
        model._make_keys = KeyMaker(parsed, bits, blocks)
        model.template_names = sorted(templates, key=lambda text: "each." in text)
        return model

    def joint_feature(self, x: Any, y: Any) -> sp.csr_array:
        """Return Psi(x, y) as a CSR row."""
        arcs, _ = self._bind([x])
        heads = self._check_heads("y", labels_of(y), int(arcs.starts_array[1]))
        row = np.zeros(1, np.intp)
        check_relations(arcs, row, heads, arcs.starts_array, "y")
        # true heads of -1 have no features, so that psi, a difference to the truth, is Psi
        return tree_planes(arcs, row, np.full(len(heads), -1, np.int32), heads, arcs.starts_array)[1]

    def loss(self, y: Any, y_hat: Any) -> float:
        counted, y, y_hat = _counted(y), integer_array("y", labels_of(y)), integer_array("y_hat", y_hat)
        if y.ndim != 1 or y.shape != y_hat.shape:
            raise ParameterError(f"y and y_hat must be heads of the same words, got shapes {y.shape} and {y_hat.shape}")
        return float(np.count_nonzero((are_wrong(y, y_hat, self.n_relations, self.counts) & counted)[1:]))

    def decode(self, w: Array, x: Any) -> Array:
        return self._best(self.relation_scores(w, x))

    def loss_augmented_decode(self, w: Array, x: Any, y: Any) -> Array:
        scores = self.relation_scores(w, x)
        truth = self._check_heads("y", labels_of(y), len(scores))
        codes = np.arange(scores[:, 0].size).reshape(len(scores), 1, -1)        # codes of all arcs and relations
        wrong = are_wrong(codes, truth[:, None], self.n_relations, self.counts) & np.expand_dims(_counted(y), -1)
        return self._best(scores + wrong)

    def _best(self, scores):
        heads, _ = max_arborescence(scores.max(axis=2), self.single_root)
        relations = scores[heads[1:], np.arange(1, len(heads))].argmax(axis=1)
        return np.concatenate([[-1], self.n_relations * heads[1:] + relations]).astype(np.int32)

    def oracle(self, X: Data, Y: Data) -> BatchOracle:
        return DependencyOracle(self, X, Y)

    def arc_scores(self, w: Array, x: Any) -> Floats:
        """Return scores of all arcs, shape (n + 1, n + 1), zero in column 0 and on the diagonal.

        A score is `<w, f(h, m)>`; for a model with relations it is that of the best relation of the arc.
        """
        return self.relation_scores(w, x).max(axis=2)

    def relation_scores(self, w: Array, x: Any) -> Floats:
        """Return scores of all relations, shape (n + 1, n + 1, R), -inf for those that an arc cannot have."""
        arcs, _ = self._bind([x])
        return arcs.scores(0, check_vector("w", w, self.dim))

    def _bind(self, X):
        """Return the `Arcs` of the sentences X, and for each sentence a bound on the norm of the features of an arc."""
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
        if X.values.shape[1] != self.n_features:
            raise ParameterError(f"X must have n_features = {self.n_features} columns, got {X.values.shape[1]}")
        examples = Examples(X.values, name_of=X.name_of)
        starts = np.concatenate([[0], np.cumsum(n_words + 1)])
        arcs = RowArcs(starts, X.offsets, examples.storage, self.n_features)
        if self.rules is not None:
            arcs = RelationArcs(None, arcs, self.n_relations, self.dim, *self.rules.bind(None, starts))
        return arcs, np.maximum.reduceat(examples.norms, X.offsets[:-1])

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
        limits[[c for maker in self._makers() for c in maker.columns_between]] = MOST_KINDS
        wrong = np.argwhere((values < 0) | (values >= limits))
        if len(wrong):
            row, column = map(int, wrong[0])
            high = f"..{MOST_KINDS - 1}, as set and each ask" if limits[column] == MOST_KINDS else " or more"
            raise ParameterError(f"{X.name_of(row)} must have the attribute {self.attributes[column]!r} "
                                 f"0{high}, got {values[row, column]}")
        starts = X.offsets + np.arange(len(X) + 1)
        padded = np.zeros((starts[-1], n_attributes), np.int64)
        is_word = np.ones(len(padded), dtype=bool)
        is_word[starts[:-1]] = False
        padded[is_word] = values
        pieces = sum(maker.most_features(X.sizes) for maker in self._makers())
        arcs = [HashedArcs(starts, *maker(padded, starts), self.dim) for maker in self._makers()]
        if self.rules is None:
            return arcs[0], pieces
        return RelationArcs(*arcs, self.n_relations, self.dim, *self.rules.bind(padded, starts)), pieces

    def _makers(self):
        return [self._make_keys] if self.rules is None else [self._make_keys, self._relation_keys]

    def _check_heads(self, name, y, length):
        try:
            heads = np.asarray(y)
        except ValueError as error:
            raise InputTypeError(f"{name} must hold integers, the heads of words: {error!s:.80}") from error
        if heads.dtype.kind not in "iu":
            raise InputTypeError(f"{name} must hold integers, the heads of words, got dtype {heads.dtype}")
        problem = why_no_tree(name, heads, length, self.single_root, self.n_relations)
        if problem:
            raise ParameterError(problem)
        return contiguous(heads, np.int32)


def _counted(y):
    """Return for each word of a truth whether the loss counts it; True if all words count."""
    return np.asarray(y.weights) != 0 if isinstance(y, WeightedLabels) else np.True_
