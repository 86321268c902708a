"""Maximum spanning arborescence of a dense matrix of scores in O(n^2).

This is the contraction of Tarjan 1977 ("Finding optimum branchings") with the growing paths of Gabow, Galil, Spencer
and Tarjan 1986. From each word it follows best in-arcs until they reach the root or a component joined to the root, or
until they close a cycle, which is contracted to a component. If the greedy choice is a tree, nothing is contracted.

A component stores one row of scores of its in-arcs, contiguous over the words where they begin:

    row_c[u] = max over children k of (row_k[u] - best_k),   -inf for the words inside c,

so that a contraction is an elementwise maximum. A word has no row; the scores of its in-arcs are read from its column.
The rows of children are kept, because they show at the end which child an arc enters. There are less than n
contractions, each with O(n) time for each child.

To get exactly one root arc, scores become pairs (-[arc leaves the root], score) in lexicographic order. The pairs are
an ordered group, which is all that the algorithm needs. Its optimum has the fewest root arcs and, among such trees, the
largest score. The pairs are not stored: a component takes a root arc only if it has no other in-arc, and is never
contracted after that, so the first entry of every other arc stays 0.
"""

import numpy as np

from pybundle.core.exceptions import ParameterError
from pybundle.core.validation import check_flag, real_numbers

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t

cdef extern from "_arborescence.h" nogil:
    const double PB_FORBIDDEN
    int pb_best_heads(int n, int first, const double* s, double* value, int64_t* head)
    void pb_raise(int n, const double* other, double shift, double* row)
    void pb_raise_column(int n, const double* s, int k, double shift, double* row)
    int pb_best(int n, int first, const double* row, double* value)

cdef enum:
    NEW = 0
    ON_PATH = 1
    DONE = 2

# The numbers 0..n-1 are the root and the words; contracted components get n, n + 1, ..., below 2n, as they are made.
cdef struct Forest:
    const double* s
    int n
    int n_components
    double* rows        # (n, n) row of component n + j in row j
    double* best        # (2n,) score of the best in-arc, minus the `best` of the contracted children that it enters
    int64_t* greedy     # (n,) best head of each word
    int* source         # (2n,) word where the best in-arc begins, -1 for none
    int* child          # (2n,) first of the list of children of a contraction
    int* sibling        # (2n,) next child of the same contraction, -1 at the end
    int* up             # (2n,) union-find towards the outermost component
    int* state          # (2n,) NEW, ON_PATH or DONE
    int* path           # (2n,) components of the growing path
    int* first_word     # (2n,) first word of the linked list of the words inside
    int* last_word      # (2n,) last word of that list
    int* next_word      # (n,) next word in the list


cdef size_t tree_scratch(int n) noexcept nogil:
    # a whole number of doubles, so that memory after the scratch is aligned, too
    return sizeof(double) * (<size_t>n * n + 12 * <size_t>n)


cdef Forest _lay_out(int n, const double* scores, void* scratch) noexcept nogil:
    cdef Forest f
    f.s, f.n, f.n_components = scores, n, n
    f.rows = <double*>scratch
    f.best = f.rows + <Py_ssize_t>n * n
    f.greedy = <int64_t*>(f.best + 2 * n)
    f.source = <int*>(f.greedy + n)
    f.child = f.source + 2 * n
    f.sibling = f.child + 2 * n
    f.up = f.sibling + 2 * n
    f.state = f.up + 2 * n
    f.path = f.state + 2 * n
    f.first_word = f.path + 2 * n
    f.last_word = f.first_word + 2 * n
    f.next_word = f.last_word + 2 * n
    return f


cdef TreeStatus max_tree(int n, const double* scores, bint single_root, int* heads, double* value,
                         void* scratch) noexcept nogil:
    cdef Forest f = _lay_out(n, scores, scratch)
    cdef TreeStatus status
    cdef int m, n_roots = 0
    cdef double total = 0.0
    if pb_best_heads(n, 0, scores, f.best, f.greedy) and _has_bad_score(n, scores):
        return BAD_SCORE
    status = _grow(&f, False)
    if status == FOUND:
        _expand(&f, heads)
        for m in range(1, n):
            n_roots += heads[m] == 0
    if single_root and status == FOUND and n_roots > 1:
        pb_best_heads(n, 1, scores, f.best, f.greedy)
        status = _grow(&f, True)
        if status == FOUND:
            _expand(&f, heads)
    if status == FOUND:
        for m in range(1, n):
            total += scores[<Py_ssize_t>heads[m] * n + m]
        value[0] = total
    return status


cdef bint _has_bad_score(int n, const double* s) noexcept nogil:
    cdef int h, m
    for h in range(n):
        for m in range(1, n):
            if h != m and not s[<Py_ssize_t>h * n + m] <= -PB_FORBIDDEN:
                return True
    return False


