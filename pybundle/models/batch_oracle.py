"""What solvers ask of examples: most violating labellings and their planes, many examples at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, NumericalError, ParameterError
from ..core.protocols import Decoded, Decodings, ExamplePlane, has_batches
from ..core.types import Array, Floats
from ..core.validation import check_integer, check_rows, check_vector
from ..features._plane_rows import merge_rows


class Chains(NamedTuple):
    """Tokens (N, d) of n chains seen by K scores, true labels (N,), offsets (n + 1,), whether pairs of neighbours,
    first and last labels have weights, and the sums of the squared norms of all features (n,)."""

    tokens: Any
    truth: Array
    offsets: Array
    pairs: bool
    start: bool
    end: bool
    squares: Array


class BatchOracle(ABC):
    """Decodings and planes of batches of examples: a model bound to data.

    Callable from many threads; only `met_norms` may change, and grow. A subclass writes `solve_batch`, and
    `add_planes` or `planes`; the rest has defaults. For speed a class may offer the same in compiled code, see
    `compiled`.

    Attributes
    ----------
    n_examples, dim : int
    sizes : ndarray, shape (n_examples,)
        Whole numbers: the work of each example, by which batches are cut. With `norms` at least the number of its
        pieces, the terms that an entry of psi is added from: the certificate counts roundings by it.
    norms : ndarray, shape (n_examples,), or None
        Bound on the sum of the norms of the pieces that `psi_i(y)` is added from, hence on its norm, for any y. None if
        unknown: then `uppers` and `met_norms` count rounding, or nobody does.
    table_losses : ndarray, shape (n_examples,), or float
        Losses that a decoder adds to scores, and that cancel in its values: they round, too, unless w is 0.
    met_norms : ndarray, shape (n_examples,), or None
        Without `norms`: largest norm of `psi_i` of the planes made so far.
    fingerprint : int
        Equal for equal models, data and truths, also in another process.
    has_marginals : bool
        Whether `marginals_batch` exists.
    marginal_terms, partition_terms : ndarray, shape (n_examples,), or None
        Numbers of roundings in `marginals_batch`, bounds on errors as multiples of 2^-53: of the expectation, in parts
        of `norms`, and of the log-loss beyond `dim + 2 size + 8`, in parts of `norms |w|` and of the log-loss. (As
        `log(number of labellings) <= log-loss + norms |w|`, absolute errors count in parts of that logarithm.)
        Needed for the log-loss if norms are known, and so is `additions`.
    has_further : bool
        Whether `best_batch` exists.
    listed_features : ndarray or None
        Of an oracle whose features have numbers that may be changed, see `DependencyOracle`: the numbers that occur.
    """

    n_examples: int
    dim: int
    sizes: np.ndarray
    norms: np.ndarray | None = None
    table_losses: np.ndarray | float = 0.0
    met_norms: np.ndarray | None = None
    fingerprint: int
    has_marginals = False
    marginal_terms: np.ndarray | None = None
    partition_terms: np.ndarray | None = None
    has_further = False
    listed_features: np.ndarray | None = None

    def is_current(self) -> bool:
        """Whether norms and fingerprint match the present data; if not, a run binds its model again."""
        return True

    def prepare(self, w: ArrayLike) -> Any:
        """w as the batch methods want it, made once for a pass."""
        return w

    @abstractmethod
    def solve_batch(self, rows: Any, weights: Any, loss: Any = True) -> Decodings:
        """Most violating labellings of the examples `rows` (without loss: predictions) as `Decodings`.

        Returns the values of the labellings and upper bounds of the maximum, all relative to the truth: a truth has
        value 0. Labellings come as any sequence.
        """

    def best_batch(self, rows: Any, weights: Any, k: int) -> tuple[Decodings, Array, Sequence[Any]]:
        """As `solve_batch`, and up to k - 1 further labellings of large value of each example.

        Returns
        -------
        found : Decodings
        owners : ndarray, shape (m,)
            Positions in `rows` that the further labellings belong to, ascending.
        further : sequence of m labellings
        """
        raise NotImplementedError(f"{type(self).__name__} returns the best labelling only")

    def compiled(self, batch: int) -> Any:
        """The `CompiledOracle` for up to `batch` examples; None if Python has to decode.

        It replaces `solve_batch` and `planes` of the class that defines `_compiled`, but not those of a subclass,
        unless it writes its own, nor for others that were set on the object.
        """
        is_own = "_compiled" in vars(type(self)) and not {"solve_batch", "planes"} & vars(self).keys()
        return self._compiled(batch) if is_own else None

    def _compiled(self, batch):
        raise NotImplementedError

    @property
    def chains(self) -> Chains | None:
        """Classes or chains for steps on their distributions, with `expectations_batch`; None if there are none.

        As with `compiled`, only of the class that defines `_chains`: a subclass may have other scores.
        """
        is_own = "_chains" in vars(type(self)) and not {"marginals_batch", "prepare"} & vars(self).keys()
        return self._chains() if is_own else None

    def _chains(self):
        raise NotImplementedError

    def add_planes(self, rows: Any, labellings: Sequence[Any], scales: ArrayLike, slope: Array) -> float:
        """`slope += sum_j scales[j] psi(labellings[j])`; returns `sum_j scales[j] loss(labellings[j])`."""
        losses, slopes = self.planes(rows, labellings)
        slope += slopes.T @ scales
        return float(scales @ losses)

    def planes(self, rows: ArrayLike, labellings: Sequence[Any]) -> Any:
        """One plane `losses[j] + <slopes[j], w>` for each labelling of the examples `rows`.

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
        if type(self).add_planes is BatchOracle.add_planes:
            raise NotImplementedError(f"{type(self).__name__} must have add_planes or planes, got neither")
        rows = check_rows("rows", rows, self.n_examples, labellings)
        losses, scale, slope = np.empty(len(rows)), np.ones(1), np.zeros(self.dim)

        def made():
            for j, i in enumerate(rows):
                losses[j] = self.add_planes(np.array([i], dtype=np.intp), [labellings[j]], scale, slope)
                yield slope
                slope[:] = 0.0

        return losses, merge_rows(made(), len(rows), self.dim)

    def losses(self, rows: Any, labellings: Sequence[Any]) -> Floats:
        """Losses of labellings, shape (len(rows),)."""
        return self.planes(rows, labellings)[0]

    def total(self, rows: Any, uppers: ArrayLike, norm: float) -> tuple[float, float]:
        """Risk of the examples `rows` from upper bounds of `solve_batch` at a w of this norm, and its rounding error.

        The error is infinite if unknown.
        """
        return float(np.maximum(uppers, 0.0).sum()), np.inf

    def marginals_batch(self, rows: Any, weights: Any, scales: ArrayLike, slope: Array) -> tuple[Floats, Floats]:
        """`slope += sum_j scales[j] E psi_j`; returns `log sum_y exp <w, psi_j(y)>` and entropies, (len(rows),).

        The expectations are those of the distributions that were computed, up to `marginal_terms`; entropies are
        theirs or less: what rounding may have added is taken off. Scores that overflow raise NumericalError.
        """
        raise NotImplementedError(f"{type(self).__name__} has no marginals")

    def expectations_batch(self, rows: Any, distributions: Any, scales: ArrayLike, slope: Array) -> Floats:
        """As `marginals_batch` for given distributions, with `chains` only; returns lower bounds on their entropies.

        `distributions.nodes` are the logarithms of the factors of all tokens, and `distributions.marginals(rows,
        scales, nodes)` writes their marginals; it returns entropies, and sums over neighbours.
        """
        raise NotImplementedError(f"{type(self).__name__} has no chains")

    def additions(self, rows: Any) -> int:
        """Terms that `marginals_batch` of the examples `rows` adds to any entry of `slope`, at most."""
        raise NotImplementedError(f"{type(self).__name__} has no marginals")

    def solve(self, i: int, w: ArrayLike) -> Decoded:
        """Most violating labelling of example i at w."""
        found = self.solve_batch(self._row(i), self.prepare(check_vector("w", w, self.dim)))
        return Decoded(found.labellings[0], float(found.values[0]), float(found.uppers[0]))

    def plane(self, i: int, labelling: Any) -> ExamplePlane:
        """Plane `offset + <slope, w>` of a labelling of example i."""
        slope = np.zeros(self.dim)
        offset = self.add_planes(self._row(i), [labelling], np.ones(1), slope)
        return ExamplePlane(float(offset), slope)

    def _row(self, i):
        i = check_integer("i", i)
        if not 0 <= i < self.n_examples:
            raise ParameterError(f"i must be a number of an example 0..{self.n_examples - 1}, got {i}")
        return np.array([i], dtype=np.intp)


