"""Solver of the QP of a bundle method: face steps if there are few parts, pairwise steps if there are many.

    min q(x) = scale/2 x'Hx - f'x,   x >= 0,   sum of x over part p = 1  (<= 1 if the part has a zero plane),

and variables of part -1 are in no sum.

    _point          x, its gradient and its duality gap
    _selection      the variables of a round: the support and the worst violators of optimality
    _working_set    a round of pairwise steps;                      _smo    the steps
    _active_set     a round of face steps;                          _face   the factor that gives the steps

Both kinds of rounds take turns until the gap is small enough, because one kind can stall where the other does not. Face
steps are slow if norms of planes differ so much that the shift of the factor shortens the steps; pairwise steps are
slow if curvatures differ. A kind without clear progress for some number of rounds gives way to the other; this number
doubles whenever face steps return. Choices depend on counts of operations, not on time: equal input gives equal bits.
"""

from libc.math cimport fabs, isfinite, isnan

from typing import NamedTuple

import numpy as np

from pybundle.core.exceptions import InputTypeError, NumericalError, ParameterError
from pybundle.core.validation import check_choice, check_integer, check_number

from pybundle.qp._active_set cimport ActiveSet
from pybundle.qp._point cimport Point, Problem
from pybundle.qp._working_set cimport WorkingSet

# A relative gap is relative to |q|, or to this fraction of the size of the two terms of q if the fraction is larger.
cdef double CANCELLED = 1e-3
# After this many rounds that change neither value nor gap, face steps and pairwise steps give up.
cdef int IDLE_FACES = 3, IDLE_PAIRS = 6
# Progress is clear if the gap falls by this factor, or the value by this fraction of the gap.
cdef double CLEAR = 0.5, CLEAR_FALL = 0.1
# The turn of a kind ends after PATIENCE rounds without clear progress. This number doubles whenever face steps return,
# at most DOUBLINGS times.
cdef int PATIENCE = 16, DOUBLINGS = 5
# After this many rounds of face steps without clear progress, fewer variables leave a face, or float64 is used.
cdef int DOUBTFUL = 4
# Maximum number of steps in a round of pairwise steps.
cdef int ROUND = 1000
# Face steps come first for up to FEW parts, because their factor is small then. With more parts pairwise steps come
# first, and face steps replace them after STEPS_OF_A_PART steps for each part.
cdef int FEW = 16, STEPS_OF_A_PART = 150
cdef enum:
    AUTO, SMO, FACES

# Entries of scale H and of f must be smaller, because gradients are squared.
cdef double LARGEST = 1e150
OVERFLOW = ("H, f and x must be finite, and scale a number > 0; those of a run overflow if the data or 1/lam are very "
            "large: scale the data")
METHODS = {"auto": AUTO, "smo": SMO, "active-set": FACES}


class MasterSolution(NamedTuple):
    """Result of `SimplexQP.solve`.

    Attributes
    ----------
    h : ndarray, shape (m,)
        H x, computed anew, without the rounding errors of updates.
    gap : float
        Absolute duality gap at x, the sum over parts.
    value : float
        q(x).
    n_steps : int
        Number of pairwise steps and face solves.
    status : int
        0: gap <= tol; 1: step limit; 2: stalled, no further steps of the method lower the gap clearly.
    curvature : float
        Least d'Hd found on faces, as a fraction of sum_j d_j^2 H_jj; 0 if none is negative.
    """

    h: np.ndarray
    gap: float
    value: float
    n_steps: int
    status: int
    curvature: float


def _check_array(name, array, dtype):
    if type(array) is not np.ndarray or array.dtype != dtype or not array.flags.aligned:
        raise InputTypeError(f"{name} must be an array of {np.dtype(dtype)}, got "
                             f"{getattr(array, 'dtype', type(array).__name__)}; see solve_simplex_qp")
    if name != "H" and not array.flags.c_contiguous or name == "x" and not array.flags.writeable:
        raise InputTypeError(f"{name} must be contiguous, and x writeable; pass {name}.copy()")


