"""Ctrl-C at moments that do not depend on how busy the machine is."""

import signal
from contextlib import contextmanager

import pytest


@contextmanager
def interrupted_once(is_at_work, every=0.01):
    """The block is left by a KeyboardInterrupt, raised once by a timer of the system as soon as `is_at_work()`."""
    rung = []

    def ring(*_):
        if not rung and is_at_work():       # another one may come while the first is on its way
            rung.append(True)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, every, every)
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
