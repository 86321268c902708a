"""Parts of a risk in resident processes of this machine, for Python oracles that hold the GIL."""

from __future__ import annotations

import math
import multiprocessing
import pickle
import signal
import threading
import time
from collections import deque
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.util import Finalize
from typing import Any, Self
from weakref import WeakSet

from ..core.exceptions import BundleError
from ..core.validation import check_choice, check_integer, check_number
from ..runtime.executors import check_jobs
from ..runtime.interrupts import interrupts_wait
from .parts import Description, Parts
from .risk import RemoteRisk
from .shared import Block, Window, read, size_of, write
from .workplace import Workplace, excerpt, grouped

LOST = (EOFError, BrokenPipeError, ConnectionResetError, OSError)
STOP = 0.5
"""Seconds that a process has to end before it is killed, and to read its parts before the next one gets its own."""
SILENT = 60.0
"""Without `patience`, the run waits for a process at least so many seconds,"""
LONGER = 20.0
"""and after so many times the longest answer so far."""
START = 30.0
"""With `patience`, one that starts and makes its parts has so many seconds at least."""


class Processes:
    """Executor with processes of its own, each of which keeps some parts of the risk.

    A round costs one copy of w into shared memory and one of the planes out of it; arrays are pickled with the parts
    alone. If oracles release the GIL, as those of `pb.models` do, threads (`n_jobs`) do the same without copies.

    Parameters
    ----------
    n_jobs : int
        Processes, -1 for one a processor. They start with the first risk and stay until `close`.
    compress : {"exact", "float32"}
        As in `Dask`.
    patience : float, optional
        Seconds after which a process that does not answer is given up: one that is stopped, swapped out, or loops. It
        is killed and replaced. Default: a minute, or more if answers take long (twenty times the
        longest so far); the first answers are waited for. To start, one has half a minute at least. `time_limit` and
        Ctrl-C do not wait for it.
    max_tries : int
        Number of attempts for a request whose process ended, for instance for lack of memory, or was given up. Then the
        run ends with BundleError.

    Notes
    -----
    Processes start afresh and import the main module, so a script needs `if __name__ == "__main__":`. Models of a
    notebook can be sent if cloudpickle is installed.

    Examples
    --------
    >>> import pybundle as pb
    >>> with pb.distributed.Processes(2) as executor:                               # doctest: +SKIP
    ...     result = pb.minimize(risk, lam=1.0, n_parts=16, executor=executor)
    """

    n_jobs: int

    def __init__(self, n_jobs: int, *, compress: str = "exact", patience: float | None = None,
                 max_tries: int = 3) -> None:
        self.n_jobs = check_jobs(n_jobs)
        self.single = check_choice("compress", compress, ("exact", "float32")) == "float32"
        self.patience = None if patience is None else check_number("patience", patience, low=0.0, strict=True)
        self.max_tries = check_integer("max_tries", max_tries, low=1)
        self._free: list[Any] = []
        self._lock = threading.Lock()
        self._placed: WeakSet[Any] = WeakSet()

    def place(self, risk: Any) -> Any:
        """The risk with its parts in the processes, a `RemoteRisk`; a placed risk stays as it is."""
        if isinstance(risk, RemoteRisk):
            return risk
        groups = grouped(risk.n_parts, self.n_jobs)
        first = excerpt(risk, groups[0])        # refuses what cannot be placed before a process starts
        workplace = ProcessWorkplace(self, risk, groups)
        self._placed.add(workplace)
        try:
            workplace.start(first)
            return RemoteRisk(workplace, Description.of(risk), self.single, risk)
        except BaseException:
            workplace.close()
            raise

    def take(self) -> Any:
        """Return an idle process."""
        with self._lock:
            while self._free:
                process = self._free.pop()
                if process.is_alive():
                    return process
                process.close()
        return Process()

    def give_back(self, process: Any) -> None:
        """Keeps a process for the next risk."""
        with self._lock:
            self._free.append(process)

    def close(self) -> None:
        """End the processes, also those of risks that are still placed."""
        with interrupts_wait():
            for workplace in list(self._placed):
                workplace.close()
            with self._lock:
                end(self._free)
                self._free.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: Any) -> None:
        self.close()


