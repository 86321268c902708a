"""Base class of the online learners: it runs epochs of rounds, searches for eta0, and undoes calls that fail."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.exceptions import StateError
from ..core.types import Callbacks
from .settings import Rate

GRID = (0.01, 0.1, 1.0, 10.0)
"""Values of eta0 that eta0="auto" compares, as published."""
TRIAL_EPOCHS = 3
"""Number of epochs of each trial of eta0."""
TRIAL_EXAMPLES = 1000
"""Maximum number of examples of a trial."""


class OnlineLearner:
    """Base class of `OnlineMKL` and `OnlineProximal`.

    `_learner`, a `TokenLearner` or a `VectorLearner`, holds what persists between calls. It has `saved()`,
    `restore(saved)`, and `session(X, Y, settings, executor)`, which binds it to the examples of one call. A session
    makes rounds by `run(order, etas)` and `end_epoch()`; `restart()` sets theta to 0, and `finish()` stores theta in
    the learner. `norms()`, `penalty()` and `risk()` describe its point, `certificate()` returns the objective there and
    a bound. `certify()` finds the minimum without rounds.
    """

    eta0_: Any
    n_rounds_: int
    history_: dict[str, Any]

    callback: Callbacks = None
    _online = 0.0               # sum over all rounds of the objective at the point of the round

    @contextmanager
    def _all_or_nothing(self, is_fitted=False):
        """Undo all changes if the body fails; with `is_fitted` undo changes in the existing `_learner`, too."""
        before = dict(self.__dict__)
        saved = (self._learner.saved(), self._rng.bit_generator.state) if is_fitted else None
        try:
            yield
        except Exception:
            self.__dict__ = before
            if is_fitted:
                self._learner.restore(saved[0])
                self._rng.bit_generator.state = saved[1]
            raise

    def _begin(self, session):
        """Install a new learner before its first epoch; the old one stays if the search for eta0 fails."""
        eta0 = self._choose_eta0(session)
        self._learner, self.eta0_, self.n_rounds_, self._online = session.learner, eta0, 0, 0.0
        self._rng = np.random.default_rng(session.settings.random_state)
        self._clear_history()

    def _clear_history(self):
        self.history_ = {"seconds": np.zeros(0), "online": np.zeros(0)}

    def _choose_eta0(self, session):
        """Return eta0; "auto" tries the values of GRID, takes the best, and leaves the session at theta = 0."""
        s = session.settings
        if s.eta0 != "auto" or s.rate == "strong":
            return 1.0 if s.eta0 == "auto" else s.eta0
        chosen = np.random.default_rng(s.random_state).permutation(session.n_examples)[:TRIAL_EXAMPLES]
        n_rounds = -(-len(chosen) // s.batch)

        def trial(eta0):
            session.restart()
            rate = Rate(s.rate, eta0)
            for epoch in range(TRIAL_EPOCHS):
                total = session.run(chosen, rate(1 + epoch * n_rounds, n_rounds))
            return total if s.regulariser is not None else session.penalty() + session.risk()

        best = best_rate(trial)
        session.restart()
        return best

    def _epochs(self, session, n_epochs):
        """Run epochs in random order, and add a row to the history after each epoch, unless a callback ends the run."""
        settings, n = session.settings, session.n_examples
        rate, n_rounds = Rate(settings.rate, self.eta0_, settings.sigma), -(-n // settings.batch)
        for _ in range(n_epochs):
            began = time.perf_counter()
            total = session.run(self._rng.permutation(n), rate(self.n_rounds_ + 1, n_rounds))
            session.end_epoch()
            self.n_rounds_ += n_rounds
            self._online += total
            row = self._columns(session) | {"seconds": time.perf_counter() - began, "online": total / n_rounds}
            self.history_ = {name: np.concatenate([known, [row[name]]]) for name, known in self.history_.items()}
            if self.callback is not None and self.callback(self):
                break

    def _columns(self, session):
        """Return further entries of the row of the history, by column."""
        return {}

    def _check_learnt(self):
        if not hasattr(self, "_learner"):
            raise StateError(f"this {type(self).__name__} has learnt nothing yet; call fit or partial_fit first")


def best_rate(trial):
    """Return the entry of GRID whose trial returns the least objective; an objective that overflows is infinite."""
    def value(eta0):
        try:
            found = trial(eta0)
        except ArithmeticError:
            return np.inf
        return found if np.isfinite(found) else np.inf

    return min(GRID, key=value)
