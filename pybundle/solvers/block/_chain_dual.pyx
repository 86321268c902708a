"""Exponentiated gradient steps on the dual of the log-loss of chains, one chain after another [Collins et al. 2008].

    maximise  sum_i c_i H(P_i) - (Omega + kappa/2 |. - centre|^2)*(-phi),
    phi = sum_i c_i (E_{P_i} Psi(x_i, y) - Psi(x_i, y_i)),

over a distribution P_i of the labellings of every chain, with its entropy H. The logarithms of its factors are stored,
theta_t(k) of the nodes (tokens) and theta(j, k) of the edges: P_i(y) ~ exp(sum_t theta_t(y_t) + sum_t theta(y_{t-1},
y_t)). Dynamic programming gives its marginals and entropy. The logarithms are float32, for half the memory. Marginals
and entropies are computed in float64 from the stored numbers, so that bounds stay valid; near the maximum of the dual
rounding to float32 changes the dual in second order only. W follows from V = (l2 centre of Omega + kappa centre - phi)
/ s, s = l2 + kappa, see `_packed_point.pyx`. The step at chain i, with all other chains fixed:

    1   u                                scores of nodes and edges at W; P_i ~ exp(u) would be best for a fixed W
    2   new = theta + r (u - theta)      with the marginals mu' by forward-backward
    3   V -= c_i (mu' - mu) Psi / s      and W follows; u' are the scores at the new W
    4   undo line 3, and repeat lines 2 and 3 with a smaller r, if H' - H + <u', mu' - mu> < 0. The dual rises by at
        least c_i times this number, because Omega* is convex
    5   r *= a / (a - b), within limits. The slope of the dual along mu' - mu is a = <u - theta, mu' - mu> at the start
        and b = <u' - new, mu' - mu> at the end; a parabola with these slopes has its maximum there

The rate r of each chain adapts to the curvature of Omega*, which is never computed. Classes are chains of one token,
without edges. Their intercepts may have no penalty, see `PackedPoint.set_intercepts`; the steps are the same then.
"""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport exp, fabs, isfinite, log
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from pybundle.core._indices cimport check_indices
from pybundle.features._rows cimport BLOCK, STEP, Rows
from pybundle.oracles._chain cimport ChainTables
from pybundle.solvers.block._packed_point cimport PackedPoint

from pybundle.features._rows import aligned

cdef enum:
    TRIES = 4               # maximum number of tries of a step; the rate falls each time, so hardly any step fails

cdef double FIRST_RATE = 0.5, LEAST_RATE = 1e-6     # initial rate, and smallest rate
cdef double SMALLER = 0.25, LARGER = 2.0            # limits of the factor in line 5, as the parabola is an estimate
cdef double STILL = 1e-8        # steps with |mu' - mu|_1 <= STILL are accepted, as rounding hides a rise of the dual
cdef double SPIKE = 6.0         # initial theta of true labels, 0 for other labels, so that phi is small and H is not 0
cdef double CERTAIN = 1e4       # known theta are clipped below at maximum - CERTAIN: larger differences lose digits
cdef double WORK = 2e8          # number of multiplications between two checks for signals


cdef struct Scratch:            # work space for the longest chain
    double* scores              # (T, K) u' of the nodes
    double* old                 # (T, K) u of the nodes
    double* old_edges           # (K, K) u of the edges; arrays of edges are empty without pairs
    double* nodes               # (T, K) new logarithms of the nodes
    double* edges               # (K, K) new logarithms of the edges
    double* mu                  # (T, K) mu' of the nodes
    double* edge_mu             # (K, K) mu' of the edges
    double* S                   # (K, BLOCK) scores of a block of tokens
    double* coef                # (STEP, ldc) coefficients of tokens in a change of V
    double* memory              # tables of forward-backward


