"""Exact steps on the dual of a hinge risk whose labels can be enumerated, one example after another.

    maximise  sum_ik alpha_ik L(y_i, k) - |phi|^2 / (2 s) + (kappa / s) <c, phi>,   s = lam + kappa,
    phi = sum_ik alpha_ik (e_k - e_{y_i}) x_i',   alpha_i >= 0 with sum c_i,   W = (kappa c - phi) / s

The step at example i, with all other multipliers fixed [sequential dual method, Keerthi et al. 2008]:

    1   u_k = L(y_i, k) + <W_k, x_i>,  k = 1..K           scores
    2   gap_i = c_i max_k u_k - <alpha_i, u>               no step follows if gap_i = 0
    3   new = Proj(alpha_i + u s / |x_i|^2)                onto c_i times the simplex: the exact maximiser
    4   W_k -= (new_k - alpha_ik) x_i / s,  alpha_i = new

With one score (binary hinge) alpha_i is a number in [0, c_i], u = 1 - y_i <w, x_i>, and Proj clips. For another loss
of one score, `l(u) = max_beta beta u - h(beta)`, alpha_i is -c_i beta, and the step finds the best beta in closed form.

Dense rows are scored in groups of four, the tile of the score kernels, and W changes once for a group. If the step at a
row changes alpha_i, the scores of later rows in the group are corrected by `<x_i, x_j>`, so that the steps are the same
as those at one row after another.

With many labels line 1 costs most. With `on_sets` a step looks only at the labels in the working set of a row, see
`_label_blocks.pyx`. Such a step finds the maximiser over their multipliers, with |set| d operations in place of K d.

With a penalty (`set_penalty`) the point W follows from a point V by a threshold, a factor s / s_j and bounds, see
`_shrinkage.pyx`. Here s_j = l2_j + kappa, and s is the least s_j. Line 4 changes V, and then the entries of W for the
features of the row are computed. Line 3 has `s sum_j x_ij^2 / s_j` in place of |x_i|^2: with the largest curvature that
the dual can have along x_i, a step from the scores at W increases the dual, too [prox-SDCA, Shalev-Shwartz & Zhang
2014]. As W is not linear in the steps, a group is one row.
"""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memset

from pybundle.core._indices cimport check_indices
from pybundle.features._rows cimport BLOCK, STEP, pb_dots_fn, pb_score_fn, pb_update_fn, real
from pybundle.risks._engine cimport CURVE, MULTICLASS, Engine
from pybundle.solvers.block._label_blocks cimport Example, keep_near, prefetch
from pybundle.solvers.block._label_steps cimport Curvature, step_at, step_at_binary, step_at_curve
from pybundle.solvers.block._label_sums cimport LabelSums

from pybundle.features._rows import aligned


cdef class LabelDual(LabelSums)       # defined below the steps


cdef inline void highest(const real* S, int K, real* top, bint dense) noexcept nogil:
    """Set top[r] to max_k S[k * BLOCK + r] for the rows of a group, which is one row if the data are sparse."""
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

cdef bint _group(LabelDual dual, Engine e, const Curvature* curvature, const Py_ssize_t* rows, int count, real* alpha,
                 real* S, real* coef, double* scratch, double* total) noexcept nogil:
    """Do the steps at the rows of a group, from their scores `W x` in S (K, BLOCK); return whether W is to change.

    If so, coef (STEP, ldc) becomes the change of W as multiples of the rows. Block gaps are added to `total`.
    """
    cdef int K = e.n_scores, ldc = dual.ldc, r, q, k
    cdef pb_dots_fn dots = e.kernels.dots32[e.kind] if real is float else e.kernels.dots64[e.kind]
    cdef real products[STEP]
    cdef real top[STEP]
    cdef bint has_moved, any_moved = False, is_multiclass = e.loss == MULTICLASS
    cdef Example* x
    cdef double best = 0.0
    if e.has_bias:
        for k in range(K):
            for q in range(STEP):
                S[k * BLOCK + q] += <real>dual.base[k]
    if dual.is_centred:
        for k in range(K):
            for q in range(count):
                S[k * BLOCK + q] += <real>dual.intercept(k, rows[q])
    if is_multiclass:       # line 1: S becomes u, up to a constant for the 0/1 loss
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
            has_moved = step_at_curve(curvature, &e.curve, e.target[rows[r]], x, S[r], alpha + rows[r] * K,
                                      coef + r * ldc, total)
        elif not is_multiclass:
            has_moved = step_at_binary(curvature, x, S[r], alpha + rows[r] * K, coef + r * ldc, total)
        elif x.vertex >= 0 and S[x.vertex * BLOCK + r] >= top[r]:
            x.active, best = False, top[r]  # line 2: all weight is on the best label
            has_moved = False
        else:
            best = top[r]
            has_moved = step_at(curvature, K, x, S + r, &best, alpha + rows[r] * K, coef + r * ldc, scratch, &x.vertex,
                                total)
        if dual.set_capacity:
            keep_near(dual, rows[r], S + r, BLOCK, best)
        if not has_moved:
            continue
        for k in range(K if e.has_bias else 0):
            dual.base_unshrunk[k] += dual.constant * coef[r * ldc + k]
        for k in range(K if dual.is_centred else 0):
            dual.move_intercept(k, rows[r], coef[r * ldc + k])
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
            if dual.is_centred:
                products[q] += <real>(dual.unit * (dual.excess - dual.products[rows[r]] - dual.products[rows[q]]))
        for k in range(K):
            if coef[r * ldc + k] != 0:
                for q in range(r + 1, count):
                    S[k * BLOCK + q] += coef[r * ldc + k] * products[q]
        if is_multiclass:
            highest(S, K, top, dual.dense)
    return any_moved


