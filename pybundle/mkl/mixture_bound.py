"""Proven lower bounds for multiple kernel learning, from any multipliers.

One labelling y_i of each example, or a distribution over its labellings, makes a plane of the risk: phi = 1/n sum_i
psi_i(y_i), B = 1/n sum_i loss(y_i). Weights a >= 0, sum a <= 1, of several planes prove the bound

    LB(a) = sum_e a_e B_e - max_k |sum_e a_e phi_ek|^2 / (2 lam)   <=   min_f lam/2 (sum_k |f_k|)^2 + R(f)

because the conjugate of lam/2 (sum_k |f_k|)^2 is max_k |phi_k|^2 / (2 lam). The sum of a may be below 1 because losses
are nonnegative, so that 0 is a plane, too. Good weights a are found in turns: solve a small QP with the Gram matrix
sum_k nu_k G_k for fixed kernel weights nu, then set nu_k in proportion to nu_k |phi_k|. Every turn proves a bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.types import Array, Floats
from ..qp._simplex_qp import SimplexQP
from ..runtime.executors import Serial
from ..runtime.lower_bound import feasible

TURNS = 200
"""Maximum number of turns between planes and kernel weights; with tens of planes a turn takes less than 1 ms."""
ROUNDING = 2.0**-46
"""Rounding error of a sum relative to the sum of its absolute terms, usually `sqrt(N) 2^-53` for N terms. It matters at
tiny lam, where the terms of the best plane cancel."""
CLOSE = 1e-4
"""Turns end if the bound can gain at most this fraction of itself."""


def best_bound(offsets: Array, grams: Array, lam: float, nu: Array | None = None, close: float = CLOSE,
               sizes: Array | None = None, errors: Array | None = None) -> tuple[float, Floats]:
    """Return the largest LB(a) found, and its a.

    Parameters
    ----------
    offsets : array, shape (E,)
    grams : array, shape (n_groups, E, E)
        Inner products of the slopes, group by group.
    lam : float
        Regularisation constant, in the scale of the planes.
    nu : array, shape (n_groups,), optional
        Initial kernel weights.
    close : float, default CLOSE
    sizes : array, shape (n_groups, E), optional
        Norms that the slopes would have if their terms did not cancel; default their norms.
    errors : array, shape (E,), optional
        Bounds on the norms of the errors of the slopes; default 0.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.mkl.mixture_bound import best_bound
    >>> bound, a = best_bound(np.array([1.0]), np.array([[[2.0]], [[1.0]]]), lam=4.0)
    >>> round(bound, 6), a
    (0.75, array([1.]))
    """
    nu = np.full(len(grams), 1.0 / len(grams)) if nu is None else nu
    squares, grams = np.einsum("kee->ke", grams), grams.copy()
    np.einsum("kee->ke", grams)[:] = np.maximum(squares, 0.0)       # rounding may make a square negative
    norms = np.sqrt(np.maximum(squares, 0.0))
    sizes = norms if sizes is None else np.maximum(sizes, norms)
    errors = np.zeros(len(offsets)) if errors is None else errors
    best, best_a = 0.0, np.zeros(len(offsets))
    qp, x, parts, slack = SimplexQP(), np.zeros(len(offsets)), np.zeros(len(offsets), dtype=np.int32), np.array([True])
    for _ in range(TURNS):
        qp.solve(np.tensordot(nu, grams, 1) / lam, offsets, parts, slack, x, rtol=min(1e-8, close))
        a = feasible(x, parts, slack)
        squares = np.maximum(np.einsum("e,kef,f->k", a, grams, a), 0.0)
        gain = float(a @ offsets)
        largest = np.sqrt(squares + ROUNDING * (sizes @ a) ** 2).max() + errors @ a
        bound = gain - float(largest**2) / (2.0 * lam) - ROUNDING * gain
        if bound > best:
            best, best_a = bound, a
        # the value of the QP, for any kernel weights, is an upper bound of all LB(a)
        if gain - float(nu @ squares) / (2.0 * lam) - best <= close * best:
            break
        nu = nu * np.sqrt(squares)
        if not nu.sum() > 0.0:
            break
        nu = np.maximum(nu / nu.sum(), 1e-9)
        nu /= nu.sum()
    return best, best_a


class Proven(NamedTuple):
    """A lower bound of F and, if they were kept, weights and sources of the planes whose mixture proves it."""

    value: float
    weights: np.ndarray | None = None
    sources: list | None = None

    @property
    def offset(self):
        """A lower bound of F(0)."""
        return self.value

    def plane(self):
        """Return the mixture, a tuple like each source, with the weighted sums of the terms of the sources."""
        return tuple(sum(a * term for a, term in zip(self.weights, terms, strict=True))
                     for terms in zip(*self.sources, strict=True))


class KeptPlanes:
    """Keeps at most `room` planes of the risk with their inner products by group; their best mixture proves a bound.

    Parameters
    ----------
    n_groups, room : int
    products : callable
        `products(a, b)` returns the inner products of two slopes group by group, shape (n_groups,).

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.core.plane import Plane
    >>> from pybundle.mkl.mixture_bound import KeptPlanes
    >>> planes = KeptPlanes(2, 10, lambda a, b: a * b)
    >>> planes.add(Plane(1.0, np.array([2.0, 1.0])))
    >>> round(planes.proven(lam=4.0).value, 6)
    0.5
    """

    def __init__(self, n_groups, room, products):
        self._room, self._products, self.slopes, self.sources = room, products, [], []
        self.offsets, self.errors, self.weights = np.zeros(0), np.zeros(0), np.zeros(0)
        self.grams = np.zeros((n_groups, 0, 0))

    def add(self, plane, source=None):
        """Add a plane and its source, in place of the plane with the smallest weight if there is no room."""
        if len(self.slopes) == self._room:
            j = int(np.argmin(self.weights))
            del self.slopes[j], self.sources[j]
            self.offsets, self.errors = np.delete(self.offsets, j), np.delete(self.errors, j)
            self.weights = np.delete(self.weights, j)
            self.grams = np.delete(np.delete(self.grams, j, axis=1), j, axis=2)
        self.slopes.append(plane.slope)
        self.sources.append(source)
        self.offsets, self.errors = np.append(self.offsets, plane.offset), np.append(self.errors, plane.slope_error)
        self.weights = np.append(self.weights, 0.0)
        n, grams = len(self.slopes), np.empty((len(self.grams), len(self.slopes), len(self.slopes)))
        grams[:, :-1, :-1] = self.grams
        for j in range(n):
            grams[:, j, -1] = grams[:, -1, j] = self._products(self.slopes[j], plane.slope)
        self.grams = grams

    def proven(self, lam, nu=None, close=CLOSE):
        """Return the largest bound that `best_bound` finds, starting from nu, with the mixture that proves it."""
        bound, self.weights = best_bound(self.offsets, self.grams, lam, nu, close, errors=self.errors)
        return Proven(bound, self.weights, list(self.sources))


def plane_grams(groups, planes, executor=None):
    """Return the inner products of planes (coefs, links, B) in every group, shape (n_groups, E, E).

    Costs O(n nnz) for each kernel and each plane of nnz coefficients, on the threads of `executor`.
    """
    rows = [coefs.T.reshape(1, -1) for coefs, _, _ in planes]
    is_sparse = sp.issparse(rows[0])
    stacked = sp.vstack([sp.csr_array(row) for row in rows], format="csr") if is_sparse else np.concatenate(rows)

    def products(task):
        group, (coefs, links, _) = groups[task[0]], planes[task[1]]
        image = group.image(coefs, links)
        if image.shape == links.shape:
            return [float(np.vdot(other, image)) for _, other, _ in planes]
        return stacked @ image.ravel()

    tasks = [(k, e) for k in range(len(groups)) for e in range(len(planes))]
    grams = np.array((executor or Serial()).map(products, tasks)).reshape(len(groups), len(planes), len(planes))
    return 0.5 * (grams + grams.transpose(0, 2, 1))
