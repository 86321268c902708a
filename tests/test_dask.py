"""Dask: the same bits, data that never were here, lost workers, a scheduler that goes."""

import asyncio
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from reference.dask_tasks import tasks_in_the_end
from reference.small_risks import blobs, signs

import pybundle as pb
from pybundle.distributed.dask_workplace import DaskWorkplace

distributed = pytest.importorskip("distributed", reason="needs dask.distributed, the extra `dask`")
dask = pytest.importorskip("dask", reason="needs dask.distributed, the extra `dask`")


SEEDS = pytest.mark.parametrize("seed", range(2))
ROUTES = pytest.mark.parametrize("route", ["scheduler", "direct"])


class Paused:
    """An excerpt whose risk takes its time for a pass."""

    def __init__(self, excerpt, seconds):
        self._excerpt, self._seconds, self.rows = excerpt, seconds, excerpt.rows

    def __call__(self):
        risk, seconds = self._excerpt(), self._seconds

        class Slow(type(risk)):
            def planes(self, w):
                time.sleep(seconds)
                return super().planes(w)

        risk.__class__ = Slow
        return risk


class Held:
    """An excerpt whose risk answers once it `may_answer`; workers are threads of this process."""

    may_answer = threading.Event()

    def __init__(self, excerpt):
        self._excerpt, self.rows = excerpt, excerpt.rows

    def __call__(self):
        risk = self._excerpt()

        class Waiting(type(risk)):
            def planes(self, w):
                if threading.current_thread() is not threading.main_thread():
                    Held.may_answer.wait(120.0)     # only so that a failure ends
                return super().planes(w)

        risk.__class__ = Waiting
        return risk


class Uneven(pb.risks.MulticlassHinge):
    """A pass over one part takes 20 times as long as over another."""

    slow = 0

    def excerpt(self, numbers):
        found = super().excerpt(numbers)
        plain = type(found)(pb.risks.MulticlassHinge, found.arguments, found.rows)
        return Paused(plain, 0.02 if self.slow in numbers else 0.001)


class Broken:
    def __call__(self):
        raise RuntimeError("no data")


def local_cluster(n_workers, processes, **options):
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    return distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=processes,
                                    dashboard_address=":0", silence_logs=logging.CRITICAL, **options)


@pytest.fixture(scope="module")
def client():
    with local_cluster(2, processes=False) as cluster, distributed.Client(cluster) as client:
        yield client


def test_a_client_is_an_executor(client):
    risk = blobs()
    a = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca line_search=False")
    b = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca", executor=client)
    assert (a.x == b.x).all() and a.fun == b.fun and a.lower_bound == b.lower_bound
    assert 0.0 <= b.rounds["idle"] <= 1.0 and (b.rounds["bytes_out"] == 2 * 8 * risk.dim).all()
    assert tasks_in_the_end(client) == 0


def transitions(client):
    """Of tasks at the scheduler so far."""
    return client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter)


@pytest.mark.parametrize("n_groups", [2, 5])
def test_questions_past_the_scheduler_change_nothing(n_groups, client):
    risk = blobs()
    a = undisturbed(risk)
    remote = pb.distributed.Dask(client, n_groups=n_groups, route="direct").place(risk)
    remote.planes(np.zeros(risk.dim))           # the parts have been made
    log = transitions(client)
    b = pb.minimize(remote, lam=1.0, tol=1e-2, method="oca")
    asked = transitions(client) - log
    remote.close()
    assert (a.x == b.x).all() and a.lower_bound == b.lower_bound and asked < b.nit


@pytest.mark.parametrize("fails", ["the worker forgets", "the way is closed"])
def test_questions_that_fail_past_the_scheduler_go_through_it(fails, client, monkeypatch):
    from pybundle.distributed import dask_direct

    tried, exchange = [], dask_direct.exchange

    def counted(client, address, name, *rest):
        tried.append((name, address))
        return exchange(client, address, name, *rest)

    monkeypatch.setattr("pybundle.distributed.dask_workplace.BALANCE_EVERY", 1e9)
    risk = blobs()
    a = undisturbed(risk)
    remote = pb.distributed.Dask(client, route="direct").place(risk)
    for _ in range(2):                          # the parts are made, then found
        remote.planes(np.zeros(risk.dim))
    monkeypatch.setattr(dask_direct, "exchange", counted)
    if fails == "the worker forgets":
        client.run(lambda dask_worker: dask_worker.handlers.pop(dask_direct.OPERATION))
    else:
        monkeypatch.setattr(dask_direct, "OPERATION", "no_such_operation")
    b = pb.minimize(remote, lam=1.0, tol=1e-2, method="oca")
    remote.close()
    client.unregister_worker_plugin(dask_direct.Mailbox.name)      # so that it is set up anew
    assert (a.x == b.x).all() and a.lower_bound == b.lower_bound
    assert len(tried) == 2 * len(set(tried)) == 4 < b.nit       # a try may take a timeout of half a minute


