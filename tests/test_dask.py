"""Dask: the same bits, data that never were here, lost workers, a scheduler that goes."""

import logging
import os
import signal
import sys
import threading

import numpy as np
import pytest
from reference.small_risks import blobs, signs

import pybundle as pb

distributed = pytest.importorskip("distributed", reason="needs dask.distributed, the extra `dask`")
dask = pytest.importorskip("dask", reason="needs dask.distributed, the extra `dask`")


class Broken:
    def __call__(self):
        raise RuntimeError("no data")


def local_cluster(n_workers, processes):
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    return distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=processes,
                                    dashboard_address=":0", silence_logs=logging.CRITICAL)


@pytest.fixture(scope="module")
def client():
    with local_cluster(2, processes=False) as cluster, distributed.Client(cluster) as client:
        yield client


def test_a_client_is_an_executor(client):
    risk = blobs()
    a = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca", line_search=False)
    b = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca", executor=client)
    assert (a.x == b.x).all() and a.fun == b.fun and a.lower_bound == b.lower_bound
    assert 0.0 <= b.rounds["idle"] <= 1.0 and (b.rounds["bytes_out"] == 2 * 8 * risk.dim).all()
    assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) <= 4   # what is being released


def test_planes_come_without_waiting_with_dask(client):
    result = pb.minimize(blobs(), lam=1.0, tol=1e-2, method="oca", executor=client, deterministic=False)
    assert result.success


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
    a, b = (pb.minimize(risk, lam=1.0, tol=1e-3, method="oca", **options)
            for risk, options in ((remote, {}), (here, {"line_search": False})))
    assert (a.x == b.x).all() and a.lower_bound == b.lower_bound
    remote.close()


def test_an_example_that_fails_with_dask_and_data_that_cannot_be_made(client):
    with pytest.raises(pb.OracleError, match="for example 17: no way"):
        pb.minimize(signs(bad=17), lam=1.0, executor=client)
    risk = blobs()
    risk.excerpt = lambda numbers: Broken()
    with pytest.raises(pb.BundleError, match="could not be made at their worker: RuntimeError: no data"):
        pb.minimize(risk, lam=1.0, executor=client)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("victims", [1, 2])
def test_killed_workers_change_nothing(victims, seed):
    rng, risk = np.random.default_rng(seed), blobs()
    moment, delay = int(rng.integers(1, 10)), float(rng.uniform(0.0, 0.05))
    a = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca", line_search=False)
    with local_cluster(2, processes=True) as cluster, distributed.Client(cluster) as client:
        def kill(progress):
            if progress.n_iter == moment:
                pids = list(client.run(os.getpid).values())[:victims]
                threading.Timer(delay, lambda: [os.kill(pid, signal.SIGKILL) for pid in pids]).start()

        b = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca", executor=client, callback=kill)
    assert (a.x == b.x).all() and a.lower_bound == b.lower_bound


def test_workers_that_come_and_go_change_nothing():
    risk = blobs()
    a = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca", line_search=False)
    with local_cluster(2, processes=False) as cluster, distributed.Client(cluster) as client:
        def change(progress):
            if progress.n_iter == 2:
                cluster.scale(3)
            if progress.n_iter == 4:
                client.retire_workers(sorted(client.nthreads())[:1])

        b = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca", executor=client, callback=change)
    assert (a.x == b.x).all() and a.lower_bound == b.lower_bound


def test_a_newcomer_gets_parts_of_a_worker_with_too_many(monkeypatch):
    monkeypatch.setattr("pybundle.distributed.dask_workplace.BALANCE_EVERY", 0.0)
    risk = blobs()
    a = pb.minimize(risk, lam=1.0, tol=1e-2, method="oca", line_search=False)
    with local_cluster(1, processes=False) as cluster, distributed.Client(cluster) as client:
        remote = pb.distributed.Dask(client, n_groups=2).place(risk)
        remote.planes(np.ones(remote.dim))
        cluster.scale(2)
        client.wait_for_workers(2, timeout=30)
        b = pb.minimize(remote, lam=1.0, tol=1e-2, method="oca")
        homes = [keys for keys in client.has_what().values() if any("parts" in str(key) for key in keys)]
        remote.close()
    assert len(homes) == 2 and (a.x == b.x).all() and a.lower_bound == b.lower_bound


def test_a_scheduler_that_goes_is_named_and_the_state_kept():
    risk = blobs()
    cluster = local_cluster(1, processes=False)
    client = distributed.Client(cluster)

    def close(progress):
        if progress.n_iter == 3:
            cluster.close()

    try:
        with pytest.raises(pb.BundleError, match="scheduler is gone") as caught:
            pb.minimize(risk, lam=1.0, tol=1e-4, method="oca", executor=pb.distributed.Dask(client, patience=5.0),
                        callback=close)
    finally:
        client.close()
    state = caught.value.result
    best = pb.minimize(risk, lam=1.0, tol=1e-4, method="oca", warm_start=state)
    assert 0.0 < state.lower_bound <= best.fun <= state.fun and state.nit >= 3


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'pybundle-ml\[dask\]'"):
        pb.distributed.Dask(None)


def test_only_a_client_is_a_client():
    with pytest.raises(pb.InputTypeError, match=r"distributed\.Client"):
        pb.distributed.Dask(3)


def test_a_closed_client_is_named():
    with local_cluster(1, processes=False) as cluster:
        client = distributed.Client(cluster)
        executor = pb.distributed.Dask(client)
        client.close()
        for call in (lambda: pb.minimize(blobs(), lam=1.0, executor=client), lambda: executor.place(blobs()),
                     lambda: executor.risk_of([dask.delayed(blobs)()])):
            with pytest.raises(pb.ParameterError, match="client must be open, got one that is closed"):
                call()


def test_a_cluster_without_workers_is_named():
    with local_cluster(0, processes=False) as cluster, distributed.Client(cluster) as client:
        with pytest.raises(pb.BundleError, match="client must have a worker"):
            pb.minimize(blobs(), lam=1.0, executor=pb.distributed.Dask(client, patience=0.2))
