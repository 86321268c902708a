"""Multipliers of all examples of a risk whose labels can be enumerated, and marks of the examples to visit next.

With many labels every example has a working set: the labels whose scores were close to the best score when all labels
were last scored, and labels with a multiplier > 0. Until all labels are scored again, steps look at no other labels. A
missing label makes progress slower, but no bound invalid: see `_label_sums.pyx`.
"""

import numpy as np

from libc.math cimport fabs
from libc.stdint cimport int32_t

from pybundle.features._rows cimport PB_CSR32, real
from pybundle.risks._engine cimport CURVE, LOGISTIC, MULTICLASS, Engine
from pybundle.solvers.block._packed_point cimport PackedPoint

from pybundle.features._rows import aligned

cdef enum:
    MANY_LABELS = 64        # with so many labels or more, a step on a working set is faster than a step on all labels
    SHARE = 8               # a working set holds at most K / SHARE of the K labels

NEAR = 0.1      # `LabelBlocks.margin` is NEAR times the size of a usual loss, see `spread_of`


def set_capacity(Engine e):
    """Return the maximum size of a working set, or 0 if steps look at all labels, as on sparse rows."""
    has_sets = e.loss == MULTICLASS and e.n_scores >= MANY_LABELS and e.kind < PB_CSR32
    return e.n_scores // SHARE if has_sets else 0


