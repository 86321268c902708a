"""Ctrl-C at moments that do not depend on how busy the machine is."""

import signal
import sys
import threading
from contextlib import contextmanager

import pytest


class Interrupted:
    """An executor that raises KeyboardInterrupt beside its helpers; where it is `late`, after all work is done.

    Attributes
    ----------
    helpers : list of Thread
    """

    def __init__(self, late):
        self.late, self.helpers = late, []

    def map(self, function, items):
        if self.late:
            list(map(function, items))
        for _ in items:
            self.helpers.append(threading.Thread(target=function))
            self.helpers[-1].start()
        raise KeyboardInterrupt

    def join(self):
        for helper in self.helpers:
            helper.join()


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


@contextmanager
def undivided():
    """No thread loses the interpreter to another one before it waits or leaves it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e4)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
