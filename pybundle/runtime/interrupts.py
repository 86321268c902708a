"""Ctrl-C where what is being done must not be left half done."""

from __future__ import annotations

import contextlib
import signal
import threading


@contextlib.contextmanager
def interrupts_wait():
    """Ctrl-C inside the block is raised at its end; a second one at once.

    Only in the main thread, and only where nobody else handles the signal.
    """
    asked = []
    if threading.current_thread() is not threading.main_thread() \
            or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def note(number, frame):
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked:
        raise KeyboardInterrupt