class Process:
    """A process, the pipe to it, and the memory in which its answers come.

    Attributes
    ----------
    is_ready : bool
        It holds the parts that were sent, and can evaluate them.
    """

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True, name="pybundle")
        self._process.start()
        theirs.close()
        self.block, self.is_ready, self._sender = Block(), False, None
        # before multiprocessing waits at exit for what nobody has closed
        Finalize(self, kill, (self._process, self.block), exitpriority=0)

    def is_alive(self):
        return self._process.is_alive()

    def send_parts(self, message):
        """Send a possibly large message to a process that may not read; it answers "made"."""
        self.is_ready = False
        self._sender = threading.Thread(target=self._send, args=(message,), name="pybundle", daemon=True)
        self._sender.start()
        self._sender.join(STOP)

    def _send(self, message):
        with suppress(*LOST):           # its pipe reads as ended
            self.pipe.send_bytes(message)

    def terminate(self):
        self._process.terminate()

    def close(self, seconds=STOP):
        """Ends the process, whatever it does; it has so many seconds after `terminate`."""
        self._process.terminate()
        self._process.join(seconds)
        kill(self._process, self.block)
        if self._sender is not None:
            self._sender.join(STOP)
        self.pipe.close()


def kill(process, block):
    """Leaves neither the process nor its memory."""
    if process.is_alive():
        process.kill()
        process.join(STOP)
    block.close()


def end(processes):
    """Closes them, those that do not end together in the time of one."""
    for process in processes:
        process.terminate()
    until = time.monotonic() + STOP
    for process in processes:
        process.close(max(until - time.monotonic(), 0.0))


