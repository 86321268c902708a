# cython: nonecheck=False
# (the check needs the GIL for `self.x += 1`, and self is never None)
"""The master of a bundle method: pairwise steps where few are needed, faces where many are.

    min q(x) = scale/2 x'Hx - f'x,   x >= 0,   sum of x over part p = 1  (<= 1 with the zero plane),

and variables of part -1 have no sum. The duality gap at x is a sum over parts,

    gap = sum_p ( <x_p, g_p> - min(g_p) ),   g = scale H x - f,   the zero plane counting as g = 0,

which bounds q(x) - min q from above. A variable without a sum adds g x where g >= 0; where g < 0 no finite
bound exists, and the gain of its own Newton step, doubled, stands in: |g| max(x, |g| / (scale H_jj)).

A round takes the support of x and the variables that violate optimality most, and either makes pairwise
steps on them (`_smo`) or moves to the minimiser on their face (`_active_set`). The faces change in blocks:
all variables that come out negative are held at zero, all held ones of negative reduced cost return, as in
block pivoting (Portugal, Judice, Vicente 1994). The step towards the result takes an exact line search, so q
never rises; where the result is no descent, variables leave one at a time by the ratio test of Wolfe 1976,
which cannot fail. Work is counted in floating-point operations, never in seconds: equal input, equal bits.
"""

from libc.math cimport fabs, log
from libc.string cimport memset

from typing import NamedTuple

import numpy as np

from pybundle.core cimport _blas
from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.qp._active_set cimport Face
from pybundle.qp._smo cimport smo

cdef extern from "_kernels.h" nogil:
    void pb_add_rows(int m, int n_rows, const double** row, const double* weight, double* y)

# A weight below this share of a simplex is rounding; ageing of planes needs exact zeros.
cdef double CRUMB = 1e-15
# Pairwise steps may use this share of the work of faces before they must be near the end.
cdef double PAIRWISE_SHARE = 0.3
# Their convergence is foretold from one round, so badly: how far beyond that share it may point.
cdef double PATIENCE = 2.0
# Diagonal shift relative to the mean diagonal; more only if the factor fails.
cdef double SHIFT = 1e-12
# Slope of a step, as a share of the gap, that counts as none.
cdef double NO_DESCENT = 1e-9
# Share of |q|'s own terms below which |q| no longer sets the scale of a relative gap.
cdef double CANCELLED = 1e-3
cdef enum:
    AUTO, SMO, FACES

# How a face loses variables: all negative ones at once, half of them at a time, or one by one.
cdef enum:
    ALL, HALF, ONE


STATUS = ("converged", "step limit", "rounding")
METHODS = {"auto": 0, "smo": 1, "active-set": 2}


class MasterSolution(NamedTuple):
    """What a bundle loop needs to know.

    Attributes
    ----------
    h : ndarray, shape (m,)
        H x, computed afresh.
    gap : float
        Absolute duality gap at x, the sum over parts.
    value : float
        q(x).
    n_steps : int
        Pairwise steps and face solves.
    status : int
        0 gap <= tol, 1 step limit, 2 rounding allows no better.
    """

    h: np.ndarray
    gap: float
    value: float
    n_steps: int
    status: int


