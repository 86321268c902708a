"""The contract between solvers and models: most violating labellings and their planes, in batches of examples."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple, Self
from zlib import crc32

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..core.checksum import checksum
from ..core.exceptions import InputTypeError, NumericalError, ParameterError
from ..core.protocols import Decodings, ExamplePlane, Maximum
from ..core.rounding import UNIT
from ..core.types import Array, Floats
from ..core.validation import check_integer, check_rows, check_vector, contiguous
from ..features._plane_rows import merge_rows

SPARSE_DIM = 16384
"""Least dimension from which planes of examples may be CSR rows, and slopes of sparse data are summed as such."""


class LabelledTokens(NamedTuple):
    """Labelled tokens of n chains; an example of a class is a chain of one token.

    The fields are the tokens (N, d) with K scores each, their true labels (N,), the offsets (n + 1,) of the chains,
    scores 0 or -inf of pairs, first and last labels, None if pairs of neighbours have no weights, two flags that say
    whether first labels and last labels have weights, and for each chain the sum (n,) of the squared norms of all its
    features.
    """

    tokens: Any
    truth: Array
    offsets: Array
    masks: Any
    start: bool
    end: bool
    squares: Array


class BatchOracle:
    """Decodings and planes of batches of examples: a model bound to data. A single example is a batch of one.

    psi_i(y) is `Psi(x_i, y) - Psi(x_i, y_i)`, times the loss under slack rescaling. Many threads may call the oracle,
    which changes nothing but `met_norms`. Decodings and planes are multiplied by `sample_weight`; sums over
    distributions are not, the caller puts weights into `scales`. Public methods check their arguments and call a method
    that a subclass writes:

    * `_decode(rows, weights, loss)` returns the `Decodings` of `solve_batch`;
    * `_add_planes(rows, labellings, scales, slope)` adds planes up, or `_planes(rows, labellings)` returns them;
    * `_prepare(w)` and `_losses(rows, labellings)` are optional, for `prepare` and `losses`;
    * `_best(rows, weights, k)` with `has_further`, `_marginals(rows, weights, scales, slope)` with `has_marginals`, and
      `_compiled(batch)`, for speed, are optional;
    * `_identity()` returns the data of the oracle; its constructor ends with `self.fingerprint = self._checksum()`.

    A subclass that knows no batches writes `_solve(i, weights, loss)`, which returns a `Maximum`, in place of
    `_decode`, and `_plane(i, labelling)`, which returns a loss and a slope, in place of `_planes`.

    Attributes
    ----------
    n_examples, dim : int
    sizes : ndarray, shape (n_examples,)
        Whole numbers: the work of each example, by which batches are cut. With `norms` it is at least the number of
        pieces whose sum is psi; the certificate uses it to count roundings.
    norms : ndarray, shape (n_examples,), or None
        Bound on the sum of the norms of the pieces of `psi_i(y)`, hence on its norm, for any y. None if unknown: then
        rounding is counted in `uppers` and `met_norms`, or not at all.
    table_losses : ndarray, shape (n_examples,), or float
        Bound on the losses that a decoder adds to scores: they cancel in the value, but their rounding does not.
    loss_size : float
        Size of losses: rounding errors far below it count as none where the minimum is 0.
    met_norms : ndarray, shape (n_examples,), or None
        Without `norms`: largest norm of `psi_i` in the planes so far; it grows in place, because copies share it.
    sample_weight : ndarray, shape (n_examples,), or None
        Factors of decodings and planes, see `weighted`; None for ones. Norms do not contain them.
    kind : {"true", "relaxed"}
        What maxima are over: labellings, or a larger set.
    decodes_exactly : bool
        False if `uppers` may exceed `values` by more than rounding.
    memory : str
        What decodings take beside the data, in words for `Solve.describe`; empty if it is little.
    accuracies : ndarray, shape (n_examples,), or None
        How far upper bounds may lie above values in the pass to come, without `sample_weight`. An oracle that uses it
        makes it, full of infinity; a run sets it in place before each pass, because copies share it.
    dual_point : ndarray, shape (m, 2, K), or None
        Of oracles of graphs: the messages that prove `uppers` of the last decodings, see `graph_upper`. They change in
        place with each decoding.
    has_predictions : bool
        Whether `solve_batch` can leave out the loss.
    counts_rounding : bool
        Whether `norms` or `uppers` bound the rounding of decodings, as for models; `weighted` sets it.
    fingerprint : int
        Equal for equal models, data and truths, also in another process.
    has_marginals : bool
        Whether `marginals_batch` exists.
    marginal_terms, partition_terms : ndarray, shape (n_examples,), or None
        Numbers of roundings in `marginals_batch`. The error of the expectation is at most `marginal_terms 2^-53 norms`.
        That of the log-loss is at most `(partition_terms + dim + 2 size + 8) 2^-53 (norms |w| + log-loss)`; absolute
        errors are covered, because `log(number of labellings) <= log-loss + norms |w|`. Needed for the log-loss if
        norms are known, and so is `additions`.
    has_further : bool
        Whether `best_batch` exists.
    has_sparse_planes : bool
        Whether a labelling touches few of many weights: then `plane` returns CSR rows.
    listed_features : ndarray or None
        The feature numbers that occur, if they may be renumbered, see `DependencyOracle`; else None.
    """

    n_examples: int
    dim: int
    sizes: np.ndarray
    norms: Any = None
    table_losses: np.ndarray | float = 0.0
    loss_size: float = 1.0
    met_norms: np.ndarray | None = None
    dual_point: Any = None
    sample_weight: np.ndarray | None = None
    kind: str = "true"
    decodes_exactly: bool = True
    memory: str = ""
    accuracies: np.ndarray | None = None
    has_predictions = True
    counts_rounding = False
    fingerprint: int
    has_marginals = False
    marginal_terms: np.ndarray | None = None
    partition_terms: Any = None
    has_further = False
    has_sparse_planes = False
    listed_features: np.ndarray | None = None

    def is_current(self) -> bool:
        """Whether norms and fingerprint match the present data; if not, a run binds its model again."""
        return not self._identity() or self._checksum(again=True) == self.fingerprint

    def for_run(self) -> Self:
        """Return the oracle for one run: itself, or one with a state of its own, such as messages to start from."""
        return self

    def _identity(self):
        """Return all that the oracle is bound to: settings, arrays, and data with `fingerprint` and `checksum()`."""
        return ()

    def _checksum(self, again=False):
        """Return a checksum of `_identity`; `again` reads data anew, as they may have changed in place."""
        mark = crc32(repr((type(self).__name__, self.dim)).encode())
        for part in self._identity():
            if hasattr(part, "checksum"):
                part = part.checksum() if again else part.fingerprint
            is_array = isinstance(part, np.ndarray)
            mark = checksum(np.ascontiguousarray(part), mark) if is_array else crc32(repr(part).encode(), mark)
        return mark

    def weighted(self, sample_weight: Array) -> Self:
        """Return the same oracle with decodings and planes multiplied by weights of the examples."""
        other = copy(self)
        other.counts_rounding = True
        if (sample_weight != 1.0).any():
            replaced = [name for name in ("solve_batch", "best_batch", "planes", "add_planes") if name in vars(self)
                        or getattr(type(self), name) is not getattr(BatchOracle, name)]
            if replaced:
                raise ParameterError(f"sample_weight is unknown to {replaced[0]} of {type(self).__name__}; replace the "
                                     "method with an underscore that BatchOracle names in its place")
            other.sample_weight = sample_weight
        return other

    # ------------------------------------------------------------------ decodings
    def prepare(self, w: ArrayLike) -> object:
        """Return w in the form that batch methods take, made once for a pass; w must not change during the pass."""
        w = contiguous(w, np.float64)
        if w.shape != (self.dim,):
            raise ParameterError(f"w must have shape ({self.dim},), got {w.shape}")
        return self._prepare(w)

    def _prepare(self, w):
        return w

    def solve_batch(self, rows: Any, weights: Any, loss: Any = True) -> Decodings:
        """Return the most violating labellings of the examples `rows` (without loss: predictions) as `Decodings`.

        These are any sequence of labellings, their values, and upper bounds on the maxima, both relative to the truth,
        which has value 0.
        """
        rows = check_rows("rows", rows, self.n_examples)
        if not loss and not self.has_predictions:
            raise NotImplementedError(f"loss=False is not available: {type(self).__name__} computes the loss-augmented "
                                      "maximum only; predict with code of your own")
        return self._weigh(rows, self._decode(rows, weights, loss))

    def _decode(self, rows, weights, loss):
        found = [self._solve(i, weights, loss) for i in rows.tolist()]
        return Decodings([one.labelling for one in found], np.array([one.value for one in found], dtype=np.float64),
                         np.array([one.upper for one in found], dtype=np.float64))

    def _solve(self, i, weights, loss):
        raise NotImplementedError(f"{type(self).__name__} must have _decode or _solve, got neither")

    def best_batch(self, rows: Any, weights: Any, k: int) -> tuple[Decodings, Array, Sequence[Any]]:
        """Return the result of `solve_batch`, and up to k - 1 further labellings of large value for each example.

        Returns
        -------
        found : Decodings
        owners : ndarray, shape (m,)
            Positions in `rows` that the further labellings belong to, ascending.
        further : sequence of m labellings
        """
        rows, k = check_rows("rows", rows, self.n_examples), check_integer("k", k, low=1)
        found, owners, further = self._best(rows, weights, k)
        return self._weigh(rows, found), owners, further

    def _best(self, rows, weights, k):
        raise NotImplementedError(f"{type(self).__name__} returns the best labelling only")

    def _weigh(self, rows, found):
        if self.sample_weight is None:
            return found
        c = self.sample_weight[rows]
        return Decodings(found.labellings, c * found.values, c * found.uppers)

    def solve(self, i: int, w: ArrayLike) -> Maximum:
        """Return the most violating labelling of example i at w."""
        found = self.solve_batch(self._row(i), self.prepare(check_vector("w", w, self.dim)))
        return Maximum(found.labellings[0], float(found.values[0]), float(found.uppers[0]))

    def compiled(self, batch: int) -> object:
        """Return the `CompiledOracle` for up to `batch` examples; None if Python has to decode.

        It replaces `_decode` and `_planes` of the class that defines `_compiled`. A subclass without a `_compiled` of
        its own has none, nor has an object whose methods were replaced.
        """
        is_own = self._is_own("_compiled", "solve_batch", "planes", "_decode", "_planes")
        found = self._compiled(batch) if is_own else None
        if found is not None and self.sample_weight is not None:
            found.weigh(self.sample_weight)
        return found

    def _compiled(self, batch):
        return None

    def _is_own(self, method, *replaced):
        """Return whether the class itself defines the method, and the object has none of the `replaced` methods set."""
        return method in vars(type(self)) and not set(replaced) & vars(self).keys()

    # ------------------------------------------------------------------ planes
    def add_planes(self, rows: Any, labellings: Sequence[Any], scales: ArrayLike, slope: Array) -> float:
        """`slope += sum_j scales[j] psi(labellings[j])`; returns `sum_j scales[j] loss(labellings[j])`."""
        rows, scales = self._check_sums(rows, scales, slope, labellings)
        if self.sample_weight is not None:
            scales = scales * self.sample_weight[rows]
        return self._add_planes(rows, labellings, scales, slope) if len(rows) else 0.0

    def _add_planes(self, rows, labellings, scales, slope):
        losses, slopes = self._planes(rows, labellings)
        slope += slopes.T @ scales
        return float(scales @ losses)

    def planes(self, rows: ArrayLike, labellings: Sequence[Any]) -> tuple[Floats, sp.csr_array]:
        """Return one plane `losses[j] + <slopes[j], w>` for each labelling of the examples `rows`.

        Parameters
        ----------
        rows : array of int, shape (n,)
            An example may occur several times.
        labellings : sequence
            As they came from `solve_batch`, whole or in pieces.

        Returns
        -------
        losses : ndarray, shape (n,)
        slopes : csr_array, shape (n, dim)
            float64 with int32 indices, each row sorted, entries of the same index summed, zeros left out.
        """
        rows = check_rows("rows", rows, self.n_examples, labellings)
        losses, slopes = self._planes(rows, labellings) if len(rows) else (np.empty(0), merge_rows((), 0, self.dim))
        if self.sample_weight is None:
            return losses, slopes
        c, slopes = self.sample_weight[rows], slopes.copy()
        slopes.data *= np.repeat(c, np.diff(slopes.indptr))
        if not c.all():
            slopes.eliminate_zeros()
        return c * losses, slopes

    def _planes(self, rows, labellings):
        losses = np.empty(len(rows))

        def slopes():
            for j, i in enumerate(rows.tolist()):
                losses[j], slope = self._plane(i, labellings[j])
                yield slope

        return losses, merge_rows(slopes(), len(rows), self.dim)

    def plane(self, i: int, labelling: Any) -> ExamplePlane:
        """Return the plane `offset + <slope, w>` of a labelling of example i."""
        offset, slope = self._plane(int(self._row(i)[0]), labelling)
        c = 1.0 if self.sample_weight is None else self.sample_weight[i]
        return ExamplePlane(float(c * offset), slope if c == 1.0 else c * slope)

    def _plane(self, i, labelling):
        if type(self)._add_planes is BatchOracle._add_planes and type(self)._planes is BatchOracle._planes:
            raise NotImplementedError(f"{type(self).__name__} must have _add_planes or _planes, got neither")
        row, labellings, slope = np.array([i], dtype=np.intp), [labelling], np.zeros(self.dim)
        if self.has_sparse_planes and self.dim >= SPARSE_DIM:
            losses, slopes = self._planes(row, labellings)
            return losses[0], slopes
        return self._add_planes(row, labellings, np.ones(1), slope), slope

    def losses(self, rows: Any, labellings: Sequence[Any]) -> Floats:
        """Return the losses of labellings, shape (len(rows),)."""
        rows = check_rows("rows", rows, self.n_examples, labellings)
        losses = self._losses(rows, labellings) if len(rows) else np.empty(0)
        return losses if self.sample_weight is None else self.sample_weight[rows] * losses

    def _losses(self, rows, labellings):
        return self._planes(rows, labellings)[0]

    # ------------------------------------------------------------------ rounding
    def total(self, rows: Any, uppers: ArrayLike, norm: float) -> tuple[float, float]:
        """Return the risk of the examples `rows` from upper bounds of `solve_batch` at a w of this norm, and its error.

        The rounding error is infinite if unknown.
        """
        found = np.maximum(uppers, 0.0)
        value, c = float(found.sum()), np.ones(len(rows)) if self.sample_weight is None else self.sample_weight[rows]
        if not self.counts_rounding:
            return value, np.inf
        losses = np.divide(found, c, out=np.zeros(len(c)), where=c > 0.0)
        return value, 1.01 * self.rounding(rows, c, norm, losses) + UNIT * (len(found) + 2.0) * value

    def later_rounding(self, norm: float) -> float:
        """Bound the rounding of all decodings at a w of this norm by `met_norms`, which may have grown since; else 0.

        An example whose planes are all 0 may have other labellings, with features as long as those of other examples.
        """
        if self.met_norms is None:
            return 0.0
        met, c = self.met_norms, np.ones(self.n_examples) if self.sample_weight is None else self.sample_weight
        longest = np.where(met > 0.0, met, met.max(initial=0.0))
        return 1.01 * (self.dim + 8.0) * UNIT * norm * float(c @ longest)

    def rounding(self, rows: Any, c: Array, norm: float, losses: Array, smooth: bool = False) -> float:
        """Bound the rounding error of `c @ losses` at a w of this norm; 0 without norms, where `uppers` include it."""
        if self.norms is None:
            return 0.0
        sizes = self.table_bound(rows, norm, smooth) + losses
        return float(c @ (self.rounding_terms(rows, smooth) * UNIT * sizes))

    def rounding_terms(self, rows: Any, smooth: bool = False) -> Array:
        """Return the number of roundings in the loss of each example, relative to `norms |w|` plus the loss."""
        terms = self.dim + 2.0 * self.sizes[rows] + 8.0
        return terms + self.partition_terms[rows] if smooth else terms

    def table_bound(self, rows: Any, norm: float, smooth: bool = False) -> Array:
        """Bound the size of the numbers that a decoder adds up at a w of this norm."""
        scores = self.norms[rows] * norm
        if smooth or norm == 0.0:
            return scores
        return scores + np.broadcast_to(self.table_losses, (self.n_examples,))[rows]

    # ------------------------------------------------------------------ distributions
    def marginals_batch(self, rows: Any, weights: Any, scales: ArrayLike, slope: Array) -> tuple[Floats, Floats]:
        """`slope += sum_j scales[j] E psi_j`; returns `log sum_y exp <w, psi_j(y)>` and entropies, (len(rows),).

        Expectations belong to the computed distributions, up to `marginal_terms`. Entropies are lower bounds on theirs:
        the rounding error is subtracted. Scores that overflow raise NumericalError.
        """
        rows, scales = self._check_sums(rows, scales, slope)
        return self._marginals(rows, weights, scales, slope)

    def _marginals(self, rows, weights, scales, slope):
        raise NotImplementedError(f"{type(self).__name__} has no marginals")

    def additions(self, rows: Any) -> int:
        """Return the largest number of terms that `marginals_batch` of `rows` adds to an entry of `slope`."""
        raise NotImplementedError(f"{type(self).__name__} has no marginals")

    @property
    def labelled_tokens(self) -> LabelledTokens | None:
        """Tokens of chains or classes for steps on distributions of labels, with `expectations_batch`; else None.

        As with `compiled`, a subclass must define `_labelled_tokens` itself, because it may have other scores.
        """
        is_own = self._is_own("_labelled_tokens", "marginals_batch", "prepare", "_marginals", "_prepare")
        return self._labelled_tokens() if is_own else None

    def _labelled_tokens(self):
        return None

    def expectations_batch(self, rows: Any, distributions: Any, scales: ArrayLike, slope: Array) -> Floats:
        """Do the same as `marginals_batch` for given distributions of `labelled_tokens`; return bounds on entropies.

        `distributions.nodes` are the logarithms of the factors of all tokens, and `distributions.marginals(rows,
        scales, nodes)` writes their marginals; it returns entropies, and sums over neighbours.
        """
        rows, scales = self._check_sums(rows, scales, slope)
        return self._expectations(rows, distributions, scales, slope)

    def _expectations(self, rows, distributions, scales, slope):
        raise NotImplementedError(f"{type(self).__name__} has no labelled tokens")

    # ------------------------------------------------------------------ arguments
    def _row(self, i):
        i = check_integer("i", i)
        if not 0 <= i < self.n_examples:
            raise ParameterError(f"i must be a number of an example 0..{self.n_examples - 1}, got {i}")
        return np.array([i], dtype=np.intp)

    def _check_sums(self, rows, scales, slope, labellings=None):
        """Return checked rows and scales; raise ParameterError unless `slope` can take a sum of planes."""
        rows = check_rows("rows", rows, self.n_examples, labellings)
        if not isinstance(slope, np.ndarray) or slope.shape != (self.dim,) or slope.dtype != np.float64 \
                or not slope.flags.writeable:
            raise ParameterError(f"slope must be a writeable float64 array of shape ({self.dim},)")
        return rows, check_vector("scales", scales, len(rows))


def batched(oracle):
    """Return any oracle as a `BatchOracle`; an `Oracle` of single examples is called in a loop."""
    if isinstance(oracle, BatchOracle):
        return oracle
    made = BatchOracle()
    made.n_examples, made.dim, made.sizes = oracle.n_examples, oracle.dim, np.ones(oracle.n_examples, dtype=np.int64)
    made._solve, made._plane = (lambda i, w, loss: oracle.solve(i, w)), oracle.plane
    made.has_predictions = made.decodes_exactly = False
    return made


def check_scores(values, rows):
    """Raise NumericalError if a value of the examples `rows` is not finite."""
    if not np.isfinite(values).all():
        raise NumericalError(f"example {rows[int(np.argmin(np.isfinite(values)))]} has scores beyond the range of "
                             "float64; rescale the features")


def check_lengths(X, Y):
    """Return the number of examples of X and Y, which must agree."""
    try:
        n, m = len(X) if not sp.issparse(X) else X.shape[0], len(Y)
    except TypeError as problem:
        raise InputTypeError(f"X and Y must be sequences of examples, got {type(X).__name__} and {type(Y).__name__}"
                             ) from problem
    if n != m or n == 0:
        raise ParameterError(f"X and Y must hold the same number of examples, at least one, got {n} and {m}")
    return n
