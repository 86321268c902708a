"""Access to the single examples of a risk and to batches of them: linear risks, and any oracle without batches."""

from __future__ import annotations

import numpy as np

from ..core._plane_finder import PlaneFinder
from ..core.exceptions import NumericalError, ParameterError
from ..core.protocols import Decoded, Decodings, ExamplePlane
from ..core.validation import check_integer, check_rows, check_vector, contiguous
from ..features._plane_rows import merge_rows
from ..features._rows import RowSums, sum_rows
from ..features.weights import LazyWeights
from ._linear_finder import LinearFinder


class LinearOracle:
    """Examples of a `LinearRisk`, one at a time or in batches; the risk says what a labelling is.

    ====================  =====================================================================
    risk                  labelling
    ====================  =====================================================================
    `MulticlassHinge`     a class 0..K-1
    `BinaryHinge`         1 where the loss counts, 0 where it does not
    `Logistic`            the score <w, x_i> at which the loss is linearised, any finite number
    ====================  =====================================================================

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import BinaryHinge
    >>> oracle = BinaryHinge(np.array([[2.0], [1.0]]), [1, -1]).oracle()
    >>> oracle.solve(0, np.array([0.25]))
    Decoded(labelling=1, value=0.5, upper=0.5)
    """

    def __init__(self, risk):
        self.n_examples, self.dim = risk.n_examples, risk.dim
        self._risk = risk

    @property
    def sizes(self):
        """Work of each example, shape (n,): its non-zeros, and the scores."""
        storage = self._risk.examples.storage
        entries = np.diff(storage[2]) if len(storage) == 3 else np.full(self.n_examples, storage[0].shape[1])
        return entries + self._risk.n_scores

    def solve(self, i, w):
        """The labelling of largest loss plus score; exact, so value = upper."""
        risk, i = self._risk, self._row(i)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = check_vector("w", w, self.dim).reshape(risk.n_scores, -1) @ risk.examples.row(i)
        if not np.isfinite(scores).all():
            raise NumericalError(f"the scores of row {i} overflow; use a larger lam, or scale the data")
        labellings, losses = risk._decode(risk.labels[i:i + 1], scores[None])
        value = float(risk.sample_weight[i] * losses[0])
        return Decoded(labellings[0].item(), value, value)

    def plane(self, i, labelling):
        """The plane of a labelling: its offset, and for every class a multiple of x_i."""
        losses, slopes = self.planes([self._row(i)], [self.key(labelling)])
        return ExamplePlane(float(losses[0]), slopes.toarray()[0])

    def prepare(self, w):
        """w for `solve_batch`, which finds it as it is until `update`."""
        return LazyWeights(self._risk._engine, check_size("w", w, self.dim))

    def update(self, weights, w, indices):
        """`prepare(w)` where w changed at `indices` only; O(len(indices))."""
        weights.update(check_size("w", w, self.dim), indices)
        return weights

    def solve_batch(self, rows, weights):
        """Labellings of largest loss plus score of the examples `rows`, in float64: O(nnz(x_i) K) an example."""
        risk, rows = self._risk, check_rows("rows", rows, self.n_examples)
        scores = weights.scores(rows)
        is_finite = np.isfinite(scores).all(axis=1)
        if not is_finite.all():
            raise NumericalError(f"example {rows[int(np.argmin(is_finite))]} has scores beyond the range of float64; "
                                 "rescale the features")
        labellings, losses = risk._decode(risk.labels[rows], scores)
        values = risk.sample_weight[rows] * losses
        return Decodings(labellings, values, values)

    def finder(self, batch):
        """As in `BatchOracle`."""
        return None if self._risk.smooth else LinearFinder(self._risk._engine, self.dim, batch)

    def planes(self, rows, labellings):
        """Losses (n,) and slopes, csr_array (n, dim), of one labelling for each of the examples `rows`."""
        risk, rows = self._risk, check_rows("rows", rows, self.n_examples, labellings)
        offsets, classes, coefs = risk._linearise(risk.labels[rows], labellings)
        c, per_row = risk.sample_weight[rows], classes.shape[1]
        sums = RowSums(risk._engine, np.repeat(rows, per_row), classes.ravel(), (c[:, None] * coefs).ravel(),
                       np.arange(0, per_row * len(rows) + 1, per_row))
        return c * offsets, sum_rows(self.dim, sums)

    def key(self, labelling):
        """The labelling itself, as a plain number."""
        return self._risk._keys(np.asarray([labelling]))[0].item()

    def _row(self, i):
        i = check_integer("i", i, low=0)
        if i >= self.n_examples:
            raise ParameterError(f"i must be a row number 0..{self.n_examples - 1}, got {i}")
        return i


class OneByOne:
    """Batches for an oracle that has none, by loops over `solve`, `plane` and `key`."""

    def __init__(self, oracle):
        self.n_examples, self.dim, self._oracle = oracle.n_examples, oracle.dim, oracle
        self.sizes = np.ones(oracle.n_examples, dtype=np.int64)
        self.solve, self.plane, self.key = oracle.solve, oracle.plane, oracle.key

    def prepare(self, w):
        return w

    def update(self, weights, w, indices):
        return w

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


def with_batches(oracle):
    """The oracle itself where it has `prepare`, `update`, `solve_batch` and `planes`, else one that loops over it."""
    has_all = all(hasattr(oracle, name) for name in ("prepare", "update", "solve_batch", "planes", "sizes"))
    return oracle if has_all else OneByOne(oracle)


def finder_of(oracle, batch):
    """The compiled finder of an oracle, see `BatchOracle`; None where methods that it stands for were overridden."""
    classes = type(oracle).__mro__
    owner = next((k for k, each in enumerate(classes) if "finder" in vars(each)), None)
    names = {"solve", "solve_batch", "plane", "planes", "losses", "prepare"}
    # a proxy has no class with a finder, and methods of its own
    if owner is None or names & getattr(oracle, "__dict__", {}).keys() or any(
            names & vars(each).keys() for each in classes[:owner]):
        return None
    finder = oracle.finder(batch)
    return finder if isinstance(finder, PlaneFinder) else None


def check_size(name, w, dim):
    """w as contiguous float64 of `dim` entries, neither copied nor read where it is: O(1) for a batch of few rows."""
    w = contiguous(w, np.float64)
    if w.shape != (dim,):
        raise ParameterError(f"{name} must have shape ({dim},), got {w.shape}")
    return w
