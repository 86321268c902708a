"""Learner of any structured model whose weights fall into groups, with lazily scaled vectors.

A round costs a decoding and O(active features + groups): a step touches the features in which labelling and truth
differ, the prox only scales. The decoder of a model reads theta itself, written out in O(dim), unless it takes v with a
factor for every group, as `pb.models.Dependency` does for templates with blocks and for listed features. With listed
features theta holds only the weights whose features occurred. So whatever costs O(len(theta)), such as the planes of
epochs and rounds of the log-loss, is independent of the number of possible features.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from ..core.exceptions import InputTypeError, NumericalError, ParameterError, StateError
from ..prox import Groups
from ..risks import Structured
from ..runtime.executors import Serial
from ._lazy import LazyVectors
from .certified import MeanLoss
from .descent import descend
from .kernel import Kernel
from .mixture_bound import ROUNDING, best_bound, group_products
from .parts import Features
from .weighted import climb_weights

KEPT = 5
"""Number of planes of epochs kept for the bound; each is a vector of all weights."""
CHUNK = 64
"""Number of examples that a thread decodes at a time."""


def has_blocks(model):
    """Return whether the weights of a model are in blocks with a factor each."""
    return getattr(model, "blocks", False)


def are_of_weights(groups):
    """Return whether `groups` are groups of the weights of a model, not kernels or features of tokens."""
    if isinstance(groups, (Groups, np.ndarray)):
        return True
    return isinstance(groups, (list, tuple)) and len(groups) > 0 and all(
        isinstance(group, (slice, np.ndarray)) for group in groups)


def group_labels(groups, model):
    """Return the group (dim,) of every weight, or None if the groups are the blocks of the model."""
    if groups is None:
        if has_blocks(model):
            return None
        raise ParameterError("groups must be given for a model without blocks, got None; pass groups of its weights, "
                             "or use a model such as pb.models.Dependency.hashed(..., blocks=True)")
    if isinstance(groups, (list, tuple)) and any(isinstance(group, (Kernel, Features)) for group in groups):
        raise InputTypeError("kernels and Features need model=None, pb.models.Chain or pb.models.Multiclass, got "
                             f"{type(model).__name__}; pass groups of its weights as for pb.prox.Groups")
    partition = Groups.of(groups, model.dim)
    labels = np.ravel(partition.spread(np.arange(partition.n_groups)))
    return np.ascontiguousarray(labels, dtype=np.int32)


def check_finite(objective):
    """Raise NumericalError if an online objective overflowed."""
    if not np.isfinite(objective):
        raise NumericalError("scores went beyond the range of float64; choose a smaller eta0, or scale the features")


class VectorLearner:
    """Weights theta of a model, in lazily scaled groups.

    Parameters
    ----------
    model : StructuredModel
    groups : argument of `pb.prox.Groups`, or None
        None: the blocks of the model.
    average : bool
    """

    def __init__(self, model, groups, average=False):
        self.model, self.blocks, self.average = model, groups is None, average
        self.labels = group_labels(groups, model)
        self.n_groups = len(model.templates) if self.blocks else int(self.labels.max()) + 1
        self.theta = None               # its weights depend on the first examples

    def bind(self, X, Y):
        """Return the oracle of the model for X and Y in terms of theta, to which weights of new features are appended.

        A round then reads few cache lines, however many features there are.
        """
        oracle = self.model.oracle(X, Y)
        if self.theta is None:
            self._allocate(not self.blocks and oracle.listed_features is not None)
        if self._places is None:
            return oracle
        is_met = np.zeros(self.model.dim, dtype=bool)
        is_met[0] = True                # so that theta is never empty
        is_met[oracle.listed_features] = True
        places, n_rows = self._places.copy(), self.theta.n_rows
        fresh = np.flatnonzero(is_met & (places < 0))
        self.theta.grow(self.labels[fresh])
        places[fresh] = np.arange(n_rows, self.theta.n_rows)
        self._places = places           # last, as the old places are valid for the longer theta, too
        return oracle.renumbered(self._places, self.theta.n_rows)

    def _allocate(self, is_placed):
        """Allocate theta = 0 for all weights; with `is_placed` for none yet."""
        # row of a weight in theta, -1 until its feature occurs
        self._places = np.full(self.model.dim, -1, np.int32) if is_placed else None
        self.is_scaled = self.blocks or is_placed                   # whether the decoder takes v and scales
        n_rows, labels = (0, self.labels[:0]) if is_placed else (self.model.dim, self.labels)
        self.theta = LazyVectors(n_rows, 1, self.n_groups, labels, self.model.bits if self.blocks else 0, self.average,
                                 eager=self.is_scaled)

    def group_labels(self):
        """Return the group of every row of theta."""
        if self.blocks:
            return np.repeat(np.arange(self.n_groups, dtype=np.int32), 1 << self.model.bits)
        return self.theta.row_labels

    def weights(self):
        """Return the weights for predictions, shape (dim,)."""
        places = self._places
        theta = np.ravel(self.theta.average() if self.average else self.theta.point())
        return theta if places is None else np.append(theta, 0.0)[places]

    def predict(self, X, executor=None):
        """Return the labellings of the examples."""
        w = self.weights()
        if self.blocks:
            # bind the features of all sentences at once; the truth is not used, so any tree is right
            Y = [np.arange(-1, len(x), dtype=np.int32) for x in X]
            oracle = self.model.oracle(X, Y)

            def some(rows):
                return oracle.solve_batch(rows, w, loss=False).labellings
        else:
            def some(rows):
                return [self.model.decode(w, X[i]) for i in rows]
        return [found for part in chunks(some, len(X), executor) for found in part]

    def saved(self):
        """Return what `restore` needs; O(len(theta))."""
        return copy(self.theta)

    def restore(self, saved):
        """Restore what `saved` returned."""
        self.theta = saved
        if self._places is not None:
            self._places[self._places >= saved.n_rows] = -1

    def climb(self, X, Y, settings, executor=None):
        """Find the certified minimum; theta is its point afterwards."""
        risk = Structured(self.model, X, Y, loss=settings.loss)
        self._allocate(False)
        labels = self.group_labels()
        if settings.loss == "hinge":
            found, theta = climb_weights(risk, labels, self.n_groups, settings.lam, settings.tol, settings.max_iter,
                                         settings.random_state, executor)
        else:
            smooth = _Smooth(risk.derive(executor=executor), labels, self.n_groups)
            found, (theta,), _ = descend(smooth, settings.lam, settings.tol, settings.max_iter)
        self.theta.set(theta[:, None])
        return found


class _Smooth(MeanLoss):
    """A log-loss for `descend`."""

    def __init__(self, risk, labels, n_groups):
        super().__init__(labels, n_groups, 1, risk.n_examples, risk.nonneg)
        self._risk = risk

    def plane(self, theta):
        risk, n = self._risk, self._risk.n_examples
        planes = risk.planes(theta[0])
        offset = float(planes.offsets.sum()) - 1.01 * float((risk.offset_errors * np.abs(planes.offsets)).sum())
        return planes.values.sum() / n, offset / n, planes.slopes / n, float(np.sum(risk.slope_errors)) / n, None


def chunks(function, n, executor=None):
    """Return `function(rows)` for chunks of the numbers 0..n - 1, in order."""
    rows = [np.arange(first, min(first + CHUNK, n)) for first in range(0, n, CHUNK)]
    return (executor or Serial()).map(function, rows)


class VectorSession:
    """The session of a call: the model bound to its examples."""

    def __init__(self, learner, X, Y, settings, executor=None):
        self.learner, self.settings, self._executor = learner, settings, executor
        self.oracle = learner.bind(X, Y)
        self.n_examples, self._planes, self._rounds = self.oracle.n_examples, [], 0
        self._sum, self._offset, self._visits, self.largest_gradient = None, 0.0, 0, 0.0
        if settings.loss == "logistic" and not self.oracle.has_marginals:
            raise ParameterError(f"loss='logistic' needs marginals, but {type(learner.model).__name__} has none; use "
                                 "loss='hinge'")
        if getattr(learner.model, "nonneg", None) is not None:
            raise ParameterError(f"{type(learner.model).__name__} needs nonnegative weights, which online rounds do "
                                 "not keep; use OnlineMKL(solver='certified') or pb.minimize")

    def run(self, order, etas):
        """Make rounds over the examples `order`; return the sum of the online objectives."""
        s, theta, total = self.settings, self.learner.theta, 0.0
        for r, eta in enumerate(etas):
            if theta.n_rows != self.oracle.dim:
                raise StateError("the learner got new features during the run; do not call partial_fit in a callback")
            rows = order[r * s.batch:(r + 1) * s.batch]
            norms = theta.norms()
            penalty = 0.5 * s.lam * float(norms.sum()) ** 2 if s.regulariser is None else s.regulariser._value(norms)
            loss, indices, data = self._gradient(rows)
            total += loss + float(penalty)
            check_finite(total)
            theta.step(indices, data, float(eta), s.lam, s.radius, s.regulariser)
            self._rounds += 1
            if self._rounds % 10000 == 0:
                theta.renew()
        return total

    def _gradient(self, rows):
        """Return the mean loss of the examples `rows`, and the sparse mean of its gradients."""
        loss, indices, data = self._expected(rows) if self.settings.loss == "logistic" else self._violated(rows)
        self.largest_gradient = max(self.largest_gradient, float(np.linalg.norm(data)))
        return loss, indices, data

    def _expected(self, rows):
        slope = np.zeros(self.oracle.dim)
        values, entropies = self.oracle.marginals_batch(rows, self._prepared(), np.full(len(rows), 1.0 / len(rows)),
                                                        slope)
        indices = np.flatnonzero(slope).astype(np.int32)
        if self.settings.certify:
            self._take_planes(len(rows), entropies, indices, len(rows) * slope[indices])
        return float(values.mean()), indices, slope[indices]

    def _violated(self, rows):
        found = self._decode(rows)
        losses, slopes = self.oracle.planes(rows, found.labellings)
        if self.settings.certify:
            self._take_planes(len(rows), losses, slopes.indices, slopes.data)
        if len(rows) == 1:
            indices, data = slopes.indices, slopes.data
        else:
            indices, place = np.unique(slopes.indices, return_inverse=True)
            data = np.bincount(place, weights=slopes.data, minlength=len(indices)) / len(rows)
        return float(np.maximum(found.uppers, 0.0).mean()), indices, data

    def _decode(self, rows, weights=None):
        """Return the most violated labellings at the current point, with its `_prepared` weights if known."""
        if self.learner.is_scaled:
            theta = self.learner.theta
            return self.oracle.solve_scaled(rows, np.ravel(theta.values), theta.scales, theta.row_labels)
        return self.oracle.solve_batch(rows, self._prepared() if weights is None else weights)

    def _prepared(self):
        w = np.empty(self.oracle.dim)
        self.learner.theta.expand(w)
        return self.oracle.prepare(w)

    def _take_planes(self, n_rows, offsets, indices, data):
        """Add planes of single examples to their sum; `_size` is the sum of the absolute values of their slopes."""
        if self._sum is None:
            self._sum, self._size = np.zeros(self.oracle.dim), 0.0
        np.add.at(self._sum, indices, data)
        self._size += float(np.abs(data).sum())
        self._offset += float(offsets.sum())
        self._visits += n_rows

    def end_epoch(self):
        """Keep the mean of the planes of the epoch."""
        if self._visits:
            self._planes = [*self._planes[1 - KEPT:], (self._sum / self._visits, self._offset / self._visits,
                                                       self._size / self._visits)]
        self._sum, self._offset, self._visits = None, 0.0, 0

    def restart(self):
        """Set theta = 0."""
        self.learner.theta.set(0.0)
        self._planes, self._sum, self._offset, self._visits = [], None, 0.0, 0

    def norms(self):
        """Return |theta_k|, shape (n_groups,)."""
        return self.learner.theta.norms()

    def risk(self):
        """Return the mean loss at the current point."""
        weights = None if self.learner.is_scaled and self.settings.loss == "hinge" else self._prepared()

        def some(rows):
            if self.settings.loss == "logistic":
                return float(self.oracle.marginals_batch(rows, weights, np.zeros(len(rows)),
                                                         np.zeros(self.oracle.dim))[0].sum())
            return float(np.maximum(self._decode(rows, weights).uppers, 0.0).sum())

        return sum(chunks(some, self.n_examples, self._executor)) / self.n_examples

    def certificate(self):
        """Return the value at the current point, and the best bound that the planes of the last epochs prove."""
        self.learner.theta.renew()
        lam, p = self.settings.lam, self.learner.n_groups
        objective = 0.5 * lam * float(self.norms().sum()) ** 2 + self.risk()
        if not self._planes:
            return objective, 0.0
        slopes, offsets, sizes = zip(*self._planes, strict=True)
        grams = group_products(slopes, self.learner.group_labels(), p)
        return objective, best_bound(np.array(offsets), grams, lam, errors=ROUNDING * np.array(sizes))[0]

    def finish(self):
        """Fold the scales into theta."""
        self.learner.theta.settle()

