# Signatures of compiled risks and oracles, version 1, identical to pybundle.h. The functions are called without the
# GIL and from several threads at once. They return 0 for success; any other number is reported unchanged.

from libc.stdint cimport int32_t, int64_t

# R_part(w) and a subgradient of it
#   w (dim,); value: to be set; slope (dim,): zeros, to be set or added to
ctypedef int (*risk_function)(const double* w, int64_t dim, int64_t part, double* value, double* slope,
                              void* user_data) noexcept nogil

# The labelling of largest loss plus score of an example, relative to the truth, whose value is 0
#   w (dim,); labelling (label_size,): zeros, to be set; value: to be set; upper: a proven upper bound of the maximum,
#   to be set only if the oracle is not exact
ctypedef int (*solve_function)(const double* w, int64_t dim, int64_t example, int32_t* labelling, double* value,
                               double* upper, void* user_data) noexcept nogil

# The plane loss + <psi, w> of a labelling, psi as entries (index, value) in any order; equal indices are added
#   labelling (label_size,); loss, n_entries: to be set; indices, values (max_entries,): the first n_entries to be set
ctypedef int (*plane_function)(int64_t example, const int32_t* labelling, double* loss, int64_t* n_entries,
                               int32_t* indices, double* values, void* user_data) noexcept nogil


cdef struct Failure:        # how a call broke a rule
    int rule                # a `Rule`, 0 for none
    int code                # returned by the function
    int64_t where           # part or example
    double value            # the invalid number


cdef class RiskCalls:
    cdef object _callable           # keeps function and user data alive
    cdef risk_function function
    cdef void* user_data
    cdef readonly Py_ssize_t dim, n_parts
    cdef const double[::1] low      # (n_parts,)

    # Sets values (n_parts,) and slopes (n_parts, dim), zeros before, of the parts first..last - 1
    cdef void call(self, const double* w, Py_ssize_t first, Py_ssize_t last, double* values, double* slopes,
                   Failure* failure) noexcept nogil


cdef class ExampleCalls:
    cdef object _callables
    cdef solve_function solve
    cdef plane_function plane
    cdef void* solve_data
    cdef void* plane_data
    cdef readonly Py_ssize_t n_examples, dim, label_size, max_entries

    # Sets and checks the labelling (label_size,), zeros before, its value and upper bound, NAN before
    cdef void call_solve(self, const double* w, Py_ssize_t example, int32_t* labelling, double* value, double* upper,
                         Failure* failure) noexcept nogil
    # Sets and checks the loss, the entries and their number n of one plane
    cdef void call_plane(self, Py_ssize_t example, const int32_t* labelling, double* loss, int64_t* n,
                         int32_t* indices, double* values, Failure* failure) noexcept nogil


# Raises an OracleError: which rule the function `what` broke, and for which part or example.
cdef fail(Failure failure, str what, str where)