cdef void _on_set(LabelDual dual, Engine e, const Curvature* curvature, const Py_ssize_t* rows, Py_ssize_t left,
                  pb_score_fn score, pb_update_fn update, real* alpha, real* S, real* coef, double* scratch, real* W,
                  real* V, double* total) noexcept nogil:
    """Do the step at rows[0] over the labels of its working set; `left` rows remain, this row included."""
    cdef Example* x = &dual.rows[rows[0]]
    cdef const int32_t* near = dual.near_of + rows[0] * dual.set_capacity
    cdef const int32_t* later
    cdef int q, k, K = e.n_scores, n = x.n_near
    cdef int32_t vertex = -1
    cdef double top = -INFINITY
    cdef real* mine = coef + dual.ldc           # multipliers of the labels in the set
    if left > 2:
        prefetch(&dual.rows[rows[2]])
        prefetch(dual.near_of + rows[2] * dual.set_capacity)
    if left > 1:
        later = dual.near_of + rows[1] * dual.set_capacity
        for q in range(dual.rows[rows[1]].n_near):
            prefetch(alpha + rows[1] * K + later[q])
    alpha += rows[0] * K
    for q in range(n):
        k = near[q]
        score(&e.X, rows, 1, left > 1 and q == 0, W + k * dual.ldw, dual.ldw, 1, S + q * BLOCK)
        S[q * BLOCK] += <real>(dual.base[k] + (e.cost[x.y, k] if e.has_cost else -<double>(k == x.y)))
        if dual.is_centred:
            S[q * BLOCK] += <real>dual.intercept(k, rows[0])
        top = max(top, S[q * BLOCK])
        mine[q] = alpha[k]
        if k == x.vertex:
            vertex = q
    if vertex >= 0 and S[vertex * BLOCK] >= top:
        x.active = False
        return
    if not step_at(curvature, n, x, S, &top, mine, coef, scratch, &vertex, total):
        return
    x.vertex = near[vertex] if vertex >= 0 else -1
    for q in range(n):
        if coef[q] != 0:
            k = near[q]
            alpha[k] = mine[q]
            dual.base_unshrunk[k] += dual.constant * coef[q]
            if dual.is_centred:
                dual.move_intercept(k, rows[0], coef[q])
            update(&e.X, rows, 1, coef + q, dual.ldc, 1, V + k * dual.ldw, dual.ldw)
            if dual.shrinkage is not None:
                dual.shrinkage.apply(V, W, k * dual.ldw, k * dual.ldw + e.n_features)
                dual.base_shrinkage.apply(&dual.base_unshrunk[0], &dual.base[0], k, k + 1)


cdef void _shrink(LabelDual dual, Engine e, Py_ssize_t row, const real* coef, const real* V, real* W) noexcept nogil:
    """Compute the entries of W for the features of a row from V; coef (K,) is 0 for classes that did not change."""
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


