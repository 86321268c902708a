"""Memory does not grow over hundreds of solves: classes, callbacks, handles and errors let go of what they took."""

import ctypes
import gc
import logging
import sys

import numpy as np
import pytest
from native.build import sample
from test_capi import Outcome

import pybundle as pb

ROUNDS, SETTLED = 36, 12        # solves of every kind in all, and until caches have all they want


class Heap(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def in_use(library):
    """Bytes that compiled code and arrays have asked for and not given back, and memory blocks of Python objects.

    What the process has in memory is more, as much as the allocator likes to keep.
    """
    gc.collect()
    heap = library.mallinfo2()
    return heap.uordblks + heap.hblkhd, sys.getallocatedblocks()


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
def test_memory_does_not_grow_over_hundreds_of_solves(caplog):
    caplog.set_level(logging.WARNING, "pybundle")       # pytest keeps what is logged
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if not hasattr(library, "mallinfo2"):
        pytest.skip("needs glibc 2.33, whose malloc tells what is in use")
    library.mallinfo2.restype = Heap
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
    assert ROUNDS * len(kinds) >= 500
    for k in range(ROUNDS):
        if k == SETTLED:
            before = in_use(library)
        for solve in kinds:
            solve()
    n_bytes, n_blocks = np.subtract(in_use(library), before)
    n_solves = (ROUNDS - SETTLED) * len(kinds)
    assert n_bytes < 200 * n_solves and n_blocks < n_solves         # an array of a solve alone, an object
