"""The interface of a dual problem for the augmented Lagrangian method.

The multipliers alpha_i of example i lie in c_i times a simplex over its labels, or over its known planes. Every alpha
defines a plane below the risk:

    B + <phi, w> <= R(w) for all w,    B = sum_ik alpha_ik L_ik,    phi = sum_ik alpha_ik psi_ik

The smooth lower bound of R, `max_a sum_i <a_i, u_i(w)> - |a_i - alpha_i|^2 / (2 sigma)`, has the gradient phi(a) and
the Hessian `sigma sum_i Psi_i' J_i Psi_i` at its maximiser a. The rows of Psi_i are the psi_ik. J_i projects onto the
directions of the face of a_i, which are the vectors on its support that sum to zero. Therefore only examples with two
or more labels in their support contribute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np


class Step(NamedTuple):
    """A proximal step: the new multipliers and sums over all examples.

    Attributes
    ----------
    alpha : ndarray
        The new multipliers a, in the shape of `Multipliers.truth()`.
    support : int32 array, shape (n,)
        Number of labels with a_ik > 0, or 0 if the truth is the only such label, so that the example adds 0 to phi.
    smooth : float
        `sum_i <a_i, u_i> - |a_i - alpha_i|^2 / (2 sigma)`, a smooth lower bound of the risk.
    offset, risk : float
        B of the new multipliers, and R at the scores.
    """

    alpha: np.ndarray
    support: np.ndarray
    smooth: float
    offset: float
    risk: float


class Multipliers(ABC):
    """The dual of a risk; multipliers are plain arrays in the shape of its scores.

    Attributes
    ----------
    risk : Risk
        It has the methods `scores` and `line_search`.
    squared_radius : float
        Mean of `|psi|^2`.
    row_size : float
        Mean number of entries that a product with a row of Psi reads.
    """

    risk: object
    squared_radius: float
    row_size: float

    def __init__(self, risk):
        self.risk = risk

    @abstractmethod
    def truth(self):
        """Return multipliers with all weight on the truths, so that phi = 0."""

    @abstractmethod
    def check(self, alpha):
        """Return the multipliers of another run, made feasible."""

    @abstractmethod
    def step(self, alpha, scores, sigma):
        """Return the proximal `Step` of length sigma from `alpha` at float64 scores, without a pass over the data."""

    @abstractmethod
    def aggregate(self, alpha, support):
        """Return the `Plane` of the multipliers, in float64."""

    @abstractmethod
    def faces(self, step, largest=None):
        """Return the Hessian of the smooth lower bound at a step, without sigma, see `Faces`."""


class Faces(ABC):
    """The operator `sum_i Psi_i' J_i Psi_i` at a step.

    Parameters
    ----------
    step : Step
    largest : int, optional
        If more examples lie on faces, only every m-th of them is used, so that at most this many are left.

    Attributes
    ----------
    rows, sizes : ndarray, shape (n_rows,)
        Examples on a face of two or more labels, and the numbers of these labels.
    n_rows, rank : int
        Number of these examples, and sum of the dimensions of their faces.
    fraction : float
        Number of examples on faces divided by `n_rows`.
    """

    def __init__(self, step, largest=None):
        rows = np.flatnonzero(step.support >= 2)
        stride = 1 if largest is None else max(1, -(-len(rows) // largest))
        self.rows = np.ascontiguousarray(rows[::stride])
        self.sizes = step.support[self.rows]
        self.n_rows, self.fraction = len(self.rows), len(rows) / max(len(self.rows), 1)
        self.rank = int(self.sizes.sum()) - self.n_rows

    @abstractmethod
    def product(self, v):
        """Return the operator applied to v (dim,)."""

    @abstractmethod
    def diagonal(self):
        """Return the diagonal of the operator, (dim,)."""

    def directions(self, kind):
        """Return orthonormal directions of all faces as `(X, Q)`, to factor the Newton system; see `LabelFaces`."""
        raise NotImplementedError(f"{type(self).__name__} has products only")
