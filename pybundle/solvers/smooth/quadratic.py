"""Quadratic models of smooth risks of one score: Hessians, and the minimum of model plus penalty.

    R''(w) = sum_i d_i x_i x_i',    d = risk.second_derivatives(scores)

On few columns the Hessian is formed, and Cholesky factors solve its systems. On more it stays a product of columns, and
coordinate descent minimises the model. Columns are centred if the risk has a free intercept, as in
`Coordinates`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dposv

from ...core.rounding import UNIT
from ._sweeps import GROUP_OF_SUMS, add_gram, column_sums, descend, sweep_gram
from .quasi_newton import Orthants

FEW = 500           # columns of which the Hessian is formed
RIDGE = 1e-10       # relative addition to a diagonal; after a Cholesky factor has failed, a hundred times as much
SWEEPS = 2          # between two Newton steps
ROUNDS, STEPS = 30, 50      # of sweeps, and of Newton steps after them, at most
MOST = 500          # sweeps over many columns
ENOUGH = 0.25       # fraction of `<slope, step>` that a clipped step has to gain; one without clipping gains 0.5
ROWS = 1024         # rows of a dense block


class Hessians:
    """Hessians of one risk: its matrix by rows and by columns.

    Parameters
    ----------
    risk : Risk
        With `second_derivatives` and `examples`.
    means : ndarray, shape (dim,), or None
        Subtracted from the columns, 0 for the intercept.
    moduli : ndarray, shape (dim,)
        Constants of the squares in the objective.
    """

    def __init__(self, risk, means, moduli):
        examples = risk.examples
        self.dim, self.means, self.moduli, self._examples = risk.dim, means, moduli, examples
        if examples.is_sparse:
            X = examples.X.astype(np.float64, copy=False)       # first: a product in float32 would be rounded twice
            X = X if examples.scale == 1.0 else X * examples.scale
            if examples.bias is not None:
                X = sp.hstack([X, np.full((examples.n_examples, 1), examples.bias)], format="csr")
            self._rows = sp.csr_array(X)

    def on(self, weights):
        """Return the model with second derivatives `weights` of the losses."""
        means, moduli = np.zeros(self.dim) if self.means is None else self.means, self.moduli
        if self.dim <= FEW:
            H = self._gram(weights, means)
            H[np.diag_indices(len(H))] += moduli
            return Gram(H)
        return Sweeps(self.columns, weights, means, np.ascontiguousarray(moduli))

    @cached_property
    def columns(self):
        """The matrix by columns: data, indices, indptr."""
        if self._examples.is_sparse:
            A = self._rows.tocsc()
            return A.data, A.indices.astype(np.int32, copy=False), A.indptr.astype(np.int64)
        A = self._dense(slice(None))
        n, d = A.shape
        return A.ravel("F"), np.tile(np.arange(n, dtype=np.int32), d), n * np.arange(d + 1, dtype=np.int64)

    @cached_property
    def _sizes(self):
        """Roundings in `pull`, as bounds on the norm of all entries and on the last, for multipliers of norm 1."""
        data, _, indptr = self.columns
        n_entries, squares = np.diff(indptr), np.zeros(self.dim)
        used = n_entries > 0
        squares[used] = np.add.reduceat(data * data, indptr[:-1][used]) if used.any() else 0.0
        terms = np.minimum(n_entries, GROUP_OF_SUMS) + n_entries / GROUP_OF_SUMS + 6.0
        return float(np.linalg.norm(terms * np.sqrt(squares))), float(terms[-1] * np.sqrt(squares[-1]))

    def pull(self, v):
        """Return the products of the columns with v (n,), and a bound on the rounding error of all and of the last.

        Column k errs by at most `terms_k UNIT sum_i |x_ik v_i|`, and that sum is at most `|x_k| |v|`.
        """
        out = np.empty(self.dim)
        column_sums(*self.columns, v, out)
        unit = 1.01 * UNIT * float(np.linalg.norm(v))
        return out, unit * self._sizes[0], unit * self._sizes[1]

    def _gram(self, weights, means):
        m = len(means)
        H, examples = np.zeros((m, m)), self._examples
        is_sparse = examples.is_sparse and self._rows.nnz <= 0.25 * examples.n_examples * self.dim
        if is_sparse:
            A, diagonal = self._rows, np.zeros(m)
            add_gram(A.data, A.indices.astype(np.int32, copy=False), A.indptr.astype(np.int64), weights, H, diagonal)
            H += H.T
            H[np.diag_indices(m)] += diagonal
            if self.means is not None:
                sums = A.T @ weights
                H -= np.outer(sums, means) + np.outer(means, sums) - weights.sum() * np.outer(means, means)
            return H
        rows = np.flatnonzero(weights)
        roots, is_whole, room = np.sqrt(weights[rows]), len(rows) == len(weights), np.empty((ROWS, m))
        for start in range(0, len(rows), ROWS):
            block = slice(start, start + ROWS)
            A = self._dense(block if is_whole else rows[block])
            if self.means is not None:
                A = A - means
            A = np.multiply(A, roots[block, None], out=room[:len(A)])
            H += A.T @ A
        return H

    def _dense(self, rows):
        """Return a dense block of float64."""
        examples = self._examples
        if examples.is_sparse:
            return self._rows[rows].toarray()
        X = np.asarray(examples.X[rows], dtype=np.float64)
        if examples.scale != 1.0:
            X = X * examples.scale
        if examples.bias is not None:
            X = np.hstack([X, np.full((len(X), 1), examples.bias)])
        return X


def bytes_of_models(examples, dim):
    """Return about how many bytes the models of some examples take."""
    n, copies = examples.n_examples, 24 * (examples.X.nnz if examples.is_sparse else examples.X.size)
    if dim > FEW:
        return copies + 40 * n
    return 24 * dim**2 + 40 * n + (copies if examples.is_sparse else 24 * min(n, ROWS) * dim)


class Gram:
    """The quadratic function with a given Hessian H (m, m).

    Attributes
    ----------
    work : float
        Passes over the data that it has cost.
    """

    def __init__(self, H):
        self.H, self.work = H, 1.0

    def sweep(self, z, gradient, penalty):
        """Minimise over one coordinate after the other, in place."""
        sweep_gram(self.H, z, gradient, *penalty)

    def solve(self, free, b):
        """Return p with `H p = b` on the coordinates `free`, about."""
        if len(free) == 0:      # LAPACK refuses that
            return np.zeros(0)
        H, ridge = self.H[free][:, free], RIDGE
        diagonal = H.diagonal().copy()
        while ridge < 1.0:
            np.fill_diagonal(H, np.where(diagonal > 0.0, diagonal * (1.0 + ridge), 1.0))
            _, p, failed = dposv(H, b)
            if not failed:
                return p
            ridge *= 100.0
        return b / np.maximum(diagonal, 1e-300)

    def product(self, free, p):
        """Return `H p` for a step p on the coordinates `free`."""
        return self.H[:, free] @ p


class Sweeps:
    """The same on many columns, minimised by coordinate descent in random order.

    Attributes
    ----------
    u : ndarray, shape (n,)
        Change of the scores up to the minimum.
    """

    def __init__(self, A, weights, means, moduli):
        self.A, self.weights, self.means, self.moduli, self.u, self.work = A, weights, means, moduli, None, 0.0

    def descend(self, columns, z, gradient, penalty, goal, seed):
        """Move z, where the model has this gradient, on some columns until violations sum to at most `goal`."""
        self.u, n_read = descend(*self.A, columns.astype(np.int32), self.weights, self.means, self.moduli, z, gradient,
                                 *penalty, goal, MOST, seed)
        self.work += 0.5 + 0.5 * n_read / max(len(self.A[0]), 1)


def minimise(model, z, gradient, penalty, tol):
    """Move z towards the minimum of model plus penalty, until the norm of the gradient is `tol` times that at z.

    Parameters
    ----------
    model : Gram
    z, gradient : ndarray, shape (m,)
        Point and gradient of the model; both are changed.
    penalty : (l1, lower, upper) or None
        Arrays of shape (m,). None if there is neither an l1 norm nor a bound.

    Notes
    -----
    With an l1 norm or bounds, sweeps over all coordinates find those that are held, and Newton steps on the others
    follow. A Newton step is clipped to the orthant, or ends where it leaves the orthant if that is lower.
    """
    if penalty is None:
        z += model.solve(np.arange(len(z)), -gradient)
        return
    l1, lower, upper = penalty
    orthants = Orthants(lower, upper, l1)
    first = None
    for _ in range(ROUNDS):
        low, high, slopes = orthants.at(z, gradient)
        rest = unrest(z, gradient + slopes, low, high)
        first = float(np.linalg.norm(rest)) if first is None else first
        for _ in range(SWEEPS):
            model.sweep(z, gradient, penalty)
        low, high, slopes = orthants.at(z, gradient)
        rest = unrest(z, gradient + slopes, low, high)
        if float(np.linalg.norm(rest)) <= tol * first:
            break
        free = np.flatnonzero((z > low) & (z < high))
        for _ in range(STEPS):
            free = _step(model, z, gradient, free, slopes, low, high)
            if len(free) == 0:
                break


def unrest(z, whole, low, high):
    """Return the gradient without the entries that push z against its bounds."""
    return np.where(((z <= low) & (whole >= 0.0)) | ((z >= high) & (whole <= 0.0)), 0.0, whole)


def _step(model, z, gradient, free, slopes, low, high):
    """Make a Newton step on the coordinates `free`, in place; return those that are free for a further step.

    None is left after a full step, clipped to the orthant. A step that ends at the first bound leaves the others.
    """
    slope, x, low, high = (gradient + slopes)[free], z[free], low[free], high[free]
    p = model.solve(free, -slope)
    bounds = np.where(p > 0.0, high, low)
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where(p != 0.0, (bounds - x) / p, np.inf)
    best, end = 0.0, float(ends.min(initial=np.inf))
    for t in (1.0, end) if end < 1.0 else (1.0,):
        y = np.where(ends <= t, bounds, x + t * p)
        product = model.product(free, y - x)
        gain = float(slope @ (y - x)) + 0.5 * float((y - x) @ product[free])
        if gain < best:
            best, last, chosen, change = gain, t, y, product
        if gain < ENOUGH * float(slope @ p):
            break
    if best == 0.0:
        return free[:0]
    z[free] = chosen
    gradient += change
    return free[:0] if last == 1.0 else free[ends > last]
