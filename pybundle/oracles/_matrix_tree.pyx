"""Arc marginals of spanning arborescences by elimination of words, without a subtraction.

The Matrix-Tree theorem gives the sum over trees of products of arc weights W_hm as the determinant of a Laplacian
(Tutte 1984; Koo et al. 2007). Its LU factors need no subtraction (Grassmann, Taksar, Heyman 1985): eliminating word v
leaves the same kind of problem on the others,

    D_v = sum_h W_hv,   W_hm <- W_hm + W_hv W_vm / D_v,   Z = prod_v D_v,

h over the root and the words left, loops dropped. So log Z has nearly full relative accuracy also where the best
in-arcs close a cycle and the Laplacian is singular up to rounding. With exactly one root arc, Z is the coefficient
of t in Z(t W_0.): the root counts in the D of the last word only. Marginals are W_hm times the derivative of log Z,
by going through the eliminations backwards; their absolute error is of the order of the rounding.
"""

from libc.math cimport exp, isfinite, log
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

cdef extern from "_matrix_tree.h" nogil:
    void pb_axpy(int n, double a, const double* x, double* y)
    double pb_dot_axpy(int n, double a, const double* row, const double* x, double* y)


cdef bint tree_marginals(int n, const double* s, bint single_root, double* out, double* log_partition,
                         double* scratch) noexcept nogil:
    """Marginals (n, n) of the scores s (n, n), n >= 2; False where the partition function is zero or not finite.

    `scratch`: n * (n + 3) doubles.
    """
    cdef double* W = scratch
    cdef double* share = W + <Py_ssize_t>n * n       # column v over D_v
    cdef double* inner = share + n
    cdef double* D = inner + n
    cdef double* A = out                             # derivatives of log Z by W
    cdef double total = 0.0, top, x
    cdef int h, m, v, first, home = 1
    for m in range(1, n):
        top = -1e300
        for h in range(n):
            x = s[<Py_ssize_t>h * n + m]
            if h != m and x > top:
                top = x
        if not -1e300 < top <= 1e300:
            return False
        total += top
        for h in range(n):
            W[<Py_ssize_t>h * n + m] = exp(s[<Py_ssize_t>h * n + m] - top) if h != m else 0.0
            A[<Py_ssize_t>h * n + m] = 0.0
    v = n - 1
    while v > 0:
        first = single_root and v > 1
        D[v] = 0.0
        for h in range(first, v):
            D[v] += W[<Py_ssize_t>h * n + v]
        if not D[v] > 0.0:
            if not first or home != 1:
                return False
            # only the root can be the head of v: it must come last; a second such word has no tree
            home = v
            _swap(n, W, 1, v)
            continue
        for h in range(v):
            share[h] = W[<Py_ssize_t>h * n + v] / D[v]
            pb_axpy(v - 1, share[h], &W[<Py_ssize_t>v * n + 1], &W[<Py_ssize_t>h * n + 1])
        total += log(D[v])
        v -= 1
    if not isfinite(total):
        return False
    log_partition[0] = total
    for v in range(1, n):
        first = single_root and v > 1
        top = 1.0
        for h in range(v):
            x = W[<Py_ssize_t>h * n + v] / D[v]
            inner[h] = pb_dot_axpy(v - 1, x, &A[<Py_ssize_t>h * n + 1], &W[<Py_ssize_t>v * n + 1],
                                   &A[<Py_ssize_t>v * n + 1])
            top -= x * inner[h]
        for h in range(v):
            A[<Py_ssize_t>h * n + v] = ((top if h >= first else 0.0) + inner[h]) / D[v]
    if home != 1:
        _swap(n, A, 1, home)
    for m in range(1, n):
        top = -1e300
        for h in range(n):
            if h != m and s[<Py_ssize_t>h * n + m] > top:
                top = s[<Py_ssize_t>h * n + m]
        for h in range(n):
            x = A[<Py_ssize_t>h * n + m] * exp(s[<Py_ssize_t>h * n + m] - top) if h != m else 0.0
            if not isfinite(x):
                return False
            out[<Py_ssize_t>h * n + m] = min(max(x, 0.0), 1.0)
    for h in range(n):
        out[<Py_ssize_t>h * n] = 0.0
    return True


cdef void _swap(int n, double* M, int a, int b) noexcept nogil:
    """Words a and b change names."""
    cdef int k
    for k in range(1, n):
        M[a * n + k], M[b * n + k] = M[b * n + k], M[a * n + k]
    for k in range(n):
        M[k * n + a], M[k * n + b] = M[k * n + b], M[k * n + a]


def solve_marginals(const double[::1] scores, const int64_t[::1] starts, const int64_t[::1] words, bint single_root,
                    double[::1] marginals, double[::1] log_partitions, Py_ssize_t first, Py_ssize_t last):
    """Marginals of the sentences first..last - 1 of a batch; the first that has none, or -1."""
    cdef Py_ssize_t i, bad = -1
    cdef int n = 0
    cdef double* scratch
    for i in range(first, last):
        n = max(n, <int>(words[i + 1] - words[i]))
    scratch = <double*>malloc(sizeof(double) * <size_t>n * (n + 3))
    if scratch == NULL:
        raise MemoryError(f"no memory for a tree of {n - 1} words")
    with nogil:
        for i in range(first, last):
            n = <int>(words[i + 1] - words[i])
            if not tree_marginals(n, &scores[starts[i]], single_root, &marginals[starts[i]], &log_partitions[i],
                                  scratch):
                bad = i
                break
        free(scratch)
    return bad
