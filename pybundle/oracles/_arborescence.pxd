# The maximum spanning arborescence of a dense matrix of scores, for compiled callers.

cdef enum TreeStatus:
    FOUND = 0
    BAD_SCORE = 1
    NO_TREE = 2

# Returns the bytes of scratch that max_tree needs for matrices of up to n rows
cdef size_t tree_scratch(int n) noexcept nogil

# Sets the heads (n,) of the best tree, heads[0] = -1, and its value, the sum of its scores.
# scores (n, n), n >= 2, is row-major: scores[h, m] belongs to the arc h -> m. Column 0 and the diagonal are not read.
# scratch has tree_scratch(n) bytes and is aligned for doubles.
cdef TreeStatus max_tree(int n, const double* scores, bint single_root, int* heads, double* value,
                         void* scratch) noexcept nogil