def test_another_version_at_the_workers_is_not_asked():
    from pybundle.distributed import dask_direct

    class Older(distributed.WorkerPlugin):
        name = dask_direct.Mailbox.name.replace(pb.__version__, "0.0")
        idempotent = True

        def setup(self, worker):
            worker.handlers[dask_direct.OPERATION.replace(pb.__version__, "0.0")] = lambda **asked: {"answer": None}

    risk = blobs()
    with local_cluster(1, processes=False) as cluster, distributed.Client(cluster) as client:
        client.register_plugin(Older())
        remote = pb.distributed.Dask(client, route="direct").place(risk)
        remote.planes(np.zeros(risk.dim))
        log = transitions(client)
        result = pb.minimize(remote, lam=1.0, tol=1e-2, method="oca")
        asked = transitions(client) - log
        remote.close()
    assert asked < result.nit


def test_an_answer_that_comes_after_its_worker_was_missed_is_ignored(monkeypatch):
    from pybundle.distributed import dask_direct

    exchange, silent = dask_direct.exchange, []

    async def first_silent(client, address, name, key, *rest):
        if not silent:
            silent.append((address, key, rest[-1]))
        else:
            await exchange(client, address, name, key, *rest)

    risk = blobs()
    w = np.random.default_rng(0).normal(size=(2, risk.dim))
    with local_cluster(2, processes=False) as cluster, distributed.Client(cluster) as client:
        remote = pb.distributed.Dask(client, route="direct").place(risk)
        remote.planes(np.zeros(risk.dim))
        monkeypatch.setattr(dask_direct, "exchange", first_silent)
        retire = threading.Timer(0.5, lambda: client.retire_workers([silent[0][0]]))
        retire.start()
        assert (remote.planes(w[0]).values == risk.planes(w[0]).values).all()
        retire.join()
        _, key, done = silent[0]
        done.put(dask_direct.Reply(key, "of another w"))
        assert (remote.planes(w[1]).values == risk.planes(w[1]).values).all()
        remote.close()


def test_patience_counts_from_the_first_look_without_a_worker(client, monkeypatch):
    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

    clock, looks = Clock(), []
    monkeypatch.setattr("pybundle.distributed.dask_workplace.time", clock)
    risk, zero = blobs(), np.zeros(blobs().dim)
    risk.excerpt = lambda numbers: Held(type(risk).excerpt(risk, numbers))
    remote = pb.distributed.Dask(client, patience=0.7).place(risk)
    workers = client.nthreads

    def once_none():
        looks.append(clock.now)
        if len(looks) == 3:
            Held.may_answer.set()
        return workers() if len(looks) > 1 else {}

    monkeypatch.setattr(client, "nthreads", once_none)
    Held.may_answer.clear()
    ask = remote._workplace.ask

    def ask_slowly(*asked):
        ask(*asked)
        clock.now += 0.8                        # during which the workers were there

    monkeypatch.setattr(remote._workplace, "ask", ask_slowly)
    assert (remote.planes(zero).values == risk.planes(zero).values).all() and len(looks) >= 3
    monkeypatch.undo()
    monkeypatch.setattr("pybundle.distributed.dask_workplace.time", clock)

    def none():
        looks.append(clock.now)
        clock.now += 0.4
        return {}

    monkeypatch.setattr(client, "nthreads", none)
    Held.may_answer.clear()
    looks.clear()
    with pytest.raises(pb.BundleError, match=r"no Dask worker for 0\.7 s"):
        remote.planes(zero)
    assert len(looks) == 3                      # 0, 0.4 and 0.8 s after the first
    Held.may_answer.set()
    remote.close()


