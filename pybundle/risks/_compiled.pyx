"""Call compiled functions, `scipy.LowLevelCallable`, in loops over parts or examples without the GIL.

A call costs tens of nanoseconds plus the time of the function. All numbers that the function sets are checked.
"""

import ctypes
import re

import numpy as np
from scipy import LowLevelCallable

from ..core.exceptions import InputTypeError, OracleError
from ..core.validation import check_vector

from cpython.pycapsule cimport PyCapsule_GetContext, PyCapsule_GetName, PyCapsule_GetPointer
from libc.math cimport NAN, isfinite
from libc.string cimport memset

from pybundle.features._compiled_oracle cimport CompiledOracle
from pybundle.features._plane_rows cimport PlaneRows

RISK = "int (double *, int64, int64, double *, double *, void *)"
SOLVE = "int (double *, int64, int64, int *, double *, double *, void *)"
PLANE = "int (int64, int *, double *, int64 *, int *, double *, void *)"

SPELLINGS = {"int32_t": "int", "int32": "int", "int64_t": "int64", "float64": "double", "long long": "int64",
             "longlong": "int64"}
if ctypes.sizeof(ctypes.c_long) == 8:
    SPELLINGS["long"] = "int64"

cdef enum Rule:
    KEPT = 0
    CODE            # the function returned a code
    FINITE_VALUE
    FINITE_SLOPE
    LOWER_BOUND
    UPPER_BOUND
    LOSS
    ENTRIES         # n_entries out of range
    INDEX
    FINITE_ENTRY


def spelling(signature):
    """Return a C signature in the spelling of this module: without `const`, each 64-bit integer as `int64`.

    >>> spelling("int (double const *, long long, int64_t,  int32_t*)")
    'int (double *, int64, int64, int *)'
    """
    result, _, arguments = signature.replace("const", " ").partition("(")
    words = []
    for argument in [result, *arguments.rstrip(") ").split(",")]:
        stars = argument.count("*")
        name = " ".join(argument.replace("*", " ").split())
        name = re.sub(r"^__pyx_t_.*_(int\d+_t)$", r"\1", name)          # Cython's name of a cimported type
        words.append(SPELLINGS.get(name, name) + (" " + "*" * stars if stars else ""))
    return f"{words[0]} ({', '.join(words[1:])})"


cdef void* unwrap(str name, callable, str wanted, void** user_data) except NULL:
    """Return the function of a LowLevelCallable with the signature `wanted`, and set its user data."""
    if not isinstance(callable, LowLevelCallable):
        raise InputTypeError(f"{name} must be a scipy.LowLevelCallable, got {type(callable).__name__}; wrap a ctypes, "
                             "cffi or numba function or a capsule in one")
    found = callable.signature
    if found is None or spelling(found) != wanted:
        raise InputTypeError(f"{name} must have the signature {wanted!r} (int64 as long, long long or int64_t), got "
                             f"{found!r}")
    capsule = tuple.__getitem__(callable, 0)        # the capsule is the first item, as in ccallback.h of SciPy
    user_data[0] = PyCapsule_GetContext(capsule)
    return PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))


cdef fail(Failure failure, str what, str where):
    """Raise an OracleError that names the rule which the function `what` broke, and the part or example."""
    at = f"for {where} {failure.where}"
    raise OracleError({
        CODE: f"{what} returned code {failure.code} {at}; expected 0 for success, other codes are the function's own",
        FINITE_VALUE: f"{what} must set a finite value, got {failure.value} {at}",
        FINITE_SLOPE: f"{what} must set finite subgradients, got {failure.value} {at}",
        LOWER_BOUND: f"{what} set the value {failure.value:g} {at}, below its lower bound; correct lower_bounds or "
                     "omit them",
        UPPER_BOUND: f"{what} must set upper to a finite number >= value, or leave it unset, got {failure.value} {at}",
        LOSS: f"{what} must set a finite loss >= 0, got {failure.value} {at}",
        ENTRIES: f"{what} must set n_entries to a number 0..max_entries, got {failure.value:.0f} {at}",
        INDEX: f"{what} must set indices 0..dim - 1, got {failure.value:.0f} {at}",
        FINITE_ENTRY: f"{what} must set finite entries, got {failure.value} {at}",
    }[failure.rule])


cdef inline void set_failure(Failure* failure, int rule, int64_t where, double value) noexcept nogil:
    failure.rule, failure.where, failure.value = rule, where, value


