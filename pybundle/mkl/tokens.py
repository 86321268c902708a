"""Learners over tokens and labels, chains or single ones: data bound to groups, rounds, predictions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, NumericalError, ParameterError
from ..core.validation import real_array
from ..models import Chain, Multiclass
from ..oracles import viterbi_batch
from ._ascent import Ascent
from ._rounds import TokenRounds
from .certificate import best_bound, plane_grams, plane_of
from .certified import climb
from .parts import LinkPart, make_part

KEPT = 20
"""Epochs whose labellings are kept for the bound."""


class Tokens(NamedTuple):
    """Examples as tokens: those of example i are rows offsets[i]:offsets[i + 1] of X."""

    X: object
    offsets: np.ndarray
    gold: np.ndarray | None

    @property
    def n_examples(self):
        return len(self.offsets) - 1


class FlatTokens:
    """Single tokens with one of `n_labels` classes each."""

    is_flat = True

    def __init__(self, costs):
        self.costs, self.n_labels = costs, len(costs)
        self.start = self.end = False

    def tokens(self, X):
        X = check_tokens("X", X)
        return Tokens(X, np.arange(X.shape[0] + 1), None)

    def bind(self, X, Y):
        found = self.tokens(X)
        if len(Y) != found.n_examples:
            raise ParameterError(f"y must hold one class for each of the {found.n_examples} rows of X, got {len(Y)}")
        return found._replace(gold=np.ascontiguousarray(Y, dtype=np.int32))

    def factors(self, offsets):
        return np.ones(len(offsets) - 1)

    def largest_loss(self, offsets):
        return float(self.costs.max())

    def log_labellings(self, offsets):
        return float(np.log(self.n_labels))


class ChainTokens:
    """Chains of tokens, as the model `Chain` describes them."""

    is_flat = False

    def __init__(self, model):
        if model.rescaling != "margin":
            raise ParameterError("model must have rescaling='margin', got 'slack'")
        self._model, self.costs, self.n_labels = model, model.costs, model.n_labels
        self.start, self.end = model.start, model.end

    def tokens(self, X):
        X = self._model.tokens(X)
        return Tokens(check_tokens("X", X.values), X.offsets, None)

    def bind(self, X, Y):
        found = self.tokens(X)
        return found._replace(gold=self._model.labels(Y, np.diff(found.offsets)).values)

    def factors(self, offsets):
        sizes = np.diff(offsets)
        return 1.0 / sizes if self._model.normalised else np.ones(len(sizes))

    def largest_loss(self, offsets):
        return float((self.factors(offsets) * np.diff(offsets)).max() * self.costs.max())

    def log_labellings(self, offsets):
        return float(np.diff(offsets).max() * np.log(self.n_labels))


def as_structure(model):
    """The tokens of a model, or None where it has none."""
    if isinstance(model, Multiclass):
        if model.rescaling != "margin":
            raise ParameterError("model must have rescaling='margin', got 'slack'")
        return FlatTokens(model.costs)
    return ChainTokens(model) if isinstance(model, Chain) else None


class TokenLearner:
    """The parts of a learner over tokens; lives through all calls.

    Parameters
    ----------
    structure : FlatTokens or ChainTokens
    groups : list of kernels and `Features`
    settings : Settings
    data : Tokens
        What widths and landmarks are chosen from.
    """

    def __init__(self, structure, groups, settings, data):
        self.structure = structure
        self.parts = [make_part(group, index, data.X, structure.n_labels, settings.average)
                      for index, group in enumerate(groups)]
        self.links = None if structure.is_flat else LinkPart(structure.n_labels, settings.average)

    def is_definite(self, data):
        """Whether all kernels are positive semidefinite on such data, so that there is an objective to certify."""
        return all(part.is_definite(data.X) for part in self.parts)

    @property
    def n_groups(self):
        return len(self.parts) + (self.links is not None)

    def session(self, data, settings, executor=None):
        """The data of one call bound to the groups."""
        return TokenSession(self, data, settings, executor)

    def scores(self, data, executor=None):
        """Scores (n_tokens, n_labels)."""
        total = np.zeros((data.X.shape[0], self.structure.n_labels))
        for part in self.parts:
            total += part.scores(data.X, executor)
        return total

    def predict(self, data, executor=None):
        """Labels (n_tokens,)."""
        scores = self.scores(data, executor)
        if self.structure.is_flat:
            return scores.argmax(axis=1)
        transition, start, end = self.links.weights()
        return viterbi_batch(scores, data.offsets, transition, start, end)[0]


class TokenSession:
    """One call: compiled groups over its tokens, and the labellings met for the certificate."""

    def __init__(self, learner, data, settings, executor=None):
        self.learner, self.data, self.settings = learner, data, settings
        structure, X, precision = learner.structure, data.X, settings.precision
        groups = [part.bind(X, precision, executor) for part in learner.parts]
        links = None if learner.links is None else learner.links.bind(X, precision, executor)
        self.groups = groups + ([] if links is None else [links])
        self.rounds = TokenRounds(groups, links, data.offsets, data.gold, structure.costs,
                                  structure.factors(data.offsets), structure.start, structure.end, settings.batch)
        self.n_examples, self._links = data.n_examples, links
        self.found, self._met = data.gold.copy(), []

    def run(self, order, etas):
        """Rounds over the examples `order`; the sum of the online objectives."""
        s = self.settings
        try:
            return self.rounds.run(order, etas, s.batch, s.lam, s.radius, self.found, s.regulariser,
                                   s.loss == "logistic")
        except FloatingPointError:
            raise NumericalError("scores went beyond the range of float64; choose a smaller eta0, or scale the "
                                 "features") from None

    def restart(self):
        """theta = 0."""
        for group in self.groups:
            group.restart()
        self._met = []

    def end_epoch(self):
        """The labellings met since all examples were visited last make a plane."""
        self._met = [*self._met[1 - KEPT:], self.found.copy()]

    def norms(self):
        """|theta_k|, shape (n_groups,)."""
        return self.rounds.norms()

    def hinge(self):
        """Mean structured hinge at the present point, one decoding of every example."""
        return float(np.maximum(self.rounds.decode()[1], 0.0).mean())

    def certificate(self):
        """Value at the present point, and the best bound that the planes of the last epochs prove (hinge)."""
        lam, structure, data = self.settings.lam, self.learner.structure, self.data
        objective = 0.5 * lam * float(self.norms().sum()) ** 2 + self.hinge()
        planes = [plane_of(found, data.gold, data.offsets, structure.costs, structure.factors(data.offsets),
                           structure.start, structure.end, structure.n_labels) for found in self._met]
        if not planes:
            return objective, 0.0
        bound = best_bound(np.array([B for _, _, B in planes]), plane_grams(self.groups, planes), lam)[0]
        return objective, bound

    def climb(self, tol, max_iter, random_state):
        """The certified optimum of the hinge; what `certified.climb` gives, with value and bound made afresh."""
        structure, data, lam = self.learner.structure, self.data, self.settings.lam
        tokens = self.groups[:-1] if self._links is not None else self.groups
        ascent = Ascent(tokens, self._links, data.offsets, data.gold, structure.costs, structure.factors(data.offsets),
                        structure.start, structure.end)
        try:
            found = climb(ascent, lam, tol, max_iter, random_state)
        except FloatingPointError:
            raise NumericalError("scores went beyond the range of float64; scale the features") from None
        for group in self.groups:
            group.renew()
        plane = ascent.planes()
        plane = (sp.csr_array(plane[0]), *plane[1:])
        bound = best_bound(np.array([plane[2]]), plane_grams(self.groups, [plane]), lam)[0]
        objective = 0.5 * lam * float(self.norms().sum()) ** 2 + self.hinge()
        return found._replace(objective=objective, lower_bound=max(bound, found.lower_bound))

    def finish(self):
        """What was learnt goes home to the parts."""
        for part, group in zip([*self.learner.parts, self.learner.links], self.groups, strict=False):
            part.absorb(group, self.data.X, self.settings.drop)


def check_tokens(name, X):
    """Rows of finite numbers: a float64 array, or CSR."""
    if sp.issparse(X):
        X = sp.csr_array(X)
        if X.dtype.kind not in "biuf":
            raise InputTypeError(f"{name} must hold real numbers, got dtype {X.dtype}")
        X = X.astype(np.float64, copy=False)
        entries = X.data
    else:
        try:
            X = entries = real_array(X)
        except TypeError as problem:
            raise InputTypeError(f"{name} must hold real numbers, got {type(X).__name__}: {problem}") from problem
    if X.ndim != 2 or min(X.shape) == 0:
        raise ParameterError(f"{name} must have shape (n, n_features) with at least one of both, got shape {X.shape}")
    if not np.isfinite(entries).all():
        raise ParameterError(f"{name} must be finite, got NaN or infinity; drop or impute such rows")
    return X
