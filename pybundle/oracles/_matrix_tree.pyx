"""Arc marginals of spanning arborescences by elimination of words, without subtractions.

The Matrix-Tree theorem gives the sum over trees of products of arc weights W_hm as the determinant of a Laplacian
(Tutte 1984; Koo et al. 2007). Its LU factors need no subtraction (Grassmann, Taksar, Heyman 1985): eliminating word v
leaves the same kind of problem on the others,

    D_v = sum_h W_hv,   W_hm <- W_hm + W_hv W_vm / D_v,   Z = prod_v D_v,

h over the root and the remaining words, without loops. So log Z has nearly full relative accuracy even if the best
in-arcs close a cycle and the Laplacian is singular up to rounding. With exactly one root arc, Z is the coefficient
of t in Z(t W_0.): only the D of the last word includes the root. Marginals are W_hm times the derivative A_hm of
log Z, computed by reversing the eliminations.

Error bounds are for the distribution of the computed weights W, so rounding of the scores does not matter.
`tree_errors` bounds the effect of the roundings of an elimination of N words on its marginals, summed over all arcs
(u = 2^-53; stage v has the words 1..v and an exact distribution of its own, defined by the W computed so far):

1.  D_v, a sum of v terms in four partial sums, has a relative error of (v / 4 + 3) u, and a new W has one of
    e_v = (v / 4 + 6) u. This changes the derivatives A of the next stage, with k = v - 1 words, by 2 k - 1 times e_v,
    as they are ratios of homogeneous polynomials of positive terms, of degrees k - 1 and k. The W A sum to k, so the
    effect is at most k (2 k - 1) e_v.
2.  The reverse pass computes, with p_h = W_hv / D_v, A_vm = sum_h p_h A_hm, inner_h = sum_m A_hm W_vm and
    A_hv = (1 - sum_h p_h inner_h + inner_h) / D_v. `sum_h p_h inner_h` is the expected number of words below v, at
    most v - 1. The errors, times W, sum to at most (2 v + 1) u (1 + 4 (v - 1)).
3.  An error of A_hm at stage v changes the marginal of arc (a, b) by W_hm d log W_hm / d log W_ab times the error.
    W_hm at v is a ratio of homogeneous polynomials of positive terms in the first weights, of degrees N - v + 1 and
    N - v: the sum over all arcs of these factors is at most 2 (N - v) + 1.

The bound is the sum over v of the effects 1 and 2 times the factor 3, plus N u for the last products, plus 1 % for
products of errors.
Underflow adds nothing: weights below exp(-300) are raised to exp(-300) if log Z changes by less than u. Otherwise, or
if weights overflow, the same steps are taken with logarithms, about thirty times slower.
"""

import numpy as np

from libc.math cimport INFINITY, exp, fabs, isfinite, log, log1p
from libc.stdint cimport int64_t

cdef extern from "_matrix_tree.h" nogil:
    void pb_axpy(int n, double a, const double* x, double* y)
    double pb_dot_axpy(int n, double a, const double* row, const double* x, double* y)


cdef double LEAST = -300.0          # logarithm of the least weight


def tree_errors(n_words):
    """Bound the errors of the marginals of sentences with `n_words` words, summed over all arcs of a sentence."""
    cdef Py_ssize_t longest = n_words.max()
    v = np.arange(1.0, longest + 2)
    found = (2.0 * v + 1.0) * (4.0 * v - 3.0)
    found += v * (2.0 * v - 1.0) * (0.25 * v + 6.25)
    # sum over v <= N of found[v] (2 (N - v) + 1)
    sums, moments = np.cumsum(found), np.cumsum(found * v)
    return 1.01 * 2.0**-53 * ((2.0 * v + 1.0) * sums - 2.0 * moments + v)[n_words - 1]


