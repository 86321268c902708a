"""Learners of the weights of any structured model, as lazily scaled vectors of groups or as a plain vector.

A round costs a decoding and O(active features + groups): a step changes the features in which labelling and truth
differ, the prox only scales. Most decoders read theta itself, which is written out in O(dim). The decoder of
`pb.models.Dependency` with blocks or listed features reads v and a factor for every group. With listed features theta
holds only the weights whose features occurred. So whatever costs O(len(theta)), such as the planes of epochs and rounds
of the log-loss, is independent of the number of possible features.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from ..core.exceptions import InputTypeError, NumericalError, ParameterError, StateError
from ..core.plane import Plane
from ..core.protocols import planes_of
from ..models.decoded import labelling_of
from ..prox import Groups, project_l2_ball
from ..risks import Structured
from ..runtime.executors import Serial
from ..solvers.problem.problem import Problem
from ._lazy import LazyVectors
from .certified import MeanLoss
from .descent import descend
from .group_norms import GroupNorms
from .kernel import Kernel
from .mixture_bound import ROUNDING, KeptPlanes
from .parts import Features
from .weighted import climb_weights

KEPT = 5
"""Number of epochs whose planes are kept for the bound; a plane is a vector of all weights."""
CHUNK = 64
"""Number of examples decoded at a time by a thread."""


def are_of_weights(groups):
    """Return whether `groups` are groups of the weights of a model, rather than kernels or `Features`."""
    if isinstance(groups, (Groups, np.ndarray)):
        return True
    return isinstance(groups, (list, tuple)) and len(groups) > 0 and all(
        isinstance(group, (slice, np.ndarray)) for group in groups)


def group_labels(groups, model):
    """Return the group of every weight, int32 (dim,), or None if the groups are the blocks of the model."""
    if groups is None:
        if getattr(model, "blocks", False):
            return None
        raise ParameterError("groups must be given for a model without blocks, got None; pass groups of its weights, "
                             "or use a model such as pb.models.Dependency.hashed(..., blocks=True)")
    if isinstance(groups, (list, tuple)) and any(isinstance(group, (Kernel, Features)) for group in groups):
        raise InputTypeError("kernels and Features need model=None, pb.models.Chain or pb.models.Multiclass, got "
                             f"{type(model).__name__}; pass groups of its weights as for pb.prox.Groups")
    partition = Groups.of(groups, model.dim)
    labels = np.ravel(partition.spread(np.arange(partition.n_groups)))
    return np.ascontiguousarray(labels, dtype=np.int32)


class DenseVector:
    """A plain vector theta in place of `LazyVectors`, for any list of regularisers; a round costs O(dim)."""

    def __init__(self, n_rows, averaging):
        self.n_rows, self.averaging = n_rows, averaging
        self.set(0.0)

    def set(self, theta):
        """Set theta, and forget the average."""
        self.theta, self.total, self.n_ticks = np.zeros(self.n_rows) + theta, 0.0, 0

    def penalty(self, lam, regularisers):
        """Return the sum of the regularisers; lam is not used."""
        return float(sum(R.value(self.theta) for R in regularisers))

    def step(self, indices, data, eta, lam, radius, regularisers):
        """Make a round: a gradient step, the proximal operators in turn, and the projection onto the ball."""
        theta = self.theta.copy()
        theta[indices] -= eta * data
        for R in regularisers:
            theta = R.prox(theta, eta)
        self.theta = project_l2_ball(theta, radius) if np.isfinite(radius) else theta
        self.n_ticks += 1
        if self.averaging:
            self.total = self.total + self.theta

    def expand(self, out):
        """Write theta into `out`."""
        out[:] = self.theta

    def average(self):
        """Return the mean of the points of all rounds; without averaging a copy of theta."""
        return self.total / self.n_ticks if self.averaging and self.n_ticks else self.theta.copy()

    def settle(self):
        """Do nothing: there are no scales to fold, and no norms to renew."""

    renew = settle


class VectorLearner:
    """Holds the weights theta of a model, which persist between calls.

    Parameters
    ----------
    model : StructuredModel
    groups : argument of `pb.prox.Groups`, or None
        None: the blocks of the model.
    average : bool
    is_dense : bool
        Whether theta has no groups.
    """

    structure = classes = None

    def __init__(self, model, groups, average=False, is_dense=False):
        self.model, self.average, self.is_dense, self.blocks = model, average, is_dense, groups is None and not is_dense
        self.labels = None if is_dense else group_labels(groups, model)
        self.n_groups = len(model.templates) if self.blocks else 0 if is_dense else int(self.labels.max()) + 1
        self.theta = self._places = None        # the first examples determine which weights theta has

    def bind(self, X, Y):
        """Return the oracle of X and Y for weights numbered as in theta; theta grows by weights of new features.

        A round then reads few cache lines, however many features there are.
        """
        oracle = self.model.oracle(X, Y)
        if self.theta is None:
            self.allocate(self.labels is not None and oracle.listed_features is not None)
        if self._places is None:
            return oracle
        is_met = np.zeros(self.model.dim, dtype=bool)
        is_met[0] = True                # so that theta is never empty
        is_met[oracle.listed_features] = True
        places, n_rows = self._places.copy(), self.theta.n_rows
        fresh = np.flatnonzero(is_met & (places < 0))
        self.theta.grow(self.labels[fresh])
        places[fresh] = np.arange(n_rows, self.theta.n_rows)
        self._places = places           # last, because old places fit the longer theta, too, if Ctrl-C comes before
        return oracle.renumbered(self._places, self.theta.n_rows)

    def allocate(self, grows=False):
        """Allocate theta = 0; if it grows, it has no weights until their features occur."""
        # row of each weight in theta, or -1
        self._places = np.full(self.model.dim, -1, np.int32) if grows else None
        self.is_scaled = self.blocks or grows                   # whether the decoder reads v and scales
        if self.is_dense:
            self.theta = DenseVector(self.model.dim, self.average)
            return
        n_rows, labels = (0, self.labels[:0]) if grows else (self.model.dim, self.labels)
        self.theta = LazyVectors(n_rows, 1, self.n_groups, labels, self.model.bits if self.blocks else 0, self.average,
                                 eager=self.is_scaled)

    def session(self, X, Y, settings, executor=None):
        """Return the session of a call."""
        return VectorSession(self, X, Y, settings, executor)

    def group_labels(self):
        """Return the group of every row of theta."""
        if self.blocks:
            return np.repeat(np.arange(self.n_groups, dtype=np.int32), 1 << self.model.bits)
        return self.theta.row_labels

    def weights(self):
        """Return the weights for predictions, shape (dim,)."""
        places = self._places
        theta = np.ravel(self.theta.average())
        return theta if places is None else np.append(theta, 0.0)[places]       # place -1 reads the 0

    def predict(self, X, executor=None):
        """Return the labellings of the examples."""
        w = self.weights()
        if self.blocks:
            # bind the features of all sentences at once, with any trees as truth, because decoding without losses
            # ignores them
            Y = [np.arange(-1, len(x), dtype=np.int32) for x in X]
            oracle = self.model.oracle(X, Y)

            def decode(rows):
                return oracle.solve_batch(rows, w, loss=False).labellings
        else:
            def decode(rows):
                return [labelling_of(self.model.decode(w, X[i])) for i in rows]
        return [found for part in chunks(decode, len(X), executor) for found in part]

    def saved(self):
        """Return what `restore` needs; O(len(theta))."""
        return copy(self.theta)

    def restore(self, saved):
        """Restore what `saved` returned."""
        self.theta = saved
        if self._places is not None:
            self._places[self._places >= saved.n_rows] = -1


class _LogLoss(MeanLoss):
    """Mean log-loss of a structured model, for `descend`."""

    def __init__(self, risk, problem):
        super().__init__(problem, 1, risk.n_examples)
        self._risk = risk

    def plane(self, theta):
        risk, n = self._risk, self._risk.n_examples
        planes = planes_of(risk, theta[0])
        offset = float(planes.offsets.sum()) - 1.01 * float((planes.offset_errors * np.abs(planes.offsets)).sum())
        return planes.values.sum() / n, Plane(offset / n, planes.slopes / n, float(planes.slope_errors.sum()) / n), None


def chunks(function, n, executor=None):
    """Return `function(rows)` for chunks of the numbers 0..n - 1, in order."""
    rows = [np.arange(first, min(first + CHUNK, n)) for first in range(0, n, CHUNK)]
    return (executor or Serial()).map(function, rows)


class VectorSession:
    """The session of a call: it binds the learner to the oracle of the examples, or to their risk for "certified"."""

    def __init__(self, learner, X, Y, settings, executor=None):
        self.learner, self.settings, self._executor = learner, settings, executor
        name = type(learner.model).__name__
        if settings.radius == "auto":
            raise ParameterError(f"radius='auto' is not available for {name}; pass a number")
        if settings.solver == "certified":
            self._risk = Structured(learner.model, X, Y, loss=settings.loss)
            self.n_examples = self._risk.n_examples
            return
        self.oracle = learner.bind(X, Y)
        self.n_examples, self._planes, self._rounds, self.largest_gradient = self.oracle.n_examples, [], 0, 0.0
        self._begin_plane()
        if settings.loss == "logistic" and not self.oracle.has_marginals:
            raise ParameterError(f"loss='logistic' needs marginals, but {name} has none; use loss='hinge'")
        if getattr(learner.model, "nonneg", None) is not None:
            raise ParameterError(f"{name} needs nonnegative weights, which online rounds do not keep; use "
                                 "OnlineMKL(solver='certified') or pb.minimize")

    def run(self, order, etas):
        """Make rounds over the examples `order`; return the sum of the online objectives."""
        s, theta, total = self.settings, self.learner.theta, 0.0
        gradient = self._expected if s.loss == "logistic" else self._violated
        for r, eta in enumerate(etas.tolist()):
            if theta.n_rows != self.oracle.dim:
                raise StateError("the learner got new features during the run; do not call partial_fit in a callback")
            penalty = theta.penalty(s.lam, s.regulariser)
            loss, indices, data = gradient(order[r * s.batch:(r + 1) * s.batch])
            self.largest_gradient = max(self.largest_gradient, float(np.linalg.norm(data)))
            total += loss + penalty
            if not np.isfinite(total):
                raise NumericalError("scores went beyond the range of float64; choose a smaller eta0, or scale the "
                                     "features")
            theta.step(indices, data, eta, s.lam, s.radius, s.regulariser)
            self._rounds += 1
            if self._rounds % 10000 == 0:
                theta.renew()
        return total

    def _expected(self, rows):
        """Return the mean log-loss of the examples `rows`, and the sparse mean of its gradients."""
        slope = np.zeros(self.oracle.dim)
        values, entropies = self.oracle.marginals_batch(rows, self._oracle_weights(),
                                                        np.full(len(rows), 1.0 / len(rows)), slope)
        indices = np.flatnonzero(slope).astype(np.int32)
        if self.settings.certify:
            self._take_planes(len(rows), entropies, indices, len(rows) * slope[indices])
        return float(values.mean()), indices, slope[indices]

    def _violated(self, rows):
        """Return the mean hinge of the examples `rows`, and the sparse mean of its gradients."""
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
        """Return the labellings of the largest hinge at the current point; `weights` are its `_oracle_weights`."""
        if self.learner.is_scaled:
            theta = self.learner.theta
            return self.oracle.solve_scaled(rows, np.ravel(theta.values), theta.scales, theta.row_labels)
        return self.oracle.solve_batch(rows, self._oracle_weights() if weights is None else weights)

    def _oracle_weights(self):
        """Return theta, written out and prepared for the oracle."""
        w = np.empty(self.oracle.dim)
        self.learner.theta.expand(w)
        return self.oracle.prepare(w)

    def _begin_plane(self):
        """Begin the sum of the planes of an epoch; `_size` sums the absolute values of the entries of their slopes."""
        self._sum, self._size, self._offset, self._visits = None, 0.0, 0.0, 0

    def _take_planes(self, n_rows, offsets, indices, data):
        """Add the planes of `n_rows` examples to the sum."""
        if self._sum is None:
            self._sum = np.zeros(self.oracle.dim)
        np.add.at(self._sum, indices, data)
        self._size += float(np.abs(data).sum())
        self._offset += float(offsets.sum())
        self._visits += n_rows

    def end_epoch(self):
        """Keep the mean of the planes of the epoch."""
        if self._visits:
            mean = Plane(self._offset / self._visits, self._sum / self._visits, ROUNDING * (self._size / self._visits))
            self._planes = [*self._planes[1 - KEPT:], mean]
        self._begin_plane()

    def restart(self):
        """Set theta = 0."""
        self.learner.theta.set(0.0)
        self._planes = []
        self._begin_plane()

    def norms(self):
        """Return |theta_k|, shape (n_groups,)."""
        return self.learner.theta.norms()

    def risk(self):
        """Return the mean loss at the current point."""
        weights = None if self.learner.is_scaled and self.settings.loss == "hinge" else self._oracle_weights()

        def total(rows):
            if self.settings.loss == "logistic":
                return float(self.oracle.marginals_batch(rows, weights, np.zeros(len(rows)),
                                                         np.zeros(self.oracle.dim))[0].sum())
            return float(np.maximum(self._decode(rows, weights).uppers, 0.0).sum())

        return sum(chunks(total, self.n_examples, self._executor)) / self.n_examples

    def penalty(self):
        """Return lam/2 (sum_k |theta_k|)^2."""
        return self.learner.theta.penalty(self.settings.lam, None)

    def certificate(self):
        """Return the value at the current point, and the best bound that the planes of the last epochs prove."""
        self.learner.theta.renew()
        lam, p = self.settings.lam, self.learner.n_groups
        kept = KeptPlanes(p, KEPT, GroupNorms(lam, self.learner.group_labels(), p).products)
        for plane in self._planes:
            kept.add(plane)
        return self.penalty() + self.risk(), kept.proven(lam).value if self._planes else 0.0

    def certify(self):
        """Find the certified minimum, and set theta to its point."""
        s, learner, risk = self.settings, self.learner, self._risk
        learner.allocate()
        labels, p = learner.group_labels(), learner.n_groups
        if s.loss == "hinge":
            found, theta = climb_weights(risk, labels, p, s, self._executor)
        else:
            problem = Problem(GroupNorms(s.lam, labels, p, risk.nonneg))
            found, (theta,), _ = descend(_LogLoss(risk.derive(executor=self._executor), problem), s)
        learner.theta.set(theta[:, None])
        return found

    def finish(self):
        """Fold the scales into theta."""
        self.learner.theta.settle()

