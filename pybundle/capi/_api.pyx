"""The functions of `pybundle.h`, as a table: an opaque handle holds a `Machine`, and exceptions become error codes.

Each function takes the GIL, which its caller need not hold; solvers call the functions of a problem without the GIL.
The functions of the table first check that Python runs, because a host may free solvers after Python was finalised.
"""

from os import fsdecode

import numpy as np

from ..core.exceptions import ParameterError
from ..core.validation import check_integer
from ..core.version import __version__
from ..qp import solve_simplex_qp
from .machine import Busy, Machine, code_of

from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from pybundle.capi._decoders cimport (
    arborescence_marginals,
    forward_backward,
    max_arborescence,
    min_cut,
    viterbi,
)
from pybundle.capi._structs cimport array, make_risk, pb_problem, pb_result, pb_settings, settings_of, tell

cdef extern from "Python.h" nogil:
    bint Py_IsInitialized()

cdef extern from "pybundle.h" nogil:
    int PB_ABI
    int PB_OK, PB_RUNNING, PB_STOPPED, PB_PARAMETER, PB_ORACLE, PB_NUMERICAL, PB_MEMORY, PB_BUSY, PB_KEYBOARD
    int PB_INTERNAL, PB_FILE, PB_PAUSED
    ctypedef struct pb_solver:
        pass
    ctypedef struct pb_api:
        int32_t abi
        size_t size
        void (*settings)(pb_settings*) noexcept nogil
        int (*init)(const pb_problem*, const pb_settings*, const double*, pb_solver**) noexcept nogil
        int (*step)(pb_solver*) noexcept nogil
        int (*progress)(pb_solver*, pb_result*, double*) noexcept nogil
        int64_t (*history)(pb_solver*, const char*, int64_t, double*) noexcept nogil
        int (*finish)(pb_solver*, pb_result*, double*) noexcept nogil
        int (*resume)(pb_solver*, const pb_settings*) noexcept nogil
        int (*start_from)(pb_solver*, pb_solver*) noexcept nogil
        int (*save_certificate)(pb_solver*, const char*) noexcept nogil
        const char* (*error)(pb_solver*) noexcept nogil
        void (*free)(pb_solver*) noexcept nogil
        const char* version
        int (*viterbi)(int64_t, int64_t, const double*, const double*, const double*, const double*, int32_t*,
                       double*) noexcept nogil
        int (*forward_backward)(int64_t, int64_t, const double*, const double*, const double*, const double*, double*,
                                double*, double*, double*) noexcept nogil
        int (*max_arborescence)(int64_t, const double*, int32_t, int32_t*, double*) noexcept nogil
        int (*arborescence_marginals)(int64_t, const double*, int32_t, double*, double*) noexcept nogil
        int (*min_cut)(int64_t, int64_t, const double*, const int32_t*, const double*, const double*, uint8_t*,
                       double*, double*) noexcept nogil
        int (*simplex_qp)(int64_t, const double*, const double*, const int32_t*, int64_t, const uint8_t*, double,
                          double*, double*) noexcept nogil

CODES = {"PB_PARAMETER": PB_PARAMETER, "PB_ORACLE": PB_ORACLE, "PB_NUMERICAL": PB_NUMERICAL, "PB_MEMORY": PB_MEMORY,
         "PB_BUSY": PB_BUSY, "PB_KEYBOARD": PB_KEYBOARD, "PB_INTERNAL": PB_INTERNAL,
         "PB_FILE": PB_FILE}


cdef class Handle:
    """The object behind a `pb_solver`: a machine, and the text of its last error."""

    cdef object machine
    cdef int64_t dim
    cdef bytes text
    cdef str reason         # why `init` failed

    cdef int fail(self, error):
        """Return the code of an exception and keep its text, except for `PB_BUSY`, when another call is under way."""
        name = code_of(error)
        if name != "PB_BUSY":
            self.text = (str(error) or type(error).__name__).encode()
        return CODES[name]


cdef write(const double[::1] numbers, double* to, Py_ssize_t n):
    """Copy the first n numbers to the host, unless it passed NULL."""
    if to != NULL and n > 0:
        memcpy(to, &numbers[0], n * sizeof(double))


# ---------------------------------------------------------------------- functions of the table: safe without Python

