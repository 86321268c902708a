"""Proximity operators at 10^6 groups, beside two sorts of as many numbers: what Algorithm 2 as printed would cost."""

import numpy as np

from pybundle.prox import Groups, OverlappingGroups, SquaredL1, SquaredLq, TreeGroupLasso, project_simplex

N_GROUPS = 10**6


class SquaredGroupNorm:
    """The prox of t/2 |x|_{2,1}^2, for steps that keep nearly all, a twentieth and a few of the groups."""

    params = [1e-9, 1e-4, 1.0]
    param_names = ("t",)

    def setup(self, t):
        rng = np.random.default_rng(0)
        self.norms = np.abs(rng.standard_normal(N_GROUPS))
        self.x = rng.standard_normal(4 * N_GROUPS)
        self.regulariser = SquaredL1()
        self.grouped = SquaredL1(groups=Groups(np.repeat(np.arange(N_GROUPS), 4)))

    def time_norms(self, t):
        self.regulariser.shrink(self.norms, t)

    def time_groups_of_four(self, t):
        self.grouped.prox(self.x, t)

    def time_two_sorts(self, t):
        np.sort(self.norms)
        np.sort(self.norms)

    def peakmem_norms(self, t):
        self.regulariser.shrink(self.norms, t)

    def track_residual(self, t):
        """Of x - z = t sum(z) where z > 0, relative to x: rounding only."""
        z = self.regulariser.shrink(self.norms, t)
        return np.abs(self.norms - z - t * z.sum())[z > 0].max() / self.norms.max()


class SlowSets:
    """A simplex whose sets shrink by one number a round, as far as float64 allows."""

    def setup(self):
        levels = -(2.0 ** np.arange(0, 1000, 20))
        self.x = np.concatenate([np.zeros(N_GROUPS - len(levels)), levels])

    def time_project_simplex(self):
        project_simplex(self.x, 1e-3)


class Powers:
    """Scalar equations, and the squared norm around them."""

    params = [1.5, 3.0]
    param_names = ("q",)

    def setup(self, q):
        self.norms = np.abs(np.random.default_rng(0).standard_normal(10**5))

    def time_squared_mixed_norm(self, q):
        SquaredLq(q).shrink(self.norms, 1.0)


class Trees:
    """A binary tree over 2^14 features, every node a group."""

    def setup(self):
        d = 2**14
        sizes = 2 ** np.arange(15)
        groups = [slice(int(k), int(k + size)) for size in sizes for k in range(0, d, size)]
        self.x = np.random.default_rng(0).standard_normal(d)
        self.regulariser = TreeGroupLasso(OverlappingGroups(groups, d))

    def time_prox(self):
        self.regulariser.prox(self.x, 0.1)
