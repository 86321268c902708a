"""Convert structs of C programs to a risk, settings and arrays of Python, and results to a struct."""

from os import fsdecode

import numpy as np
from scipy import LowLevelCallable

from ..core.exceptions import ParameterError
from ..core.validation import check_integer
from ..core.version import __version__
from ..risks import ExampleFunctions, Function
from ..risks._compiled import PLANE, RISK, SOLVE
from ..solvers.checkpointing import Checkpoint
from .arguments import penalty_of, rows_of

from cpython.pycapsule cimport PyCapsule_New, PyCapsule_SetContext
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from pybundle.risks._compiled cimport plane_function, risk_function, solve_function

cdef bytes RISK_NAME = RISK.encode(), SOLVE_NAME = SOLVE.encode(), PLANE_NAME = PLANE.encode()


cdef copy_struct(void* to, const void* given, size_t size, str name):
    """Copy a struct to the `size` bytes of `to`, padded with 0; further bytes of a longer struct must be 0."""
    if given == NULL:
        raise ParameterError(f"{name} must not be NULL")
    cdef size_t known = (<const size_t*>given)[0]
    if known < sizeof(size_t):
        raise ParameterError(f"size of {name} must be set, got {known}; make it with PB_INIT({name})")
    cdef size_t at
    for at in range(size, known):
        if (<const char*>given)[at]:
            raise ParameterError(f"{name} sets an option at byte {at}, but this pybundle ({__version__}) knows {size} "
                                 "bytes; this option needs a newer pybundle")
    memset(to, 0, size)
    memcpy(to, given, min(known, size))


cdef function(void* pointer, bytes name, void* user_data):
    """Return a LowLevelCallable; `name` must exist for as long as this callable does."""
    if pointer == NULL:
        raise ParameterError("risk of pb_problem, or solve and plane, must not be NULL")
    capsule = PyCapsule_New(pointer, <const char*>name, NULL)
    PyCapsule_SetContext(capsule, user_data)
    return LowLevelCallable(capsule)


cdef class Log:
    """Calls the log function of a host."""

    cdef pb_log_function function
    cdef void* data

    def __call__(self, str line):
        cdef bytes text = line.encode()
        cdef const char* start = text
        with nogil:
            self.function(start, self.data)


cdef array(const void* at, int64_t n, dtype):
    if at == NULL:
        return None
    return np.frombuffer((<const char*>at)[:n * np.dtype(dtype).itemsize], dtype)


cdef make_risk(const pb_problem* given):
    cdef pb_problem problem
    cdef risk_function risk
    cdef solve_function solve
    cdef plane_function plane
    copy_struct(&problem, given, sizeof(pb_problem), "pb_problem")
    # these assignments are where the compiler compares the signatures of the header and of the package
    risk, solve, plane = problem.risk, problem.solve, problem.plane
    if risk != NULL and (solve != NULL or plane != NULL):
        raise ParameterError("risk of pb_problem must be NULL where solve or plane is set, got both; set either risk, "
                             "or solve and plane")
    if risk == NULL:
        return ExampleFunctions(
            function(<void*>solve, SOLVE_NAME, problem.user_data),
            function(<void*>plane, PLANE_NAME, problem.user_data), problem.n_examples, problem.dim,
            problem.label_size, problem.max_entries, n_parts=problem.n_parts if problem.n_parts else None,
            sample_weight=array(problem.sample_weight, problem.n_examples, float))
    n_parts = check_integer("n_parts", problem.n_parts, low=1)
    if problem.sample_weight != NULL:
        raise ParameterError("sample_weight of pb_problem must be NULL where risk is set: multiply in that function")
    return Function(function(<void*>risk, RISK_NAME, problem.user_data), problem.dim, n_parts,
                    array(problem.lower_bounds, n_parts, float), problem.smooth != 0)


cdef settings_of(const pb_settings* given, int64_t dim):
    cdef pb_settings settings
    cdef int64_t n_rows, n_entries
    copy_struct(&settings, given, sizeof(pb_settings), "pb_settings")
    if settings.method == NULL:
        raise ParameterError("method of pb_settings must not be NULL; fill in the defaults with `settings`")
    if settings.lam and settings.lams != NULL:
        raise ParameterError(f"lam of pb_settings must be 0 where lams is set, got {settings.lam}")
    n_groups = check_integer("n_groups", settings.n_groups, low=0)
    n_rows = check_integer("n_rows", settings.n_rows, low=0)
    constraints, log = None, None
    if settings.log != NULL:
        log = Log()
        (<Log>log).function, (<Log>log).data = settings.log, settings.log_data
    if n_rows:
        if settings.row_starts == NULL or settings.row_columns == NULL or settings.row_values == NULL:
            raise ParameterError("row_starts, row_columns and row_values of pb_settings must not be NULL where "
                                 f"n_rows > 0, got n_rows = {n_rows}")
        n_entries = check_integer(f"row_starts[{n_rows}]", settings.row_starts[n_rows], low=0)
        constraints = rows_of(
            array(settings.row_values, n_entries, float), array(settings.row_columns, n_entries, np.int32),
            array(settings.row_starts, n_rows + 1, np.int64), dim, array(settings.row_lower, n_rows, float),
            array(settings.row_upper, n_rows, float))
    return {
        "method": settings.method.decode(),
        **penalty_of(settings.lam or array(settings.lams, dim, float), settings.l1,
                     array(settings.groups, dim, np.int32), array(settings.group_rates, n_groups, float),
                     array(settings.lower, dim, float), array(settings.upper, dim, float), settings.radius),
        "constraints": constraints, "scale": "mean" if settings.is_mean else "sum", "verbose": settings.verbose,
        "log": log,
        "checkpoint": None if settings.checkpoint == NULL else Checkpoint(
            fsdecode(settings.checkpoint), settings.checkpoint_every or None), "evidence": settings.evidence != 0,
        "tol": settings.tol, "atol": settings.atol or None, "time_limit": settings.time_limit or None,
        "max_iter": settings.max_iter, "memory_limit": settings.memory_limit or None,
        "n_jobs": settings.n_jobs, "random_state": settings.random_state}


cdef tell(pb_result* to, int status, bint certified, int64_t n_iter, found):
    cdef pb_result result
    cdef size_t known = to.size
    if known < sizeof(size_t):
        raise ParameterError(f"size of pb_result must be set, got {known}; make it with PB_INIT(pb_result)")
    result.size, result.status, result.certified = known, status, certified
    result.fun, result.lower_bound, result.gap, result.n_iter = found.fun, found.lower_bound, found.gap, n_iter
    result.n_passes, result.n_planes, result.seconds = found.n_passes, found.n_planes, found.seconds["total"]
    memcpy(to, &result, min(known, sizeof(pb_result)))
