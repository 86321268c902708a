"""Clusters that are elsewhere: a scheduler reached by its address, and connections with TLS."""

import logging
import re
import subprocess
import sys

import numpy as np
import pytest

import pybundle as pb

distributed = pytest.importorskip("distributed", reason="needs dask.distributed, the extra `dask`")


def blobs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8))
    return pb.risks.MulticlassHinge(X, (X @ rng.normal(size=(8, 3))).argmax(axis=1), n_parts=4)


@pytest.fixture
def started(tmp_path):
    """Starts commands of Dask, ends them after the test."""
    running = []

    def start(*arguments):
        # elsewhere: `-m` would import from a source tree without compiled modules here
        process = subprocess.Popen([sys.executable, "-m", *arguments], stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stderr.close()


def test_a_scheduler_by_its_address(started):
    scheduler = started("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                        "--no-show")
    address = next(found[0] for line in scheduler.stderr if (found := re.search(r"tcp://127\.0\.0\.1:\d+", line)))
    started("distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard")
    risk = blobs()
    with distributed.Client(address) as client:
        client.wait_for_workers(1, timeout=180)
        result = pb.minimize(risk, lam=1.0, tol=1e-3, executor=client)
        alone = pb.minimize(risk, lam=1.0, tol=1e-3, method="oca line_search=False")
    assert result.success and (result.x == alone.x).all() and result.lower_bound == alone.lower_bound


def test_connections_with_tls():
    pytest.importorskip("cryptography", reason="distributed makes certificates with it")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    security = distributed.Security.temporary()
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, protocol="tls://",
                                  security=security, dashboard_address=":0", silence_logs=logging.CRITICAL) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        with distributed.Client(address, security=security) as client:
            assert pb.minimize(blobs(), lam=1.0, tol=1e-3, executor=client).success