def test_risks_that_were_never_here(client):
    remote = pb.distributed.Dask(client).risk_of([dask.delayed(blobs)(seed=k, n_parts=2) for k in range(3)], n_parts=2)
    wholes = [blobs(seed=k, n_parts=2) for k in range(3)]
    w = np.random.default_rng(0).normal(size=remote.dim)
    assert remote.n_examples == 720 and remote.n_parts == 6
    assert (remote.evaluate(w)[0] == np.concatenate([risk.evaluate(w)[0] for risk in wholes])).all()
    result = pb.minimize(remote, lam=1.0, tol=1e-2)
    assert result.success and result.certified
    remote.close()


def test_dask_arrays_stay_where_they_are(client):
    import dask.array as da

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 5)), rng.integers(0, 3, size=90)
    rows, labels = da.from_array(X, chunks=(30, 5)), da.from_array(y, chunks=30)
    blocks = zip(rows.to_delayed().ravel(), labels.to_delayed().ravel(), strict=True)
    hinge = dask.delayed(pb.risks.MulticlassHinge)
    remote = pb.distributed.Dask(client).risk_of([hinge(rows, labels, n_classes=3) for rows, labels in blocks])
    here = pb.risks.MulticlassHinge(X, y, n_parts=3, partition="contiguous")
    a, b = (pb.minimize(risk, lam=1.0, tol=1e-3, method=method)
            for risk, method in ((remote, "oca"), (here, "oca line_search=False")))
    assert (a.x == b.x).all() and a.lower_bound == b.lower_bound
    remote.close()


def test_an_example_that_fails_with_dask_and_data_that_cannot_be_made(client):
    with pytest.raises(pb.OracleError, match="for example 17: no way"):
        pb.minimize(signs(bad=17), lam=1.0, executor=client)
    risk = blobs()
    risk.excerpt = lambda numbers: Broken()
    with pytest.raises(pb.BundleError, match="could not be made at their worker: RuntimeError: no data"):
        pb.minimize(risk, lam=1.0, executor=client)


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("what", ["ask", "answers"])
def test_ctrl_c_while_workers_are_asked_ends_the_run_with_its_certificate(what, written, client, monkeypatch, tmp_path):
    calls, original = [], getattr(DaskWorkplace, what)

    def interrupted(self, *asked):
        found = original(self, *asked)
        calls.append(len(calls))
        if len(calls) == 9:
            signal.raise_signal(signal.SIGINT)
        return found
    monkeypatch.setattr(DaskWorkplace, what, interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)       # a job in the background ignores it
    options = {"lam": 0.1, "tol": 1e-9, "method": "bmrm", "checkpoint": tmp_path / "run.npz" if written else None}
    try:
        result = pb.minimize(blobs(), executor=client, **options)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.status is pb.Status.INTERRUPTED and result.certified and len(calls) > 9
    monkeypatch.undo()
    assert pb.minimize(signs(), lam=1.0, executor=client).success
    if written:
        again = pb.minimize(blobs(), executor=client, **options, max_iter=result.nit + 3)
        assert again.nit == result.nit + 3 and again.lower_bound >= result.lower_bound


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
def test_workers_that_never_answer_hold_no_time_limit(client):
    risk = blobs()
    risk.excerpt = lambda numbers: Held(type(risk).excerpt(risk, numbers))
    Held.may_answer.clear()
    try:
        result = pb.minimize(risk, lam=1.0, method="oca", time_limit=0.1, executor=client)
    finally:
        Held.may_answer.set()
    assert result.status is pb.Status.TIME_LIMIT and result.certified


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
def test_an_answer_that_a_stopped_worker_holds_holds_no_time_limit(client, monkeypatch):
    """`result` waited as long as somebody held the answer: half a minute beyond the limit."""
    began, asked, result_of = time.monotonic(), [], distributed.Future.result

    def result(self, timeout=None):
        asked.append(timeout)
        if len(asked) < 8:
            return result_of(self, timeout)
        time.sleep(timeout)
        raise TimeoutError

    monkeypatch.setattr(distributed.Future, "result", result)
    result = pb.minimize(blobs(), lam=0.1, tol=1e-12, method="bmrm", n_parts=2, time_limit=1.0, executor=client)
    assert result.status is pb.Status.TIME_LIMIT and result.certified and result.nit >= 2
    assert time.monotonic() < began + 15.0


