"""Dual of the log-loss of chains, ascended at one chain after the other: exponentiated gradient [Collins et al. 2008].

    maximise  sum_i c_i H(P_i) - Omega*(-phi),    phi = sum_i c_i (E_{P_i} Psi(x_i, y) - Psi(x_i, y_i)),

over a distribution P_i of the labellings of every chain. P_i is kept by its factors, the logarithms `nodes` theta_t(k)
and `edges` E(j, k), P_i(y) ~ exp(sum_t theta_t(y_t) + sum_t E(y_{t-1}, y_t)), so that entropy and marginals are exact
by dynamic programming. The step at chain i, all others as they are:

    1   s                           scores of the chain at W; the best answer to W alone is P_i ~ exp(s)
    2   new = (1 - r) theta + r s   its marginals mu' by forward-backward, with edges likewise
    3   V -= c_i (E_mu' Psi - E_mu Psi) / s, and W follows
    4   back if H' - H + <s', mu' - mu> < 0, with entropies H and the scores s' at the new W: the dual rises by c_i
        times this, or more, because Omega* is convex
    5   r *= a / (a - b), within limits, where a parabola with the slopes of the dual at both ends is largest:
        a = <s - theta, mu' - mu>,  b = <s' - new, mu' - mu>

The rate of each chain adapts to the curvature of Omega*, which is never needed.
"""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport fabs, isfinite
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from pybundle.features._rows cimport BLOCK, STEP, Rows
from pybundle.oracles._chain cimport ChainTables
from pybundle.solvers.block._packed_point cimport PackedPoint

cdef enum:
    LINE = 64
    TRIES = 4               # of one step
    CHECK = 1024            # chains between two checks for signals

cdef double FIRST_RATE = 0.5, LEAST_RATE = 1e-6
cdef double SMALLER = 0.25, LARGER = 2.0        # limits of a change of the rate
cdef double STILL = 1e-8        # below this change of marginals rounding decides
cdef double SPIKE = 6.0         # log of the odds of a true label at the start


cdef struct Scratch:        # of the longest chain
    double* scores          # (T, K) s, then s'
    double* of_edges        # (K, K) s of the edges
    double* nodes           # (T, K) new factors
    double* edges           # (K, K)
    double* p               # (T, K) mu'
    double* pairs           # (K, K)
    double* old             # (T, K) s, while `scores` holds s'
    double* S               # (K, BLOCK)
    double* coef            # (STEP, ldc)
    double* dp              # of forward-backward


