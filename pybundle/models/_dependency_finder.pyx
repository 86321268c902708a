"""Most violated planes of dependency trees, for passes in compiled code."""

from libc.stdint cimport int32_t, int64_t

from ..features._plane_rows cimport PlaneRows
from ._arcs cimport Arcs, ArcWeights
from ._dependency cimport decode_trees, write_trees
from ._labelling_finder cimport LabellingFinder


cdef class DependencyFinder(LabellingFinder):
    """Decoder of the sentences of `arcs` with margin rescaling, and of what their trees have wrong.

    Parameters
    ----------
    arcs : Arcs
    gold : int32 array
        True heads of all sentences by `arcs.starts`.
    single_root : bool
    batch : int
        Most sentences asked for at once.
    """

    cdef Arcs arcs
    cdef const int32_t[::1] gold
    cdef bint single_root
    cdef ArcWeights at

    def __init__(self, Arcs arcs, gold, bint single_root, Py_ssize_t batch):
        LabellingFinder.__init__(self, arcs.starts_array, arcs.dim, batch)
        self.arcs, self.gold, self.single_root = arcs, gold, single_root

    cdef int place(self, const double* w) except -1 nogil:
        self.at = ArcWeights(w, NULL, NULL)
        return 0

    cdef int decode(self, Py_ssize_t n, const Py_ssize_t* rows, const int64_t* offsets, int32_t* labels,
                    double* values) except -1 nogil:
        return decode_trees(self.arcs, n, rows, &self.at, &self.gold[0], True, self.single_root, offsets, labels,
                            values, 0, NULL)

    cdef int write(self, Py_ssize_t n, const Py_ssize_t* rows, const int64_t* offsets, const int32_t* labels,
                   PlaneRows out, double* losses) except -1 nogil:
        return write_trees(self.arcs, n, rows, &self.gold[0], offsets, labels, out, losses)
