"""Dependency parsing: trees over the words of a sentence, scored arc by arc."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...core.exceptions import InputTypeError, ParameterError
from ...core.ragged import Ragged
from ...core.types import Array, Data, Floats
from ...core.validation import check_count, check_flag, check_integer, check_vector, contiguous, integer_array
from ...features.examples import Examples
from ...oracles.arborescence import max_arborescence
from ..base import StructuredModel
from ._arcs import HashedArcs, RowArcs, arc_scores
from ._kernels import add_trees
from .oracle import DependencyOracle, why_no_tree
from .templates import DEFAULT_TEMPLATES, MOST_KINDS, KeyMaker, parse_templates


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

    def __init__(self, n_features: int, *, single_root: bool = True) -> None:
        self.dim: int = check_count("n_features", n_features)
        check_flag("single_root", single_root)
        self.single_root: bool = bool(single_root)
        self.attributes: Sequence[str] | None = None
        self.template_names: Sequence[str] | None = None
        self.templates: Any = None
        self.bits: int | None = None
        self.blocks = False
        self._make_keys: Any = None

    @classmethod
    def hashed(cls, bits: int = 20, attributes: Sequence[str] = ("word", "pos"),
               templates: Sequence[str] = DEFAULT_TEMPLATES, *, single_root: bool = True,
               blocks: bool = False) -> Dependency:
        """A model whose arc features are made from attributes of words by templates, hashed to `2 ** bits` weights.

        Parameters
        ----------
        bits : int, 1 to 30
        attributes : sequence of str
            Names of the columns of an example x, an array of non-negative integers of shape (n, n_attributes).
        templates : sequence of str
            A template is a list of atoms; each value they take together is a feature. Atoms: ``h.NAME`` and
            ``m.NAME``, an attribute of head or word; ``h+1.NAME``, ``m-2.NAME``, of words near them; ``direction``;
            ``distance``, which is direction and bucket; ``set.NAME``, all values of an attribute between head and
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
        check_flag("blocks", blocks)
        parsed = parse_templates(templates, attributes)
        dim = len(parsed) << bits if blocks else 1 << bits
        if dim > 1 << 30:
            raise ParameterError(f"bits must leave at most 2^30 weights, got {len(parsed)} templates of 2^{bits}")
        model = cls(dim, single_root=single_root)
        model.attributes, model.bits, model.templates, model.blocks = attributes, bits, parsed, bool(blocks)
        model._make_keys = KeyMaker(parsed, bits, bool(blocks))
        model.template_names = sorted(templates, key=lambda text: "each." in text)
        return model

    def joint_feature(self, x: Any, y: Any) -> Any:
        """Return Psi(x, y) as a CSR row."""
        arcs, _ = self._bind([x])
        heads = self._check_heads("y", y, int(arcs.starts_array[1]))
        slope = np.zeros(self.dim)
        # psi is Psi if there are no true heads
        add_trees(arcs, np.zeros(1, np.intp), np.full(len(heads), -1, np.int32), heads, np.zeros(1, np.int64),
                  np.ones(1), slope)
        return sp.csr_array(slope[None])

    def loss(self, y: Any, y_hat: Any) -> float:
        y, y_hat = integer_array("y", y), integer_array("y_hat", y_hat)
        if y.ndim != 1 or y.shape != y_hat.shape:
            raise ParameterError(f"y and y_hat must be heads of the same words, got shapes {y.shape} and {y_hat.shape}")
        return float(np.count_nonzero(y[1:] != y_hat[1:]))

    def decode(self, w: Array, x: Any) -> Any:
        return max_arborescence(self.arc_scores(w, x), self.single_root)[0]

    def loss_augmented_decode(self, w: Array, x: Any, y: Any) -> Any:
        scores = self.arc_scores(w, x)
        heads = self._check_heads("y", y, len(scores))
        scores[heads[1:], np.arange(1, len(heads))] -= 1.0
        return max_arborescence(scores, self.single_root)[0]

    def oracle(self, X: Data, Y: Data) -> Any:
        return DependencyOracle(self, X, Y)

    def arc_scores(self, w: Array, x: Any) -> Floats:
        """Return scores <w, f(h, m)> of all arcs, shape (n + 1, n + 1), zero in column 0 and on the diagonal."""
        arcs, _ = self._bind([x])
        return arc_scores(arcs, 0, check_vector("w", w, self.dim))

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
        n_each = sum(t.each_column >= 0 for t in self.templates)
        pieces = len(self.templates) - n_each + n_each * np.minimum(X.sizes, MOST_KINDS)
        return HashedArcs(starts, *self._make_keys(padded, starts), self.dim), pieces.astype(float)

    def _check_heads(self, name, y, length):
        try:
            heads = np.asarray(y)
        except ValueError as error:
            raise InputTypeError(f"{name} must hold integers, the heads of words: {error!s:.80}") from error
        if heads.dtype.kind not in "iu":
            raise InputTypeError(f"{name} must hold integers, the heads of words, got dtype {heads.dtype}")
        problem = why_no_tree(name, heads, length, self.single_root)
        if problem:
            raise ParameterError(problem)
        return contiguous(heads, np.int32)