cdef class ChainDual(PackedPoint):
    """Distributions of the labellings of all chains, and the point that belongs to them.

    Parameters
    ----------
    tokens : Rows
        All tokens, seen by K scores, without bias.
    truth : int32 array, shape (n_tokens,)
    offsets : int64 array, shape (n + 1,)
    weights : float64 array, shape (n,)
        c_i >= 0.
    pairs, start, end : bool
        Whether there are weights of pairs of neighbouring labels, of the first and of the last label. Without pairs
        every chain is one token.
    factors : (nodes, edges), optional
        To start from; without them every true label is likely.

    Attributes
    ----------
    nodes, edges : ndarray, shapes (n_tokens, K) and (n, K K)
        Logarithms of the factors of the distributions.
    rates : ndarray, shape (n,)
    visits : float
        Chains visited so far.
    """

    cdef readonly object nodes, edges, rates
    cdef readonly double visits
    cdef object marginals_of_nodes, marginals_of_pairs, arguments
    cdef double[:, ::1] theta
    cdef double[:, ::1] mu
    cdef double[:, ::1] edge        # (n, K K), or (n, 0)
    cdef double[:, ::1] pair
    cdef double[::1] rate
    cdef double[::1] entropy
    cdef const int32_t[::1] truth
    cdef const int64_t[::1] offsets
    cdef const double[::1] c
    cdef bint has_start, has_end
    cdef Py_ssize_t n_pairs         # K K or 0
    cdef Py_ssize_t[::1] rows       # 0, 1, 2, ...
    cdef Py_ssize_t longest

    def __init__(self, Rows tokens, truth, offsets, weights, bint pairs, bint start, bint end, factors=None):
        cdef Py_ssize_t K = tokens.n_scores, n = len(offsets) - 1
        if tokens.has_bias:
            raise ValueError("tokens must have no bias")
        self.n_pairs = K * K if pairs else 0
        PackedPoint.__init__(self, tokens, False, self.n_pairs + K * (start + end))
        self.truth, self.offsets, self.c, self.has_start, self.has_end = truth, offsets, weights, start, end
        self.longest = np.diff(offsets).max()
        self.rows = np.arange(tokens.n_rows)
        self.rates = np.full(n, FIRST_RATE)
        if factors is None:
            self.nodes, self.edges = np.zeros((tokens.n_rows, K)), np.zeros((n, self.n_pairs))
            self.nodes[np.arange(tokens.n_rows), truth] = SPIKE
        else:
            self.nodes, self.edges = (np.array(values, dtype=np.float64, order="C") for values in factors)
            if self.nodes.shape != (tokens.n_rows, K) or self.edges.shape != (n, self.n_pairs):
                raise ValueError("the factors belong to other chains")
        self.marginals_of_nodes, self.marginals_of_pairs = np.empty_like(self.nodes), np.empty_like(self.edges)
        self.theta, self.mu, self.rate = self.nodes, self.marginals_of_nodes, self.rates
        self.edge, self.pair = self.edges, self.marginals_of_pairs
        self._refresh()

    def _refresh(self):
        """Make marginals and entropies those of the factors."""
        n = len(self.rates)
        self.entropy = self.marginals(np.arange(n), np.zeros(n), self.marginals_of_nodes,
                                      self.marginals_of_pairs)[0][:, 0].copy()

    # ------------------------------------------------------------------ the marginals of the factors
    def marginals(self, const Py_ssize_t[::1] rows, const double[::1] scales, double[:, ::1] nodes,
                  double[:, ::1] pairs=None):
        """Marginals of the chains `rows`.

        Parameters
        ----------
        rows, scales : arrays, shape (m,)
        nodes : float64 array, shape (number of their tokens, K)
            Receives the marginals of the positions, one chain after another.
        pairs : float64 array, shape (m, K K), optional
            Receives the sums over neighbouring positions.

        Returns
        -------
        entropies : ndarray, shape (m, 2)
            And bounds on their rounding errors.
        total : ndarray, shape (K K,)
            The sum of `scales` times the sums over neighbouring positions.

        Raises
        ------
        ValueError
            For rows outside 0..n-1, or arrays of another shape.
        """
        cdef Py_ssize_t j, i, t = 0, k, K = self.features.n_scores, m = rows.shape[0], n = self.offsets.shape[0] - 1
        cdef Py_ssize_t length
        for j in range(m):
            if not 0 <= rows[j] < n:
                raise ValueError(f"rows must be 0..{n - 1}, got {rows[j]}")
            t += self.offsets[rows[j] + 1] - self.offsets[rows[j]]
        if scales.shape[0] != m or nodes.shape[0] != t or nodes.shape[1] != K or (
                pairs is not None and (pairs.shape[0] != m or pairs.shape[1] != self.n_pairs)):
            raise ValueError(f"scales must have shape ({m},), nodes ({t}, {K}) and pairs ({m}, {self.n_pairs})")
        entropies, total = np.zeros((m, 2)), np.zeros(self.n_pairs)
        cdef double[:, ::1] entropy = entropies
        cdef double[::1] sums = total
        cdef ChainTables tables = ChainTables(np.zeros((K, K)), np.zeros(K), np.zeros(K), True)
        cdef Scratch s
        cdef void* memory = self.allocate(&s)
        t = 0
        with nogil:
            for j in range(m):
                i = rows[j]
                length = self.offsets[i + 1] - self.offsets[i]
                if self.n_pairs:
                    tables.place_factors(&self.edge[i, 0])
                tables.marginals(length, &self.theta[self.offsets[i], 0], s.dp, &nodes[t, 0], s.pairs, &entropy[j, 0])
                for k in range(self.n_pairs):
                    sums[k] += scales[j] * s.pairs[k]
                    if pairs is not None:
                        pairs[j, k] = s.pairs[k]
                t += length
        free(memory)
        return entropies, total

    # ------------------------------------------------------------------ steps
    def visit(self, const Py_ssize_t[::1] order):
        """Step on the chains of `order`, one after another.

        O(K) for every entry of the tokens, four times, and O(T K^2) of forward-backward for a chain of T tokens.

        Returns
        -------
        total : float
            An estimate of the sum of the block gaps before: half of `c_i a / r`.

        Raises
        ------
        ValueError
            For rows outside 0..n-1, before any step.
        KeyboardInterrupt
            Between two chains.
        """
        cdef Py_ssize_t j, n = self.offsets.shape[0] - 1, K = self.features.n_scores
        cdef double total = 0.0
        for j in range(order.shape[0]):
            if not 0 <= order[j] < n:
                raise ValueError(f"order must hold rows 0..{n - 1}, got {order[j]}")
        cdef ChainTables tables = ChainTables(np.zeros((K, K)), np.zeros(K), np.zeros(K), True)
        cdef Rows X = self.features
        cdef Scratch s
        cdef void* memory = self.allocate(&s)
        try:
            for j in range(order.shape[0]):
                with nogil:
                    total += self.step(X, order[j], tables, &s)
                self.visits += 1
                if j % CHECK == CHECK - 1:
                    PyErr_CheckSignals()
        finally:
            free(memory)
        return total

    cdef double step(self, Rows X, Py_ssize_t i, ChainTables tables, Scratch* s) noexcept nogil:
        """Lines 1 to 5 at chain i; returns the estimate of its gap."""
        cdef Py_ssize_t first = self.offsets[i], T = self.offsets[i + 1] - first, K = X.n_scores, k
        cdef Py_ssize_t size = T * K, pairs = self.n_pairs
        cdef double* theta = &self.theta[first, 0]
        cdef double* mu = &self.mu[first, 0]
        cdef double* edge = &self.edge[i, 0] if pairs else NULL
        cdef double* pair = &self.pair[i, 0] if pairs else NULL
        cdef double r, a, b, rise, change, moved, entropy, gap = 0.0, c = self.c[i]
        cdef int tried
        self.scores_of(X, first, T, s)
        memcpy(s.old, s.scores, size * sizeof(double))
        for k in range(pairs):
            s.of_edges[k] = self.base[K + k]
        for tried in range(TRIES):
            r = self.rate[i]
            for k in range(size):
                s.nodes[k] = theta[k] + r * (s.old[k] - theta[k])
            for k in range(pairs):
                s.edges[k] = edge[k] + r * (s.of_edges[k] - edge[k])
            if pairs:
                tables.place_factors(s.edges)
            entropy = tables.marginals(T, s.nodes, s.dp, s.p, s.pairs, NULL)
            if not isfinite(entropy):
                self.rate[i] = max(SMALLER * r, LEAST_RATE)
                continue
            self.move(X, first, T, s, mu, pair, -c / self.s)
            self.scores_of(X, first, T, s)
            a = b = moved = 0.0
            rise = entropy - self.entropy[i]
            for k in range(size):
                change = s.p[k] - mu[k]
                a += (s.old[k] - theta[k]) * change
                b += (s.scores[k] - s.nodes[k]) * change
                rise += s.scores[k] * change - s.p[k] * s.nodes[k]
                moved += fabs(change)
                entropy -= s.p[k] * s.nodes[k]
            for k in range(pairs):
                change = s.pairs[k] - pair[k]
                a += (s.of_edges[k] - edge[k]) * change
                b += (self.base[K + k] - s.edges[k]) * change
                rise += self.base[K + k] * change - s.pairs[k] * s.edges[k]
                moved += fabs(change)
                entropy -= s.pairs[k] * s.edges[k]
            if tried == 0:
                gap = max(0.5 * c * a / r, 0.0)
            # where all is certain nothing moves until the factors are about those of W
            r *= min(max(a / (a - b), SMALLER), LARGER) if a > b and moved > STILL else LARGER
            self.rate[i] = min(max(r, LEAST_RATE), 1.0)
            if moved <= STILL or rise >= 0.0:
                memcpy(theta, s.nodes, size * sizeof(double))
                memcpy(mu, s.p, size * sizeof(double))
                if pairs:
                    memcpy(edge, s.edges, pairs * sizeof(double))
                    memcpy(pair, s.pairs, pairs * sizeof(double))
                self.entropy[i] = entropy
                return gap
            self.move(X, first, T, s, mu, pair, c / self.s)
        return gap

    cdef void scores_of(self, Rows X, Py_ssize_t first, Py_ssize_t T, Scratch* s) noexcept nogil:
        """s.scores (T, K): scores of the tokens of a chain at W, those of the first and last label included."""
        cdef Py_ssize_t group, t, q, k, K = X.n_scores, count
        for group in range((T + STEP - 1) // STEP):
            t = group * STEP
            count = min(<Py_ssize_t>STEP, T - t)
            X.kernels.step64[X.kind](&X.X, &self.rows[first + t], <int>count, 0, <double*>self.W, self.ldw, <int>K, s.S)
            for q in range(count):
                for k in range(K):
                    s.scores[(t + q) * K + k] = s.S[k * BLOCK + q]
        if self.has_start:
            for k in range(K):
                s.scores[k] += self.base[K + self.n_pairs + k]
        if self.has_end:
            for k in range(K):
                s.scores[(T - 1) * K + k] += self.base[K + self.n_pairs + K * self.has_start + k]

    cdef void move(self, Rows X, Py_ssize_t first, Py_ssize_t T, Scratch* s, const double* mu, const double* pair,
                   double factor) noexcept nogil:
        """V += factor (E_mu' Psi - E_mu Psi), and W follows."""
        cdef Py_ssize_t group, t, q, k, K = X.n_scores, count, begin
        cdef double* V = <double*>self.V
        cdef double* W = <double*>self.W
        cdef double* rest = &self.base_unshrunk[0] + K
        for group in range((T + STEP - 1) // STEP):
            t = group * STEP
            count = min(<Py_ssize_t>STEP, T - t)
            for q in range(count):
                for k in range(K):
                    s.coef[q * self.ldc + k] = factor * X.scale * X.scale * (
                        s.p[(t + q) * K + k] - mu[(t + q) * K + k])
            X.kernels.update64[X.kind](&X.X, &self.rows[first + t], <int>count, s.coef, self.ldc, <int>K, V, self.ldw)
        for k in range(self.n_pairs):
            rest[k] += factor * (s.pairs[k] - pair[k])
        rest += self.n_pairs
        if self.has_start:
            for k in range(K):
                rest[k] += factor * (s.p[k] - mu[k])
            rest += K
        if self.has_end:
            for k in range(K):
                rest[k] += factor * (s.p[(T - 1) * K + k] - mu[(T - 1) * K + k])
        if V == W:
            return
        self.base_shrinkage.apply(&self.base_unshrunk[0], &self.base[0], K, self.base.shape[0])
        if self.dense:
            self.shrinkage.apply(V, W, 0, K * self.ldw)
            return
        for t in range(first, first + T):
            begin = X.X.indptr[t]
            self.shrinkage.apply_at(V, W, X.X.indices + begin, X.X.indptr[t + 1] - begin, self.ldw, K)

    cdef void* allocate(self, Scratch* s) except NULL:
        """Memory for the steps at any chain, to be freed."""
        cdef Py_ssize_t K = self.features.n_scores, T = self.longest, ld = (K + 7) // 8 * 8, pairs = K * K
        cdef Py_ssize_t sizes = (3 * T + 2 + ld) * ld + 4 * T * K + 3 * pairs + K * BLOCK + STEP * self.ldc
        cdef void* memory = malloc(sizes * sizeof(double) + 12 * LINE)
        cdef double* at
        if memory == NULL:
            raise MemoryError(f"not enough memory for the steps at a chain of {T} tokens with {K} labels")
        at = cut(<double*>memory, 0)
        s.dp = at
        s.S = at = cut(at, (3 * T + 2 + ld) * ld)
        s.coef = at = cut(at, K * BLOCK)
        memset(s.coef, 0, STEP * self.ldc * sizeof(double))
        s.scores = at = cut(at, STEP * self.ldc)
        s.old = at = cut(at, T * K)
        s.nodes = at = cut(at, T * K)
        s.p = at = cut(at, T * K)
        s.of_edges = at = cut(at, T * K)
        s.edges = at = cut(at, pairs)
        s.pairs = cut(at, pairs)
        return memory

    # ------------------------------------------------------------------ state
    def get_state(self):
        """What differs from a new object of the same chains, by name; arrays are shared, not copied."""
        return self.points() | {"nodes": self.nodes, "edges": self.edges, "rates": self.rates, "s": self.s,
                                "visits": self.visits}

    def set_state(self, state):
        """Becomes what `get_state` described; its limits must be set before."""
        mine = self.points() | {"nodes": self.nodes, "edges": self.edges, "rates": self.rates}
        for name, array in mine.items():
            if state[name].shape != array.shape or state[name].dtype != array.dtype:
                raise ValueError(f"{name} must have shape {array.shape} and dtype {array.dtype}, got "
                                 f"{state[name].shape} and {state[name].dtype}")
            if not np.isfinite(state[name]).all():
                raise ValueError(f"{name} must be finite")
        if not 0.0 < state["s"] < np.inf:
            raise ValueError("s must be a number > 0")
        for name, array in mine.items():
            array[:] = state[name]
        self.s, self.visits = state["s"], state["visits"]
        self._refresh()


cdef inline double* cut(double* at, Py_ssize_t size) noexcept nogil:
    """The first address on a cache line behind `size` numbers."""
    return <double*>((<uintptr_t>(at + size) + LINE - 1) // LINE * LINE)