cdef void api_settings(pb_settings* settings) noexcept nogil:
    cdef pb_settings made
    if settings == NULL:
        return
    cdef size_t known = settings.size
    memset(&made, 0, sizeof(pb_settings))
    made.size, made.method, made.tol, made.max_iter, made.n_jobs = known, "auto", 1e-2, 10000, 1
    memcpy(settings, &made, min(known, sizeof(pb_settings)))


cdef int api_init(const pb_problem* problem, const pb_settings* settings, const double* w0,
                  pb_solver** solver) noexcept nogil:
    if solver == NULL:
        return PB_PARAMETER
    solver[0] = NULL
    return init(problem, settings, w0, solver) if Py_IsInitialized() else PB_INTERNAL


cdef int api_step(pb_solver* solver) noexcept nogil:
    return step(solver) if Py_IsInitialized() else PB_INTERNAL


cdef int api_progress(pb_solver* solver, pb_result* result, double* w) noexcept nogil:
    return progress(solver, result, w) if Py_IsInitialized() else PB_INTERNAL


cdef int64_t api_history(pb_solver* solver, const char* column, int64_t room, double* values) noexcept nogil:
    return history(solver, column, room, values) if Py_IsInitialized() else PB_INTERNAL


cdef int api_finish(pb_solver* solver, pb_result* result, double* w) noexcept nogil:
    return finish(solver, result, w) if Py_IsInitialized() else PB_INTERNAL


cdef int api_resume(pb_solver* solver, const pb_settings* settings) noexcept nogil:
    return resume(solver, settings) if Py_IsInitialized() else PB_INTERNAL


cdef int api_start_from(pb_solver* solver, pb_solver* other) noexcept nogil:
    return start_from(solver, other) if Py_IsInitialized() else PB_INTERNAL


cdef int api_save_certificate(pb_solver* solver, const char* path) noexcept nogil:
    return save_certificate(solver, path) if Py_IsInitialized() else PB_INTERNAL


cdef int api_simplex_qp(int64_t n, const double* H, const double* f, const int32_t* parts, int64_t n_parts,
                        const uint8_t* slack, double tol, double* x, double* gap) noexcept nogil:
    return simplex_qp(n, H, f, parts, n_parts, slack, tol, x, gap) if Py_IsInitialized() else PB_INTERNAL


cdef const char* api_error(pb_solver* solver) noexcept nogil:
    if Py_IsInitialized():
        return error_text(solver)
    return "Python has been finalised, and the solver with it"


cdef void api_free(pb_solver* solver) noexcept nogil:
    if Py_IsInitialized():          # otherwise the end of Python has freed the solver
        free_solver(solver)


# ---------------------------------------------------------------------- functions of the table: the work with the GIL

cdef int init(const pb_problem* problem, const pb_settings* settings, const double* w0,
              pb_solver** solver) noexcept with gil:
    cdef Handle handle
    try:
        handle = Handle()
    except MemoryError:
        return PB_MEMORY
    Py_INCREF(handle)
    solver[0] = <pb_solver*><PyObject*>handle
    try:
        risk = make_risk(problem)
        handle.dim = risk.dim
        handle.machine = Machine(risk, settings_of(settings, risk.dim), array(w0, risk.dim, float))
        return PB_OK
    except BaseException as error:
        handle.reason = str(error)
        return handle.fail(error)


cdef Handle handle_of(pb_solver* solver):
    if solver == NULL:
        raise ParameterError("solver must not be NULL")
    cdef Handle handle = <Handle><PyObject*>solver
    if handle.machine is None:
        raise ParameterError(f"init of this solver failed ({handle.reason}); free it")
    return handle


cdef int failed(pb_solver* solver, error):
    """Return the code of an exception; the solver, if there is one, keeps the text of the exception."""
    cdef Handle handle = Handle() if solver == NULL else <Handle><PyObject*>solver
    return handle.fail(error)


cdef int step(pb_solver* solver) noexcept with gil:
    cdef Handle handle
    try:
        handle = handle_of(solver)
        is_over = handle.machine.step()
        handle.text = None
        return PB_STOPPED if is_over else PB_RUNNING
    except BaseException as error:
        return failed(solver, error)


cdef int progress(pb_solver* solver, pb_result* result, double* w) noexcept with gil:
    cdef Handle handle
    try:
        handle = handle_of(solver)
        machine = handle.machine
        at = machine.progress()
        if result != NULL:
            tell(result, PB_PAUSED if machine.status is None else machine.status, False, at.n_iter, at)
        write(at.x, w, handle.dim)
        return PB_OK
    except BaseException as error:
        return failed(solver, error)