cdef class LabelBlocks(PackedPoint):
    """Multipliers of all examples of a hinge risk, or of a risk with another piecewise quadratic loss of one score.

    Parameters
    ----------
    engine : Engine
        Any loss but LOGISTIC.
    precision : {"float32", "float64"}
        Precision of W, scores and multipliers; float32 needs a suitable storage and range of the data.
    multipliers : ndarray, shape (n, K), optional
        Multipliers to start from, see `restore`; without this argument all weight is on the truths.

    Attributes
    ----------
    alpha : ndarray, shape (n, K)
        Multipliers, each row c_i times a point of the simplex; one column with numbers in [0, c_i] for one score.
    examples : structured array, shape (n,)
        An `Example` of each row, see `_label_blocks.pxd`. `active` is 1 if alpha_i is no vertex, if the block gap was
        not 0 at the last step, or if `mark` found that the best label leads by less than `margin`.
    near : ndarray, shape (n, set_capacity)
        Working sets; the first `examples["n_near"][i]` entries of row i are used.
    """

    def __init__(self, Engine engine, precision, multipliers=None):
        cdef Py_ssize_t n = engine.n_examples
        cdef int K = engine.n_scores
        if engine.loss == LOGISTIC:
            raise ValueError("the dual of the logistic loss has no exact blocks")
        self.e = engine
        PackedPoint.__init__(self, engine, precision == "float32" and engine.kernels.step32[engine.kind] != NULL
                             and fits_float32(engine.norms) and fits_float32(engine.weight_array))
        labels = np.asarray(engine.y_array)
        self.examples = aligned((n,), np.dtype([("c", "f8"), ("square", "f8"), ("y", "i4"), ("vertex", "i4"),
                                                ("active", "i4"), ("n_near", "i4")]))
        self.rows = <Example*><size_t>self.examples.ctypes.data
        self.examples["c"], self.examples["y"] = engine.weight_array, labels
        self.examples["square"] = np.asarray(engine.norms) ** 2
        self.examples["active"] = 1
        self.alpha = np.zeros((n, K), dtype=self.packed.dtype)
        self.set_capacity, self.margin = set_capacity(engine), NEAR * spread_of(engine)
        self.near = np.zeros((n, self.set_capacity), dtype=np.int32)
        self.near_of = <int32_t*><size_t>self.near.ctypes.data
        if engine.loss == MULTICLASS:
            self.alpha[np.arange(n), labels] = engine.weight_array
            self.examples["vertex"] = labels
        if self.is_single:
            self.alpha32 = self.alpha
        else:
            self.alpha64 = self.alpha
        if multipliers is not None:
            self.restore(multipliers)

    def restore(self, multipliers):
        """Set the multipliers to given multipliers of the same examples, after making these feasible."""
        cdef Engine e = self.e
        c, y = np.asarray(e.weight_array), np.asarray(e.y_array)
        low, high = (-e.curve.high, -e.curve.low) if e.loss == CURVE else (0.0, 1.0)
        alpha = np.clip(np.asarray(multipliers, dtype=np.float64), low * c[:, None], high * c[:, None])
        if e.loss == MULTICLASS:
            alpha[np.arange(len(y)), y] = 0.0
            total = alpha.sum(axis=1)
            alpha *= np.divide(c, total, out=np.ones_like(c), where=total > c)[:, None]
            alpha[np.arange(len(y)), y] = np.maximum(c - alpha.sum(axis=1), 0.0)
        self.alpha[:] = alpha
        if e.loss == MULTICLASS:
            vertex = np.where(np.count_nonzero(self.alpha, axis=1) == 1, self.alpha.argmax(axis=1), -1)
        elif e.loss == CURVE:
            vertex = np.full(len(c), -1)        # each step determines the vertex anew
        else:
            vertex = np.where(self.alpha[:, 0] == 0.0, 0,
                              np.where(self.alpha[:, 0] == c.astype(self.alpha.dtype), 1, -1))
        self.examples["vertex"] = vertex
        self.examples["active"] = 1
        self.examples["n_near"] = 0

    def get_state(self):
        """Return, by name, all that differs from a new object of the same engine; arrays of points are not copied."""
        state = self.points() | {"alpha": self.alpha, "near": self.near, "s": self.s}
        return state | {name: self.examples[name].copy() for name in ("vertex", "active", "n_near")}

    def set_state(self, state):
        """Become what `get_state` described, to the last bit; `set_penalty` must have been called."""
        vertex, near, n_near = state["vertex"], state["near"], state["n_near"]
        if ((vertex < -1) | (vertex >= max(3, self.e.n_scores))).any():
            raise ValueError("vertex must name labels")
        if ((near < 0) | (near >= self.e.n_scores)).any() or ((n_near < 0) | (n_near > self.set_capacity)).any():
            raise ValueError("working sets must hold labels")
        mine = self.points() | {"alpha": self.alpha, "near": self.near}
        self.restore_arrays(mine | {name: self.examples[name] for name in ("vertex", "active", "n_near")}, state)

    @property
    def target_sum(self):
        """Bound on what targets add to a sum of losses, for the error of the sum: `steepest sum_i c_i |target_i|`."""
        return 0.0 if self.e.loss != CURVE else self.steepest * float(
            np.abs(self.e.target_array) @ np.asarray(self.e.weight_array))

    @property
    def steepest(self):
        """The largest absolute derivative of a loss by its score."""
        return max(fabs(self.e.curve.low), fabs(self.e.curve.high)) if self.e.loss == CURVE else 1.0

    @property
    def score_terms(self):
        """Number of roundings in a float64 score, see `Rows.score_terms`."""
        return self.e.score_terms

    def set_penalty(self, s, l1, lower, upper, curvatures):
        """Call `set_limits`, and set upper bounds `curvatures` (n,) of the curvature of the dual along each x_i."""
        self.set_limits(s, l1, lower, upper)
        self.examples["square"] = self.s * curvatures

    # ------------------------------------------------------------------ what the next pass visits
    def active(self):
        """Return the active rows in ascending order."""
        cdef Py_ssize_t[::1] found = np.empty(self.e.n_examples, dtype=np.intp)
        cdef Py_ssize_t count
        with nogil:
            count = self.find_active(&found[0])
        return np.array(found[:count])

    cdef Py_ssize_t find_active(self, Py_ssize_t* found) noexcept nogil:
        """Write the active rows to `found`, which has room for all rows; return their number."""
        cdef Py_ssize_t i, count = 0
        for i in range(self.e.n_examples):
            found[count] = i            # overwritten if row i is not active, without a branch that is hard to predict
            count += self.rows[i].active != 0
        return count


cdef void keep_near(LabelBlocks blocks, Py_ssize_t row, const real* u, int stride, double top) noexcept nogil:
    cdef int32_t* near = blocks.near_of + row * blocks.set_capacity
    cdef const float* alpha32 = &blocks.alpha32[row, 0] if blocks.is_single else NULL
    cdef const double* alpha64 = NULL if blocks.is_single else &blocks.alpha64[row, 0]
    cdef double level = top - blocks.margin
    cdef int k, count = 0
    for k in range(blocks.e.n_scores):
        if u[k * stride] > level or (alpha32[k] > 0 if blocks.is_single else alpha64[k] > 0):
            if count == blocks.set_capacity:
                count = 0
                break
            near[count] = k
            count += 1
    blocks.rows[row].n_near = count


def spread_of(Engine engine):
    """Return the size of a usual loss: the largest cost or, in regression, the standard deviation of the targets."""
    return engine.largest_loss if engine.loss != CURVE else float(np.std(engine.target_array)) or 1.0


def fits_float32(values):
    """Return whether squares and products of these numbers >= 0 stay far from the limits of float32."""
    values = np.asarray(values)
    return values.max(initial=1.0) < 1e15 and values.min(initial=1.0, where=values > 0.0) > 1e-15
