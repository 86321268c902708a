"""Scores of templates over maps of codes: sums of values from tables, with one table for each cell of a window.

    score_j(p) = sum over cells c of landmark j of  W[c, code(p + offset_c)]

The table of a cell (2 kB for 256 codes) stays in the first-level cache while it serves every position of the search box
in a few images; all tables together may exceed the second-level cache. Four cells are added at a time, so that each sum
is read and written once for four cells.
"""

from libc.stdint cimport int64_t

from ..core._indices cimport check_indices
from ._plane_rows cimport PlaneRows

cdef enum:
    IMAGES = 16     # images that are scored with one table before the next table


cdef class CodeTemplates:
    """Templates bound to the maps of n images. Immutable; the methods may run in several threads at once.

    Parameters
    ----------
    codes : uint8 array, shape (n, S, H, W)
        Maps with their margin.
    starts : int64 array, shape (L + 1,)
        The cells of landmark j are starts[j]..starts[j + 1] - 1.
    cells : int64 array, shape (n_cells,)
        Index of the code that a cell sees from position (0, 0), counted from the first code of an image.
    boxes : int32 array, shape (L, 4)
        Search boxes x_0, y_0, width, height.
    n_codes : int
        Number of codes; the caller has checked that all codes are smaller.
    """

    cdef const unsigned char[:, :, :, ::1] codes
    cdef const int64_t[::1] starts
    cdef const int64_t[::1] cells
    cdef const int[:, ::1] boxes
    cdef readonly Py_ssize_t n_codes, total
    cdef Py_ssize_t pitch
    cdef tuple arguments

    def __init__(self, codes, starts, cells, boxes, Py_ssize_t n_codes):
        self.arguments = (codes, starts, cells, boxes, n_codes)
        self.codes, self.starts, self.cells, self.boxes, self.n_codes = codes, starts, cells, boxes, n_codes
        self.pitch = codes.shape[3]
        self.total = (boxes[:, 2].astype(int) * boxes[:, 3]).sum()

    def __reduce__(self):
        return type(self), self.arguments

    def maps(self, const Py_ssize_t[::1] rows, const double[::1] weights, double[:, ::1] out):
        """Set out (len(rows), total) to the scores of every position of every box, box after box, row-major."""
        cdef Py_ssize_t i, n = rows.shape[0]
        if weights.shape[0] != self.cells.shape[0] * self.n_codes or out.shape[0] != n or out.shape[1] != self.total:
            raise ValueError(f"weights must have {self.cells.shape[0] * self.n_codes} entries and out the shape "
                             f"({n}, {self.total})")
        check_indices("rows", rows, self.codes.shape[0])
        with nogil:
            for i in range((n + IMAGES - 1) // IMAGES):
                self._score(&rows[i * IMAGES], min(n - i * IMAGES, <Py_ssize_t>IMAGES), &weights[0],
                            &out[i * IMAGES, 0])

    cdef void _score(self, const Py_ssize_t* rows, Py_ssize_t n, const double* W, double* out) noexcept nogil:
        cdef Py_ssize_t i, j, c, last, x, _y, width, height, start, K = self.n_codes
        cdef const unsigned char* image
        cdef const unsigned char* a
        cdef const unsigned char* b
        cdef const unsigned char* d
        cdef const unsigned char* e
        cdef const double* T
        cdef double* row
        for j in range(self.boxes.shape[0]):
            width, height = self.boxes[j, 2], self.boxes[j, 3]
            start = self.boxes[j, 1] * self.pitch + self.boxes[j, 0]
            for i in range(n):
                for x in range(width * height):
                    out[i * self.total + x] = 0.0
            c, last = self.starts[j], self.starts[j + 1]
            while c < last:
                T = W + c * K
                for i in range(n):
                    image = &self.codes[rows[i], 0, 0, 0] + start
                    row = out + i * self.total
                    for _y in range(height):
                        a = image + self.cells[c]
                        if last - c >= 4:
                            b = image + self.cells[c + 1]
                            d = image + self.cells[c + 2]
                            e = image + self.cells[c + 3]
                            for x in range(width):
                                row[x] += (T[a[x]] + T[K + b[x]]) + (T[2 * K + d[x]] + T[3 * K + e[x]])
                        else:
                            for x in range(width):
                                row[x] += T[a[x]]
                        image += self.pitch
                        row += width
                c += 4 if last - c >= 4 else 1
            out += width * height

    cdef int _check_positions(self, const int[:, :, ::1] positions) except -1:
        """Raise ValueError for a position outside of its search box, where the window may leave the maps."""
        cdef Py_ssize_t i, j, k
        cdef bint fits = positions.shape[2] == 2
        for i in range(positions.shape[0] if fits else 0):
            for j in range(positions.shape[1]):
                for k in range(2):
                    fits &= 0 <= <Py_ssize_t>positions[i, j, k] - self.boxes[j, k] < self.boxes[j, 2 + k]
        if not fits:
            raise ValueError("positions must be pairs x, y inside of the boxes")
        return 0

    def add(self, const Py_ssize_t[::1] rows, const int[:, :, ::1] positions, const double[:, ::1] scales,
            double[::1] slope):
        """Add to slope[:n_cells * n_codes] sum_ij scales[i, j] * (indicators of codes seen from positions[i, j])."""
        cdef Py_ssize_t i, j, c, place, L = self.boxes.shape[0]
        cdef const unsigned char* image
        cdef double s
        if slope.shape[0] < self.cells.shape[0] * self.n_codes or positions.shape[0] != rows.shape[0] \
                or positions.shape[1] != L or scales.shape[0] != rows.shape[0] or scales.shape[1] != L:
            raise ValueError(f"slope must have at least {self.cells.shape[0] * self.n_codes} entries, positions and "
                             f"scales the shapes ({rows.shape[0]}, {L}, 2) and ({rows.shape[0]}, {L})")
        check_indices("rows", rows, self.codes.shape[0])
        self._check_positions(positions)
        with nogil:
            for i in range(rows.shape[0]):
                image = &self.codes[rows[i], 0, 0, 0]
                for j in range(L):
                    s = scales[i, j]
                    if s == 0.0:
                        continue
                    place = positions[i, j, 1] * self.pitch + positions[i, j, 0]
                    for c in range(self.starts[j], self.starts[j + 1]):
                        slope[c * self.n_codes + image[self.cells[c] + place]] += s

    def planes(self, const Py_ssize_t[::1] rows, const int[:, :, ::1] positions, const int[:, :, ::1] truth,
               const double[:, ::1] rest):
        """Return a csr_array; row i holds indicators seen from positions[i] less those from truth[i], then rest[i]."""
        cdef Py_ssize_t i, j, c, n_cells = self.cells.shape[0], L = self.boxes.shape[0], there, right, a, b
        cdef double sign
        cdef const unsigned char* image
        if positions.shape[0] != rows.shape[0] or truth.shape[0] != rows.shape[0] or rest.shape[0] != rows.shape[0] \
                or positions.shape[1] != L or truth.shape[1] != L:
            raise ValueError(f"positions and truth must have shape ({rows.shape[0]}, {L}, 2)")
        check_indices("rows", rows, self.codes.shape[0])
        self._check_positions(positions)
        self._check_positions(truth)
        cdef PlaneRows out = PlaneRows(n_cells * self.n_codes + rest.shape[1], rows.shape[0])
        with nogil:
            for i in range(rows.shape[0]):
                image = &self.codes[rows[i], 0, 0, 0]
                out.reserve(2 * n_cells + rest.shape[1])
                for j in range(L):
                    there = positions[i, j, 1] * self.pitch + positions[i, j, 0]
                    right = truth[i, j, 1] * self.pitch + truth[i, j, 0]
                    if there == right:
                        continue
                    for c in range(self.starts[j], self.starts[j + 1]):
                        # the smaller code comes first, so that the entries are in order without sorting
                        a, b = image[self.cells[c] + there], image[self.cells[c] + right]
                        sign = 1.0 if a <= b else -1.0
                        out.put(c * self.n_codes + min(a, b), sign)
                        out.put(c * self.n_codes + max(a, b), -sign)
                for j in range(rest.shape[1]):
                    out.put(n_cells * self.n_codes + j, rest[i, j])
                out.close()
        return out.matrix()

    def add_expected(self, const Py_ssize_t[::1] rows, const double[:, ::1] coefs, double[::1] slope):
        """Add to slope sum_ip coefs[i, p] * (indicators of codes seen from position p), p in the order of `maps`."""
        cdef Py_ssize_t i
        if slope.shape[0] < self.cells.shape[0] * self.n_codes or coefs.shape[0] != rows.shape[0] \
                or coefs.shape[1] != self.total:
            raise ValueError(f"slope must have at least {self.cells.shape[0] * self.n_codes} entries and coefs the "
                             f"shape ({rows.shape[0]}, {self.total})")
        check_indices("rows", rows, self.codes.shape[0])
        with nogil:
            for i in range(rows.shape[0]):
                self._spread(&self.codes[rows[i], 0, 0, 0], &coefs[i, 0], &slope[0])

    cdef void _spread(self, const unsigned char* image, const double* coefs, double* slope) noexcept nogil:
        cdef Py_ssize_t j, c, x, y, width, height
        cdef const unsigned char* a
        cdef double* T
        for j in range(self.boxes.shape[0]):
            width, height = self.boxes[j, 2], self.boxes[j, 3]
            for c in range(self.starts[j], self.starts[j + 1]):
                T = slope + c * self.n_codes
                for y in range(height):
                    a = image + self.cells[c] + (self.boxes[j, 1] + y) * self.pitch + self.boxes[j, 0]
                    for x in range(width):
                        T[a[x]] += coefs[y * width + x]
            coefs += width * height
