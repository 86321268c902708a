# Chains of labels: tables of scores, and the decoder for compiled callers without the GIL.

from libc.stdint cimport int32_t


cdef class ChainTables:
    # Transition and boundary scores of a chain, padded for the kernels; any number of threads may read them.
    cdef readonly Py_ssize_t n_labels     # K
    cdef readonly Py_ssize_t ld           # K rounded up to a multiple of PB_CHAIN_LANES
    cdef double[:, ::1] rows              # (K, ld) transition, padded with -inf
    cdef double[:, ::1] columns           # (K, ld) transpose of transition, padded with 0
    cdef double[::1] start                # (ld,) padded with -inf
    cdef double[::1] end                  # (ld,) padded with 0
    cdef double[:, ::1] mask              # (K, K) -inf where a transition is forbidden, else 0
    cdef double[:, ::1] ends_mask         # (2, K) -inf where a first or a last label is forbidden, else 0
    # the members below are set only if the tables are made for marginals
    cdef double top                       # largest transition score
    cdef double spread                    # largest minus smallest score of the allowed transitions
    cdef double steps                     # the result of `steps_between`
    cdef double[:, ::1] forward           # (K, ld) E = exp(transition - top), padded with 0
    cdef double[:, ::1] backward          # (K, ld) transpose of E
    cdef double[:, ::1] deviations        # (K, ld) transpose of E * (top - transition)
    cdef double[:, ::1] log_rows          # (K, ld) transition - top, padded with -inf

    # Replaces transition (K, K), start and end (K,) in tables that are not made for marginals; scores that were -inf
    # when the tables were made stay -inf
    cdef void place(self, const double* transition, const double* start, const double* end) noexcept nogil
    # Finds the best labelling of one chain; `scratch` holds length * ld doubles, fastest if aligned to 64 bytes.
    # Returns 0 if a score is NaN or +inf.
    cdef int viterbi(self, Py_ssize_t length, const double* unary, double* scratch, int32_t* labels,
                     double* value) noexcept nogil
    # Replaces transition (K, K) in tables made for marginals; forbidden pairs stay forbidden, other scores must be
    # finite. `viterbi` still reads the old scores
    cdef void place_factors(self, const double* transition) noexcept nogil
    # Writes the marginals of the positions of one chain to nodes (length, K), and the sums of the marginals of its
    # pairs to pairs (K, K). The tables must be made for marginals. `entropy` (2,) receives the entropy and a bound on
    # its error. `scratch` holds (3 * length + 2 + ld) * ld doubles and begins on a cache line. Returns log sum_y
    # exp(score), -inf if a score is NaN or +inf.
    cdef double marginals(self, Py_ssize_t length, const double* unary, double* scratch, double* nodes, double* pairs,
                          double* entropy) noexcept nogil


# Does the same as `viterbi` for one chain with scores of its own, and allocates scratch. NULL as start or end means 0.
# Returns 1; 0 if a score of `unary` is NaN or +inf, while other scores are not checked; -1 if memory is short.
cdef int best_labelling(Py_ssize_t length, Py_ssize_t K, const double* unary, const double* transition,
                        const double* start, const double* end, int32_t* labels, double* value) noexcept nogil
# Does the same as `marginals`, and returns what `best_labelling` returns; 0 also if every labelling is forbidden.
# nodes (length, K), pairs (K, K); entropy (2,) may be NULL
cdef int chain_marginals(Py_ssize_t length, Py_ssize_t K, const double* unary, const double* transition,
                         const double* start, const double* end, double* log_partition, double* nodes, double* pairs,
                         double* entropy) noexcept nogil
