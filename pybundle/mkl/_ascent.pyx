"""Block steps in the dual of multiple kernel learning with fixed kernel weights, for chains of tokens or single tokens.

With kernel weights nu_k, a distribution alpha_i over the labellings of each example i and a proximal centre c

    theta_k = s_k V_k,   s_k = nu_k / (lam + kappa),   V_k = -phi_k + kappa c_k / nu_k,
    phi = 1/n sum_i sum_y alpha_iy psi_i(y)

A visit of an example finds its best labelling, adds it to the cache of the example, and moves weight between cached
labellings by pairwise steps with exact line search. Each step updates the scores of the example's own tokens; all other
scores are updated once, by the sum of the steps.
"""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from pybundle.mkl._groups cimport Group
from pybundle.mkl._rounds cimport PAUSE, TokenRounds

cdef enum: SLOTS = 100      # largest number of cached labellings of an example


cdef class Ascent(TokenRounds):
    """Adds to `TokenRounds` a cache of labellings and their weights for every example; the truth comes first."""

    cdef int32_t[:, ::1] labellings           # (SLOTS, n_tokens)
    cdef double[:, ::1] alpha                 # (n_examples, SLOTS)
    cdef double[:, ::1] losses                # (n_examples, SLOTS)
    cdef int32_t[::1] counts                  # (n_examples,) cached labellings
    cdef double[::1] net                      # (longest, n_labels) sum of the steps of a visit

    def __init__(self, groups, links, structure, data):
        n = data.n_examples
        self.labellings = np.tile(data.truth, (SLOTS, 1))
        self.alpha, self.losses = np.zeros((n, SLOTS)), np.zeros((n, SLOTS))
        np.asarray(self.alpha)[:, 0] = 1.0
        self.counts = np.ones(n, np.int32)
        self.net = np.empty(self.longest * self.n_labels)

    def offset(self):
        """Return B = 1/n sum_i sum_y alpha_iy loss(y_i, y)."""
        return float((np.asarray(self.alpha) * np.asarray(self.losses)).sum()) / len(self.counts)

    cdef double value(self, Py_ssize_t i, Py_ssize_t q, const double* S) noexcept nogil:
        """Return loss plus score of a cached labelling; S contains no losses."""
        cdef Py_ssize_t t, first = self.offsets[i], T = self.offsets[i + 1] - first
        cdef const int32_t* y = &self.labellings[q, first]
        cdef double total = self.losses[i, q] + self.tables.start[y[0]] + self.tables.end[y[T - 1]]
        for t in range(T):
            total += S[t * self.n_labels + y[t]]
        for t in range(1, T):
            total += self.tables.rows[y[t - 1], y[t]]
        return total

    cdef Py_ssize_t keep(self, Py_ssize_t i, const int32_t* y) noexcept nogil:
        """Cache a labelling, unless it is cached already; return its slot, or -1 if no slot is free."""
        cdef Py_ssize_t q, t, first = self.offsets[i], T = self.offsets[i + 1] - first, free_slot = -1
        for q in range(self.counts[i]):
            t = 0
            while t < T and self.labellings[q, first + t] == y[t]:
                t += 1
            if t == T:
                return q
            if q > 0 and self.alpha[i, q] == 0.0:
                free_slot = q
        if self.counts[i] < SLOTS:
            free_slot = self.counts[i]
            self.counts[i] += 1
        if free_slot >= 0:
            self.losses[i, free_slot] = 0.0
            for t in range(T):
                self.labellings[free_slot, first + t] = y[t]
                self.losses[i, free_slot] += self.factors[i] * self.costs[self.truth[first + t], y[t]]
        return free_slot

    def visit(self, const Py_ssize_t[::1] order, bint oracle, int most_steps):
        """Make block steps on the examples `order`; with `oracle` each visit first calls the oracle.

        Returns the sum of the block gaps before these steps, divided by n, and the sum over visits of
        `sum_k s_k |Delta_k|^2` for the first direction of each visit.
        """
        cdef Py_ssize_t i, j, k, q, t, c, first, T, best, worst, n = self.counts.shape[0], L = self.n_labels
        cdef double* S = &self.S[0, 0]
        cdef double[::1] u = np.empty(SLOTS)
        cdef int32_t[::1] found = np.empty(self.longest, np.int32)
        cdef double value, mean, gap, curvature, tau, gaps = 0.0, squares = 0.0, product, square, work = 0.0
        cdef int step
        cdef bint good = True
        cdef Py_ssize_t n_tokens = self.n_groups - (self.links is not None)
        with nogil:
            for j in range(order.shape[0]):
                i = order[j]
                first, T = self.offsets[i], self.offsets[i + 1] - self.offsets[i]
                self.place_links()
                if oracle:
                    good &= self.decode_example(i, &found[0], &value)
                    if not good:
                        break
                    for t in range(T):                  # remove the losses
                        for c in range(L):
                            S[t * L + c] -= self.factors[i] * self.costs[self.truth[first + t], c]
                    self.keep(i, &found[0])
                elif self.counts[i] == 1:
                    continue
                else:
                    memset(S, 0, T * L * sizeof(double))
                    for k in range(self.n_groups):
                        (<Group>self.members[k]).add_scores(first, T, S)
                memset(&self.net[0], 0, T * L * sizeof(double))
                for step in range(most_steps):
                    best, worst, mean = 0, -1, 0.0
                    for q in range(self.counts[i]):
                        u[q] = self.value(i, q, S)
                        mean += self.alpha[i, q] * u[q]
                        if u[q] > u[best]:
                            best = q
                        if self.alpha[i, q] > 0.0 and (worst < 0 or u[q] < u[worst]):
                            worst = q
                    gap = u[best] - mean
                    if step == 0:
                        gaps += gap
                    if best == worst or not gap > 1e-13 * (1.0 + abs(u[best])):
                        break
                    self.clear()
                    self.add(i, &self.labellings[best, first], &self.labellings[worst, first], 1.0)
                    curvature = 0.0
                    for k in range(self.n_groups):
                        (<Group>self.members[k]).measure(&self.gradient, &product, &square)
                        curvature += (<Group>self.members[k]).theta.scale[0] * square
                    if step == 0:
                        squares += curvature
                    tau = self.alpha[i, worst]
                    if curvature > 0.0:
                        tau = min(tau, (u[best] - u[worst]) * n / curvature)
                    self.alpha[i, worst] -= tau
                    self.alpha[i, best] += tau
                    if self.alpha[i, worst] < 1e-15:
                        self.alpha[i, best] += self.alpha[i, worst]
                        self.alpha[i, worst] = 0.0
                    for q in range(self.gradient.n_rows):
                        t = self.gradient.tokens[q] - first
                        for c in range(L):
                            self.net[t * L + c] += tau * self.gradient.coefs[q * L + c]
                    for k in range(n_tokens):
                        (<Group>self.members[k]).add_own(
                            &self.gradient, -tau / n * (<Group>self.members[k]).theta.scale[0], first, T, S)
                    if n_tokens < self.n_groups:
                        (<Group>self.members[n_tokens]).step(&self.gradient, -tau / n)
                        self.place_links()
                    work += 100.0 * self.n_groups * T * L
                self.gradient.n_rows = 0
                for t in range(T):
                    mean = 0.0
                    for c in range(L):
                        mean += abs(self.net[t * L + c])
                    if mean > 0.0:
                        q = self.gradient.n_rows
                        self.gradient.tokens[q] = first + t
                        memcpy(self.gradient.coefs + q * L, &self.net[t * L], L * sizeof(double))
                        self.gradient.n_rows += 1
                for k in range(n_tokens):
                    (<Group>self.members[k]).step(&self.gradient, -1.0 / n)
                work += 1e4 * self.n_groups * (1 + self.gradient.n_rows)
                if work > PAUSE:
                    work = 0.0
                    with gil:
                        PyErr_CheckSignals()
        if not good:
            raise FloatingPointError
        return gaps / n, squares

    def planes(self):
        """Return phi as coefficients of tokens (n_tokens, n_labels) and of links (n_labels + 2, n_labels), and B.

        Sums of weights that rounding in pairwise steps has moved above 1 are first scaled to 1.
        """
        cdef Py_ssize_t i, q, r, c
        weights = np.asarray(self.alpha)[:, 1:]
        weights /= np.maximum(weights.sum(axis=1), 1.0)[:, None]
        D = np.zeros((len(self.truth), self.n_labels))
        cdef double[:, ::1] coefs = D
        self.clear()
        for i in range(self.counts.shape[0]):
            for q in range(1, self.counts[i]):
                if self.alpha[i, q] > 0.0:
                    self.gradient.n_rows = 0
                    self.add(i, &self.labellings[q, self.offsets[i]], &self.truth[self.offsets[i]],
                             self.alpha[i, q] / self.counts.shape[0])
                    for r in range(self.gradient.n_rows):
                        for c in range(self.n_labels):
                            coefs[self.gradient.tokens[r], c] += self.gradient.coefs[r * self.n_labels + c]
        links = np.asarray(<double[:self.n_labels + 2, :self.n_labels]> self.gradient.links).copy()
        return D, links, self.offset()