cdef class RiskCalls:
    """Call one compiled function for each of the P parts of a risk.

    Parameters
    ----------
    function : LowLevelCallable
        Its signature is `RISK`.
    dim : int
    lower_bounds : float64 array, shape (P,)
    """

    def __init__(self, function, Py_ssize_t dim, lower_bounds):
        self.function = <risk_function>unwrap("fun", function, RISK, &self.user_data)
        self._callable, self.dim, self.n_parts, self.low = function, dim, len(lower_bounds), lower_bounds

    cdef void call(self, const double* w, Py_ssize_t first, Py_ssize_t last, double* values, double* slopes,
                   Failure* failure) noexcept nogil:
        cdef Py_ssize_t p, k
        cdef double* slope
        cdef double low
        for p in range(first, last):
            slope = slopes + p * self.dim
            values[p] = NAN         # remains NaN if the function sets no value
            failure.code = self.function(w, self.dim, p, &values[p], slope, self.user_data)
            if failure.code:
                set_failure(failure, CODE, p, 0.0)
                return
            if not isfinite(values[p]):
                set_failure(failure, FINITE_VALUE, p, values[p])
                return
            low = self.low[p]
            if values[p] < low - 1e-9 * (1.0 + abs(low)):
                set_failure(failure, LOWER_BOUND, p, values[p])
                return
            for k in range(self.dim):
                if not isfinite(slope[k]):
                    set_failure(failure, FINITE_SLOPE, p, slope[k])
                    return

    def evaluate(self, w, mapping=None, ranges=None):
        """Return values (P,) and subgradients (P, dim) at w; a `mapping` like `map` evaluates the `ranges` of parts."""
        point = check_vector("w", w, self.dim)
        values, slopes = np.empty(self.n_parts), np.zeros((self.n_parts, self.dim))
        cdef const double[::1] x = point
        cdef double[::1] value = values
        cdef double[:, ::1] slope = slopes
        cdef Failure failure
        if mapping is not None:
            list(mapping(lambda span: self.evaluate_range(point, span, values, slopes), ranges))
            return values, slopes
        failure.rule = KEPT
        with nogil:
            self.call(&x[0], 0, self.n_parts, &value[0], &slope[0, 0], &failure)
        if failure.rule:
            fail(failure, "fun", "part")
        return values, slopes

    def evaluate_range(self, const double[::1] w, span, double[::1] values, double[:, ::1] slopes):
        """Write values and subgradients of the parts span[0]..span[1] - 1 into arrays for all parts."""
        cdef Py_ssize_t first = span[0], last = span[1]
        cdef Failure failure
        failure.rule = KEPT
        with nogil:
            self.call(&w[0], first, last, &values[0], &slopes[0, 0], &failure)
        if failure.rule:
            fail(failure, "fun", "part")