cdef inline int _outermost(int* up, int c) noexcept nogil:
    while up[c] != c:
        up[c] = up[up[c]]
        c = up[c]
    return c


cdef TreeStatus _grow(Forest* f, bint avoid_root) noexcept nogil:
    """Choose an in-arc for every component, contracting cycles; `best` and `greedy` hold the choices of words.

    With `avoid_root` these choices exclude the root. A component without any other in-arc then takes a root arc; if two
    components need one, there is no tree.
    """
    cdef int v, c, d, depth, n_roots = 0
    f.n_components = f.n
    for v in range(f.n):
        f.source[v] = <int>f.greedy[v]
        f.up[v] = f.first_word[v] = f.last_word[v] = v
        f.next_word[v] = -1
        f.state[v] = NEW
    f.state[0] = DONE
    for v in range(1, f.n):
        c = _outermost(f.up, v)
        if f.state[c] == DONE:
            continue
        depth = 0
        while True:
            f.state[c] = ON_PATH
            f.path[depth] = c
            depth += 1
            if f.source[c] < 0:
                n_roots += 1
                if not avoid_root or n_roots > 1 or not (f.s[c] > PB_FORBIDDEN if c < f.n else
                                                         f.rows[<Py_ssize_t>(c - f.n) * f.n] > -INFINITY):
                    return NO_TREE
                f.source[c] = 0
                break
            d = _outermost(f.up, f.source[c])
            if f.state[d] == DONE:
                break
            c = d if f.state[d] == NEW else _contract(f, d, &depth, avoid_root)
        while depth > 0:
            depth -= 1
            f.state[f.path[depth]] = DONE
    return FOUND


cdef int _contract(Forest* f, int bottom, int* depth, bint avoid_root) noexcept nogil:
    """Contract the path from `bottom` to its end to one component, and return it."""
    cdef int c = f.n_components, k = -1, u, n = f.n
    cdef double* row = f.rows + <Py_ssize_t>(c - n) * n
    f.n_components += 1
    f.up[c] = c
    f.state[c] = NEW
    f.child[c] = f.first_word[c] = -1
    for u in range(n):
        row[u] = -INFINITY
    while k != bottom:
        depth[0] -= 1
        k = f.path[depth[0]]
        f.up[k] = c
        f.sibling[k] = f.child[c]
        f.child[c] = k
        if k < n:
            pb_raise_column(n, f.s, k, f.best[k], row)
        else:
            pb_raise(n, f.rows + <Py_ssize_t>(k - n) * n, f.best[k], row)
        if f.first_word[c] < 0:
            f.first_word[c] = f.first_word[k]
        else:
            f.next_word[f.last_word[c]] = f.first_word[k]
        f.last_word[c] = f.last_word[k]
    u = f.first_word[c]
    while u >= 0:
        row[u] = -INFINITY
        u = f.next_word[u]
    f.source[c] = pb_best(n, avoid_root, row, &f.best[c])
    return c


cdef void _expand(Forest* f, int* heads) noexcept nogil:
    """Set heads, outer components first: the arc into a component becomes the in-arc of the child that it enters."""
    cdef int c = f.n_components - 1, k, entered, u, n = f.n
    cdef double x, best
    while c >= n:
        u = f.source[c]
        k = f.child[c]
        entered = k
        best = -INFINITY
        while k >= 0:
            if k < n:
                x = f.s[<Py_ssize_t>u * n + k] if u != k else PB_FORBIDDEN
                x = x if x > PB_FORBIDDEN else -INFINITY
            else:
                x = f.rows[<Py_ssize_t>(k - n) * n + u]
            if x - f.best[k] > best:
                best = x - f.best[k]
                entered = k
            k = f.sibling[k]
        f.source[entered] = u
        c -= 1
    heads[0] = -1
    for u in range(1, n):
        heads[u] = f.source[u]


