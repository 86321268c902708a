"""Arc marginals of spanning arborescences by elimination of words, without a subtraction.

The Matrix-Tree theorem gives the sum over trees of products of arc weights W_hm as the determinant of a Laplacian
(Tutte 1984; Koo et al. 2007). Its LU factors need no subtraction (Grassmann, Taksar, Heyman 1985): eliminating word v
leaves the same kind of problem on the others,

    D_v = sum_h W_hv,   W_hm <- W_hm + W_hv W_vm / D_v,   Z = prod_v D_v,

h over the root and the words left, loops dropped. So log Z has nearly full relative accuracy also where the best
in-arcs close a cycle and the Laplacian is singular up to rounding. With exactly one root arc, Z is the coefficient
of t in Z(t W_0.): the root counts in the D of the last word only. Marginals are W_hm times the derivative of log Z,
by going through the eliminations backwards; their absolute error is of the order of the rounding.

Where weights underflow although a tree has weight (scores of a word hundreds apart), the same steps are taken with
logarithms, some thirty times slower.
"""

from libc.math cimport INFINITY, exp, isfinite, log, log1p
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

cdef extern from "_matrix_tree.h" nogil:
    void pb_axpy(int n, double a, const double* x, double* y)
    double pb_dot_axpy(int n, double a, const double* row, const double* x, double* y)


cdef bint tree_marginals(int n, const double* s, bint single_root, double* out, double* log_partition,
                         double* scratch) noexcept nogil:
    """Marginals (n, n) of the scores s (n, n), n >= 2; False where the partition function is zero or not finite.

    `scratch`: n * (n + 4) doubles.
    """
    cdef double total = 0.0, top
    cdef double* tops = scratch + <Py_ssize_t>n * (n + 3)
    cdef int h, m
    for m in range(1, n):
        top = -1e300
        for h in range(n):
            if h != m and s[<Py_ssize_t>h * n + m] > top:
                top = s[<Py_ssize_t>h * n + m]
        if not -1e300 < top <= 1e300:
            return False
        tops[m] = top
        total += top
    log_partition[0] = total
    if not (_by_weights(n, s, tops, single_root, out, log_partition, scratch)
            or _by_logarithms(n, s, tops, single_root, out, log_partition, scratch)):
        return False
    for h in range(n):
        out[<Py_ssize_t>h * n] = 0.0
        for m in range(1, n):
            out[<Py_ssize_t>h * n + m] = min(max(out[<Py_ssize_t>h * n + m], 0.0), 1.0)
    return True


cdef bint _by_weights(int n, const double* s, const double* tops, bint single_root, double* out,
                      double* log_partition, double* scratch) noexcept nogil:
    """Adds the log of the sum over trees to log_partition; False where weights under- or overflow."""
    cdef double* W = scratch
    cdef double* share = W + <Py_ssize_t>n * n       # column v over D_v
    cdef double* inner = share + n
    cdef double* D = inner + n
    cdef double* A = out                             # derivatives of log Z by W
    cdef double total = log_partition[0], top, x
    cdef int h, m, v, first, home = 1
    for h in range(n):
        for m in range(1, n):
            W[<Py_ssize_t>h * n + m] = exp(s[<Py_ssize_t>h * n + m] - tops[m]) if h != m else 0.0
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
    for v in range(1, n):
        first = single_root and v > 1
        top = 1.0
        for h in range(v):
            x = W[<Py_ssize_t>h * n + v] / D[v]
            inner[h] = pb_dot_axpy(v - 1, x, &A[<Py_ssize_t>h * n + 1], &W[<Py_ssize_t>v * n + 1],
                                   &A[<Py_ssize_t>v * n + 1])
            top -= x * inner[h]
        for h in range(v):
            A[<Py_ssize_t>h * n + v] = max((top if h >= first else 0.0) + inner[h], 0.0) / D[v]
    if home != 1:
        _swap(n, A, 1, home)
    for h in range(n):
        for m in range(1, n):
            x = A[<Py_ssize_t>h * n + m] * exp(s[<Py_ssize_t>h * n + m] - tops[m]) if h != m else 0.0
            if not isfinite(x):
                return False
            out[<Py_ssize_t>h * n + m] = x
    log_partition[0] = total
    return True


cdef bint _by_logarithms(int n, const double* s, const double* tops, bint single_root, double* out,
                         double* log_partition, double* scratch) noexcept nogil:
    """The same with logarithms of W and A."""
    cdef double* W = scratch
    cdef double* inner = W + <Py_ssize_t>n * n
    cdef double* D = inner + n
    cdef double* A = out
    cdef double total = log_partition[0], rest, x
    cdef int h, m, v, first, home = 1
    for h in range(n):
        for m in range(1, n):
            x = s[<Py_ssize_t>h * n + m]
            W[<Py_ssize_t>h * n + m] = x - tops[m] if h != m and x > -1e300 else -INFINITY
            A[<Py_ssize_t>h * n + m] = -INFINITY
    v = n - 1
    while v > 0:
        first = single_root and v > 1
        D[v] = -INFINITY
        for h in range(first, v):
            D[v] = _log_add(D[v], W[<Py_ssize_t>h * n + v])
        if D[v] == -INFINITY:
            if not first or home != 1:
                return False
            home = v
            _swap(n, W, 1, v)
            continue
        for h in range(v):
            x = W[<Py_ssize_t>h * n + v] - D[v]
            for m in range(1, v):
                if m != h:
                    W[<Py_ssize_t>h * n + m] = _log_add(W[<Py_ssize_t>h * n + m], x + W[<Py_ssize_t>v * n + m])
        total += D[v]
        v -= 1
    for v in range(1, n):
        first = single_root and v > 1
        rest = 1.0
        for h in range(v):
            x = W[<Py_ssize_t>h * n + v] - D[v]
            inner[h] = -INFINITY
            for m in range(1, v):
                inner[h] = _log_add(inner[h], A[<Py_ssize_t>h * n + m] + W[<Py_ssize_t>v * n + m])
                A[<Py_ssize_t>v * n + m] = _log_add(A[<Py_ssize_t>v * n + m], A[<Py_ssize_t>h * n + m] + x)
            rest -= exp(x + inner[h])
        for h in range(v):
            # `rest` is negative where v has several words below it
            x = inner[h]
            if h >= first and x < 36.0:
                x = exp(x) + rest
                x = log(x) if x > 0.0 else -INFINITY
            A[<Py_ssize_t>h * n + v] = x - D[v]
    if home != 1:
        _swap(n, A, 1, home)
    for h in range(n):
        for m in range(1, n):
            out[<Py_ssize_t>h * n + m] = exp(A[<Py_ssize_t>h * n + m] + s[<Py_ssize_t>h * n + m] - tops[m]) \
                if h != m and s[<Py_ssize_t>h * n + m] > -1e300 else 0.0
    log_partition[0] = total
    return True


cdef inline double _log_add(double x, double y) noexcept nogil:
    """log(exp(x) + exp(y)); -inf is the log of nothing."""
    if y > x:
        x, y = y, x
    return x + log1p(exp(y - x)) if y > -INFINITY else x


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
    scratch = <double*>malloc(sizeof(double) * <size_t>n * (n + 4))
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
