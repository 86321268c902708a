"""Rounds of multiple kernel learning: kernels, sparse Gram matrices, explicit groups."""

import numpy as np
import scipy.sparse as sp

import pybundle as pb


def words(n, rng):
    prototypes = rng.random((26, 128)) < 0.3
    Y = [rng.integers(0, 26, rng.integers(3, 10)) for _ in range(n)]
    return [(prototypes[y] ^ (rng.random((len(y), 128)) < 0.1)).astype(float) for y in Y], Y


class Chains:
    """Two epochs on words of letters, Gram matrices included."""

    params = (["kernels", "spline", "features"],)
    param_names = ("groups",)

    def setup(self, groups):
        mkl = pb.mkl
        self.X, self.Y = words(200, np.random.default_rng(0))
        self.groups = {"kernels": [mkl.Linear(), mkl.Polynomial(2), mkl.Gaussian(2.2)], "spline": [mkl.B1Spline()],
                       "features": [mkl.Features(slice(0, 64)), mkl.Features(slice(64, 128))]}[groups]

    def _fit(self, **options):
        model = pb.models.Chain(26, 128)
        return pb.mkl.OnlineMKL(self.groups, model=model, eta0=1.0, n_epochs=2, random_state=0,
                                **options).fit(self.X, self.Y)

    def time_fit(self, groups):
        self._fit(certify=False)

    def track_gap(self, groups):
        return float(np.nan_to_num(self._fit().gap_, nan=1.0))


class Sparse:
    """Rounds on tokens with 20 active features: flat in the number of features."""

    params = ([10**5, 10**7],)
    param_names = ("features",)

    def setup(self, features):
        rng, n = np.random.default_rng(0), 2000
        columns = rng.integers(0, features, (n, 20))
        self.X = sp.csr_array((np.ones(20 * n), columns.ravel(), np.arange(0, 20 * n + 1, 20)), shape=(n, features))
        self.y = rng.integers(0, 4, n)
        halves = [slice(0, features // 2), slice(features // 2, features)]
        self.learner = pb.mkl.OnlineMKL([pb.mkl.Features(half) for half in halves], eta0=1.0, random_state=0)
        self.learner.partial_fit(self.X, self.y)

    def time_pass(self, features):
        self.learner.partial_fit(self.X, self.y)
