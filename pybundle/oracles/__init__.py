"""Decoders: scores in, labelling and value out; they know nothing of weights, features and losses."""

from .arborescence import (
    arborescence_marginals,
    arborescence_marginals_batch,
    max_arborescence,
    max_arborescence_batch,
)

__all__ = ["arborescence_marginals", "arborescence_marginals_batch", "max_arborescence", "max_arborescence_batch"]
