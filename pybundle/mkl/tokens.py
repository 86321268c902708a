"""Learner of `OnlineMKL` for kernels and `Features`, over chains of tokens or single tokens."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import NumericalError, ParameterError
from ..core.plane import Plane
from ..core.ragged import Ragged
from ..models.chain.allowed import refuse_impossible
from ..oracles import forward_backward_batch, viterbi_batch
from ..runtime.executors import Serial
from ..solvers.problem.problem import Problem
from ._ascent import Ascent
from ._rounds import TokenRounds
from .certified import LARGEST, POINTS, MeanLoss
from .descent import descend
from .group_norms import GroupNorms
from .mixture_bound import ROUNDING, best_bound, plane_grams
from .parts import KernelPart, LinkPart, block_scores, make_part
from .token_blocks import climb

KEPT = {"hinge": 20, "logistic": 5}
"""Number of epochs whose labellings or marginals are kept for the bound; marginals need more memory."""


class TokenLearner:
    """Holds the parts of a learner over tokens, which persist between calls.

    Parameters
    ----------
    structure : TokenStructure
    groups : list of kernels and `Features`
    average : bool
    """

    def __init__(self, structure, groups, average=False):
        self.structure, self.classes, self.average = structure, structure.classes, average
        self._groups, self.parts = groups, None             # parts need widths and landmarks from the first tokens
        self.links = None if structure.is_flat else LinkPart(structure.n_labels, average)

    def session(self, X, Y, settings, executor=None):
        """Return the session of a call: its data bound to the groups."""
        structure = self.structure
        data, radius = structure.bind(X, Y), settings.radius
        if self.parts is None:
            self.parts = [make_part(group, index, data.X, structure.n_labels, self.average)
                          for index, group in enumerate(self._groups)]
        if radius == "auto":
            # radius of a ball that holds the minimiser of F = lam/2 |theta|_{2,1}^2 + mean loss, as F(0) <= `largest`
            sizes = np.diff(data.offsets)
            largest = (float((structure.factors(data.offsets) * sizes).max() * structure.costs.max())
                       if settings.loss == "hinge" else float(sizes.max() * np.log(structure.n_labels)))
            radius = float(np.sqrt(largest / settings.lam))
        kernels = [part for part in self.parts if isinstance(part, KernelPart)]
        is_definite, solver = all(part.kernel.is_definite(data.X) for part in kernels), settings.solver
        if solver == "auto":
            n = data.X.shape[0]
            points = n * structure.n_labels * len(kernels) + sum(
                part.theta.n_rows * part.theta.width for part in self.all_parts() if part not in kernels)
            fits = (n * n * len(kernels) * np.dtype(settings.precision).itemsize
                    + POINTS[settings.loss] * 16 * points) <= LARGEST
            solver = "certified" if fits and is_definite else "online"
        if solver == "certified" and not is_definite:
            raise ParameterError("solver='certified' needs positive semidefinite kernels, which B1Spline is not in "
                                 "more than one dimension; use solver='online'")
        return TokenSession(self, data, settings._replace(
            radius=radius, solver=solver, certify=settings.certify and is_definite), executor)

    def all_parts(self):
        """Return the parts of the groups, then the part of label pairs."""
        return self.parts if self.links is None else [*self.parts, self.links]

    @property
    def n_groups(self):
        return len(self.all_parts())

    def saved(self):
        """Return what `restore` needs; O(number of weights)."""
        return [part.saved() for part in self.all_parts()]

    def restore(self, saved):
        """Restore what `saved` returned."""
        for part, state in zip(self.all_parts(), saved, strict=True):
            part.restore(state)

    def scores(self, X, executor=None):
        """Return scores (n_tokens, n_labels), and the offsets of the examples."""
        data = self.structure.tokens(X)
        scorers = [part.scorer(data.X) for part in self.parts]
        return block_scores(scorers, data.X.shape[0], self.structure.n_labels, executor), data.offsets

    def predict(self, X, executor=None):
        """Return the classes of single tokens as an array, the labellings of chains as `Ragged`."""
        scores, offsets = self.scores(X, executor)
        if self.structure.is_flat:
            labels = scores.argmax(axis=1)
            return labels if self.classes is None else self.classes[labels]
        links = (part + mask for part, mask in zip(self.links.weights(), self.structure.masks, strict=True))
        labels, values = viterbi_batch(scores, offsets, *links, executor=executor)
        refuse_impossible(values, "X[{}]")
        return Ragged(labels, offsets)


class TokenSession:
    """The session of a call: compiled groups over its tokens, and planes of recent epochs for the certificate."""

    def __init__(self, learner, data, settings, executor=None):
        self.learner, self.data, self.settings, self.executor = learner, data, settings, executor or Serial()
        self._tokens = [part.bind(data.X, settings.precision, executor) for part in learner.parts]
        self._links = learner.links and learner.links.bind(data.X, settings.precision, executor)
        self.rounds = TokenRounds(self._tokens, self._links, learner.structure, data, settings.batch)
        self.groups, self.n_examples, self.found = self.rounds.groups, data.n_examples, data.truth.copy()
        self._recent = []
        self._begin_plane()

    def run(self, order, etas):
        """Make rounds over the examples `order`; return the sum of the online objectives."""
        s = self.settings
        try:
            return self.rounds.run(order, etas, s.batch, s.lam, s.radius, self.found, s.regulariser,
                                   s.loss == "logistic")
        except FloatingPointError:
            raise NumericalError("scores went beyond the range of float64; choose a smaller eta0, or scale the "
                                 "features") from None

    def restart(self):
        """Set theta = 0."""
        for group in self.groups:
            group.restart()
        self._recent = []
        self._begin_plane()

    def _begin_plane(self):
        """Begin the plane of an epoch of the log-loss; with the hinge, labellings in `found` make the plane."""
        if self.settings.certify and self.settings.loss == "logistic":
            L = self.learner.structure.n_labels
            self.rounds.expected = [np.zeros((len(self.data.truth), L)), np.zeros((L + 2, L)), 0.0]

    def end_epoch(self):
        """Keep the plane of the epoch, or for the hinge the labellings that make one."""
        latest = self.found.copy() if self.rounds.expected is None else tuple(self.rounds.expected)
        self._begin_plane()
        self._recent = [*self._recent[1 - KEPT[self.settings.loss]:], latest]

    def norms(self):
        """Return |theta_k|, shape (n_groups,)."""
        return self.rounds.norms()

    def penalty(self):
        """Return lam/2 (sum_k |theta_k|)^2."""
        return 0.5 * self.settings.lam * float(self.norms().sum()) ** 2

    def risk(self):
        """Return the mean loss at the current point, in a pass over the examples."""
        return self.rounds.hinge() if self.settings.loss == "hinge" else self._log_loss()[0]

    def certificate(self):
        """Return the value at the current point, and the best bound that the planes of the last epochs prove."""
        if self.settings.loss == "hinge":
            loss, planes = self.risk(), [self._plane(found) for found in self._recent]
        else:
            loss, last = self._log_loss()
            planes = [*self._recent, last]
        return self.penalty() + loss, self._bound_of(planes) if planes else 0.0

    def _plane(self, found):
        """Return the plane of one labelling of each example: coefficients of tokens (CSR) and of links, and B."""
        structure, data, n, truth = self.learner.structure, self.data, self.n_examples, self.data.truth
        wrong = np.flatnonzero(found != truth)
        entries = np.concatenate([wrong, wrong]), np.concatenate([found[wrong], truth[wrong]])
        coefs = sp.csr_array((np.repeat([1.0 / n, -1.0 / n], len(wrong)), entries),
                             shape=(len(truth), structure.n_labels))
        counts, true_counts = (structure.link_counts(labels, data.offsets) for labels in (found, truth))
        losses = np.add.reduceat(structure.costs[truth, found], data.offsets[:-1]) * structure.factors(data.offsets)
        return coefs, (counts - true_counts) / n, float(losses.sum()) / n

    def _log_loss(self):
        """Return the mean log-loss at the current point, and the plane of this loss there."""
        n_tokens, L = len(self.data.truth), self.learner.structure.n_labels
        scores = sum(self.executor.map(lambda group: group.all_scores(n_tokens), self._tokens))
        return self.log_loss_of(scores, np.zeros((L + 2, L)) if self._links is None else self._links.all_weights())

    def log_loss_of(self, scores, links):
        """Return the mean log-loss for scores (n_tokens, n_labels) and weights of label pairs, and its plane."""
        data, structure, n = self.data, self.learner.structure, self.n_examples
        L, offsets, truth, tokens = structure.n_labels, data.offsets, data.truth, np.arange(len(data.truth))
        pairs = (part + mask for part, mask in zip((links[:-2], links[-2], links[-1]), structure.masks, strict=True))
        found = forward_backward_batch(scores, offsets, *pairs, entropy=True, executor=self.executor)
        counts = structure.link_counts(truth, offsets)
        true_score = float(scores[tokens, truth].sum()) + float(np.vdot(counts, links))
        coefs, expected = found.unary.copy(), np.zeros((L + 2, L))
        expected[:-2] = found.pairwise
        if structure.start:
            expected[-2] = coefs[offsets[:-1]].sum(axis=0)
        if structure.end:
            expected[-1] = coefs[offsets[1:] - 1].sum(axis=0)
        coefs[tokens, truth] = 0.0
        coefs[tokens, truth] = -coefs.sum(axis=1)       # to subtract 1 from a probability would lose digits
        plane = coefs / n, (expected - counts) / n, float(found.entropies.sum()) / n
        return (float(found.log_partitions.sum()) - true_score) / n, plane

    def certify(self):
        """Find the certified minimum, and recompute its value and bound."""
        s = self.settings
        if s.loss == "hinge":
            ascent = Ascent(self._tokens, self._links, self.learner.structure, self.data)
            found, plane = climb(ascent, s, self.n_examples)
        else:
            risk = _LogLoss(self)
            found, theta, bound = descend(risk, s)
            plane = bound.plane()
            for group, coefs in zip(self.groups, risk.split(theta[0]), strict=True):
                group.place(coefs)
        self.executor.map(lambda group: group.renew(), self.groups)     # removes rounding errors of steps
        loss = self.risk()
        return found._replace(objective=self.penalty() + loss, norms=self.norms(), lower_bound=self._bound_of([plane]))

    def _bound_of(self, planes):
        """Return the bound of the best mixture of planes, from recomputed inner products and their rounding errors."""
        lengths, n_tokens = [group.lengths() for group in self.groups], len(self.data.truth)
        # the norms that the planes would have if their terms did not cancel
        sizes = np.array([[np.linalg.norm(links if each is None else abs(coefs).T @ each) for coefs, links, _ in planes]
                          for each in lengths])
        # the coefficients of a token have an absolute sum of at most 2/n
        reach = max(n_tokens if each is None else float(each.sum()) for each in lengths)
        return best_bound(np.array([B for _, _, B in planes]), plane_grams(self.groups, planes, self.executor),
                          self.settings.lam, sizes=sizes,
                          errors=np.full(len(planes), ROUNDING * 2.0 * reach / self.n_examples))[0]

    def finish(self):
        """Store what was learnt in the parts of the learner."""
        for part, group in zip(self.learner.all_parts(), self.groups, strict=True):
            part.absorb(group, self.data.X, self.settings.drop)


class _LogLoss(MeanLoss):
    """Mean log-loss over tokens, for `descend`; each row of a point holds the arrays of all kernels, then the links."""

    def __init__(self, session):
        self._session, L = session, session.learner.structure.n_labels
        self._shapes = [(len(session.data.truth), L)] * len(session.learner.parts)
        self._shapes += [] if session.learner.links is None else [(L + 2, L)]
        sizes, p = [n_rows * L for n_rows, _ in self._shapes], len(self._shapes)
        self._edges = np.cumsum(sizes)[:-1]
        norms = GroupNorms(session.settings.lam, np.repeat(np.arange(p), sizes), p)
        super().__init__(Problem(norms), 2, session.n_examples)

    def split(self, row):
        """Split one row of a point into views, one array for each group."""
        return [part.reshape(shape) for part, shape in zip(np.split(row, self._edges), self._shapes, strict=True)]

    def plane(self, theta):
        session, scores = self._session, self.split(theta[1])
        L = session.learner.structure.n_labels
        links = np.zeros((L + 2, L)) if session.learner.links is None else scores.pop()
        scores = sum(scores)
        if not (np.isfinite(scores).all() and np.isfinite(links).all()):
            raise NumericalError("scores went beyond the range of float64; scale the features")
        loss, (coefs, links, offset) = session.log_loss_of(scores, links)
        slope = np.empty_like(theta)

        def fill(part):
            group, of_coefs, of_scores = part
            image = group.image(coefs, links)
            of_coefs[:], of_scores[:] = (links, links) if image is links else (coefs, image.T)

        session.executor.map(fill, list(zip(session.groups, self.split(slope[0]), self.split(slope[1]), strict=True)))
        return loss, Plane(offset, slope), (coefs, links, offset)