cdef int64_t history(pb_solver* solver, const char* column, int64_t room, double* values) noexcept with gil:
    try:
        if column == NULL or values == NULL and room > 0:
            raise ParameterError("column must not be NULL, nor values where room > 0")
        found = handle_of(solver).machine.history(column.decode())
        write(found, values, min(<int64_t>len(found), room))
        return len(found)
    except BaseException as error:
        return failed(solver, error)


cdef int finish(pb_solver* solver, pb_result* result, double* w) noexcept with gil:
    cdef Handle handle
    try:
        handle = handle_of(solver)
        found = handle.machine.finish()
        if result != NULL:
            tell(result, found.status, found.certified, found.nit, found)
        write(found.x, w, handle.dim)
        return PB_OK
    except BaseException as error:
        return failed(solver, error)


cdef int resume(pb_solver* solver, const pb_settings* settings) noexcept with gil:
    cdef Handle handle
    try:
        handle = handle_of(solver)
        handle.machine.resume(None if settings == NULL else settings_of(settings, handle.dim))
        handle.text = None
        return PB_OK
    except BaseException as error:
        return failed(solver, error)


cdef int start_from(pb_solver* solver, pb_solver* other) noexcept with gil:
    try:
        handle_of(solver).machine.start_from(handle_of(other).machine)
        return PB_OK
    except BaseException as error:
        return failed(solver, error)


cdef int save_certificate(pb_solver* solver, const char* path) noexcept with gil:
    try:
        if path == NULL:
            raise ParameterError("path must not be NULL")
        certificate = handle_of(solver).machine.finish(certificate=True).certificate
        if certificate is None:
            raise ParameterError("there is no certificate to save: the result is not certified, or its penalty cannot "
                                 "be stored")
        certificate.save(fsdecode(path))
        return PB_OK
    except BaseException as error:
        return failed(solver, error)


cdef int simplex_qp(int64_t n, const double* H, const double* f, const int32_t* parts, int64_t n_parts,
                    const uint8_t* slack, double tol, double* x, double* gap) noexcept with gil:
    try:
        check_integer("n", n, low=1)
        if H == NULL or f == NULL or parts == NULL or x == NULL or gap == NULL:
            raise ParameterError("H, f, parts, x and gap must not be NULL")
        given = array(slack, check_integer("n_parts", n_parts, low=0), bool)
        found = solve_simplex_qp(<double[:n, :n]><double*>H, array(f, n, float), array(parts, n, np.int32), tol,
                                 np.zeros(n_parts, bool) if given is None else given, array(x, n, float))
        write(found.x, x, n)
        gap[0] = found.gap
        return PB_OK if found.success else PB_NUMERICAL
    except BaseException as error:
        return failed(NULL, error)


cdef const char* error_text(pb_solver* solver) noexcept with gil:
    cdef Handle handle
    if solver == NULL:
        return "there is no solver"
    handle = <Handle><PyObject*>solver
    try:
        if handle.text is None:
            handle.text = handle.machine.message().encode()
        return handle.text
    except BaseException:
        return "the error has no text"


cdef void free_solver(pb_solver* solver) noexcept with gil:
    cdef Handle handle
    if solver == NULL:
        return
    handle = <Handle><PyObject*>solver
    try:
        if handle.machine is not None:
            handle.machine.close()
    except Busy:                    # another call uses the solver, perhaps in this very thread
        return
    Py_DECREF(handle)


cdef char[32] VERSION               # a C array, which outlives the interpreter, as the table does
cdef bytes _version = __version__.encode()[:31]
memcpy(VERSION, <const char*>_version, len(_version) + 1)

cdef pb_api API
API.abi, API.size = PB_ABI, sizeof(pb_api)
API.settings, API.init, API.step, API.progress = api_settings, api_init, api_step, api_progress
API.history, API.finish, API.resume, API.start_from = api_history, api_finish, api_resume, api_start_from
API.save_certificate, API.error, API.free = api_save_certificate, api_error, api_free
API.version = VERSION
API.viterbi, API.forward_backward, API.max_arborescence = viterbi, forward_backward, max_arborescence
API.arborescence_marginals, API.min_cut, API.simplex_qp = arborescence_marginals, min_cut, api_simplex_qp

_C_API = PyCapsule_New(&API, "pybundle.capi._C_API", NULL)
