# Multipliers of all examples with their sums.

from pybundle.solvers.block._label_blocks cimport LabelBlocks


cdef class LabelSums(LabelBlocks):
    pass