cdef class SimplexQP:
    """Solver object for a growing master problem.

    Workspace and, on request, the factor are kept between calls, so one object belongs to one bundle; two
    threads need two objects.
    """

    def __cinit__(self):
        self.face = Face()
        self.room = self.compact_room = 0

    def reset(self):
        """Forgets the factor kept by `reuse`: to be called when planes were removed or renumbered."""
        self.face.n = self.face.n_held = 0

    def solve(self, H, const double[::1] f, const int[::1] parts, slack, double[::1] x, double scale=1.0,
              double tol=0.0, double rtol=0.0, Py_ssize_t max_steps=1000000, bint reuse=False,
              method="auto"):
        """Minimises in place, from x.

        Parameters
        ----------
        H : ndarray of float64, shape (m, m)
            Symmetric positive semidefinite, rows contiguous; may be a corner of a larger array. Never copied.
        f : ndarray of float64, shape (m,)
        parts : ndarray of int32, shape (m,)
            Part of each variable, -1 for one without a sum.
        slack : ndarray of bool or uint8, shape (P,)
            Whether the sum of a part may be less than 1; its length is the number of parts.
        x : ndarray of float64, shape (m,)
            Warm start, zeros allowed; made feasible first; on return the solution.
        scale : float
            1/s in front of the quadratic term.
        tol : float
            Absolute duality gap wanted.
        rtol : float
            Gap wanted relative to max(|q|, 1e-3 (scale/2 x'Hx + |f'x|)); the larger of both counts.
        max_steps : int
            Most pairwise steps plus face solves.
        reuse : bool
            Promises that entries of H seen by earlier calls with `reuse` have not changed, nor the parts of
            their variables, so that the factor can be kept.
        method : {"auto", "smo", "active-set"}
            For comparisons.

        Returns
        -------
        MasterSolution
        """
        cdef const double[:, :] H_view = H
        cdef Py_ssize_t m = f.shape[0], j
        cdef const unsigned char[::1] slack_view = np.ascontiguousarray(slack).view(np.uint8)
        cdef int code = METHODS[method], status
        if H_view.shape[0] != m or H_view.shape[1] != m or parts.shape[0] != m or x.shape[0] != m or m == 0:
            raise ParameterError(f"H must be (m, m), parts and x (m,) with m = len(f) >= 1, got {H.shape}, "
                                 f"{parts.shape[0]} and {x.shape[0]} for m = {m}")
        if H_view.strides[1] != 8 and m > 1:
            raise InputTypeError("H must have contiguous rows; pass np.ascontiguousarray(H)")
        self.n_parts = <int>slack_view.shape[0]
        self.m = <int>m
        self.n_signed = 0
        for j in range(m):
            if not -1 <= parts[j] < self.n_parts:
                raise ParameterError(f"parts must be in -1..{self.n_parts - 1}, got {parts[j]} at index {j}")
            self.n_signed += parts[j] < 0
        self._reserve(m, self.n_parts)
        for j in range(self.n_parts):
            self.slack[j] = slack_view[j]
        h = np.empty(m)
        cdef double[::1] h_view = h
        self.H, self.ldh = &H_view[0, 0], H_view.strides[0] // 8
        self.f, self.parts, self.x, self.h = &f[0], &parts[0], &x[0], &h_view[0]
        self.scale, self.wanted, self.rtol = scale, tol, rtol
        self.n_steps = 0
        if not (reuse and self.keeps_factor and self.face.n_parts == self.n_parts):
            self.reset()
        self.keeps_factor = reuse
        with nogil:
            status = self._run(code, max_steps)
        return MasterSolution(h, self.gap, self.value, self.n_steps, status)

    # ------------------------------------------------------------------ memory

    cdef int _reserve(self, Py_ssize_t m, Py_ssize_t n_parts) except -1:
        cdef Py_ssize_t n = m + n_parts + 2
        cdef double[:, ::1] reals
        cdef int[:, ::1] integers
        cdef Py_ssize_t[::1] addresses
        cdef unsigned char[::1] bytes_
        if n <= self.room:
            return 0
        n = max(n, 2 * self.room)
        reals = np.empty((14, n))
        integers = np.empty((4, n), dtype=np.intc)
        addresses = np.empty(n, dtype=np.intp)
        bytes_ = np.empty(n, dtype=np.uint8)
        self._arrays = (reals.base, integers.base, addresses.base, bytes_.base)
        self.rest, self.g, self.mean, self.least = &reals[0, 0], &reals[1, 0], &reals[2, 0], &reals[3, 0]
        self.target, self.target_h = &reals[4, 0], &reals[5, 0]
        self.key, self.key_copy, self.lack = &reals[6, 0], &reals[7, 0], &reals[8, 0]
        self.xb, self.rb, self.sb, self.yb = &reals[9, 0], &reals[10, 0], &reals[11, 0], &reals[12, 0]
        self.weights = &reals[13, 0]
        self.pick, self.pick_part, self.position = &integers[0, 0], &integers[1, 0], &integers[2, 0]
        self.start = &integers[3, 0]
        self.rows = <const double**>&addresses[0]
        self.slack = &bytes_[0]
        self.room = n
        return 0

    cdef int _reserve_compact(self, Py_ssize_t n) except -1:
        cdef double[::1] memory
        if n > self.compact_room:
            n = max(n, 2 * self.compact_room)
            memory = np.empty(n * n + 2 * n)
            self._compact = memory.base
            self.Q, self.qg, self.qx = &memory[0], &memory[n * n], &memory[n * n + n]
            self.compact_room = n
        return 0

    # ------------------------------------------------------------------ the point and its gap

    cdef void _normalise(self) noexcept nogil:
        """x into the feasible set: negative weights to 0, sums to 1; an empty part gets its best vertex."""
        cdef int j, p
        cdef double vertex
        cdef double* total = self.mean
        cdef double* best = self.least
        for p in range(self.n_parts + 1):
            total[p] = 0.0
            self.start[p] = -1
        for j in range(self.m):
            p = self.parts[j]
            if not self.x[j] > CRUMB:
                self.x[j] = 0.0
            elif p >= 0:
                total[p] += self.x[j]
        for j in range(self.m):
            p = self.parts[j]
            if p >= 0 and total[p] == 0.0 and not self.slack[p]:
                vertex = 0.5 * self.scale * self.H[j * self.ldh + j] - self.f[j]
                if self.start[p] < 0 or vertex < best[p]:
                    self.start[p] = j
                    best[p] = vertex
            elif p >= 0 and (total[p] > 1.0 or not self.slack[p]):
                self.x[j] /= total[p]
        for p in range(self.n_parts):
            if self.start[p] >= 0:
                self.x[self.start[p]] = 1.0
            self.rest[p] = 1.0 - total[p] if self.slack[p] and total[p] < 1.0 else 0.0

    cdef void _restore_sums(self, double* x, double* rest) noexcept nogil:
        """Takes rounding out of the sums of nonnegative x: without it the gap would lose its meaning."""
        cdef int j, p
        for p in range(self.n_parts):
            self.lack[p] = 0.0
        for j in range(self.m):
            if self.parts[j] >= 0:
                self.lack[self.parts[j]] += x[j]
        for j in range(self.m):
            p = self.parts[j]
            if p >= 0 and x[j] != 0.0 and (self.lack[p] > 1.0 or rest[p] <= 0.0):
                x[j] /= self.lack[p]
        for p in range(self.n_parts):
            rest[p] = 1.0 - self.lack[p] if rest[p] > 0.0 and self.lack[p] < 1.0 else 0.0

    cdef void _multiply(self, const double* x, double* h) noexcept nogil:
        cdef int j, count = 0
        for j in range(self.m):
            if x[j] != 0.0:
                self.rows[count] = self.H + j * self.ldh
                self.weights[count] = x[j]
                count += 1
        # h = x @ H; a dense x is left to BLAS
        if 2 * count > self.m:
            _blas.gemv(self.m, self.m, 1.0, self.H, <int>self.ldh, x, 0.0, h)
        else:
            memset(h, 0, self.m * sizeof(double))
            pb_add_rows(self.m, count, self.rows, self.weights, h)

    cdef void _assess(self) noexcept nogil:
        """g, multipliers, gap and value at x from h."""
        cdef int j, p
        cdef double product = 0.0, linear = 0.0, den
        for p in range(self.n_parts):
            self.mean[p] = 0.0
            self.least[p] = 0.0 if self.slack[p] else 1e300
        self.mean[self.n_parts] = 0.0
        self.gap = 0.0
        for j in range(self.m):
            self.g[j] = self.scale * self.h[j] - self.f[j]
            p = self.parts[j]
            if self.x[j] != 0.0:
                product += self.x[j] * self.h[j]
                linear += self.x[j] * self.f[j]
            if p >= 0:
                self.mean[p] += self.x[j] * self.g[j]
                if self.g[j] < self.least[p]:
                    self.least[p] = self.g[j]
            elif self.g[j] >= 0.0:
                self.gap += self.g[j] * self.x[j]
            else:
                den = self.scale * self.H[j * self.ldh + j]
                self.gap += max(-self.g[j] * self.x[j], self.g[j] * self.g[j] / den if den > 0.0 else 1e300)
        for p in range(self.n_parts):
            if self.least[p] < 1e300:
                self.gap += max(0.0, self.mean[p] - self.least[p])
        self.value = 0.5 * self.scale * product - linear
        self.tol = max(self.wanted, self.rtol * max(
            fabs(self.value), CANCELLED * (0.5 * self.scale * product + fabs(linear))))

    cdef int _violators(self, int most, int n_pick) noexcept nogil:
        """Appends to pick[n_pick:] the `most` variables of most negative reduced cost outside the base."""
        cdef int j, p, count = 0, total = self.m + self.n_parts
        cdef double bar, cost, norm
        cdef double floor = self.slope_floor
        for j in range(total):
            if j < self.m:
                p = self.parts[j]
                cost = self.g[j] - (self.mean[p] if p >= 0 else 0.0)
            else:
                p = j - self.m
                if not self.slack[p]:
                    continue
                cost = -self.mean[p]
            if self.position[j] < 0 and cost < (-floor if p >= 0 else 0.0):
                # Squared, in the metric of H: slopes of planes differ by orders of magnitude.
                norm = self.H[j * self.ldh + j] if j < self.m else 0.0
                self.key[count] = -cost * cost / norm if norm > 0.0 else -1e300
                self.key_copy[count] = self.key[count]
                self.pick[n_pick + count] = j
                count += 1
        if count > most:
            bar = _smallest(self.key_copy, count, most)
            p = 0
            for j in range(count):
                if self.key[j] <= bar and p < most:
                    self.pick[n_pick + p] = self.pick[n_pick + j]
                    p += 1
            count = p
        for j in range(n_pick, n_pick + count):
            self.pick_part[j] = self._part_of(self.pick[j])
        return n_pick + count

    cdef inline int _part_of(self, int variable) noexcept nogil:
        cdef int p = self.parts[variable] if variable < self.m else variable - self.m
        return p if p >= 0 else self.n_parts

    # ------------------------------------------------------------------ the loop

    cdef int _run(self, int method, Py_ssize_t max_steps) except -1 nogil:
        cdef double best_gap = 1e300, best_value = 1e300
        cdef Py_ssize_t limit
        cdef int idle = 0
        cdef bint faces = method == FACES
        self._normalise()
        self._multiply(self.x, self.h)
        self.stale = False
        self.spent = 0.0
        self.caution = ALL
        self.calm = 0
        self.calm_next = 2
        while True:
            self._assess()
            if self.stale and (self.gap <= self.tol or self.n_steps >= max_steps):
                self._multiply(self.x, self.h)
                self.stale = False
                continue
            if self.gap <= self.tol:
                return 0
            if self.n_steps >= max_steps:
                return 1
            # Neither value nor gap moves any more: rounding.
            if self.value < best_value - 1e-15 * fabs(best_value) or self.gap < 0.9 * best_gap:
                idle = 0
            else:
                idle += 1
                if idle >= 6 and self.stale:
                    self._multiply(self.x, self.h)
                    self.stale = False
                    continue
                if idle >= 6:
                    return 2
            best_value = min(self.value, best_value)
            best_gap = min(self.gap, best_gap)
            self.slope_floor = 0.5 * self.tol / (self.n_parts + 1)
            if method == AUTO and not faces and not self._pairwise_pays():
                faces = True
            if faces and idle < 3 or method == FACES:
                if self._face_round() == 0:
                    continue
            limit = self.chunk if method == AUTO and not faces else 5000
            self._smo_round(min(max_steps - self.n_steps, limit), max(0.5 * self.tol, 0.1 * self.gap))

    cdef bint _pairwise_pays(self) noexcept nogil:
        """Whether pairwise steps promise to reach tol with a fraction of the work of faces."""
        cdef double n, progress
        cdef int j
        if self.spent == 0.0:
            n = self.n_parts
            for j in range(self.m):
                n += self.x[j] > 0.0
            # At a vertex there is no support to improve, and faces find one sooner.
            if n <= 2 * self.n_parts:
                return False
            n = min(n + max(16.0, n / 3.0), <double>(self.m + self.n_parts))
            self.budget = PAIRWISE_SHARE * (n * n * n / 30.0 + n * n * (self.n_parts + 20) / 5.0)
            self.step_work = 30.0 + 0.35 * n + 2.0 * n / max(1, self.n_parts)
            self.chunk = <Py_ssize_t>max(50.0, min(200.0 + 10.0 * n, self.budget / self.step_work))
        else:
            # linear convergence assumed
            progress = log(self.last_gap / self.gap) if self.last_gap < 1e300 else 1.0
            n = (self.n_steps - self.last_steps) * self.step_work
            if (progress <= 0.0
                    or n * log(self.gap / self.tol) > PATIENCE * progress * (self.budget - self.spent)):
                return False
        self.last_gap = self.gap
        self.last_steps = self.n_steps
        return True

    # ------------------------------------------------------------------ pairwise steps

    cdef int _smo_round(self, Py_ssize_t max_steps, double tol) except -1 nogil:
        """SMO on the support and the worst violators, gathered so that every step works in cache."""
        cdef int j, p, n = 0, k, total = self.m + self.n_parts
        cdef double gap
        cdef const double* row
        cdef double* out
        for j in range(total):
            self.position[j] = -1
        for j in range(self.m):
            if self.x[j] > 0.0:
                self.pick[n] = j
                self.position[j] = 0
                n += 1
        for j in range(self.n_parts):
            self.position[self.m + j] = 0               # slacks are always there
        n = self._violators(max(64, n), n)
        # counting sort by part, in index order within a part
        for p in range(self.n_parts + 2):
            self.start[p] = 0
        for j in range(n):
            self.start[self._part_of(self.pick[j]) + 1] += 1
        for p in range(self.n_parts + 1):
            self.start[p + 1] += self.start[p]
        for j in range(n):
            p = self._part_of(self.pick[j])
            self.pick_part[self.start[p]] = self.pick[j]
            self.start[p] += 1
        for p in range(self.n_parts, 0, -1):
            self.start[p] = self.start[p - 1]
        self.start[0] = 0
        if n > self.compact_room:
            with gil:
                self._reserve_compact(n)
        for j in range(n):
            row = self.H + self.pick_part[j] * self.ldh
            out = self.Q + <Py_ssize_t>j * n
            for k in range(n):
                out[k] = row[self.pick_part[k]]
            self.qg[j] = self.g[self.pick_part[j]]
            self.qx[j] = self.x[self.pick_part[j]]
        max_steps = smo(n, self.Q, n, self.scale, self.qg, self.qx, self.n_parts, self.start, self.rest,
                        self.slack, tol, max_steps, &gap)
        self.n_steps += max_steps
        self.spent += 1.0 + max_steps * self.step_work
        for j in range(n):
            self.x[self.pick_part[j]] = self.qx[j]
        self._multiply(self.x, self.h)
        self.stale = False
        return 0

    # ------------------------------------------------------------------ faces

    cdef int _rebuild(self, double shift) except -1 nogil:
        """Empties the base; mean diagonal of H as coupling."""
        cdef int j
        cdef double total = 0.0
        for j in range(self.m):
            total += self.H[j * self.ldh + j]
        total /= self.m
        if not total > 0.0:
            total = 1.0
        if self.face.capacity == 0 or self.face.row_capacity < self.n_parts + self.face.capacity:
            with gil:
                self.face.reserve(max(min(400, self.m) + self.n_parts, self.face.capacity), self.n_parts)
        self.face.clear(self.n_parts, total, shift * total)
        for j in range(self.m + self.n_parts):
            self.position[j] = -1
        return 0

    cdef int _extend(self, int k) except -1 nogil:
        """Appends pick[:k] to the base; 0 or the failure of the factor."""
        cdef int j, n = self.face.n
        if k == 0:
            return 0
        if n + k > self.face.capacity or self.n_parts + n + k > self.face.row_capacity:
            with gil:
                self.face.reserve(n + k, self.n_parts)
        for j in range(k):
            self.position[self.pick[j]] = n + j
            if self.pick[j] >= self.m:
                self.pick[j] = self.m - 1 - self.pick[j]
        return self.face.append(self.H, self.ldh, self.pick, self.pick_part, k)

    cdef int _missing_support(self) noexcept nogil:
        """pick = positive weights outside the base, slacks included."""
        cdef int j, n = 0
        for j in range(self.m + self.n_parts):
            if self.position[j] < 0 and (self.x[j] if j < self.m else self.rest[j - self.m]) > 0.0:
                self.pick[n] = j
                self.pick_part[n] = self._part_of(j)
                n += 1
        return n

    cdef int _face_round(self) except -1 nogil:
        """One change of face; 0, or 1 where the factor failed or no descent was left."""
        cdef int j, i, k, p, info = 1, worst = -1, _attempt
        cdef double cost, least = 0.0, slope, curve, step, shift = SHIFT
        cdef bint single = self.caution == ONE
        if self.face.n:
            for j in range(self.m + self.n_parts):
                self.position[j] = -1
            for i in range(self.face.n):
                j = self.face.index[i]
                self.position[j if j >= 0 else self.m - 1 - j] = i
            if 5 * self.face.n_held > self.face.n + 24:
                self.face.n = 0
        for _attempt in range(4):
            worst = -1
            least = 0.0
            if self.face.n == 0:
                self._rebuild(shift)
            else:
                # held variables that the point uses or the gradient wants return
                for i in range(self.face.n):
                    if self.face.row[i] < 0:
                        continue
                    j = self.face.index[i]
                    p = self.face.part[i]
                    cost = (self.g[j] if j >= 0 else 0.0) - self.mean[p]
                    if (self.x[j] if j >= 0 else self.rest[p]) > 0.0:
                        self.face.release(i)
                    elif cost < (-self.slope_floor if p < self.n_parts else 0.0):
                        if not single:
                            self.face.release(i)
                        elif cost < least:
                            least = cost
                            worst = i
            k = self._missing_support()
            if single:
                for j in range(k):
                    self.position[self.pick[j]] = 0     # not to be counted twice
                i = self._violators(1, k)
                for j in range(k):
                    self.position[self.pick[j]] = -1
                if i > k and worst >= 0 and self.key_copy[0] >= least:
                    i = k
                elif i > k:
                    worst = -1
                k = i
                if worst >= 0:
                    self.face.release(worst)
            else:
                for j in range(k):
                    self.position[self.pick[j]] = 0
                j = max(16, (self.face.n + k - self.face.n_held) // 3)
                k = self._violators(j, k)
                for j in range(k):
                    self.position[self.pick[j]] = -1
            info = self._extend(k)
            if info == 0:
                info = self._face_target(single)
            if info == 0:
                break
            shift *= 100.0
            self.face.n = 0
        if info:
            return 1
        self._multiply(self.target, self.target_h)
        # line search on q(x + step (target - x))
        slope = curve = 0.0
        for j in range(self.m):
            self.target[j] -= self.x[j]
            slope += self.g[j] * self.target[j]
            curve += self.target[j] * (self.target_h[j] - self.h[j])
        curve *= self.scale
        # A target that is the point itself, up to rounding, is no descent either.
        if not slope < -NO_DESCENT * self.gap:
            if single:
                return 1
            self.caution += 1
            self.calm = self.calm_next
            self.calm_next *= 2
            return 0
        self.calm -= 1
        if self.calm <= 0:
            self.caution = ALL
        step = 1.0 if -slope >= curve * (1.0 - 1e-9) else -slope / curve
        for j in range(self.m):
            if step == 1.0:
                self.x[j] += self.target[j]
                self.h[j] = self.target_h[j]
                if self.position[j] < 0 or self.face.row[self.position[j]] >= 0 or self.x[j] < CRUMB:
                    self.x[j] = 0.0
            else:
                self.x[j] = max(0.0, self.x[j] + step * self.target[j])
                self.h[j] += step * (self.target_h[j] - self.h[j])
        self.stale = step != 1.0
        for p in range(self.n_parts):
            if self.slack[p]:
                self.rest[p] += step * (self.target[self.m + p] - self.rest[p])
        return 0

    cdef int _face_target(self, bint single) except -1 nogil:
        """target = minimiser over a face inside the base; 0 or the failure of a factor."""
        cdef int i, j, p, n = self.face.n, info, k, block = -1
        cdef double length, ratio
        for p in range(self.n_parts):
            self.lack[p] = 1.0
        for i in range(n):
            j = self.face.index[i]
            p = self.face.part[i]
            if j >= 0:
                self.xb[i] = self.x[j]
                self.rb[i] = -self.g[j] / self.scale
            else:
                self.xb[i] = self.rest[p]
                self.rb[i] = 0.0
            self.yb[i] = self.xb[i]
            if p < self.n_parts:
                self.lack[p] -= self.xb[i]
        while True:
            info = self.face.solve(self.rb, self.xb, self.lack, self.sb)
            if info:
                return info
            self.n_steps += 1
            k = 0
            length = 1.0
            for i in range(n):
                if self.face.row[i] >= 0:
                    continue
                ratio = self.xb[i] + self.sb[i]
                if not ratio == ratio:
                    return 1
                if ratio < 0.0:
                    self.pick[k] = i
                    k += 1
                    if self.yb[i] <= length * (self.yb[i] - ratio):
                        length = self.yb[i] / (self.yb[i] - ratio)
                        block = i
            if k == 0:
                break
            if single:
                for i in range(n):
                    self.yb[i] += length * (self.xb[i] + self.sb[i] - self.yb[i])
                self.pick[0] = block
                k = 1
            elif self.caution == HALF or 4 * k > n - self.face.n_held:
                # Many negative ones say little about each: those that reach zero first on the way leave.
                for i in range(k):
                    self.key[i] = self.xb[self.pick[i]] / -self.sb[self.pick[i]]
                    self.key_copy[i] = self.key[i]
                ratio = _smallest(self.key_copy, k, (k + 1) // 2)
                block = 0
                for i in range(k):
                    if self.key[i] <= ratio:
                        self.pick[block] = self.pick[i]
                        block += 1
                k = block
            self.face.hold(self.pick, k)
        memset(self.target, 0, (self.m + self.n_parts) * sizeof(double))
        for i in range(n):
            if self.face.row[i] < 0:
                j = self.face.index[i]
                self.target[j if j >= 0 else self.m - 1 - j] = self.xb[i] + self.sb[i]
        self._restore_sums(self.target, self.target + self.m)
        return 0


cdef double _smallest(double* values, int n, int k) noexcept nogil:
    """The k-th smallest of n values (k >= 1), which are reordered."""
    cdef int low = 0, high = n - 1, i, j
    cdef double pivot, keep
    k -= 1
    while low < high:
        pivot = values[(low + high) // 2]
        i = low
        j = high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                keep = values[i]
                values[i] = values[j]
                values[j] = keep
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]
