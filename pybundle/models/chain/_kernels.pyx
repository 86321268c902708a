"""Loops of the chain model over labellings: decoding, planes, loss, score of the truth, label counts."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.stdlib cimport free, malloc

from ...core.exceptions import NumericalError
from ...features.weights import is_narrow

from ...features._compiled_oracle cimport CompiledOracle
from ...features._plane_rows cimport PlaneRows
from ...features._rows cimport BLOCK, Rows, PackedWeights
from ...oracles._chain cimport ChainTables

cdef enum:
    TOKENS = 2048     # tokens whose scores are computed at a time; they fit in the second-level cache
    LINE = 64


cdef class ChainData:
    """Tokens, truth labels and losses of all examples; constant.

    Parameters
    ----------
    tokens : Rows
        All tokens; each has K scores.
    truth : int32 array, shape (n_tokens,)
    offsets : int64 array, shape (n + 1,)
    costs : array, shape (K, K)
    factors : array, shape (n,)
        Factors of the losses.
    start, end, slack : bool
    """

    cdef readonly Rows tokens
    cdef const int32_t[::1] truth
    cdef const int64_t[::1] offsets
    cdef const double[:, ::1] costs
    cdef const double[::1] factors
    cdef readonly bint has_start, has_end, slack
    cdef tuple arguments

    def __init__(self, Rows tokens, truth, offsets, costs, factors, bint start, bint end, bint slack):
        self.arguments = (tokens, truth, offsets, costs, factors, start, end, slack)
        self.tokens, self.truth, self.offsets, self.costs, self.factors = tokens, truth, offsets, costs, factors
        self.has_start, self.has_end, self.slack = start, end, slack

    def __reduce__(self):
        return ChainData, self.arguments

    def solve(self, const Py_ssize_t[::1] rows, PackedWeights packed or None, const double[:, ::1] W,
              ChainTables tables, bint loss):
        """Return best labellings (one after another), their offsets, and values relative to the truth.

        The loss enters with margin rescaling. `packed` may be None for CSR tokens, whose scores are then computed from
        W.
        """
        cdef Py_ssize_t n = rows.shape[0], j
        offsets_array, values_array = np.zeros(n + 1, dtype=np.int64), np.empty(n)
        cdef int64_t[::1] offsets = offsets_array
        cdef double[::1] values = values_array
        for j in range(n):
            offsets[j + 1] = offsets[j] + self.offsets[rows[j] + 1] - self.offsets[rows[j]]
        labels_array = np.empty(offsets[n], dtype=np.int32)
        cdef int32_t[::1] labels = labels_array
        if n:
            with nogil:
                self.decode(n, &rows[0], packed, &W[0, 0], tables, loss, &offsets[0], &labels[0], &values[0])
        return labels_array, offsets_array, values_array

    cdef int decode(self, Py_ssize_t n, const Py_ssize_t* rows, PackedWeights packed, const double* W,
                    ChainTables tables, bint loss, const int64_t* offsets, int32_t* labels,
                    double* values) except -1 nogil:
        """Do the work of `solve`; the labels of example j are labels[offsets[j]:offsets[j + 1]]."""
        cdef Py_ssize_t K = self.costs.shape[0], i, j, t, first = 0, last, longest = 0, count
        for j in range(n):
            longest = max(longest, <Py_ssize_t>(offsets[j + 1] - offsets[j]))
        cdef Py_ssize_t most = min(<Py_ssize_t>offsets[n], max(longest, <Py_ssize_t>TOKENS))
        cdef size_t doubles = most * K + K * BLOCK + longest * tables.ld
        cdef void* memory = malloc(doubles * sizeof(double) + most * sizeof(Py_ssize_t) + LINE)
        if memory == NULL:
            with gil:
                raise MemoryError(f"no room for the scores of {most} tokens")
        cdef double* scratch = <double*>((<uintptr_t>memory + LINE - 1) // LINE * LINE)
        cdef double* S = scratch + longest * tables.ld
        cdef double* unary = S + K * BLOCK
        cdef Py_ssize_t* token = <Py_ssize_t*>(unary + most * K)
        cdef double true_score
        while first < n:
            last = first
            count = 0
            while last < n and (last == first or offsets[last + 1] - offsets[first] <= TOKENS):
                for t in range(self.offsets[rows[last]], self.offsets[rows[last] + 1]):
                    token[count] = t
                    count += 1
                last += 1
            self.tokens.score_all(packed, W, token, count, S, unary)
            for j in range(first, last):
                t = offsets[j] - offsets[first]
                i = rows[j]
                true_score = augment_item(unary + t * K, &self.truth[self.offsets[i]], offsets[j + 1] - offsets[j], K,
                                          &self.costs[0, 0], self.factors[i], tables, loss)
                if not tables.viterbi(offsets[j + 1] - offsets[j], unary + t * K, scratch, labels + offsets[j],
                                      values + j):
                    free(memory)
                    with gil:
                        raise NumericalError(f"example {i} has scores beyond the range of float64; rescale the "
                                             "features")
                values[j] -= true_score
            first = last
        free(memory)
        return 0

    def add(self, const Py_ssize_t[::1] rows, const int32_t[::1] labels, const int64_t[::1] offsets,
            const double[::1] scales, double[::1] slope):
        """Add `sum_j scales[j] psi_j` of the labellings `labels[offsets[j]:offsets[j + 1]]` to the slope.

        Return the sum of their losses, each times its scale.
        """
        cdef Py_ssize_t n = rows.shape[0], K = self.costs.shape[0], j, t, first, length, n_wrong = 0
        cdef Py_ssize_t pairs = self.tokens.n_weights, start = pairs + K * K, end = start + K * self.has_start
        cdef double cost, scale, total = 0.0
        cdef const int32_t* y
        cdef const int32_t* truth
        if n == 0:
            return 0.0
        # row 0 is for the labels of the labellings, row 1 for the true labels of the same tokens
        token_array, label_array, coef_array = (np.empty((2, offsets[n]), dtype) for dtype in
                                                (np.intp, np.int32, np.float64))
        cdef Py_ssize_t[:, ::1] token = token_array
        cdef int32_t[:, ::1] label = label_array
        cdef double[:, ::1] coef = coef_array
        with nogil:
            for j in range(n):
                first, length = self.offsets[rows[j]], offsets[j + 1] - offsets[j]
                truth, y = &self.truth[first], &labels[offsets[j]]
                cost = self.loss(rows[j], y)
                total += scales[j] * cost
                scale = scales[j] * cost if self.slack else scales[j]
                if scale == 0.0:
                    continue
                for t in range(length):
                    if y[t] != truth[t]:
                        token[0, n_wrong] = token[1, n_wrong] = first + t
                        label[0, n_wrong], label[1, n_wrong] = y[t], truth[t]
                        coef[0, n_wrong], coef[1, n_wrong] = scale, -scale
                        n_wrong += 1
                    if t and (y[t] != truth[t] or y[t - 1] != truth[t - 1]):
                        slope[pairs + y[t - 1] * K + y[t]] += scale
                        slope[pairs + truth[t - 1] * K + truth[t]] -= scale
                if self.has_start and y[0] != truth[0]:
                    slope[start + y[0]] += scale
                    slope[start + truth[0]] -= scale
                if self.has_end and y[length - 1] != truth[length - 1]:
                    slope[end + y[length - 1]] += scale
                    slope[end + truth[length - 1]] -= scale
            if n_wrong:
                for j in range(2):
                    self.tokens.add_labelled(n_wrong, &token[j, 0], &label[j, 0], &coef[j, 0], &slope[0])
        return total

    cdef double loss(self, Py_ssize_t i, const int32_t* y) noexcept nogil:
        """Return the loss of a labelling of example i."""
        cdef Py_ssize_t t
        cdef const int32_t* truth = &self.truth[self.offsets[i]]
        cdef double total = 0.0
        for t in range(self.offsets[i + 1] - self.offsets[i]):
            total += self.costs[truth[t], y[t]]
        return self.factors[i] * total

    def losses(self, const Py_ssize_t[::1] rows, const int32_t[::1] labels, const int64_t[::1] offsets):
        """Return the losses of the labellings `labels[offsets[j]:offsets[j + 1]]`."""
        out = np.empty(rows.shape[0])
        cdef double[::1] losses = out
        cdef Py_ssize_t j
        with nogil:
            for j in range(rows.shape[0]):
                losses[j] = self.loss(rows[j], &labels[offsets[j]])
        return out

    def planes(self, const Py_ssize_t[::1] rows, const int32_t[::1] labels, const int64_t[::1] offsets,
               Py_ssize_t dim):
        """Return losses and slopes of the labellings `labels[offsets[j]:offsets[j + 1]]`, labels 0..K-1."""
        cdef Py_ssize_t n = rows.shape[0]
        losses_array = np.empty(n)
        cdef double[::1] losses = losses_array
        cdef PlaneRows out = PlaneRows(dim, n, self.tokens.width)
        if n:
            with nogil:
                self.write(n, &rows[0], &labels[0], &offsets[0], out, &losses[0])
        return losses_array, out.matrix()

    cdef int write(self, Py_ssize_t n, const Py_ssize_t* rows, const int32_t* labels, const int64_t* offsets,
                   PlaneRows out, double* losses) except -1 nogil:
        """Write the losses of labellings, and append their slopes as rows to `out`."""
        cdef Py_ssize_t K = self.costs.shape[0], j, t, count, length, longest = 0, first, wrong
        cdef Py_ssize_t pairs = self.tokens.n_weights, start = pairs + K * K, end = start + K * self.has_start
        cdef const int32_t* y
        cdef const int32_t* truth
        cdef double scale
        for j in range(n):
            longest = max(longest, <Py_ssize_t>(offsets[j + 1] - offsets[j]))
        cdef void* memory = malloc((2 * longest + 1) * (sizeof(Py_ssize_t) + sizeof(double) + sizeof(int32_t)))
        if memory == NULL:
            with gil:
                raise MemoryError(f"no room for {longest} tokens")
        cdef Py_ssize_t* token = <Py_ssize_t*>memory
        cdef double* coef = <double*>(token + 2 * longest + 1)
        cdef int32_t* label = <int32_t*>(coef + 2 * longest + 1)
        try:
            for j in range(n):
                first, length = self.offsets[rows[j]], offsets[j + 1] - offsets[j]
                truth = &self.truth[first]
                y = labels + offsets[j]
                losses[j] = self.loss(rows[j], y)
                scale = losses[j] if self.slack else 1.0
                count = 0
                for t in range(length):
                    wrong = y[t] != truth[t]
                    token[count] = token[count + 1] = first + t
                    label[count], label[count + 1] = y[t], truth[t]
                    coef[count], coef[count + 1] = scale, -scale
                    count += 2 * wrong
                if count and scale != 0.0:
                    self.tokens.put(out, 0, count, token, label, coef)
                    out.reserve(2 * length + 2)
                    for t in range(1, length):
                        if y[t] != truth[t] or y[t - 1] != truth[t - 1]:
                            out.put(pairs + y[t - 1] * K + y[t], scale)
                            out.put(pairs + truth[t - 1] * K + truth[t], -scale)
                    if self.has_start and y[0] != truth[0]:
                        out.put(start + y[0], scale)
                        out.put(start + truth[0], -scale)
                    if self.has_end and y[length - 1] != truth[length - 1]:
                        out.put(end + y[length - 1], scale)
                        out.put(end + truth[length - 1], -scale)
                out.close()
        finally:
            free(memory)
        return 0


cdef class CompiledChain(CompiledOracle):
    """Find most violated planes of the chains of `data`, for margin rescaling.

    Parameters
    ----------
    data : ChainData
    dim : int
    sizes : array, shape (n,)
        Lengths of the chains.
    batch : int
        Largest number of examples in one call.
    masks : tuple of arrays
        Scores 0 or -inf of pairs, first and last labels, see `Allowed`.
    """

    cdef ChainData data
    cdef ChainTables tables
    cdef PackedWeights packed         # None if W is read without packing
    cdef const double[::1] nothing

    def __init__(self, ChainData data, Py_ssize_t dim, sizes, Py_ssize_t batch, masks):
        K, tokens = data.costs.shape[0], data.tokens
        CompiledOracle.__init__(self, dim, batch, tokens.width)
        self.data, self.nothing = data, np.zeros(K)
        self.tables = ChainTables(*masks)
        self.packed = None if is_narrow(tokens, batch * sizes.mean()) else tokens.pack(np.zeros((K, tokens.width)))

    def working_bytes(self):
        return CompiledOracle.working_bytes(self) + (0 if self.packed is None else self.packed.nbytes)

    cdef int place(self, const double* w) except -1 nogil:
        cdef Py_ssize_t K = self.nothing.shape[0]
        cdef const double* transition = w + self.data.tokens.n_weights
        cdef const double* ends = transition + K * K
        self.w = w
        self.tables.place(transition, ends if self.data.has_start else &self.nothing[0],
                          ends + K * self.data.has_start if self.data.has_end else &self.nothing[0])
        if self.packed is not None:
            self.data.tokens.refresh(self.packed, w)
        return 0

    cdef int fill(self, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil:
        cdef int32_t* labels = self.room_for_labels(&self.data.offsets[0], rows, n)
        self.data.decode(n, rows, self.packed, self.w, self.tables, True, &self.offsets[0], labels, &self.losses[0])
        return self.data.write(n, rows, labels, &self.offsets[0], self.planes, &self.losses[0])


cdef double augment_item(double* unary, const int32_t* truth, Py_ssize_t length, Py_ssize_t K, const double* costs,
                         double factor, ChainTables tables, bint loss) noexcept nogil:
    """Return the score of the truth; with `loss`, add `factor costs[truth]` to the scores (length, K)."""
    cdef Py_ssize_t t, k
    cdef double total = tables.start[truth[0]] + tables.end[truth[length - 1]]
    cdef const double* cost
    for t in range(length):
        total += unary[truth[t]]
        if t > 0:
            total += tables.rows[truth[t - 1], truth[t]]
        if loss:
            cost = costs + truth[t] * K
            for k in range(K):
                unary[k] += factor * cost[k]
        unary += K
    return total


def augment(double[:, ::1] unary, const int32_t[::1] truth, const int64_t[::1] offsets, const double[:, ::1] costs,
            const double[::1] factors, ChainTables tables, bint loss, double[::1] truths):
    """Write the scores of the true labellings; with `loss`, add `factors[i] costs[truth]` to the rows of item i.

    unary (N, K) and truth (N,) hold one item after another, with offsets (n + 1,). The other shapes are costs (K, K),
    factors (n,) and truths (n,).
    """
    cdef Py_ssize_t i
    with nogil:
        for i in range(offsets.shape[0] - 1):
            truths[i] = augment_item(&unary[offsets[i], 0], &truth[offsets[i]], offsets[i + 1] - offsets[i],
                                     unary.shape[1], &costs[0, 0], factors[i], tables, loss)
