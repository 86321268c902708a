"""Defer Ctrl-C until a critical section ends."""

import contextlib
import signal
import threading
import time


class Noted:
    """A signal handler that notes the first Ctrl-C and raises the second one at once.

    Attributes
    ----------
    at : float or None
        `time.perf_counter()` of the first Ctrl-C.
    """

    def __init__(self):
        self.at = None

    def __call__(self, number, frame):
        if self.at is not None:
            raise KeyboardInterrupt
        self.at = time.perf_counter()


@contextlib.contextmanager
def interrupts_wait():
    """Defer a Ctrl-C inside the block to the end of the block, but raise a second one at once.

    This holds in the main thread only, and only if no other handler of the signal is installed.
    """
    if not _is_main() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    noted = Noted()
    signal.signal(signal.SIGINT, noted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if noted.at is not None:
        raise KeyboardInterrupt


def interrupt_noted_at():
    """Return `time.perf_counter()` of a Ctrl-C that waits for the end of `interrupts_wait`, or None."""
    handler = signal.getsignal(signal.SIGINT) if _is_main() else None
    return handler.at if isinstance(handler, Noted) else None


def _is_main():
    return threading.current_thread() is threading.main_thread()
