"""Multipliers of all labels of a hinge risk, and the plane `B + <phi, w>` that they define.

    alpha_i >= 0, sum_k alpha_ik = c_i:   phi = sum_i (sum_k alpha_ik x_i in block k  -  c_i x_i in block y_i),
                                          B = sum_i sum_k alpha_ik L(y_i, k),          B + <phi, w> <= R(w) for all w

For a binary hinge alpha_i is one number in [0, c_i], with `phi = -sum_i alpha_i y_i x_i` and `B = sum_i alpha_i`.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ...core.exceptions import ParameterError
from ...core.plane import Plane
from ...core.rounding import UNIT
from ...risks.partition import SHARD_ROWS
from ._faces import add_face_products, add_rows
from ._proximal_steps import hinge_step, multiclass_step, project_rows
from .multipliers import Faces, Multipliers, Step


class LabelMultipliers(Multipliers):
    """The multipliers of a `MulticlassHinge` or `BinaryHinge`, as arrays alpha of `shape` (n, K)."""

    def __init__(self, risk):
        super().__init__(risk)
        self.shape = (risk.n_examples, risk.n_scores)
        self.is_binary = risk.n_scores == 1
        self.rows = risk.examples.rows(risk.n_scores)
        self._cost = risk.loss
        examples = risk.examples
        self.squared_radius = 2.0 * float(np.mean(examples.norms**2))
        self.row_size = len(examples.storage[0]) / risk.n_examples if examples.is_sparse else examples.width

    def truth(self):
        alpha = np.zeros(self.shape)
        if not self.is_binary:
            alpha[np.arange(len(alpha)), self.risk.labels] = self.risk.sample_weight
        return alpha

    def check(self, alpha):
        """Return multipliers of another run, projected onto the feasible set."""
        alpha = np.array(alpha, dtype=np.float64, order="C")
        if alpha.shape != self.shape or not np.isfinite(alpha).all():
            raise ParameterError(f"multipliers must be finite and of shape (n_examples, n_scores) = {self.shape}, got "
                                 f"shape {alpha.shape}; start from a point only, w0=result.x")
        if self.is_binary:
            return np.clip(alpha, 0.0, self.risk.sample_weight[:, None])
        feasible = np.empty(self.shape)
        project_rows(alpha, self.risk.sample_weight, feasible)
        return feasible

    def step(self, alpha, scores, sigma):
        """Return the proximal `Step` at scores (n, K) in O(n K)."""
        risk, work = self.risk, hinge_step if self.is_binary else multiclass_step
        out, support = np.empty(self.shape), np.empty(len(alpha), dtype=np.int32)

        def shard(start):
            return work(alpha, scores, risk.labels, risk.sample_weight, self._cost, sigma, start,
                        min(start + SHARD_ROWS, len(scores)), out, support)

        sums = np.zeros(3)
        for part in risk.map_shards(shard, range(0, len(scores), SHARD_ROWS)):
            sums += part
        return Step(out, support, *map(float, sums))

    def faces(self, step, largest=None):
        return LabelFaces(self, step, largest)

    def aggregate(self, alpha, support):
        """Return the `Plane` of the multipliers, in float64.

        The multiplier of a truth is c_i minus the sum over the other labels, so this sum must not exceed c_i. If
        rounding makes this sum larger, the multipliers are scaled. A relative excess of `(K + 1) 2^-53` may remain; the
        error bounds include it.
        """
        rows = np.flatnonzero(support)
        risk, K = self.risk, self.shape[1]
        coef = alpha[rows]
        if self.is_binary:
            offset = float(coef.sum())
            coef = coef * -risk.labels[rows, None]
        else:
            here, truth = np.arange(len(rows)), risk.labels[rows]
            coef[here, truth] = 0.0
            total, c = coef.sum(axis=1), risk.sample_weight[rows]
            coef *= np.divide(c, total, out=np.ones_like(c), where=total > c)[:, None]
            offset = float(coef.sum() if self._cost is None else np.einsum("ik,ik->", coef, self._cost[truth]))
            coef[here, truth] = -coef.sum(axis=1)
        summed = self.add(lambda part, out: add_rows(self.rows, coef[part], rows[part], out), len(rows))
        # number of roundings in a sum over rows and in the sum for a truth, and the excess of a sum of multipliers
        terms = np.count_nonzero(coef, axis=0) + len(rows) // SHARD_ROWS + 2.0 * K + 8.0
        error = 1.01 * UNIT * float(terms @ (np.abs(coef).T @ risk.examples.norms[rows]))
        return Plane(offset, risk.examples.unscale(summed, K), error,
                     1.01 * UNIT * (len(rows) * K + K + 8.0) * offset)

    def add(self, work, n):
        """Return the sum over fixed pieces of n rows of what `work(slice, out)` adds to `out`.

        The pieces are summed in order, so that every executor gives the same bits.
        """
        def piece(start):
            out = np.zeros(self.risk.dim)
            work(slice(start, min(start + SHARD_ROWS, n)), out)
            return out

        total = np.zeros(self.risk.dim)
        for out in self.risk.map_shards(piece, range(0, n, SHARD_ROWS)):
            total += out
        return total


class LabelFaces(Faces):
    """The operator `V -> sum_i J_i V x_i x_i'` at a step."""

    def __init__(self, multipliers, step, largest=None):
        super().__init__(step, largest)
        self._multipliers, self._alpha = multipliers, step.alpha

    def product(self, v):
        """Return the operator applied to v (dim,); scores in float32 are accurate enough for a direction."""
        risk, m = self._multipliers.risk, self._multipliers
        packed = m.rows.pack(v, "float32")
        out = m.add(lambda part, out: add_face_products(m.rows, packed, self._alpha, self.rows[part], m.is_binary,
                                                        out), self.n_rows)
        return risk.examples.unscale(out, risk.n_scores) * self.fraction

    def diagonal(self):
        risk, K = self._multipliers.risk, self._multipliers.shape[1]
        X, d = risk.examples.X, risk.n_features
        out = np.zeros((K, risk.examples.width))
        for start in range(0, self.n_rows, SHARD_ROWS):
            part = slice(start, start + SHARD_ROWS)
            weights = np.ones((len(self.rows[part]), 1)) if self._multipliers.is_binary else (
                (self._alpha[self.rows[part]] > 0.0) * (1.0 - 1.0 / self.sizes[part])[:, None])
            x = X[self.rows[part]]
            kind = np.float64 if x.dtype == np.float64 else np.float32
            squares = x.astype(kind).power(2) if sp.issparse(x) else np.square(x, dtype=kind)
            out[:, :d] += (squares.T @ weights.astype(kind)).T * (risk.examples.scale**2 * self.fraction)
            if risk.examples.bias is not None:
                out[:, d] += risk.examples.bias**2 * self.fraction * weights.sum(axis=0)
        return out.ravel()

    def matrix(self):
        """Return the operator as a matrix (dim, dim), of which only the lower triangle is computed."""
        m, examples = self._multipliers, self._multipliers.risk.examples
        K, width = m.shape[1], examples.width
        H = np.zeros((K, width, K, width))
        for start in range(0, self.n_rows, SHARD_ROWS):
            rows = self.rows[start:start + SHARD_ROWS]
            inside = np.ones((len(rows), 1)) if m.is_binary else (self._alpha[rows] > 0.0).astype(np.float64)
            shares = np.zeros(len(rows)) if m.is_binary else 1.0 / self.sizes[start:start + SHARD_ROWS]
            X = examples.dense(rows)
            for k in range(K):
                for j in range(k + 1):
                    weights = inside[:, k] * ((k == j) - shares * inside[:, j])
                    some = np.flatnonzero(weights)
                    H[k, :, j] += (X[some] * weights[some, None]).T @ X[some]
        H *= self.fraction
        return H.reshape(K * width, -1)

    def directions(self, kind):
        """Return directions of all faces as `(X, Q)`: direction e is the matrix `Q[e] X[e]'` of shape (K, width).

        X (rank, width) repeats the row of an example for each dimension of its face. The rows of Q (rank, K) are
        orthonormal in each face: Helmert contrasts, that is the mean of its first j labels minus the next, scaled.
        """
        examples = self._multipliers.risk.examples
        if self._multipliers.is_binary:
            owner, Q = np.arange(self.n_rows), np.ones((self.n_rows, 1))
        else:
            inside = self._alpha[self.rows] > 0.0
            place = np.cumsum(inside, axis=1)
            owner = np.repeat(np.arange(self.n_rows), self.sizes - 1)
            first = np.cumsum(self.sizes - 1) - (self.sizes - 1)
            j = (np.arange(self.rank) - first[owner] + 1)[:, None]
            inside, place = inside[owner], place[owner]
            Q = (inside & (place <= j)) - j * (inside & (place == j + 1.0))
            Q = Q / np.sqrt(j * (j + 1.0))
        X = examples.X[self.rows[owner]].astype(kind) * kind(examples.scale)
        if examples.bias is not None:
            bias = np.full((len(owner), 1), examples.bias, dtype=kind)
            X = sp.hstack([X, bias], format="csr") if sp.issparse(X) else np.hstack([X, bias])
        return X, Q.astype(kind)
