"""The bundle: appending planes (one GEMM for the Gram matrix) and combining them, dense and sparse."""

import numpy as np
import scipy.sparse as sp

from pybundle.bundle import Bundle, Planes

from . import LARGE

DIM, PARTS, DENSITY = 7840, 16, 0.02


def new_planes(rng, storage):
    """One plane per part."""
    offsets = rng.random(PARTS)
    if storage == "sparse":
        slopes = sp.csr_array(sp.random(PARTS, DIM, density=DENSITY, random_state=rng))
    else:
        slopes = rng.standard_normal((PARTS, DIM))
    return Planes(offsets, offsets, slopes)


class Store:
    """A bundle of `n_planes` planes of dimension 7840 in 16 parts."""

    params = [["dense", "sparse"], [256, 1024, 4096] if LARGE else [256, 1024]]
    param_names = ["storage", "n_planes"]
    number, repeat, warmup_time = 1, 10, 0.0     # append changes the bundle: a fresh one for every measurement

    def setup(self, storage, n_planes):
        rng = np.random.default_rng(0)
        self.bundle = Bundle(DIM, PARTS, storage)
        while self.bundle.n_planes < n_planes:
            self.bundle.append(new_planes(rng, storage))
        self.planes = new_planes(rng, storage)
        self.beta = rng.random(n_planes) * (rng.random(n_planes) < 0.2)
        self.w = rng.standard_normal(DIM)

    def time_append(self, storage, n_planes):
        """2 * 16 * 7840 * n_planes flops where dense."""
        self.bundle.append(self.planes)

    def time_combine(self, storage, n_planes):
        self.bundle.combine(self.beta)

    def time_dot(self, storage, n_planes):
        self.bundle.dot(self.w)

    def time_drop_every_tenth(self, storage, n_planes):
        self.bundle.drop(np.arange(0, n_planes, 10))


class Growth:
    """A bundle from nothing, 16 planes at a time: the sum of all Gram products."""

    params = [["dense", "sparse"]]
    param_names = ["storage"]
    n_iterations = 128 if LARGE else 64

    def setup(self, storage):
        rng = np.random.default_rng(0)
        self.planes = [new_planes(rng, storage) for _ in range(self.n_iterations)]

    def grow(self, storage):
        bundle = Bundle(DIM, PARTS, storage)
        for planes in self.planes:
            bundle.append(planes)
        return bundle

    def time_grow(self, storage):
        self.grow(storage)

    def peakmem_grow(self, storage):
        self.grow(storage)

    def track_bytes(self, storage):
        return self.grow(storage).nbytes

    track_bytes.unit = "bytes"
