"""Decoders alone: one class each, on made scores; peers and real data are in reproduce/decoders.py."""

import numpy as np

from pybundle.oracles import (
    arborescence_marginals_batch,
    distance_transform,
    forward_backward_batch,
    k_best_viterbi,
    max_arborescence,
    max_arborescence_batch,
    min_cut,
    min_cut_batch,
    tree_marginals,
    tree_max_sum,
    tree_max_sum_batch,
    viterbi,
    viterbi_batch,
)


class Chains:
    """Chains of about 8 positions, 50000 positions in all, and one chain alone."""

    params = [4, 26, 100]
    param_names = ("n_labels",)

    def setup(self, n_labels):
        rng = np.random.default_rng(0)
        self.offsets = np.concatenate([[0], np.cumsum(rng.integers(3, 14, 6250))])
        self.unary = rng.standard_normal((int(self.offsets[-1]), n_labels))
        self.transition = rng.standard_normal((n_labels, n_labels))

    def time_viterbi_batch(self, n_labels):
        viterbi_batch(self.unary, self.offsets, self.transition)

    def time_forward_backward_batch(self, n_labels):
        forward_backward_batch(self.unary, self.offsets, self.transition)

    def time_viterbi_of_eight_positions(self, n_labels):
        viterbi(self.unary[:8], self.transition)

    def time_ten_best_of_eight_positions(self, n_labels):
        k_best_viterbi(self.unary[:8], self.transition, 10)

    def peakmem_viterbi_batch(self, n_labels):
        viterbi_batch(self.unary, self.offsets, self.transition)


def grid_cut(side, coupling, smooth):
    """Unaries and edges of a grid: independent normals, or a smooth field of the same size."""
    rng = np.random.default_rng(0)
    unary = rng.standard_normal((side, side))
    if smooth:
        unary = unary.cumsum(axis=0).cumsum(axis=1)
        unary = (unary - unary.mean()) / unary.std()
    nodes = np.arange(side * side).reshape(side, side)
    edges = np.concatenate([np.column_stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()]),
                            np.column_stack([nodes[:-1].ravel(), nodes[1:].ravel()])])
    return unary.ravel(), edges, coupling * rng.random(len(edges))


class MinCut:
    """Graph building included. Weak couplings end in short paths, strong ones in long."""

    params = ([16, 100], [0.3, 3.0], ["random", "smooth"])
    param_names = ("side", "coupling", "unaries")

    def setup(self, side, coupling, unaries):
        self.problem = grid_cut(side, coupling, unaries == "smooth")
        unary, edges, weights = self.problem
        n = 51200 // side**2
        self.batch = (np.tile(unary, n), np.tile(edges, (n, 1)), np.tile(weights, n),
                      len(unary) * np.arange(n + 1), len(edges) * np.arange(n + 1))

    def time_single(self, side, coupling, unaries):
        min_cut(*self.problem)

    def time_batch(self, side, coupling, unaries):
        min_cut_batch(*self.batch)

    def track_gap(self, side, coupling, unaries):
        """Distance of bound and value, relative to the size of the scores: rounding only."""
        _, value, upper = min_cut(*self.problem)
        return (upper - value) / np.abs(self.problem[0]).sum()


class DistanceTransforms:
    """White noise on a line and on a square map: linear in the number of positions."""

    params = [10**3, 10**4, 10**5, 10**6]
    param_names = ("n_positions",)

    def setup(self, n_positions):
        rng = np.random.default_rng(0)
        self.line = rng.standard_normal(n_positions)
        self.map = rng.standard_normal((round(n_positions**0.5),) * 2)

    def time_line(self, n_positions):
        distance_transform(self.line, 0.01, 0.1)

    def time_map(self, n_positions):
        distance_transform(self.map, (0.05, 0.1))


class Trees:
    """Eight landmarks on a 40 x 40 grid; a tree of the same shape with tables of 100 labels."""

    def setup(self):
        rng = np.random.default_rng(0)
        self.parents = [-1, 0, 0, 0, 0, 1, 2, 0]
        self.maps = rng.standard_normal((8, 20, 40, 40))
        self.quadratic = {"deformations": np.tile([0.1, 0.0, 0.1, 0.0], (8, 1)), "anchors": rng.standard_normal((8, 2))}
        self.unaries, self.tables = rng.standard_normal((8, 100)), [None, *rng.standard_normal((7, 100, 100))]

    def time_deformation(self):
        tree_max_sum(self.maps[:, 0], self.parents, **self.quadratic)

    def time_deformation_batch_of_20(self):
        tree_max_sum_batch(self.maps, self.parents, **self.quadratic)

    def time_tables(self):
        tree_max_sum(self.unaries, self.parents, self.tables)

    def time_marginals(self):
        tree_marginals(self.unaries, self.parents, self.tables)


class Arborescences:
    """A hundred sentences of one length; Gaussian scores close more cycles than a trained parser's."""

    params = ([20, 50, 100], [False, True])
    param_names = ("n_words", "single_root")

    def setup(self, n_words, single_root):
        rng = np.random.default_rng(0)
        self.matrices = list(rng.standard_normal((100, n_words + 1, n_words + 1)))
        self.flat = np.concatenate([matrix.ravel() for matrix in self.matrices])
        self.lengths = np.full(100, n_words)

    def time_hundred_calls(self, n_words, single_root):
        for matrix in self.matrices:
            max_arborescence(matrix, single_root)

    def time_batch_of_a_hundred(self, n_words, single_root):
        max_arborescence_batch(self.flat, self.lengths, single_root)

    def time_marginals_of_a_hundred(self, n_words, single_root):
        arborescence_marginals_batch(self.flat, self.lengths, single_root)
