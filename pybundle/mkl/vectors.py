"""Learners of any structured model whose weights fall into groups: lazy vectors, decoders of the model.

A round costs the decoder and O(active features): steps touch the features of wrong parts, the prox only scales. What a
model's decoder reads is theta itself, written out in O(dim), unless the model scores with a factor for every group, as
`pb.models.Dependency.hashed(..., blocks=True)` does.
"""

from __future__ import annotations

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..prox import Groups
from ._lazy import LazyVectors
from .certificate import best_bound
from .kernels import Kernel
from .parts import Features

KEPT = 5
"""Planes of epochs kept for the bound: vectors of all weights."""


def has_blocks(model):
    """Whether the decoder of a model takes the factors of groups as they are."""
    return getattr(model, "blocks", False)


def group_labels(groups, model):
    """Labels (dim,) of the groups of weights, or None where the model has blocks and says them itself."""
    if groups is None:
        if has_blocks(model):
            return None
        raise ParameterError("groups must say which weights of the model belong together, got None; only models with "
                             "blocks, such as pb.models.Dependency.hashed(..., blocks=True), know it")
    if isinstance(groups, (list, tuple)) and any(isinstance(group, (Kernel, Features)) for group in groups):
        raise InputTypeError("kernels and Features need model=None, pb.models.Chain or pb.models.Multiclass, got "
                             f"{type(model).__name__}; pass the groups of its weights, as pb.prox.Groups takes them")
    partition = Groups.of(groups, model.dim)
    labels = np.ravel(partition.spread(np.arange(partition.n_groups)))
    return np.ascontiguousarray(labels, dtype=np.int32)


class VectorLearner:
    """theta of a model, in lazily scaled groups.

    Parameters
    ----------
    model : StructuredModel
    groups : what `pb.prox.Groups` takes, or None
        None: the blocks of the model.
    average : bool
    """

    def __init__(self, model, groups, average=False):
        self.model, self.blocks = model, groups is None
        self.labels = group_labels(groups, model)
        if self.labels is None:
            self.n_groups, shift = len(model.templates), model.bits
        else:
            self.n_groups, shift = int(self.labels.max()) + 1, 0
        self.average = average
        self.theta = LazyVectors(model.dim, 1, self.n_groups, self.labels, shift, average, eager=self.blocks)

    def group_of(self, indices):
        """Groups of the weights of those numbers."""
        return indices >> self.model.bits if self.labels is None else self.labels[indices]

    def weights(self):
        """The weights that predict, shape (dim,)."""
        return np.ravel(self.theta.average() if self.average else self.theta.point())

    def predict(self, X):
        """Labellings of the examples."""
        w = self.weights()
        if self.blocks:
            # features of all sentences are bound at once; any tree will do for the truth, which is not looked at
            Y = [np.arange(-1, len(x), dtype=np.int32) for x in X]
            return list(self.model.oracle(X, Y).solve_batch(np.arange(len(X)), w, loss=False).labellings)
        return [self.model.decode(w, x) for x in X]