cdef int tree_marginals(int n, const double* s, bint single_root, double* out, double* log_partition, double* scratch,
                        double error, double* entropy) noexcept nogil:
    """Compute the marginals (n, n) of the scores s (n, n), n >= 2; see the .pxd."""
    cdef double total = 0.0, top
    cdef double* tops = scratch + <Py_ssize_t>n * (2 * n + 3)
    cdef int h, m, found = 1
    for m in range(1, n):
        top = -1e300
        for h in range(n):
            if h != m and s[<Py_ssize_t>h * n + m] > top:
                top = s[<Py_ssize_t>h * n + m]
        if not -1e300 < top <= 1e300:
            return 0
        tops[m] = top
        total += top
    log_partition[0] = total
    if not _by_weights(n, s, tops, single_root, out, log_partition, scratch, error, entropy):
        found = 2
        if not _by_logarithms(n, s, tops, single_root, out, log_partition, scratch, entropy == NULL):
            return 0
    for h in range(n):
        out[<Py_ssize_t>h * n] = 0.0
        for m in range(1, n):
            out[<Py_ssize_t>h * n + m] = min(max(out[<Py_ssize_t>h * n + m], 0.0), 1.0)
    return found


cdef bint _by_weights(int n, const double* s, const double* tops, bint single_root, double* out,
                      double* log_partition, double* scratch, double error, double* entropy) noexcept nogil:
    """Compute marginals and add log Z to log_partition; return False if weights under- or overflow."""
    cdef double* W = scratch                         # in the reverse pass, column v holds W_hv / D_v
    cdef double* given = W + <Py_ssize_t>n * n       # the weights exp(s - tops); the elimination overwrites W
    cdef double* inner = given + <Py_ssize_t>n * n
    cdef double* D = inner + n
    cdef double* A = out                             # derivatives of log Z by W
    cdef double total = 0.0, sizes = 0.0, spread = 0.0, lowest = 0.0, highest = 0.0, top, x
    cdef int h, m, v, first, swapped = 1, n_raised = 0
    for h in range(n):
        for m in range(1, n):
            x = s[<Py_ssize_t>h * n + m]
            if h == m or not x > -1e300:
                x = 0.0
            else:
                x -= tops[m]
                if x < LEAST:
                    x = LEAST
                    n_raised += 1
                lowest = min(lowest, x)
                x = exp(x)
            W[<Py_ssize_t>h * n + m] = given[<Py_ssize_t>h * n + m] = x
            A[<Py_ssize_t>h * n + m] = 0.0
    if n_raised:
        # the weight of all trees with a raised arc is below n_raised exp(LEAST) times the product of column sums
        highest = log(<double>n_raised)
        for m in range(1, n):
            x = 0.0
            for h in range(n):
                x += W[<Py_ssize_t>h * n + m]
            highest += log(x)
    v = n - 1
    while v > 0:
        first = single_root and v > 1
        D[v] = _column_sum(n, W, v, first)
        if not D[v] > 0.0:
            if not first or swapped != 1:
                return False
            # only the root can be the head of v, so v must be eliminated last; with two such words there is no tree
            swapped = v
            _swap(n, W, 1, v)
            continue
        for h in range(v):
            x = W[<Py_ssize_t>h * n + v] / D[v]
            W[<Py_ssize_t>h * n + v] = x
            pb_axpy(v - 1, x, &W[<Py_ssize_t>v * n + 1], &W[<Py_ssize_t>h * n + 1])
        x = log(D[v])
        total += x
        sizes += fabs(x)
        v -= 1
    if not isfinite(total) or n_raised and total < highest + LEAST + 40.0:
        return False
    for v in range(1, n):
        first = single_root and v > 1
        top = 1.0
        for h in range(v):
            x = W[<Py_ssize_t>h * n + v]
            inner[h] = pb_dot_axpy(v - 1, x, &A[<Py_ssize_t>h * n + 1], &W[<Py_ssize_t>v * n + 1],
                                   &A[<Py_ssize_t>v * n + 1])
            top -= x * inner[h]
        for h in range(v):
            A[<Py_ssize_t>h * n + v] = ((top if h >= first else 0.0) + inner[h]) / D[v]
    if swapped != 1:
        _swap(n, A, 1, swapped)
    for h in range(n):
        for m in range(1, n):
            x = A[<Py_ssize_t>h * n + m] * given[<Py_ssize_t>h * n + m]
            if not isfinite(x):
                return False
            A[<Py_ssize_t>h * n + m] = x
            if entropy != NULL and x > 0.0:
                spread -= min(x, 1.0) * max(s[<Py_ssize_t>h * n + m] - tops[m], LEAST)
    if entropy != NULL:
        # log Z - E log W; errors: `error` in marginals and log Z, 2 u in log W, 2 n^2 u in sums of n^2 terms
        top = error * (2.0 - lowest) + 2.0**-53 * (2.0 * n * n + 8.0) * (sizes + spread)
        entropy[0] = max(total + spread - top, 0.0)
    log_partition[0] += total
    return True


