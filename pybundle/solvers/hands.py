"""Planes learnt in several threads at once: each has scratch and counters of its own, and none goes on afterwards."""

from __future__ import annotations

import time
from contextlib import contextmanager
from threading import get_ident


class Hands:
    """The hands of `Blocks`, one for each thread that learns planes.

    Ctrl-C may come between any two lines here, so nothing hangs on a pair of them: whether a hand is busy is said by
    compiled code, and what a hand has counted is taken over by the next who looks.

    Parameters
    ----------
    blocks : Blocks
    """

    def __init__(self, blocks):
        self._blocks, self._hands = blocks, {}

    @contextmanager
    def shift(self):
        """Gives `learn(rows, offsets, slopes)` of `Blocks` to any thread, for blocks that no other thread has.

        When it ends nobody is at work any more: where a unit failed, or at an interrupt, executors may go on with
        others, whose planes are then refused.
        """
        self.settle()
        shift, owner = object(), get_ident()

        def learn(rows, offsets, slopes):
            me = get_ident()
            hand = None                 # the owner needs no scratch beside that of the blocks
            if me != owner:
                hand = self._hands.get(me) or self._hands.setdefault(me, self._blocks.hand())
            return self._blocks.learn(rows, offsets, slopes, hand, shift)

        self._blocks.shift = shift
        try:
            yield learn
        finally:
            self.settle()

    def settle(self):
        """Ends a shift: waits for who is at work, some milliseconds, and takes over what they counted."""
        interrupt = None
        while True:
            try:
                self._blocks.shift = None
                while any(hand.is_busy for hand in list(self._hands.values())):
                    time.sleep(1e-4)
                for hand in list(self._hands.values()):
                    self._blocks.settle(hand)
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt
