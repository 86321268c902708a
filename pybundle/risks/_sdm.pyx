"""Multipliers of a hinge risk, for exact block steps of its dual with a proximal term: sequential dual method.

    beta_i in c_i times the simplex of the labels,  phi = sum_ik beta_ik (e_k - e_{y_i}) x_i',  W = (kappa C - phi) / s
    step i:  beta_i <- Proj(beta_i + s u_i / |x_i|^2),  u_i = L(y_i, .) + W x_i,   W -= (beta_new - beta) x_i' / s

[Keerthi et al. 2008; ALGORITHMS 5.3]; for one score beta_i in [0, c_i] and u_i = 1 - y_i <w, x_i>. The steps are taken
by `_sdm_pass.visit`.
"""

import numpy as np

from libc.math cimport INFINITY

from ..features._rows cimport BLOCK, PB_CSR32, PB_FLOAT32, PB_UINT8, STEP, real
from ._block_step cimport Example
from ._engine cimport LOGISTIC, MULTICLASS, Engine

from ..features._rows import aligned, transpose

cdef enum:
    SPARSE_BLOCK = 1024     # sparse rows whose sums are taken class by class

cdef double UNIT = 2.0 ** -53


def fits_float32(values):
    """Whether squares and products of these numbers >= 0 stay far from the limits of float32."""
    values = np.asarray(values)
    return values.max(initial=1.0) < 1e15 and values.min(initial=1.0, where=values > 0.0) > 1e-15


cdef inline void fetch_row(Engine e, Py_ssize_t i) noexcept nogil:
    # a dense row on its way into the cache: rows that are far apart come slowly one by one
    cdef Py_ssize_t size = e.n_features * (1 if e.kind == PB_UINT8 else 4 if e.kind == PB_FLOAT32 else 8), at = 0
    cdef const char* row = <const char*>e.X.data + i * size
    while at < size:
        prefetch(row + at)
        at += 64


