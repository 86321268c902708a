"""Parts of a risk in resident processes of this machine, for Python oracles that hold the GIL."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import threading
import time
from collections import deque
from multiprocessing.connection import wait
from weakref import WeakSet

from ..core.exceptions import BundleError
from ..core.validation import check_choice, check_integer
from ..runtime.executors import check_jobs
from ..runtime.interrupts import interrupts_wait
from .parts import Description, Parts
from .risk import RemoteRisk
from .shared import Block, Window, read, size_of, write
from .workplace import Workplace, excerpt, grouped

LOST = (EOFError, BrokenPipeError, ConnectionResetError, OSError)


class Processes:
    """Executor with processes of its own, each of which keeps some parts of the risk.

    A round costs one copy of w into shared memory and one of the planes out of it; nothing is pickled but the parts,
    once. Where oracles release the GIL, as those of `pb.models` do, threads (`n_jobs`) do the same without copies.

    Parameters
    ----------
    n_jobs : int
        Processes, -1 for one a processor. They start with the first risk and stay until `close`.
    compress : {"exact", "float32"}
        As in `Dask`.
    max_tries : int
        Times that a question is asked after its process ended, for instance for want of memory.

    Notes
    -----
    Processes start afresh and import the main module, so a script needs `if __name__ == "__main__":`. Models of a
    notebook travel where cloudpickle is installed.

    Examples
    --------
    >>> import pybundle as pb
    >>> with pb.distributed.Processes(2) as executor:                               # doctest: +SKIP
    ...     result = pb.minimize(risk, lam=1.0, n_parts=16, executor=executor)
    """

    def __init__(self, n_jobs, *, compress="exact", max_tries=3):
        self.n_jobs = check_jobs(n_jobs)
        self.single = check_choice("compress", compress, ("exact", "float32")) == "float32"
        self.max_tries = check_integer("max_tries", max_tries, low=1)
        self._free, self._lock, self._placed = [], threading.Lock(), WeakSet()

    def place(self, risk):
        """The risk with its parts in the processes, a `RemoteRisk`; a placed risk stays as it is."""
        if isinstance(risk, RemoteRisk):
            return risk
        groups = grouped(risk.n_parts, self.n_jobs)
        first = excerpt(risk, groups[0])        # refuses what cannot be placed before a process starts
        workplace = ProcessWorkplace(self, risk, groups, first)
        self._placed.add(workplace)
        return RemoteRisk(workplace, Description.of(risk), self.single)

    def take(self):
        """A process that nobody uses."""
        with self._lock:
            while self._free:
                process = self._free.pop()
                if process.is_alive():
                    return process
                process.close()
        return Process()

    def give_back(self, process):
        """Keeps a process for the next risk."""
        with self._lock:
            self._free.append(process)

    def close(self):
        """Ends the processes, also those of risks that are still placed."""
        for workplace in list(self._placed):
            workplace.close()
        with self._lock:
            for process in self._free:
                process.close()
            self._free.clear()

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.close()


class Process:
    """A process, the pipe to it, and the memory in which its answers come."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True, name="pybundle")
        self._process.start()
        theirs.close()
        self.block = Block()

    def is_alive(self):
        return self._process.is_alive()

    def close(self):
        """Ends the process, whatever it does."""
        self.pipe.close()
        self._process.terminate()
        self._process.join()
        self.block.close()


class ProcessWorkplace(Workplace):
    """One process a group; a process has one question at a time, the others wait here."""

    def __init__(self, executor, risk, groups, first):
        super().__init__(groups, len(groups))
        self._executor, self._risk = executor, risk
        self._points, self._spare = {}, []                  # blocks with the w of rounds, and empty ones
        self._queues = [deque() for _ in groups]            # (question, tries): the first one is being answered
        self._processes = [executor.take() for _ in groups]
        for g in range(len(groups)):
            self._send_parts(g, first if g == 0 else None)

    def _send_parts(self, g, source=None):
        source = excerpt(self._risk, self.groups[g]) if source is None else source
        try:
            self._processes[g].pipe.send_bytes(dumps(("parts", source, len(self.groups[g]))))
        except LOST:
            pass                    # the first question finds the process gone

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
        if len(self._queues[group]) == 1:
            self._send(group)

    def _send(self, g):
        question, process = self._queues[g][0][0], self._processes[g]
        block, layout, _ = self._points[question.round]
        try:
            process.pipe.send_bytes(pickle.dumps(("ask", question, block.name, layout, process.block.name)))
        except LOST:
            pass                    # its pipe reads as ended

    def answers(self, timeout=None):
        found, end = [], None if timeout is None else time.monotonic() + timeout
        while not found and (end is None or time.monotonic() < end):
            busy = {self._processes[g].pipe: g for g, waiting in enumerate(self._queues) if waiting}
            for pipe in wait(list(busy), None if end is None else max(end - time.monotonic(), 0.0)):
                with interrupts_wait():     # so would an answer that was taken but not noted
                    answer = self._receive(busy[pipe])
                if answer is not None:
                    found.append((busy[pipe], *answer))
        return found

    def _receive(self, g):
        """(question, answer) of a group whose pipe has something to say; None where there is more to wait for."""
        process, question = self._processes[g], self._queues[g][0][0]
        try:
            kind, *rest = pickle.loads(process.pipe.recv_bytes())
        except LOST:
            self._replace(g)
            return None
        if kind == "room":                  # the answer did not fit into the block
            process.block.reserve(rest[0])
            process.pipe.send_bytes(pickle.dumps(("block", process.block.name)))
            return None
        if kind == "broken":
            raise BundleError(f"parts {self.groups[g].tolist()} could not be made in their process: {rest[0]}")
        answer, layout = rest
        answer = answer._replace(arrays=process.block.read(layout))
        self._queues[g].popleft()
        self._leave(question.round)
        if self._queues[g]:
            self._send(g)
        return question, answer

    def _replace(self, g):
        """Another process for a group whose process has ended; asks its question again."""
        entry = self._queues[g][0]
        self._processes[g].close()
        if entry[1] >= self._executor.max_tries:
            raise BundleError(f"the process with parts {self.groups[g].tolist()} ended {entry[1]} times; it may want "
                              "memory, or the script lacks the line `if __name__ == \"__main__\":` that processes need")
        entry[1] += 1
        self._processes[g] = self._executor.take()
        self._send_parts(g)
        self._send(g)

    def _leave(self, number):
        """A group has answered a round; the block of its w is free after the last one."""
        point = self._points[number]
        point[2] -= 1
        if point[2] == 0:
            self._spare.append(self._points.pop(number)[0])

    def release(self):
        for process, waiting in zip(self._processes, self._queues, strict=True):
            try:
                if waiting:
                    raise BrokenPipeError("a question is still open")
                process.pipe.send_bytes(pickle.dumps(("forget",)))
                self._executor.give_back(process)
            except LOST:
                process.close()
        for block in (*self._spare, *(point[0] for point in self._points.values())):
            block.close()
        self._processes, self._queues, self._spare, self._points = [], [], [], {}


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
    """Pickled; by value what another process could not import, where cloudpickle is there."""
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(message)
    return cloudpickle.dumps(message)