# ---------------------------------------------------------------------- faults at random moments

def undisturbed(risk, **options):
    return pb.minimize(risk, lam=1.0, tol=1e-2, method="oca line_search=False", **options)


def disturbed(risk, client, at, act, **options):
    """The same over Dask, with `act()` after iteration `at`."""
    acted = []

    def disturb(progress):
        if progress.n_iter == at:
            acted.append(act())

    executor = pb.distributed.Dask(client, **options)
    result = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca", executor=executor, callback=disturb)
    assert len(acted) == 1
    return result


@pytest.fixture
def nannies():
    """Two workers in processes of their own, which come back; but not one that dies while it starts, hence each test's.
    """
    with local_cluster(2, processes=True) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def lone_workers(tmp_path):
    """Two workers in processes of their own, which nobody starts again."""
    with local_cluster(0, processes=False, protocol="tcp") as cluster, distributed.Client(cluster) as client:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--no-nanny",
                   "--nthreads", "1", "--no-dashboard"]
        processes = [subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=tmp_path) for _ in range(2)]
        client.wait_for_workers(2, timeout=180)
        yield client
        for process in processes:
            process.kill()
            process.wait()


def test_a_model_in_plain_python_has_the_same_bits_in_worker_processes(nannies):
    a, b, c = (pb.minimize(signs(), lam=1.0, tol=1e-3, method="oca", n_parts=4, executor=executor)
               for executor in (None, nannies, nannies))
    assert (a.x == b.x).all() and a.lower_bound == b.lower_bound and (b.x == c.x).all()
    with pytest.raises(pb.OracleError, match="for example 5: no way"):
        pb.minimize(signs(bad=5), lam=1.0, executor=nannies)


@pytest.mark.slow
@pytest.mark.parametrize("what, route, seed", [
    ("one killed", "scheduler", 0), ("all killed", "direct", 2), ("one restarted", "scheduler", 3)])
def test_lost_workers_change_nothing(what, route, seed, nannies):
    rng, risk = np.random.default_rng(seed), blobs(seed=seed)
    a, delay = undisturbed(risk), float(rng.uniform(0.0, 0.05))

    def kill():
        if what == "one restarted":
            return nannies.restart_workers(sorted(nannies.nthreads())[:1], timeout=180, raise_for_error=False)
        pids = list(nannies.run(os.getpid).values())[:1 if what == "one killed" else 2]
        timer = threading.Timer(delay, lambda: [os.kill(pid, signal.SIGKILL) for pid in pids])
        timer.start()
        return timer

    # nannies that a sanitizer slows down take more than the usual patience to start workers
    b = disturbed(risk, nannies, int(rng.integers(1, a.nit)), kill, route=route, patience=300.0)
    assert (a.x == b.x).all() and a.lower_bound == b.lower_bound


def rings():
    """Graphs with one cycle, whose relaxed maxima need messages."""
    rng = np.random.default_rng(0)
    nodes = np.arange(12)
    edges = np.stack([nodes, (nodes + 1) % 12], axis=1)
    Y = [np.sort(rng.integers(0, 3, 12)) for _ in range(20)]
    X = [pb.Graph(np.eye(3)[y] + rng.normal(size=(12, 3)), edges, np.column_stack([np.ones(12), rng.normal(size=12)]))
         for y in Y]
    return pb.risks.Structured(pb.models.GraphLabeling(3, 3, 2), X, Y)