cdef class Blocks:
    """Multipliers of all examples of a hinge risk and the point W that belongs to them.

    Parameters
    ----------
    engine : Engine
        Loss MULTICLASS or HINGE.
    precision : {"float32", "float64"}
        Of W, scores and multipliers; float32 where storage and range of the data allow it.

    Attributes
    ----------
    beta : ndarray, shape (n, K)
        Multipliers, `c_i alpha_i`; one column `beta_i` in [0, c_i] for the binary hinge.
    examples : structured array, shape (n,)
        `active` is 1 where beta_i is no vertex, or the block gap at the last look was not nothing.
    visits : float
        Examples visited so far.
    """

    def __init__(self, Engine engine, precision):
        cdef Py_ssize_t d = engine.n_features, n = engine.n_examples, lanes
        cdef int K = engine.n_scores
        if engine.loss == LOGISTIC:
            raise ValueError("the dual of the logistic loss has no exact blocks")
        self.e = engine
        self.is_single = (precision == "float32" and engine.kernels.step32[engine.kind] != NULL
                          and fits_float32(engine.norms) and fits_float32(engine.weight_array))
        self.dense = engine.kind < PB_CSR32
        dtype = np.float32 if self.is_single else np.float64
        lanes = max(1, engine.kernels.lanes32 if self.is_single else engine.kernels.lanes32 // 2)
        if self.dense:
            shape = (K, (d + 15) // 16 * 16)
        else:
            shape = (d, 1 if K == 1 else (K + lanes - 1) // lanes * lanes)
        self.packed = aligned(shape, dtype)
        self.ldw = shape[1]
        self.ldc = (K + 15) // 16 * 16
        self.base = np.zeros(K)
        self.constant = (engine.bias / engine.scale) ** 2
        labels = np.asarray(engine.y_array)
        self.examples = aligned((n,), np.dtype([("c", "f8"), ("square", "f8"), ("y", "i4"), ("vertex", "i4"),
                                                ("active", "i4"), ("spare", "i4")]))
        self.rows = <Example*><size_t>self.examples.ctypes.data
        self.examples["c"], self.examples["y"] = engine.weight_array, labels
        self.examples["square"] = np.asarray(engine.norms) ** 2
        self.examples["active"] = 1
        self.beta = np.zeros((n, K), dtype=dtype)
        if engine.loss == MULTICLASS:
            self.beta[np.arange(n), labels] = engine.weight_array
            self.examples["vertex"] = labels
        self._bind()
        per_row = K * (d if self.dense else max(1, int(engine.storage[2][n]) // max(1, n)))
        self.patience = max(STEP, <Py_ssize_t>(2e8 / per_row))

    def _bind(self):
        if self.is_single:
            self.beta32 = self.beta
        else:
            self.beta64 = self.beta

    def restore(self, multipliers):
        """Takes over multipliers of the same examples, made feasible."""
        cdef Engine e = self.e
        c, y = np.asarray(e.weight_array), np.asarray(e.y_array)
        beta = np.clip(np.asarray(multipliers, dtype=np.float64), 0.0, c[:, None])
        if e.loss == MULTICLASS:
            beta[np.arange(len(y)), y] = 0.0
            total = beta.sum(axis=1)
            beta *= np.divide(c, total, out=np.ones_like(c), where=total > c)[:, None]
            beta[np.arange(len(y)), y] = np.maximum(c - beta.sum(axis=1), 0.0)
        self.beta[:] = beta
        if e.loss == MULTICLASS:
            vertex = np.where(np.count_nonzero(self.beta, axis=1) == 1, self.beta.argmax(axis=1), -1)
        else:
            vertex = np.where(self.beta[:, 0] == 0.0, 0, np.where(self.beta[:, 0] == c.astype(self.beta.dtype), 1, -1))
        self.examples["vertex"] = vertex
        self.examples["active"] = 1

    def get_state(self):
        """What differs from a new object of the same engine, by name; arrays are shared, not copied."""
        return {"beta": self.beta, "packed": self.packed, "base": np.asarray(self.base), "s": self.s,
                "visits": self.visits, "vertex": self.examples["vertex"].copy(),
                "active": self.examples["active"].copy()}

    def set_state(self, state):
        """Becomes what `get_state` described, to the last bit."""
        mine = self.get_state()
        for name in ("beta", "packed", "base", "vertex", "active"):
            if state[name].shape != mine[name].shape or state[name].dtype != mine[name].dtype:
                raise ValueError(f"{name} must have shape {mine[name].shape} and dtype {mine[name].dtype}, got "
                                 f"{state[name].shape} and {state[name].dtype}")
        for name in ("beta", "packed", "base"):
            if not np.isfinite(state[name]).all():
                raise ValueError(f"{name} must be finite")
        if not 0.0 < state["s"] < INFINITY:
            raise ValueError("s must be a number > 0")
        vertex = state["vertex"]
        if ((vertex < -1) | (vertex >= max(2, self.e.n_scores))).any():
            raise ValueError("vertex must name labels")
        self.beta[:], self.packed[:] = state["beta"], state["packed"]
        np.asarray(self.base)[:] = state["base"]
        self.examples["vertex"], self.examples["active"] = vertex, state["active"]
        self.s, self.visits = state["s"], state["visits"]

    @property
    def largest_loss(self):
        """The largest entry of the cost matrix, 1 without one."""
        return self.e.largest_loss

    @property
    def score_terms(self):
        """As in `Rows`."""
        return self.e.score_terms

    # ------------------------------------------------------------------ the point
    def place(self, w, double s):
        """Makes `w` (dim,) the point of the multipliers, and s = lam + kappa the curvature of the steps."""
        cdef Engine e = self.e
        W = np.ascontiguousarray(w).reshape(e.n_scores, e.width)
        if self.dense:
            self.packed[:, :e.n_features] = W[:, :e.n_features] * e.scale
        else:
            transpose(W, e.scale, e.n_features, self.packed)
        base = np.asarray(self.base)
        base[:] = e.bias * W[:, e.n_features] if e.has_bias else 0.0
        self.s = s

    def point(self):
        """The point (dim,) as it stands now, in float64."""
        cdef Engine e = self.e
        W = np.zeros((e.n_scores, e.width))
        W[:, :e.n_features] = self.packed[:, :e.n_features] if self.dense else self.packed[:, :e.n_scores].T
        W[:, :e.n_features] /= e.scale
        if e.has_bias and e.bias != 0.0:
            W[:, e.n_features] = np.asarray(self.base) / e.bias
        return W.ravel()

    # ------------------------------------------------------------------ what the next pass visits
    def active(self):
        """Rows where beta_i is no vertex, or where the last step or look found a gap, ascending."""
        cdef Py_ssize_t i, n = self.e.n_examples, count = 0
        cdef Py_ssize_t[::1] found = np.empty(n, dtype=np.intp)
        with nogil:
            for i in range(n):
                found[count] = i            # overwritten unless it counts: no branch that is hard to foresee
                count += self.rows[i].active != 0
        return np.array(found[:count])

    # ------------------------------------------------------------------ a look without steps
    def look(self, const real[:, ::1] S, double margin, Py_ssize_t first=0):
        """Losses, summed, at the point with scores S of the rows from `first` on, bias included; marks the active ones.

        Active: beta_i is no vertex, or its label leads by less than `margin`. Threads may look at different rows.
        """
        cdef Engine e = self.e
        cdef Py_ssize_t i
        cdef int K = e.n_scores, k
        cdef double risk = 0.0, top, second, u
        cdef Example* x
        cdef const real* s
        if not 0 <= first <= e.n_examples - S.shape[0] or S.shape[1] != K:
            raise ValueError(f"S must hold scores of rows from {first} on, at most {e.n_examples} in all, in {K} "
                             f"columns, got shape ({S.shape[0]}, {S.shape[1]})")
        with nogil:
            for i in range(S.shape[0]):
                x = &self.rows[first + i]
                s = &S[i, 0]
                if e.loss != MULTICLASS:
                    u = 1.0 - x.y * <double>s[0]
                    risk += x.c * max(u, 0.0)
                    x.active = x.c > 0.0 and (x.vertex < 0 or (u > -margin if x.vertex == 0 else u < margin))
                    continue
                if e.has_cost:
                    top = second = -INFINITY
                    for k in range(K):
                        u = s[k] + e.cost[x.y, k]
                        second = max(second, min(u, top))
                        top = max(top, u)
                    u = s[x.y]
                else:
                    top = second = -INFINITY
                    for k in range(K):
                        u = s[k]
                        if k == x.y:
                            u -= 1.0
                        second = max(second, min(u, top))
                        top = max(top, u)
                    u = s[x.y] - 1.0
                risk += x.c * max(top - u, 0.0)
                x.active = x.c > 0.0
                if x.vertex >= 0:
                    u = s[x.vertex] + (e.cost[x.y, x.vertex] if e.has_cost else -<double>(x.vertex == x.y))
                    x.active &= u < top or top < second + margin
        return risk

    def value(self, const double[:, ::1] S):
        """R at the point with scores S (n, K): a plain sum of losses, none of which is negative."""
        cdef Engine e = self.e
        cdef Py_ssize_t i
        cdef int K = e.n_scores, k, y
        cdef double risk = 0.0, top
        if S.shape[0] != e.n_examples or S.shape[1] != K:
            raise ValueError(f"S must have shape ({e.n_examples}, {K}), got ({S.shape[0]}, {S.shape[1]})")
        with nogil:
            for i in range(e.n_examples):
                y, top = e.y[i], 0.0
                if e.loss != MULTICLASS:
                    top = max(0.0, 1.0 - y * S[i, 0])
                else:
                    for k in range(K):
                        if k != y:
                            top = max(top, (e.cost[y, k] if e.has_cost else 1.0) + (S[i, k] - S[i, y]))
                risk += e.c[i] * top
        return risk

    # ------------------------------------------------------------------ evidence
    def aggregate(self, slope, first=0, last=None):
        """Adds `sum_ik beta_ik (e_k - e_y) X_i` to `slope` (K * width,), unscaled, in float64.

        Parameters
        ----------
        slope : float64 array
            Zeros, for the bound to hold.
        first, last : int
            The sum is over the rows `first <= i < last`, None is n. Threads may sum different rows, each into its own
            slope.

        Returns
        -------
        offset : float
            `sum_ik beta_ik L(y_i, k)`.
        error : float
            Bound on the rounding error of the slope in the Euclidean norm. Where slopes, offsets and errors of two
            ranges are added, the errors bound those of the sums too.
        offset_error : float

        Raises
        ------
        ValueError
            For rows outside 0..n, or a slope of another length.

        Notes
        -----
        Multipliers of the labels k != y_i count, that of the truth is what remains of c_i: whatever float32 made of
        them, they are feasible, because those that exceed c_i are scaled down.
        """
        cdef Engine e = self.e
        last = e.n_examples if last is None else last
        if not 0 <= first <= last <= e.n_examples:
            raise ValueError(f"first and last must be 0 <= first <= last <= {e.n_examples}, got {first} and {last}")
        if len(slope) != e.n_scores * e.width:
            raise ValueError(f"slope must have shape ({e.n_scores * e.width},), got ({len(slope)},)")
        if self.is_single:
            return self._aggregate(self.beta32, slope, first, last)
        return self._aggregate(self.beta64, slope, first, last)

    def _aggregate(self, const real[:, ::1] betas, double[::1] slope, Py_ssize_t first, Py_ssize_t last):
        cdef Engine e = self.e
        cdef int K = e.n_scores, k, y
        # a block of dense rows stays in the cache; where they are sparse it is the slope of a class that should stay
        cdef Py_ssize_t i = first, size, entries = 0, products = 0, block = BLOCK if self.dense else SPARSE_BLOCK
        cdef double offset = 0.0, reach = 0.0, total, c, b, ratio
        cdef bint single = e.loss != MULTICLASS
        # entries of a block of rows, class by class: K entries a row are the most
        cdef Py_ssize_t[:, ::1] row = np.empty((K, block), dtype=np.intp)
        cdef double[:, ::1] coef = np.empty((K, block))
        cdef int[::1] count = np.zeros(K, dtype=np.intc)
        cdef Py_ssize_t[::1] met = np.zeros(K, dtype=np.intp)
        with nogil:
            while i < last:
                size = 0
                while i < last and size < block:
                    y, c = e.y[i], e.c[i]
                    if self.dense and self.rows[i].vertex != (0 if single else y):
                        fetch_row(e, i)
                    if single:
                        b = min(max(<double>betas[i, 0], 0.0), c)
                        if b > 0.0:
                            offset += b
                            reach += b * e.norms[i]
                            row[0, count[0]] = i
                            coef[0, count[0]] = -b * y
                            count[0] += 1
                            size += 1
                    elif self.rows[i].vertex != y:
                        total = 0.0
                        for k in range(K):
                            if k != y:
                                total += betas[i, k]
                        if total > 0.0:
                            ratio = c / total if total > c else 1.0
                            size += 1
                            total = 0.0
                            for k in range(K):
                                if k != y and betas[i, k] > 0:
                                    b = ratio * betas[i, k]
                                    total += b
                                    offset += b * (e.cost[y, k] if e.has_cost else 1.0)
                                    row[k, count[k]] = i
                                    coef[k, count[k]] = b
                                    count[k] += 1
                            row[y, count[y]] = i
                            coef[y, count[y]] = -total
                            count[y] += 1
                            reach += 2.0 * total * e.norms[i]
                    i += 1
                for k in range(K):
                    if count[k]:
                        e.accumulate(&row[k, 0], &coef[k, 0], count[k], &slope[0] + k * e.width)
                        met[k] += count[k]
                        count[k] = 0
        for k in range(K):
            entries = max(entries, met[k])
            products += met[k]
        # a component is a sum of at most `entries` products, the offset one of `products`; the sum for a truth, the
        # ratio and what is left of a sum that should not exceed c: 2 K + 4 roundings more, and one where two sums are
        # added
        return (offset, 1.01 * UNIT * (entries + 2 * K + 7) * reach,
                1.01 * UNIT * (products + K + 7) * offset)
