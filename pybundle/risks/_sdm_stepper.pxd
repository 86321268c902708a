# Exact steps at groups of rows.

from libc.stdint cimport int64_t

from ..features._rows cimport pb_dots_fn, pb_products_fn, pb_score_fn, pb_update_fn, real
from ._engine cimport Engine
from ._sdm cimport Blocks


cdef class Stepper:
    cdef readonly int size                      # rows of a group
    cdef pb_score_fn _score
    cdef pb_dots_fn dots
    cdef pb_products_fn products
    cdef pb_update_fn update

    # S (K, BLOCK) = W x of `count` rows, while `ahead` more are fetched
    cdef void score(self, const Py_ssize_t* rows, int count, int ahead, const void* W, real* S, Blocks b,
                    Engine e) noexcept nogil
    # Steps at `count` rows with scores S: which of them moved, as bits
    cdef int64_t decide(self, const Py_ssize_t* rows, int count, double* base, real* S, real* coef, real* products,
                        bint lags, double* scratch, double* total, Blocks b, Engine e) noexcept nogil
