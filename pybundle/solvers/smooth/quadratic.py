"""Quadratic models of smooth risks of one score: Hessians, and the minimum of model plus penalty.

    R''(w) = sum_i d_i x_i x_i',    d = risk.second_derivatives(scores)

With few columns the Hessian is formed and factored. With many columns it is not formed, and coordinate descent
minimises the model; if that is slow, a Newton step follows on the columns that are at no kink and no bound, with their
part of the Hessian. If an intercept has no penalty, columns are centred, as in `Coordinates`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf, dpotrs

from ...core.rounding import UNIT
from ._sweeps import GROUP_OF_SUMS, add_gram, column_sums, descend, sweep_gram
from .quasi_newton import Orthants

FEW = 500           # maximum number of columns for which the whole Hessian is formed
RIDGE = 1e-10       # relative increase of a diagonal; 100 times as much after each failed Cholesky factorisation
SWEEPS = 2          # sweeps in a round of `minimise`, before its Newton steps
ROUNDS, STEPS = 30, 50      # maximum number of rounds, and of Newton steps in a round
MOST = 500          # maximum number of sweeps over many columns
ENOUGH = 0.25       # a clipped step must gain this fraction of `<slope, step>`; a full step gains 0.5 of it
FIRST = 5           # minimum number of sweeps before a Newton step on many columns
GAIN = 128.0        # the Cholesky factor of m columns takes as long as sweeps that read m^3 / GAIN entries
LARGEST = 4096      # maximum number of columns in a Newton step of `Sweeps`
HELD = 0.25         # a Newton step of `Sweeps` on m columns is given up if HELD max(m, FEW) columns would end at bounds
EXACT = 1e-6        # relative tolerance of the multipliers of bounds in a Newton step of `Sweeps`
ROWS = 1024         # rows of a dense block in `Hessians.gram`


class Hessians:
    """Hessians of one risk at any point, from its data matrix, which is stored by rows and by columns.

    Parameters
    ----------
    risk : Risk
        It has `second_derivatives` and `examples`.
    means : ndarray, shape (dim,), or None
        Numbers that are subtracted from the columns; 0 for the intercept.
    moduli : ndarray, shape (dim,)
        Coefficients of `w_j^2 / 2` in the objective.
    """

    def __init__(self, risk, means, moduli):
        examples = risk.examples
        self.dim, self.means, self.moduli, self._examples = risk.dim, means, moduli, examples
        if examples.is_sparse:
            X = examples.X.astype(np.float64, copy=False)       # before scaling, as float32 products would be rounded
            X = X if examples.scale == 1.0 else X * examples.scale
            if examples.bias is not None:
                X = sp.hstack([X, np.full((examples.n_examples, 1), examples.bias)], format="csr")
            self._rows = sp.csr_array(X)

    def on(self, weights):
        """Return the model for second derivatives `weights` (n,): its Hessian with few columns, else `Sweeps`."""
        return self.gram(weights) if self.dim <= FEW else Sweeps(self, weights)

    @cached_property
    def columns(self):
        """The data matrix in CSC format: data, indices, indptr."""
        if self._examples.is_sparse:
            A = self._rows.tocsc()
            return A.data, A.indices.astype(np.int32, copy=False), A.indptr.astype(np.int64)
        A = self._examples.dense(slice(None))
        n, d = A.shape
        return A.ravel("F"), np.tile(np.arange(n, dtype=np.int32), d), n * np.arange(d + 1, dtype=np.int64)

    def part(self, free):
        """Return the columns `free` of the data matrix."""
        return sp.csc_array(self.columns, shape=(self._examples.n_examples, self.dim))[:, free]

    @cached_property
    def _sizes(self):
        """Bounds on rounding errors of `pull`, divided by `UNIT |v|`: on the norm of all errors, and on the last."""
        data, _, indptr = self.columns
        n_entries, squares = np.diff(indptr), np.zeros(self.dim)
        used = n_entries > 0
        squares[used] = np.add.reduceat(data * data, indptr[:-1][used]) if used.any() else 0.0
        terms = np.minimum(n_entries, GROUP_OF_SUMS) + n_entries / GROUP_OF_SUMS + 6.0
        return float(np.linalg.norm(terms * np.sqrt(squares))), float(terms[-1] * np.sqrt(squares[-1]))

    def pull(self, v):
        """Return the products of the columns with v (n,), and bounds on the norm of their errors and on the last error.

        Column k errs by at most `terms_k UNIT sum_i |x_ik v_i|`, and that sum is at most `|x_k| |v|`.
        """
        out = np.empty(self.dim)
        column_sums(*self.columns, v, out)
        unit = 1.01 * UNIT * float(np.linalg.norm(v))
        return out, unit * self._sizes[0], unit * self._sizes[1]

    def gram(self, weights, free=None):
        """Return the Hessian, or only its rows and columns `free`."""
        examples, A = self._examples, self._rows if self._examples.is_sparse else None
        if free is None:
            free = slice(None)
        elif A is not None:
            A = self.part(free).tocsr()
        moduli, means = self.moduli[free], None if self.means is None else self.means[free]
        m = len(moduli)
        H = np.zeros((m, m))
        if A is not None and A.nnz <= 0.25 * examples.n_examples * m:
            diagonal = np.zeros(m)
            add_gram(A.data, A.indices.astype(np.int32, copy=False), A.indptr.astype(np.int64), weights, H, diagonal)
            H += H.T
            H[np.diag_indices(m)] += diagonal
            if means is not None:
                sums = A.T @ weights
                H -= np.outer(sums, means) + np.outer(means, sums) - weights.sum() * np.outer(means, means)
        else:
            rows = np.flatnonzero(weights)
            roots, is_whole, room = np.sqrt(weights[rows]), len(rows) == len(weights), np.empty((ROWS, m))
            for start in range(0, len(rows), ROWS):
                block = slice(start, start + ROWS)
                part = block if is_whole else rows[block]
                B = examples.dense(part)[:, free] if A is None else A[part].toarray()
                if means is not None:
                    B = B - means
                B = np.multiply(B, roots[block, None], out=room[:len(B)])
                H += B.T @ B
        H[np.diag_indices(m)] += moduli
        return H


def bytes_of_models(examples, dim):
    """Return approximately how many bytes the models for some examples take."""
    n, copies = examples.n_examples, 24 * (examples.X.nnz if examples.is_sparse else examples.X.size)
    if dim > FEW:
        return copies + 40 * n + 24 * min(dim, LARGEST)**2
    return 24 * dim**2 + 40 * n + (copies if examples.is_sparse else 24 * min(n, ROWS) * dim)


class Sweeps:
    """The quadratic model of many columns, which coordinate descent in random order and Newton steps minimise.

    Coordinate descent is slow if columns are nearly dependent, as those of frequent words are. Once sweeps have cost as
    much as a Newton step on the columns that are at no kink and no bound, such a step is made.

    Attributes
    ----------
    u : ndarray, shape (n,)
        Change of the scores from the first z to the present z.
    work : float
        Cost of the model, in passes over the data.
    """

    def __init__(self, hessians, weights):
        self.hessians, self.A, self.weights, self.u, self.work = hessians, hessians.columns, weights, None, 0.0
        self.means = np.zeros(hessians.dim) if hessians.means is None else hessians.means
        self.moduli = np.ascontiguousarray(hessians.moduli)

    def descend(self, columns, z, gradient, orthants, goal, seed, share=1.0):
        """Minimise the model over `columns`, from z, until the violations of optimality sum to at most `goal`.

        z is changed in place; `gradient` is that of the model at the first z. Sweeps may cost the fraction `share`
        of a Newton step before such a step is made. Return whether a Newton step was made.
        """
        columns, first, slope, left, has_stepped = columns.astype(np.int32), z.copy(), gradient, MOST, False
        n_entries, width = max(len(self.A[0]), 1), 1 + int(np.diff(self.A[2])[columns].sum())
        self.u = np.zeros(len(self.weights))
        while left > 0:
            n_sweeps = min(left, FIRST + int(share * self._price(z, orthants) / width))
            u, n_read, is_done = descend(*self.A, columns, self.weights, self.means, self.moduli, z, slope, *orthants,
                                         goal, n_sweeps, seed)
            self.u, left = self.u + u, left - n_sweeps
            self.work += 0.5 + 0.5 * n_read / n_entries
            if is_done:
                break
            slope, price = self._slope(gradient, z - first), self._price(z, orthants)
            if share * price <= n_sweeps * width:
                self.work += 0.5 * price / n_entries
                if self._step(z, slope, orthants):
                    slope, has_stepped = self._slope(gradient, z - first), True
                else:
                    share *= 4.0
        return has_stepped

    def _price(self, z, orthants):
        """Return how many entries sweeps read in the time of a Newton step on the columns at no kink or bound at z."""
        l1, lower, upper = orthants
        return np.count_nonzero((z > lower) & (z < upper) & ((z != 0.0) | (l1 == 0.0)))**3 / GAIN + len(self.A[0])

    def _slope(self, gradient, step):
        """Return the gradient of the model after the total `step` from the point where the gradient was `gradient`."""
        change, out = self.weights * self.u, np.empty(len(step))
        column_sums(*self.A, change, out)
        self.work += 0.5
        return gradient + out - change.sum() * self.means + self.moduli * step

    def _step(self, z, slope, orthants):
        """Minimise in place over the columns at no kink or bound, within their orthant; return whether z has improved.

        Weights that would leave the orthant are held at its boundary by multipliers (`force`), which solve a small
        quadratic problem. If such weights are many, z does not move.
        """
        low, high, slopes = orthants.at(z, slope)
        free = np.flatnonzero((z > low) & (z < high))
        x, slope, low, high = z[free], (slope + slopes)[free], low[free], high[free]
        factor = _factor(self.hessians.gram(self.weights, free)) if 0 < len(free) <= LARGEST else None
        if factor is None:
            return False
        y = start = x - dpotrs(factor, slope)[0]
        held, ends, force, columns = np.zeros(0, dtype=int), np.zeros(0), np.zeros(0), np.zeros((len(free), 0))
        while len(new := np.setdiff1d(np.flatnonzero((y < low) | (y > high)), held)):
            held, ends = np.append(held, new), np.append(ends, np.clip(y, low, high)[new])
            if len(held) > HELD * max(len(free), FEW):
                return False
            unit = np.zeros((len(free), len(new)))
            unit[new, np.arange(len(new))] = 1.0
            columns, force = np.hstack([columns, dpotrs(factor, unit)[0]]), np.append(force, np.zeros(len(new)))
            M, none = np.ascontiguousarray(columns[held]), np.zeros(len(held))
            ways = np.where(ends == low[held], np.inf, -np.inf)
            minimise(M, force, M @ force + start[held] - ends,
                     Orthants(none, np.minimum(ways, none), np.maximum(ways, none)), EXACT)
            y = start + columns @ force
        y = np.clip(y, low, high)
        y[held[force != 0.0]] = ends[force != 0.0]
        step = y - x
        u = self.hessians.part(free) @ step - self.means[free] @ step
        if not slope @ step + 0.5 * (self.weights * u) @ u + 0.5 * self.moduli[free] @ step**2 < 0.0:
            return False
        z[free], self.u = y, self.u + u
        return True


def _factor(H):
    """Return the Cholesky factor of H with the first ridge that makes it positive definite, or None.

    The diagonal of H is changed.
    """
    diagonal, ridge = H.diagonal().copy(), RIDGE
    while ridge < 1.0:
        np.fill_diagonal(H, np.where(diagonal > 0.0, diagonal * (1.0 + ridge), 1.0))
        factor, failed = dpotrf(H.T, clean=0)       # H' has the memory order of Fortran
        if not failed:
            return factor
        ridge *= 100.0
    return None


def minimise(H, z, gradient, orthants, tol):
    """Minimise model plus penalty from z, until the norm of the projected gradient is `tol` times its first value.

    Parameters
    ----------
    H : ndarray, shape (m, m)
        Hessian of the model.
    z, gradient : ndarray, shape (m,)
        Point and gradient of the model; both are changed.
    orthants : Orthants or None
        Arrays of shape (m,). None if there is neither an l1 norm nor a bound.

    Notes
    -----
    With an l1 norm or bounds, sweeps over all coordinates find those at a kink or bound. Newton steps on the other
    coordinates follow, clipped to the orthant. If a clipped step gains too little, the step may end where it leaves the
    orthant.
    """
    if orthants is None:
        z += solved(H, np.arange(len(z)), -gradient)
        return
    first = None
    for _ in range(ROUNDS):
        low, high, slopes = orthants.at(z, gradient)
        rest = unrest(z, gradient + slopes, low, high)
        first = float(np.linalg.norm(rest)) if first is None else first
        for _ in range(SWEEPS):
            sweep_gram(H, z, gradient, *orthants)
        low, high, slopes = orthants.at(z, gradient)
        rest = unrest(z, gradient + slopes, low, high)
        if float(np.linalg.norm(rest)) <= tol * first:
            break
        free = np.flatnonzero((z > low) & (z < high))
        for _ in range(STEPS):
            free = _step(H, z, gradient, free, slopes, low, high)
            if len(free) == 0:
                break


def solved(H, free, b):
    """Return an approximate solution p of `H p = b` on the coordinates `free`."""
    if len(free) == 0:      # LAPACK refuses empty matrices
        return np.zeros(0)
    H = H[free][:, free]
    factor = _factor(H)
    return b / np.maximum(H.diagonal(), 1e-300) if factor is None else dpotrs(factor, b)[0]


def unrest(z, whole, low, high):
    """Return the projected gradient: `whole` with 0 for the entries that push z against its bounds."""
    return np.where(((z <= low) & (whole >= 0.0)) | ((z >= high) & (whole <= 0.0)), 0.0, whole)


def _step(H, z, gradient, free, slopes, low, high):
    """Make a Newton step on the coordinates `free`, in place; return the coordinates that a further step may move.

    A full step, clipped to the orthant, needs no further step. After a step that ends at the first bound, the
    coordinates that have not reached a bound are returned.
    """
    slope, x, low, high = (gradient + slopes)[free], z[free], low[free], high[free]
    p = solved(H, free, -slope)
    bounds = np.where(p > 0.0, high, low)
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where(p != 0.0, (bounds - x) / p, np.inf)
    best, end = 0.0, float(ends.min(initial=np.inf))
    for t in (1.0, end) if end < 1.0 else (1.0,):
        y = np.where(ends <= t, bounds, x + t * p)
        product = H[:, free] @ (y - x)
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