class VectorSession:
    """One call: the model bound to its examples."""

    def __init__(self, learner, X, Y, settings):
        self.learner, self.settings = learner, settings
        self.oracle = learner.model.oracle(X, Y)
        self.n_examples, self._planes, self._rounds = self.oracle.n_examples, [], 0
        self._sum, self._offset, self._visits, self.largest_gradient = None, 0.0, 0, 0.0
        if settings.loss == "logistic" and not self.oracle.has_marginals:
            raise ParameterError(f"loss='logistic' needs marginals, which {type(learner.model).__name__} has not got")
        if getattr(learner.model, "nonneg", None) is not None:
            raise ParameterError(f"{type(learner.model).__name__} needs weights of one sign, which the groups do not "
                                 "keep; such models need pb.minimize")

    def run(self, order, etas):
        """Rounds over the examples `order`; the sum of the online objectives."""
        s, theta, total = self.settings, self.learner.theta, 0.0
        for r, eta in enumerate(etas):
            rows = order[r * s.batch:(r + 1) * s.batch]
            norms = theta.norms()
            penalty = 0.5 * s.lam * float(norms.sum()) ** 2 if s.regulariser is None else s.regulariser._value(norms)
            loss, indices, data = self._gradient(rows)
            total += loss + float(penalty)
            theta.step(indices, data, float(eta), s.lam, s.radius, s.regulariser)
            self._rounds += 1
            if self._rounds % 10000 == 0:
                theta.renew()
        return total

    def _gradient(self, rows):
        """Mean loss of the examples `rows`, and the sparse mean of its gradients."""
        loss, indices, data = self._expected(rows) if self.settings.loss == "logistic" else self._violated(rows)
        self.largest_gradient = max(self.largest_gradient, float(np.linalg.norm(data)))
        return loss, indices, data

    def _expected(self, rows):
        slope = np.zeros(self.oracle.dim)
        values, _ = self.oracle.marginals_batch(rows, self._prepared(), np.full(len(rows), 1.0 / len(rows)), slope)
        indices = np.flatnonzero(slope).astype(np.int32)
        return float(values.mean()), indices, slope[indices]

    def _violated(self, rows):
        found = self._decode(rows)
        losses, slopes = self.oracle.planes(rows, found.labellings)
        if self.settings.certify:
            self._harvest(losses, slopes)
        if len(rows) == 1:
            indices, data = slopes.indices, slopes.data
        else:
            indices, place = np.unique(slopes.indices, return_inverse=True)
            data = np.bincount(place, weights=slopes.data, minlength=len(indices)) / len(rows)
        return float(np.maximum(found.uppers, 0.0).mean()), indices, data

    def _decode(self, rows):
        if self.learner.blocks:
            return self.oracle.solve_scaled(rows, np.ravel(self.learner.theta.values), self.learner.theta.scales)
        return self.oracle.solve_batch(rows, self._prepared())

    def _prepared(self):
        w = np.empty(self.oracle.dim)
        self.learner.theta.expand(w)
        return self.oracle.prepare(w)

    def _harvest(self, losses, slopes):
        if self._sum is None:
            self._sum = np.zeros(self.oracle.dim)
        np.add.at(self._sum, slopes.indices, slopes.data)
        self._offset += float(losses.sum())
        self._visits += slopes.shape[0]

    def end_epoch(self):
        """The labellings met since all examples were visited last make a plane."""
        if self._visits:
            self._planes = [*self._planes[1 - KEPT:], (self._sum / self._visits, self._offset / self._visits)]
        self._sum, self._offset, self._visits = None, 0.0, 0

    def restart(self):
        """theta = 0."""
        self.learner.theta.set(0.0)
        self._planes, self._sum, self._offset, self._visits = [], None, 0.0, 0

    def norms(self):
        """|theta_k|, shape (n_groups,)."""
        return self.learner.theta.norms()

    def hinge(self):
        """Mean structured hinge at the present point."""
        total = 0.0
        for first in range(0, self.n_examples, 256):
            rows = np.arange(first, min(first + 256, self.n_examples))
            total += float(np.maximum(self._decode(rows).uppers, 0.0).sum())
        return total / self.n_examples

    def certificate(self):
        """Value at the present point, and the best bound that the planes of the last epochs prove (hinge)."""
        self.learner.theta.renew()
        lam, p = self.settings.lam, self.learner.n_groups
        objective = 0.5 * lam * float(self.norms().sum()) ** 2 + self.hinge()
        grams = np.zeros((p, len(self._planes), len(self._planes)))
        for e, (phi, _) in enumerate(self._planes):
            used = np.flatnonzero(phi)
            groups = self.learner.group_of(used)
            for f in range(e + 1):
                products = np.bincount(groups, weights=phi[used] * self._planes[f][0][used], minlength=p)
                grams[:, e, f] = grams[:, f, e] = products
        if not self._planes:
            return objective, 0.0
        return objective, best_bound(np.array([B for _, B in self._planes]), grams, lam)[0]

    def finish(self):
        """Scales are folded in."""
        self.learner.theta.settle()

