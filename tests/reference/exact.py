"""Small risks in exact arithmetic: every labelling is listed; hinges are rationals, log-losses 80-digit decimals.

This is the referee of the proofs: it knows the definitions of the models, and shares no code with the package. A risk
is a list of groups of rows (offset, factor, psi), one row for each labelling of an example:

    R(w) = sum over groups  c max_row [ offset + factor <psi, w> ]     or     c log sum_row exp <psi, w>

Floats are integers over a power of two, so the products of float vectors are products of integers here.
"""

import decimal
import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from .arborescence import all_trees
from .segmentation import covers

BLUR = Fraction(1, 10**60)
"""Relative error granted to what is computed in decimals of 80 digits."""
FAR = 2000
"""Terms below exp(-FAR) count as 0 in lower ends of values, and as exp(-FAR) in upper ones."""
DIGITS = decimal.Context(prec=80, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)


class Optimum(NamedTuple):
    """The minimiser up to `distance`, and an interval that holds the minimum."""

    w: list
    distance: Fraction
    low: Fraction
    high: Fraction


def fraction(value):
    """A float, NumPy scalar, integer or Fraction as it is."""
    return value if isinstance(value, Fraction) else Fraction(value.item() if hasattr(value, "item") else value)


def root(square):
    """An upper bound of the square root of a Fraction."""
    with decimal.localcontext(DIGITS):
        found = (Decimal(square.numerator) / Decimal(square.denominator)).sqrt()
    return Fraction(found) * (1 + BLUR)


def lift(*arrays):
    """Float arrays as object arrays of integers, and k: the numbers are integers / 2^k."""
    arrays = [np.asarray(a, dtype=np.float64) for a in arrays]
    parts = [np.frexp(a) for a in arrays]
    k = max([0] + [int((53 - e[m != 0.0]).max(initial=0)) for m, e in parts])
    out = []
    for m, e in parts:
        digits, shifts = np.ldexp(m, 53).astype(np.int64).ravel().tolist(), (e + k - 53).ravel().tolist()
        ints = np.empty(m.shape, dtype=object)
        ints.ravel()[:] = [d << s if s >= 0 else d >> -s for d, s in zip(digits, shifts, strict=True)]
        out.append(ints)
    return (*out, k)


