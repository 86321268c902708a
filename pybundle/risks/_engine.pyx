"""The engine that computes a pass of a linear risk: losses and planes of rows from their scores.

Rows are processed in blocks of 64, so that X is read from memory once. A block is scored (`features/_rows.pyx`); the
loss turns scores into value, offset and at most two coefficients for each row; rows with a coefficient that is not 0
are added to the slopes from cache, class by class, in float64.

In float32 a score has a rounding error of at most `gamma |x_i| |w_k|`. A row whose two best labels are closer than
twice this bound is scored again in float64. Therefore labels, offsets and slopes equal those of a float64 pass.

All work on the data releases the GIL. Each call has scratch of its own; the engine itself never changes.
"""

import numpy as np

from ..features._rows import aligned
from .partition import SHARD_ROWS

from libc.math cimport INFINITY, exp, fabs, log1p


cdef place_block(Block* b, int K):
    """Let the arrays of `b` point into new memory of zeros; return the array that owns this memory."""
    cdef size_t rows = BLOCK
    memory = aligned(((2 * K + 15) * rows + K + 1,), np.float64)
    cdef double* at = <double*><size_t>memory.ctypes.data
    b.scores, b.scores64 = at, at + K * rows
    at += 2 * K * rows
    b.coef, b.value, b.offset, b.margin, b.truth = at, at + rows, at + 2 * rows, at + 3 * rows, at + 4 * rows
    b.best, b.second, b.entry_coef = at + 5 * rows, at + 7 * rows, at + 8 * rows
    b.unsure, b.entry_row = <Py_ssize_t*>(at + 10 * rows), <Py_ssize_t*>(at + 11 * rows)
    b.label, b.place, b.start = <int32_t*>(at + 13 * rows), <int*>(at + 14 * rows), <int*>(at + 15 * rows)
    return memory


