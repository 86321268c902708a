"""Memory does not grow over a thousand solves: classes, callbacks, handles and errors let go of what they took."""

import gc
from pathlib import Path

import numpy as np
import pytest
from native.build import sample
from test_capi import Outcome

import pybundle as pb

STATM = Path("/proc/self/statm")
ROUNDS, SETTLED = 72, 24        # solves of every kind in all, and until allocators have all they want


def resident():
    """Bytes of this process in memory."""
    import resource

    gc.collect()
    return int(STATM.read_text().split()[1]) * resource.getpagesize()


def chain_risk():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, 4)) for _ in range(20)]
    return pb.risks.Structured(pb.models.Chain(3, 4), X, [rng.integers(0, 3, 5) for _ in X])


def fails(risk, method):
    try:
        pb.minimize(risk, lam=1.0, method=method)
    except pb.OracleError:
        return
    raise AssertionError("no error")


@pytest.mark.slow
def test_memory_does_not_grow_over_a_thousand_solves():
    if not STATM.exists():
        pytest.skip("no /proc to read the memory of this process from")
    data, broken = sample(n=30), sample(n=30, bad_example=5, mistake=7)
    X, y = data.arrays
    hinge, log, chain = pb.risks.MulticlassHinge(X, y), pb.risks.Logistic(X, np.where(y, 1, -1)), chain_risk()
    sparse = pb.risks.Function(lambda w: (abs(w).sum(), np.sign(w)), 12)
    kinds = [lambda risk=risk, method=method: pb.minimize(risk, lam=1.0, tol=1e-2, method=method) for risk, method in [
        (hinge, "auto"), (hinge, "oca"), (hinge, "alm"), (log, "lbfgs"), (chain, "prox-bcfw"), (chain, "mp-bcfw"),
        (sparse, "bmrm")]]
    kinds += [lambda: pb.minimize(data.risk(), lam=1.0, method="oca", n_jobs=2),
              lambda: pb.minimize(data.examples(), lam=1.0, n_jobs=2),
              lambda: fails(broken.risk(), "oca"), lambda: fails(broken.examples(), "bcfw"),
              lambda: Outcome(data, "oca"), lambda: Outcome(data, "auto", by_example=True),
              lambda: Outcome(broken, "oca")]
    assert ROUNDS * len(kinds) >= 1000
    for k in range(ROUNDS):
        if k == SETTLED:
            before = resident()
        for solve in kinds:
            solve()
    assert resident() - before < 1 << 20            # 1.6 kB a solve: less than its smallest array and its history
