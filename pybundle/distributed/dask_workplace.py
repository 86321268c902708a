"""`DaskWorkplace` keeps parts as futures on the workers of a dask.distributed cluster and asks questions as tasks."""

from __future__ import annotations

import contextlib
import itertools
import queue
import time
import uuid
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from ..core.exceptions import BundleError
from .messages import Question
from .parts import Parts
from .waiting import TICK
from .workplace import Workplace

REBUILD = 2.0
"""Seconds that Dask has, while any worker is left, to rebuild parts or answers of a lost worker."""
BALANCE_EVERY = 5.0
"""Seconds between two searches for workers without parts."""
MAX_FAILURES = 2
"""Failed direct requests to a group at an address before the scheduler is used; a failure may last a whole timeout."""
GRAPH_SIZE = {"distributed.admin.large-graph-warning-threshold": "1 TB"}
"""A setting of Dask that avoids its warning of large data. The scheduler gets the data once, so that it can rebuild a
lost part without the driver."""


class Asked(NamedTuple):
    """An open question, sent to the scheduler (with a future) or to the worker at an address."""

    group: int
    question: Question
    w: np.ndarray
    tries: int = 1
    future: Any = None
    address: str | None = None


class DaskWorkplace(Workplace):
    """The parts are futures that stay at their workers as long as these live; every question is a task."""

    def __init__(self, client, groups, source, slots, patience, max_tries, holders=(), direct=False):
        super().__init__(groups, min(len(groups), len(slots)))
        self._client, self._source, self._patience, self._max_tries = client, source, patience, max_tries
        # prefix and numbers of keys
        self._name, self._numbers = f"pybundle-{uuid.uuid4().hex[:12]}", itertools.count(1)
        self._done, self._pending = queue.SimpleQueue(), {}
        self._balanced = time.monotonic()       # time of the last `_balance`
        self._alone_since = None                # time since which there is no worker, or None
        self._homes = list(holders) or [slots[g % len(slots)] for g in range(len(groups))]
        self._lost_since = [None] * len(groups)     # time since which each group has no worker, or None
        self._held = [self._make(g) for g in range(len(groups))]
        self._addresses, self._direct = [None] * len(groups), direct    # whether requests may bypass the scheduler
        self._failures = Counter()      # failed direct requests by (group, address)
        if direct:
            from .dask_direct import Mailbox

            with contextlib.suppress(Exception):    # requests to workers without a mailbox go through the scheduler
                client.register_plugin(Mailbox())

    def _make(self, g):
        """Return a future of the parts of a group at its home."""
        import dask

        with dask.config.set(GRAPH_SIZE), self._plain_errors():
            return self._client.submit(Parts, self._source(g, self._homes[g]), len(self.groups[g]), pure=False,
                                       key=f"{self._name}-parts-{g}-{next(self._numbers)}", workers=[self._homes[g]],
                                       allow_other_workers=True)

    def ask(self, group, question, w):
        self._alone_since = None        # do not count time before the question: the master problem may be slow
        if time.monotonic() - self._balanced > BALANCE_EVERY:
            self._balance()
        if self._direct and self._addresses[group] is None:
            finished = [held for held in self._held if held.status == "finished"]
            holders = self._ask_scheduler(self._client.who_has, finished)
            if holders is not None:
                self._addresses = [next(iter(holders.get(held.key, ())), None) for held in self._held]
        address = self._addresses[group]
        if address is None or self._failures[group, address] >= MAX_FAILURES:
            self._submit(group, question, w, 1)
            return
        from .dask_direct import exchange
        key = f"{self._name}-{question.kind}-{next(self._numbers)}"
        self._pending[key] = Asked(group, question, w, address=address)
        self._client.loop.add_callback(exchange, self._client, address, self._held[group].key, key, question, w,
                                       self._done)

    def _reroute(self, asked):
        """Send an unanswered request through the scheduler, and forget the address of the parts."""
        self._failures[asked.group, asked.address] += 1
        self._addresses[asked.group] = None
        self._submit(asked.group, asked.question, asked.w, asked.tries)

    def _submit(self, group, question, w, tries):
        if tries > self._max_tries:
            raise BundleError(f"parts {self.groups[group].tolist()} were lost with their worker {tries - 1} times; "
                              "look at the workers' logs, for instance for want of memory")
        try:
            future = self._client.submit(Parts.answer, self._held[group], question, w, pure=False,
                                         key=f"{self._name}-{question.kind}-{next(self._numbers)}")
        except Exception as problem:        # the client is closed, or its scheduler has gone
            raise self._lost() from problem
        self._pending[future.key] = Asked(group, question, w, tries, future)
        future.add_done_callback(self._done.put)

    def answers(self, timeout=None):
        found, end = [], None if timeout is None else time.monotonic() + timeout
        while not found and (end is None or time.monotonic() < end):
            for ended in self._finished(TICK if end is None else min(TICK, max(end - time.monotonic(), 1e-3))):
                asked = self._pending.pop(ended.key, None)
                if asked is None:           # a duplicate, or the answer to a request that was sent again
                    continue
                answer = ended.answer if asked.future is None else self._fetch(asked.future, asked.group)
                if answer is not None:
                    self._alone_since = None
                    found.append((asked.group, asked.question, answer))
                elif asked.future is None:
                    self._reroute(asked)
                else:
                    self._submit(asked.group, asked.question, asked.w, asked.tries + 1)
        return found

    def _finished(self, timeout):
        """Return the futures and replies that have ended since the last call; if none has, check the cluster."""
        try:
            ended = [self._done.get(timeout=timeout)]
        except queue.Empty:
            self._check_cluster()
            return []
        while not self._done.empty():
            ended.append(self._done.get())
        return ended

    def _fetch(self, future, group):
        """Return the answer of a finished future, or None if the request must be repeated."""
        from distributed import CancelledError, KilledWorker

        if future.status in ("finished", "error"):
            try:
                return self._result(future)
            except KilledWorker as problem:
                raise BundleError(f"workers died again and again while they had parts {self.groups[group].tolist()}; "
                                  "look at their logs, for instance for want of memory") from problem
            except (CancelledError, TimeoutError, OSError):
                pass
            # building the parts failed; an exception of an oracle comes inside an answer
            except Exception as problem:
                if self._client.status == "running":
                    raise BundleError(f"parts {self.groups[group].tolist()} could not be made at their worker: "
                                      f"{type(problem).__name__}: {problem}") from problem
        if self._client.status != "running":
            raise self._lost()
        if self._held[group].status in ("cancelled", "lost"):
            self._held[group] = self._make(group)
        return None

    def _result(self, future):
        """Return the result of an ended future; wait for it while a worker holds it.

        The wait ends with the time of the run, because a worker that was stopped still counts as a holder.
        """
        wait, run = min(REBUILD, self._patience), self.run
        while True:
            try:
                return future.result(timeout=wait if run is None else min(wait, max(run.left(), TICK)))
            except TimeoutError:
                wait *= 2.0
                is_late = wait > self._patience or (run is not None and run.left() <= 0.0)
                if is_late or not self._client.who_has([future]).get(future.key):
                    raise

    def _check_cluster(self):
        """Raise if there has been no worker, or no scheduler, for too long; move parts of lost workers to others."""
        now = time.monotonic()
        workers = sorted(self._ask_scheduler(self._client.nthreads) or ()) if self._client.status == "running" else []
        if workers:
            self._alone_since = None
            self._move_lost(workers, now)
            for key, asked in list(self._pending.items()):      # lost workers leave connections open, and never reply
                if asked.future is None and asked.address not in workers:
                    del self._pending[key]
                    self._reroute(asked)
            return
        self._alone_since = now if self._alone_since is None else self._alone_since
        if self._client.status == "closed" or now - self._alone_since > self._patience:
            if self._client.status != "running":
                raise self._lost()
            raise BundleError(f"there has been no Dask worker for {self._patience:g} s; start some, and continue with "
                              "warm_start=error.result")

    def _move_lost(self, workers, now):
        """Move parts that still wait for a lost worker, because no other worker was left at the time of the loss."""
        for g, held in enumerate(self._held):
            if held.status == "finished" or self._homes[g] in workers:
                self._lost_since[g] = None
            elif self._lost_since[g] is None:
                self._lost_since[g] = now
            elif now - self._lost_since[g] > REBUILD:
                self._move(g, workers[g % len(workers)])

    def _balance(self):
        """Move parts from workers with more groups than threads to workers without parts."""
        self._balanced = time.monotonic()
        threads = self._ask_scheduler(self._client.nthreads)
        holders = self._ask_scheduler(self._client.who_has, self._held)
        if threads is None or holders is None:
            return
        load = {address: [] for address in threads}
        for g, held in enumerate(self._held):
            for address in set(holders.get(held.key, ())) & set(load):
                load[address].append(g)
        for address in [address for address, groups in load.items() if not groups]:
            fullest = max(load, key=lambda other: len(load[other]) / threads[other])
            if len(load[fullest]) <= threads[fullest]:
                break
            load[address].append(load[fullest].pop())
            self._move(load[address][0], address)

    def _move(self, g, home):
        """Rebuild the parts of a group at another worker, and repeat the unanswered questions to this group."""
        open_questions = [asked for asked in self._pending.values() if asked.group == g]
        self._pending = {key: asked for key, asked in self._pending.items() if asked.group != g}
        futures = [asked.future for asked in open_questions if asked.future is not None]
        with self._plain_errors():
            self._client.cancel([self._held[g], *futures], force=True)
        self._homes[g], self._lost_since[g], self._addresses[g] = home, None, None
        self._held[g] = self._make(g)
        for asked in open_questions:
            self._submit(g, asked.question, asked.w, asked.tries + 1)

    def _ask_scheduler(self, method, *arguments):
        """Call a method of the client; return None if the scheduler does not answer."""
        with contextlib.suppress(OSError, TimeoutError), self._plain_errors():
            return method(*arguments)

    @contextlib.contextmanager
    def _plain_errors(self):
        """Replace errors about the internals of Dask, once the client is closed, by the error of `_lost`."""
        try:
            yield
        except Exception as problem:
            if self._client.status == "running":
                raise
            raise self._lost() from problem

    def _lost(self):
        return BundleError("the Dask scheduler is gone, or the client was closed; connect again and continue with "
                           "warm_start=error.result")

    def release(self):
        futures = [asked.future for asked in self._pending.values() if asked.future is not None]
        self._pending.clear()
        if self._client.status == "running":
            self._client.cancel(futures, force=True)
        self._held = []
