# Signatures of compiled risks and oracles, version 1: the same as in pybundle.h. All of them are called without the
# GIL and from several threads at once; 0 means that all went well, any other number is reported as it is.

from libc.stdint cimport int32_t, int64_t

# R_part(w) and a subgradient of it
#   w (dim,); value: to be set; slope (dim,): zeros, to be set or added to
ctypedef int (*risk_function)(const double* w, int64_t dim, int64_t part, double* value, double* slope,
                              void* user_data) noexcept nogil

# The labelling of largest loss plus score of an example, relative to the truth, whose value is 0
#   w (dim,); labelling (label_size,): zeros, to be set; value: to be set; upper: a proven upper bound of the maximum,
#   to be set only where the oracle is not exact
ctypedef int (*solve_function)(const double* w, int64_t dim, int64_t example, int32_t* labelling, double* value,
                               double* upper, void* user_data) noexcept nogil

# The plane loss + <psi, w> of a labelling, psi as entries (index, value) in any order; those of one index add up
#   labelling (label_size,); loss, n_entries: to be set; indices, values (max_entries,): the first n_entries to be set
ctypedef int (*plane_function)(int64_t example, const int32_t* labelling, double* loss, int64_t* n_entries,
                               int32_t* indices, double* values, void* user_data) noexcept nogil


cdef struct Failure:        # of a call
    int rule                # which rule was broken, 0 for none
    int code                # what the function returned
    int64_t where           # part or example
    double value            # what it set


cdef class RiskCalls:
    cdef object _callable           # keeps function and user data alive
    cdef risk_function function
    cdef void* user_data
    cdef readonly Py_ssize_t dim, n_parts
    cdef object _lower_bounds
    cdef const double[::1] low      # (n_parts,)

    # values (n_parts,) and slopes (n_parts, dim), zeros, of the parts first..last
    cdef void call(self, const double* w, Py_ssize_t first, Py_ssize_t last, double* values, double* slopes,
                   Failure* failure) noexcept nogil


cdef class ExampleCalls:
    cdef object _callables
    cdef solve_function solve
    cdef plane_function plane
    cdef void* solve_data
    cdef void* plane_data
    cdef readonly Py_ssize_t n_examples, dim, label_size, max_entries

    # The labelling (label_size,), zeros before, its value and upper bound, NAN before, checked
    cdef void call_solve(self, const double* w, Py_ssize_t example, int32_t* labelling, double* value, double* upper,
                         Failure* failure) noexcept nogil
    # loss, entries and their number n of one plane, checked
    cdef void call_plane(self, Py_ssize_t example, const int32_t* labelling, double* loss, int64_t* n,
                         int32_t* indices, double* values, Failure* failure) noexcept nogil


# Raises the OracleError that says which rule the function `what` broke, at which part or example.
cdef fail(Failure failure, str what, str where)