cdef inline double _column_sum(int n, const double* W, int v, int first) noexcept nogil:
    """Return sum_h W_hv, h = first..v - 1, in four partial sums."""
    cdef double a = 0.0, b = 0.0, c = 0.0, d = 0.0
    cdef const double* x = W + <Py_ssize_t>first * n + v
    cdef int left = v - first
    cdef Py_ssize_t step = n
    while left >= 4:
        a += x[0]
        b += x[step]
        c += x[2 * step]
        d += x[3 * step]
        x += 4 * step
        left -= 4
    if left > 0:
        a += x[0]
    if left > 1:
        b += x[step]
    if left > 2:
        c += x[2 * step]
    return (a + b) + (c + d)


cdef bint _by_logarithms(int n, const double* s, const double* tops, bint single_root, double* out,
                         double* log_partition, double* scratch, bint with_marginals) noexcept nogil:
    """Do what `_by_weights` does, with logarithms of W and A; marginals are optional. Return False without a tree."""
    cdef double* W = scratch
    cdef double* inner = W + <Py_ssize_t>2 * n * n
    cdef double* D = inner + n
    cdef double* A = out
    cdef double total = log_partition[0], rest, x
    cdef int h, m, v, first, swapped = 1
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
            if not first or swapped != 1:
                return False
            swapped = v
            _swap(n, W, 1, v)
            continue
        for h in range(v):
            x = W[<Py_ssize_t>h * n + v] - D[v]
            for m in range(1, v):
                if m != h:
                    W[<Py_ssize_t>h * n + m] = _log_add(W[<Py_ssize_t>h * n + m], x + W[<Py_ssize_t>v * n + m])
        total += D[v]
        v -= 1
    log_partition[0] = total
    if not with_marginals:
        return True
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
            # sums without a logarithm of `rest`, which is negative if several words are expected below v
            x = inner[h]
            if h >= first and x < 36.0:
                x = exp(x) + rest
                x = log(x) if x > 0.0 else -INFINITY
            A[<Py_ssize_t>h * n + v] = x - D[v]
    if swapped != 1:
        _swap(n, A, 1, swapped)
    for h in range(n):
        for m in range(1, n):
            out[<Py_ssize_t>h * n + m] = exp(A[<Py_ssize_t>h * n + m] + s[<Py_ssize_t>h * n + m] - tops[m]) \
                if h != m and s[<Py_ssize_t>h * n + m] > -1e300 else 0.0
    return True


cdef inline double _log_add(double x, double y) noexcept nogil:
    """Return log(exp(x) + exp(y)); both may be -inf."""
    if y > x:
        x, y = y, x
    return x + log1p(exp(y - x)) if y > -INFINITY else x


cdef void _swap(int n, double* M, int a, int b) noexcept nogil:
    """Exchange the words a and b."""
    cdef int k
    for k in range(1, n):
        M[a * n + k], M[b * n + k] = M[b * n + k], M[a * n + k]
    for k in range(n):
        M[k * n + a], M[k * n + b] = M[k * n + b], M[k * n + a]


def solve_marginals(const double[::1] scores, const int64_t[::1] starts, const int64_t[::1] words, bint single_root,
                    double[::1] marginals, double[::1] log_partitions, Py_ssize_t first, Py_ssize_t last):
    """Compute marginals of the sentences first..last - 1 of a batch; return the first without a tree, or -1."""
    cdef Py_ssize_t i, bad = -1
    cdef int n = 0
    for i in range(first, last):
        n = max(n, <int>(words[i + 1] - words[i]))
    cdef double[::1] scratch = np.empty(<Py_ssize_t>n * (2 * n + 4))
    with nogil:
        for i in range(first, last):
            n = <int>(words[i + 1] - words[i])
            if not tree_marginals(n, &scores[starts[i]], single_root, &marginals[starts[i]], &log_partitions[i],
                                  &scratch[0], 0.0, NULL):
                bad = i
                break
    return bad
