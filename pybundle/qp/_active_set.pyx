"""Rounds of face steps: a round admits variables to a face and moves x towards the minimiser of q on the face.

The faces change in blocks, as in block pivoting (Portugal, Judice, Vicente 1994): all variables that become negative
are fixed at zero, and all fixed variables of negative reduced cost are freed. An exact line search between x and the
minimiser ensures that q never rises.

If many variables become negative at once, not all of them need to be zero at the solution. So after a warm start only
half of them leave at a time, those that reach zero first; if the gap falls slowly, only an eighth. If the step is no
descent, variables leave one at a time by the ratio test of Wolfe 1976, which cannot fail.

A base of many variables starts in float32, which is twice as fast. The next round starts from the gradient in float64,
and thereby corrects the rounding errors. The base is built again in float64, for the rest of the solve, if a pivot is
mostly rounding, or if higher caution has not helped: a step is no descent, the gap falls too slowly on an unchanged
face, or rounds pass without clear progress.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport log
from libc.string cimport memset

import numpy as np

from pybundle.qp._face cimport LARGE_FACE, Face
from pybundle.qp._point cimport Point, Problem
from pybundle.qp._selection cimport Selection, key_of, smallest

# This many rounds on an unchanged face cost less than a factor in float64.
cdef double REFINEMENTS = 8.0
# First shift of the diagonal, relative to the mean diagonal; it grows only if the factor fails.
cdef double SHIFT = 1e-12
# A step is no descent if it decreases q, to first order, by less than this fraction of the gap.
cdef double NO_DESCENT = 1e-9
# Caution rises if a round leaves more than this fraction of the gap although it admitted all violators.
cdef double SLOW = 0.5
# A smaller weight is a rounding error and becomes 0: planes are dropped only after weights of exactly 0 for some time.
cdef double CRUMB = 1e-15

# A round admits violators up to a fraction of the face: GROWTH at the start of a solve, MOST_GROWTH at most.
cdef double GROWTH = 1.0 / 3.0, MOST_GROWTH = 2.0

# Work between two checks for signals, some 50 ms.
cdef double WORK_PER_CHECK = 5e7

# Caution: how many of the variables that become negative leave a face at a time. With ALL, all of them leave, or half
# of them if they are more than a quarter of the face; with HALF, EIGHTH and ONE, always half, an eighth, or one.
cdef enum:
    ALL, HALF, EIGHTH, ONE


cdef class ActiveSet:

    def __cinit__(self):
        self.face = Face()
        self.chosen = Selection()
        self.room = 0

    cdef int reserve(self, Py_ssize_t n) except -1:
        cdef double[:, ::1] reals
        cdef int[::1] integers
        self.chosen.reserve(n)
        if n > self.room:
            n = max(n, 2 * self.room)
            reals = np.empty((9, n))
            integers = np.empty(n, dtype=np.intc)
            self._arrays = (reals.base, integers.base)
            self.target, self.target_h = &reals[0, 0], &reals[1, 0]
            self.x, self.rhs, self.step, self.path = &reals[2, 0], &reals[3, 0], &reals[4, 0], &reals[5, 0]
            self.ratio, self.ratio_copy, self.lack = &reals[6, 0], &reals[7, 0], &reals[8, 0]
            self.leaving = &integers[0]
            self.room = n
        return 0

    cdef bint doubt(self) noexcept nogil:
        if self.face.n and self.caution < EIGHTH:
            return self._raise_caution()
        return self._use_float64()

    cdef bint _use_float64(self) noexcept nogil:
        if not (self.face.n and self.face.single):
            return False
        self.exact = True
        self.face.n = self.face.n_held = 0
        return True

    cdef void begin(self, Point point) noexcept nogil:
        self.face.n = self.face.n_held = self.n_solves = 0
        self.exact = self.settled = False
        self.work = 0.0
        # after a start at a vertex many variables have to change, after a warm start few
        self.caution = self.usual = ALL if point.support() <= point.problem.n_parts else HALF
        self.last_gap = 1e300
        self.growth = GROWTH
        self.calm = 0
        self.calm_next = 2

    cdef int improve(self, Point point, double floor) except -1 nogil:
        cdef int info, n_held, n_free, _attempt
        cdef double shift = SHIFT
        # the tolerance of the gap is 2 floor (n_parts + 1)
        if self.settled and (log(point.gap) - log(2.0 * floor * (point.problem.n_parts + 1))
                             > REFINEMENTS * (log(self.last_gap) - log(point.gap))):
            self.doubt()
        elif self.caution < EIGHTH and not self.crowded and point.gap > SLOW * self.last_gap:
            self._raise_caution()
        self.last_gap = point.gap
        for _attempt in range(5):
            self._recall_base(point)
            n_free = self.face.n - self.face.n_held
            self._admit(point, floor)
            if self.caution < ONE and self._pays_to_restart():
                self.face.n = self.face.n_held = 0
                self.chosen.clear(point)
                self._admit(point, floor)
            n_held = self.face.n_held
            info = self._extend(point, shift)
            if info and not self.face.single:
                point.notice(shift)
            # work of bordering the factor, and of the products with all of H in this round
            self.check_signals(0.1 * self.face.n * self.face.n * self.chosen.n
                               + 1.0 * point.problem.m * point.problem.m)
            if info == 0:
                info = self._find_target(point)
            if info == 0:
                # If nearly all admitted variables stay free, admit more of them next time.
                if 5 * (self.face.n_held - n_held) <= self.chosen.n:
                    self.growth = min(2.0 * self.growth, MOST_GROWTH)
                else:
                    self.growth = GROWTH
                self.settled = n_free == self.face.n - self.face.n_held and self.chosen.n == 0
                return self._move(point)
            if self.face.single:
                self.exact = True
            else:
                shift *= 100.0
            self.face.n = self.face.n_held = 0
        return 1

    cdef int check_signals(self, double work) except -1 nogil:
        self.work += work
        if self.work > WORK_PER_CHECK:
            self.work = 0.0
            with gil:
                PyErr_CheckSignals()
        return 0

    # ------------------------------------------------------------------ the base

    cdef void _recall_base(self, Point point) noexcept nogil:
        cdef int i, j
        self.chosen.clear(point)
        for i in range(self.face.n):
            j = self.face.index[i]
            self.chosen.position[j if j >= 0 else point.problem.m - 1 - j] = i

    cdef int _start_base(self, Point point, double shift) except -1 nogil:
        """Start an empty base with memory for the chosen variables; its coupling c is the mean diagonal of H."""
        cdef Problem* q = &point.problem
        cdef int j
        cdef bint single = not self.exact and self.chosen.n >= LARGE_FACE
        cdef double total = 0.0
        for j in range(q.m):
            total += q.H[j * q.ldh + j]
        total /= q.m
        if not total > 0.0:
            total = 1.0
        if self.face.capacity == 0 or self.face.row_capacity < q.n_parts or self.face.single != single:
            with gil:
                self.face.reserve(max(min(400, q.m) + q.n_parts, self.face.capacity), q.n_parts, single)
        self.face.clear(q.n_parts, total, shift)
        return 0

    cdef bint _pays_to_restart(self) noexcept nogil:
        """Return whether a new factor of the free and the chosen variables is cheaper than bordering the present one.

        Held variables make borders and solves of the present factor dearer. A new factor also pays if the base is in
        float64 and grows by more than a quarter to a size at which float32 is used.
        """
        cdef double n = self.face.n, grown = n + self.chosen.n
        if 5.0 * self.face.n_held * grown * grown > (n + 24.0) * n * n:
            return True
        return n > 0 and not (self.face.single or self.exact) and grown >= LARGE_FACE and 4 * self.chosen.n > n

    cdef void _admit(self, Point point, double floor) noexcept nogil:
        """Free held variables of positive weight or negative reduced cost; then choose the support and violators.

        With caution ONE, only the worst violator is admitted, either a held variable or a new one.
        """
        cdef int i, j, p, n, most, worst = -1
        cdef double cost, key, least = 1.0      # keys are at most 0, and may underflow to it
        for i in range(self.face.n):
            if self.face.row[i] >= 0:
                j = self.face.index[i]
                p = self.face.part[i]
                cost = (point.g[j] if j >= 0 else 0.0) - point.mean[p]
                if (point.x[j] if j >= 0 else point.rest[p]) > 0.0:
                    self.face.release(i)
                elif cost < (-floor if p < point.problem.n_parts else 0.0):
                    if self.caution < ONE:
                        self.face.release(i)
                        continue
                    key = key_of(&point.problem, j if j >= 0 else point.problem.m - 1 - j, cost)
                    if key < least:
                        least = key
                        worst = i
        self.chosen.n = 0
        self.chosen.add_support(point, True)
        n = self.chosen.n
        most = max(16, <int>(self.growth * (self.face.n + n - self.face.n_held))) if self.caution < ONE else 1
        self.chosen.add_violators(point, most, floor)
        if self.caution < ONE:
            self.crowded = self.chosen.n - n == most
        elif worst >= 0 and not (self.chosen.n > n and self.chosen.key_copy[0] < least):
            self.chosen.n = n
            self.face.release(worst)

    cdef int _extend(self, Point point, double shift) except -1 nogil:
        """Append the chosen variables to the base; return 0, or nonzero if the factor failed."""
        cdef int j, k = self.chosen.n, n = self.face.n, m = point.problem.m, n_parts = point.problem.n_parts
        if n == 0:
            self._start_base(point, shift)
        if k == 0:
            return 0
        if n + k > self.face.capacity:
            # Allocate twice the need, but hardly more than all variables take: fresh memory costs time.
            j = max(n + k, min(2 * (n + k), (m + n_parts) * 9 // 8 + 16))
            with gil:
                self.face.reserve(j, n_parts, self.face.single)
        for j in range(k):
            self.chosen.position[self.chosen.variable[j]] = n + j
            if self.chosen.variable[j] >= m:
                self.chosen.variable[j] = m - 1 - self.chosen.variable[j]
        return self.face.append(point.problem.H, point.problem.ldh, self.chosen.variable, self.chosen.part, k)

    # ------------------------------------------------------------------ the target

    cdef int _find_target(self, Point point) except -1 nogil:
        """Set `target` to the minimiser on the face that is left after variables of the base were held at zero.

        Return 0, or nonzero if a factor failed.
        """
        cdef int i, j, p, n = self.face.n, n_parts = point.problem.n_parts, info, k, blocking = -1
        cdef double length, weight
        for p in range(n_parts):
            self.lack[p] = 1.0
        for i in range(n):
            j = self.face.index[i]
            p = self.face.part[i]
            if j >= 0:
                self.x[i] = point.x[j]
                self.rhs[i] = (point.mean[p] - point.g[j]) / point.problem.scale
            else:
                self.x[i] = point.rest[p]
                self.rhs[i] = point.mean[p] / point.problem.scale
            # Subtracting the mean of a part changes no step, and the rounding of a large mean hides no small residual.
            if self.face.row[i] >= 0:
                self.rhs[i] = 0.0
            self.path[i] = self.x[i]
            if p < n_parts:
                self.lack[p] -= self.x[i]
        self.face.aim(self.rhs)
        while True:
            info = self.face.solve(self.x, self.lack, self.step)
            if info:
                return info
            self.n_solves += 1
            k = n_parts + self.face.n_held
            self.check_signals(k * (0.03 * k * k + 1.0 * n) + 1.0 * n * n)
            k = 0
            length = 1.0
            for i in range(n):
                if self.face.row[i] >= 0:
                    continue
                weight = self.x[i] + self.step[i]
                if not weight == weight:
                    return 1
                if weight < 0.0:
                    self.leaving[k] = i
                    k += 1
                    if self.path[i] <= length * (self.path[i] - weight):
                        length = self.path[i] / (self.path[i] - weight)
                        blocking = i
            if k == 0:
                break
            if self.caution == ONE:
                for i in range(n):
                    self.path[i] += length * (self.x[i] + self.step[i] - self.path[i])
                self.leaving[0] = blocking
                k = 1
            elif self.caution >= HALF or 4 * k > n - self.face.n_held:
                k = self._leaving_early(k)
            i = n_parts + self.face.n_held + k
            if i > self.face.row_capacity:
                with gil:
                    self.face.reserve(n, i, self.face.single)
            self.face.hold(self.leaving, k)
        memset(self.target, 0, (point.problem.m + n_parts) * sizeof(double))
        for i in range(n):
            if self.face.row[i] < 0:
                j = self.face.index[i]
                self.target[j if j >= 0 else point.problem.m - 1 - j] = self.x[i] + self.step[i]
        point.restore_sums(self.target, self.target + point.problem.m)
        return 0

    cdef int _leaving_early(self, int k) noexcept nogil:
        """Reduce the k variables in `leaving` to the half or eighth that reaches zero first; return their number."""
        cdef int i, count = 0
        cdef double bar
        for i in range(k):
            self.ratio[i] = self.x[self.leaving[i]] / -self.step[self.leaving[i]]
            self.ratio_copy[i] = self.ratio[i]
        bar = smallest(self.ratio_copy, k, (k + 7) // 8 if self.caution == EIGHTH else (k + 1) // 2)
        for i in range(k):
            if self.ratio[i] <= bar:
                self.leaving[count] = self.leaving[i]
                count += 1
        return count

    # ------------------------------------------------------------------ the step

    cdef bint _raise_caution(self) noexcept nogil:
        """Let fewer variables leave a face at a time; return False if caution is ONE already."""
        if self.caution == ONE:
            return False
        self.caution += 1
        self.calm = self.calm_next
        self.calm_next *= 2
        return True

    cdef int _move(self, Point point) noexcept nogil:
        """Move x to the best point between x and `target`; without descent raise caution, or return 1 if it is ONE."""
        cdef int j, p, m = point.problem.m
        cdef double slope = 0.0, curve = 0.0, step
        point.multiply(self.target, self.target_h)
        # line search on q(x + step (target - x))
        for j in range(m):
            self.target[j] -= point.x[j]
            slope += point.g[j] * self.target[j]
            curve += self.target[j] * (self.target_h[j] - point.h[j])
        curve *= point.problem.scale
        # A target that equals x up to rounding gives no descent, either.
        if not slope < -NO_DESCENT * point.gap:
            return 0 if self.doubt() or self._raise_caution() else 1
        self.calm -= 1
        if self.calm <= 0:
            self.caution = self.usual
        step = 1.0 if -slope >= curve * (1.0 - 1e-9) else -slope / curve
        self.settled = self.settled and step == 1.0
        for j in range(m):
            if step == 1.0:
                point.x[j] += self.target[j]
                point.h[j] = self.target_h[j]
                p = self.chosen.position[j]
                if p < 0 or self.face.row[p] >= 0 or point.x[j] < CRUMB:
                    point.x[j] = 0.0
            else:
                point.x[j] = max(0.0, point.x[j] + step * self.target[j])
                point.h[j] += step * (self.target_h[j] - point.h[j])
        point.stale = step != 1.0
        for p in range(point.problem.n_parts):
            if point.slack[p]:
                point.rest[p] += step * (self.target[m + p] - point.rest[p])
        return 0
