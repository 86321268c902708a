# Master problem of a bundle method: one object keeps workspace and factor from call to call.

from pybundle.qp._active_set cimport Face


cdef class SimplexQP:
    """min 1/2 scale x'Hx - f'x over a product of simplices and a nonnegative block; see `_simplex_qp.pyx`."""

    cdef Face face
    cdef object _arrays                 # owner of the memory below
    cdef Py_ssize_t room                # variables and slacks that fit
    # the problem of the call
    cdef const double* H                # (m, m) leading dimension ldh
    cdef Py_ssize_t ldh
    cdef const double* f                # (m,)
    cdef const int* parts               # (m,) 0..n_parts-1, or -1
    cdef unsigned char* slack           # (n_parts,)
    cdef double* x                      # (m,) the point; feasible from `_normalise` on
    cdef double scale, wanted, rtol, tol    # tol: the absolute gap that both ask for at x
    cdef int m, n_parts, n_signed       # n_signed: variables without a sum
    # the state at x
    cdef double* rest                   # (n_parts,) weight of the zero plane
    cdef double* h                      # (m,) H x
    cdef double* g                      # (m,) scale h - f
    cdef double* mean                   # (n_parts + 1,) sum of x g over a part, 0 for the block
    cdef double* least                  # (n_parts + 1,) least entry of g in a part
    cdef double value, gap, slope_floor
    cdef Py_ssize_t n_steps
    # scratch
    cdef double* target                 # (m + n_parts,) candidate point, then its slacks
    cdef double* target_h               # (m,)
    cdef double* key                    # (m + n_parts,)
    cdef double* key_copy               # (m + n_parts,)
    cdef double* xb                     # (m + n_parts,) x, right-hand side, step and path on the face's base
    cdef double* rb
    cdef double* sb
    cdef double* yb
    cdef double* lack                   # (n_parts,)
    cdef const double** rows            # (m,) rows of H
    cdef double* weights                # (m,)
    cdef int* pick                      # (m + n_parts,) variables chosen, slacks as m + p
    cdef int* pick_part                 # (m + n_parts,)
    cdef int* position                  # (m + n_parts,) place in the base or working set, -1
    cdef int* start                     # (n_parts + 2,)
    cdef object _compact                # owner of Q, qg, qx
    cdef Py_ssize_t compact_room
    cdef double* Q
    cdef double* qg
    cdef double* qx
    cdef int caution                    # how a face loses variables, see the module
    cdef int calm, calm_next            # good rounds until caution ends, and after the next failure
    # what pairwise steps may cost, have cost, cost each; in units of about a nanosecond
    cdef double budget, spent, step_work, last_gap
    cdef Py_ssize_t chunk, last_steps
    cdef bint stale                     # h is a combination of fresh products, not one itself
    cdef bint keeps_factor

    cdef int _reserve(self, Py_ssize_t m, Py_ssize_t n_parts) except -1
    cdef int _reserve_compact(self, Py_ssize_t n) except -1
    cdef void _normalise(self) noexcept nogil
    cdef void _restore_sums(self, double* x, double* rest) noexcept nogil
    cdef void _multiply(self, const double* x, double* h) noexcept nogil
    cdef void _assess(self) noexcept nogil
    cdef int _violators(self, int most, int n_pick) noexcept nogil
    cdef int _run(self, int method, Py_ssize_t max_steps) except -1 nogil
    cdef bint _pairwise_pays(self) noexcept nogil
    cdef int _rebuild(self, double shift) except -1 nogil
    cdef int _extend(self, int k) except -1 nogil
    cdef int _part_of(self, int variable) noexcept nogil
    cdef int _missing_support(self) noexcept nogil
    cdef int _face_round(self) except -1 nogil
    cdef int _face_target(self, bint single) except -1 nogil
    cdef int _smo_round(self, Py_ssize_t max_steps, double tol) except -1 nogil
