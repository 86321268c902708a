"""Dual of a hinge risk whose labels can be enumerated, ascended exactly at one example after the other.

    maximise  sum_ik alpha_ik L(y_i, k) - |phi|^2 / (2 s) + (kappa / s) <c, phi>,   s = lam + kappa,
    phi = sum_ik alpha_ik (e_k - e_{y_i}) x_i',   alpha_i >= 0 with sum c_i,   W = (kappa c - phi) / s

The step at example i, all other multipliers as they are [sequential dual method, Keerthi et al. 2008]:

    1   u_k = L(y_i, k) + <W_k, x_i>,  k = 1..K           scores
    2   gap_i = c_i max_k u_k - <alpha_i, u>               no step if it is 0
    3   new = Proj(alpha_i + u s / |x_i|^2)                onto c_i times the simplex: the exact maximiser
    4   W_k -= (new_k - alpha_ik) x_i / s,  alpha_i = new

With one score (binary hinge) alpha_i is a number in [0, c_i], u = 1 - y_i <w, x_i>, and Proj clips. For another loss
of one score, `l(u) = max_beta beta u - h(beta)`, it is -c_i beta, and the step maximises over beta in closed form.

Dense rows are scored four at a time, a group, which the tile of the score kernels wants, and their moves reach W
together. If a row moves, the scores of the rows behind it in the group are corrected by `<x_i, x_j>`, so that the
steps equal those of one row after another.

With a penalty (`set_penalty`) the point W follows from another one V by a threshold, a factor s / s_j and bounds, see
`_shrinkage.pyx`, where s_j = l2_j + kappa, and s is the least of these: line 4 moves V, then the entries of W that
belong to the row follow. With `s sum_j x_ij^2 / s_j` in place of |x_i|^2 line 3 takes the largest curvature that the
dual can have along x_i, so that the step at the scores of W ascends, too [prox-SDCA, Shalev-Shwartz & Zhang 2014]. W is
not linear in the steps, so that a group is one row.
"""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t
from libc.string cimport memset

from pybundle.features._rows cimport (BLOCK, PB_FLOAT32, PB_UINT8, STEP, pb_dots_fn, pb_score_fn,
                                      pb_update_fn, real)
from pybundle.risks._engine cimport (CURVE, LOGISTIC, MULTICLASS, Curve, Engine, curve_loss, curve_slope,
                                     curve_term)
from pybundle.solvers.block._packed_point cimport PackedPoint
from pybundle.solvers.newton._proximal_steps cimport project

