# Multipliers of all examples, with sums of losses and of multipliers over the examples.

from pybundle.solvers.block._label_blocks cimport LabelBlocks


cdef class LabelSums(LabelBlocks):
    pass
