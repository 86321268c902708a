"""Where work units run, and BLAS held to one thread meanwhile.

An executor has one of two methods:

``map(function, items)``
    results in the order of the items: `Serial`, `Threads`, a pool of concurrent.futures.
``place(risk) -> Risk``
    for workers that share no memory with this process: they hold the parts of the risk, and `place` returns a risk that
    calls them. See
    `pybundle.distributed`.

`close()` ends its threads.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController

from ..core.exceptions import ParameterError
from ..core.validation import check_integer


class Serial:
    """Runs work units one after another in the calling thread."""

    n_jobs = 1

    def map(self, function, items):
        """`[function(item) for item in items]`."""
        return [function(item) for item in items]

    def close(self):
        """Nothing to release."""


class Threads:
    """Runs work units in a pool of threads and in the calling one; results are in the order of the items.

    >>> pool = Threads(2)
    >>> pool.map(abs, [-1, 2, -3])
    [1, 2, 3]
    >>> pool.close()
    """

    def __init__(self, n_jobs):
        self.n_jobs = n_jobs
        self._pool = ThreadPoolExecutor(max(1, n_jobs - 1), thread_name_prefix="pybundle")

    def map(self, function, items):
        """Results in the order of the items; the first exception is raised.

        The calling thread is one of the `n_jobs`: it works instead of waiting, so one thread fewer has to be woken.
        """
        items = list(items)
        left, results, failures = deque(range(len(items))), [None] * len(items), {}

        def work():
            while left:
                try:
                    k = left.popleft()
                except IndexError:          # another thread was faster
                    return
                try:
                    results[k] = function(items[k])
                except BaseException as error:      # all items before k have begun, so this is the first failure
                    failures[k] = error
                    left.clear()

        helpers = [self._pool.submit(work) for _ in range(min(self.n_jobs, len(items)) - 1)]
        try:
            work()
        finally:
            left.clear()
            for helper in helpers:
                if not helper.cancel():     # it has begun
                    helper.result()
        if failures:
            # Ctrl-C and the like before all others
            raise failures[min(failures, key=lambda k: (isinstance(failures[k], Exception), k))]
        answers = results.copy()
        results.clear()         # a thread of the pool may hold `work` for a while, which must not hold them as well
        return answers

    def close(self):
        """Ends the threads."""
        self._pool.shutdown(cancel_futures=True)


def make_executor(n_jobs):
    """Executor for `n_jobs` threads; -1 is one per processor, None the value of joblib's `parallel_config`, or 1."""
    n_jobs = _of_joblib() if n_jobs is None else check_jobs(n_jobs)
    return Serial() if n_jobs == 1 else Threads(n_jobs)


def check_jobs(n_jobs):
    """`n_jobs` as a number >= 1; -1 is one per processor."""
    n_jobs = check_integer("n_jobs", n_jobs)
    if n_jobs == -1:
        return cpu_count()
    if n_jobs < 1:
        raise ParameterError(f"n_jobs must be an integer >= 1, or -1 for one per processor, got {n_jobs}")
    return n_jobs


def cpu_count():
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _of_joblib():
    """Return `n_jobs` of the enclosing `joblib.parallel_config`; 1 inside a worker of joblib, and without joblib."""
    joblib = sys.modules.get("joblib")
    return 1 if joblib is None else int(joblib.effective_n_jobs(None))


class _BlasLimit:
    """Holds BLAS to one thread while any solve runs.

    The number of BLAS threads belongs to the process, so overlapping solves share one counted limit: the first
    to enter sets it, the last to leave restores what was there, from whichever thread that is.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._users = 0
        self._controller = self._limit = None
        self._n_modules = 0

    def enter(self):
        with self._lock:
            if self._users == 0:
                # a search takes as long as a small solve, and libraries are usually loaded with modules
                count = len(sys.modules)
                if self._n_modules != count:
                    self._controller, self._n_modules = ThreadpoolController(), count
                self._take_control()
                self._limit = self._controller.limit(limits=1, user_api="blas")
            self._users += 1

    def leave(self):
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._take_control()
                self._limit.restore_original_limits()
                self._take_control()
                self._limit = None

    def _take_control(self):
        """threadpoolctl >= 3.7 lets only one thread change OpenBLAS; under our lock that is never two at once."""
        for library in self._controller.lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)


_BLAS_LIMIT = _BlasLimit()


@contextmanager
def single_threaded_blas():
    """One BLAS thread inside the block: more would change the last bits of sums."""
    _BLAS_LIMIT.enter()
    try:
        yield
    finally:
        _BLAS_LIMIT.leave()