from pybundle.features._rows import aligned

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define PB_FETCH(p) __builtin_prefetch((p), 0, 2)
    #else
    #define PB_FETCH(p) ((void)0)
    #endif
    """
    void prefetch "PB_FETCH"(const void*) noexcept nogil

cdef enum:
    SPARSE_BLOCK = 1024     # sparse rows that are summed class by class

cdef double UNIT = 2.0 ** -53


cdef class LabelDual       # below the steps


cdef struct Example:         # what a step needs of an example beside x_i and alpha_i: half a cache line
    double c
    double square            # |x_i|^2, scale and bias included
    int32_t y
    int32_t vertex           # label if alpha_i is a vertex, else -1; binary: 0, 1, -1
    int32_t active
    int32_t spare


cdef struct Point:           # what belongs to W
    int K
    double s                 # lam + kappa, the curvature
    double scale             # of the features
    double bias
    double* base             # (K,) what the bias adds to the scores


# ---------------------------------------------------------------------- the step at one example

cdef inline bint step_at(Point* p, Example* x, const real* u, double top, real* alpha, real* coef, double* scratch,
                         double* total) noexcept nogil:
    """The step from u[k * BLOCK], known up to a constant, of maximum `top`; whether W moves.

    Then coef (K,) becomes the change of W as a multiple of x_i. The block gap is added to `total`.
    """
    cdef int K = p.K, k, support = 0, last = 0
    cdef double* v = scratch
    cdef double* new = scratch + K
    cdef double c = x.c, gap = 0.0, rate, largest = 0.0, step = -p.scale * p.scale / p.s, change
    cdef real after
    x.active = c > 0.0
    if x.square <= 1e-30 * p.s:         # W x does not change: all weight on the best label
        change = c
        for k in range(K):
            gap += alpha[k] * (top - u[k * BLOCK])
            new[k] = 0.0
            if u[k * BLOCK] >= top:
                new[k] = change
                change = 0.0
    else:
        rate = p.s / x.square           # line 3
        for k in range(K):
            gap += alpha[k] * (top - u[k * BLOCK])
            v[k] = alpha[k] - rate * (top - u[k * BLOCK])
        project(v, K, c, new)
    total[0] += gap
    for k in range(K):
        after = <real>new[k]
        if after > 0:
            support += 1
            last = k
        largest = max(largest, fabs(<double>after - <double>alpha[k]))
    k = last if support == 1 else -1
    # rounding alone moves a multiplier by a few units: not worth touching W
    if k == x.vertex and largest <= (5e-7 if sizeof(real) == 4 else 1e-15) * c:
        return False
    x.vertex = k
    for k in range(K):                  # line 4
        after = <real>new[k]
        coef[k] = 0
        if after != alpha[k]:
            change = <double>after - <double>alpha[k]
            coef[k] = <real>(step * change)
            p.base[k] -= change / p.s * p.bias * p.bias
            alpha[k] = after
    return True


cdef inline bint step_at_binary(Point* p, Example* x, double score, real* alpha, real* coef,
                                double* total) noexcept nogil:
    """The same for one score."""
    cdef double c = x.c, u = 1.0 - x.y * score, new, change
    cdef real after
    total[0] += c * max(u, 0.0) - alpha[0] * u
    if x.square <= 1e-30 * p.s:
        new = c if u > 0.0 else 0.0
    else:
        new = min(max(alpha[0] + u * p.s / x.square, 0.0), c)
    after = <real>new
    x.vertex = 0 if after == 0 else 1 if after == <real>c else -1
    x.active = c > 0.0 and (x.vertex < 0 or after != alpha[0])
    change = <double>after - <double>alpha[0]
    if fabs(change) <= (5e-7 if sizeof(real) == 4 else 1e-15) * c:
        return False
    coef[0] = <real>(x.y * p.scale * p.scale / p.s * change)
    p.base[0] += x.y * change / p.s * p.bias * p.bias
    alpha[0] = after
    return True


cdef inline bint step_at_curve(Point* p, const Curve* h, double target, Example* x, double score, real* alpha,
                               real* coef, double* total) noexcept nogil:
    """The same for `c l(y score - target)`, with alpha = -c beta: beta maximises `beta u - h(beta)` and a square."""
    cdef double c = x.c, u = x.y * score - target, q, beta, new, change
    cdef real after
    if c <= 0.0:
        return False
    beta = -alpha[0] / c
    total[0] += c * max(curve_loss(h, u) - curve_term(h, beta, u), 0.0)
    q = c * x.square / p.s
    if x.square <= 1e-30 * p.s:
        beta = curve_slope(h, u)
    else:
        new = q * beta + u - h.linear
        new = new - h.flat if new > h.flat else new + h.flat if new < -h.flat else 0.0
        beta = min(max(new / (q + h.square), h.low), h.high)
    after = <real>(-c * beta)
    x.vertex = curve_vertex(h, beta)
    x.active = x.vertex < 0 or after != alpha[0]
    change = <double>after - <double>alpha[0]
    if fabs(change) <= (5e-7 if sizeof(real) == 4 else 1e-15) * c:
        return False
    coef[0] = <real>(x.y * p.scale * p.scale / p.s * change)
    p.base[0] += x.y * change / p.s * p.bias * p.bias
    alpha[0] = after
    return True


cdef inline int curve_vertex(const Curve* h, double beta) noexcept nogil:
    """0 or 1 at an end, 2 at 0 if the loss is flat there, -1 in between: where beta stays when scores move a little."""
    return 0 if beta == h.high else 1 if beta == h.low else 2 if beta == 0.0 and h.flat > 0.0 else -1


cdef inline bint may_leave(const Curve* h, int vertex, double u, double margin) noexcept nogil:
    """Whether the score is within `margin` of a change of the multiplier."""
    cdef double v = u - h.linear
    if vertex == 0:
        return v < h.square * h.high + (h.flat if h.high > 0.0 else -h.flat if h.high < 0.0 else 0.0) + margin
    if vertex == 1:
        return v > h.square * h.low + (h.flat if h.low > 0.0 else -h.flat if h.low < 0.0 else 0.0) - margin
    return vertex < 0 or fabs(v) > h.flat - margin


cdef inline void highest(const real* S, int K, real* top, bint dense) noexcept nogil:
    """top[r] = max_k S[k * BLOCK + r] of a group, of one row if the data are sparse."""
    cdef int k, r
    if not dense:
        top[0] = S[0]
        for k in range(1, K):
            top[0] = S[k * BLOCK] if S[k * BLOCK] > top[0] else top[0]
        return
    for r in range(STEP):
        top[r] = S[r]
    for k in range(1, K):
        for r in range(STEP):
            top[r] = S[k * BLOCK + r] if S[k * BLOCK + r] > top[r] else top[r]


# ---------------------------------------------------------------------- steps at a group of rows, and a pass

cdef bint _group(LabelDual dual, Engine e, const Py_ssize_t* rows, int count, real* alpha, real* S, real* coef,
                 double* scratch, double* total) noexcept nogil:
    """Steps at the rows of a group, from S (K, BLOCK), `W x` of these rows; whether any of them moved.

    If one moved, coef (STEP, ldc) becomes the changes of W that the rows bring. Block gaps are added to `total`.
    """
    cdef int K = e.n_scores, ldc = dual.ldc, r, q, k
    cdef pb_dots_fn dots = e.kernels.dots32[e.kind] if real is float else e.kernels.dots64[e.kind]
    cdef real products[STEP]
    cdef real top[STEP]
    cdef bint has_moved, any_moved = False, many = e.loss == MULTICLASS
    cdef Example* x
    cdef Point point = Point(K, dual.s, e.scale, e.bias, &dual.base_unshrunk[0])
    if e.has_bias:
        for k in range(K):
            for q in range(STEP):
                S[k * BLOCK + q] += <real>dual.base[k]
    if many:                # line 1: S becomes u, up to a constant for the 0/1 loss
        for r in range(count):
            x = &dual.rows[rows[r]]
            if e.has_cost:
                for k in range(K):
                    S[k * BLOCK + r] += <real>e.cost[x.y, k]
            else:
                S[x.y * BLOCK + r] -= 1
        highest(S, K, top, dual.dense)
    for r in range(count):
        x = &dual.rows[rows[r]]
        if e.loss == CURVE:
            has_moved = step_at_curve(&point, &e.curve, e.target[rows[r]], x, S[r], alpha + rows[r] * K,
                                      coef + r * ldc, total)
        elif not many:
            has_moved = step_at_binary(&point, x, S[r], alpha + rows[r] * K, coef + r * ldc, total)
        elif x.vertex >= 0 and S[x.vertex * BLOCK + r] >= top[r]:
            x.active = False                # line 2: all weight is on the best label
            continue
        else:
            has_moved = step_at(&point, x, S + r, top[r], alpha + rows[r] * K, coef + r * ldc, scratch, total)
        if not has_moved:
            continue
        if not any_moved:
            any_moved = True
            for q in range(count):
                if q != r:
                    memset(coef + q * ldc, 0, K * sizeof(real))
        if r + 1 == count:
            continue
        dots(&e.X, rows[r], rows + r + 1, count - r - 1, products + r + 1)
        for q in range(r + 1, count):
            products[q] += <real>dual.constant
        for k in range(K):
            if coef[r * ldc + k] != 0:
                for q in range(r + 1, count):
                    S[k * BLOCK + q] += coef[r * ldc + k] * products[q]
        if many:
            highest(S, K, top, dual.dense)
    return any_moved


cdef void _shrink(LabelDual dual, Engine e, Py_ssize_t row, const real* coef, const real* V, real* W) noexcept nogil:
    """The entries of W that belong to a row of X follow V; coef (K,) is 0 for classes that did not move."""
    cdef int K = e.n_scores, k
    cdef Py_ssize_t first
    if e.has_bias:
        dual.base_shrinkage.apply(&dual.base_unshrunk[0], &dual.base[0], 0, K)
    if dual.dense:
        for k in range(K):
            if coef[k] != 0:
                dual.shrinkage.apply(V, W, k * dual.ldw, k * dual.ldw + e.n_features)
    else:
        first = e.X.indptr[row]
        dual.shrinkage.apply_at(V, W, e.X.indices + first, e.X.indptr[row + 1] - first, dual.ldw, K)


cdef double _visit(LabelDual dual, Engine e, const Py_ssize_t[::1] order, real[:, ::1] alphas, real[:, ::1] packed,
                   real[:, ::1] unshrunk, real[:, ::1] scores, real[:, ::1] coefs,
                   double[::1] scratch) except? -1.0:
    cdef const Py_ssize_t* rows
    cdef Py_ssize_t left = order.shape[0], next_check = left - dual.signal_every
    cdef bint shrinks = dual.shrinkage is not None
    cdef int K = e.n_scores, size = STEP if dual.dense and not shrinks else 1, count, ahead, q
    cdef pb_score_fn score = e.kernels.step32[e.kind] if real is float else e.kernels.step64[e.kind]
    cdef pb_update_fn update = e.kernels.update32[e.kind] if real is float else e.kernels.update64[e.kind]
    cdef real* alpha = &alphas[0, 0]
    cdef real* W = &packed[0, 0]
    cdef real* V = &unshrunk[0, 0]
    cdef real* S = &scores[0, 0]
    cdef real* coef = &coefs[0, 0]
    cdef double total = 0.0
    with nogil:
        rows = &order[0]
        while left > 0:
            count = <int>min(<Py_ssize_t>size, left)
            ahead = <int>min(<Py_ssize_t>max(size, 2), left - count)
            for q in range(count, count + ahead):
                prefetch(&dual.rows[rows[q]])
                prefetch(alpha + rows[q] * K)
                prefetch(alpha + rows[q] * K + K - 1)
            score(&e.X, rows, count, ahead, W, dual.ldw, K, S)
            if _group(dual, e, rows, count, alpha, S, coef, &scratch[0], &total):
                update(&e.X, rows, count, coef, dual.ldc, K, V, dual.ldw)
                if shrinks:
                    _shrink(dual, e, rows[0], coef, V, W)
            dual.visits += count
            rows += count
            left -= count
            if left <= next_check:
                next_check = left - dual.signal_every
                with gil:
                    PyErr_CheckSignals()
    return total


# ---------------------------------------------------------------------- multipliers of all examples

cdef class LabelDual(PackedPoint):
    """Multipliers of all examples of a hinge risk and the point W that belongs to them.

    Parameters
    ----------
    engine : Engine
        Any loss but LOGISTIC.
    precision : {"float32", "float64"}
        Precision of W, scores and multipliers; float32 if storage and range of the data allow it.
    multipliers : ndarray, shape (n, K), optional
        To start from, as in `restore`; without them all weight is on the truths.

    Attributes
    ----------
    alpha : ndarray, shape (n, K)
        Multipliers, each row c_i times a point of the simplex; one column with numbers in [0, c_i] for one score.
    examples : structured array, shape (n,)
        `active` is 1 if alpha_i is no vertex, or the block gap was not 0 at the last step or in `mark`.
    visits : float
        Examples visited so far.
    """

    cdef Engine e
    cdef readonly object alpha, examples
    cdef tuple scratch           # scores and coefficients of a group, multipliers of an example
    cdef readonly double visits
    cdef Example* rows
    cdef double constant         # of <x_i, x_j>, in units of scale^2: the bias
    cdef float[:, ::1] alpha32
    cdef double[:, ::1] alpha64
    cdef Py_ssize_t signal_every     # rows between two checks for signals

    def __init__(self, Engine engine, precision, multipliers=None):
        cdef Py_ssize_t d = engine.n_features, n = engine.n_examples
        cdef int K = engine.n_scores
        if engine.loss == LOGISTIC:
            raise ValueError("the dual of the logistic loss has no exact blocks")
        self.e = engine
        PackedPoint.__init__(self, engine, precision == "float32" and engine.kernels.step32[engine.kind] != NULL
                             and fits_float32(engine.norms) and fits_float32(engine.weight_array))
        self.constant = (engine.bias / engine.scale) ** 2
        labels = np.asarray(engine.y_array)
        self.examples = aligned((n,), np.dtype([("c", "f8"), ("square", "f8"), ("y", "i4"), ("vertex", "i4"),
                                                ("active", "i4"), ("spare", "i4")]))
        self.rows = <Example*><size_t>self.examples.ctypes.data
        self.examples["c"], self.examples["y"] = engine.weight_array, labels
        self.examples["square"] = np.asarray(engine.norms) ** 2
        self.examples["active"] = 1
        self.alpha = np.zeros((n, K), dtype=self.packed.dtype)
        self.scratch = (aligned((K, BLOCK), self.packed.dtype), aligned((STEP, self.ldc), self.packed.dtype),
                        np.empty(2 * K))
        if engine.loss == MULTICLASS:
            self.alpha[np.arange(n), labels] = engine.weight_array
            self.examples["vertex"] = labels
        if self.is_single:
            self.alpha32 = self.alpha
        else:
            self.alpha64 = self.alpha
        per_row = K * (d if self.dense else max(1, int(engine.storage[2][n]) // max(1, n)))
        self.signal_every = max(STEP, <Py_ssize_t>(2e8 / per_row))
        if multipliers is not None:
            self.restore(multipliers)

    def restore(self, multipliers):
        """Takes over multipliers of the same examples, made feasible."""
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
            vertex = np.full(len(c), -1)        # the next step sets it
        else:
            vertex = np.where(self.alpha[:, 0] == 0.0, 0,
                              np.where(self.alpha[:, 0] == c.astype(self.alpha.dtype), 1, -1))
        self.examples["vertex"] = vertex
        self.examples["active"] = 1

    def get_state(self):
        """What differs from a new object of the same engine, by name; arrays are shared, not copied."""
        state = self.points() | {"alpha": self.alpha, "s": self.s, "visits": self.visits}
        return state | {name: self.examples[name].copy() for name in ("vertex", "active")}

    def set_state(self, state):
        """Becomes what `get_state` described, to the last bit; its penalty must be set before."""
        vertex = state["vertex"]
        if ((vertex < -1) | (vertex >= max(3, self.e.n_scores))).any():
            raise ValueError("vertex must name labels")
        mine = self.points() | {"alpha": self.alpha}
        self.restore_arrays(mine | {name: self.examples[name] for name in ("vertex", "active")}, state)
        self.visits = state["visits"]

    @property
    def largest_loss(self):
        """The largest entry of the cost matrix, 1 without one; the spread of the targets in regression."""
        return self.e.largest_loss if self.e.loss != CURVE else float(np.std(self.e.target_array)) or 1.0

    @property
    def target_sum(self):
        """What the targets add to the sizes of the numbers in a sum of losses."""
        return 0.0 if self.e.loss != CURVE else self.steepest * float(
            np.abs(self.e.target_array) @ np.asarray(self.e.weight_array))

    @property
    def steepest(self):
        """The largest slope of a loss by its score."""
        return max(fabs(self.e.curve.low), fabs(self.e.curve.high)) if self.e.loss == CURVE else 1.0

    @property
    def score_terms(self):
        """As in `Rows`."""
        return self.e.score_terms

    def set_penalty(self, s, l1, lower, upper, curvatures):
        """As `set_limits`; the curvature of the dual along x_i is at most `curvatures[i]`."""
        self.set_limits(s, l1, lower, upper)
        self.examples["square"] = self.s * curvatures

    # ------------------------------------------------------------------ a pass
    def visit(self, const Py_ssize_t[::1] order):
        """Step on the examples of `order`, one after another; one may occur twice.

        O(nnz(X) K) for the scores, and a row of W for every multiplier that changes.

        Returns
        -------
        total : float
            The sum of the block gaps before.

        Raises
        ------
        ValueError
            For rows outside 0..n-1, before any step.
        KeyboardInterrupt
            Between two groups: W and multipliers are in accord then.
        """
        cdef Py_ssize_t j, n = order.shape[0], low = order[0] if n else 0, high = low
        for j in range(n):
            low, high = min(low, order[j]), max(high, order[j])
        if low < 0 or high >= self.e.n_examples:
            raise ValueError(f"order must hold rows 0..{self.e.n_examples - 1}, got {low}..{high}")
        if n == 0:
            return 0.0
        if self.is_single:
            return _visit[float](self, self.e, order, self.alpha32, self.packed, self.unshrunk, *self.scratch)
        return _visit[double](self, self.e, order, self.alpha64, self.packed, self.unshrunk, *self.scratch)

    # ------------------------------------------------------------------ what the next pass visits
    def active(self):
        """Return in ascending order the rows whose alpha_i is no vertex, or for which a gap was found last."""
        cdef Py_ssize_t i, n = self.e.n_examples, count = 0
        cdef Py_ssize_t[::1] found = np.empty(n, dtype=np.intp)
        with nogil:
            for i in range(n):
                found[count] = i            # overwritten unless it counts: no branch that is hard to foresee
                count += self.rows[i].active != 0
        return np.array(found[:count])

    # ------------------------------------------------------------------ values at a point
    def mark(self, const real[:, ::1] S, double margin, Py_ssize_t first=0):
        """Losses, summed, at the point with scores S of the rows from `first` on, bias included; marks the active ones.

        Active: alpha_i is no vertex, or its label leads by less than `margin`. Threads may mark different rows.
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
                if e.loss == CURVE:
                    u = x.y * <double>s[0] - e.target[first + i]
                    risk += x.c * curve_loss(&e.curve, u)
                    x.active = x.c > 0.0 and may_leave(&e.curve, x.vertex, u, margin)
                    continue
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
                if e.loss == CURVE:
                    top = curve_loss(&e.curve, y * S[i, 0] - e.target[i])
                elif e.loss != MULTICLASS:
                    top = max(0.0, 1.0 - y * S[i, 0])
                else:
                    for k in range(K):
                        if k != y:
                            top = max(top, (e.cost[y, k] if e.has_cost else 1.0) + (S[i, k] - S[i, y]))
                risk += e.c[i] * top
        return risk

    # ------------------------------------------------------------------ evidence
    def aggregate(self, slope, first=0, last=None):
        """Adds `sum_ik alpha_ik (e_k - e_y) X_i` to `slope` (K * width,), unscaled, in float64.

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
            `sum_ik alpha_ik L(y_i, k)`.
        error : float
            Bound on the rounding error of the slope in the Euclidean norm. If slopes, offsets and errors of two
            ranges are added, the errors also bound those of the sums.
        offset_error : float

        Raises
        ------
        ValueError
            For rows outside 0..n, or a slope of another length.

        Notes
        -----
        The multiplier of the truth is what the other labels leave of c_i, whatever float32 made of
        them, they are feasible, because those that exceed c_i are scaled down.
        """
        cdef Engine e = self.e
        last = e.n_examples if last is None else last
        if not 0 <= first <= last <= e.n_examples:
            raise ValueError(f"first and last must be 0 <= first <= last <= {e.n_examples}, got {first} and {last}")
        if len(slope) != e.n_scores * e.width:
            raise ValueError(f"slope must have shape ({e.n_scores * e.width},), got ({len(slope)},)")
        if self.is_single:
            return self._aggregate(self.alpha32, slope, first, last)
        return self._aggregate(self.alpha64, slope, first, last)

    def _aggregate(self, const real[:, ::1] alphas, double[::1] slope, Py_ssize_t first, Py_ssize_t last):
        cdef Engine e = self.e
        cdef int K = e.n_scores, k, y
        # a block of dense rows stays in the cache; for sparse rows the slope of a class should
        cdef Py_ssize_t i = first, size, entries = 0, products = 0, block = BLOCK if self.dense else SPARSE_BLOCK
        cdef double offset = 0.0, size_of = 0.0, reach = 0.0, total, c, b, ratio, beta
        cdef bint single = e.loss != MULTICLASS
        # entries of a block of rows, class by class: K entries a row are the most
        cdef Py_ssize_t[:, ::1] row = np.empty((K, block), dtype=np.intp)
        cdef double[:, ::1] coef = np.empty((K, block))
        cdef int[::1] count = np.zeros(K, dtype=np.intc)
        cdef Py_ssize_t[::1] entries_of = np.zeros(K, dtype=np.intp)
        with nogil:
            while i < last:
                size = 0
                while i < last and size < block:
                    y, c = e.y[i], e.c[i]
                    if self.dense and self.rows[i].vertex != (0 if single else y):
                        fetch_row(e, i)
                    if e.loss == CURVE:
                        b = min(max(<double>alphas[i, 0], -e.curve.high * c), -e.curve.low * c)
                        if b != 0.0:
                            beta = min(max(-b / c, e.curve.low), e.curve.high)
                            b = -c * beta
                            offset += c * curve_term(&e.curve, beta, -e.target[i])
                            size_of += c * (fabs(beta * e.target[i]) + fabs(curve_term(&e.curve, beta, 0.0))
                                            + 2.0 * fabs(beta * e.curve.linear))
                            reach += fabs(b) * e.norms[i]
                            row[0, count[0]] = i
                            coef[0, count[0]] = -b * y
                            count[0] += 1
                            size += 1
                    elif single:
                        b = min(max(<double>alphas[i, 0], 0.0), c)
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
                                total += alphas[i, k]
                        if total > 0.0:
                            ratio = c / total if total > c else 1.0
                            size += 1
                            total = 0.0
                            for k in range(K):
                                if k != y and alphas[i, k] > 0:
                                    b = ratio * alphas[i, k]
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
                        entries_of[k] += count[k]
                        count[k] = 0
        for k in range(K):
            entries = max(entries, entries_of[k])
            products += entries_of[k]
        # a component is a sum of at most `entries` products, the offset one of `products`; the sum for a truth, the
        # ratio and the excess of a sum over c: 2 K + 4 roundings more, and one if two sums are
        # added
        return (offset, 1.01 * UNIT * (entries + 2 * K + 7) * reach,
                1.01 * UNIT * (products + K + 15) * size_of if e.loss == CURVE else
                1.01 * UNIT * (products + K + 7) * offset)


def fits_float32(values):
    """Whether squares and products of these numbers >= 0 stay far from the limits of float32."""
    values = np.asarray(values)
    return values.max(initial=1.0) < 1e15 and values.min(initial=1.0, where=values > 0.0) > 1e-15


cdef inline void fetch_row(Engine e, Py_ssize_t i) noexcept nogil:
    # prefetches a dense row: rows that are far apart load slowly one by one
    cdef Py_ssize_t size = e.n_features * (1 if e.kind == PB_UINT8 else 4 if e.kind == PB_FLOAT32 else 8), at = 0
    cdef const char* row = <const char*>e.X.data + i * size
    while at < size:
        prefetch(row + at)
        at += 64