cdef class ExampleCalls:
    """Call two compiled functions for the decodings and the planes of single examples.

    Parameters
    ----------
    solve, plane : LowLevelCallable
        Their signatures are `SOLVE` and `PLANE`.
    n_examples, dim : int
    label_size : int
        Number of integers in a labelling.
    max_entries : int
        Largest number of entries of a plane; entries of equal index count separately.
    """

    def __init__(self, solve, plane, Py_ssize_t n_examples, Py_ssize_t dim, Py_ssize_t label_size,
                 Py_ssize_t max_entries):
        self.solve = <solve_function>unwrap("solve", solve, SOLVE, &self.solve_data)
        self.plane = <plane_function>unwrap("plane", plane, PLANE, &self.plane_data)
        self._callables = solve, plane
        self.n_examples, self.dim = n_examples, dim
        self.label_size, self.max_entries = label_size, max_entries

    def solve_batch(self, const Py_ssize_t[::1] rows, const double[::1] w):
        """Return labellings (n, label_size), values (n,) and upper bounds (n,) of the examples `rows` at w."""
        cdef Py_ssize_t j, n = rows.shape[0]
        labellings, values = np.zeros((n, self.label_size), dtype=np.int32), np.full(n, NAN)
        uppers = np.full(n, NAN)
        cdef int32_t[:, ::1] labelling = labellings
        cdef double[::1] value = values, upper = uppers
        cdef Failure failure
        failure.rule = KEPT
        with nogil:
            for j in range(n):
                self.call_solve(&w[0], rows[j], &labelling[j, 0], &value[j], &upper[j], &failure)
                if failure.rule:
                    break
        if failure.rule:
            fail(failure, "solve", "example")
        return labellings, values, uppers

    cdef void call_solve(self, const double* w, Py_ssize_t example, int32_t* labelling, double* value, double* upper,
                         Failure* failure) noexcept nogil:
        failure.code = self.solve(w, self.dim, example, labelling, value, upper, self.solve_data)
        if failure.code:
            set_failure(failure, CODE, example, 0.0)
        elif not isfinite(value[0]):
            set_failure(failure, FINITE_VALUE, example, value[0])
        elif upper[0] != upper[0]:
            upper[0] = value[0]
        elif not (isfinite(upper[0]) and upper[0] >= value[0]):
            set_failure(failure, UPPER_BOUND, example, upper[0])

    cdef void call_plane(self, Py_ssize_t example, const int32_t* labelling, double* loss, int64_t* n,
                         int32_t* indices, double* values, Failure* failure) noexcept nogil:
        cdef Py_ssize_t k
        loss[0], n[0] = NAN, -1
        failure.code = self.plane(example, labelling, loss, n, indices, values, self.plane_data)
        if failure.code:
            set_failure(failure, CODE, example, 0.0)
        elif not (isfinite(loss[0]) and loss[0] >= 0.0):
            set_failure(failure, LOSS, example, loss[0])
        elif n[0] < 0 or n[0] > self.max_entries:
            set_failure(failure, ENTRIES, example, <double>n[0])
        else:
            for k in range(n[0]):
                if indices[k] < 0 or indices[k] >= self.dim:
                    set_failure(failure, INDEX, example, indices[k])
                    return
                if not isfinite(values[k]):
                    set_failure(failure, FINITE_ENTRY, example, values[k])
                    return

    def planes(self, const Py_ssize_t[::1] rows, const int32_t[:, ::1] labellings):
        """Return losses (n,) and slopes, csr_array (n, dim), of one labelling for each of the examples `rows`."""
        cdef Py_ssize_t j, k, n = rows.shape[0]
        losses = np.empty(n)
        cdef double[::1] loss = losses
        cdef PlaneRows found = PlaneRows(self.dim, n)
        cdef int32_t[::1] indices = np.empty(self.max_entries, dtype=np.int32)
        cdef double[::1] values = np.empty(self.max_entries)
        cdef int64_t size
        cdef Failure failure
        failure.rule = KEPT
        with nogil:
            for j in range(n):
                self.call_plane(rows[j], &labellings[j, 0], &loss[j], &size, &indices[0], &values[0], &failure)
                if failure.rule:
                    break
                found.reserve(size)
                for k in range(size):
                    found.put(indices[k], values[k])
                found.close()
        if failure.rule:
            fail(failure, "plane", "example")
        return losses, found.matrix()

    def add_planes(self, const Py_ssize_t[::1] rows, const int32_t[:, ::1] labellings, const double[::1] scales,
                   double[::1] slope):
        """Add `sum_j scales[j] psi(labellings[j])` to slope; return `sum_j scales[j] loss(labellings[j])`."""
        cdef Py_ssize_t j, k, n = rows.shape[0]
        cdef int32_t[::1] indices = np.empty(self.max_entries, dtype=np.int32)
        cdef double[::1] values = np.empty(self.max_entries)
        cdef int64_t size
        cdef double loss, total = 0.0
        cdef Failure failure
        failure.rule = KEPT
        with nogil:
            for j in range(n):
                if scales[j] == 0.0:
                    continue
                self.call_plane(rows[j], &labellings[j, 0], &loss, &size, &indices[0], &values[0], &failure)
                if failure.rule:
                    break
                total += scales[j] * loss
                for k in range(size):
                    slope[indices[k]] += scales[j] * values[k]
        if failure.rule:
            fail(failure, "plane", "example")
        return total


cdef class CompiledFunctions(CompiledOracle):
    """Find most violated planes by calling `solve` and `plane` for one example after another.

    Parameters
    ----------
    calls : ExampleCalls
    batch : int
        Largest number of examples in one call.
    """

    cdef ExampleCalls calls
    cdef double[::1] values
    cdef int32_t[::1] labelling, indices

    def __init__(self, ExampleCalls calls, Py_ssize_t batch):
        CompiledOracle.__init__(self, calls.dim, batch)
        self.calls, self.values = calls, np.empty(calls.max_entries)
        self.labelling = np.empty(calls.label_size, dtype=np.int32)
        self.indices = np.empty(calls.max_entries, dtype=np.int32)

    def working_bytes(self):
        return CompiledOracle.working_bytes(self) + np.asarray(self.values).nbytes + np.asarray(self.indices).nbytes

    cdef int fill(self, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil:
        cdef Py_ssize_t j, e
        cdef int64_t size = 0
        cdef double value, upper
        cdef Failure failure
        failure.rule = KEPT
        for j in range(n):
            value = upper = NAN
            memset(&self.labelling[0], 0, self.calls.label_size * sizeof(int32_t))
            self.calls.call_solve(self.w, rows[j], &self.labelling[0], &value, &upper, &failure)
            if failure.rule:
                with gil:
                    fail(failure, "solve", "example")
            self.calls.call_plane(rows[j], &self.labelling[0], &self.losses[j], &size, &self.indices[0],
                                  &self.values[0], &failure)
            if failure.rule:
                with gil:
                    fail(failure, "plane", "example")
            self.planes.reserve(size)
            for e in range(size):
                self.planes.put(self.indices[e], self.values[e])
            self.planes.close()
        return 0
