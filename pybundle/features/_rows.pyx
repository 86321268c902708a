"""Products with rows of features: scores `W x_i` of blocks of rows, and sums of rows that are added to slopes.

Dense rows of float32, float64 or uint8 and CSR rows of float32 or float64 are read as they are. A score kernel is
register-tiled (`_kernels_dense.h`); scores come in float32 or float64, sums of rows always in float64.
"""

import os

from math import prod

import numpy as np

from ..core.exceptions import ParameterError

from libc.math cimport sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from ..core._indices cimport check_indices


cdef extern from "_kernels.h" nogil:
    const pb_kernels* pb_kernels_at(int level)
    int pb_level


cdef const pb_kernels* _chosen = pb_kernels_at(pb_level)
if _chosen == NULL:
    _chosen = pb_kernels_at(0)      # the build was made without vector extensions


def kernel_name():
    """Instruction set of the kernels in use: "avx512", "avx2" or "baseline"."""
    return _chosen.name.decode()


_wanted = os.environ.get("PYBUNDLE_KERNELS", "")
if _wanted not in ("", kernel_name()):
    raise ParameterError(f"PYBUNDLE_KERNELS must be baseline, avx2 or avx512, and this processor must have it, got "
                         f"{_wanted!r}; the best that it has is {kernel_name()!r}")


def aligned(shape, dtype):
    """Return zeros that start on a cache line, so that no vector load straddles two lines."""
    size = prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + size].view(dtype).reshape(shape)


def transpose(const double[:, ::1] W, double scale, Py_ssize_t n, real[:, ::1] out):
    """Set out[j, k] = scale * W[k, j] for the first n columns of W; blocks of columns keep both arrays in the cache."""
    cdef Py_ssize_t K = W.shape[0]
    if W.shape[1] < n or out.shape[0] < n or out.shape[1] < K:
        raise ValueError(f"W must have {n} columns and out must have shape ({n}, {K}) or more")
    if n and K:
        with nogil:
            put_transpose(K, n, scale, &W[0, 0], W.shape[1], &out[0, 0], out.shape[1])


cdef void put_transpose(Py_ssize_t K, Py_ssize_t n, double scale, const double* W, Py_ssize_t ldw, real* out,
                        Py_ssize_t ldo) noexcept nogil:
    cdef Py_ssize_t first, last, j, k
    for first in range(0, n, 32):
        last = min(first + 32, n)
        for k in range(K):
            for j in range(first, last):
                out[j * ldo + k] = <real>(scale * W[k * ldw + j])


cdef inline double product(const real* x, const int32_t* index, int64_t nnz, const double* w) noexcept nogil:
    # Returns the scalar product of a sparse vector and w, in two partial sums.
    cdef int64_t q = 0
    cdef double a = 0.0, b = 0.0
    while q + 1 < nnz:
        a += x[q] * w[index[q]]
        b += x[q + 1] * w[index[q + 1]]
        q += 2
    if q < nnz:
        a += x[q] * w[index[q]]
    return a + b


cdef class PackedWeights:
    """Weights of one pass in the layout of the kernels; `Rows.pack` fills them."""

    def __cinit__(self):
        self.W32, self.W64, self.base = np.empty((0, 0), np.float32), np.empty((0, 0)), np.empty(0)

    @property
    def nbytes(self):
        """Bytes of the weights in float64."""
        return np.asarray(self.W64).nbytes


