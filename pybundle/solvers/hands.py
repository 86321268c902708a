"""Planes learnt in several threads at once: each has scratch and counters of its own, and none goes on afterwards."""

from __future__ import annotations

import threading
from contextlib import contextmanager


class Hands:
    """The hands of `Blocks`, lent to whoever learns planes.

    Parameters
    ----------
    blocks : Blocks
    """

    def __init__(self, blocks):
        self._blocks = blocks
        self._idle = [blocks]           # the first needs no scratch beside that of the blocks
        self._shift, self._n_busy = None, 0
        self._change = threading.Condition()

    @contextmanager
    def shift(self):
        """Gives `learn(rows, offsets, slopes)` of `Blocks` to any thread, for blocks that no other thread has.

        When it ends, however it does, nobody is at work any more: where a unit failed, or at an interrupt, executors
        may go on with others, whose planes are then refused.
        """
        shift = self._shift = object()

        def learn(rows, offsets, slopes):
            with self._change:
                if self._shift is not shift:
                    raise RuntimeError("the pass that these planes belong to has ended")
                hand = self._idle.pop() if self._idle else self._blocks.hand()
                self._n_busy += 1
            try:
                return self._blocks.learn(rows, offsets, slopes, hand)
            finally:
                with self._change:
                    self._idle.append(hand)
                    self._n_busy -= 1
                    self._change.notify_all()

        try:
            yield learn
        finally:
            with self._change:
                self._shift = None
                while self._n_busy:
                    self._change.wait()
                for hand in self._idle:
                    self._blocks.settle(hand)
