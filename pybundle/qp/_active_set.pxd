# Rounds of face steps: which variables enter a face, and which leave it.

from pybundle.qp._face cimport Face
from pybundle.qp._point cimport Point
from pybundle.qp._selection cimport Selection


cdef class ActiveSet:
    """A base of variables, which is kept from round to round, and the candidate point on the current face."""

    cdef Face face
    cdef Selection chosen           # chosen.position is the place of each variable in the base
    cdef object _arrays             # owner of the memory below
    cdef Py_ssize_t room            # number of variables and slacks for which memory is allocated
    cdef double* target             # (m + n_parts,) candidate point, then its slacks
    cdef double* target_h           # (m,) H target
    cdef double* x                  # (n,) the variables of the base
    cdef double* rhs                # (n,) -gradient / scale
    cdef double* step               # (n,) from x to the minimiser on the face
    cdef double* path               # (n,) feasible point that the ratio test has reached
    cdef double* ratio              # (n,) step length at which each leaving variable is zero, and a copy
    cdef double* ratio_copy
    cdef double* lack               # (n_parts,) 1 - sum of x over a part
    cdef int* leaving               # (n,) places in the base of the variables that leave the face
    cdef Py_ssize_t n_solves        # number of solves since `begin`
    cdef int caution, usual         # ALL, HALF, EIGHTH or ONE (see the .pyx file): now, and without failures
    cdef double growth              # limit of the violators that a round admits, as a fraction of the face
    cdef int calm, calm_next        # rounds of descent until caution is `usual` again: now, and after the next rise

    cdef bint exact                 # whether the rest of the solve uses float64, as float32 was not accurate enough
    cdef bint crowded               # whether the last round admitted as many violators as it may: more may be left
    cdef bint settled               # whether the last round took a full step on an unchanged face
    cdef double last_gap            # gap before the last round

    cdef double work                # work since the last check for signals, in units of about a nanosecond

    # Allocates memory for n variables and slacks; needs the GIL
    cdef int reserve(self, Py_ssize_t n) except -1
    # Starts a solve, without a base
    cdef void begin(self, Point point) noexcept nogil
    # Changes the face once; reduced costs above -floor count as zero. Returns 0, or 1 if the factor failed or no step
    # is a descent
    cdef int improve(self, Point point, double floor) except -1 nogil
    # Raises caution up to EIGHTH, then replaces float32 by float64; returns False for an empty base or one in float64
    cdef bint doubt(self) noexcept nogil
    # Adds `work` to the work done, and checks for signals after every WORK_PER_CHECK; x must be feasible
    cdef int check_signals(self, double work) except -1 nogil
    cdef void _recall_base(self, Point point) noexcept nogil
    cdef int _start_base(self, Point point, double shift) except -1 nogil
    cdef bint _pays_to_restart(self) noexcept nogil
    cdef void _admit(self, Point point, double floor) noexcept nogil
    cdef int _extend(self, Point point, double shift) except -1 nogil
    cdef int _find_target(self, Point point) except -1 nogil
    cdef int _leaving_early(self, int k) noexcept nogil
    cdef bint _use_float64(self) noexcept nogil
    cdef bint _raise_caution(self) noexcept nogil
    cdef int _move(self, Point point) noexcept nogil
