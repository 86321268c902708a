"""The attack on certificates: methods run on random problems, their claims held against exact values.

What a certified result claims, and what is checked in rational arithmetic:

bound   `lower_bound` is at most the minimum, and so is the bound that `slope` gives for another lam;
value   F(x) is at most `fun` plus its error, and x is feasible;
ball    the minimiser lies in `ball`.

The minimum is bounded from above by the best exact value over all points that any run returned, and by that of the
exact minimiser where `exact` finds it, which is nearly always.
"""

import copy
import dataclasses
import decimal
import math
import warnings
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

import numpy as np

import pybundle as pb

from . import cost_problems, exact, graph_problems, problems, ranking_problems

FAILURES = ("bound", "value", "ball", "contradiction", "crash")
ROUNDING = 2.0**-50
"""Of what is computed from results in float64."""
UNDERFLOW = Fraction(1, 10**140)
"""Below it nothing is claimed: squares of float64 numbers become 0, and norms with them."""
MKL_ROUNDING = Fraction(1, 2**40)
"""Error of values of multiple kernel learning, as a share of F(0); they come without a bound on it."""


@dataclass
class Row:
    """What became of one run."""

    risk: str
    method: str
    words: str
    counts: Counter = field(default_factory=Counter)
    details: list = field(default_factory=list)
    excess: float = 0.0

    def fail(self, kind, detail):
        self.counts[kind] += 1
        self.details.append(f"{kind}: {detail}")


class Claim:
    """A result, the lam and the tolerance that it is for, and where its failures are written."""

    def __init__(self, result, lam, row, tol):
        self.result, self.lam, self.row, self.tol = result, lam, row, tol


def attack(seed, index):
    """The rows of problem number `index`."""
    if index % 25 == 24:
        return attack_mkl(seed, index)
    return attack_problem(*problems.make(seed, index))


def attack_graphs(seed, index):
    """The rows of problem number `index` of labels on graphs; some runs start from a run of the other risk."""
    return attack_problem(*problems.make(seed, index, graph_problems.KINDS), foreign_runs)


def attack_ranking(seed, index):
    """The rows of problem number `index` of ranking, or of a measure of the whole sample."""
    return attack_problem(*problems.make(seed, index, ranking_problems.KINDS))


def attack_costs(seed, index):
    """The rows of problem number `index` of learned costs."""
    return attack_problem(*problems.make(seed, index, cost_problems.KINDS))


def attack_problem(problem, rng, more=lambda problem, rng: []):
    """The rows of the runs that `plan` and `more` choose for a problem."""
    rows, claims = [], []
    for method, options in plan(problem, rng) + more(problem, rng):
        is_path = "lams" in options
        label = f"{'path, ' if is_path else ''}{'interval, ' if 'interval' in options else ''}{method}"
        row = Row(problem.name + (", ball" if problem.radius else ""), label, f"{label} {_short(options)}")
        rows.append(row)
        if options.pop("warm", False):
            before = [c for c in claims if getattr(c.result, "state", None) is not None]
            if before:
                options["warm_start"] = before[rng.integers(len(before))].result
        claims += [Claim(result, lam, row, options["tol"]) for result, lam in run(problem, method, options, row)]
    for lam in dict.fromkeys(claim.lam for claim in claims):
        judge(problem, lam, claims)
    for claim in claims:
        check_range(problem, claim)
    for row in rows:
        row.counts["run"] += 1
    rows[0].counts["vertices"] += getattr(problem.twin, "n_added", 0)
    return rows


def plan(problem, rng):
    """(method, options) of the runs on a problem."""
    chosen = rng.choice(problem.methods, min(len(problem.methods), int(rng.integers(3, 6))), replace=False).tolist()
    runs = [(method, options_of(problem, rng, method)) for method in chosen]
    if len(problem.lams) > 1 and rng.random() < 0.5:
        method = chosen[0]
        options = options_of(problem, rng, method)
        del options["lam"]
        reuse = str(rng.choice(["planes", "solution"]))
        runs.append((method, options | {"lams": problem.lams, "reuse": reuse, "warm": False}))
    if len(problem.lams) > 1 and rng.random() < 0.2 and problem.name != "Function":
        options = {"lams": (max(problem.lams), min(problem.lams)), "interval": True, "max_iter": 40}
        runs.append((chosen[0], options | {"tol": float(rng.choice([0.3, 0.1])), **_scale(problem)}))
    # one fine run more, from which the exact minimiser is found
    for lam in problem.lams:
        which = {"lam": lam} if problem.radius is None else {"radius": problem.radius}
        runs.append(("auto", which | {"tol": 1e-13, "max_iter": 60} | _scale(problem)))
    return runs


