"""Handwritten digits over Dask: worker processes evaluate, this process solves.

This problem shows the calls; it is so small that one process is faster.
"""

import dask
from dask.distributed import Client, LocalCluster

import pybundle as pb

if __name__ == "__main__":  # worker processes import this file
    X, y, X_test, y_test = pb.datasets.load_digits()
    risk = pb.risks.MulticlassHinge(X, y, n_parts=8)
    # a worker that reports nothing for a minute is given up
    dask.config.set({"distributed.scheduler.worker-ttl": "60s"})
    # Client("tcp://scheduler:8786") connects to an existing cluster
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        result = pb.minimize(risk, lam=1.0, method="oca", tol=1e-2, executor=client)
    print(
        f"certified: {result.certified}, gap {result.gap:.1e}, {result.nit} rounds; "
        f"{result.rounds['bytes_in'].sum() / 1e6:.1f} MB of planes received"
    )
