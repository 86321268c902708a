"""The attack on certificates with penalties: sums of 2 to 1000 of them, far centres, mixed scales, rewritten problems.

The objective that was meant, every term of the sum by itself, is computed in fractions. What is held against it:

bound    `lower_bound` is at most F at the best exact point: of all runs, moved to the exact minimum along each weight;
value    F(x) is at most `fun` plus its error, and x keeps the bounds;
ball     if there is one weight, its exact minimiser lies in `ball`;
verify   the certificate is confirmed for the penalty of the caller, and the report's bound and value hold;
forged   no certificate with changed numbers is `ok` for the caller's problem if it claims more than the truth.
"""

import dataclasses
import itertools
import warnings
from fractions import Fraction

import numpy as np

import pybundle as pb
from pybundle.proof import Labellings, Multipliers, Points
from pybundle.prox import L1, Box, ElasticNet, Separable, SquaredL2, Sum

from . import exact, problems
from .proofs import ROUNDING, UNDERFLOW, Row

METHODS = ("auto", "auto", "oca", "prox-bcfw", "lbfgs", "newton", "interior-point", "interior-point")
SHARE = Fraction(1, 10**9)
"""Of a claim, that `verify` allows; what is above the truth by more is false."""


class Squares:
    """`sum_i c_i l(s_i)` of squared hinges or Huber's losses, by their definitions."""

    def __init__(self, X, y, c, delta=None):
        self.X = [[exact.fraction(v) for v in row] for row in X]
        self.y, self.c, self.delta = ([exact.fraction(v) for v in array] for array in (y, c, [delta or 0]))
        self.is_hinge = delta is None

    def value(self, w):
        total = Fraction(0)
        for x, y, c in zip(self.X, self.y, self.c, strict=True):
            s = sum(a * b for a, b in zip(x, map(exact.fraction, w), strict=True))
            u = max(0, 1 - y * s) if self.is_hinge else abs(s - y)
            d = u if self.is_hinge else min(u, self.delta[0])
            total += c * d * (u - d / 2)
        return total, total


def pieces(X, rows, c, smooth=False):
    """A maximum of rows `offset + factor <x_i, w>` for each example."""
    columns, k = exact.lift(X)
    groups = [(weight, [(offset, factor, columns[i]) for offset, factor in mine])
              for i, (weight, mine) in enumerate(zip(c, rows, strict=True))]
    return exact.Risk(X.shape[1], groups, k, smooth)


def make_risk(rng):
    """A risk, its twin, and the number of weights that a penalty has: an intercept, the last weight, is free."""
    name = str(rng.choice(["classes", "hinge", "hinge", "absolute", "pinball", "pinball", "insensitive", "logistic",
                           "squared hinge", "huber"]))
    n, d, K = int(rng.integers(1, 8)), int(rng.choice([1, 1, 2, 3])), 3
    X = problems.matrix(rng, n, d) if rng.random() < 0.6 else rng.standard_normal((n, d))
    if rng.random() < 0.2:
        X = X + 10.0 ** rng.uniform(0, 6)
    given, X = problems.stored(rng, X)
    c = problems.sample_weights(rng, n)
    options, c = {} if c is None else {"sample_weight": c}, np.ones(n) if c is None else c
    has_intercept = name != "classes" and rng.random() < 0.3
    whole = np.hstack([X, np.ones((n, 1))]) if has_intercept else X
    if has_intercept:
        options["fit_intercept"] = True
    y = rng.integers(0, K if name == "classes" else 2, n)
    t = X @ rng.standard_normal(d) + rng.standard_normal(n) * rng.choice([0.0, 1.0, 1e3])
    signs = 2 * y - 1
    if name == "classes":
        return pb.risks.MulticlassHinge(given, y, n_classes=K, **options), exact.multiclass(X, y, K, weights=c), K * d
    if name in ("hinge", "logistic"):
        kind = pb.risks.BinaryHinge if name == "hinge" else pb.risks.Logistic
        smooth = name == "logistic"
        rows = [[(0, 0), (0 if smooth else 1, -int(s))] for s in signs]
        return kind(given, y, n_classes=2, **options), pieces(whole, rows, c, smooth), d
    if name == "squared hinge":
        if len(np.unique(y)) < 2:
            return make_risk(rng)
        return pb.risks.SquaredHinge(given, signs, **options), Squares(whole, signs, c), d
    if name == "huber":
        delta = float(rng.choice([0.1, 1.0, 30.0]))
        return pb.risks.Huber(given, t, delta, **options), Squares(whole, t, c, delta), d
    T = [exact.fraction(v) for v in t]
    if name == "absolute":
        return pb.risks.Absolute(given, t, **options), pieces(whole, [[(v, -1), (-v, 1)] for v in T], c), d
    if name == "insensitive":
        e = float(rng.choice([0.1, 1e-3, 2.7]))
        E = exact.fraction(e)
        rows = [[(0, 0), (v - E, -1), (-v - E, 1)] for v in T]
        return pb.risks.EpsilonInsensitive(given, t, e, **options), pieces(whole, rows, c), d
    q = float(rng.choice([0.1, 0.3, 1 / 3, 0.7, 0.999, 1e-3]))
    Q = exact.fraction(q)
    rows = [[(Q * v, -Q), ((Q - 1) * v, 1 - Q)] for v in T]
    return pb.risks.Pinball(given, t, q, **options), pieces(whole, rows, c), d


