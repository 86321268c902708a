"""The point of compiled block steps: w = [W (K, width) | weights that belong to no feature], in the layout of kernels.

Steps change the point V. With a penalty, W follows from V by a threshold, a factor and bounds, see `_shrinkage.pyx`;
without a penalty W is V.
"""

import numpy as np

from libc.math cimport fabs

from pybundle.features._rows cimport PB_CSR32, Rows
from pybundle.solvers.block._shrinkage cimport Shrinkage

from pybundle.features._rows import aligned, transpose


cdef class PackedPoint:
    """The points W and V for K scores of rows.

    Parameters
    ----------
    features : Rows
    is_single : bool
        Whether W is kept in float32.
    n_rest : int
        Number of weights that belong to no feature, such as those of pairs of labels.
    """

    def __init__(self, Rows features, bint is_single, Py_ssize_t n_rest=0):
        # a W with weights for m pairs of feature and label only is stored like the weights of one score
        cdef Py_ssize_t d = features.width - features.has_bias, K = features.n_blocks, lanes
        self.features, self.is_single, self.dense = features, is_single, features.kind < PB_CSR32
        lanes = max(1, features.kernels.lanes32 if is_single else features.kernels.lanes32 // 2)
        if self.dense:
            shape = (K, (d + 15) // 16 * 16)
        else:
            shape = (d, 1 if K == 1 else (K + lanes - 1) // lanes * lanes)
        self.packed = aligned(shape, np.float32 if is_single else np.float64)
        self.ldw, self.ldc = shape[1], (features.n_scores + 15) // 16 * 16
        self.base = self.base_unshrunk = np.zeros(features.n_scores + n_rest)
        self.unshrunk = self.packed
        self.W = self.V = <void*><size_t>self.packed.ctypes.data

    def set_point(self, w, double s):
        """Set the point of the multipliers to `w` (dim,), and the curvature of the steps to s = lam + kappa."""
        self._pack(w, self.packed, np.asarray(self.base))
        self.s = s

    def set_intercepts(self, moving):
        """Let the intercepts of classes have no penalty, see `MovingIntercepts`; the point has to be set before.

        The steps are those for centred rows x_i - m with a last column `sqrt(ratio)`, whose weights are relative to
        `origin`. But W is a sum of multiples of rows that are not centred; a_k (`sums`) is the sum of the coefficients
        of class k. Then the score is

            <W_k, x_i> + origin_k + (ratio - 1 + |m|^2 - <m, x_i>) a_k - <m, W_k>,

        and inner products of rows gain `ratio - 1 + |m|^2 - <m, x_i> - <m, x_j>`.
        """
        means, W = moving.means, self.point().reshape(self.features.n_scores, -1)
        if moving.products.shape != (self.features.n_rows,) or W.shape != (len(moving.origin), len(means)):
            raise ValueError("intercepts must belong to classes, products and means to their rows")
        self.is_centred, self.excess, self.unit = True, moving.ratio - 1.0 + means @ means, 1.0 / self.features.scale**2
        self.products, self.origin, self.sums, self.pull = moving.products, moving.origin, W[:, -1].copy(), W @ means

    def set_limits(self, s, l1, lower, upper):
        """Let `w = clip(soft(v, l1) / s, lower, upper)` from now on, for arrays (dim,) with s = l2 + kappa > 0.

        The caller has to call `set_penalised_point` afterwards.
        """
        if not s.min() > 0.0:
            raise ValueError(f"s must be > 0, got {s.min():g}")
        cdef Rows e = self.features
        cdef Py_ssize_t K = e.n_scores, d = e.width - e.has_bias
        if self.shrinkage is None:
            self.unshrunk = aligned(self.packed.shape, self.packed.dtype)
            self.V = <void*><size_t>self.unshrunk.ctypes.data
            self.base_unshrunk = np.zeros(len(self.base))
        self.s = s.min()
        # bounds and thresholds are stored times the scale of the data, as W is; factors have no scale
        whole = l1 / self.s, self.s / s, lower, upper
        limits = [values[:e.n_weights].reshape(e.n_blocks, e.width) for values in whole]
        base = np.zeros((4, len(self.base)))
        base[:, K:] = [values[e.n_weights:] for values in whole]
        if e.has_bias and e.bias != 0.0:
            threshold, factor, lower, upper = (values[:, d] for values in limits)
            base[0, :K], base[1, :K] = threshold * fabs(e.bias), factor
            base[2:, :K] = np.sort([lower * e.bias, upper * e.bias], axis=0)
        limits = [values[:, :d] for values in limits]
        if all(values.size and values.min() == values.max() for values in limits):
            packed = np.array([values[:1, :1] for values in limits], dtype=self.packed.dtype)
        else:
            packed = np.zeros((4, *self.packed.shape), dtype=self.packed.dtype)
            for q in range(4):
                if self.dense:
                    packed[q, :, :d] = limits[q]
                else:
                    packed[q, :, :e.n_blocks] = limits[q].T
        packed[[0, 2, 3]] *= e.scale
        self.shrinkage, self.base_shrinkage = Shrinkage(packed), Shrinkage(base)

    def set_penalised_point(self, v, w=None):
        """Set v (dim,) and the point w (dim,); None means the w that follows from v, see `set_limits`."""
        cdef Py_ssize_t size = self.packed.size
        self._pack(v / self.s, self.unshrunk, np.asarray(self.base_unshrunk))
        if w is not None:
            self._pack(w, self.packed, np.asarray(self.base))
            return
        self.base_shrinkage.apply(&self.base_unshrunk[0], &self.base[0], 0, self.base.shape[0])
        if self.is_single:
            self.shrinkage.apply(<float*>self.V, <float*>self.W, <Py_ssize_t>0, size)
        else:
            self.shrinkage.apply(<double*>self.V, <double*>self.W, <Py_ssize_t>0, size)

    def _pack(self, w, packed, base):
        """Write w (dim,) in the layout of the kernels to `packed`, and weights that belong to no feature to `base`."""
        cdef Rows e = self.features
        cdef Py_ssize_t K = e.n_scores, d = e.width - e.has_bias
        W = np.ascontiguousarray(w[:e.n_weights]).reshape(e.n_blocks, e.width)
        if self.dense:
            packed[:, :d] = W[:, :d] * e.scale
        else:
            transpose(W, e.scale, d, packed)
        base[:K] = e.bias * W[:, d] if e.has_bias else 0.0
        base[K:] = w[e.n_weights:]

    def point(self):
        """Return the present point W (dim,) in float64."""
        return self._unpacked(self.packed, np.asarray(self.base))

    def unshrunk_point(self):
        """Return s V (dim,), which is the v of `set_limits`."""
        return self.s * self._unpacked(self.unshrunk, np.asarray(self.base_unshrunk))

    def _unpacked(self, packed, base):
        cdef Rows e = self.features
        cdef Py_ssize_t K = e.n_scores, d = e.width - e.has_bias
        w = np.zeros(e.n_weights + len(base) - K)
        W = w[:e.n_weights].reshape(e.n_blocks, e.width)
        W[:, :d] = packed[:, :d] if self.dense else packed[:, :e.n_blocks].T
        W[:, :d] /= e.scale
        if e.has_bias and e.bias != 0.0:
            W[:, d] = base[:K] / e.bias
        w[e.n_weights:] = base[K:]
        return w

    def restore_arrays(self, mine, state):
        """Copy the arrays of a state into the arrays `mine` of the same names, and take the s of the state.

        Raises ValueError if shapes or numbers do not fit.
        """
        for name, array in mine.items():
            if state[name].shape != array.shape or state[name].dtype != array.dtype:
                raise ValueError(f"{name} must have shape {array.shape} and dtype {array.dtype}, got "
                                 f"{state[name].shape} and {state[name].dtype}")
            if array.dtype.kind == "f" and not np.isfinite(state[name]).all():
                raise ValueError(f"{name} must be finite")
        if not 0.0 < state["s"] < np.inf:
            raise ValueError("s must be a number > 0")
        for name, array in mine.items():
            array[...] = state[name]
        self.s = state["s"]

    def points(self):
        """Return the arrays of the points by name; without a penalty V is left out."""
        found = {"packed": self.packed, "base": np.asarray(self.base)}
        if self.is_centred:
            found |= {"sums": np.asarray(self.sums), "pull": np.asarray(self.pull)}
        if self.shrinkage is not None:
            found |= {"unshrunk": self.unshrunk, "base_unshrunk": np.asarray(self.base_unshrunk)}
        return found