class ProcessWorkplace(Workplace):
    """One process a group; a process has one question at a time, the others wait here."""

    def __init__(self, executor, risk, groups):
        super().__init__(groups, len(groups))
        self._executor, self._risk = executor, risk
        self._points, self._spare = {}, []                  # blocks with the w of rounds, and empty ones
        self._queues = [deque() for _ in groups]            # (question, tries): the first one is being answered
        self._processes, self._until = [], [math.inf for _ in groups]       # when each is given up
        self._longest = 0.0                                 # seconds of an answer

    def start(self, first):
        """Send the parts to processes; `first` is the source of the first group."""
        for _ in self.groups:
            with interrupts_wait():
                self._processes.append(self._executor.take())
        for g in range(len(self.groups)):
            self._send_parts(g, first if g == 0 else None)

    def _send_parts(self, g, source=None):
        source = excerpt(self._risk, self.groups[g]) if source is None else source
        self._processes[g].send_parts(dumps(("parts", source, len(self.groups[g]))))
        patience = self._executor.patience
        self._until[g] = time.monotonic() + (math.inf if patience is None else max(patience, START))

    def ask(self, group, question, w):
        with interrupts_wait():     # a question that was noted but not sent would be waited for
            self._ask(group, question, w)

    def _ask(self, group, question, w):
        point = self._points.get(question.round)
        if point is None:
            block = self._spare.pop() if self._spare else Block()
            point = self._points[question.round] = [block, block.write([w]), 0]
        point[2] += 1
        self._queues[group].append([question, 1])
        if len(self._queues[group]) == 1 and self._processes[group].is_ready:
            self._send(group)

    def _send(self, g):
        question, process = self._queues[g][0][0], self._processes[g]
        block, layout, _ = self._points[question.round]
        with suppress(*LOST):           # its pipe reads as ended
            process.pipe.send_bytes(pickle.dumps(("ask", question, block.name, layout, process.block.name)))
        self._until[g] = time.monotonic() + self._patience()

    def _patience(self):
        """Seconds for an answer."""
        if self._executor.patience is not None:
            return self._executor.patience
        return max(SILENT, LONGER * self._longest) if self._longest > 0.0 else math.inf

    def answers(self, timeout=None):
        found, end = [], math.inf if timeout is None else time.monotonic() + timeout
        while not found and time.monotonic() < end:
            busy = {self._processes[g].pipe: g for g, waiting in enumerate(self._queues) if waiting}
            seconds = min([end, *(self._until[g] for g in busy.values())]) - time.monotonic()
            ready = wait(list(busy), None if seconds == math.inf else max(seconds, 0.0))
            for pipe in ready:
                with interrupts_wait():     # so would an answer that was taken but not noted
                    answer = self._receive(busy[pipe])
                if answer is not None:
                    found.append((busy[pipe], *answer))
            for g in busy.values():
                if self._processes[g].pipe not in ready and time.monotonic() >= self._until[g]:
                    with interrupts_wait():
                        self._replace(g, "did not answer")
        return found

    def _receive(self, g):
        """Return (question, answer) of a group whose pipe is readable; None if the message is incomplete."""
        process, question = self._processes[g], self._queues[g][0][0]
        try:
            kind, *rest = pickle.loads(process.pipe.recv_bytes())
        except LOST:
            self._replace(g, "ended")
            return None
        if kind == "made":
            process.is_ready = True
            self._send(g)
            return None
        if kind == "room":                  # the answer did not fit into the block
            process.block.reserve(rest[0])
            process.pipe.send_bytes(pickle.dumps(("block", process.block.name)))
            return None
        if kind == "broken":
            raise BundleError(f"parts {self.groups[g].tolist()} could not be made in their process: {rest[0]}")
        answer, layout = rest
        answer = answer._replace(arrays=process.block.read(layout))
        self._longest = max(self._longest, answer.seconds)
        self._queues[g].popleft()
        self._leave(question.round)
        if self._queues[g]:
            self._send(g)
        return question, answer

    def _replace(self, g, what):
        """Another process for a group whose process `what`; asks its question again."""
        entry = self._queues[g][0]
        self._processes[g].close()
        if entry[1] >= self._executor.max_tries:
            remedy = ("it may want memory, or the script lacks the line `if __name__ == \"__main__\":` that processes "
                      "need" if what == "ended" else "raise patience, or give the run a time_limit")
            raise BundleError(f"the process with parts {self.groups[g].tolist()} {what} {entry[1]} times; {remedy}")
        entry[1] += 1
        self._processes[g] = self._executor.take()
        self._send_parts(g)

    def _leave(self, number):
        """A group has answered a round; the block of its w is free after the last one."""
        point = self._points[number]
        point[2] -= 1
        if point[2] == 0:
            self._spare.append(self._points.pop(number)[0])

    def release(self):
        with interrupts_wait():
            for process, waiting in zip(self._processes, self._queues, strict=False):
                process.is_ready &= not waiting
            idle = [process for process in self._processes if process.is_ready]
            self._processes, self._queues = [process for process in self._processes if not process.is_ready], []
            for process in idle:
                with suppress(*LOST):           # one that has ended meanwhile is not taken again
                    process.pipe.send_bytes(pickle.dumps(("forget",)))
                self._executor.give_back(process)
            end(self._processes)
            for block in (*self._spare, *(point[0] for point in self._points.values())):
                block.close()
            self._processes, self._spare, self._points = [], [], {}


def serve(pipe):
    """What a process does: takes parts, answers questions, ends with its driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)        # Ctrl-C is the driver's, which then closes the pipe
    parts, problem, points, results = None, None, Window(), Window()
    while True:
        try:
            message = pipe.recv_bytes()
        except LOST:
            return
        try:
            kind, *rest = pickle.loads(message)
            if kind in ("parts", "forget"):
                parts = problem = None
            if kind == "parts":
                parts = Parts(*rest)
        except Exception as error:
            problem, kind = f"{type(error).__name__}: {error}", "parts"
        if kind == "parts":
            pipe.send_bytes(pickle.dumps(("made",)))
        if kind != "ask":
            continue
        if problem is not None:
            pipe.send_bytes(pickle.dumps(("broken", problem)))
            continue
        question, name, layout, room = rest
        w, = read(points.open(name), layout)
        answer, memory = parts.answer(question, w), results.open(room)
        needed = size_of(answer.arrays)
        if memory is None or memory.size < needed:
            pipe.send_bytes(pickle.dumps(("room", needed)))
            memory = results.open(pickle.loads(pipe.recv_bytes())[1])
        layout = write(memory, answer.arrays)
        pipe.send_bytes(pickle.dumps(("answer", answer._replace(arrays=[]), layout)))


def dumps(message):
    """Pickle; objects that another process cannot import are pickled by value if cloudpickle is installed."""
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(message)
    return cloudpickle.dumps(message)