def make_terms(rng, d):
    """Terms of a sum: mostly few, sometimes a thousand; centres near each other and far from 0, or far apart."""
    count = int(rng.choice([2, 2, 3, 5, 30, 300, 1000], p=[0.3, 0.1, 0.2, 0.15, 0.15, 0.06, 0.04]))
    far, near = float(10.0 ** rng.uniform(0, 9)) * rng.choice([-1, 1]), float(10.0 ** rng.uniform(-9, 1))
    rate, terms = float(10.0 ** rng.uniform(-4, 2)), []
    alike = rng.random() < 0.3
    for _ in range(count):
        mine = rate * float(10.0 ** rng.uniform(-3, 3)) if rng.random() < 0.3 else rate
        kind = rng.choice(["centre", "square", "l1", "net", "separable"], p=[0.45, 0.15, 0.2, 0.1, 0.1])
        if alike:
            kind = "l1" if rng.random() < 0.5 else "square"
        centre = far + near * rng.standard_normal(d) if rng.random() < 0.8 else far * rng.standard_normal(d)
        if kind == "centre":
            rates = mine if rng.random() < 0.6 else mine * np.where(rng.random(d) < 0.3, 0.0, rng.random(d))
            terms.append(SquaredL2(rates, centre=centre))
        elif kind == "square":
            terms.append(SquaredL2(mine))
        elif kind == "l1":
            terms.append(L1(mine if rng.random() < 0.6 else mine * rng.random(d)))
        elif kind == "net":
            terms.append(ElasticNet(mine, 0.7 * mine))
        else:
            terms.append(Separable(l2=mine * rng.random(d), l1=mine * rng.random(d), centre=centre))
    if rng.random() < 0.5:
        low = far + near * rng.standard_normal(d) if rng.random() < 0.5 else -10.0 ** rng.uniform(-3, 9)
        terms.append(Box(low, low + 10.0 ** rng.uniform(-3, 3)) if rng.random() < 0.7 else Box(low))
    return terms if len(terms) > 1 else make_terms(rng, d)