cdef class Engine(Rows):
    """Rows, labels and loss of a linear risk; immutable, shared by all risks derived from it.

    Parameters
    ----------
    storage : (X,) or (data, indices int32, indptr int64)
        C-contiguous rows of float32, float64 or uint8, or CSR of float32 or float64; never copied.
    y : int32 array, shape (n,)
        Labels 0..K-1, or -1/+1 for the losses of one score.
    c : float64 array, shape (n,)
        Weights of the examples.
    cost : float64 array, shape (K, K), or None
        None means the 0/1 loss.
    norms : float64 array, shape (n,)
        |x_i|, scale and bias included; used for the rounding bound only.
    curve : (low, high, linear, square, flat), optional
        The loss CURVE, see `Curve` in `_engine.pxd`.
    target : float64 array, shape (n,)
        The targets t_i of the loss CURVE.
    """

    def __init__(self, storage, y, c, cost, norms, Py_ssize_t n_features, int n_scores, int loss,
                 double scale, bias, curve=None, target=None):
        Rows.__init__(self, storage, norms, n_features, n_scores, scale, bias)
        self._args = (storage, y, c, cost, norms, n_features, n_scores, loss, scale, bias, curve, target)
        if curve is not None:
            self.curve = Curve(curve[0], curve[1], curve[2], curve[3], curve[4])
            self.target = target
        # counts the roundings of sums over a part, of a term, and of targets and columns that a `Shift` moved
        self.offset_unit = 1.01 * 2.0 ** -53 * (min(len(y), SHARD_ROWS) + len(y) // SHARD_ROWS + 22)
        self.y, self.c = y, c
        self.has_cost = cost is not None
        if self.has_cost:
            self.cost = cost
        self.n_examples = self.n_rows
        self.loss = loss
        self.largest_loss = cost.max() if self.has_cost else 1.0

    def pack(self, w, precision="float64"):
        """Pack w as `Rows.pack`, and set `tau`, the rounding error that the loss adds to float32 scores."""
        cdef PackedWeights packed = Rows.pack(self, w, precision)
        if packed.is_single:
            packed.tau = 4.0 * 2.0 ** -24 * (self.largest_loss + 1.0) + 1e-30
        return packed

    @property
    def y_array(self):
        """Labels as given to the constructor; read only."""
        return self._args[1]

    @property
    def cost_array(self):
        """Cost matrix as given to the constructor, empty for the 0/1 loss; read only."""
        return np.empty(0) if self._args[3] is None else self._args[3]

    @property
    def target_array(self):
        """Targets as given to the constructor, or None; read only."""
        return self._args[11]

    @property
    def weight_array(self):
        """Weights as given to the constructor; read only."""
        return self._args[2]

    cdef void _label(self, real* S, const Py_ssize_t* rows, int n, Block* b) noexcept nogil:
        # Sets label, value and margin of every row; overwrites the scores.
        cdef real* best = <real*>b.best
        cdef real* second = <real*>b.second
        cdef const int32_t* y = &self.y[0]
        cdef int k, r, truth
        # Scores within a few roundings of each other tie, and the smallest label wins. At the optimum of a small
        # problem examples lie on a kink; without this rule the order of summation would choose the plane there.
        cdef double m, tail, tie, tie_unit = 0.0 if real is float else 64.0 * 2.0 ** -53
        if self.loss == CURVE:
            for r in range(n):
                m = y[rows[r]] * <double>S[r] - self.target[rows[r]]
                b.coef[r] = curve_slope(&self.curve, m)
                b.value[r] = max(curve_term(&self.curve, b.coef[r], m), 0.0)
                m = self.target[rows[r]]
                b.offset[r] = curve_term(&self.curve, b.coef[r], -m)
                # the offset is lowered by the rounding errors of itself and of the sums to which it is added
                b.offset[r] -= self.offset_unit * (fabs(b.coef[r] * m) + fabs(curve_term(&self.curve, b.coef[r], 0.0))
                                                   + 2.0 * fabs(b.coef[r] * self.curve.linear))
            return
        if self.loss != MULTICLASS:
            for r in range(n):
                m = y[rows[r]] * <double>S[r]
                if self.loss == HINGE:
                    b.label[r] = m < 1.0 - tie_unit
                    b.value[r] = 1.0 - m if b.label[r] else 0.0
                    b.margin[r] = fabs(1.0 - m)
                else:
                    # p = 1 / (1 + e^m), value log(1 + e^-m), offset value + m p = log(1 + e^-|m|) + |m| p(|m|):
                    # both forms neither overflow nor cancel
                    tail = exp(-fabs(m))
                    b.value[r] = log1p(tail) + (0.0 if m > 0.0 else -m)
                    b.offset[r] = log1p(tail) + fabs(m) * tail / (1.0 + tail)
                    b.coef[r] = (tail if m > 0.0 else 1.0) / (1.0 + tail)
            return
        for r in range(n):
            truth = y[rows[r]]
            b.truth[r] = S[truth * BLOCK + r]
            if self.has_cost:
                for k in range(self.n_scores):
                    S[k * BLOCK + r] += <real>self.cost[truth, k]
            else:
                S[truth * BLOCK + r] -= 1      # adds the 0/1 loss minus 1 to all scores
        if real is float:
            self.kernels.top2_32(S, self.n_scores, best, second, b.label)
        else:
            self.kernels.top2_64(S, self.n_scores, best, second, b.label)
        for r in range(n):
            b.margin[r] = <double>best[r] - <double>second[r]
            tie = tie_unit * (1.0 + fabs(best[r]))
            if b.margin[r] <= tie:
                for k in range(self.n_scores):
                    if S[k * BLOCK + r] >= best[r] - tie:
                        b.label[r] = k
                        break
            b.value[r] = 0.0
            if b.label[r] != y[rows[r]]:
                m = <double>best[r] - b.truth[r] + (0.0 if self.has_cost else 1.0)
                b.value[r] = m if m > 0.0 else 0.0

    cdef void _rescore_unsure(self, PackedWeights w, const Py_ssize_t* rows, int n, Block* b) noexcept nogil:
        # Computes again in float64 the labels that may differ due to float32 rounding.
        cdef const double* norms = &self.norms[0]
        cdef int r, k, count = 0
        cdef int32_t label[64]
        cdef double value[64]
        for r in range(n):
            if b.margin[r] <= w.tau_row * norms[rows[r]] + w.tau:
                b.unsure[count] = rows[r]
                b.place[count] = r
                count += 1
        if count == 0:
            return
        self.kernels.score64[self.kind](&self.X, b.unsure, count, 0, &w.W64[0, 0], w.W64.shape[1],
                                        self.n_scores, b.scores64)
        if self.has_bias:
            for k in range(self.n_scores):
                for r in range(count):
                    b.scores64[k * BLOCK + r] += w.base[k]
        for r in range(n):
            label[r] = b.label[r]
            value[r] = b.value[r]
        self._label(b.scores64, b.unsure, count, b)
        for r in range(count):
            label[b.place[r]] = b.label[r]
            value[b.place[r]] = b.value[r]
        for r in range(n):
            b.label[r] = label[r]
            b.value[r] = value[r]

    cdef double _decide(self, const Py_ssize_t* rows, int n, Block* b, double* offset) noexcept nogil:
        # Sets coefficients and offsets of the rows from their labels. Adds the offsets to `offset` and returns the sum
        # of the values, both weighted.
        cdef const int32_t* y = &self.y[0]
        cdef const double* c = &self.c[0]
        cdef int r, truth
        cdef double ci, total = 0.0, losses = 0.0
        for r in range(n):
            truth = y[rows[r]]
            ci = c[rows[r]]
            if self.loss == MULTICLASS:
                b.coef[r] = ci if b.label[r] != truth else 0.0
                b.offset[r] = b.coef[r] * (self.cost[truth, b.label[r]] if self.has_cost else 1.0)
            elif self.loss == HINGE:
                b.coef[r] = -ci * truth if b.label[r] else 0.0
                b.offset[r] = ci if b.label[r] else 0.0
                b.label[r] = 0
            else:
                b.coef[r] *= ci * truth if self.loss == CURVE else -ci * truth
                b.offset[r] *= ci
                b.label[r] = 0
            total += ci * b.value[r]
            losses += b.offset[r]
        offset[0] += losses
        return total

    cdef void _accumulate(self, const Py_ssize_t* rows, int n, Block* b, double* slope) noexcept nogil:
        # Adds the plane of every row to slope (K, width). The entries are sorted by class, and by row within a class.
        cdef int K = self.n_scores, k, r, first, last, truth
        cdef const int32_t* y = &self.y[0]
        cdef double coef
        if K == 1:
            last = 0
            for r in range(n):
                if b.coef[r] != 0.0:
                    b.entry_row[last] = rows[r]
                    b.entry_coef[last] = b.coef[r]
                    last += 1
            b.start[0] = last
        else:
            for k in range(K + 1):
                b.start[k] = 0
            for r in range(n):
                if b.coef[r] != 0.0:
                    b.start[b.label[r]] += 1
                    b.start[y[rows[r]]] += 1
            for k in range(1, K):
                b.start[k] += b.start[k - 1]
            for r in range(n - 1, -1, -1):
                coef = b.coef[r]
                if coef != 0.0:
                    truth = y[rows[r]]
                    b.start[truth] -= 1
                    b.entry_row[b.start[truth]] = rows[r]
                    b.entry_coef[b.start[truth]] = -coef
                    b.start[b.label[r]] -= 1
                    b.entry_row[b.start[b.label[r]]] = rows[r]
                    b.entry_coef[b.start[b.label[r]]] = coef
            last = 0
            for r in range(n):
                last += 2 * (b.coef[r] != 0.0)
            b.start[K] = last
        for k in range(K):
            first = 0 if K == 1 else b.start[k]
            last = b.start[0] if K == 1 else b.start[k + 1]
            if first == last:
                continue
            self.accumulate(b.entry_row + first, b.entry_coef + first, last - first, slope + k * self.width)

    def planes(self, PackedWeights w, const Py_ssize_t[::1] rows, double[::1] slope):
        """Return the sums of values and of offsets of `rows` at w; add slopes, unscaled, to `slope` (K * width,)."""
        cdef Py_ssize_t i = 0, n = rows.shape[0]
        cdef int count, ahead
        cdef double value = 0.0, offset = 0.0
        cdef Block b
        if n == 0:
            return value, offset
        _memory = place_block(&b, self.n_scores)
        with nogil:
            while i < n:
                count = <int>min(<Py_ssize_t>BLOCK, n - i)
                ahead = <int>min(<Py_ssize_t>BLOCK, n - i - count)
                self.score(w, &rows[i], count, ahead, b.scores)
                if w.is_single:
                    self._label[float](<float*>b.scores, &rows[i], count, &b)
                    if self.loss == MULTICLASS or self.loss == HINGE:
                        self._rescore_unsure(w, &rows[i], count, &b)
                else:
                    self._label[double](<double*>b.scores, &rows[i], count, &b)
                value += self._decide(&rows[i], count, &b, &offset)
                self._accumulate(&rows[i], count, &b, &slope[0])
                i += count
        return value, offset

    def planes_at(self, const real[:, ::1] scores, const Py_ssize_t[::1] rows, double[::1] slope):
        """Return what `planes` returns, but from given scores."""
        cdef Py_ssize_t i = 0, n = rows.shape[0]
        cdef int count, k, r
        cdef double value = 0.0, offset = 0.0
        cdef real* S
        cdef Block b
        if n == 0:
            return value, offset
        _memory = place_block(&b, self.n_scores)
        S = <real*>b.scores
        with nogil:
            while i < n:
                count = <int>min(<Py_ssize_t>BLOCK, n - i)
                for r in range(count):
                    for k in range(self.n_scores):
                        S[k * BLOCK + r] = scores[rows[i + r], k]
                self._label(S, &rows[i], count, &b)
                value += self._decide(&rows[i], count, &b, &offset)
                self._accumulate(&rows[i], count, &b, &slope[0])
                i += count
        return value, offset

    cdef double _loss_of(self, const double* S, Py_ssize_t i, double reach, double shift,
                         double* error) noexcept nogil:
        # Returns the loss of row i from its float64 scores S[k * BLOCK], and adds its error bound to `error`. Loss and
        # error include c_i. Labels are not needed, so there is no rule for ties.
        cdef double unit = 2.0 ** -53, ci = self.c[i], slack, best, v, p
        cdef int y = self.y[i], k
        slack = reach * self.norms[i] + shift
        if self.loss == LOGISTIC:
            v = y * S[0]
            p = exp(-fabs(v))
            best = log1p(p) + (0.0 if v > 0.0 else -v)
            # a change of the score by at most `slack` multiplies the derivative by at most e^slack
            p = (p if v > 0.0 else 1.0) / (1.0 + p)
            error[0] += ci * ((2.0 * p if slack < 0.5 and p < 0.5 else 1.0) * slack + 8.0 * unit * best)
            return ci * best
        if self.loss == CURVE:
            v = y * S[0] - self.target[i]
            slack += unit * (fabs(v) + fabs(self.target[i]))    # a `Shift` may have rounded the target
            p = curve_slope(&self.curve, v)
            best = 0.5 * self.curve.square * p * p + self.curve.flat * fabs(p) + fabs(self.curve.linear * p)
            # the loss is steepest at one of the ends of the interval that holds the exact score
            error[0] += ci * (slack * max(fabs(curve_slope(&self.curve, v - slack)),
                                          fabs(curve_slope(&self.curve, v + slack)))
                              + 8.0 * unit * (fabs(p * v) + best))
            return ci * curve_loss(&self.curve, v)
        slack += 8.0 * unit * self.largest_loss         # rounding of loss plus score
        if self.loss == HINGE:
            best = 1.0 - y * S[0]
        else:
            best = -INFINITY
            for k in range(self.n_scores):
                if k != y:
                    v = (self.cost[y, k] if self.has_cost else 1.0) + (S[k * BLOCK] - S[y * BLOCK])
                    if not v <= best:       # is also true if v is NaN, so that NaN is returned
                        best = v
        if best < -slack:
            return 0.0                      # the exact loss is 0, too
        error[0] += ci * slack
        return 0.0 if best < 0.0 else ci * best

    def losses(self, PackedWeights w, const Py_ssize_t[::1] rows, double reach, double shift=0.0):
        """Return the sum of the losses of `rows` at w, and a bound on its error due to rounded scores.

        Parameters
        ----------
        w : PackedWeights
            Packed in float64.
        reach, shift : float
            `reach |x_i| + shift` bounds the rounding error of a score; for many classes, of a difference of two scores.

        Returns
        -------
        value, error : float
            An example whose margin exceeds its error has loss 0 and error 0. The rounding of the sum itself,
            `(BLOCK + rows / BLOCK + 1) 2^-53 value`, is not included in `error`.
        """
        cdef Py_ssize_t i = 0, n = rows.shape[0]
        cdef int count, ahead, r
        cdef double value = 0.0, error = 0.0, total
        cdef Block b
        if n == 0:
            return value, error
        if w.is_single:
            raise ValueError("weights must be packed in float64")
        _memory = place_block(&b, self.n_scores)
        with nogil:
            while i < n:
                count = <int>min(<Py_ssize_t>BLOCK, n - i)
                ahead = <int>min(<Py_ssize_t>BLOCK, n - i - count)
                self.score(w, &rows[i], count, ahead, b.scores)
                total = 0.0
                for r in range(count):
                    total += self._loss_of(<double*>b.scores + r, rows[i + r], reach, shift, &error)
                value += total
                i += count
        return value, error

    def planes_of(self, const int32_t[::1] label, const double[::1] coef, const double[::1] offsets,
                  const Py_ssize_t[::1] rows, double[::1] slope):
        """Return the sum of the offsets of `rows` with given labels and coefficients; add slopes to `slope`."""
        cdef Py_ssize_t i = 0, r, n = rows.shape[0]
        cdef int count
        cdef double offset = 0.0
        cdef Block b
        if n == 0:
            return offset
        _memory = place_block(&b, self.n_scores)
        with nogil:
            while i < n:
                count = <int>min(<Py_ssize_t>BLOCK, n - i)
                for r in range(count):
                    b.label[r] = label[rows[i + r]]
                    b.coef[r] = coef[rows[i + r]]
                    offset += offsets[rows[i + r]]
                self._accumulate(&rows[i], count, &b, &slope[0])
                i += count
        return offset
