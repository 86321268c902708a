"""Workers of a remote risk in this process: they answer in a random order, and can hold copies of their parts."""

import pickle

import numpy as np

from pybundle.distributed.parts import Description, Parts
from pybundle.distributed.risk import RemoteRisk
from pybundle.distributed.workplace import Workplace, excerpt, grouped


class Here(Workplace):
    """A workplace in this process whose groups answer in the order that a generator of random numbers says."""

    def __init__(self, risk, n_groups, seed=0, pickled=False):
        groups = grouped(risk.n_parts, n_groups)
        super().__init__(groups, n_groups)
        self._parts = [Parts(excerpt(risk, group), len(group)) for group in groups]
        if pickled:                 # as if they were in other processes
            self._parts = [pickle.loads(pickle.dumps(parts)) for parts in self._parts]
        self._rng, self._open, self._turn = np.random.default_rng(seed), [], 0

    def ask(self, group, question, w):
        self._open.append((self._turn + self._rng.integers(1, 3), group, question, w))

    def answers(self, timeout=None):
        self._open.sort(key=lambda entry: entry[0])
        self._turn, group, question, w = self._open.pop(0)
        return [(group, question, self._parts[group].answer(question, w))]

    def release(self):
        self._parts = []


class InTurn:
    """Executor over `Here`."""

    def __init__(self, n_groups, single=False, **options):
        self.n_groups, self.single, self.options = n_groups, single, options

    def place(self, risk):
        return RemoteRisk(Here(risk, self.n_groups, **self.options), Description.of(risk), self.single, risk)
