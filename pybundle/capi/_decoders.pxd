# The decoders of pybundle.h, which has their descriptions; they need neither the GIL nor an interpreter.

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef int viterbi(int64_t length, int64_t n_labels, const double* unary, const double* transition, const double* start,
                 const double* end, int32_t* labelling, double* value) noexcept nogil
cdef int forward_backward(int64_t length, int64_t n_labels, const double* unary, const double* transition,
                          const double* start, const double* end, double* log_partition, double* nodes, double* pairs,
                          double* entropy) noexcept nogil
cdef int max_arborescence(int64_t n_words, const double* scores, int32_t single_root, int32_t* heads,
                          double* value) noexcept nogil
cdef int arborescence_marginals(int64_t n_words, const double* scores, int32_t single_root, double* marginals,
                                double* log_partition) noexcept nogil
cdef int min_cut(int64_t n_nodes, int64_t n_edges, const double* unary, const int32_t* edges, const double* weights,
                 const double* tables, uint8_t* labels, double* value, double* upper) noexcept nogil