cdef class SimplexQP:
    """Solver of a growing master problem, which keeps its memory between calls: two threads need two objects.
    """

    def __cinit__(self):
        self.point = Point()
        self.pairs = WorkingSet()
        self.faces = ActiveSet()

    def __reduce__(self):
        return SimplexQP, ()            # a copy starts anew, as only scratch memory is kept between calls

    def solve(self, H, f, parts, slack, x, double scale=1.0, double tol=0.0, double rtol=0.0,
              max_steps=1000000, method="auto"):
        """Minimise q from the point x, in place.

        Signals are checked about every 50 ms of work, but not within a factorisation. If a handler raises, as on
        Ctrl-C, x is feasible and the object can be used again.

        Parameters
        ----------
        H : ndarray of float64, shape (m, m)
            Symmetric, positive semidefinite, with contiguous rows; may be a block of a larger array. Never copied.
        f : ndarray of float64, shape (m,)
        parts : ndarray of int32, shape (m,)
            Part of each variable, -1 for one without a sum.
        slack : ndarray of bool or uint8, shape (P,)
            Whether the sum of a part may be less than 1; its length is the number of parts.
        x : ndarray of float64, shape (m,)
            Starting point, which may be 0 and is made feasible first; on return the solution.
        scale : float
            Factor of the quadratic term, > 0.
        tol : float
            Duality gap to reach.
        rtol : float
            The same, relative to max(|q|, 1e-3 (scale/2 x'Hx + |f'x|)); the larger one of the two gaps counts.
        max_steps : int
            Largest number of pairwise steps plus face solves.
        method : {"auto", "smo", "active-set"}
            For comparisons: "active-set" takes pairwise steps only if face steps stall, "smo" takes no face steps.

        Returns
        -------
        MasterSolution
        """
        cdef Py_ssize_t m, j, n_parts
        cdef int status
        check_choice("method", method, METHODS)
        max_steps = check_integer("max_steps", max_steps, low=1, high=2**62)
        tol, rtol = check_number("tol", tol, low=0.0), check_number("rtol", rtol, low=0.0)
        for name, array in (("H", H), ("f", f), ("x", x), ("parts", parts)):
            _check_array(name, array, np.int32 if name == "parts" else np.float64)
        slack = np.ascontiguousarray(slack)
        if slack.dtype not in (np.bool_, np.uint8) or slack.ndim != 1:
            raise InputTypeError(f"slack must be a vector of bools, got {slack.dtype} of shape {slack.shape}")
        m = f.size
        if H.shape != (m, m) or f.ndim != 1 or parts.shape != (m,) or x.shape != (m,) or m == 0:
            raise ParameterError(f"H must be (m, m), parts and x (m,) with m = len(f) >= 1, got {H.shape}, "
                                 f"{parts.shape} and {x.shape} for m = {m}")
        if m > 1 and (H.strides[1] != 8 or H.strides[0] < 8 * m or H.strides[0] % 8):
            raise InputTypeError("H must have contiguous rows; pass np.ascontiguousarray(H)")
        cdef const double[:, :] H_view = H
        cdef const double[::1] f_view = f
        cdef const int[::1] parts_view = parts
        cdef double[::1] x_view = x
        cdef const unsigned char[::1] slack_view = slack.view(np.uint8)
        cdef Goal goal = Goal(tol, rtol, max_steps, METHODS[method])
        n_parts = slack_view.shape[0]
        for j in range(m):
            if not -1 <= parts_view[j] < n_parts:
                raise ParameterError(f"parts must be in -1..{n_parts - 1}, got {parts_view[j]} at index {j}")
            # no entry of a semidefinite H exceeds its diagonal
            if not (scale > 0.0 and isfinite(x_view[j]) and fabs(f_view[j]) < LARGEST
                    and scale * fabs(H_view[j, j]) < LARGEST):
                raise NumericalError(OVERFLOW)
        self.point.reserve(m + n_parts + 2)
        self.pairs.reserve(m + n_parts + 2)
        self.faces.reserve(m + n_parts + 2)
        h = np.empty(m)
        cdef double[::1] h_view = h
        self.point.problem = Problem(&H_view[0, 0], H_view.strides[0] // 8, &f_view[0], &parts_view[0], scale,
                                     <int>m, <int>n_parts)
        self.point.x, self.point.h = &x_view[0], &h_view[0]
        self.point.curvature = 0.0
        for j in range(n_parts):
            self.point.slack[j] = slack_view[j]
        with nogil:
            status = self._run(&goal)
            self.point.restore_sums(self.point.x, self.point.rest)
            if self.point.stale:
                self.point.refresh()
                self.point.assess()
        if status == 3:
            raise NumericalError(OVERFLOW)
        return MasterSolution(h, self.point.gap, self.point.value, self._n_steps(), status, self.point.curvature)

    cdef Py_ssize_t _n_steps(self) noexcept nogil:
        return self.pairs.n_steps + self.faces.n_solves

    cdef int _run(self, const Goal* goal) except -1 nogil:
        """Run rounds until the gap is reached; return 0, or 1 at the step limit, 2 if stalled, 3 after overflow."""
        cdef double turn_gap = 1e300, turn_value = 1e300        # best numbers since the turn began
        cdef double clear_gap = 1e300, clear_value = 1e300      # numbers at the last clear progress
        cdef double best_gap = 1e300, tol, floor
        cdef Py_ssize_t limit, n_steps, first = goal.max_steps      # pairwise steps before face steps replace them
        cdef int idle = 0, stalled = 0, patience = PATIENCE, returns = 0, m = self.point.problem.m
        cdef bint pairs_turn = goal.method == SMO
        cdef bint exact
        cdef int status
        cdef bint gave_up = False       # whether the last turn ended because rounding hid all progress
        if goal.method == AUTO and self.point.problem.n_parts > FEW:
            pairs_turn = True
            first = <Py_ssize_t>STEPS_OF_A_PART * self.point.problem.n_parts
        self.pairs.begin()
        self.point.normalise()
        self.faces.begin(self.point)
        while True:
            self.point.assess()
            if isnan(self.point.gap) or not isfinite(self.point.value):
                return 3
            tol = max(goal.tol, goal.rtol * max(fabs(self.point.value), CANCELLED * self.point.size))
            if self.point.stale and (self.point.gap <= tol or self._n_steps() >= goal.max_steps):
                # updates of h in steps have added rounding errors, so compute the gap anew
                self.point.restore_sums(self.point.x, self.point.rest)
                self.point.refresh()
                continue
            if self.point.gap <= tol:
                return 0
            if self._n_steps() >= goal.max_steps:
                return 1
            # Count rounds that change neither value nor gap: rounding hides their progress.
            if self.point.value < turn_value - 1e-15 * fabs(turn_value) or self.point.gap < 0.9 * turn_gap:
                idle = 0
            else:
                idle += 1
                if idle >= (IDLE_PAIRS if pairs_turn else IDLE_FACES) and self.point.stale:
                    self.point.restore_sums(self.point.x, self.point.rest)
                    self.point.refresh()
                    continue
            turn_value = min(self.point.value, turn_value)
            turn_gap = min(self.point.gap, turn_gap)
            best_gap = min(self.point.gap, best_gap)
            if best_gap <= CLEAR * clear_gap or self.point.value < clear_value - CLEAR_FALL * best_gap:
                clear_gap = best_gap
                clear_value = self.point.value
                stalled = returns = 0
                patience = PATIENCE
                gave_up = False
            else:
                stalled += 1
            if pairs_turn and self.pairs.n_steps >= first:
                stalled = patience
                first = goal.max_steps
            # Reduced costs above -floor count as 0: in all, they add less than the tolerance to the gap.
            floor = 0.5 * tol / (self.point.problem.n_parts + 1)
            if goal.method == SMO:
                if idle >= IDLE_PAIRS:
                    return 2
            elif idle >= (IDLE_PAIRS if pairs_turn else IDLE_FACES) or stalled >= patience:
                # The other kind of steps follows, unless rounding stopped both, or face steps returned DOUBLINGS times.
                if idle and stalled < patience and gave_up or returns == DOUBLINGS:
                    return 2
                gave_up = stalled < patience
                if pairs_turn:
                    returns += 1
                    patience *= 2
                pairs_turn = not pairs_turn
                idle = stalled = 0
                turn_value, turn_gap = self.point.value, self.point.gap
            if not pairs_turn:
                if (idle or stalled >= DOUBTFUL) and self.faces.doubt():
                    idle = stalled = 0
                exact = self.faces.exact
                status = self.faces.improve(self.point, floor)
                if self.faces.exact != exact:
                    # The factor is in float64 from now on, so all counters start again.
                    idle = stalled = returns = 0
                    patience = PATIENCE
                if status == 0:
                    self.faces.check_signals(0.0)
                    continue
            limit = min(goal.max_steps - self._n_steps(), ROUND)
            n_steps = self.pairs.n_steps
            self.pairs.improve(self.point, limit, max(0.5 * tol, 0.1 * self.point.gap), floor)
            self.faces.check_signals((self.pairs.n_steps - n_steps) * (30.0 + 2.0 * m) + <double>m * m)
