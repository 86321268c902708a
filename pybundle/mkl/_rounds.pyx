"""Rounds of Algorithm 3 of Martins et al. 2011, for chains of tokens and for single tokens.

    yhat = argmax_y' sum_k f_k(x, y') + loss(y, y')                  theta_k -= eta (phi_k(x, yhat) - phi_k(x, y))
    b = prox of eta lam / 2 (sum_k b_k)^2 at b_k = |theta_k|         theta_k *= b_k / |theta_k|
    theta *= min(1, radius / |theta|)

For the log-loss, marginals replace yhat. `_groups` and `_lazy` compute gradients, norms and scales.
"""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport isfinite, sqrt
from libc.stdint cimport int32_t
from libc.string cimport memset

from pybundle.mkl._groups cimport Gradient, Group, LinkGroup
from pybundle.oracles._chain cimport ChainTables
from pybundle.prox._threshold cimport shrink

# Number of rounds after which norms are recomputed.
cdef long FRESH = 10000


cdef class TokenRounds:
    """Makes rounds on the groups of a learner, bound to the data of one call.

    Parameters
    ----------
    groups : list of Group
    links : LinkGroup or None
        Group of neighbouring labels; None for single tokens.
    structure : TokenStructure
    data : Tokens
    batch : int
        Maximum number of examples of one gradient.

    Attributes
    ----------
    expected : list or None
        The plane of an epoch of the log-loss: coefficients (n_tokens, n_labels), links and offset. Each example adds
        its plane at the point of its round, by `log sum_y exp <theta, psi(y)> >= H(p) + <theta, sum_y p(y) psi(y)>` for
        every distribution p over labellings, with H its entropy. The planes of examples without a round count as 0, a
        lower bound of any log-loss.
    """

    def __cinit__(self, list groups, links, structure, data, Py_ssize_t batch=1):
        cdef Py_ssize_t k
        self.groups, self.links = groups + ([links] if links is not None else []), links
        self.n_groups, self.n_labels = len(self.groups), structure.n_labels
        self.offsets, self.truth, self.costs = data.offsets, data.truth, structure.costs
        self.factors, self.has_start, self.has_end = structure.factors(data.offsets), structure.start, structure.end
        sizes = np.sort(np.diff(data.offsets))
        self.longest = sizes.max()
        self.room = sizes[max(0, len(sizes) - batch):].sum()
        self.tables = ChainTables(*structure.masks)
        self.S = np.empty((self.longest, self.n_labels))
        self.scratch = np.empty((self.longest + 1) * self.tables.ld + 8)
        self.memory = (np.empty(self.n_groups + self.room, np.intp),
                       np.zeros((self.room + self.n_labels + 2) * self.n_labels))
        self.members = <void**><size_t>self.memory[0].ctypes.data
        self.gradient.tokens = <Py_ssize_t*>(self.members + self.n_groups)
        self.gradient.links = <double*><size_t>self.memory[1].ctypes.data
        self.gradient.coefs = self.gradient.links + (self.n_labels + 2) * self.n_labels
        for k in range(self.n_groups):
            self.members[k] = <void*>(<Group?>self.groups[k])

    cdef void place_links(self) noexcept nogil:
        """Copy the weights of neighbouring labels into the decoder's tables."""
        cdef Py_ssize_t j, k, L = self.n_labels
        cdef const double* v
        cdef double s, x
        if self.links is None:
            return
        for j in range(L + 2):
            v = (<LinkGroup>self.members[self.n_groups - 1]).theta.read(j)
            s = (<LinkGroup>self.members[self.n_groups - 1]).theta.scale[0]
            for k in range(L):
                x = 0.0 if v == NULL else s * v[k]
                if j < L:
                    self.tables.rows[j, k] = self.tables.columns[k, j] = x + self.tables.mask[j, k]
                elif j == L:
                    self.tables.start[k] = x + self.tables.ends_mask[0, k]
                else:
                    self.tables.end[k] = x + self.tables.ends_mask[1, k]

    cdef int decode_example(self, Py_ssize_t i, int32_t* labels, double* value) noexcept nogil:
        """Find the labelling of the largest hinge of example i, and this hinge; return 0 if it is not finite."""
        cdef Py_ssize_t k, t, c, first = self.offsets[i], T = self.offsets[i + 1] - first, L = self.n_labels
        cdef double* S = &self.S[0, 0]
        cdef double true_score = 0.0
        cdef int32_t y
        memset(S, 0, T * L * sizeof(double))
        for k in range(self.n_groups):
            (<Group>self.members[k]).add_scores(first, T, S)
        for t in range(T):
            y = self.truth[first + t]
            true_score += S[t * L + y]
            if t > 0:
                true_score += self.tables.rows[self.truth[first + t - 1], y]
        true_score += self.tables.start[self.truth[first]] + self.tables.end[self.truth[first + T - 1]]
        for t in range(T):
            for c in range(L):
                S[t * L + c] += self.factors[i] * self.costs[self.truth[first + t], c]
        if not self.tables.viterbi(T, S, &self.scratch[0], labels, value):
            return 0
        value[0] -= true_score
        return isfinite(value[0])

    cdef void clear(self) noexcept nogil:
        self.gradient.n_rows = 0
        if self.links is not None:
            memset(self.gradient.links, 0, (self.n_labels + 2) * self.n_labels * sizeof(double))

    cdef void add(self, Py_ssize_t i, const int32_t* plus, const int32_t* minus, double weight) noexcept nogil:
        """Add weight (phi(x_i, plus) - phi(x_i, minus)) to the gradient."""
        cdef Py_ssize_t t, r, first = self.offsets[i], T = self.offsets[i + 1] - first, L = self.n_labels
        cdef Gradient* g = &self.gradient
        for t in range(T):
            if plus[t] != minus[t]:
                r = g.n_rows
                memset(g.coefs + r * L, 0, L * sizeof(double))
                g.tokens[r] = first + t
                g.coefs[r * L + plus[t]] += weight
                g.coefs[r * L + minus[t]] -= weight
                g.n_rows += 1
        if self.links is not None:
            for t in range(1, T):
                g.links[plus[t - 1] * L + plus[t]] += weight
                g.links[minus[t - 1] * L + minus[t]] -= weight
            if self.has_start:
                g.links[L * L + plus[0]] += weight
                g.links[L * L + minus[0]] -= weight
            if self.has_end:
                g.links[(L + 1) * L + plus[T - 1]] += weight
                g.links[(L + 1) * L + minus[T - 1]] -= weight

    def hinge(self):
        """Return the mean hinge of all examples at the current point."""
        cdef Py_ssize_t i
        cdef bint good = True
        cdef double[::1] values = np.empty(self.offsets.shape[0] - 1)
        cdef int32_t[::1] labels = np.empty(self.longest, np.int32)
        with nogil:
            self.place_links()
            for i in range(values.shape[0]):
                good &= self.decode_example(i, &labels[0], &values[i])
        if not good:
            raise FloatingPointError
        return float(np.maximum(values, 0.0).mean())

    def norms(self):
        """Return |theta_k| of all groups, shape (n_groups,)."""
        return np.concatenate([group.theta.norms() for group in self.groups])

    def run(self, const Py_ssize_t[::1] order, const double[::1] etas, Py_ssize_t batch, double lam, double radius,
            int32_t[::1] found, regulariser=None, bint logistic=False):
        """Make rounds over the examples `order`, `batch` in each; return the sum of lam R(theta_t) + L_t(theta_t).

        Parameters
        ----------
        etas : (n_rounds,)
            Learning rates.
        lam : float
            Constant of lam/2 (sum_k |theta_k|)^2, mean scale; not used with `regulariser`.
        radius : float
            Radius of the Euclidean ball to project onto; infinity for none.
        found : (n_tokens,)
            Receives the labelling found last for each example.
        regulariser : GroupwisePenalty, optional
            Replaces the squared l2,1 norm; its methods `shrink(norms, t)` and `_value(norms)` are used.
        """
        cdef Py_ssize_t r, j, k, i, first, count, p = self.n_groups
        cdef double total = 0.0, value, size, loss, sum_of_squares, work = 0.0, amount, ratio
        cdef bint good = True, plain = regulariser is None
        before_array, after_array = np.zeros(p), np.zeros(p)
        cdef double[::1] before = before_array, after = after_array
        cdef double[::1] product = np.zeros(p), square = np.zeros(p)
        for k in range(p):
            before[k] = (<Group>self.groups[k]).theta.norms()[0]
        with nogil:
            for r in range(etas.shape[0]):
                first = r * batch
                count = min(batch, order.shape[0] - first)
                self.clear()
                self.place_links()
                loss = 0.0
                if logistic:
                    with gil:
                        loss = self._expect(np.asarray(order[first:first + count]))
                else:
                    for j in range(count):
                        i = order[first + j]
                        good &= self.decode_example(i, &found[self.offsets[i]], &value)
                        loss += max(value, 0.0) / count
                        self.add(i, &found[self.offsets[i]], &self.truth[self.offsets[i]], 1.0 / count)
                        work += (self.offsets[i + 1] - self.offsets[i]) * self.n_labels * (p + self.n_labels)
                if not good:
                    break
                total += loss
                if plain:
                    size = 0.0
                    for k in range(p):
                        size += before[k]
                    total += 0.5 * lam * size * size
                else:
                    with gil:
                        total += regulariser._value(before_array)
                for k in range(p):
                    (<Group>self.members[k]).measure(&self.gradient, &product[k], &square[k])
                    # formula (17): |theta - eta Delta|^2
                    value = before[k] * before[k] + etas[r] * (
                        etas[r] * square[k] - 2.0 * (<Group>self.members[k]).theta.scale[0] * product[k])
                    before[k] = sqrt(max(value, 0.0))
                if plain:
                    good = shrink(&before[0], p, 0.0, 1.0 / (etas[r] * lam), &after[0])
                else:
                    with gil:
                        after_array[:] = regulariser.shrink(before_array, etas[r])
                sum_of_squares = 0.0
                for k in range(p):
                    sum_of_squares += after[k] * after[k]
                ratio = min(1.0, radius / sqrt(sum_of_squares)) if sum_of_squares > 0.0 else 1.0
                for k in range(p):
                    if after[k] == 0.0:
                        if not (<Group>self.members[k]).theta.is_zero[0]:
                            (<Group>self.members[k]).reset()
                        before[k] = 0.0
                    else:
                        amount = (<Group>self.members[k]).theta.scale[0]
                        (<Group>self.members[k]).theta.is_zero[0] = 0
                        if square[k] > 0.0:
                            (<Group>self.members[k]).step(&self.gradient, -etas[r] / amount)
                        value = before[k] / amount
                        (<Group>self.members[k]).theta.square[0] = value * value
                        (<Group>self.members[k]).rescale(ratio * after[k] / before[k])
                        before[k] = ratio * after[k]
                    (<Group>self.members[k]).theta.tick()
                work += self.gradient.n_rows * 2.0 * self.S.shape[1] * p * 100.0
                if (r + 1) % FRESH == 0:
                    for k in range(p):
                        (<Group>self.members[k]).refresh()
                        before[k] = (sqrt(max((<Group>self.members[k]).theta.square[0], 0.0))
                                     * (<Group>self.members[k]).theta.scale[0])
                        if (<Group>self.members[k]).theta.is_zero[0]:
                            before[k] = 0.0
                if work > PAUSE:
                    work = 0.0
                    with gil:
                        PyErr_CheckSignals()
        if not good:
            raise FloatingPointError
        return total

    def _expect(self, rows):
        """Set the gradient to the mean of E phi - phi(y) over the examples `rows`; return the mean log-loss."""
        cdef Py_ssize_t L = self.n_labels, i, t, r, T, first, c, k
        cdef double total = 0.0
        cdef double[:, ::1] p
        S = np.asarray(self.S)
        tables = ChainTables(np.asarray(self.tables.rows)[:, :L], np.asarray(self.tables.start)[:L],
                             np.asarray(self.tables.end)[:L], True)
        links = np.zeros((L + 2, L))
        for i in rows:
            first, T = self.offsets[i], self.offsets[i + 1] - self.offsets[i]
            unary, marginals, value = S[:T], np.empty((T, L)), np.empty(1)
            unary[:] = 0.0
            for k in range(self.n_groups):
                (<Group>self.members[k]).add_scores(first, T, &self.S[0, 0])
            pairs, entropy = np.zeros((1, L, L)), None if self.expected is None else np.empty((1, 2))
            bad = tables.marginal_items(unary, np.array([0, T]), 0, 1, np.ones(1), marginals, value, entropy, pairs)
            if bad >= 0 or not isfinite(value[0]):
                raise FloatingPointError
            y = np.asarray(self.truth[first:first + T])
            true_score = unary[np.arange(T), y].sum()
            if self.links is not None:
                w = np.asarray(self.tables.rows)
                true_score += w[y[:T - 1], y[1:]].sum()
                true_score += float(self.tables.start[<int>y[0]]) + float(self.tables.end[<int>y[T - 1]])
                np.subtract.at(pairs[0], (y[:T - 1], y[1:]), 1.0)
            total += value[0] - true_score
            marginals[np.arange(T), y] -= 1.0
            if self.expected is not None:
                n = len(self.offsets) - 1
                self.expected[0][first:first + T] = marginals / n
                self.expected[1][:L] += pairs[0] / n
                self.expected[1][L] += marginals[0] / n if self.has_start else 0.0
                self.expected[1][L + 1] += marginals[T - 1] / n if self.has_end else 0.0
                self.expected[2] += max(entropy[0, 0] - entropy[0, 1], 0.0) / n
            marginals /= len(rows)
            p = marginals
            for t in range(T):
                r = self.gradient.n_rows
                self.gradient.tokens[r] = first + t
                for c in range(L):
                    self.gradient.coefs[r * L + c] = p[t, c]
                self.gradient.n_rows += 1
            if self.links is not None:
                links[:L] += pairs[0] / len(rows)
                links[L] += marginals[0] if self.has_start else 0.0
                links[L + 1] += marginals[T - 1] if self.has_end else 0.0
        np.asarray(<double[:L + 2, :L]> self.gradient.links)[:] = links
        return total / len(rows)