cdef class ChainDual(PackedPoint):
    """Distributions of the labellings of all chains, and the point that belongs to them.

    Parameters
    ----------
    tokens : Rows
        All tokens, seen by K scores, without bias.
    truth : int32 array, shape (N,)
    offsets : int64 array, shape (n + 1,)
    weights : float64 array, shape (n,)
        c_i >= 0.
    masks : tuple of arrays, or None
        Scores 0 or -inf of pairs, first and last labels; None if every chain is one token, and no pairs of labels have
        weights.
    known : (nodes, edges), optional
        Logarithms of factors to start from; without `known` every true label is likely.

    Attributes
    ----------
    nodes, edges : float32 ndarray, shapes (N, K) and (n, K K), or (n, 0)
        Logarithms of the factors of the distributions.
    rates, entropies : ndarray, shape (n,)
        r and H of every chain.
    visits : float
        Number of steps so far.
    """

    cdef readonly object nodes, edges, rates, entropies
    cdef readonly double visits
    cdef object node_marginals, edge_marginals
    cdef float[:, ::1] theta
    cdef float[:, ::1] edge_theta
    cdef double[:, ::1] mu
    cdef double[:, ::1] edge_mu
    cdef double[::1] rate
    cdef double[::1] entropy
    cdef const int64_t[::1] offsets
    cdef const double[::1] c
    cdef bint has_start, has_end
    cdef Py_ssize_t n_edges         # K K, or 0 without pairs of labels
    cdef Py_ssize_t[::1] rows       # indices 0, 1, 2, ... of the tokens
    cdef Py_ssize_t longest
    cdef double work                # number of multiplications for each token
    cdef object masks

    def __init__(self, Rows tokens, truth, offsets, weights, masks, bint start, bint end, known=None):
        cdef Py_ssize_t K = tokens.n_scores, n = len(offsets) - 1
        cdef bint pairs = masks is not None
        if (tokens.has_bias or len(truth) != tokens.n_rows or len(weights) != n or offsets[0] != 0
                or offsets[n] != tokens.n_rows or np.diff(offsets).min() < 1 or not pairs and n != tokens.n_rows):
            raise ValueError("tokens without bias, truth, offsets and weights must be those of the same chains")
        self.n_edges = K * K if pairs else 0
        PackedPoint.__init__(self, tokens, False, self.n_edges + K * (start + end))
        self.masks = masks
        self.offsets, self.c, self.has_start, self.has_end = offsets, weights, start, end
        self.longest = np.diff(offsets).max()
        self.rows = np.arange(tokens.n_rows)
        if known is None:
            self.nodes = np.zeros((tokens.n_rows, K), dtype=np.float32)
            self.edges = np.zeros((n, self.n_edges), dtype=np.float32)
            self.nodes[np.arange(tokens.n_rows), truth] = SPIKE
        else:
            nodes, edges = (np.array(values, dtype=np.float64, order="C") for values in known)
            if (nodes.shape != (tokens.n_rows, K) or edges.shape != (n, self.n_edges)
                    or not (np.isfinite(nodes).all() and np.isfinite(edges).all())):
                raise ValueError("the factors belong to other chains")
            self.nodes, self.edges = (
                np.maximum(values - values.max(axis=1, keepdims=True, initial=-np.inf), -CERTAIN).astype(np.float32)
                for values in (nodes, edges))
        self.node_marginals, self.edge_marginals = np.empty(self.nodes.shape), np.empty(self.edges.shape)
        self.rates, self.entropies = np.full(n, FIRST_RATE), np.empty(n)
        self.theta, self.edge_theta, self.mu, self.edge_mu = (self.nodes, self.edges, self.node_marginals,
                                                              self.edge_marginals)
        self.rate, self.entropy = self.rates, self.entropies
        per_token = tokens.n_features if self.dense else int(tokens.storage[2][tokens.n_rows]) / tokens.n_rows
        self.work = K * (4.0 * per_token + (K if pairs else 1))
        self._refresh()

    def _refresh(self):
        """Compute marginals and entropies from the factors."""
        cdef Py_ssize_t i, k, first, T, K = self.features.n_scores, n = self.offsets.shape[0] - 1
        cdef ChainTables tables = self.tables()
        cdef double entropy, work = 0.0
        cdef Scratch s
        _memory = self.place(&s)
        with nogil:
            for i in range(n):
                first, T = self.offsets[i], self.offsets[i + 1] - self.offsets[i]
                if self.n_edges:
                    widen(&self.edge_theta[i, 0], s.edges, self.n_edges)
                widen(&self.theta[first, 0], s.nodes, T * K)
                entropy = self.distribution(tables, T, s.nodes, &s)
                memcpy(&self.mu[first, 0], s.mu, T * K * sizeof(double))
                for k in range(T * K):
                    entropy -= s.mu[k] * s.nodes[k]
                for k in range(self.n_edges):
                    self.edge_mu[i, k] = s.edge_mu[k]
                    entropy -= s.edge_mu[k] * s.edges[k]
                self.entropy[i] = entropy
                work += T * self.work
                if work > WORK:
                    work = 0.0
                    with gil:
                        PyErr_CheckSignals()

    cdef ChainTables tables(self):
        """Return tables for forward-backward, or None without pairs."""
        return ChainTables(*self.masks, True) if self.n_edges else None

    cdef double distribution(self, ChainTables tables, Py_ssize_t T, const double* nodes, Scratch* s) noexcept nogil:
        """Set s.mu and s.edge_mu to the marginals for the logarithms `nodes` and s.edges; return log Z."""
        cdef Py_ssize_t k, K = self.features.n_scores
        cdef double top, total = 0.0
        if self.n_edges:
            tables.place_factors(s.edges)
            return tables.marginals(T, nodes, s.memory, s.mu, s.edge_mu, NULL)
        top = nodes[0]
        for k in range(1, K):
            top = max(top, nodes[k])
        for k in range(K):
            s.mu[k] = exp(nodes[k] - top)
            total += s.mu[k]
        for k in range(K):
            s.mu[k] /= total
        return top + log(total)

    # ------------------------------------------------------------------ the marginals of the factors
    def marginals(self, const Py_ssize_t[::1] rows, const double[::1] scales, double[:, ::1] nodes):
        """Compute marginals of the chains `rows`, and entropies with proven errors; several threads may call this.

        Parameters
        ----------
        rows, scales : arrays, shape (m,)
            Rows of chains with pairs of labels, and a factor of each chain.
        nodes : float64 array, shape (number of their tokens, K)
            Receives the marginals of the tokens, one chain after another.

        Returns
        -------
        entropies : ndarray, shape (m, 2)
            Entropies, and bounds on their rounding errors.
        total : ndarray, shape (K K,)
            Sum over the chains of `scales` times the sums of their edge marginals.

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
        if scales.shape[0] != m or nodes.shape[0] != t or nodes.shape[1] != K or not self.n_edges:
            raise ValueError(f"scales must have shape ({m},) and nodes ({t}, {K}), for chains with pairs")
        entropies, total = np.zeros((m, 2)), np.zeros(self.n_edges)
        cdef double[:, ::1] entropy = entropies
        cdef double[::1] sums = total
        cdef ChainTables tables = self.tables()
        cdef Scratch s
        _memory = self.place(&s)
        t = 0
        with nogil:
            for j in range(m):
                i = rows[j]
                length = self.offsets[i + 1] - self.offsets[i]
                widen(&self.edge_theta[i, 0], s.edges, self.n_edges)
                widen(&self.theta[self.offsets[i], 0], s.nodes, length * K)
                tables.place_factors(s.edges)
                tables.marginals(length, s.nodes, s.memory, &nodes[t, 0], s.edge_mu, &entropy[j, 0])
                for k in range(self.n_edges):
                    sums[k] += scales[j] * s.edge_mu[k]
                t += length
        return entropies, total

    # ------------------------------------------------------------------ steps
    def visit(self, const Py_ssize_t[::1] order):
        """Step on the chains of `order`, one after another.

        A step costs two products of the tokens with W, an update of V, and O(T K^2) operations of forward-backward for
        a chain of T tokens. Each further try costs one more product and two more updates.

        Raises
        ------
        ValueError
            For rows outside 0..n-1, before any step.
        KeyboardInterrupt
            Between two chains.
        """
        cdef Py_ssize_t j, n = self.offsets.shape[0] - 1
        cdef double work = 0.0, each = 0.0
        if self.dense and self.shrinkage is not None:
            each = self.ldw * self.features.n_scores
        check_indices("order", order, n)
        cdef ChainTables tables = self.tables()
        cdef Rows X = self.features
        cdef Scratch s
        _memory = self.place(&s)
        for j in range(order.shape[0]):
            with nogil:
                self.step(X, order[j], tables, &s)
            self.visits += 1
            work += (self.offsets[order[j] + 1] - self.offsets[order[j]]) * self.work + each
            if work > WORK:
                work = 0.0
                PyErr_CheckSignals()

    cdef void step(self, Rows X, Py_ssize_t i, ChainTables tables, Scratch* s) noexcept nogil:
        """Do lines 1 to 5 of the module docstring at chain i."""
        cdef Py_ssize_t first = self.offsets[i], T = self.offsets[i + 1] - first, K = X.n_scores, k
        cdef Py_ssize_t size = T * K, n_edges = self.n_edges
        cdef float* theta = &self.theta[first, 0]
        cdef double* mu = &self.mu[first, 0]
        cdef float* edge_theta = &self.edge_theta[i, 0] if n_edges else NULL
        cdef double* edge_mu = &self.edge_mu[i, 0] if n_edges else NULL
        cdef double r, a, b, rise, change, moved, log_z, entropy, c = self.c[i]
        cdef int _tried
        if c == 0.0:
            return
        self.scores_of(X, first, T, s, s.old)                                       # line 1
        for k in range(n_edges):
            s.old_edges[k] = self.base[K + k]
        for _tried in range(TRIES):
            r = self.rate[i]
            for k in range(size):                                                   # line 2
                s.nodes[k] = <float>(theta[k] + r * (s.old[k] - theta[k]))
            for k in range(n_edges):
                s.edges[k] = <float>(edge_theta[k] + r * (s.old_edges[k] - edge_theta[k]))
            log_z = self.distribution(tables, T, s.nodes, s)
            if not isfinite(log_z):
                self.rate[i] = max(SMALLER * r, LEAST_RATE)
                continue
            self.move(X, first, T, s, mu, edge_mu, -c / self.s)                     # line 3
            self.scores_of(X, first, T, s, s.scores)
            a = b = moved = 0.0
            entropy, rise = log_z, log_z - self.entropy[i]
            for k in range(size):
                change = s.mu[k] - mu[k]
                a += (s.old[k] - theta[k]) * change
                b += (s.scores[k] - s.nodes[k]) * change
                rise += s.scores[k] * change - s.mu[k] * s.nodes[k]
                entropy -= s.mu[k] * s.nodes[k]
                moved += fabs(change)
            for k in range(n_edges):
                change = s.edge_mu[k] - edge_mu[k]
                a += (s.old_edges[k] - edge_theta[k]) * change
                b += (self.base[K + k] - s.edges[k]) * change
                rise += self.base[K + k] * change - s.edge_mu[k] * s.edges[k]
                entropy -= s.edge_mu[k] * s.edges[k]
                moved += fabs(change)
            if moved <= STILL or a <= b:    # marginals near 0 and 1 hardly move until theta is near u
                r *= LARGER
            else:                                                                   # line 5
                r *= min(max(a / (a - b), SMALLER), LARGER) if a > b else SMALLER
            self.rate[i] = min(max(r, LEAST_RATE), 1.0)
            if rise >= 0.0 or (moved <= STILL and isfinite(rise)):                  # line 4
                narrow(s.nodes, theta, size)
                memcpy(mu, s.mu, size * sizeof(double))
                if n_edges:
                    narrow(s.edges, edge_theta, n_edges)
                    memcpy(edge_mu, s.edge_mu, n_edges * sizeof(double))
                self.entropy[i] = entropy
                return
            self.move(X, first, T, s, mu, edge_mu, c / self.s)

    cdef void scores_of(self, Rows X, Py_ssize_t first, Py_ssize_t T, Scratch* s, double* out) noexcept nogil:
        """Set out (T, K) to the scores of the tokens of a chain at W, first and last labels included."""
        cdef Py_ssize_t k, K = X.n_scores
        cdef const double* rest = &self.base[0] + K + self.n_edges
        X.score_step(&self.rows[first], T, <double*>self.W, self.ldw, s.S, out)
        if self.is_centred:
            for k in range(K):
                out[k] += self.intercept(k, first)
        if self.has_start:
            for k in range(K):
                out[k] += rest[k]
            rest += K
        if self.has_end:
            for k in range(K):
                out[(T - 1) * K + k] += rest[k]

    cdef void move(self, Rows X, Py_ssize_t first, Py_ssize_t T, Scratch* s, const double* mu, const double* edge_mu,
                   double factor) noexcept nogil:
        """Add factor (mu' - mu) Psi to V, and compute W from V."""
        cdef Py_ssize_t group, t, q, k, K = X.n_scores, count, begin
        cdef double* V = <double*>self.V
        cdef double* W = <double*>self.W
        cdef double* rest = &self.base_unshrunk[0] + K
        cdef double of_units = factor * X.scale * X.scale       # V is stored times the scale, X without it
        for group in range((T + STEP - 1) // STEP):
            t = group * STEP
            count = min(<Py_ssize_t>STEP, T - t)
            for q in range(count):
                for k in range(K):
                    s.coef[q * self.ldc + k] = of_units * (s.mu[(t + q) * K + k] - mu[(t + q) * K + k])
            X.update_step(&self.rows[first + t], <int>count, s.coef, self.ldc, V, self.ldw)
        if self.is_centred:
            for k in range(K):
                self.move_intercept(k, first, factor * (s.mu[k] - mu[k]))
        for k in range(self.n_edges):
            rest[k] += factor * (s.edge_mu[k] - edge_mu[k])
        rest += self.n_edges
        if self.has_start:
            for k in range(K):
                rest[k] += factor * (s.mu[k] - mu[k])
            rest += K
        if self.has_end:
            for k in range(K):
                rest[k] += factor * (s.mu[(T - 1) * K + k] - mu[(T - 1) * K + k])
        if V == W:
            return
        self.base_shrinkage.apply(&self.base_unshrunk[0], &self.base[0], K, self.base.shape[0])
        if self.dense:
            self.shrinkage.apply(V, W, 0, K * self.ldw)
            return
        for q in range(X.X.indptr[first], X.X.indptr[first + T]):
            count = X.entries_of(X.X.indices[q], self.ldw, &begin)
            self.shrinkage.apply(V, W, begin, begin + count)

    cdef place(self, Scratch* s):
        """Let the arrays of `s` point into new memory, each at the start of a cache line; return what owns it."""
        cdef Py_ssize_t K = self.features.n_scores, T = self.longest, ld = (K + 7) // 8 * 8
        cdef Py_ssize_t of_program = (3 * T + 2 + ld) * ld if self.n_edges else 0
        cdef Py_ssize_t nodes = (T * K + 7) // 8 * 8, edges = (self.n_edges + 7) // 8 * 8
        memory = aligned((of_program + K * BLOCK + STEP * self.ldc + 4 * nodes + 3 * edges,), np.float64)
        s.memory = <double*><size_t>memory.ctypes.data
        s.S = s.memory + of_program
        s.coef = s.S + K * BLOCK
        s.scores = s.coef + STEP * self.ldc
        s.old, s.nodes, s.mu = s.scores + nodes, s.scores + 2 * nodes, s.scores + 3 * nodes
        s.old_edges = s.mu + nodes
        s.edges, s.edge_mu = s.old_edges + edges, s.old_edges + 2 * edges
        return memory

    # ------------------------------------------------------------------ state
    def _arrays(self):
        return self.points() | {"nodes": self.nodes, "edges": self.edges, "rates": self.rates,
                                "entropies": self.entropies}

    def get_state(self):
        """Return, by name, all that differs from a new object of the same chains; arrays are not copied."""
        return self._arrays() | {"s": self.s, "visits": self.visits}

    def set_state(self, state):
        """Become what `get_state` described, to the last bit; `set_limits` must have been called."""
        if not ((state["rates"] > 0.0) & (state["rates"] <= 1.0)).all():
            raise ValueError("rates must be numbers > 0 and <= 1")
        self.restore_arrays(self._arrays(), state)
        self.visits = state["visits"]
        self._refresh()
        self.entropies[:] = state["entropies"]     # as steps have summed entropies in another order


cdef inline void widen(const float* values, double* out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        out[k] = values[k]


cdef inline void narrow(const double* values, float* out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        out[k] = <float>values[k]