@pytest.mark.slow
def test_messages_that_die_with_their_worker_are_no_part_of_the_proof(nannies):
    """Another worker decodes from other messages, so that bits differ, but bounds hold."""
    risk = rings()
    a = undisturbed(risk)

    def kill():
        os.kill(next(iter(nannies.run(os.getpid).values())), signal.SIGKILL)

    b = disturbed(risk, nannies, a.nit // 2, kill, route="scheduler", patience=300.0)
    oracle = risk.oracle()
    oracle.accuracies[:] = 1e-3
    found = oracle.solve_batch(np.arange(risk.n_examples), oracle.prepare(b.x))
    least, most = (0.5 * b.x @ b.x + values.sum() for values in (found.values, found.uppers))
    assert b.success and b.certified and b.risk == "relaxed"
    assert b.lower_bound <= most and least <= b.fun + 1e-9 and most - least <= 0.05
    assert max(a.lower_bound, b.lower_bound) <= min(a.fun, b.fun)


@pytest.mark.slow
def test_a_worker_that_stops_without_a_word_is_not_waited_for(lone_workers, monkeypatch):
    from pybundle.distributed import dask_direct

    client, risk = lone_workers, blobs()
    a = undisturbed(risk)
    address, pid = sorted(client.run(os.getpid).items())[0]

    async def miss(dask_scheduler):             # as it does after `worker-ttl`
        await dask_scheduler.remove_worker(address, stimulus_id="not heard of", close=False)

    def freeze():
        os.kill(pid, signal.SIGSTOP)
        timer = threading.Timer(0.5, client.run_on_scheduler, [miss])
        timer.start()
        return timer

    goes_on, exchange = threading.Timer(300.0, os.kill, [pid, signal.SIGCONT]), dask_direct.exchange
    goes_on.start()                             # only so that a failure ends

    async def unbroken(client, at, name, key, question, w, done):   # some systems end such connections after a while
        replies = queue.SimpleQueue()
        await exchange(client, at, name, key, question, w, replies)
        reply = replies.get()
        while at == address and reply.answer is None and not goes_on.finished.is_set():
            await asyncio.sleep(0.1)
        done.put(reply)

    monkeypatch.setattr(dask_direct, "exchange", unbroken)
    b = disturbed(risk, client, a.nit // 2, freeze, route="direct")
    was_asked_elsewhere = goes_on.is_alive()
    goes_on.cancel()
    os.kill(pid, signal.SIGKILL)
    assert was_asked_elsewhere and (a.x == b.x).all() and a.lower_bound == b.lower_bound


@SEEDS
@ROUTES
def test_workers_that_come_and_go_change_nothing(route, seed):
    rng, risk = np.random.default_rng(seed), blobs(seed=seed)
    a = undisturbed(risk)
    with local_cluster(2, processes=False) as cluster, distributed.Client(cluster) as client:
        def change():
            cluster.scale(3)
            if seed:
                client.retire_workers(sorted(client.nthreads())[:1])

        b = disturbed(risk, client, int(rng.integers(1, a.nit)), change, route=route)
    assert (a.x == b.x).all() and a.lower_bound == b.lower_bound


def test_a_slow_worker_changes_nothing(client):
    risk = blobs(kind=Uneven)
    risk.slow = 5
    a = undisturbed(blobs())
    b = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca", executor=pb.distributed.Dask(client, n_groups=6))
    assert b.success and b.certified and (a.x == b.x).all() and a.lower_bound == b.lower_bound
    assert b.rounds["longest"].max() >= 0.02


@SEEDS
def test_empty_shards_change_nothing(seed, client):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    risk = pb.risks.BinaryHinge(rng.normal(size=(n, 2)), np.where(np.arange(n) % 2, 1, -1), n_parts=7)
    a, b = undisturbed(risk), pb.minimize(risk, lam=1.0, tol=1e-2, method="oca", executor=client)
    assert (a.x == b.x).all() and a.lower_bound == b.lower_bound and b.certified


@SEEDS
def test_an_oracle_that_raises_on_one_example_is_named(seed, client):
    i = int(np.random.default_rng(seed).integers(30))
    with pytest.raises(pb.OracleError, match=f"ZeroDivisionError for example {i}: no way") as caught:
        pb.minimize(signs(bad=i), lam=1.0, executor=client)
    assert "loss_augmented_decode" in "".join(caught.value.__notes__)
    assert caught.value.result.lower_bound <= caught.value.result.fun


def test_a_newcomer_gets_parts_of_a_worker_with_too_many(monkeypatch):
    monkeypatch.setattr("pybundle.distributed.dask_workplace.BALANCE_EVERY", 0.0)
    risk = blobs()
    a = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca line_search=False")
    with local_cluster(1, processes=False) as cluster, distributed.Client(cluster) as client:
        remote = pb.distributed.Dask(client, n_groups=2).place(risk)
        remote.planes(np.ones(remote.dim))
        cluster.scale(2)
        client.wait_for_workers(2, timeout=180)
        b = pb.minimize(remote, lam=1.0, tol=1e-2, method="oca")
        homes = [keys for keys in client.has_what().values() if any("parts" in str(key) for key in keys)]
        remote.close()
    assert len(homes) == 2 and (a.x == b.x).all() and a.lower_bound == b.lower_bound


@SEEDS
@ROUTES
@pytest.mark.parametrize("what", ["scheduler", "client"])
def test_a_scheduler_or_client_that_goes_is_named_and_the_certified_state_kept(what, route, seed, tmp_path):
    risk, moment = blobs(seed=seed), int(np.random.default_rng(seed).integers(2, 12))
    cluster = local_cluster(1, processes=False)
    client = distributed.Client(cluster)
    options = {"lam": 1.0, "tol": 1e-4, "method": "oca", "checkpoint": tmp_path / "run.npz"}

    def close(progress):
        if progress.n_iter == moment:
            (cluster if what == "scheduler" else client).close()

    executor = pb.distributed.Dask(client, patience=2.0, route=route)
    try:
        with pytest.raises(pb.BundleError, match="scheduler is gone, or the client was closed") as caught:
            pb.minimize(risk, **options, executor=executor, callback=close)
    finally:
        client.close()
        cluster.close()
    known = caught.value.result
    assert known.certified and known.nit >= moment
    for best in (pb.minimize(risk, lam=1.0, tol=1e-4, method="oca", warm_start=known), pb.minimize(risk, **options)):
        assert 0.0 < known.lower_bound <= best.fun <= known.fun and best.success


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'pybundle-ml\[dask\]'"):
        pb.distributed.Dask(None)


def test_only_a_client_is_a_client():
    with pytest.raises(pb.InputTypeError, match=r"distributed\.Client"):
        pb.distributed.Dask(3)


def test_what_no_solve_can_work_with_is_named(client):
    async def solve():
        async with distributed.Client(client.scheduler.address, asynchronous=True, set_as_default=False) as other:
            pb.minimize(blobs(), lam=1.0, executor=other)
    with pytest.raises(pb.ParameterError, match="client must be one that waits"):
        asyncio.run(solve())
    with pytest.raises(pb.BundleError, match="delayed must give risks, got int"):
        pb.distributed.Dask(client).risk_of([dask.delayed(int)(3)])


def test_a_scheduler_that_is_gone_at_the_start_is_named():
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        cluster = local_cluster(1, processes=False)
        client = distributed.Client(cluster)
        executor = pb.distributed.Dask(client, patience=1.0)
        cluster.close()
        try:
            with pytest.raises(pb.BundleError, match=r"scheduler|client"):
                executor.place(blobs())
        finally:
            client.close()


def test_a_closed_client_is_named():
    with local_cluster(1, processes=False) as cluster:
        client = distributed.Client(cluster)
        executor = pb.distributed.Dask(client)
        client.close()
        for call in (lambda: pb.minimize(blobs(), lam=1.0, executor=client), lambda: executor.place(blobs()),
                     lambda: executor.risk_of([dask.delayed(blobs)()])):
            with pytest.raises(pb.ParameterError, match="client must be open, got one that is closed"):
                call()


@ROUTES
@pytest.mark.parametrize("moment", ["before the first question", "parts may move", "an answer is fetched"])
def test_a_client_closed_between_questions_is_named(moment, route, monkeypatch):
    risk = blobs()
    with local_cluster(1, processes=False) as cluster:
        client = distributed.Client(cluster)
        remote = pb.distributed.Dask(client, route=route).place(risk)
        if moment == "parts may move":
            remote.planes(np.zeros(risk.dim))
            monkeypatch.setattr("pybundle.distributed.dask_workplace.BALANCE_EVERY", 0.0)
        if moment == "an answer is fetched":    # from a worker that was lost meanwhile
            def result(self, timeout=None):
                client.close()
                raise TimeoutError

            monkeypatch.setattr(distributed.Future, "result", result)
        else:
            client.close()
        with pytest.raises(pb.BundleError, match="client was closed"):
            remote.planes(np.zeros(risk.dim))


def test_a_cluster_without_workers_is_named():
    with local_cluster(0, processes=False) as cluster, distributed.Client(cluster) as client:
        executor = pb.distributed.Dask(client, patience=0.2)
        for call in (lambda: pb.minimize(blobs(), lam=1.0, executor=executor),
                     lambda: executor.risk_of(client.map(lambda seed: blobs(seed=seed), range(2)))):
            with pytest.raises(pb.BundleError, match="client must have a worker"):
                call()
