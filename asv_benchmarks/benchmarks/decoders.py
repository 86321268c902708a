"""Decoders alone: one class each, on made scores; peers and real data are in reproduce/decoders.py."""

import numpy as np

from pybundle.oracles import forward_backward_batch, k_best_viterbi, viterbi, viterbi_batch


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