class Risk:
    """R as integers: `(offsets + A w) / D`, rows of a group from one start to the next.

    Parameters
    ----------
    groups : list of (c, list of (offset, factor, psi))
        psi are object arrays of integers over 2^k.
    smooth : bool
        Log-sum-exp in the place of the maximum; offsets are 0 and factors 1 then.
    is_exact : bool
        Whether offsets are exact, or rounded to 80 digits.
    """

    def __init__(self, dim, groups, k, smooth=False, is_exact=True):
        self.dim, self.smooth, self.is_exact = dim, smooth, is_exact
        self.weights = [fraction(c) for c, _ in groups]
        self.starts = np.cumsum([0] + [len(rows) for _, rows in groups]).tolist()
        rows = [(c if not smooth else 1, *row) for c, (_, rows) in zip(self.weights, groups, strict=True)
                for row in rows]
        offsets = [c * fraction(b) for c, b, _, _ in rows]
        factors = [c * fraction(f) / 2**k for c, _, f, _ in rows]
        self.D = math.lcm(1, *(f.denominator for f in offsets + factors))
        self.offsets = np.array([int(b * self.D) for b in offsets], dtype=object)
        self.A = np.empty((len(rows), dim), dtype=object)
        for r, (f, (_, _, _, psi)) in enumerate(zip(factors, rows, strict=True)):
            self.A[r] = psi * int(f * self.D)

    def groups(self):
        return list(itertools.pairwise(self.starts))

    def value(self, w):
        """An interval (low, high) that holds R(w), for a float vector w or one of fractions."""
        W, scale = _integers(w)
        scores = self.A @ W
        if not self.smooth:
            scores = scores + self.offsets * scale
            total = Fraction(sum(max(scores[a:b]) for a, b in self.groups()), self.D * scale)
            blur = Fraction(0) if self.is_exact else BLUR * Fraction(int(np.abs(self.offsets).sum()), self.D)
            return total - blur, total + blur
        low = high = Fraction(0)
        scale *= self.D
        for c, (a, b) in zip(self.weights, self.groups(), strict=True):
            below, above = _log_sum_exp(scores[a:b].tolist(), scale)
            low, high = low + c * below, high + c * above
        return low, high

    def objective(self, w, lam, n=1):
        """An interval that holds `lam/2 |w|^2 + R(w) / n`."""
        low, high = self.value(w)
        W, scale = _integers(w)
        square = fraction(lam) / 2 * Fraction(int(W @ W), scale * scale)
        return square + low / n, square + high / n

    def optimum(self, lam, guess, nonneg=None, n=1):
        """The minimiser of `lam/2 |w|^2 + R(w) / n` from a good guess, proven; None where it is not found."""
        lam = fraction(lam) * n
        if self.smooth:
            found = self._newton(lam, guess, nonneg)
        else:
            found = _ActiveSet(self, lam, nonneg).run(guess)
        if found is None:
            return None
        w, distance = found
        low, high = self.objective(w, lam)
        return Optimum(w, distance, (low - lam / 2 * distance**2) / n, high / n)

    def _newton(self, lam, guess, nonneg=None):
        """Newton's method in decimals; the gradient says how far the minimiser is."""
        with decimal.localcontext(DIGITS):
            D, step = Decimal(self.D), Decimal(lam.numerator) / Decimal(lam.denominator)
            A = np.array([[Decimal(a) / D for a in row] for row in self.A.tolist()], dtype=object)
            weights = [Decimal(c.numerator) / Decimal(c.denominator) for c in self.weights]
            w = np.array([Decimal(float(v)) for v in guess], dtype=object)
            signs = np.zeros(self.dim, dtype=bool) if nonneg is None else nonneg
            held = signs & (w <= 0)
            for _ in range(10):             # coordinates held at 0 are guessed, and the guess is checked
                found = self._descend(A, weights, step, w, ~held)
                if found is None:
                    return None
                w, gradient = found
                wrong = (held & (gradient < 0)) | (signs & ~held & (w < 0))
                if not wrong.any():
                    break
                held ^= wrong
                w = np.where(held, Decimal(0), w)
            else:
                return None
            residual = sum((g * g for g in gradient[~held]), Decimal(0)).sqrt()
            w = [Fraction(v) for v in w]
            # rounding of the gradient itself, generously
            reach = Fraction(residual) + BLUR * sum(
                (abs(v) * lam for v in w), Fraction(int(np.abs(self.A).sum()), self.D) * max(self.weights, default=0))
            return w, Fraction(101, 100) * reach / lam

    def _descend(self, A, weights, lam, w, free):
        """The minimiser over the free coordinates and the gradient there, or None."""
        value, gradient, hessian = self._expand(A, weights, lam, w)
        for _ in range(40):
            size = gradient[free] @ gradient[free] if free.any() else Decimal(0)
            if size == 0 or size / lam <= Decimal("1e-50") * value:
                return w, gradient
            change = _solve_decimal(hessian[np.ix_(free, free)], -gradient[free])
            if change is None:
                return None
            for halving in range(30):
                trial = w.copy()
                trial[free] += change * Decimal(0.5**halving)
                following = self._expand(A, weights, lam, trial)
                if following[0] <= value or following[1][free] @ following[1][free] < size:
                    break
            else:
                return None
            w, (value, gradient, hessian) = trial, following
        return None

    def _expand(self, A, weights, lam, w):
        value, gradient = lam / 2 * (w @ w), lam * w
        hessian = np.array([[lam if j == k else Decimal(0) for k in range(self.dim)] for j in range(self.dim)],
                           dtype=object)
        for c, (a, b) in zip(weights, self.groups(), strict=True):
            if c == 0:
                continue
            rows, scores = A[a:b], A[a:b] @ w
            top = max(scores)
            near = [r for r, s in enumerate(scores) if s - top > -FAR]
            rows, p = rows[near], np.array([(scores[r] - top).exp() for r in near], dtype=object)
            total = sum(p)
            p = p / total
            mean = rows.T @ p
            value += c * (top + total.ln())
            gradient = gradient + c * mean
            centred = rows - mean
            hessian = hessian + (centred.T * (c * p)) @ centred
        return value, gradient, hessian


