"""Sums over pairs of rows whose scores violate the order of their grades, in O(n log n), without the GIL.

Row i has a grade g_i and a key b_i, its score. A pair of a row i and a row j of the same group, `g_i > g_j`, is active
if `b_i - shift < b_j`; then `h_ij = b_j - (b_i - shift)` > 0. The sums of row i and those of row j both compare the
same rounded number `b_i - shift`, so that they contain the same pairs.

The rows of a group come sorted by grade; rows of one grade are a run. As in merge sort, two neighbouring blocks of
runs are sorted by key, then two pointers pass over both. All steps of a sum over the active partners of a row add
terms >= 0: a new partner adds its h, and at the next row all h grow by the difference of the keys. A weight `g_i - g_j`
is `(g_i - pivot) + (pivot - g_j)`, where the pivot is a grade between both blocks. Therefore nothing cancels. A sum
over n rows adds at most n terms, each a multiple of a sum of lower powers of h: relative errors are at most
`(2 n + 64) 2^-53` in sums by row and `(4 n + 80) 2^-53` in values; counts are exact.
"""

from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy


cdef struct Pairs:
    double* key             # keys of the group, sorted within blocks
    double* spare           # room for half of the keys
    int32_t* row            # the row of each key
    int32_t* spare_row
    const double* grade
    const unsigned char* event      # whether a row may be the lower one of a pair; NULL: all may
    const int32_t* runs
    double shift
    bint weighted           # weights g_i - g_j, not 1
    int power
    double* up              # sums of w_ij h_ij^(power - 1) over the lower partners of a row
    double* down            # the same sums over the upper partners of a row


cdef struct Sums:
    double[3] plain         # sums of h^0, h^1 and h^2 over active partners
    double[3] far           # the sums of `plain`, each term times the distance of the partner's grade from the pivot


cdef inline void lengthen(Sums* sums, double step) noexcept nogil:      # adds `step` to every h
    sums.plain[2] += step * (2.0 * sums.plain[1] + step * sums.plain[0])
    sums.plain[1] += step * sums.plain[0]
    sums.far[2] += step * (2.0 * sums.far[1] + step * sums.far[0])
    sums.far[1] += step * sums.far[0]


cdef inline void enter(Sums* sums, double h, double distance) noexcept nogil:       # adds an active partner
    sums.plain[0] += 1.0
    sums.plain[1] += h
    sums.plain[2] += h * h
    sums.far[0] += distance
    sums.far[1] += distance * h
    sums.far[2] += distance * h * h


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
    cdef char* memory
    if not (len(grade) == len(up) == len(down) == n and len(event) in (0, n) and len(shift) == len(values) == n_groups
            and runs[runs.shape[0] - 1] == n and groups[n_groups] == runs.shape[0] - 1 and power in (1, 2)):
        raise ValueError("arrays of pair_sums must fit together")
    if n == 0:
        return
    for g in range(n_groups):
        size = runs[groups[g + 1]] - runs[groups[g]]
        largest = max(largest, size)
    memory = <char*>malloc(largest * 2 * (sizeof(double) + sizeof(int32_t)))
    if memory == NULL:
        raise MemoryError(f"sums over pairs need {24 * largest} bytes")
    pairs.event = &event[0] if event.shape[0] else NULL
    pairs.key, pairs.spare = <double*>memory, <double*>memory + largest
    pairs.row = <int32_t*>(pairs.spare + largest)
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
    free(memory)


cdef double blocks(Pairs* pairs, Py_ssize_t first, Py_ssize_t last, bint is_whole) noexcept nogil:
    # Returns the value of the pairs of the runs first..last - 1; also sorts their rows by key, for the next merge.
    cdef Py_ssize_t middle, start = pairs.runs[0]
    cdef double value
    if last - first == 1:
        sort(pairs, pairs.runs[first] - start, pairs.runs[last] - start)
        return 0.0
    middle = (first + last) // 2
    value = blocks(pairs, first, middle, False) + blocks(pairs, middle, last, False)
    value += across(pairs, pairs.runs[first] - start, pairs.runs[middle] - start, pairs.runs[last] - start)
    if not is_whole:
        merge(pairs, pairs.runs[first] - start, pairs.runs[middle] - start, pairs.runs[last] - start)
    return value


cdef double across(Pairs* pairs, Py_ssize_t low, Py_ssize_t middle, Py_ssize_t high) noexcept nogil:
    # Adds the pairs of lower rows low..middle - 1 with upper rows middle..high - 1, both sorted; returns their value.
    cdef Py_ssize_t p, q = middle - 1, i, j
    cdef double b, a, last, value = 0.0, distance = 0.0, shift = pairs.shift
    cdef double pivot = pairs.grade[middle]         # least grade of the upper rows
    cdef int power = pairs.power
    cdef Sums sums
    cdef const double* key = pairs.key
    for i in range(3):
        sums.plain[i] = sums.far[i] = 0.0
    last = key[high - 1] - shift
    for p in range(high - 1, middle - 1, -1):
        a, i = key[p] - shift, pairs.row[p]
        lengthen(&sums, last - a)
        last = a
        while q >= low and a < key[q]:
            j = pairs.row[q]
            if pairs.event == NULL or pairs.event[j]:
                enter(&sums, key[q] - a, pivot - pairs.grade[j] if pairs.weighted else 0.0)
            q -= 1
        if pairs.weighted:
            distance = pairs.grade[i] - pivot
            pairs.up[i] += distance * sums.plain[power - 1] + sums.far[power - 1]
            value += distance * sums.plain[power] + sums.far[power]
        else:
            pairs.up[i] += sums.plain[power - 1]
            value += sums.plain[power]
    for i in range(3):
        sums.plain[i] = sums.far[i] = 0.0
    last, p = key[low], middle
    for q in range(low, middle):
        b, j = key[q], pairs.row[q]
        lengthen(&sums, b - last)
        last = b
        while p < high and key[p] - shift < b:
            enter(&sums, b - (key[p] - shift), pairs.grade[pairs.row[p]] - pivot if pairs.weighted else 0.0)
            p += 1
        if pairs.event != NULL and not pairs.event[j]:
            continue
        if pairs.weighted:
            pairs.down[j] += (pivot - pairs.grade[j]) * sums.plain[power - 1] + sums.far[power - 1]
        else:
            pairs.down[j] += sums.plain[power - 1]
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