class Problem:
    """`sum_t omega_t(w) + R(w) / n` in fractions."""

    def __init__(self, seed, index):
        rng = np.random.default_rng([seed, index, 7])
        self.risk, self.twin, d = make_risk(rng)
        self.terms, self.rng, self.d, self.dim = make_terms(rng, d), rng, d, self.risk.dim
        self.penalty = Sum(*self.terms)
        self.scale = "mean" if rng.random() < 0.3 else "sum"
        self.n = self.risk.n_examples if self.scale == "mean" else 1
        zero = Fraction(0)
        self.l2, self.l1, self.moment, self.constant = [zero] * self.dim, [zero] * self.dim, [zero] * self.dim, zero
        self.lower, self.upper = [-np.inf] * self.dim, [np.inf] * self.dim
        for term in self.terms:
            arrays = {name: np.broadcast_to(np.asarray(_of(term, name), dtype=float), (d,)).tolist() for name in (
                "l2", "l1", "centre", "lower", "upper")}
            for k in range(d):
                l2, l1, c = (Fraction(arrays[name][k]) for name in ("l2", "l1", "centre"))
                self.l2[k] += l2
                self.l1[k] += l1
                self.moment[k] += l2 * c
                self.constant += l2 * c * c / 2
                self.lower[k] = max(self.lower[k], arrays["lower"][k])
                self.upper[k] = min(self.upper[k], arrays["upper"][k])

    def contains(self, w):
        return all(low <= x <= high for low, x, high in zip(self.lower, w, self.upper, strict=True))

    def omega(self, w):
        return self.constant + sum(l2 * x * x / 2 - m * x + l1 * abs(x) for l2, l1, m, x in zip(
            self.l2, self.l1, self.moment, w, strict=True))

    def value(self, w):
        """An interval that holds F(w)."""
        low, high = self.twin.value(w)
        omega = self.omega([exact.fraction(x) for x in w])
        return omega + low / self.n, omega + high / self.n

    def polished(self, w, rounds=3):
        """A point at least as good: exact minima along one weight after the other."""
        w = [exact.fraction(x) for x in w]
        if not isinstance(self.twin, exact.Risk) or self.twin.smooth:
            return w
        for _ in range(rounds if self.dim > 1 else 1):
            for k in range(self.dim):
                w = self._along(w, k)
        return w

    def _along(self, w, k):
        W, scale = exact._integers(w)
        heights, slopes = self.twin.A @ W + self.twin.offsets * scale, self.twin.A[:, k] * scale
        places = {w[k], Fraction(0)} | {Fraction(b) for b in (self.lower[k], self.upper[k]) if np.isfinite(b)}
        for a, b in self.twin.groups():
            for i, j in itertools.combinations(range(a, b), 2):
                if slopes[i] != slopes[j]:
                    places.add(w[k] + Fraction(int(heights[j] - heights[i]), int(slopes[i] - slopes[j])))
        places = sorted(x for x in places if self.lower[k] <= x <= self.upper[k])
        known = {}

        def at(x):
            if x not in known:
                known[x] = self.value([*w[:k], x, *w[k + 1:]])[1]
            return known[x]

        low, high = 0, len(places) - 1
        while high - low > 2:           # convex
            a, b = low + (high - low) // 3, high - (high - low) // 3
            low, high = (low, b) if at(places[a]) <= at(places[b]) else (a, high)
        near = places[max(low - 1, 0):high + 2]
        if near[0] == places[0] and self.lower[k] == -np.inf:
            near = [near[0] - 1 - abs(near[0]), *near]
        if near[-1] == places[-1] and self.upper[k] == np.inf:
            near = [*near, near[-1] + 1 + abs(near[-1])]
        for a, b in itertools.pairwise(list(near)):     # quadratic between two kinks
            middle = (a + b) / 2
            bend = at(a) + at(b) - 2 * at(middle)
            if bend > 0:
                x = middle - (at(b) - at(a)) * (b - a) / (4 * bend)
                is_end = (a < places[0], b > places[-1])
                if (a <= x or is_end[0]) and (x <= b or is_end[1]) and self.lower[k] <= x <= self.upper[k]:
                    near.append(x)
        return [*w[:k], min(near, key=at), *w[k + 1:]]


def _of(term, name):
    """A number of a term by its definition."""
    if name in ("lower", "upper"):
        return getattr(term, name, -np.inf if name == "lower" else np.inf)
    if isinstance(term, SquaredL2):
        return {"l2": term.rate, "l1": 0.0, "centre": 0.0 if term.centre is None else term.centre}[name]
    if isinstance(term, L1):
        return {"l2": 0.0, "l1": term.rate, "centre": 0.0}[name]
    return getattr(term, name, 0.0)