def _integers(w):
    """w as integers over a scale."""
    if len(w) and isinstance(w[0], Fraction):
        scale = math.lcm(1, *(v.denominator for v in w))
        return np.array([int(v * scale) for v in w], dtype=object), scale
    W, k = lift(w)
    return W, 1 << k


def _log_sum_exp(scores, scale):
    """An interval that holds log sum exp (scores / scale), scores being integers."""
    top = max(scores)
    total, rest = Decimal(0), 0
    with decimal.localcontext(DIGITS):
        D = Decimal(scale)
        for s in scores:
            if s - top > -FAR * scale:
                total += (Decimal(s - top) / D).exp()
            else:
                rest += 1
        middle = Fraction(total.ln())
        slack = 4 * BLUR + (rest * Fraction(Decimal(-FAR).exp()) if rest else 0)
    low = Fraction(top, scale) + middle
    return low - 4 * BLUR, low + slack


def _solve_decimal(M, b):
    """Gauss elimination with pivots; None where a pivot is 0."""
    n, M = len(b), np.column_stack([M, b])
    for k in range(n):
        pivot = max(range(k, n), key=lambda j: abs(M[j, k]))
        if M[pivot, k] == 0:
            return None
        M[[k, pivot]] = M[[pivot, k]]
        for j in range(k + 1, n):
            if M[j, k] != 0:
                M[j, k:] = M[j, k:] - M[k, k:] * (M[j, k] / M[k, k])
    x = np.zeros(n, dtype=object)
    for k in reversed(range(n)):
        x[k] = (M[k, n] - M[k, k + 1:n] @ x[k + 1:]) / M[k, k]
    return x