def foreign_runs(problem, rng):
    """Two runs from the result or the state of a run of the other risk, relaxed or true."""
    if problem.radius is not None or problem.nonneg is not None:
        return []
    runs, other = [], graph_problems.other_risk(problem.risk)
    for method in rng.choice(problem.methods, 2, replace=False).tolist():
        options = {"lam": problem.lams[0], "max_iter": 20, **_scale(problem)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                before = pb.minimize(other, method=method, tol=1e-3, **options)
            except pb.BundleError:
                continue
        start = {"w0": before.x} if rng.random() < 0.3 else {
            "warm_start": before if rng.random() < 0.5 or before.state is None else before.state}
        runs.append((method, options | start | {"tol": float(rng.choice([1e-1, 1e-3, 1e-9]))}))
    return runs


def _scale(problem):
    return {"scale": "mean"} if problem.n > 1 else {}


def options_of(problem, rng, method):
    """Arguments of `minimize`, and "warm" where the run starts from another."""
    lam = problem.lams[rng.integers(len(problem.lams))]
    fine = method in problems.BUNDLE and not problem.twin.smooth
    tols = [1e-1, 1e-2, 1e-3, 1e-6, 1e-9, 1e-12, 1e-13, 1e-14]
    p = [1, 4, 2, 2, 2, 6, 5, 3] if fine else [2, 6, 3, 3, 3, 3, 1, 1]
    options = {"lam": lam, "tol": float(rng.choice(tols, p=np.array(p) / sum(p)))} | _scale(problem)
    if problem.radius is not None:
        options["radius"] = problem.radius
        del options["lam"]
    options["max_iter"] = 3 if method == "sgd" else int(rng.choice(
        [3, 8, 20, 40] if problem.twin.smooth and method != "lbfgs" else [3, 15, 40, 60 + 40 * (not fine)]))
    if problem.nonneg is not None:
        options["nonneg"] = problem.nonneg
    if rng.random() < (0.75 if problem.twin.smooth else 0.4):
        options["w0"] = problems.start(rng, problem, options.get("lam"))
    elif rng.random() < 0.4 and problem.radius is None:
        options["warm"] = True
    if not isinstance(problem.risk, pb.risks.Function) and rng.random() < 0.5:
        options["n_parts"] = int(rng.integers(1, problem.risk.n_examples + 1))
    if method in ("auto", *problems.BUNDLE) and rng.random() < 0.12:
        options["memory_limit"] = int(10 ** rng.uniform(3.3, 5.0))
    if method in problems.BUNDLE:
        if rng.random() < 0.1:
            options["stop"] = "published"
        if rng.random() < 0.2:
            options["theta"] = float(rng.choice([1e-3, 0.5]))
        if rng.random() < 0.15:
            options["max_idle"] = int(rng.integers(1, 6))
    if method in ("bcfw", "mp-bcfw"):
        options["step"] = str(rng.choice(["frank-wolfe", "pairwise", "exact"]))
        options["average"] = bool(rng.random() < 0.3)
        options["gap_sampling"] = bool(rng.random() < 0.3)
    if method == "mp-bcfw" and rng.random() < 0.5:
        options |= {"visit": "all", "step": "frank-wolfe", "gap_sampling": False, "max_idle": int(rng.integers(1, 11)),
                    "max_planes": int(rng.integers(2, 11)), "cost": float(rng.choice([1.0, 20.0, 300.0]))}
    if rng.random() < 0.3:
        options["random_state"] = int(rng.integers(100))
    return options


def _short(options):
    """The options in words, vectors by their norms."""
    words = {name: f"|{np.linalg.norm(value):.1e}|" if isinstance(value, np.ndarray) else value
             for name, value in options.items() if name not in ("nonneg", "warm_start")}
    words |= {"warm_start": type(options["warm_start"]).__name__} if "warm_start" in options else {}
    return ", ".join(f"{name}={value!r}" for name, value in words.items())


def called(risk, method, options):
    """Risk, record of the method and arguments of `minimize` or `path`; a path has the signs from the risk."""
    arguments, names = dict(options), {option.name for option in dataclasses.fields(pb.methods.parse(method))}
    method = pb.methods.parse(method, **{name: arguments.pop(name) for name in names & arguments.keys()})
    radius, nonneg = arguments.pop("radius", None), arguments.pop("nonneg", None)
    if radius is not None:
        arguments["penalty"] = pb.prox.Ball(radius)
    if nonneg is not None and "lams" in arguments:
        risk = copy.copy(risk)
        risk.nonneg = nonneg
    elif nonneg is not None:
        penalty = arguments.pop("penalty") if radius is not None else pb.prox.SquaredL2(arguments.pop("lam"))
        arguments["penalty"] = penalty + pb.prox.Box(np.where(nonneg, 0.0, -np.inf))
    return risk, method, arguments


def run(problem, method, options, row):
    """Pairs (result, lam); what ends otherwise is counted in `row`."""
    results = []
    if problem.nonneg is not None:
        options.setdefault("nonneg", problem.nonneg)
    risk, method, arguments = called(problem.risk, method, options)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            if "lams" in options:
                results = [(r, r.lam) for r in pb.path(risk, method=method, **arguments)]
            else:
                result = pb.minimize(risk, method=method, **arguments)
                results = [(result, options.get("lam"))]
        except pb.BundleError as error:
            if type(error).__name__ == "ContradictionError":
                row.fail("contradiction", str(error)[:160])
            else:
                row.counts[f"refused: {type(error).__name__}"] += 1
                row.details.append(f"refused: {type(error).__name__}: {error}"[:200])
            results = [(r, r.lam) for r in getattr(error, "finished", [])]
            if error.result is not None and error.result.certified and "lams" not in options:
                results = [(error.result, options.get("lam"))]
        except Exception as error:
            row.fail("crash", f"{type(error).__name__}: {error}"[:200])
    for warning in heard:
        if issubclass(warning.category, RuntimeWarning):
            row.counts["RuntimeWarning"] += 1
            row.details.append(f"RuntimeWarning: {warning.message}"[:160])
    for result, _ in results:
        row.counts["certified" if result.certified else "uncertified"] += 1
        row.counts["success"] += bool(result.success)
    return [(r, lam) for r, lam in results if r.x is not None and np.isfinite(r.x).all()]


def judge(problem, lam, claims):
    """All claims at one lam against the best exact value there; points of other lams are points, too."""
    mine = [c for c in claims if c.lam == lam]
    if not mine:
        return
    twin, n = problem.twin, problem.n
    is_ball = problem.radius is not None
    values, best, guess = {}, None, None
    for claim in claims:
        w = claim.result.x
        low, high = twin.value(w) if is_ball else twin.objective(w, lam, n)
        values[id(claim)] = low
        if is_ball:
            w = _inside(w, problem.radius)
            high = twin.value(w)[1]
        if problem.nonneg is not None and (w[problem.nonneg] < 0.0).any():
            if claim in mine and claim.result.certified:
                claim.row.fail("value", f"x has a negative entry {w[problem.nonneg].min():g}")
            continue
        if best is None or high < best:
            best, guess = high, w
    optimum = None if is_ball else twin.optimum(lam, guess, problem.nonneg, n)
    mine[0].row.counts["minimum known" if optimum is not None else "minimum not known"] += 1
    if optimum is not None:
        best = min(best, optimum.high)
    for claim in mine:
        check_bound(problem, lam, claim, best)
        if claim.result.certified:
            check_value(problem, claim, values[id(claim)])
            check_ball(claim, lam, n, optimum, guess, mine, values)
    if not is_ball:
        for claim in claims:
            check_moved(claim, lam, best)


def check_bound(problem, lam, claim, best):
    bound, row = claim.result.lower_bound, claim.row
    if math.isnan(bound) or bound == math.inf:
        row.fail("bound", f"lower_bound is {bound}")
    if not math.isfinite(bound) or Fraction(bound) <= best + UNDERFLOW:
        return
    excess = _ratio(Fraction(bound) - best, best)
    if claim.result.certified:
        row.excess = max(row.excess, excess)
        row.fail("bound", f"lower_bound {bound!r} is {excess:.2g} (relative) above F = {float(best)!r} at lam {lam}")
    else:
        row.counts["bound above, uncertified"] += 1


def check_moved(claim, lam, best):
    """The bound that `slope` promises for another lam."""
    result = claim.result
    if claim.lam == lam or claim.lam is None or not result.certified or not math.isfinite(result.slope):
        return
    moved = Fraction(result.lower_bound) + Fraction(result.slope)**2 / 2 * (
        1 / exact.fraction(claim.lam) - 1 / exact.fraction(lam))
    if moved > best + UNDERFLOW:
        claim.row.excess = max(claim.row.excess, _ratio(moved - best, best))
        claim.row.fail("bound", f"slope moves the bound from lam {claim.lam} to {lam}, where it is "
                       f"{_ratio(moved - best, best):.2g} (relative) above F = {float(best)!r}")


def check_value(problem, claim, low):
    result = claim.result
    if not (math.isfinite(result.fun) and math.isfinite(result.lower_bound)) or math.isnan(result.gap):
        claim.row.fail("value", f"fun {result.fun}, lower_bound {result.lower_bound}, gap {result.gap}")
        return
    if problem.radius is not None:
        W, scale = exact._integers(result.x)
        if Fraction(int(W @ W), scale**2) > (Fraction(problem.radius) * (1 + Fraction(2, 10**12)))**2:
            claim.row.fail("value", f"|x| = {np.linalg.norm(result.x)} is above the radius {problem.radius}")
    fun = Fraction(result.fun)
    above = (fun + Fraction(result.error)) * (1 + Fraction(2.0**-52)) if fun > 0 else fun + Fraction(result.error)
    if low > above + UNDERFLOW:
        excess = _ratio(low - above, fun)
        claim.row.fail("value", f"F(x) = {float(low)!r} is {excess:.2g} (relative) above fun + error = "
                       f"{float(above)!r}")


def check_ball(claim, lam, n, optimum, guess, mine, values):
    """The minimiser in the ball: the exact one, or the best point with the distance that the best bound leaves."""
    ball = getattr(claim.result, "ball", None)
    if ball is None:
        return
    claim.row.counts["ball seen"] += 1
    centre, radius = [exact.fraction(v) for v in ball[0]], exact.fraction(ball[1])
    if optimum is not None:
        w, reach = optimum.w, optimum.distance
    else:
        bound = max((Fraction(c.result.lower_bound) for c in mine if c.result.certified), default=None)
        w = [exact.fraction(v) for v in guess]
        least = min(values[id(c)] for c in mine)
        reach = exact.root(2 * max(least - bound, Fraction(0)) / exact.fraction(lam))
    distance = sum((a - b)**2 for a, b in zip(w, centre, strict=True))
    if distance > (radius + reach)**2:
        claim.row.fail("ball", f"the minimiser is {float(exact.root(distance)):.17g} from the centre, radius "
                       f"{float(radius):.17g}")


def check_range(problem, claim):
    """An answer of `path(..., interval=True)` in the middle of the range of lam that it is for."""
    result = claim.result
    if getattr(result, "lam_range", None) is None:
        return
    lam = math.sqrt(result.lam_range[0]) * math.sqrt(result.lam_range[1])
    optimum = problem.twin.optimum(lam, result.x, problem.nonneg, problem.n)
    if optimum is None:
        return
    low, high = problem.twin.objective(result.x, lam, problem.n)
    if low - optimum.high > exact.fraction(claim.tol) * high + UNDERFLOW:
        claim.row.fail("value", f"at lam {lam} of its range {result.lam_range} the gap of x is "
                       f"{_ratio(low - optimum.high, high):.3g}, above tol {claim.tol}")


def _ratio(difference, size):
    return float(difference / abs(size)) if size else math.inf


def _inside(w, radius):
    """w, or the point of the ball near it."""
    for shrink in (1.0, 1.0 - 2.0**-50, 1.0 - 2.0**-40, 1.0 - 2.0**-30):
        point = w if shrink == 1.0 else w * (min(1.0, radius / float(np.linalg.norm(w))) * shrink)
        W, scale = exact._integers(point)
        if Fraction(int(W @ W), scale**2) <= Fraction(radius)**2:
            return point
    raise AssertionError(f"{w} cannot be moved into the ball of radius {radius}")


# ---------------------------------------------------------------------- multiple kernel learning

def attack_mkl(seed, index):
    """Several certified runs of `OnlineMKL` on groups of weights; the best of their points stands for the minimum."""
    rng = np.random.default_rng([seed, index])
    smooth, is_chain = bool(rng.random() < 0.4), bool(rng.random() < 0.4)
    K, d = 3, int(rng.integers(2, 5))
    if is_chain:
        sizes = rng.integers(1, 4, int(rng.integers(1, 5)))
        X = [rng.standard_normal((T, d)) * problems.scale_of(rng)**0.5 for T in sizes]
        Y = [rng.integers(0, K, T) for T in sizes]
        model, n = pb.models.Chain(K, d), len(X)
        twin = exact.chain(X, Y, K, 1 - np.eye(K, dtype=int), smooth=smooth)
    else:
        n = int(rng.integers(1, 9))
        X = rng.standard_normal((n, d)) * problems.scale_of(rng)**0.5
        Y = rng.integers(0, K, n)
        model, twin = pb.models.Multiclass(K, d), exact.multiclass(X, Y, K, smooth=smooth)
    groups = rng.permutation(np.arange(model.dim) % int(rng.integers(1, 4)))
    lam, claims, rows = float(10.0 ** rng.uniform(-6, 2)), [], []
    for tol in (1e-1, 1e-2, 1e-4):
        row = Row("OnlineMKL, " + ("logistic" if smooth else "hinge"), "certified", f"lam={lam}, tol={tol}")
        row.counts["run"] += 1
        rows.append(row)
        learner = pb.mkl.OnlineMKL(groups, model=model, lam=lam, loss="logistic" if smooth else "hinge", tol=tol,
                                   solver="certified", max_iter=20, random_state=index)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                learner.fit(X, Y)
            except pb.BundleError as error:
                row.counts[f"refused: {type(error).__name__}"] += 1
                row.details.append(f"refused: {error}"[:200])
                continue
            except Exception as error:
                row.fail("crash", f"{type(error).__name__}: {error}"[:200])
                continue
        row.counts["RuntimeWarning"] += sum(issubclass(w.category, RuntimeWarning) for w in heard)
        row.counts["certified"] += 1
        row.counts["success"] += learner.gap_ <= tol
        w = learner._learner.weights()
        claims.append((learner.objective_, learner.lower_bound_, row, _mkl_objective(twin, w, groups, lam, n)))
    best = min((high for _, _, _, (_, high) in claims), default=None)
    at_zero = twin.value(np.zeros(twin.dim))[1] / n
    for fun, bound, row, (low, _) in claims:
        if Fraction(bound) > best:
            row.excess = _ratio(Fraction(bound) - best, best)
            row.fail("bound", f"lower_bound_ {bound!r} is {row.excess:.2g} (relative) above F = {float(best)!r}")
        if low > Fraction(fun) + MKL_ROUNDING * (abs(Fraction(fun)) + at_zero):
            row.fail("value", f"F = {float(low)!r} is above objective_ = {fun!r}")
    return rows


def _mkl_objective(twin, w, groups, lam, n):
    """An interval that holds `lam/2 (sum of norms of groups)^2 + R(w) / n`."""
    W, scale = exact._integers(w)
    with decimal.localcontext(exact.DIGITS):
        norms = sum(Decimal(int(W[groups == g] @ W[groups == g])).sqrt() for g in np.unique(groups))
    square = (Fraction(norms) / scale)**2 * exact.fraction(lam) / 2
    low, high = twin.value(w)
    return square * (1 - 4 * exact.BLUR) + low / n, square * (1 + 4 * exact.BLUR) + high / n
