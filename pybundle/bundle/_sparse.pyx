"""Sparse storage of planes: slopes are rows of a CSR structure that grows.

Every stored entry takes 12 bytes. Dropped rows leave gaps in memory. When gaps take more than half of the memory in
use, the rows are moved together.
"""

import numpy as np
from scipy.sparse import csr_array, issparse

cdef enum:
    LANES = 8   # new planes whose products are computed together in one sweep over the stored rows


cdef class SparsePlanes:
    """Slopes `a_j` as sparse rows; the methods are those of `DensePlanes`.

    Memory layout: row j occupies `start[j] .. start[j] + length[j]` of `indices` (int32) and `data` (float64).
    """

    cdef readonly Py_ssize_t dim
    cdef Py_ssize_t count
    cdef Py_ssize_t used        # end of the last row in indices and data
    cdef object _start, _length, _indices, _data

    is_sparse = True

    def __init__(self, Py_ssize_t dim, Py_ssize_t capacity=32):
        self.dim = dim
        self.count = 0
        self.used = 0
        self._start = np.zeros(capacity, dtype=np.intp)
        self._length = np.zeros(capacity, dtype=np.intp)
        self._indices = np.empty(1024, dtype=np.int32)
        self._data = np.empty(1024)

    def __len__(self):
        return self.count

    @property
    def nbytes(self):
        """Bytes of the entries in use."""
        return 12 * int(self._length[:self.count].sum()) + 16 * self.count

    def append(self, slopes):
        """Add the rows of `slopes` (k, dim), dense or sparse."""
        rows = csr_array(slopes) if not issparse(slopes) else slopes.tocsr()
        if not rows.has_canonical_format:      # `inner` needs at most one entry for each index
            rows = rows.copy()
            rows.sum_duplicates()
        if rows.shape[1] != self.dim or rows.nnz and not 0 <= rows.indices.min() <= rows.indices.max() < self.dim:
            raise ValueError(f"slopes must be rows of {self.dim} columns, with indices 0..{self.dim - 1}")
        cdef Py_ssize_t need = self.count + rows.shape[0], end = self.used + rows.nnz
        if need > self._start.shape[0]:
            self._start = np.resize(self._start, max(need, 2 * self._start.shape[0]))
            self._length = np.resize(self._length, self._start.shape[0])
        if end > self._data.shape[0]:
            size = max(end, self._data.shape[0] * 3 // 2)
            indices, data = np.empty(size, dtype=np.int32), np.empty(size)
            indices[:self.used], data[:self.used] = self._indices[:self.used], self._data[:self.used]
            self._indices, self._data = indices, data
        self._start[self.count:need] = self.used + rows.indptr[:rows.shape[0]]
        self._length[self.count:need] = np.diff(rows.indptr)
        self._indices[self.used:end] = rows.indices
        self._data[self.used:end] = rows.data
        self.count, self.used = need, end

    def inner(self, Py_ssize_t first):
        """Return `A[first:] @ A.T`, shape (len - first, len); LANES new rows at a time are expanded to dense ones."""
        cdef Py_ssize_t n_new = self.count - first, block = 0, lane, lanes, j, e
        out = np.zeros((n_new, self.count))
        cdef double[:, ::1] C = out
        cdef double[:, ::1] scatter = np.zeros((self.dim, LANES)) if n_new else np.zeros((1, LANES))
        cdef Py_ssize_t[::1] start = self._start, length = self._length
        cdef int[::1] indices = self._indices
        cdef double[::1] data = self._data
        cdef double sums[LANES]
        cdef double value
        with nogil:
            while block < n_new:
                lanes = min(<Py_ssize_t>LANES, n_new - block)
                for lane in range(lanes):
                    j = first + block + lane
                    for e in range(start[j], start[j] + length[j]):
                        scatter[indices[e], lane] = data[e]
                for j in range(self.count):
                    for lane in range(LANES):
                        sums[lane] = 0.0
                    for e in range(start[j], start[j] + length[j]):
                        value = data[e]
                        for lane in range(LANES):
                            sums[lane] += value * scatter[indices[e], lane]
                    for lane in range(lanes):
                        C[block + lane, j] = sums[lane]
                for lane in range(lanes):
                    j = first + block + lane
                    for e in range(start[j], start[j] + length[j]):
                        scatter[indices[e], lane] = 0.0
                block += LANES
        return out

    def combine(self, const double[::1] weights):
        """Return `A.T @ weights`, shape (dim,); rows of weight 0 are not read."""
        out = np.zeros(self.dim)
        cdef double[::1] phi = out
        cdef Py_ssize_t[::1] start = self._start, length = self._length
        cdef int[::1] indices = self._indices
        cdef double[::1] data = self._data
        cdef Py_ssize_t j, e
        with nogil:
            for j in range(self.count):
                if weights[j] != 0.0:
                    for e in range(start[j], start[j] + length[j]):
                        phi[indices[e]] += weights[j] * data[e]
        return out

    def dot(self, const double[::1] w, Py_ssize_t first=0):
        """Return `A[first:] @ w`, shape (len - first,)."""
        out = np.zeros(self.count - first)
        cdef double[::1] y = out
        cdef Py_ssize_t[::1] start = self._start, length = self._length
        cdef int[::1] indices = self._indices
        cdef double[::1] data = self._data
        cdef Py_ssize_t j, e
        cdef double total
        with nogil:
            for j in range(first, self.count):
                total = 0.0
                for e in range(start[j], start[j] + length[j]):
                    total += data[e] * w[indices[e]]
                y[j - first] = total
        return out

    def keep(self, order):
        """Keep only the rows `order`; row `order[k]` becomes row k."""
        self._start[:len(order)] = self._start[order]
        self._length[:len(order)] = self._length[order]
        self.count = len(order)
        if 2 * self._length[:self.count].sum() < self.used:
            self._move_down()

    def equal(self, Py_ssize_t i, Py_ssize_t j):
        """Return whether the rows i and j contain the same numbers."""
        a = slice(self._start[i], self._start[i] + self._length[i])
        b = slice(self._start[j], self._start[j] + self._length[j])
        return bool(np.array_equal(self._indices[a], self._indices[b]) and np.array_equal(self._data[a], self._data[b]))

    def _move_down(self):
        """Move the rows together in place, so that no gaps are left; their order in memory stays."""
        used = 0
        for j in np.argsort(self._start[:self.count]):
            old, length = self._start[j], self._length[j]
            self._indices[used:used + length] = self._indices[old:old + length]
            self._data[used:used + length] = self._data[old:old + length]
            self._start[j] = used
            used += length
        self.used = used

    def arrays(self):
        """Return the slopes as named arrays, to be saved: copies, with the rows in order and without gaps."""
        lengths = self._length[:self.count]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(self._start[:self.count] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return {"slopes_data": self._data[entries], "slopes_indices": self._indices[entries], "slopes_indptr": indptr}

    def restore(self, arrays):
        """Add the slopes that the method `arrays` returned to an empty storage; ValueError if they do not fit."""
        parts = arrays["slopes_data"], arrays["slopes_indices"], arrays["slopes_indptr"]
        rows = csr_array(parts, shape=(len(parts[2]) - 1, self.dim))
        rows.check_format(full_check=True)     # the kernels do not check indices
        if rows.dtype != np.float64:
            raise ValueError("slopes must be float64")
        self.append(rows)