cdef double _visit(LabelDual dual, Engine e, const Py_ssize_t[::1] order, bint on_sets, real[:, ::1] alphas,
                   real[:, ::1] packed, real[:, ::1] unshrunk, real[:, ::1] scores, real[:, ::1] coefs,
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
    cdef Curvature curvature = Curvature(dual.s, e.scale * e.scale / dual.s)
    on_sets = on_sets and dual.set_capacity > 0
    with nogil:
        rows = &order[0]
        while left > 0:
            count = <int>min(<Py_ssize_t>size, left)
            if on_sets:         # the group ends before the next row with a working set
                q = 0
                while q < count and dual.rows[rows[q]].n_near == 0:
                    q += 1
                count = q
            if count == 0:
                count = 1
                _on_set(dual, e, &curvature, rows, left, score, update, alpha, S, coef, &scratch[0], W, V, &total)
                dual.cached_visits += 1
            else:
                ahead = <int>min(<Py_ssize_t>max(size, 2), left - count)
                for q in range(count, count + ahead):
                    prefetch(&dual.rows[rows[q]])
                    prefetch(alpha + rows[q] * K)
                    prefetch(alpha + rows[q] * K + K - 1)
                score(&e.X, rows, count, ahead, W, dual.ldw, K, S)
                if _group(dual, e, &curvature, rows, count, alpha, S, coef, &scratch[0], &total):
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


cdef inline void _shuffle(Py_ssize_t* rows, Py_ssize_t n, uint64_t* state) noexcept nogil:
    """Shuffle n < 2^32 rows by splitmix64 [Steele, Lea, Flood 2014]."""
    cdef Py_ssize_t i, j
    cdef uint64_t z
    for i in range(n - 1, 0, -1):
        state[0] += <uint64_t>0x9E3779B97F4A7C15
        z = (state[0] ^ (state[0] >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
        z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
        j = <Py_ssize_t>(((z >> 32) * <uint64_t>(i + 1)) >> 32)
        rows[i], rows[j] = rows[j], rows[i]


cdef bint _passes(LabelDual dual, Engine e, uint64_t state, double target, int most, double most_visits,
                  Py_ssize_t[::1] room, real[:, ::1] alphas, real[:, ::1] packed, real[:, ::1] unshrunk,
                  real[:, ::1] scores, real[:, ::1] coefs, double[::1] scratch) except? -1:
    cdef Py_ssize_t count
    for _ in range(most):
        PyErr_CheckSignals()        # an interrupt is safe here, as the point belongs to the multipliers
        with nogil:
            count = dual.find_active(&room[0])
            _shuffle(&room[0], count, &state)
        if count == 0:
            return True
        if _visit(dual, e, room[:count], True, alphas, packed, unshrunk, scores, coefs, scratch) <= target:
            return True
        if dual.visits > most_visits:
            break
    return False


# ---------------------------------------------------------------------- the blocks and their point

cdef class LabelDual(LabelSums):
    """Multipliers of all examples of a hinge risk and the point W that belongs to them.

    Parameters
    ----------
    engine, precision, multipliers
        As in `LabelBlocks`.

    Attributes
    ----------
    visits, cached_visits : float
        Number of steps so far that looked at all labels, and that looked at working sets.
    """

    cdef tuple scratch           # work space for scores and coefficients of a group, and multipliers of an example
    cdef readonly double visits, cached_visits
    cdef double constant         # part of <x_i, x_j> that is due to the bias, in units of scale^2
    cdef Py_ssize_t signal_every     # rows between two checks for signals

    def __init__(self, Engine engine, precision, multipliers=None):
        LabelSums.__init__(self, engine, precision, multipliers)
        cdef Py_ssize_t d = engine.n_features, n = engine.n_examples
        cdef int K = engine.n_scores
        self.constant = (engine.bias / engine.scale) ** 2
        self.scratch = (aligned((K, BLOCK), self.packed.dtype), aligned((STEP, self.ldc), self.packed.dtype),
                        np.empty(2 * K))
        per_row = K * (d if self.dense else max(1, int(engine.storage[2][n]) // max(1, n)))
        self.signal_every = max(STEP, <Py_ssize_t>(2e8 / per_row))

    def get_state(self):
        """Return, by name, all that differs from a new object of the same engine; arrays are not copied."""
        return LabelSums.get_state(self) | {"visits": self.visits, "cached_visits": self.cached_visits}

    def set_state(self, state):
        """Become what `get_state` described, to the last bit; `set_penalty` must have been called."""
        LabelSums.set_state(self, state)
        self.visits, self.cached_visits = state["visits"], state["cached_visits"]

    def visit(self, const Py_ssize_t[::1] order, bint on_sets=False):
        """Step on the examples of `order`, one after another; an example may occur twice.

        The cost is O(nnz(X) K) for the scores, and one row of W for every multiplier that changes. With `on_sets` an
        example with a working set costs its size in place of K, and has the block gap over the labels of the set.

        Returns
        -------
        total : float
            The sum of the block gaps before the steps.

        Raises
        ------
        ValueError
            For rows outside 0..n-1, before any step.
        KeyboardInterrupt
            Between two groups, so that W still belongs to the multipliers.
        """
        check_indices("order", order, self.e.n_examples)
        if order.shape[0] == 0:
            return 0.0
        if self.is_single:
            return _visit[float](self, self.e, order, on_sets, self.alpha32, self.packed, self.unshrunk, *self.scratch)
        return _visit[double](self, self.e, order, on_sets, self.alpha64, self.packed, self.unshrunk, *self.scratch)

    def visit_active(self, uint64_t seed, double target, int most, double most_visits):
        """Pass over the active examples with `on_sets`, in random orders, until block gaps of a pass sum to `target`.

        At most `most` passes are made, and none begins when `visits` exceeds `most_visits`. Interrupts are as in
        `visit`.

        Returns
        -------
        is_reached : bool
            Whether the sum was at most `target` in the last pass, or no example is active.
        """
        cdef Py_ssize_t[::1] room = np.empty(self.e.n_examples, dtype=np.intp)
        if self.is_single:
            return _passes[float](self, self.e, seed, target, most, most_visits, room, self.alpha32, self.packed,
                                  self.unshrunk, *self.scratch)
        return _passes[double](self, self.e, seed, target, most, most_visits, room, self.alpha64, self.packed,
                               self.unshrunk, *self.scratch)
