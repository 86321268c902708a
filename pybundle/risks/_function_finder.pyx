"""Most violated planes of examples from compiled functions, for passes that have no need of Python."""

import numpy as np

from libc.math cimport NAN
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from pybundle.features._plane_rows cimport PlaneRows
from pybundle.features._rows_finder cimport RowsFinder
from pybundle.risks._compiled cimport ExampleCalls, Failure, fail


cdef class FunctionFinder(RowsFinder):
    """`solve` and `plane` called for one example after another.

    Parameters
    ----------
    calls : ExampleCalls
    batch : int
        Most examples asked for at once.
    """

    cdef ExampleCalls calls
    cdef const double* w
    cdef double[::1] values
    cdef int32_t[::1] labelling, indices

    def __init__(self, ExampleCalls calls, Py_ssize_t batch):
        RowsFinder.__init__(self, calls.dim, batch)
        self.calls, self.values = calls, np.empty(calls.max_entries)
        self.labelling = np.empty(calls.label_size, dtype=np.int32)
        self.indices = np.empty(calls.max_entries, dtype=np.int32)

    def working_bytes(self):
        return RowsFinder.working_bytes(self) + np.asarray(self.values).nbytes + np.asarray(self.indices).nbytes

    cdef int place(self, const double* w) except -1 nogil:
        self.w = w
        return 0

    cdef int fill(self, const Py_ssize_t* rows, Py_ssize_t n, PlaneRows out, double* losses) except -1 nogil:
        cdef Py_ssize_t j, e
        cdef int64_t size = 0
        cdef double value, upper
        cdef Failure failure
        failure.rule = 0
        for j in range(n):
            value = upper = NAN
            memset(&self.labelling[0], 0, self.calls.label_size * sizeof(int32_t))
            self.calls.call_solve(self.w, rows[j], &self.labelling[0], &value, &upper, &failure)
            if failure.rule:
                with gil:
                    fail(failure, "solve", "example")
            self.calls.call_plane(rows[j], &self.labelling[0], &losses[j], &size, &self.indices[0],
                                  &self.values[0], &failure)
            if failure.rule:
                with gil:
                    fail(failure, "plane", "example")
            out.reserve(size)
            for e in range(size):
                out.put(self.indices[e], self.values[e])
            out.close()
        return 0
