"""Sums over pairs of rows whose scores violate the order of their grades, in O(n log n), without the GIL.

Row i has a grade g_i and a key b_i, its score. A pair of a row i and a row j of the same group, `g_i > g_j`, is active
if `b_i - shift < b_j`; then `h_ij = b_j - (b_i - shift)` > 0. The sums of row i and those of row j both compare the
same rounded number `b_i - shift`, so that they contain the same pairs.

The rows of a group come sorted by grade; rows of one grade are a run. As in merge sort, two neighbouring blocks of
runs are sorted by key, then two pointers pass over both. All steps of a sum over the active partners of a row add
terms >= 0: a new partner has h = 0, and at the next key all h grow by the difference of the keys. A weight `g_i - g_j`
is `(g_i - pivot) + (pivot - g_j)`, where the pivot is a grade between both blocks. Therefore nothing cancels. A sum
over n rows adds at most n terms, each a multiple of a sum of lower powers of h: relative errors are at most
`(2 n + 64) 2^-53` in sums by row and `(4 n + 80) 2^-53` in values; counts are exact. In blocks of at most FEW rows the
terms are added one by one, at most 120.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memcpy


cdef enum:
    FEW = 16                # pairs of at most so many rows are visited one by one


cdef struct Pairs:
    double* key             # keys of the group, sorted within blocks
    double* spare           # room for half of the keys
    int32_t* row            # the row of each key
    int32_t* spare_row
    double* upper_sum       # room for sums of upper rows, and of lower rows
    double* lower_sum
    const double* grade
    const unsigned char* event      # whether a row may be the lower one of a pair; NULL: all may
    const int32_t* runs
    double shift
    bint weighted           # weights g_i - g_j, not 1
    int power
    double pivot            # least grade of the upper rows
    double* up              # sums of w_ij h_ij^(power - 1) over the lower partners of a row
    double* down            # the same sums over the upper partners of a row


cdef struct Sums:
    double[3] plain         # sums of h^0, h^1 and h^2 over active partners
    double[3] far           # the sums of `plain`, each term times the distance of the partner's grade from the pivot


cdef inline void lengthen(Sums* sums, double step, bint weighted) noexcept nogil:   # all h grow by step
    sums.plain[2] += step * (2.0 * sums.plain[1] + step * sums.plain[0])
    sums.plain[1] += step * sums.plain[0]
    if weighted:
        sums.far[2] += step * (2.0 * sums.far[1] + step * sums.far[0])
        sums.far[1] += step * sums.far[0]


def pair_sums(const double[::1] key, const double[::1] grade, const unsigned char[::1] event,
              const int32_t[::1] runs, const int32_t[::1] groups, const double[::1] shift, bint weighted, int power,
              double[::1] up, double[::1] down, double[::1] values):
    """Set `up`, `down` (n,) to sums of `w_ij h_ij^(power - 1)` by row, `values` (G,) to sums of `w_ij h_ij^power`.

    Parameters
    ----------
    key, grade : (n,)
        Rows sorted by group, then by grade.
    event : (n,), or empty
        0 for rows that may not be the lower one of a pair.
    runs, groups : (R + 1,), (G + 1,)
        First rows of the runs, then n; first runs of the groups, then R.
    shift : (G,)
    weighted : bool
        Whether `w_ij = g_i - g_j`; else it is 1.
    power : {1, 2}
    """
    cdef Py_ssize_t n = key.shape[0], n_groups = groups.shape[0] - 1, g, i, first, size, largest = 0
    cdef Pairs pairs
    if not (len(grade) == len(up) == len(down) == n and len(event) in (0, n) and len(shift) == len(values) == n_groups
            and runs[runs.shape[0] - 1] == n and groups[n_groups] == runs.shape[0] - 1 and power in (1, 2)):
        raise ValueError("arrays of pair_sums must fit together")
    if n == 0:
        return
    for g in range(n_groups):
        size = runs[groups[g + 1]] - runs[groups[g]]
        largest = max(largest, size)
    cdef double[::1] memory = np.empty(5 * largest)
    pairs.event = &event[0] if event.shape[0] else NULL
    pairs.key, pairs.spare = &memory[0], &memory[largest]
    pairs.upper_sum, pairs.lower_sum = pairs.spare + largest, pairs.spare + 2 * largest
    pairs.row = <int32_t*>(pairs.lower_sum + largest)
    pairs.spare_row = pairs.row + largest
    pairs.weighted, pairs.power = weighted, power
    with nogil:
        for i in range(n):
            up[i] = down[i] = 0.0
        for g in range(n_groups):
            first, size = runs[groups[g]], runs[groups[g + 1]] - runs[groups[g]]
            values[g] = 0.0
            if groups[g + 1] - groups[g] < 2:
                continue
            pairs.grade, pairs.shift, pairs.runs = &grade[first], shift[g], &runs[groups[g]]
            pairs.up, pairs.down = &up[first], &down[first]
            if event.shape[0]:
                pairs.event = &event[first]
            for i in range(size):
                pairs.key[i], pairs.row[i] = key[first + i], <int32_t>i
            values[g] = blocks(&pairs, 0, groups[g + 1] - groups[g], True)


cdef double blocks(Pairs* pairs, Py_ssize_t first, Py_ssize_t last, bint is_whole) noexcept nogil:
    # Returns the value of the pairs of the runs first..last - 1; also sorts their rows by key, for the next merge.
    cdef Py_ssize_t middle, start = pairs.runs[0]
    cdef double value
    if last - first == 1:
        sort(pairs, pairs.runs[first] - start, pairs.runs[last] - start)
        return 0.0
    if pairs.runs[last] - pairs.runs[first] <= FEW:
        if pairs.weighted:
            value = each(pairs, first, last, True, pairs.power == 2)
        else:
            value = each(pairs, first, last, False, pairs.power == 2)
        sort(pairs, pairs.runs[first] - start, pairs.runs[last] - start)
        return value
    middle = (first + last) // 2
    value = blocks(pairs, first, middle, False) + blocks(pairs, middle, last, False)
    value += across(pairs, pairs.runs[first] - start, pairs.runs[middle] - start, pairs.runs[last] - start)
    if not is_whole:
        merge(pairs, pairs.runs[first] - start, pairs.runs[middle] - start, pairs.runs[last] - start)
    return value


cdef double across(Pairs* pairs, Py_ssize_t low, Py_ssize_t middle, Py_ssize_t high) noexcept nogil:
    # Adds the pairs of lower rows low..middle - 1 with upper rows middle..high - 1, both sorted; returns their value.
    cdef Py_ssize_t q, m = middle - low
    cdef double* lower = pairs.key + low
    cdef int32_t* lower_row = pairs.row + low
    pairs.pivot = pairs.grade[middle]
    if pairs.event != NULL:
        lower, lower_row, m = pairs.spare, pairs.spare_row, 0
        for q in range(low, middle):
            lower[m], lower_row[m] = pairs.key[q], pairs.row[q]
            m += pairs.event[pairs.row[q]]
    if m == 0:
        return 0.0
    if pairs.weighted:
        return sweeps(pairs, lower, lower_row, m, pairs.key + middle, pairs.row + middle, high - middle, True)
    return sweeps(pairs, lower, lower_row, m, pairs.key + middle, pairs.row + middle, high - middle, False)


cdef inline double sweeps(Pairs* pairs, const double* lower, const int32_t* lower_row, Py_ssize_t m,
                          const double* upper, const int32_t* upper_row, Py_ssize_t n, bint weighted) noexcept nogil:
    # One sweep falls from key to key, for the sums of upper rows, and one rises, for those of lower rows. A step takes
    # the next key of either side, so that no branch depends on the order of keys; both sweeps are computed at once.
    cdef Py_ssize_t p = n - 1, q = m - 1, i = 0, j = 0, k
    cdef int power = pairs.power
    cdef bint enters
    cdef double a, b, top, bottom, shift = pairs.shift, pivot = pairs.pivot, value = 0.0
    cdef Sums falling, rising
    for k in range(3):
        falling.plain[k] = falling.far[k] = rising.plain[k] = rising.far[k] = 0.0
    top, bottom = max(lower[q], upper[p] - shift), min(lower[0], upper[0] - shift)
    while p >= 0 or j < m:
        if p >= 0:
            a = upper[p] - shift
            b = lower[q] if q >= 0 else a
            enters = a < b
            lengthen(&falling, top - max(a, b), weighted)
            top = max(a, b)
            pairs.upper_sum[p] = falling.plain[power - 1]       # final at the last step with this p
            if weighted:
                a = pairs.grade[upper_row[p]] - pivot
                pairs.upper_sum[p] = a * falling.plain[power - 1] + falling.far[power - 1]
                value += (not enters) * (a * falling.plain[power] + falling.far[power])
                falling.far[0] += enters * (pivot - pairs.grade[lower_row[max(q, 0)]])
            else:
                value += (not enters) * falling.plain[power]
            falling.plain[0] += enters
            p -= not enters
            q -= enters
        if j < m:
            b = lower[j]
            a = upper[i] - shift if i < n else b
            enters = a < b
            lengthen(&rising, min(a, b) - bottom, weighted)
            bottom = min(a, b)
            pairs.lower_sum[j] = rising.plain[power - 1]
            if weighted:
                pairs.lower_sum[j] = ((pivot - pairs.grade[lower_row[j]]) * rising.plain[power - 1]
                                      + rising.far[power - 1])
                rising.far[0] += enters * (pairs.grade[upper_row[min(i, n - 1)]] - pivot)
            rising.plain[0] += enters
            i += enters
            j += not enters
    for k in range(n):
        pairs.up[upper_row[k]] += pairs.upper_sum[k]
    for k in range(m):
        pairs.down[lower_row[k]] += pairs.lower_sum[k]
    return value


cdef inline double each(Pairs* pairs, Py_ssize_t first, Py_ssize_t last, bint weighted, bint square) noexcept nogil:
    # Adds the pairs of the runs first..last - 1, whose rows are not sorted yet; returns their value.
    cdef Py_ssize_t r, i, j, start = pairs.runs[0], high = pairs.runs[last] - start
    cdef double b, h, term, down, value = 0.0, shift = pairs.shift
    for r in range(first, last - 1):
        for j in range(pairs.runs[r] - start, pairs.runs[r + 1] - start):
            if pairs.event != NULL and not pairs.event[j]:
                continue
            b, down = pairs.key[j], 0.0
            for i in range(pairs.runs[r + 1] - start, high):
                h = max(b - (pairs.key[i] - shift), 0.0)
                term = h if square else 1.0 * (h > 0.0)
                if weighted:
                    term *= pairs.grade[i] - pairs.grade[j]
                pairs.up[i] += term
                down += term
                value += term * h
            pairs.down[j] += down
    return value


cdef void sort(Pairs* pairs, Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    cdef Py_ssize_t i, k, middle = (low + high) // 2
    cdef double key
    cdef int32_t row
    if high - low > 16:
        sort(pairs, low, middle)
        sort(pairs, middle, high)
        merge(pairs, low, middle, high)
        return
    for i in range(low + 1, high):
        key, row, k = pairs.key[i], pairs.row[i], i
        while k > low and pairs.key[k - 1] > key:
            pairs.key[k], pairs.row[k] = pairs.key[k - 1], pairs.row[k - 1]
            k -= 1
        pairs.key[k], pairs.row[k] = key, row


cdef void merge(Pairs* pairs, Py_ssize_t low, Py_ssize_t middle, Py_ssize_t high) noexcept nogil:
    cdef Py_ssize_t a = 0, b = middle, n = middle - low, out = low
    cdef bint is_left
    cdef double* key = pairs.key
    cdef double* left = pairs.spare
    cdef int32_t* row = pairs.row
    cdef int32_t* left_row = pairs.spare_row
    if key[middle - 1] <= key[middle]:
        return
    memcpy(left, key + low, n * sizeof(double))
    memcpy(left_row, row + low, n * sizeof(int32_t))
    while a < n and b < high:
        is_left = left[a] <= key[b]
        key[out] = left[a] if is_left else key[b]
        row[out] = left_row[a] if is_left else row[b]
        a += is_left
        b += not is_left
        out += 1
    memcpy(key + out, left + a, (n - a) * sizeof(double))
    memcpy(row + out, left_row + a, (n - a) * sizeof(int32_t))
