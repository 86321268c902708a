# The structs that C programs pass, and functions that convert them to objects of Python and back.

from libc.stdint cimport int32_t, int64_t

cdef extern from "pybundle.h" nogil:
    ctypedef int (*pb_risk_function)(const double*, int64_t, int64_t, double*, double*, void*) noexcept nogil
    ctypedef int (*pb_solve_function)(const double*, int64_t, int64_t, int32_t*, double*, double*,
                                      void*) noexcept nogil
    ctypedef int (*pb_plane_function)(int64_t, const int32_t*, double*, int64_t*, int32_t*, double*,
                                      void*) noexcept nogil
    ctypedef void (*pb_log_function)(const char*, void*) noexcept nogil
    ctypedef struct pb_problem:
        size_t size
        int64_t dim, n_parts, n_examples, label_size, max_entries
        pb_risk_function risk
        const double* lower_bounds
        pb_solve_function solve
        pb_plane_function plane
        const double* sample_weight
        void* user_data
        int32_t smooth
    ctypedef struct pb_settings:
        size_t size
        const char* method
        double lam
        const double* lams
        double l1
        int64_t n_groups
        const int32_t* groups
        const double* group_rates
        const double* lower
        const double* upper
        double radius
        int64_t n_rows
        const int64_t* row_starts
        const int32_t* row_columns
        const double* row_values
        const double* row_lower
        const double* row_upper
        double tol, atol, time_limit
        int64_t max_iter, memory_limit, n_jobs, random_state
        int32_t is_mean, verbose
        pb_log_function log
        void* log_data
        const char* checkpoint
        double checkpoint_every
        int32_t evidence
    ctypedef struct pb_result:
        size_t size
        int32_t status, certified
        double fun, lower_bound, gap, n_passes, seconds
        int64_t n_iter, n_planes


# Returns the risk that a problem describes.
cdef make_risk(const pb_problem* given)
# Returns the arguments of `minimize`.
cdef settings_of(const pb_settings* given, int64_t dim)
# Fills in the fields of a result that fit into the size its owner has set.
cdef tell(pb_result* to, int status, bint certified, int64_t n_iter, found)
# Returns a copy of n numbers as an array, or None if the pointer is NULL.
cdef array(const void* at, int64_t n, dtype)
