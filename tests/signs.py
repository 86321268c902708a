"""The penalty `lam/2 |w|^2` with weights that must not be negative, as tests write it."""

import numpy as np

import pybundle as pb


def signed(lam, nonneg):
    """The square with the bounds w_k >= 0 where the mask is true."""
    return pb.prox.SquaredL2(lam) + pb.prox.Box(np.where(nonneg, 0.0, -np.inf))
