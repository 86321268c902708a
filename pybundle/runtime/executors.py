"""Executors run work units in threads or on workers; BLAS is limited to one thread.

An executor has one of two methods:

``map(function, items)``
    returns results in the order of the items: `Serial`, `Threads`, a pool of concurrent.futures.
``place(risk) -> Risk``
    for workers that share no memory with this process: they hold the parts of the risk, and `place` returns a risk that
    calls them, see `pybundle.distributed`.

`close()` ends the threads of an executor.
"""

import os
import sys
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from threadpoolctl import ThreadpoolController

from ..core.exceptions import ParameterError
from ..core.validation import check_integer


class Serial:
    """Runs work units one after another in the calling thread."""

    n_jobs = 1

    def map(self, function, items):
        """Return `[function(item) for item in items]`."""
        return [function(item) for item in items]

    def close(self):
        """Do nothing: there is nothing to release."""


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
        """Return the results in the order of the items; raise the first exception.

        The calling thread is one of the `n_jobs`: it works instead of waiting, so that one thread fewer must be woken.
        """
        items = list(items)
        left, results, failures = deque(range(len(items))), [None] * len(items), {}

        def work():
            while left:
                try:
                    k = left.popleft()
                except IndexError:          # other threads took the last items
                    return
                try:
                    results[k] = function(items[k])
                # all items before k have begun, so an earlier failure will also be recorded
                except BaseException as error:
                    failures[k] = error
                    left.clear()

        helpers = [self._pool.submit(work) for _ in range(min(self.n_jobs, len(items)) - 1)]
        try:
            work()
        finally:
            left.clear()
            for helper in helpers:
                if not helper.cancel():     # a helper that has begun cannot be cancelled
                    helper.result()
        if failures:
            # Ctrl-C and exits are raised before all other errors
            raise failures[min(failures, key=lambda k: (isinstance(failures[k], Exception), k))]
        answers = results.copy()
        results.clear()         # a thread of the pool may keep `work` alive, but not the results
        return answers

    def close(self):
        """Ends the threads."""
        self._pool.shutdown(cancel_futures=True)


def make_executor(n_jobs):
    """Return an executor for `n_jobs` threads: -1 means one per processor, None joblib's `parallel_config`, else 1."""
    if n_jobs is None:
        joblib = sys.modules.get("joblib")
        n_jobs = 1 if joblib is None else int(joblib.effective_n_jobs(None))        # 1 inside a worker of joblib
    n_jobs = check_integer("n_jobs", n_jobs)
    if n_jobs < 1 and n_jobs != -1:
        raise ParameterError(f"n_jobs must be an integer >= 1, or -1 for one per processor, got {n_jobs}")
    n_jobs = cpu_count() if n_jobs == -1 else n_jobs
    return Serial() if n_jobs == 1 else Threads(n_jobs)


def cpu_count():
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _BlasLimit:
    """A context manager that limits BLAS to one thread while any solve runs.

    The number of BLAS threads belongs to the process, so overlapping solves share one limit: the first solve to
    begin sets the limit, and the last to end restores the former number, in whichever threads they run.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._users = self._n_modules = 0
        self._libraries, self._before = [], []      # all BLAS libraries; (limited library, former number)

    def __enter__(self):
        with self._lock:
            if self._users == 0:
                # libraries are searched only after imports of new modules: a search takes as long as a small solve
                count = len(sys.modules)
                if self._n_modules != count:
                    self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                    self._n_modules = count
                self._before = [(library, n) for library in self._libraries if (n := library.num_threads) != 1]
                self._take_control()
                for library, _ in self._before:
                    library.set_num_threads(1)
            self._users += 1

    def __exit__(self, *problem):
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._take_control()
                for library, n in self._before:
                    library.set_num_threads(n)
                self._take_control()

    def _take_control(self):
        """Let this thread set the number of OpenBLAS threads; threadpoolctl >= 3.7 allows only one thread to do so."""
        for library, _ in self._before:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)


_BLAS_LIMIT = _BlasLimit()


def single_threaded_blas():
    """Return a context manager for one BLAS thread: more would change the last bits of sums."""
    return _BLAS_LIMIT
