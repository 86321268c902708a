"""The oracle of models in plain Python: it calls their methods example by example and checks the results."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import ContradictionError, OracleError
from ..core.protocols import Maximum
from ..core.rounding import UNIT
from ..core.sparse import check_sparse
from ..core.validation import check_choice, check_integer, read_only, real_array
from .batch_oracle import BatchOracle, check_lengths
from .decoded import Decoded, takes_accuracy

CLIPPED = 1e-9
"""Rounding may make a loss negative, for example if it is a difference; a loss >= -CLIPPED counts as >= 0."""
ROUGH = 1e-6
"""A decoder that compares scores in float32 may miss the maximum by this share of the scores."""


class ModelOracle(BatchOracle):
    """Any `StructuredModel` bound to examples by loops over its four methods.

    What the methods return is checked: `OracleError` names the example and the rule that was broken.

    Notes
    -----
    Features and losses count as exact. A decoder that returns no `Decoded` counts as exact, or as accurate as declared,
    up to the rounding of the scores that it compares; the score <w, psi> is computed here. `uppers` contain both
    roundings. Norms of psi are known from the planes so far (`met_norms`).

    Each example keeps the labelling that its last decoding returned. If this exceeds the next upper bound, the decoder
    is not what it claims to be: the bounds are no maxima, and the run ends with a ContradictionError.
    """

    def __init__(self, model, X, Y):
        n = check_lengths(X, Y)
        name = type(model).__name__
        self.model, self._X, self._Y = model, X, Y
        self.n_examples, self.dim = n, check_integer(f"dim of {name}", getattr(model, "dim", None), low=1)
        check_choice(f"rescaling of {name}", model.rescaling, ("margin", "slack"))
        self.sizes = np.full(n, 64)
        self.met_norms = np.zeros(n)
        self.accuracies = np.full(n, np.inf)
        self._declared, self._takes_accuracy = None, takes_accuracy(self._decoder())
        self._has_bounds = np.array([self._takes_accuracy])     # an array, because copies share it
        self._marks = np.full(n, -1, dtype=np.int64)        # checksums of the features of truths; -1 before first use
        self._last = [None] * n         # labellings found last

    def is_current(self):
        """Return False: the answers of the model may have changed, so each run binds it again."""
        return False

    def declare(self, accuracy):
        """Take the labelling of a decoder that returns no `Decoded` to be at most `accuracy` below the maximum."""
        self._declared, self._has_bounds[0] = accuracy, True

    @property
    def decodes_exactly(self):
        """Whether no decoding has returned an upper bound so far, and none is expected to."""
        return not self._has_bounds[0]

    def _prepare(self, w):
        """Return w, read-only for the methods of the model, and its norm."""
        return read_only(w), float(np.linalg.norm(w))

    @property
    def fingerprint(self):
        """A checksum of model, sizes and features of all truths; the features are known after a pass."""
        for i in np.flatnonzero(self._marks < 0).tolist():
            self._truth(i)
        words = (type(self.model).__name__, self.dim, self.n_examples, self.model.rescaling)
        return crc32(self._marks, crc32(repr(words).encode()))

    def _solve(self, i, weights, loss):
        # `decoding` bounds the rounding of the scores that the decoder compared; by this bound another labelling may
        # be better than the one found
        (w, norm), decoding = weights, (self.dim + 8.0) * UNIT * weights[1] * self.met_norms[i]
        answer, upper = self._ask(i, w, loss), None
        if isinstance(answer, Decoded):
            answer, upper = answer.labelling, self._relative(i, answer.upper, w)
            self._has_bounds[0] |= loss
        y_hat = own(answer)
        cost, psi = self._plane(i, y_hat)
        score, error = _score(psi, w)
        value = cost + score if loss else score
        error = error + 2.0 * UNIT * abs(value) if error else 0.0       # with w = 0 all scores are exact
        error += decoding
        if loss and cost == 0.0:
            error += self._clipped(i, y_hat, norm)
        what = None if upper is None and self._declared is None else "upper of Decoded"
        if upper is None:
            upper = value + (self._declared or 0.0)
            what = what and f"the value found plus accuracy={self._declared:g}"
        found = Maximum(y_hat, value, upper + 1.01 * error)
        best = self._refuse_worse(i, found, cost, w, norm, what) if loss else value
        if what is None:
            return found
        found = found._replace(upper=max(found.upper, value + 1.01 * error, best))
        return found if value >= 0.0 or not loss else Maximum(self._true_labelling(i), 0.0, found.upper)

    def _relative(self, i, upper, w):
        """Return `upper` minus the score of the truth, rounded up; with slack rescaling `upper` is a difference."""
        if self.model.rescaling == "slack":
            return upper
        score, error = _score(self._feature(i, self._Y[i]), w)
        return upper - score + 1.01 * (error + UNIT * (abs(upper) + abs(score)))

    def _refuse_worse(self, i, found, cost, w, norm, what):
        """Raise if an upper bound lies below the value of `found`, of the truth, or of the labelling found before.

        Return the largest of the values. `what` names the bound in words; None means that the decoder counts as exact.
        An exact decoder may compare scores in float32, whose rounding exceeds the value itself for large w.
        """
        is_exact = what is None
        last, self._last[i] = self._last[i], found.labelling
        rough = cost + (norm * self.met_norms[i] if is_exact else abs(found.value) + abs(found.upper))
        above = found.upper + ROUGH * rough + CLIPPED
        if above < 0.0 and is_exact:
            raise OracleError(f"loss_augmented_decode must return a labelling at least as good as the truth, whose "
                              f"value is 0, but example {i} got one of value {found.value:g}; "
                              "pb.check_oracle(model, X, Y) reports more")
        best = max(found.value, 0.0)
        if last is not None and not _are_equal(last, found.labelling):
            cost, psi = self._plane(i, last)
            value, error = _score(psi, w)
            best = max(best, cost + value - error - ROUGH * cost)
        if not best > above:        # scores that overflow give NaN, which contradicts nothing
            return best
        if is_exact:
            raise ContradictionError(
                f"loss_augmented_decode must return the best labelling, but example {i} got one of value "
                f"{found.value:.6g}, and the one before has {best:.6g}; decoding is not exact, see "
                "pb.check_oracle(model, X, Y)")
        raise ContradictionError(
            f"{what} must be at least the value of every labelling, but for example {i} it is {found.upper:.6g} above "
            f"the score of the truth, and a labelling found has {best:.6g}")

    def _decoder(self):
        return self.model.loss_augmented_decode

    def _ask(self, i, w, loss):
        x, y = self._X[i], self._Y[i]
        how = {"accuracy": float(self.accuracies[i])} if self._takes_accuracy else {}
        try:
            return self._decoder()(w, x, y, **how) if loss else self.model.decode(w, x)
        except StopIteration as problem:        # `map` would take this exception for the end of the examples
            raise OracleError(f"decoding of example {i} must return a labelling, got StopIteration") from problem
        except Exception as problem:
            problem.add_note(f"pybundle: while example {i} was decoded")
            raise

    def _add_planes(self, rows, labellings, scales, slope):
        total = 0.0
        for i, y_hat, scale in zip(rows, labellings, scales, strict=True):
            if scale == 0.0:
                continue
            cost, psi = self._plane(i, y_hat)
            total += scale * cost
            if sp.issparse(psi):
                np.add.at(slope, psi.indices, scale * psi.data)
            else:
                slope += scale * psi
        return total

    def _losses(self, rows, labellings):
        return np.array([max(self._loss(i, y_hat), 0.0) for i, y_hat in zip(rows, labellings, strict=True)])

    def _loss(self, i, y_hat):
        return checked_loss(self.model.loss(self._Y[i], y_hat), i)

    def _feature_of(self, i, y_hat):
        return self._feature(i, y_hat)

    def _plane(self, i, y_hat):
        cost = max(self._loss(i, y_hat), 0.0)
        psi = self._difference(i, y_hat)
        if self.model.rescaling == "slack":
            psi = cost * psi
        self.met_norms[i] = max(self.met_norms[i], _norm(psi))
        return cost, psi

    def _difference(self, i, y_hat):
        return self._feature_of(i, y_hat) - self._truth(i)

    def _clipped(self, i, y_hat, norm):
        """Return how far the value of a labelling may be too small because its negative loss was replaced by 0."""
        below = max(-self._loss(i, y_hat), 0.0)
        if below and self.model.rescaling == "slack":
            below *= 1.0 + _norm(self._difference(i, y_hat)) * norm
        return below

    def _true_labelling(self, i):
        """Return the truth as a labelling."""
        return self._Y[i]

    def _truth(self, i):
        feature = self._feature(i, self._Y[i])
        entries = feature.data if sp.issparse(feature) else feature
        # the factor 2 assumes that the features of no other labelling have a larger norm
        self.met_norms[i] = max(self.met_norms[i], 2.0 * float(np.linalg.norm(entries)))
        if self._marks[i] < 0:
            self._marks[i] = crc32(feature.data, crc32(feature.indices)) if sp.issparse(feature) else crc32(feature)
        return feature

    def _feature(self, i, y):
        return as_feature(self.model.joint_feature(self._X[i], y), self.dim, i)


def checked_loss(cost, i):
    """Return a loss as a float; OracleError names example i if it is negative by more than rounding."""
    if not np.isscalar(cost) or not np.isfinite(cost) or cost < -CLIPPED:
        raise OracleError(f"loss must be a finite number >= 0, got {cost!r} for example {i}")
    return float(cost)


def own(labelling):
    """Return a copy of a labelling, because a decoder may fill the same array again and again."""
    if isinstance(labelling, np.ndarray) or sp.issparse(labelling):
        return labelling.copy()
    if type(labelling) in (list, tuple):
        return type(labelling)(map(own, labelling))
    return labelling


def _are_equal(a, b):
    """Return whether two labellings are equal; False if `==` fails."""
    try:
        return bool(np.all(a == b))
    except Exception:       # `==` of a user's labellings may raise any error
        return False


def as_feature(feature, dim, i):
    """Return a copy of a joint feature as a float64 vector or CSR row of `dim` entries; OracleError names example i."""
    if sp.issparse(feature):
        feature = check_sparse("joint_feature", feature, OracleError)
        row = sp.csr_array(feature.reshape(1, -1) if feature.ndim == 1 else feature, dtype=np.float64, copy=True)
        size, entries = row.shape[1] if row.shape[0] == 1 else -1, row.data
    else:
        try:
            row = entries = real_array(feature, copy=True)
        except TypeError as problem:
            raise OracleError(f"joint_feature must return numbers, got {type(feature).__name__} for example {i}: "
                              f"{problem}") from problem
        size = len(row) if row.ndim == 1 else -1
    if size != dim:
        raise OracleError(f"joint_feature must return {dim} numbers (dim), got shape {np.shape(feature)} for "
                          f"example {i}")
    if not np.isfinite(entries).all():
        raise OracleError(f"joint_feature must return finite numbers, got NaN or infinity for example {i}")
    return row


def _norm(psi):
    return float(np.linalg.norm(psi.data if sp.issparse(psi) else psi))


def _score(psi, w):
    """Return <psi, w>, and a bound on the rounding errors of this sum and of psi itself, barring underflow.

    An entry of psi is a difference, times a loss with slack rescaling; its relative error is at most 2 units of 2^-53.
    """
    if sp.issparse(psi):
        psi, w = psi.data, w[psi.indices]
    return float(psi @ w), (len(psi) + 3.0) * UNIT * float(np.abs(psi) @ np.abs(w))