def solve(problem, row, method, **options):
    """The results of one method, one at most; what ends otherwise is counted."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        result = None
        try:
            result = pb.minimize(problem.risk, penalty=problem.penalty, method=method, scale=problem.scale,
                                 evidence=True, **options)
        except pb.BundleError as error:
            name = type(error).__name__
            if name == "ContradictionError":
                row.fail("contradiction", str(error)[:160])
            row.counts[f"refused: {name}"] += 1
            row.details.append(f"refused: {name}: {error}"[:200])
        except Exception as error:
            row.fail("crash", f"{type(error).__name__}: {error}"[:200])
    for warning in heard:
        if issubclass(warning.category, RuntimeWarning):
            row.counts["RuntimeWarning"] += 1
            row.details.append(f"RuntimeWarning: {warning.message}"[:160])
    if result is None:
        return []
    row.counts["certified" if result.certified else "uncertified"] += 1
    row.counts["success"] += bool(result.success)
    return [result] if result.certified and np.isfinite(result.x).all() else []


def attack(seed, index, forgeries=0):
    """The rows of problem number `index`."""
    problem = Problem(seed, index)
    rng, rows, found = problem.rng, [], []
    for method in (*rng.choice(METHODS, 2), "auto"):
        tol = 1e-13 if len(rows) == 2 else float(rng.choice([1e-2, 1e-4, 1e-6, 1e-9, 1e-12]))
        options = {"tol": tol, "max_iter": int(rng.choice([5, 60, 300]))}
        if rng.random() < 0.3:
            options["w0"] = rng.standard_normal(problem.dim) * 10.0 ** rng.uniform(-2, 6)
        row = Row(type(problem.risk).__name__, str(method), f"{method}, {len(problem.terms)} terms, {options}")
        row.counts["run"] += 1
        rows.append(row)
        found += [(result, row) for result in solve(problem, row, str(method), **options)]
    inside = [result.x for result, _ in found if problem.contains(result.x)]
    if not inside:
        return rows
    best = problem.polished(min(inside, key=lambda w: problem.value(w)[1]))
    least = problem.value(best)[1]
    for result, row in found:
        judge(problem, result, row, best, least)
        certificate = result.certificate
        if certificate is not None and certificate.evidence is not None:
            report = check_report(problem, certificate, row, least)
            row.counts["verified"] += report.ok
            if result.success and not report.ok:
                row.counts["not verified"] += 1
                row.details.append("not verified: " + "; ".join(
                    f"{name}: {text}" for name, holds, text in report.checks if not holds)[:400])
            for _ in range(forgeries):
                forged = forge(rng, certificate)
                row.counts["forged"] += 1
                check_forgery(problem, forged, row, least)
    return rows


def judge(problem, result, row, best, least):
    if not problem.contains(result.x):
        row.fail("value", f"x = {result.x} leaves the bounds")
        return
    if Fraction(result.lower_bound) > least + UNDERFLOW:
        row.excess = max(row.excess, float((Fraction(result.lower_bound) - least) / least) if least else np.inf)
        row.fail("bound", f"lower_bound {result.lower_bound!r} is {row.excess:.2g} above F = {float(least)!r}")
    if np.isfinite(result.gap):
        fun, low = Fraction(result.fun), problem.value(result.x)[0]
        above = fun + Fraction(result.error)
        if low > above + Fraction(ROUNDING) / 8 * abs(fun) + UNDERFLOW:
            row.fail("value", f"F(x) = {float(low)!r} is {float((low - above) / low):.2g} above {float(above)!r}")
    is_exact = isinstance(problem.twin, exact.Risk) and not problem.twin.smooth
    if result.ball is not None and problem.dim == 1 and is_exact:
        row.counts["ball seen"] += 1
        centre, radius = Fraction(float(result.ball[0][0])), Fraction(result.ball[1])
        if abs(best[0] - centre) > radius:
            row.fail("ball", f"the minimiser {float(best[0])!r} is outside of {result.ball}")


def verified(problem, certificate):
    return pb.verify(certificate, problem.risk, penalty=problem.penalty, scale=problem.scale)


def check_report(problem, certificate, row, least):
    report = verified(problem, certificate)
    if report.lower_bound > -np.inf and Fraction(report.lower_bound) > least + UNDERFLOW:
        row.fail("bound", f"verify: {report.lower_bound!r} is above F = {float(least)!r}")
    if np.isfinite(report.fun) and problem.value(certificate.w)[0] > Fraction(report.fun) + UNDERFLOW:
        row.fail("value", f"verify: F(w) is above {report.fun!r}")
    return report


def check_forgery(problem, forged, row, least):
    try:
        with np.errstate(all="ignore"):
            report = verified(problem, forged)
    except pb.BundleError:
        return
    except Exception as error:
        row.fail("crash", f"verify: {type(error).__name__}: {error}"[:200])
        return
    if not report.ok:
        return
    row.counts["forged, ok"] += 1
    low, claim = problem.value(forged.w)[0], Fraction(forged.fun) + Fraction(forged.error)
    for name, excess, size in (("bound", Fraction(forged.lower_bound) - least, Fraction(forged.lower_bound)),
                               ("value", low - claim, claim)):
        if excess > SHARE * abs(size) + UNDERFLOW:
            row.fail(name, f"forged: ok, but wrong by {float(excess)!r} of {float(size)!r}")


def forge(rng, certificate):
    """A certificate with one to four changed fields, some made to fit."""
    for _ in range(int(rng.integers(1, 5))):
        certificate = _changed(rng, certificate)
    return certificate


def _changed(rng, certificate):
    size = float(10.0 ** rng.uniform(-12, 12))
    change, penalty, evidence = dataclasses.replace, certificate.penalty, certificate.evidence
    kind = rng.choice(["bound", "fun", "error", "w", "shift", "array", "rounding", "evidence", "far", "limits", "plane",
                       "errors", "lam", "divisor", "bound to fun", "fingerprint"])
    factor = 1.0 + size * rng.choice([-1, 1])
    if kind == "bound":
        return change(certificate, lower_bound=certificate.lower_bound + size * abs(certificate.fun))
    if kind == "bound to fun":
        return change(certificate, lower_bound=certificate.fun)
    if kind in ("fun", "error"):
        return change(certificate, **{kind: max(getattr(certificate, kind) * factor, 0.0)})
    if kind == "w":
        return change(certificate, w=certificate.w + size * rng.standard_normal(len(certificate.w)))
    if kind == "divisor":
        return change(certificate, divisor=int(rng.integers(1, 9)))
    if kind == "fingerprint":
        return change(certificate, fingerprint=None)
    if kind == "plane":
        return change(certificate, phi=certificate.phi * factor, offset=certificate.offset + size)
    if kind == "errors":
        return change(certificate, offset_error=size, slope_error=size)
    if kind == "lam":
        return change(certificate, lam=size, penalty=None, rows=None, limits=None)
    if penalty is not None and kind == "shift":
        shifted = change(penalty, constant=penalty.constant + size)
        return change(certificate, penalty=shifted, fun=certificate.fun + size,
                      lower_bound=certificate.lower_bound + size)
    if penalty is not None and kind == "rounding":
        which = str(rng.choice(["rate_error", "constant_error", "centre_error"]))
        value = min(size, 1e-3) if which == "rate_error" else size
        return change(certificate, penalty=change(penalty, **{
            which: np.full(len(penalty.l2), size) if which == "centre_error" else value}))
    if penalty is not None and kind == "array":
        which = str(rng.choice(["l2", "l1", "centre", "lower", "upper"]))
        array = getattr(penalty, which) * factor
        array = np.abs(array) if which in ("l2", "l1") else array
        return change(certificate, penalty=change(penalty, **{which: array}))
    if kind == "limits" and certificate.limits is not None:
        return change(certificate, limits=change(certificate.limits, sizes=certificate.limits.sizes * abs(factor)))
    if isinstance(evidence, Labellings) and len(evidence.masses):
        masses = evidence.masses.copy()
        masses[rng.integers(len(masses))] *= abs(factor)
        return change(certificate, evidence=Labellings(evidence.examples, evidence.labellings, masses))
    if isinstance(evidence, Multipliers):
        beta = evidence.beta.copy()
        beta[rng.integers(len(beta)) if kind != "far" else slice(None)] *= factor
        return change(certificate, evidence=Multipliers(beta))
    if isinstance(evidence, Points) and len(evidence.points):
        if kind == "far":
            point = size * rng.standard_normal((1, len(certificate.w)))
            weights = np.full((1, evidence.weights.shape[1]), float(10.0 ** rng.uniform(-300, 0)))
            return change(certificate, evidence=Points(np.vstack([evidence.points, point]),
                                                       np.vstack([evidence.weights * (1.0 - weights), weights])))
        points, weights = evidence.points.copy(), evidence.weights.copy()
        if rng.random() < 0.5:
            points[rng.integers(len(points))] *= factor
        else:
            weights[rng.integers(len(weights))] *= abs(factor)
        return change(certificate, evidence=Points(points, weights))
    return certificate
