"""Dependency trees from dense random scores: the best tree and the arc marginals, one by one and in batches."""

import numpy as np

from pybundle.oracles import arborescence_marginals_batch, max_arborescence, max_arborescence_batch

COUNT = 100


class Trees:
    """A hundred sentences of one length; Gaussian scores close more cycles than a trained parser's."""

    params = ([20, 50, 100], [False, True])
    param_names = ("n_words", "single_root")

    def setup(self, n_words, single_root):
        rng = np.random.default_rng(0)
        self.matrices = list(rng.standard_normal((COUNT, n_words + 1, n_words + 1)))
        self.flat = np.concatenate([matrix.ravel() for matrix in self.matrices])
        self.lengths = np.full(COUNT, n_words)

    def time_hundred_calls(self, n_words, single_root):
        for matrix in self.matrices:
            max_arborescence(matrix, single_root)

    def time_batch_of_a_hundred(self, n_words, single_root):
        max_arborescence_batch(self.flat, self.lengths, single_root)

    def time_marginals_of_a_hundred(self, n_words, single_root):
        arborescence_marginals_batch(self.flat, self.lengths, single_root)
