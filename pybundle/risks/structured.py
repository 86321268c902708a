"""The risk of any structured model decodes examples, and sums their planes to one plane for each part."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from ..core.exceptions import ParameterError
from ..core.labels import example_weights
from ..core.plane import Planes
from ..core.protocols import Constant
from ..core.rounding import UNIT
from ..core.types import Data, Floats
from ..core.validation import check_choice, check_integer, check_number, check_vector
from ..features.examples import Examples
from ..models.batch_oracle import BatchOracle, LabelledTokens
from ..models.callable_model import as_model
from ..models.chain import Chain
from ..models.model_oracle import ModelOracle
from ..models.multiclass import Multiclass
from .label_sums import LabelSums
from .partition import Partitioned, take
from .reduction import reduce_planes

SHARD_WORK = 1 << 15
"""Work of a shard, in units of the oracle's `sizes`; a constant, so that shards depend on the data alone."""


class Structured(Partitioned):
    """Risk of a structured model: a sum over examples.

    R(w) = sum_i c_i max_y [ loss(y_i, y) + <w, psi_i(y)> ],      psi_i(y) = Psi(x_i, y) - Psi(x_i, y_i)

    or with the log-loss of a conditional random field, `R(w) = sum_i c_i log sum_y exp <w, psi_i(y)>`.

    Parameters
    ----------
    model : StructuredModel or pair of callables
        One of `pb.models`, your own subclass, or `(joint_feature(x, y), loss_augmented_decode(w, x, y))`, where the
        second returns `(y_hat, loss)`.
    X, Y : sequences of examples and of their true labellings
        The model defines their types.
    n_parts : int, optional
        Number P of parts; None leaves the choice to the solver.
    loss : {"hinge", "logistic"}
        "logistic" needs a model with marginals.
    sample_weight : array, shape (n,), optional
        Weights c_i >= 0.
    partition : {"strided", "contiguous"}
    random_state : int
        Seed of the partition.
    rescaling : {"margin", "slack"}, optional
        Only checked: `rescaling` is an attribute of the model, and must be this.
    accuracy : float, optional
        For a model in plain Python whose decoder is not exact and returns no `pb.Decoded`: how far below the maximum
        its labellings may lie, in the unit of the loss. What is certified then holds given this number.

    Attributes
    ----------
    dim, n_examples, n_parts, n_parts_given : int, int, int, bool
    smooth : bool
        True for the log-loss.
    lower_bounds : ndarray, shape (P,)
        Zeros, because the truth has value 0.
    nonneg : bool array, shape (dim,), or None
        Entries of w that `minimize` keeps at or above 0, taken from the model.

    Notes
    -----
    A pass decodes every example once. Values use the proven upper bounds of the oracle, planes use its labellings.
    Therefore both sides of a certificate hold even if the decoder is inexact and says so by its upper bounds, see
    `pb.Decoded`; then F is the sum of the upper bounds, and `result.inference_gap` the part of the gap that decoding
    leaves. A model in plain Python without upper bounds is trusted; a run ends when a decoding contradicts the one
    before it. The plane
    of a log-loss has the slope and the entropy of the computed distribution p. It is valid despite rounded scores,
    because `log sum_y exp s(y) >= E_p s + H(p)` for every p. If the oracle has norms, `values` bounds the rounding of
    the scores of an example by `(dim + 2 size + 8) 2^-53 norms |w|`, barring underflow; a log-loss adds the
    `partition_terms` of the oracle. Upper bounds of models in plain Python are rounded upwards instead.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> risk = pb.risks.Structured(pb.models.Multiclass(2, 2), np.eye(2), [0, 1])
    >>> values, slopes = risk.evaluate(np.zeros(4))
    >>> values, slopes
    (array([2.]), array([[-1.,  1.,  1., -1.]]))
    """

    n_examples: int

    def __init__(self, model: Any, X: Data, Y: Data, n_parts: int | None = None, loss: str = "hinge", *,
                 sample_weight: ArrayLike | None = None, partition: str = "strided", random_state: int = 0,
                 rescaling: str | None = None, accuracy: float | None = None) -> None:
        self.model: Any = as_model(model, X, Y)
        own = getattr(self.model, "rescaling", "margin")
        if rescaling is not None and (not isinstance(rescaling, str) or rescaling != own):
            name, is_ours = type(self.model).__name__, type(self.model).__module__.startswith("pybundle.")
            remedy = ("pass it to the model, or set it in your class" if not is_ours or "rescaling" in vars(self.model)
                      else f"{name} has no other")
            raise ParameterError(f"rescaling is an attribute of the model, {own!r} in {name}, got {rescaling!r}; "
                                 f"{remedy}")
        self.loss: str = check_choice("loss", loss, ("hinge", "logistic"))
        self.log_loss: bool = loss == "logistic"
        self.smooth: bool = self.log_loss
        self._examples = X, Y
        self.accuracy: float | None = None if accuracy is None else check_number("accuracy", accuracy, low=0.0)
        self._oracle = oracle = self._bound()
        if loss == "logistic" and not oracle.has_marginals:
            raise ParameterError(f"loss='logistic' needs marginals, but {type(self.model).__name__} has none; "
                                 "use loss='hinge'")
        if loss == "logistic" and own == "slack":
            raise ParameterError("loss='logistic' has no loss to rescale, got a model with rescaling='slack'; omit "
                                 "the argument rescaling")
        if loss == "logistic" and oracle.norms is not None and oracle.marginal_terms is None:
            raise ParameterError("loss='logistic' needs marginal_terms, partition_terms and additions of an oracle "
                                 f"with norms, but that of {type(self.model).__name__} lacks them; see "
                                 "pb.models.BatchOracle")
        self.n_examples: int = oracle.n_examples
        self.dim: int = oracle.dim
        sizes = np.asarray(oracle.sizes, dtype=float)
        is_count = (sizes == np.floor(sizes)) & (sizes >= 0.0) & (sizes < np.inf)
        if sizes.shape != (self.n_examples,) or not is_count.all():
            raise ParameterError(f"sizes of the oracle must be {self.n_examples} whole numbers >= 0, the number of "
                                 "pieces of each example; rounding bounds depend on them")
        self.nonneg: Any = getattr(self.model, "nonneg", None)
        self.sample_weight: Floats = example_weights(sample_weight, self.n_examples)
        self.partition: str = check_choice("partition", partition, ("strided", "contiguous"))
        self.random_state: int = check_integer("random_state", random_state, low=0)
        self._group(n_parts)

    precision = "float64"

    def _bound(self):
        """Return the model bound to the examples."""
        oracle = self.model.oracle(*self._examples)
        if self.accuracy is not None:
            if not isinstance(oracle, ModelOracle):
                raise ParameterError("accuracy is for models in plain Python, but the oracle of "
                                     f"{type(self.model).__name__} knows its upper bounds; leave it out")
            oracle.declare(self.accuracy)
        return oracle

    @property
    def decodes_exactly(self) -> bool:
        """See `RiskBase`."""
        return self._oracle.decodes_exactly

    @property
    def memory(self) -> str:
        """What decodings take beside the data, in words for `Solve.describe`; empty if it is little."""
        return self._oracle.memory

    @property
    def kind(self) -> str:
        """See `RiskBase`."""
        return self._oracle.kind

    @property
    def assumption(self) -> str:
        """See `RiskBase`."""
        return "" if self.accuracy is None else f"given the declared accuracy {self.accuracy:g} of the decoder"

    def aim(self, accuracy: float) -> None:
        """See `RiskBase`."""
        if self._oracle.accuracies is not None:
            c = self.sample_weight
            with np.errstate(over="ignore"):
                np.divide(accuracy, c, out=self._oracle.accuracies, where=c > 0.0)

    @property
    def X(self) -> object:
        """The examples, as passed by the caller."""
        return self._examples[0]

    @property
    def Y(self) -> object:
        """Their true labellings."""
        return self._examples[1]

    _of_parts = (*Partitioned._of_parts, "_additions")

    @cached_property
    def _additions(self):
        """Bounds (P,) on the terms in an entry of a part's slope: those in its largest shard, plus 1 for each shard."""
        largest = np.zeros(self.n_parts)
        for p, rows in self._shards:
            largest[p] = max(largest[p], self._oracle.additions(rows))
        return largest + np.bincount([p for p, _ in self._shards], minlength=self.n_parts)

    def _shards_of(self, parts):
        return [(p, rows[first:last]) for p, rows in enumerate(parts) for first, last in _cut(self._oracle.sizes[rows])]

    def _arguments(self, rows):
        X, Y = self._examples
        return {"model": self.model, "X": take(X, rows), "Y": take(Y, rows), "loss": self.loss,
                "sample_weight": self.sample_weight[rows], "accuracy": self.accuracy}

    @property
    def fingerprint(self) -> int:
        """A hash of model, data, weights, loss and partition."""
        words = (self.loss, self.partition, self.random_state, self._oracle.fingerprint)
        words += () if self.accuracy is None else (self.accuracy,)
        return crc32(repr(words).encode(), crc32(self.sample_weight.data))

    def renewed(self, whole: bool = True) -> Self:
        """Return this risk, or a new one over the present data if they were changed in place.

        All data are read, which costs little compared with a decoding.
        """
        if self._oracle.is_current():
            own = self._oracle.for_run()
            if own is self._oracle:
                return self
            other = self.derive()
            other._oracle = own
            return other
        other = self.derive()
        vars(other).pop("label_sums", None)
        other._oracle = other._bound()
        if other._oracle.n_examples != self.n_examples:
            raise ParameterError(f"X and Y must still hold {self.n_examples} examples, got {other._oracle.n_examples}; "
                                 "make a new risk")
        return other

    @cached_property
    def label_sums(self) -> LabelSums | None:
        """`LabelSums` of classes or chains whose rows have a last column of ones, with margin rescaling; else None.

        None for chains in which labels are forbidden: the labellings with one label only, of which it consists, may be.
        """
        model, c = self.model, self.sample_weight
        if type(model) not in (Multiclass, Chain) or model.rescaling == "slack":
            return None
        labelled, rest = self._oracle.labelled_tokens, None
        if type(model) is Chain:
            if model.token_support is not None or model.allowed is not None:
                return None
            rest, c = self._oracle.sums_of_pairs(c), np.repeat(c, self._oracle.sizes)
        most = None if self.smooth else float(np.max(model.costs))
        return LabelSums.of(self._oracle.examples, labelled.truth, c, labelled.tokens.n_scores, most, rest)

    @property
    def slope_errors(self) -> Floats:
        """Bound on the rounding error of any slope of each part in the Euclidean norm, shape (P,).

        With `label_sums` it is `|e| + |m| |e_b|`, e_b being the error at the intercepts, m the means.
        """
        oracle = self._oracle
        if oracle.norms is None:
            if oracle.met_norms is None:
                return np.zeros(self.n_parts)
            # the 6 counts the difference in psi and its product with a loss
            weighted = 1.01 * oracle.met_norms * self.sample_weight
            return UNIT * np.array([(len(rows) + 6) * weighted[rows].sum() for rows in self._parts])
        # `user_rows` is None for chains, whose rows have no means
        sums = None if self.user_rows is None else self.label_sums
        far = 0.0 if sums is None else float(np.linalg.norm(sums.means))
        sizes = self.sample_weight * (oracle.norms + 2.02 * far)
        if self.loss == "hinge":
            # each piece of an example is added twice, for the labelling and for the truth
            terms = [2 * oracle.sizes[rows].sum() + len(rows) + 4 for rows in self._parts]
            return UNIT * np.array(terms) * [sizes[rows].sum() for rows in self._parts]
        return UNIT * np.array([sizes[rows] @ (oracle.marginal_terms[rows] + additions + 4.0)
                                for rows, additions in zip(self._parts, self._additions, strict=True)])

    @property
    def slope_sizes(self) -> Floats | None:
        """Bound on the Euclidean norm of any slope of each part, shape (P,); None if the oracle has no norms."""
        if self._oracle.norms is None:
            return None
        weighted = self._oracle.norms * self.sample_weight
        return np.array([weighted[rows].sum() for rows in self._parts])

    @property
    def offset_errors(self) -> Floats:
        """Bound on the relative rounding error of any offset of each part, shape (P,); offsets sum losses >= 0.

        Offsets of a log-loss are entropies, from which the oracle has already subtracted their rounding errors.
        """
        return UNIT * np.array([len(rows) + self._oracle.sizes[rows].max(initial=0) + 10 for rows in self._parts])

    @property
    def constant(self) -> Constant:
        """See `RiskBase`; intercepts of classes are the weights of a column of ones."""
        return Constant(linear=2.0 * self._oracle.loss_size * float(self.sample_weight.sum()))

    def planes(self, w: ArrayLike) -> Planes:
        """Return one plane for each part, tight at w; decodes every example once."""
        oracle, weights = self._oracle, self._oracle.prepare(check_vector("w", w, self.dim))

        def shard(rows, slope):
            c = self.sample_weight[rows]
            if self.loss == "logistic":
                values, entropies = oracle.marginals_batch(rows, weights, c, slope)
                return float(c @ values), float(c @ entropies)
            found = oracle.solve_batch(rows, weights)
            # the truth has value 0, so a smaller maximum is due to rounding
            return float(c @ np.maximum(found.uppers, 0.0)), oracle.add_planes(rows, found.labellings, c, slope)

        planes = self.sum_planes(shard)
        # an oracle without norms knows its errors only after a pass, from the planes of this pass
        return planes if oracle.norms is not None else planes._replace(slope_errors=self.slope_errors)

    @property
    def user_rows(self) -> Examples | None:
        """See `RiskBase`."""
        return self._oracle.examples if type(self.model) is Multiclass else None

    @property
    def log_loss_tokens(self) -> LabelledTokens | None:
        """The labelled tokens of a log-loss, see `BatchOracle`; None for another risk."""
        return self._oracle.labelled_tokens if self.smooth else None

    def distributions(self, w: ArrayLike) -> Floats:
        """Return the probabilities of the classes at w, shape (n, K)."""
        rows = np.arange(self.n_examples)
        return softmax(self._oracle.prepare(check_vector("w", w, self.dim)).scores(rows), axis=1)

    def planes_of(self, distributions: Any) -> Planes:
        """Return the plane of each part that distributions of its labellings prove: slopes, and entropies as offsets.

        `distributions` as in `BatchOracle.expectations_batch`. The values of the planes are infinite, because they
        touch R at no known point.
        """
        def shard(rows, slope):
            c = self.sample_weight[rows]
            return np.inf, float(c @ self._oracle.expectations_batch(rows, distributions, c, slope))

        return self.sum_planes(shard)

    def values(self, w: ArrayLike) -> tuple[Floats, Floats]:
        """Return values (P,), and bounds (P,) on those of their rounding errors that upper bounds do not include."""
        w = check_vector("w", w, self.dim)
        oracle, norm = self._oracle, float(np.linalg.norm(w))
        weights = oracle.prepare(w)

        def shard(rows):
            c = self.sample_weight[rows]
            if self.loss == "logistic":
                found = oracle.marginals_batch(rows, weights, np.zeros(len(rows)), np.zeros(self.dim))[0]
            else:
                found = np.maximum(oracle.solve_batch(rows, weights).uppers, 0.0)
            return float(c @ found), oracle.rounding(rows, c, norm, found, self.smooth)

        values, errors = self._sums(shard)
        return values, 1.01 * errors + UNIT * np.array([len(rows) + 2.0 for rows in self._parts]) * values

    def value_errors(self, w: ArrayLike, values: Floats) -> Floats:
        """Bound the rounding errors (P,) of `values`, returned by `evaluate` at w; coarser than the method `values`.

        The values of single examples are not known here, so each part uses the terms of its largest example.
        """
        oracle, norm, errors = self._oracle, float(np.linalg.norm(w)), np.zeros(self.n_parts)
        if oracle.norms is not None:
            for p, rows in enumerate(self._parts):
                terms = oracle.rounding_terms(rows, self.smooth)
                scores = float((self.sample_weight[rows] * terms) @ oracle.table_bound(rows, norm, self.smooth))
                errors[p] = UNIT * (scores + terms.max(initial=0.0) * values[p])
        elif not oracle.decodes_exactly:        # after exact decodings a pass follows, whose bounds count this rounding
            errors += oracle.later_rounding(norm) / self.n_parts
        return 1.01 * errors + UNIT * np.array([len(rows) + 2.0 for rows in self._parts]) * values

    def predict_losses(self, w: ArrayLike) -> Floats:
        """Return the loss of the prediction for every example at w, shape (n,)."""
        weights, losses = self._oracle.prepare(check_vector("w", w, self.dim)), np.empty(self.n_examples)

        def shard(item):
            found = self._oracle.solve_batch(item[1], weights, loss=False)
            return self._oracle.losses(item[1], found.labellings)

        for (_, rows), found in zip(self._shards, self.map_shards(shard, self._shards), strict=True):
            losses[rows] = found
        return losses

    def oracle(self) -> BatchOracle:
        """Return an oracle of weighted examples, single or in batches, see `Oracle`; for the loss "hinge" only."""
        if self.loss != "hinge":
            raise ParameterError("loss is 'logistic', but an oracle of single labellings needs loss='hinge'")
        return self._oracle.weighted(self.sample_weight)

    def sum_planes(self, work: Callable[..., Any]) -> Planes:
        # marginals are never 0, so the gradient of the log-loss of all examples is dense
        is_sparse = self.loss == "hinge" or self.n_parts > 1
        return reduce_planes(work, self._shards, self.n_parts, self.dim, self.map_shards, is_sparse, self.dense_from)


def _cut(sizes):
    """Return ranges of consecutive rows, each of about SHARD_WORK."""
    units = np.cumsum(sizes) // SHARD_WORK
    edges = np.flatnonzero(np.diff(units)) + 1
    return list(zip([0, *edges], [*edges, len(sizes)], strict=True)) if len(sizes) else []