def max_arborescence(scores, single_root=False):
    """Find the maximum spanning arborescence, which is the best dependency tree for scores of arcs.

        max over trees of  sum over words m of scores[heads[m], m]

    Parameters
    ----------
    scores : array_like, shape (n + 1, n + 1)
        `scores[h, m]` of the arc from head h to word m; node 0 is the root, words are 1..n. The diagonal and column 0
        are ignored. -inf, like any score <= -1e300, forbids an arc; no score may exceed 1e300. float64 in C order is
        not copied.
    single_root : bool, default False
        Whether exactly one arc must leave the root.

    Returns
    -------
    heads : ndarray of int32, shape (n + 1,)
        Head of every word; `heads[0] = -1`.
    score : float
        Sum of the scores of the chosen arcs.

    Raises
    ------
    ParameterError, InputTypeError
        If the matrix is not square, has no word, allows no tree, or holds NaN or +inf where it is read.

    Notes
    -----
    O(n^2) time and memory: contraction (Tarjan 1977) along growing paths (Gabow et al. 1986). `single_root` is exact,
    without a large constant added to scores: trees are compared lexicographically, by root arcs first (compare Gabow
    and Tarjan 1984; Zmigrod, Vieira, Cotterell 2020). In a tie, words take their smallest best heads if these form a
    tree; the same input always has the same result.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.oracles import max_arborescence
    >>> scores = np.array([[0.0, 5.0, 4.0],
    ...                    [0.0, 0.0, 3.0],
    ...                    [0.0, 2.0, 0.0]])
    >>> heads, score = max_arborescence(scores)
    >>> heads.tolist(), score
    ([-1, 0, 0], 9.0)
    >>> heads, score = max_arborescence(scores, single_root=True)
    >>> heads.tolist(), score
    ([-1, 0, 1], 8.0)
    """
    cdef const double[:, ::1] view
    cdef int[::1] heads
    cdef int n
    cdef double value = 0.0
    cdef TreeStatus status
    cdef uint8_t[::1] scratch
    cdef bint single = check_flag("single_root", single_root)
    if not (isinstance(scores, np.ndarray) and scores.dtype == np.float64 and scores.ndim == 2
            and scores.flags.c_contiguous and scores.flags.aligned):
        scores = as_matrix(scores)
    view = scores
    if view.shape[0] != view.shape[1] or view.shape[0] < 2 or view.shape[0] > 30000:
        raise ParameterError(f"scores must have shape (n + 1, n + 1) for 1 <= n < 30000 words, got "
                             f"({view.shape[0]}, {view.shape[1]})")
    n = <int>view.shape[0]
    out = np.empty(n, np.int32)
    heads = out
    scratch = np.empty(tree_scratch(n), np.uint8)
    with nogil:
        status = max_tree(n, &view[0, 0], single, &heads[0], &value, &scratch[0])
    if status != FOUND:
        raise why_no_tree(np.asarray(view), single)
    return out, value


def solve_trees(const double[::1] scores, const int64_t[::1] starts, const int64_t[::1] words, bint single_root,
                int[::1] heads, double[::1] values, Py_ssize_t first, Py_ssize_t last):
    """Decode the sentences first..last - 1 of a batch; return the first without a tree, or -1.

    Matrix i begins at `scores[starts[i]]`; its heads go to `heads[words[i]:words[i + 1]]`.
    """
    cdef Py_ssize_t i, bad = -1
    cdef int n = 0
    for i in range(first, last):
        n = max(n, <int>(words[i + 1] - words[i]))
    cdef uint8_t[::1] scratch = np.empty(tree_scratch(n), np.uint8)
    with nogil:
        for i in range(first, last):
            n = <int>(words[i + 1] - words[i])
            if max_tree(n, &scores[starts[i]], single_root, &heads[words[i]], &values[i], &scratch[0]) != FOUND:
                bad = i
                break
    return bad


def as_matrix(scores):
    """Return `scores` as a float64 matrix in C order."""
    matrix = real_numbers(f"scores must be a matrix of real numbers, got {type(scores).__name__}", scores)
    if matrix.ndim != 2:
        raise ParameterError(f"scores must have shape (n + 1, n + 1), got {matrix.shape}")
    return matrix


def why_no_tree(scores, single_root, where=""):
    """Return the error for a matrix without a tree: a bad score, or words that the root cannot reach."""
    s = np.array(scores)
    n = len(s)
    s[:, 0] = -np.inf
    np.fill_diagonal(s, -np.inf)
    bad = np.argwhere(~(s <= -PB_FORBIDDEN))
    if len(bad):
        h, m = bad[0]
        return ParameterError(f"{where}scores[{h}, {m}] must be a number <= 1e300, or -inf to forbid the arc, "
                              f"got {s[h, m]}")
    allowed = s > PB_FORBIDDEN
    reached = np.zeros(n, dtype=bool)
    front = np.arange(n) == 0
    while front.any():
        reached |= front
        front = allowed[front].any(0) & ~reached
    if not reached.all():
        listed = np.flatnonzero(~reached)
        words = ", ".join(map(str, listed[:5])) + (", ..." if len(listed) > 5 else "")
        return ParameterError(f"{where}scores allow no tree: no path of allowed arcs leads from the root to word "
                              f"{words}; forbid fewer arcs")
    return ParameterError(f"{where}scores allow no tree with one root arc, only with several; forbid fewer arcs or "
                          f"pass single_root=False")


__test__ = {"max_arborescence": max_arborescence.__doc__}
