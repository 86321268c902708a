# These are the signatures of compiled risks and oracles, version 1; pybundle.h declares the same ones. Solvers call the
# functions without the GIL and from several threads at once. A function returns 0 for success; any other number appears
# unchanged in the error message.

from libc.stdint cimport int32_t, int64_t

# The function sets `value` to the risk R_part(w) of one part, and `slope` (dim,) to a subgradient of it. w has shape
# (dim,). `slope` holds zeros before the call, so that the function may also add to it.
ctypedef int (*risk_function)(const double* w, int64_t dim, int64_t part, double* value, double* slope,
                              void* user_data) noexcept nogil

# The function finds the labelling of largest loss plus score of an example at w (dim,). It writes the labelling into
# `labelling` (label_size,), which holds zeros before the call, and its loss plus score, less the score of the truth,
# into `value`. It sets `upper`, a proven upper bound of the maximum, only if it does not find the maximum exactly.
ctypedef int (*solve_function)(const double* w, int64_t dim, int64_t example, int32_t* labelling, double* value,
                               double* upper, void* user_data) noexcept nogil

# The function sets `loss` and the slope psi of the plane loss + <psi, w> of a labelling (label_size,). psi consists of
# n_entries <= max_entries entries (indices[k], values[k]) in any order; entries with equal indices are added.
ctypedef int (*plane_function)(int64_t example, const int32_t* labelling, double* loss, int64_t* n_entries,
                               int32_t* indices, double* values, void* user_data) noexcept nogil


cdef struct Failure:        # how a call broke a rule
    int rule                # a `Rule`, 0 for none
    int code                # returned by the function
    int64_t where           # number of the part or example
    double value            # the invalid number


cdef class RiskCalls:
    cdef object _callable           # keeps function and user data alive
    cdef risk_function function
    cdef void* user_data
    cdef readonly Py_ssize_t dim, n_parts
    cdef const double[::1] low      # (n_parts,)

    # Sets values (n_parts,) and slopes (n_parts, dim) of the parts first..last - 1. The slopes must hold zeros before.
    cdef void call(self, const double* w, Py_ssize_t first, Py_ssize_t last, double* values, double* slopes,
                   Failure* failure) noexcept nogil


cdef class ExampleCalls:
    cdef object _callables
    cdef solve_function solve
    cdef plane_function plane
    cdef void* solve_data
    cdef void* plane_data
    cdef readonly Py_ssize_t n_examples, dim, label_size, max_entries

    # Sets and checks the labelling (label_size,), its value and its upper bound. The labelling must hold zeros before,
    # value and upper bound NAN.
    cdef void call_solve(self, const double* w, Py_ssize_t example, int32_t* labelling, double* value, double* upper,
                         Failure* failure) noexcept nogil
    # Sets and checks the loss of a plane, the entries of its slope and their number n.
    cdef void call_plane(self, Py_ssize_t example, const int32_t* labelling, double* loss, int64_t* n,
                         int32_t* indices, double* values, Failure* failure) noexcept nogil


# Raises an OracleError that names the function `what`, the rule which it broke, and the number of the part or example;
# `where` says which of these two it is.
cdef fail(Failure failure, str what, str where)