cdef class Rows:
    """Rows x_i = scale * X_i with a constant last feature if `bias` is given, for products with K linear scores.

    Rows are immutable; the methods may run in several threads at once.

    Parameters
    ----------
    storage : (X,) or (data, indices int32, indptr int64)
        C-contiguous rows of float32, float64 or uint8, or CSR of float32 or float64; never copied.
    norms : float64 array, shape (n,)
        |x_i|, scale and bias included; used for rounding bounds only.
    """

    def __init__(self, storage, norms, Py_ssize_t n_features, int n_scores, double scale=1.0, bias=None):
        cdef const unsigned char[::1] raw
        cdef const int32_t[::1] indices
        cdef const int64_t[::1] indptr
        self._args = (storage, norms, n_features, n_scores, scale, bias)
        self.storage = storage
        self.norms = norms
        self.largest_norm = norms.max(initial=0.0)
        self.n_rows = norms.shape[0]
        self.n_features = n_features
        self.has_bias = bias is not None
        self.bias = bias if self.has_bias else 0.0
        self.width = n_features + self.has_bias
        self.n_scores = self.n_blocks = n_scores
        self.n_weights = self.n_blocks * self.width
        self.scale = scale
        self.kernels = _chosen
        self.X.d = n_features
        data = storage[0]
        if len(storage) == 1:
            self.kind = {"f4": PB_FLOAT32, "f8": PB_FLOAT64, "u1": PB_UINT8}[data.dtype.str[1:]]
            fits = data.shape == (self.n_rows, n_features) and data.flags.c_contiguous
        else:
            self.kind = {"f4": PB_CSR32, "f8": PB_CSR64}[data.dtype.str[1:]]
            indices, indptr = storage[1], storage[2]
            self.X.indices = &indices[0] if indices.shape[0] else NULL
            self.X.indptr = &indptr[0]
            fits = indptr.shape[0] == self.n_rows + 1 and indptr[self.n_rows] <= min(data.size, indices.shape[0])
        if not fits:
            raise ValueError(f"storage must hold {self.n_rows} contiguous rows of {n_features} features")
        if data.size:
            raw = data.reshape(-1).view(np.uint8)
            self.X.data = &raw[0]

    def at_level(self, int level):
        """Return the same rows on kernels of level 0 (baseline), 1 (AVX2), 2 (AVX-512), or None: for tests."""
        cdef Rows other
        if pb_kernels_at(level) == NULL:
            return None
        other = type(self)(*self._args)
        other.kernels = pb_kernels_at(level)
        return other

    def __reduce__(self):
        return type(self), self._args

    @property
    def score_terms(self):
        """Number of roundings in a float64 score: `|error| <= terms 2^-53 |x_i| |w_k|`.

        It counts sums within and across lanes, product, scale and bias, a shift of the column, and two roundings in the
        loss.
        """
        cdef Py_ssize_t lanes = max(1, self.kernels.lanes32 // 2)
        return self.n_features // lanes + lanes + 9

    def pack(self, w, precision="float64"):
        """Pack W (K, width) for the kernels; in float64 if float32 is not available or would overflow."""
        cdef PackedWeights packed = PackedWeights.__new__(PackedWeights)
        cdef Py_ssize_t d = self.n_features
        cdef double u = 2.0 ** -24, lanes = self.kernels.lanes32, terms, largest = 0.0
        W = np.asarray(w, dtype=np.float64).reshape(self.n_scores, self.width)
        packed.base = self.bias * W[:, d] if self.has_bias else np.zeros(self.n_scores)
        if precision == "float32":
            largest = sqrt(np.einsum("kj,kj->k", W, W).max(initial=0.0))
        if self.kernels.score32[self.kind] == NULL or largest * self.largest_norm > 1e30:
            precision = "float64"
        packed.precision = precision
        if self.kind >= PB_CSR32:
            columns = 1 if self.n_scores == 1 else (self.n_scores + 15) // 16 * 16
            W64 = aligned((d, columns), np.float64)
            transpose(W, self.scale, d, W64)
        else:
            W64 = aligned((self.n_scores, (d + 15) // 16 * 16), np.float64)
            np.multiply(W[:, :d], self.scale, out=W64[:, :d])
        packed.W64 = W64
        packed.is_single = precision == "float32"
        if packed.is_single:
            W32 = aligned(W64.shape, np.float32)
            W32[:] = W64
            packed.W32 = W32
            # roundings of w, of the product, of sums within and across lanes, and of the bias; the factor 2 is for a
            # difference of two scores
            terms = d / lanes + lanes + 6
            packed.tau_row = 2.0 * 1.01 * terms * u * largest
        return packed

    cdef void refresh(self, PackedWeights packed, const double* w) noexcept nogil:
        cdef Py_ssize_t j, d = self.n_features
        cdef int k
        if self.kind >= PB_CSR32:
            put_transpose(self.n_scores, d, self.scale, w, self.width, &packed.W64[0, 0], packed.W64.shape[1])
        for k in range(self.n_scores):
            if self.has_bias:
                packed.base[k] = self.bias * w[k * self.width + d]
            if self.kind < PB_CSR32:
                for j in range(d):
                    packed.W64[k, j] = self.scale * w[k * self.width + j]

    cdef void score(self, PackedWeights w, const Py_ssize_t* rows, int n, int ahead, void* S) noexcept nogil:
        cdef int k, r
        cdef float* S32 = <float*>S
        cdef double* S64 = <double*>S
        if w.is_single:
            self.kernels.score32[self.kind](&self.X, rows, n, ahead, &w.W32[0, 0], w.W32.shape[1],
                                            self.n_scores, S32)
        else:
            self.kernels.score64[self.kind](&self.X, rows, n, ahead, &w.W64[0, 0], w.W64.shape[1],
                                            self.n_scores, S64)
        if self.has_bias:
            for k in range(self.n_scores):
                for r in range(n):
                    if w.is_single:
                        S32[k * BLOCK + r] += <float>w.base[k]
                    else:
                        S64[k * BLOCK + r] += w.base[k]

    cdef void score_all(self, PackedWeights packed, const double* W, const Py_ssize_t* rows, Py_ssize_t n, double* S,
                        double* out) noexcept nogil:
        cdef Py_ssize_t i = 0, r, k, K = self.n_scores, count
        if packed is None:
            self.score_unpacked(W, rows, n, out)
            return
        while i < n:
            count = min(<Py_ssize_t>BLOCK, n - i)
            self.score(packed, rows + i, <int>count, <int>min(<Py_ssize_t>BLOCK, n - i - count), S)
            for r in range(count):
                for k in range(K):
                    out[(i + r) * K + k] = S[k * BLOCK + r]
            i += count

    cdef void score_unpacked(self, const double* W, const Py_ssize_t* rows, Py_ssize_t n, double* out) noexcept nogil:
        # label by label, because a row of W stays in the second-level cache, but the columns of W for all labels would
        # not
        cdef Py_ssize_t r
        cdef int k
        cdef int64_t q, nnz
        cdef double total
        for k in range(self.n_scores):
            for r in range(n):
                q = self.X.indptr[rows[r]]
                nnz = self.X.indptr[rows[r] + 1] - q
                if self.kind == PB_CSR32:
                    total = product(<const float*>self.X.data + q, self.X.indices + q, nnz, W)
                else:
                    total = product(<const double*>self.X.data + q, self.X.indices + q, nnz, W)
                out[r * self.n_scores + k] = self.scale * total
                if self.has_bias:
                    out[r * self.n_scores + k] += self.bias * W[self.n_features]
            W += self.width

    cdef void score_step(self, const Py_ssize_t* rows, Py_ssize_t n, const double* W, Py_ssize_t ldw, double* S,
                         double* out) noexcept nogil:
        cdef Py_ssize_t i = 0, r, k, K = self.n_scores, count
        while i < n:
            count = min(<Py_ssize_t>STEP, n - i)
            self.kernels.step64[self.kind](&self.X, rows + i, <int>count, <int>min(<Py_ssize_t>2, n - i - count), W,
                                           ldw, <int>K, S)
            for r in range(count):
                for k in range(K):
                    out[(i + r) * K + k] = S[k * BLOCK + r]
            i += count

    cdef void update_step(self, const Py_ssize_t* rows, Py_ssize_t n, const double* coef, int ldc, double* W,
                          Py_ssize_t ldw) noexcept nogil:
        self.kernels.update64[self.kind](&self.X, rows, <int>n, coef, ldc, self.n_scores, W, ldw)

    cdef Py_ssize_t entries_of(self, int32_t column, Py_ssize_t ldw, Py_ssize_t* first) noexcept nogil:
        first[0] = column * ldw
        return self.n_scores

    cdef void accumulate(self, const Py_ssize_t* rows, const double* coef, int n, double* slope) noexcept nogil:
        cdef double total = 0.0
        cdef int e
        self.kernels.accumulate[self.kind](&self.X, rows, coef, n, slope)
        if self.has_bias:
            for e in range(n):
                total += coef[e]
            slope[self.n_features] += self.bias * total

    cdef int check_weights(self, PackedWeights w) except -1:
        cdef Py_ssize_t rows = self.n_scores, columns = self.n_features
        if self.kind >= PB_CSR32:
            rows, columns = columns, rows
        if w.W64.shape[0] != rows or w.W64.shape[1] < columns or w.base.shape[0] != self.n_scores:
            raise ValueError(f"w must be packed for {self.n_scores} scores of {self.n_features} features; use `pack` "
                             "of these rows")
        return 0

    def scores(self, PackedWeights w, const Py_ssize_t[::1] rows, real[:, ::1] out):
        """Write the scores of the given rows into out (len(rows), K), which has the packed precision."""
        cdef Py_ssize_t i = 0, r, n = rows.shape[0]
        cdef int count, k, K = self.n_scores
        cdef real[::1] S = np.empty(K * BLOCK, np.float32 if real is float else np.float64)
        if out.shape[0] != n or out.shape[1] != K or w.is_single != (sizeof(real) == 4):
            raise ValueError(f"out must have shape ({n}, {K}) and dtype {w.precision}")
        self.check_weights(w)
        check_indices("rows", rows, self.n_rows)
        if n == 0:
            return
        with nogil:
            while i < n:
                count = <int>min(<Py_ssize_t>BLOCK, n - i)
                self.score(w, &rows[i], count, <int>min(<Py_ssize_t>BLOCK, n - i - count), &S[0])
                for r in range(count):
                    for k in range(K):
                        out[i + r, k] = S[k * BLOCK + r]
                i += count

    def scores_unpacked(self, const double[:, ::1] W, const Py_ssize_t[::1] rows, double[:, ::1] out):
        """Compute `scores` of CSR rows from W (K, width) without packing, which would cost more for small batches."""
        if self.kind < PB_CSR32 or W.shape[0] != self.n_blocks or W.shape[1] != self.width \
                or out.shape[0] != rows.shape[0] or out.shape[1] != self.n_scores:
            raise ValueError(f"W must have shape ({self.n_blocks}, {self.width}), out ({rows.shape[0]}, "
                             f"{self.n_scores}), and rows must be sparse")
        check_indices("rows", rows, self.n_rows)
        if rows.shape[0]:
            with nogil:
                self.score_unpacked(&W[0, 0], &rows[0], rows.shape[0], &out[0, 0])

    def add(self, const Py_ssize_t[::1] rows, labels, const double[::1] coefs, double[::1] slope):
        """Add sum_e coefs[e] x_rows[e], without scale, to slope (n_weights,) in the weights of labels[e].

        Entries of coefficient 0 cost nothing; within a label they are added in the order given.
        """
        check_indices("labels", np.ascontiguousarray(labels, dtype=np.intp), self.n_scores)
        cdef const int32_t[::1] label = np.ascontiguousarray(labels, dtype=np.int32)
        cdef Py_ssize_t n = rows.shape[0]
        if slope.shape[0] != self.n_weights:
            raise ValueError(f"slope must have {self.n_weights} entries")
        if label.shape[0] != n or coefs.shape[0] != n:
            raise ValueError(f"labels and coefs must have {n} entries like rows")
        check_indices("rows", rows, self.n_rows)
        if n:
            with nogil:
                self.add_labelled(n, &rows[0], &label[0], &coefs[0], &slope[0])

    cdef int add_labelled(self, Py_ssize_t n, const Py_ssize_t* rows, const int32_t* labels, const double* coefs,
                          double* slope) except -1 nogil:
        cdef Py_ssize_t e, k, first, last, kept, K = self.n_scores
        cdef void* memory = malloc((K + 1 + n) * sizeof(Py_ssize_t) + n * sizeof(double))
        if memory == NULL:
            raise MemoryError(f"no room for the order of {n} rows")
        # start[k]: first the number of rows of label k, then where these rows begin in `row`, at last where they end
        cdef Py_ssize_t* start = <Py_ssize_t*>memory
        cdef Py_ssize_t* row = start + K + 1
        cdef double* coef = <double*>(row + n)
        memset(start, 0, (K + 1) * sizeof(Py_ssize_t))
        for e in range(n):
            if coefs[e] != 0.0:
                if not 0 <= labels[e] < K:
                    free(memory)
                    raise ValueError(f"labels must lie in 0..{K - 1}")
                start[labels[e]] += 1
        kept = 0
        for k in range(K + 1):
            e, start[k] = start[k], kept
            kept += e
        for e in range(n):
            if coefs[e] != 0.0:
                k = start[labels[e]]
                row[k], coef[k] = rows[e], coefs[e]
                start[labels[e]] += 1
        first = 0
        for k in range(K):
            while first < start[k]:
                last = min(start[k], first + BLOCK)
                self.accumulate(row + first, coef + first, <int>(last - first), slope + k * self.width)
                first = last
        free(memory)
        return 0

    cdef int put(self, PlaneRows out, Py_ssize_t first, Py_ssize_t n, const Py_ssize_t* rows, const int32_t* labels,
                 const double* coefs) except -1 nogil:
        cdef Py_ssize_t[BLOCK] row
        cdef double[BLOCK] coef
        cdef Py_ssize_t e, g = 0, last = out.arrange(n, labels, coefs), label, start
        cdef int count
        cdef double total
        while g < last:
            label = out.order[g] >> 32
            start = first + label * self.width
            total = 0.0
            while g < last and <Py_ssize_t>(out.order[g] >> 32) == label:
                count = 0
                while count < BLOCK and g < last and <Py_ssize_t>(out.order[g] >> 32) == label:
                    e = out.order[g] & 0xFFFFFFFFu
                    row[count] = rows[e]
                    coef[count] = coefs[e] * self.scale
                    total += coefs[e]
                    count += 1
                    g += 1
                if self.kind < PB_CSR32:
                    self.kernels.accumulate[self.kind](&self.X, row, coef, count, out.block)
                else:
                    self._put_sparse(out, start, row, coef, count)
            if self.kind < PB_CSR32:
                if self.has_bias:
                    out.block[self.n_features] = self.bias * total
                out.flush_block(start, self.width)
            else:
                if self.has_bias:
                    out.reserve(1)
                    out.put(start + self.n_features, self.bias * total)
                out.flush()
        return 0

    cdef int _put_sparse(self, PlaneRows out, Py_ssize_t start, const Py_ssize_t* rows, const double* coefs,
                         int n) except -1 nogil:
        """Add the entries of sum_e coefs[e] X_rows[e] to the waiting entries, in the block that begins at `start`."""
        cdef const float* x32 = <const float*>self.X.data
        cdef const double* x64 = <const double*>self.X.data
        cdef int64_t q
        cdef int e
        for e in range(n):
            out.reserve(self.X.indptr[rows[e] + 1] - self.X.indptr[rows[e]])
            for q in range(self.X.indptr[rows[e]], self.X.indptr[rows[e] + 1]):
                out.put(start + self.X.indices[q], coefs[e] * (x32[q] if self.kind == PB_CSR32 else x64[q]))
        return 0


cdef class RowSums:
    """Sums of rows for planes: plane j adds coefs[e] x_rows[e] to block labels[e], starts[j] <= e < starts[j + 1].

    Parameters
    ----------
    features : Rows
    rows, labels, coefs : intp, int32 and float64 arrays, shape (n,)
    starts : int64 array, shape (n_planes + 1,)
    first : int
        Entry of a plane at which block 0 begins.
    """

    def __init__(self, Rows features, rows, labels, coefs, starts, Py_ssize_t first=0):
        cdef Py_ssize_t e
        self.features, self.rows, self.first = features, rows, first
        self.labels, self.coefs, self.starts = labels, coefs, starts
        self.n_planes, self.end = len(starts) - 1, first + features.n_weights
        if first < 0 or self.n_planes < 0 or starts[0] != 0 or (np.diff(starts) < 0).any():
            raise ValueError("starts must begin with 0 and not fall, and first must not be negative")
        if not len(rows) == len(labels) == len(coefs) == self.starts[self.n_planes]:
            raise ValueError(f"rows, labels and coefs must have {self.starts[self.n_planes]} entries")
        for e in range(self.rows.shape[0]):
            if not (0 <= self.rows[e] < features.n_rows and 0 <= self.labels[e] < features.n_scores):
                raise ValueError(f"rows and labels must lie in 0..{features.n_rows - 1} and 0..{features.n_scores - 1}")

    cdef int put(self, PlaneRows out, Py_ssize_t j) except -1 nogil:
        cdef Py_ssize_t e = self.starts[j]
        if e == self.starts[j + 1]:
            return 0
        return self.features.put(out, self.first, self.starts[j + 1] - e, &self.rows[e], &self.labels[e],
                                 &self.coefs[e])


def sum_rows(Py_ssize_t dim, RowSums head, RowSums tail=None):
    """Return a csr_array (n_planes, dim) of the sums of `head` and `tail`, which have separate columns."""
    cdef Py_ssize_t j, width = head.features.width
    cdef bint has_tail = tail is not None
    if has_tail:
        width = max(width, tail.features.width)
    if has_tail and (tail.n_planes != head.n_planes or tail.first < head.end) or (tail or head).end > dim:
        raise ValueError(f"tail must have {head.n_planes} planes and lie in {head.end}..{dim}")
    cdef PlaneRows out = PlaneRows(dim, head.n_planes, width)
    with nogil:
        for j in range(head.n_planes):
            head.put(out, j)
            if has_tail:
                tail.put(out, j)
            out.close()
    return out.matrix()