def solve_integers(M, b):
    """The solution of M x = b by Bareiss' elimination without fractions; None where M is singular."""
    n, last = len(b), 1
    M = [[*row, value] for row, value in zip(M, b, strict=True)]
    for k in range(n):
        pivot = next((j for j in range(k, n) if M[j][k]), None)
        if pivot is None:
            return None
        M[k], M[pivot] = M[pivot], M[k]
        top = M[k]
        for j in range(k + 1, n):
            row, first = M[j], M[j][k]
            M[j] = [0] * (k + 1) + [(top[k] * row[c] - first * top[c]) // last for c in range(k + 1, n + 1)]
        last = top[k]
    x = [Fraction(0)] * n
    for k in reversed(range(n)):
        x[k] = (M[k][n] - sum(M[k][c] * x[c] for c in range(k + 1, n))) / Fraction(M[k][k])
    return x


def active_set(risk, lam, guess, nonneg=None):
    """The exact minimiser of `lam/2 |w|^2` plus the maxima over the rows of `risk`; None where it takes too long."""
    found = _ActiveSet(risk, lam, nonneg).run(guess)
    return None if found is None else found[0]


class _ActiveSet:
    """The dual QP `min |sum alpha a|^2 / (2 lam) - sum alpha b` over a product of simplices, in rationals.

    A sign w_j >= 0 is a row -e_j whose multiplier has no sum. Rows are integers over D.
    """

    def __init__(self, risk, lam, nonneg):
        signs = [] if nonneg is None else np.flatnonzero(nonneg).tolist()
        extra = np.zeros((len(signs), risk.dim), dtype=object)
        for r, j in enumerate(signs):
            extra[r, j] = -risk.D
        self.A, self.D, self.lam = np.vstack([risk.A, extra]), risk.D, lam
        self.offsets = np.concatenate([risk.offsets, np.zeros(len(signs), dtype=object)])
        self.groups, self.is_sign = risk.groups(), [False] * risk.starts[-1] + [True] * len(signs)
        self.owner = [g for g, (a, b) in enumerate(self.groups) for _ in range(a, b)] + [-1] * len(signs)

    def run(self, guess, most=80):
        """(w, 0), or None where it takes too long."""
        alpha = self._start(np.asarray(guess, dtype=float))
        for _ in range(most):
            target = self._face(alpha)
            if target is None:
                return None
            if any(a < 0 for a in target.values()):
                self._move(alpha, {r: target[r] - alpha[r] for r in target}, Fraction(1))
                continue
            alpha = {r: a for r, a in target.items() if a > 0}
            w = self._point(alpha)
            W, scale = _integers(w)
            heights = self.A @ W + self.offsets * scale
            worst, gain = None, 0
            for a, b in self.groups:
                level = next(heights[r] for r in alpha if a <= r < b)
                r = max(range(a, b), key=heights.__getitem__)
                if heights[r] - level > gain:
                    worst, gain = r, heights[r] - level
            for r in range(self.groups[-1][1] if self.groups else 0, len(heights)):
                if heights[r] > gain:
                    worst, gain = r, heights[r]
            if worst is None:
                return w, Fraction(0)
            direction = self._direction(alpha, worst)
            if direction is None:
                return None
            change = self._slope(direction)
            curvature = sum(c * c for c in change) / (self.lam * self.D**2)
            length = None if curvature == 0 else Fraction(gain, self.D * scale) / curvature
            alpha[worst] = Fraction(0)
            self._move(alpha, direction, length)
        return None

    def _start(self, w):
        """Multipliers that make about w, from least squares over the rows that are nearly active there."""
        rows = self.A / self.D if self.A.size else self.A
        rows, offsets = rows.astype(float), (self.offsets / self.D).astype(float)
        heights = rows @ w + offsets
        size = np.abs(rows) @ np.abs(w) + np.abs(offsets)
        near = [r for a, b in self.groups for r in range(a, b)
                if heights[r] >= heights[a:b].max() - 1e-5 * max(size[a:b].max(), 1e-300)]
        near += [r for r, is_sign in enumerate(self.is_sign) if is_sign and w[np.argmax(np.abs(rows[r]))] == 0.0]
        lam = float(self.lam)
        unit = max(lam * float(np.abs(w).max(initial=0.0)), float(np.abs(rows[near]).max(initial=0.0)), 1e-300)
        top = np.array([[0.0 if self.owner[r] != g else 10.0 for r in near] for g in range(len(self.groups))])
        try:
            found = nnls(np.vstack([rows[near].T / unit, top]),
                         np.concatenate([-lam * w / unit, np.full(len(self.groups), 10.0)]))[0]
        except (RuntimeError, np.linalg.LinAlgError):       # SciPy 1.13 solves singular systems; any start will do
            found = np.zeros(len(near))
        alpha = {}
        for g, (a, b) in enumerate(self.groups):
            mine = {r: Fraction(float(x)) for r, x in zip(near, found, strict=True) if self.owner[r] == g and x > 1e-12}
            total = sum(mine.values())
            alpha |= {r: x / total for r, x in mine.items()} or {a + int(np.argmax(heights[a:b])): Fraction(1)}
        return alpha | {r: Fraction(float(x)) for r, x in zip(near, found, strict=True) if self.owner[r] < 0 and x > 0}

    def _face(self, alpha):
        """The best multipliers on the support of alpha, of any sign."""
        support = list(alpha)
        shared = self._shared(support)
        fixed = [r for r in support if not self.is_sign[r] and self.owner[r] not in shared]
        free = [r for r in support if r not in fixed]
        p, q = self.lam.numerator, self.lam.denominator
        base = self.A[fixed].sum(axis=0) if fixed else np.zeros(self.A.shape[1], dtype=object)
        b = [self.D * p * self.offsets[r] - q * int(self.A[r] @ base) for r in free] + [1] * len(shared)
        found = self._solve(free, shared, b)
        return None if found is None else dict.fromkeys(fixed, Fraction(1)) | found

    def _direction(self, alpha, r):
        """The change of all multipliers as that of row r grows."""
        support = list(alpha)
        shared = self._shared([*support, r])
        free = [s for s in support if self.is_sign[s] or self.owner[s] in shared]
        q = self.lam.denominator
        b = [-q * int(self.A[s] @ self.A[r]) for s in free] + [-int(g == self.owner[r]) for g in shared]
        found = self._solve(free, shared, b)
        return None if found is None else found | {r: Fraction(1)}

    def _solve(self, free, shared, b):
        q = self.lam.denominator
        products = self.A[free] @ self.A[free].T if free else np.zeros((0, 0), dtype=object)
        members = [[int(self.owner[r] == g) for g in shared] for r in free]
        M = [[q * int(v) for v in products[j]] + members[j] for j in range(len(free))]
        M += [[row[k] for row in members] + [0] * len(shared) for k in range(len(shared))]
        found = solve_integers(M, b)
        return None if found is None else dict(zip(free, found, strict=False))

    def _shared(self, rows):
        """The groups of which there are several rows."""
        owners = [self.owner[r] for r in rows if not self.is_sign[r]]
        return sorted({g for g in owners if owners.count(g) > 1})

    @staticmethod
    def _move(alpha, direction, length):
        """A step that ends where a multiplier would fall below 0; that row leaves."""
        leaving = None
        for r, d in direction.items():
            if d < 0 and (length is None or alpha[r] + length * d < 0):
                length, leaving = -alpha[r] / d, r
        for r, d in direction.items():
            alpha[r] += length * d
        if leaving is not None:
            del alpha[leaving]

    def _slope(self, alpha):
        return sum((self.A[r] * a for r, a in alpha.items()), np.zeros(self.A.shape[1], dtype=object))

    def _point(self, alpha):
        return [fraction(-v) / (self.lam * self.D) for v in self._slope(alpha)]


# ---------------------------------------------------------------------- the models by their definitions

def _ones(n, weights):
    return np.ones(n) if weights is None else weights


def multiclass(X, y, n_classes, costs=None, weights=None, scale=1.0, bias=None, slack=False, smooth=False):
    """Classes: psi moves x from the weights of class y_i to those of k."""
    X, scale, k = _columns(X, scale, bias)
    n, d = X.shape
    costs = 1 - np.eye(n_classes, dtype=int) if costs is None else costs
    groups = []
    for i, c in enumerate(_ones(n, weights)):
        rows = []
        for label in range(n_classes):
            psi = np.zeros((n_classes, d), dtype=object)
            psi[label] += X[i]
            psi[y[i]] -= X[i]
            rows.append(_row(costs[y[i], label], psi.ravel(), slack, smooth))
        groups.append((c, rows))
    return Risk(n_classes * d, groups, k, smooth)


def binary(X, y, weights=None, scale=1.0, bias=None, smooth=False):
    """One score, signs y: max(0, 1 - y s) or log(1 + exp(-y s))."""
    X, scale, k = _columns(X, scale, bias)
    zero = np.zeros(X.shape[1], dtype=object)
    groups = [(c, [_row(0, zero, False, smooth), _row(1, -int(y[i]) * X[i], False, smooth)])
              for i, c in enumerate(_ones(len(X), weights))]
    return Risk(X.shape[1], groups, k, smooth)


def _columns(X, scale, bias):
    """Rows times scale with the constant feature, as integers."""
    X, scale, constant, k = lift(X, scale, 0.0 if bias is None else bias)
    X = X * scale.item()
    if bias is not None:
        X = np.column_stack([X, np.full(len(X), constant.item() << k, dtype=object)])
    return X, scale, 2 * k


def _row(loss, psi, slack, smooth):
    if smooth:
        return 0, 1, psi
    return loss, loss if slack else 1, psi


def structured(dim, examples, k, weights=None, slack=False, smooth=False, is_exact=True):
    """`examples`: for each a list of (loss, Psi) of all labellings, and the number of the true one."""
    groups = []
    for c, (labellings, truth) in zip(_ones(len(examples), weights), examples, strict=True):
        groups.append((c, [_row(loss, psi - labellings[truth][1], slack, smooth) for loss, psi in labellings]))
    return Risk(dim, groups, k, smooth, is_exact)


def chain(X, Y, n_labels, costs, normalised=False, start=True, end=True, support=None, **options):
    """Sequences of tokens: w = [W | transition | start | end], of W the (feature, label) of `support` if given."""
    *X, k = lift(*X)
    K, d = n_labels, X[0].shape[1]
    dim, examples = K * (d + K + start + end), []
    kept = np.arange(dim)
    if support is not None:
        kept = np.concatenate([support[:, 1] * d + support[:, 0], kept[K * d:]])
    for x, truth in zip(X, Y, strict=True):
        labellings = []
        for y in itertools.product(range(K), repeat=len(x)):
            psi = np.zeros(dim, dtype=object)
            for t, label in enumerate(y):
                psi[label * d:(label + 1) * d] += x[t]
            for j, label in itertools.pairwise(y):
                psi[K * d + j * K + label] += 1 << k
            if start:
                psi[K * (d + K) + y[0]] += 1 << k
            if end:
                psi[K * (d + K + start) + y[-1]] += 1 << k
            loss = sum(fraction(costs[a, b]) for a, b in zip(truth, y, strict=True))
            labellings.append((loss / len(x) if normalised else loss, psi[kept]))
        examples.append((labellings, int(sum(int(a) * K**t for t, a in enumerate(reversed(truth))))))
    return structured(len(kept), examples, k, **options)


def dependency(X, Y, single_root=True, R=1, counts="both", **options):
    """Trees with R relations: rows of arcs (h, m) ordered by h, then m, m != h; codes are R heads + relations."""
    *X, k = lift(*X)
    examples = []
    for x, truth in zip(X, Y, strict=True):
        n = len(truth) - 1
        place = {arc: r for r, arc in enumerate((h, m) for h in range(n + 1) for m in range(1, n + 1) if m != h)}
        codes = [np.array([-1, *(R * heads[1:] + relations)]) for heads in all_trees(n, single_root)
                 for relations in itertools.product(range(R), repeat=n)]
        labellings = []
        for code in codes:
            psi = np.zeros((R, x.shape[1]), dtype=object)
            for m, (h, r) in enumerate(zip(code[1:] // R, code[1:] % R, strict=True), 1):
                psi[r] += x[place[int(h), m]]
            wrong = {"both": code != truth, "heads": code // R != truth // R, "relations": code % R != truth % R}
            labellings.append((int(wrong[counts][1:].sum()), psi.ravel()))
        examples.append((labellings, next(j for j, code in enumerate(codes) if (code == truth).all())))
    return structured(R * X[0].shape[1], examples, k, **options)


def landmarks(X, Y, shape, parents, boxes, anchors, spreads, unit=1.0, **options):
    """Positions on a grid; anchors and spreads are such that displacements are floats without rounding."""
    *X, k = lift(*X)
    L, d = len(parents), X[0].shape[1]
    children = [j for j in range(L) if parents[j] >= 0]
    dim, examples = L * d + 4 * len(children), []
    places = list(itertools.product(*([(x + a, y + b) for b in range(h) for a in range(w)] for x, y, w, h in boxes)))
    moves = []
    for y in places:
        move = []
        for j in children:
            u, v = [(fraction(y[j][axis] - y[parents[j]][axis]) - fraction(anchors[j][axis]))
                    / fraction(spreads[j][axis]) for axis in (0, 1)]
            move += [-u * u, -u, -v * v, -v]
        moves.append(move)
    shift = max([k] + [f.denominator.bit_length() - 1 for move in moves for f in move])
    for x, truth in zip(X, Y, strict=True):
        truth = tuple(tuple(int(v) for v in p) for p in truth)
        labellings = []
        for y, move in zip(places, moves, strict=True):
            psi = np.zeros(dim, dtype=object)
            for j in range(L):
                psi[j * d:(j + 1) * d] += x[y[j][1] * shape[1] + y[j][0]] << (shift - k)
            psi[L * d:] = [int(f * 2**shift) for f in move]
            with decimal.localcontext(DIGITS):
                far = sum(Decimal((a - c)**2 + (b - e)**2).sqrt() for (a, b), (c, e) in zip(y, truth, strict=True))
            labellings.append((fraction(unit) * Fraction(far) / L, psi))
        examples.append((labellings, places.index(truth)))
    return structured(dim, examples, shift, is_exact=False, **options)


def segmentation(X, Y, height, widths, symbols, fillers, loss, **options):
    """Exact covers of columns; the loss counts wrong columns."""
    *X, k = lift(*X)
    first = np.concatenate([[0], height * np.cumsum(widths)]).tolist()

    def columns(cover):
        seen, column = [], 0
        for a in cover:
            seen += [(a, symbols[a], column)] * int(widths[a])
            column += int(widths[a])
        return seen

    examples = []
    for x, truth in zip(X, Y, strict=True):
        truth, labellings, where = tuple(int(a) for a in truth), [], None
        for y in covers(len(x), widths):
            psi, column = np.zeros(first[-1], dtype=object), 0
            for a in y:
                psi[first[a]:first[a + 1]] += x[column:column + int(widths[a])].ravel()
                column += int(widths[a])
            wrong = sum(a not in fillers and (s != t or (loss == "start" and b != c))
                        for (a, s, b), (_, t, c) in zip(columns(truth), columns(y), strict=True))
            where = len(labellings) if y == truth else where
            labellings.append((wrong, psi))
        examples.append((labellings, where))
    return structured(first[-1], examples, k, **options)


def labeling(graphs, Y, loss="mean", node_weights=None, class_weights=(1.0, 1.0), **options):
    """Two labels of nodes: w = [w_U | w_P]; graphs are triples (nodes, edges, edge features)."""
    lifted = lift(*(x for nodes, _, pairs in graphs for x in (nodes, pairs)))
    k, examples = lifted[-1], []
    for i, (_, edges, _) in enumerate(graphs):
        nodes, pairs, truth = lifted[2 * i], lifted[2 * i + 1], [int(v) for v in Y[i]]
        counts = [fraction(c) for c in (_ones(len(truth), None) if node_weights is None else node_weights[i])]
        costs = [c * fraction(class_weights[t]) for c, t in zip(counts, truth, strict=True)]
        if loss != "hamming":
            totals = [sum(c for c, u in zip(counts, truth, strict=True) if loss == "mean" or u == t) for t in truth]
            costs = [c / ((t or 1) * (2 if loss == "balanced" else 1)) for c, t in zip(costs, totals, strict=True)]
        labellings = []
        for y in itertools.product((0, 1), repeat=len(truth)):
            cut = [e for e, (a, b) in enumerate(edges) if y[a] != y[b]]
            psi = np.concatenate([(2 * np.array(y, dtype=object) - 1) @ nodes,
                                  -pairs[cut].sum(axis=0) if cut else np.zeros(pairs.shape[1], dtype=object)])
            labellings.append((sum((c for c, t, p in zip(costs, truth, y, strict=True) if t != p), Fraction(0)), psi))
        examples.append((labellings, int("".join(map(str, truth)), 2)))
    dim = lifted[0].shape[1] + lifted[1].shape[1]
    return structured(dim, examples, k, **options)


def table(features, Y, costs, **options):
    """Any model: features[i][y] is Psi(x_i, y), costs[truth, y] the loss."""
    *lifted, k = lift(*features)
    examples = [([(costs[truth, y], psi) for y, psi in enumerate(rows)], truth)
                for rows, truth in zip(lifted, Y, strict=True)]
    return structured(lifted[0].shape[1], examples, k, **options)


def pieces(parts):
    """A piecewise linear function: each part is the maximum of its (offset, slope)."""
    *slopes, k = lift(*(np.array([a for _, a in part]) for part in parts))
    groups = [(1, [(b, 1, a) for (b, _), a in zip(part, rows, strict=True)])
              for part, rows in zip(parts, slopes, strict=True)]
    return Risk(slopes[0].shape[1], groups, k)