class LoopingOracle(BatchOracle):
    """Wrap any `Oracle`: use its batches if it has them, see `Batches`, else loop over single examples."""

    def __init__(self, oracle):
        self.n_examples, self.dim, self._oracle = oracle.n_examples, oracle.dim, oracle
        self.solve, self.plane = oracle.solve, oracle.plane
        self.sizes = np.ones(oracle.n_examples, dtype=np.int64)
        if has_batches(oracle):
            self.sizes, self.prepare = oracle.sizes, oracle.prepare
            self.solve_batch, self.planes = oracle.solve_batch, oracle.planes

    def solve_batch(self, rows, weights):
        found = [self._oracle.solve(int(i), weights) for i in check_rows("rows", rows, self.n_examples)]
        return Decodings([one.labelling for one in found], np.array([one.value for one in found], dtype=np.float64),
                         np.array([one.upper for one in found], dtype=np.float64))

    def planes(self, rows, labellings):
        rows = check_rows("rows", rows, self.n_examples, labellings)
        losses = np.empty(len(rows))

        def slopes():
            for j, i in enumerate(rows.tolist()):
                losses[j], slope = self._oracle.plane(i, labellings[j])
                yield slope

        return losses, merge_rows(slopes(), len(rows), self.dim)


def batched(oracle):
    """The oracle of a risk as a `BatchOracle`."""
    return oracle if isinstance(oracle, BatchOracle) else LoopingOracle(oracle)


def check_sums(oracle, rows, scales, slope):
    """Rows and scales as the kernels want them; ParameterError unless `slope` can take a sum of planes."""
    rows = check_rows("rows", rows, oracle.n_examples)
    if not isinstance(slope, np.ndarray) or slope.shape != (oracle.dim,) or slope.dtype != np.float64 \
            or not slope.flags.writeable:
        raise ParameterError(f"slope must be a writeable float64 array of shape ({oracle.dim},)")
    return rows, check_vector("scales", scales, len(rows))


def check_scores(values, rows):
    """Raise NumericalError if a value of the examples `rows` is not finite."""
    if not np.isfinite(values).all():
        raise NumericalError(f"example {rows[int(np.argmin(np.isfinite(values)))]} has scores beyond the range of "
                             "float64; rescale the features")


def check_lengths(X, Y):
    """Number of examples; X and Y must agree."""
    try:
        n, m = len(X) if not sp.issparse(X) else X.shape[0], len(Y)
    except TypeError as problem:
        raise InputTypeError(f"X and Y must be sequences of examples, got {type(X).__name__} and {type(Y).__name__}"
                             ) from problem
    if n != m or n == 0:
        raise ParameterError(f"X and Y must hold the same number of examples, at least one, got {n} and {m}")
    return n
