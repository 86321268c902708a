# Maximum spanning arborescence of a dense matrix of scores, for compiled callers.

cdef enum TreeStatus:
    FOUND = 0
    BAD_SCORE = 1
    NO_TREE = 2

# Bytes of scratch that max_tree needs for matrices of up to n rows
cdef size_t tree_scratch(int n) noexcept nogil

# Sets the heads (n,) of the best tree, heads[0] = -1, and its value, the sum of its scores.
#   scores (n, n) row-major, scores[h, m] of the arc h -> m, n >= 2; column 0 and the diagonal are not used
#   scratch: tree_scratch(n) bytes, aligned for doubles
cdef TreeStatus max_tree(int n, const double* scores, bint single_root, int* heads, double* value,
                         void* scratch) noexcept nogil
