"""Decoders: scores in, labelling and value out."""

from .chain import forward_backward, forward_backward_batch, k_best_viterbi, viterbi, viterbi_batch

__all__ = ["forward_backward", "forward_backward_batch", "k_best_viterbi", "viterbi", "viterbi_batch"]
