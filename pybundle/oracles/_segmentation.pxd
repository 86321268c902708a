# The best cover of W columns by labelled segments of fixed widths, by dynamic programming from left to right.

# The labels in runs of neighbours of equal width: the scores of a run are contiguous, and only their maximum counts.
#   n_labels A; widths (A,); n_runs; run r holds the labels run_start[r]..run_start[r + 1] - 1, of width run_width[r]
cdef struct Alphabet:
    int n_labels
    const int* widths
    int n_runs
    const int* run_start
    const int* run_width

# Computes f(0) = 0, f(e) = max_a f(e - width(a)) + scores[e - width(a), a]. Returns the number of segments, or -1 if
# there is no cover.
#   scores (W, A); f, back (W + 1,): scratch; labels (W,): the cover from left to right; value: f(W)
cdef Py_ssize_t segment(const double* scores, Py_ssize_t W, Alphabet alphabet, double* f, int* back,
                        int* labels, double* value) noexcept nogil

# Does the same as `segment`, with transition[b, a] added where label a follows label b.
#   transition (A, A); f, back ((W + 2) * A,): scratch
cdef Py_ssize_t segment_pairs(const double* scores, const double* transition, Py_ssize_t W, Alphabet alphabet,
                              double* f, int* back, int* labels, double* value) noexcept nogil
