"""Certificates: every method's is confirmed by the verifier, and none that claims more than its evidence proves."""

import dataclasses
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from reference import small_risks
from test_layering import ROOT, SOURCES, imports

import pybundle as pb
from pybundle.core.plane import Plane
from pybundle.core.ragged import Ragged
from pybundle.models import WeightedLabels
from pybundle.proof import Labellings, Multipliers, Points
from pybundle.proof.linear import LinearProblem
from pybundle.prox.of_norm import Square
from pybundle.solvers.evidence.proof import of_labels
from pybundle.solvers.problem.problem import Problem

METHODS = ("auto", "prox-bcfw", "alm", "lbfgs", "newton", "oca", "bmrm", "prox-bmrm", "bcfw", "mp-bcfw",
           "frank-wolfe", "sgd")


def data(n=40, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), rng.integers(0, 3, n)
    X[np.arange(n), y] += 1.0
    return X, y


def chains(seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((t, 3)) for t in rng.integers(1, 6, 15)]
    return X, [(x @ np.eye(3) + 0.5 * rng.standard_normal(x.shape)).argmax(1) for x in X]


class Signs(small_risks.Signs):
    """A model in plain Python, whose labellings are plain numbers."""

    dim = 4


def trees():
    rng = np.random.default_rng(3)
    X = [sp.csr_array(rng.standard_normal((n * n, 5))) for n in (2, 3, 3, 2)]
    Y = [np.array([-1, 0, 1]), np.array([-1, 0, 1, 2]), np.array([-1, 2, 0, 2]), np.array([-1, 2, 0])]
    return X, Y


def make_risks():
    (X, y), (C, L) = data(), chains()
    rng = np.random.default_rng(1)
    weights = np.where(rng.random(len(y)) < 0.2, 0.0, rng.random(len(y)) * 3.0)
    cost = np.array([[0.0, 1.5, 0.3], [2.0, 0.0, 1.0], [0.1, 0.7, 0.0]])
    risks = pb.risks
    return {
        "classes": risks.MulticlassHinge(X, y),
        "costs": risks.MulticlassHinge(sp.csr_array(np.where(X > 0.0, X, 0.0)), y, loss=cost, sample_weight=weights,
                                       bias=2.0),
        "bytes": risks.MulticlassHinge((np.abs(X) * 50).astype(np.uint8), y, scale=1 / 255, bias=1.0),
        "two": risks.BinaryHinge(X.astype(np.float32), (y > 0).astype(int), sample_weight=weights),
        "logistic": risks.Logistic(X, (y > 0).astype(int), sample_weight=weights, bias=0.5),
        "chains": risks.Structured(pb.models.Chain(3, 3), C, L),
        "crf": risks.Structured(pb.models.Chain(3, 3), C, L, loss="logistic"),
        "trees": risks.Structured(pb.models.Dependency(5), *trees()),
        "relations": risks.Structured(pb.models.Dependency(5, n_relations=2), trees()[0],
                                      [np.array([-1, *(2 * heads[1:] + (heads[1:] > 1))]) for heads in trees()[1]]),
        "slack": risks.Structured(pb.models.Multiclass(3, 4, rescaling="slack"), X, y, sample_weight=weights),
        "python": risks.Structured(Signs(), X, np.where(y > 0, 1, -1)),
        "function": risks.Function(lambda w: (np.abs(w - 1.0), np.diag(np.sign(w - 1.0))), 4, n_parts=4,
                                   lower_bounds=0.0),
        "unbounded": risks.Function(lambda w: (np.abs(w - 1.0).sum() - 7.0, np.sign(w - 1.0)), 4),
    }


RISKS = make_risks()
EXACT = {"classes", "costs", "two", "chains", "trees", "relations", "slack", "python", "function", "unbounded"}


def signed(nonneg):
    """lam = 0.5 with weights that must not be negative."""
    return pb.prox.SquaredL2(0.5) + pb.prox.Box(np.where(nonneg, 0.0, -np.inf))


def solve(name, method, **options):
    """A certified result with evidence, or a skip where the method does not take the risk."""
    options = {"lam": 0.5, "tol": 1e-3, "max_iter": 10 if method == "sgd" else 2000, **options}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pb.ConvergenceWarning)
            return pb.minimize(RISKS[name], method=method, evidence=True, **options)
    except pb.ParameterError as problem:
        pytest.skip(str(problem))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", RISKS)
def test_every_method_gives_evidence_that_proves_its_claims(name, method):
    result = solve(name, method, random_state=0, tol=1e-1 if method in ("bcfw", "frank-wolfe") else 1e-3)
    assert result.certified
    report = pb.verify(result.certificate, RISKS[name])
    assert report.ok, report
    assert report.lower_bound <= report.fun
    # the evidence is as good as what the run itself knew; of SGD on a log-loss no labellings are met
    assert (name, method) == ("logistic", "sgd") or result.certificate.gap <= max(2.0 * result.gap, 1e-9)
    if name in EXACT:
        exact = pb.verify(result.certificate, RISKS[name], exact=True)
        assert exact.ok, exact
        assert exact.lower_bound >= report.lower_bound - 1e-15 * abs(report.fun)


@pytest.mark.parametrize("name, method, options", [
    ("classes", "auto", {"scale": "mean", "lam": 0.01}),
    ("chains", "oca", {"scale": "mean", "lam": 0.02}),
    ("crf", "lbfgs", {"scale": "mean", "lam": 0.02}),
    ("classes", "oca", {"lam": None, "penalty": signed(np.arange(12) < 9)}),
    ("crf", "lbfgs", {"lam": None, "penalty": signed(np.arange(18) < 4)}),
    ("chains", "prox-bcfw", {"lam": None, "penalty": signed(np.arange(18) % 2 == 0)}),
    ("classes", "cutting-plane", {"lam": None, "penalty": pb.prox.Ball(0.7)}),
    ("function", "cutting-plane", {"lam": None, "penalty": pb.prox.Ball(0.7)}),
    ("classes", "bmrm", {"n_parts": 7, "tol": 1e-9}),
    ("classes", "oca", {"memory_limit": 60_000}),
    ("chains", "mp-bcfw average=True", {}),
    ("chains", "mp-bcfw average=True", {"lam": None, "penalty": signed(np.arange(18) % 2 == 0)}),
    ("chains", "mp-bcfw visit=all max_idle=2", {}),
    ("chains", "prox-bcfw n_best=2", {}),
    ("classes", "auto", {"tol": 1e-10}),
    ("chains", "auto", {"tol": 1e-8}),
])  # fmt: skip
def test_options_that_change_the_problem_or_the_planes(name, method, options):
    result = solve(name, method, **options)
    report = pb.verify(result.certificate, RISKS[name])
    assert report.ok, report
    assert abs(result.certificate.fun - result.fun) <= 1e-12 * abs(result.fun)


def test_planes_are_dropped_beside_evidence_as_without():
    """With evidence no plane left its block, and the run took other steps."""
    risk = make_risks()["chains"]
    runs = [pb.minimize(risk, lam=0.05, method="prox-bcfw", tol=1e-8, evidence=evidence) for evidence in (False, True)]
    assert np.array_equal(runs[0].x, runs[1].x) and runs[0].n_planes == runs[1].n_planes
    assert pb.verify(runs[1].certificate, risk).ok


def test_a_path_keeps_the_evidence_of_its_planes():
    for name, method in (("classes", "oca"), ("chains", "prox-bcfw"), ("chains", "bmrm")):
        results = pb.path(RISKS[name], [5.0, 1.0, 0.2], method=method, evidence=True)
        for result in results:
            assert result.certificate.gap <= 2.0 * result.gap
            assert pb.verify(result.certificate, RISKS[name]).ok


def test_files_hold_the_same_certificate(tmp_path):
    for name, method in (("classes", "auto"), ("chains", "prox-bcfw"), ("crf", "lbfgs"), ("trees", "oca"),
                         ("python", "prox-bcfw"), ("logistic", "oca")):
        certificate = solve(name, method).certificate
        certificate.save(tmp_path / "proof.npz")
        again = pb.load_certificate(tmp_path / "proof.npz")
        for item in dataclasses.fields(certificate):
            mine, theirs = getattr(certificate, item.name), getattr(again, item.name)
            if item.name != "evidence":
                assert np.array_equal(mine, theirs), item.name
        report = pb.verify(tmp_path / "proof.npz", RISKS[name])
        assert report.ok and str(report) == str(pb.verify(certificate, RISKS[name]))


def test_nothing_is_proven_without_evidence():
    result = pb.minimize(RISKS["classes"], lam=0.5, method="bmrm")
    report = pb.verify(result.certificate, RISKS["classes"])
    assert not report.ok and report.lower_bound == -math.inf
    assert "evidence=True" in str(report)
    # F at the point is confirmed all the same
    assert dict((name, holds) for name, holds, _ in report.checks)["F(w)"]


def test_a_certificate_of_other_data_is_refused():
    X, y = data(seed=5)
    certificate = solve("classes", "auto").certificate
    report = pb.verify(certificate, pb.risks.MulticlassHinge(X, y))
    assert not report.ok and ("same problem", False) in [check[:2] for check in report.checks]
    with pytest.raises(pb.ParameterError, match="12 weights"):
        pb.verify(certificate, pb.risks.MulticlassHinge(X[:, :2], y))


# ---------------------------------------------------------------------- claims beyond the evidence

def raised(x, share):
    """The number x larger by a share of itself, or of 1 where it is small."""
    return x + share * max(abs(x), 1e-3)


def mutations(rng, certificate, name):
    """One mutated certificate and the risk to check it with: each claims more than its evidence proves."""
    change, share = dataclasses.replace, 10.0 ** rng.uniform(-6, 1)
    evidence, risk = certificate.evidence, RISKS[name]
    kinds = ["fun", "bound", "phi", "offset", "lam", "w", "both"]
    kinds += {"labellings": ["label", "mass", "row", "example"], "points": ["weight", "point"],
              "multipliers": ["beta"]}[evidence.kind]
    kind = kinds[rng.integers(len(kinds))]
    if kind == "fun":               # below the value at the point
        return kind, change(certificate, fun=certificate.fun - share * abs(certificate.fun)), risk
    if kind == "bound":
        return kind, change(certificate, lower_bound=raised(certificate.lower_bound, share)), risk
    if kind == "both":              # a perfect gap, all numbers made to fit
        return kind, change(certificate, lower_bound=certificate.fun, offset=certificate.offset
                            + (certificate.fun - certificate.lower_bound)), risk
    if kind == "phi":
        phi = certificate.phi + share * np.linalg.norm(certificate.phi) * rng.standard_normal(certificate.phi.shape)
        return kind, change(certificate, phi=phi), risk
    if kind == "offset":
        return kind, change(certificate, offset=raised(certificate.offset, share)), risk
    if kind == "lam":               # a larger lam bounds more, a smaller one makes F smaller
        factor = (1.0 + share) if rng.random() < 0.5 else 1.0 / (1.0 + share)
        return kind, change(certificate, lam=certificate.lam * factor), risk
    if kind == "w":                 # a worse point: one of two opposite ones is
        step = share * (0.1 + np.linalg.norm(certificate.w)) * rng.standard_normal(certificate.w.shape)
        w = max((certificate.w + step, certificate.w - step), key=lambda w: value(risk, certificate.lam, w))
        if value(risk, certificate.lam, w) <= (1.0 + 1e-12) * (certificate.fun + certificate.error):
            return mutations(rng, certificate, name)
        return kind, change(certificate, w=w), risk
    if kind == "weight":
        weights = evidence.weights.copy()
        used = np.argwhere(weights > 0.0)
        weights[tuple(used[rng.integers(len(used))])] *= 1.0 + share
        return kind, change(certificate, evidence=Points(evidence.points, weights)), risk
    if kind == "beta":
        beta = evidence.beta.copy()
        beta[np.argmax(np.abs(beta) * rng.random(len(beta)))] *= 1.0 + share
        return kind, change(certificate, evidence=Multipliers(beta)), risk
    if kind == "point":
        points = evidence.points + share * rng.standard_normal(evidence.points.shape)
        before, after = (np.array([risk.evaluate(w)[1] for w in which]) for which in (evidence.points, points))
        if np.abs((before - after)[evidence.weights > 1e-3]).max(initial=0.0) < 1e-7:      # planes of the same piece
            return mutations(rng, certificate, name)
        return kind, change(certificate, evidence=Points(points, evidence.weights)), risk
    j = int(np.argmax(evidence.masses * rng.random(len(evidence.masses))))
    if kind == "mass":
        masses = evidence.masses.copy()
        masses[j] *= 1.0 + share
        return kind, change(certificate, evidence=Labellings(evidence.examples, evidence.labellings, masses)), risk
    if kind == "example":
        examples = evidence.examples.copy()
        examples[j:] = np.minimum(examples[j:] + 1, risk.n_examples - 1)
        return kind, change(certificate, evidence=Labellings(examples, evidence.labellings, evidence.masses)), risk
    if kind == "label":
        values = evidence.labellings.values if hasattr(evidence.labellings, "values") else evidence.labellings
        at = evidence.labellings.offsets[j] if hasattr(evidence.labellings, "offsets") else j
        values[at] = (values[at] + 1) % (2 if name == "two" else 3)
        return kind, certificate, risk
    X, y = data()                   # a row of the data, with a fingerprint made to fit
    X[evidence.examples[j]] *= 1.0 + share
    other = pb.risks.MulticlassHinge(X, y) if name == "classes" else pb.risks.BinaryHinge(
        X.astype(np.float32), (y > 0).astype(int), sample_weight=RISKS["two"].sample_weight)
    return kind, change(certificate, fingerprint=other.fingerprint), other


def value(risk, lam, w):
    """F(w) in plain floats."""
    return 0.5 * lam * w @ w + risk.evaluate(w)[0].sum()


def fresh(certificate, tmp_path):
    """A copy that shares nothing, through a file."""
    certificate.save(tmp_path / "copy.npz")
    return pb.load_certificate(tmp_path / "copy.npz")


@pytest.mark.parametrize("name, method", [("classes", "auto"), ("two", "alm"), ("classes", "oca"),
                                          ("logistic", "lbfgs"), ("logistic", "newton"),
                                          ("function", "bmrm")])
def test_no_claim_beyond_the_evidence_passes(name, method, tmp_path):
    """Hundreds of certificates in all, each with one number that is not what the evidence gives."""
    certificate, rng = solve(name, method, tol=1e-4).certificate, np.random.default_rng(7)
    assert pb.verify(certificate, RISKS[name]).ok
    kinds = {}
    for _ in range(120):
        kind, mutated, risk = mutations(rng, fresh(certificate, tmp_path), name)
        report = pb.verify(mutated, risk)
        assert not report.ok, (kind, mutated, report)
        assert ("same problem", False) not in [check[:2] for check in report.checks]       # recomputed, not recognised
        kinds[kind] = kinds.get(kind, 0) + 1
    assert len(kinds) >= 8


def test_the_gap_of_a_minimum_of_zero_is_zero():
    """A rounding error of F = 0 made it infinite."""
    certificate = solve("logistic", "oca").certificate
    for lower, gap in ((0.0, 0.0), (-1.0, math.inf)):
        assert dataclasses.replace(certificate, fun=0.0, error=1e-16, lower_bound=lower).gap == gap


def test_exact_arithmetic_sees_the_last_bit():
    """A bound that is one part in 1e15 above what the multipliers prove fails in fractions."""
    certificate = solve("classes", "auto").certificate
    proven = pb.verify(certificate, RISKS["classes"], exact=True).lower_bound
    for bound, holds in ((proven, True), (np.nextafter(proven, np.inf) + 1e-15 * abs(proven), False)):
        again = dataclasses.replace(certificate, lower_bound=float(bound))
        assert pb.verify(again, RISKS["classes"], exact=True).ok is holds


def test_exact_value_is_that_of_fractions():
    X, y = data(6, 3)
    risk = pb.risks.MulticlassHinge(X, y, n_classes=3)
    certificate = pb.minimize(risk, lam=0.7, tol=1e-4).certificate
    W = [[Fraction(float(x)) for x in row] for row in certificate.w.reshape(3, 3)]
    total = Fraction(0.7) * sum(x * x for row in W for x in row) / 2
    for x, k in zip(X, y, strict=True):
        scores = [sum(a * Fraction(float(b)) for a, b in zip(row, x, strict=True)) for row in W]
        total += max(scores[j] - scores[k] + (j != k) for j in range(3))
    fun = pb.verify(certificate, risk, exact=True).fun
    assert Fraction(fun) >= total > Fraction(float(np.nextafter(fun, -np.inf)))


def test_infeasible_multipliers_are_refused():
    certificate = solve("classes", "auto").certificate
    evidence = certificate.evidence
    j = int(np.argmax(evidence.masses))
    masses = evidence.masses.copy()
    masses[j] = np.nextafter(1.0, 2.0)
    report = pb.verify(dataclasses.replace(certificate, evidence=Labellings(
        evidence.examples, evidence.labellings, masses)), RISKS["classes"])
    assert ("multipliers", False) in [check[:2] for check in report.checks]


def test_files_of_anything_else_are_refused(tmp_path):
    path = tmp_path / "proof.npz"
    certificate = solve("classes", "auto").certificate
    certificate.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        torn = bytearray(whole)
        torn[rng.integers(len(torn))] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(torn))
        try:
            found = pb.load_certificate(path)
        except pb.StateError:
            continue
        assert str(found) == str(certificate)       # a bit that says nothing, in the directory of the file
    np.savez(path, w=np.zeros(3))
    with pytest.raises(pb.StateError, match="not a"):
        pb.load_certificate(path)
    bad = dataclasses.replace(certificate, evidence=Labellings(certificate.evidence.examples[::-1],
                                                               certificate.evidence.labellings,
                                                               certificate.evidence.masses))
    bad.save(path)
    with pytest.raises(pb.StateError, match="ascending"):
        pb.load_certificate(path)
    with pytest.raises(pb.InputTypeError, match="certificate must be"):
        pb.verify(3.0, RISKS["classes"])


def test_the_verifier_shares_no_code_with_the_solvers():
    """Neither it nor anything that it imports, directly or not, is of solvers, bundle or qp."""
    seen, waiting = set(), [path for path in SOURCES if path.startswith("proof/")]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for target in imports(path, (ROOT / path).read_text(encoding="utf-8")):
            parts = "/".join(target[1:])
            waiting += [other for other in SOURCES if other.rsplit(".", 1)[0] in (parts, f"{parts}/__init__")
                        or parts.startswith(other.rsplit(".", 1)[0] + "/")]
    assert "risks/linear.py" in seen
    assert {path.split("/")[0] for path in seen}.isdisjoint({"solvers", "bundle", "qp"})


# ---------------------------------------------------------------------- the ball

@pytest.mark.parametrize("name, method", [("classes", "auto"), ("costs", "oca"), ("two", "bcfw"), ("logistic", "lbfgs"),
                                          ("chains", "prox-bcfw"), ("crf", "bmrm"), ("slack", "frank-wolfe"),
                                          ("function", "oca"), ("unbounded", "prox-bmrm"), ("python", "mp-bcfw")])
def test_the_ball_contains_the_minimiser(name, method):
    """The minimiser is known to the radius of the ball of a run to a gap of 1e-11."""
    best = solve(name, "auto", tol=1e-11)
    for tol in (0.3, 1e-2, 1e-4):
        result = solve(name, method, tol=tol)
        centre, radius = result.ball
        assert np.linalg.norm(best.ball[0] - centre) <= radius + best.ball[1]
        # never larger than the usual ball around the point, over the root of 2
        usual = math.sqrt(2.0 * max(result.fun + result.error - result.lower_bound, 0.0) / 0.5)
        assert radius <= usual / math.sqrt(2.0) * (1.0 + 1e-6) + 1e-7


def test_the_ball_of_constrained_problems_and_of_none():
    for nonneg in (np.arange(12) < 9, np.ones(12, dtype=bool)):
        best = solve("classes", "oca", lam=None, penalty=signed(nonneg), tol=1e-10)
        result = solve("classes", "bmrm", lam=None, penalty=signed(nonneg), tol=1e-2)
        assert np.linalg.norm(best.ball[0] - result.ball[0]) <= result.ball[1] + best.ball[1]
    assert solve("classes", "cutting-plane", lam=None, radius=1.0).ball is None


def test_a_ball_of_known_minimiser():
    """F(w) = lam/2 w^2 + |w - 1| has its minimiser at 1 where lam <= 1, and 1/lam elsewhere."""
    for lam in (0.5, 1.0, 4.0, 1e6):
        result = pb.minimize(lambda w: (abs(w[0] - 1.0), np.sign(w - 1.0)), [0.3], lam=lam, tol=1e-6)
        assert abs(result.ball[0][0] - min(1.0, 1.0 / lam)) <= result.ball[1]


# ---------------------------------------------------------------------- forgeries that once passed

def forged(certificate, **changes):
    return dataclasses.replace(certificate, **changes)


def refused(certificate, risk, **options):
    """Whether the verifier says no, in one way or the other."""
    try:
        return not pb.verify(certificate, risk, **options).ok
    except pb.ParameterError:
        return True


def test_exact_arithmetic_takes_no_points_at_which_risks_round():
    """The plane of a hinge risk at a point 1e15 away was taken as exact: a bound of 36.9 for a minimum of 30."""
    X = np.random.default_rng(0).random((30, 3))
    risk = pb.risks.BinaryHinge(X, np.ones(30, int), n_classes=2)
    certificate = pb.minimize(risk, lam=1e6, tol=1e-3).certificate
    far = forged(certificate, evidence=Points(-1e15 * X[:1], np.ones((1, 1))))
    with pytest.raises(pb.ParameterError, match="exact=True"):
        pb.verify(far, risk, exact=True)
    assert pb.verify(far, risk).lower_bound <= certificate.fun


@pytest.mark.parametrize("seed", range(12))
def test_callables_are_not_believed_where_their_terms_cancel(seed):
    """Three hinges with x3 = x1 + x2 gave 4 at a point 1e14 away: a bound of 4 was proven for F(0) = 3.

    The slopes of the hinges add up to 0, and all their points are on a line where only rounding changes the sum. The
    minimum may lie anywhere, so that no point that a verifier could look at shows that the bound is false.
    """
    rng = np.random.default_rng(seed)
    d = int(rng.integers(3, 7)) if seed % 4 else 80
    A = np.round(rng.standard_normal((2, d)) * 2**20) / 2**20
    X, y = np.vstack([A, A.sum(axis=0)]), np.r_[np.ones(len(A)), -1.0]
    at = np.round(rng.standard_normal(d)) * (seed % 2)

    def fun(w):
        margins = 1.0 - y * (X @ (w - at))
        return np.maximum(margins, 0.0).sum(), -(y * (margins > 0.0)) @ X

    risk, lam = pb.risks.Function(fun, d, lower_bounds=0.0), 1e-3
    line = np.linalg.svd(X)[2][-1]
    points = 10.0 ** rng.uniform(14.0, 16.3, 5000)[:, None] * line + rng.standard_normal((5000, d))
    far = max((w for w in points if np.abs(fun(w)[1]).max() < 1e-9), key=lambda w: fun(w)[0])
    (bound, phi), least = fun(far), fun(at)[0] + 0.5 * lam * float(at @ at)
    assert bound > least + 0.1
    other = next(w for w in np.linspace(0.0, 1e4, 1000)[:, None] * line
                 if fun(w)[0] + 0.5 * lam * float(w @ w) > bound)
    certificate = pb.minimize(risk, lam=lam, tol=1e-6, evidence=True).certificate
    for exact in (False, True):
        report = pb.verify(certificate, risk, exact=exact, lam=lam)
        assert report.ok and report.lower_bound <= least, report
        bad = forged(certificate, w=other, fun=float(fun(other)[0] + 0.5 * lam * float(other @ other)), error=1e-6,
                     lower_bound=float(bound) - 1e-6, offset=float(bound), offset_error=1e-7, phi=phi, slope_error=0.0,
                     evidence=Points(far[None], np.ones((1, 1))))
        report = pb.verify(bad, risk, exact=exact, lam=lam)
        assert not report.ok and report.lower_bound <= least, report
        assert any("which cancel" in text for text in report.believed)


@pytest.mark.parametrize("outside", [np.nan, np.inf, pb.ParameterError("no logarithm")])
def test_callables_without_a_value_elsewhere_are_verified(outside):
    """The verifier asks where a weight stands alone, which may lie outside the bounds and the domain."""
    def fun(w):
        if (w > 0.0).all():
            return float((w - np.log(w)).sum()), 1.0 - 1.0 / w
        if isinstance(outside, Exception):
            raise outside
        return outside, w

    risk, penalty = pb.risks.Function(fun, 3, lower_bounds=0.0), pb.prox.Box(lower=1.0, upper=3.0)
    certificate = pb.minimize(risk, penalty=penalty, tol=1e-5, evidence=True).certificate
    report = pb.verify(certificate, risk, penalty=penalty)
    assert report.ok and any("no value" in text for text in report.believed), report


def test_values_of_callables_count_terms_that_cancel():
    """F(w) lay above the `fun` of a report, since the residuals are differences of numbers of 1e12."""
    rng = np.random.default_rng(3)
    A, start = rng.normal(size=(4, 3)), rng.normal(size=3) * 1e12
    target = A @ start + rng.normal(size=4)
    risk = pb.risks.Function(lambda w: (np.abs(A @ w - target).sum(), A.T @ np.sign(A @ w - target)), 3,
                             lower_bounds=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        result = pb.minimize(risk, lam=1e-23, tol=1e-6, evidence=True, max_iter=200)
    w = [Fraction(number) for number in result.x]
    residuals = [sum(map(lambda a, b: Fraction(a) * b, row, w)) - Fraction(t) for row, t in zip(A, target, strict=True)]
    fun = sum(map(abs, residuals)) + Fraction(1e-23) / 2 * sum(number * number for number in w)
    for exact in (False, True):
        report = pb.verify(result.certificate, risk, exact=exact, lam=1e-23)
        assert report.ok and report.lower_bound <= fun <= report.fun, report


@pytest.mark.parametrize("name, labellings", [
    ("trees", ([-1, 1, 1], [-1, 2, 1], [-1, 0, 0], [0, 0, 1], [-1, 0, 7])),
    ("relations", ([-1, 3, 2], [-1, 5, 3], [-1, 0, 1], [-2, 0, 3], [-1, 0, 6]))])
def test_what_is_no_tree_proves_nothing(name, labellings):
    risk = RISKS[name]
    certificate = solve(name, "prox-bcfw").certificate
    for heads in labellings:
        bad = Labellings.of(np.array([0]), [np.array(heads)], np.array([0.5]), risk.sample_weight)
        report = pb.verify(forged(certificate, evidence=bad), risk)
        assert ("multipliers", False) in [check[:2] for check in report.checks]


@pytest.mark.parametrize("kind", ["binary", "graph", "trees"])
def test_evidence_for_truths_with_weights(kind):
    """Lists, and arrays of all examples, have the same certificate; labellings of other sizes prove nothing."""
    rng, names = np.random.default_rng(0), ("words",)
    if kind == "trees":
        labels = [np.array([-1, 2, 0]), np.array([-1, 2, 3, 0]), np.array([-1, 0, 1])]
        weights, X = [rng.integers(0, 2, len(y)) for y in labels], [rng.integers(0, 5, (len(y) - 1, 1)) for y in labels]
        model, joined = pb.models.Dependency.hashed(8, names, ("h.words m.words",)), Ragged.of(X)
    else:
        labels = [rng.integers(0, 2, n) for n in (4, 3, 5)]
        weights = [rng.random(len(y)) for y in labels]
        X = [pb.Graph(np.eye(2)[y] + rng.normal(size=(len(y), 2)), np.array([[0, 1], [1, 2]]), rng.random((2, 1)))
             for y in labels]
        model = pb.models.BinaryLabeling(2, 1) if kind == "binary" else pb.models.GraphLabeling(2, 2, 1, risk="true")
        joined = pb.Graph(*map(Ragged.of, zip(*X, strict=True)))
    Y = list(map(WeightedLabels, labels, weights))
    risk = pb.risks.Structured(model, joined, WeightedLabels(Ragged.of(labels), Ragged.of(weights)))
    certificate = pb.minimize(risk, lam=0.5, tol=0.01, method="prox-bcfw", evidence=True).certificate
    for exact in (False, True):
        reports = [pb.verify(certificate, one, exact=exact) for one in (risk, pb.risks.Structured(model, X, Y))]
        assert all(report.ok for report in reports) and reports[0].lower_bound == reports[1].lower_bound
    e = certificate.evidence
    shorter = Labellings.of(e.examples, [e.labellings[j][:-1] for j in range(len(e.masses))], e.masses,
                            risk.sample_weight)
    assert not pb.verify(forged(certificate, evidence=shorter), risk).ok


def test_errors_of_the_certificate_hide_nothing():
    """An inflated `error` made the limit of the check, which compared with the upper end of what it found."""
    for s in (1e8, 1e12):
        risk = pb.risks.BinaryHinge(np.array([[s, 1.0], [s, -1.0]]), [1, -1])
        certificate = pb.minimize(risk, lam=1.0, tol=1e-3, method="prox-bcfw", max_iter=5).certificate
        evidence = Labellings(np.array([0, 1]), np.array([1, 1]), np.array([0.5, 0.5]))
        proven = pb.verify(forged(certificate, evidence=evidence), risk, exact=True).lower_bound
        for claim in (proven + 1e-6, proven + 1e-3):
            for error, fun in ((1.0, certificate.fun), (certificate.error, 1e10), (1.7e300, -1e300)):
                assert refused(forged(certificate, evidence=evidence, lower_bound=claim, error=error, fun=fun), risk)


def test_many_entries_of_one_labelling_are_all_counted():
    """A million masses below the rounding of their sum went lost in phi, but not in the offset."""
    risk = pb.risks.BinaryHinge([[1.0]], [1], n_classes=2)
    certificate = pb.minimize(risk, lam=2.0, tol=1e-3).certificate
    n = 200_000
    masses = np.concatenate([[1.0 - n * 2.0**-54], np.full(n, 2.0**-54 * 0.999)])
    evidence = Labellings(np.zeros(n + 1, dtype=np.intp), np.ones(n + 1, dtype=int), masses)
    assert pb.verify(forged(certificate, evidence=evidence), risk).lower_bound <= 0.75


def test_certificates_in_memory_are_checked_like_files():
    certificate, risk = solve("classes", "auto").certificate, RISKS["classes"]
    e = certificate.evidence
    for bad in (
        forged(certificate, lam=-1.0), forged(certificate, lam=float("nan")), forged(certificate, lam=None),
        forged(certificate, divisor=0), forged(certificate, phi=certificate.phi[:3]),
        forged(certificate, w=np.full(12, 1e155)), forged(certificate, w=np.full(12, np.nan)),
        forged(certificate, nonneg=np.ones(3, dtype=bool)), forged(certificate, n_examples=10**9),
        forged(certificate, risk="Logistic"),
        forged(certificate, evidence=Labellings(e.examples, e.labellings, -e.masses)),
        forged(certificate, evidence=Labellings(e.examples, e.labellings, e.masses[1:])),
        forged(certificate, evidence=Labellings(e.examples - 1, e.labellings, e.masses)),
        forged(certificate, evidence=Labellings(np.tile(e.examples, 2), np.tile(e.labellings, 2),
                                                np.tile(e.masses, 2))),
        forged(certificate, evidence=Labellings(e.examples, e.labellings + 7, e.masses)),
        forged(certificate, evidence=Labellings(e.examples, e.labellings.astype(float), e.masses)),
        forged(certificate, evidence=Points(np.full((1, 12), 1e200), np.ones((1, 1)))),
        forged(certificate, evidence=Points(np.zeros((1, 3)), np.ones((1, 1)))),
        forged(certificate, evidence=Points(np.zeros((1, 12)), -np.ones((1, 1)))),
    ):  # fmt: skip
        assert refused(bad, risk)
        assert refused(bad, risk, exact=True)


def test_small_problems_and_optima_of_zero_are_confirmed():
    """Sums of masses are cut by a rounding, which the claims did not count; roots of fractions ended at 2^-200."""
    for K in (3, 4, 7):
        risk = pb.risks.MulticlassHinge([[0.3, 0.1]], [0], n_classes=K)
        for method in ("auto", "alm", "prox-bcfw", "oca"):
            certificate = pb.minimize(risk, lam=1e4, tol=1e-9, method=method, evidence=True).certificate
            for exact in (False, True):
                report = pb.verify(certificate, risk, exact=exact)
                assert report.ok, report
    nothing = pb.risks.MulticlassHinge(np.eye(3), [0, 1, 2], sample_weight=np.zeros(3))
    for exact in (False, True):
        assert pb.verify(pb.minimize(nothing, lam=1.0).certificate, nothing, exact=exact).ok


def test_a_part_without_multipliers_is_no_division_by_zero():
    """Only the first part is active at the optimum; the sums of the others are 0."""
    def fun(w):
        return np.array([abs(w[0] - 1.0), 0.0]), np.array([[np.sign(w[0] - 1.0)], [0.0]])
    risk = pb.risks.Function(fun, 1, n_parts=2, lower_bounds=0.0)
    for method in ("oca", "bmrm", "frank-wolfe"):
        certificate = pb.minimize(risk, lam=0.5, method=method, tol=1e-6, evidence=True).certificate
        for exact in (False, True):
            report = pb.verify(certificate, risk, exact=exact)
            assert report.ok, report


def test_evidence_that_fails_leaves_the_result():
    """A callable that fails when it is asked once more for evidence; labellings that no file could hold."""
    calls = []

    def fun(w):
        calls.append(len(calls))
        if len(calls) == 1000:
            raise RuntimeError("gone")
        return np.abs(w - 1.0).sum(), np.sign(w - 1.0)
    reference = pb.minimize(fun, np.zeros(2), lam=0.5, method="bmrm", tol=1e-3)
    calls[:] = range(1000 - len(calls) - 1)         # the next run succeeds, and fails after it
    with pytest.warns(RuntimeWarning, match="no evidence"):
        result = pb.minimize(fun, np.zeros(2), lam=0.5, method="bmrm", tol=1e-3, evidence=True)
    assert result.fun == reference.fun and result.certified and result.certificate.evidence is None


NAMES = {1: "up", -1: "down", "up": 1, "down": -1}


class Words(Signs):
    """The model with labellings that no file of numbers holds."""

    def joint_feature(self, x, y):
        return super().joint_feature(x, NAMES[y])

    def decode(self, w, x):
        return NAMES[super().decode(w, x)]

    def loss_augmented_decode(self, w, x, y):
        return NAMES[super().loss_augmented_decode(w, x, NAMES[y])]


@pytest.mark.parametrize("method", ["oca", "sgd", "frank-wolfe"])
def test_labellings_that_are_no_numbers_leave_points(method):
    X, y = data()
    risk = pb.risks.Structured(Words(), X, ["up" if k else "down" for k in y])
    result = pb.minimize(risk, lam=0.5, method=method, tol=1e-1, evidence=True)
    report = pb.verify(result.certificate, risk)
    assert report.ok and report.evidence == "points", report


def test_evidence_of_newton_is_of_the_best_point():
    """The newest plane had served the limits of the intercept alone: the certificate proved a gap of 1."""
    X, y, _, _ = pb.datasets.load_digits()
    risk = pb.risks.SquaredHinge(X[:400], np.where(y[:400] < 5, 1.0, -1.0), fit_intercept=True)
    for penalty in ({"lam": 1.0}, {"penalty": pb.prox.ElasticNet(1.0, 0.5)}):
        result = pb.minimize(risk, method="newton", tol=1e-4, evidence=True, **penalty)
        report = pb.verify(result.certificate, risk, **penalty)
        assert result.success and report.ok and result.fun - report.lower_bound <= 1e-4 * result.fun


def test_multipliers_are_scaled_to_the_best_bound():
    """`t B - t^2 |phi|^2 / (2 lam)` is largest at `t = lam B / |phi|^2`."""
    rng, lam = np.random.default_rng(0), 0.5
    X = rng.standard_normal((40, 4)) + 1.0
    risk = pb.risks.BinaryHinge(X, np.ones(40), n_classes=2)
    phi = -X.sum(axis=0)
    proof = of_labels(risk, Problem(Square(lam)), np.ones(40), Plane(40.0, phi))
    t = lam * 40.0 / (phi @ phi)
    assert t < 0.9 and proof.bound.value == pytest.approx(0.5 * t * 40.0)
    np.testing.assert_allclose(proof.evidence.masses, t)


@pytest.mark.parametrize("loss", [pb.risks.MulticlassHinge, pb.risks.BinaryHinge, pb.risks.Logistic])
def test_the_error_of_a_value_does_not_depend_on_the_sign_of_the_bias(loss):
    """A negative bias made the bound on the rounding of scores smaller."""
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((30, 4)), np.arange(30) % 2
    rows = 2 if loss is pb.risks.MulticlassHinge else 1
    w = rng.standard_normal((rows, 5))
    found = [LinearProblem(loss(X, y, bias=sign * 1e3), False).value((w * [1, 1, 1, 1, sign]).ravel())
             for sign in (1.0, -1.0)]
    assert found[0] == found[1] and found[0][1] > 0.0


def test_a_report_is_true_if_all_is_proven():
    risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    certificate = pb.minimize(risk, lam=1.0, tol=1e-6).certificate
    assert pb.verify(certificate, risk, lam=1.0)
    assert not pb.verify(certificate, risk, lam=2.0)


def test_arguments_that_it_lacks_have_a_remedy():
    with pytest.raises(pb.ParameterError, match=r"unknown argument 'radius'; did you mean penalty=pb.prox.Ball"):
        pb.verify("run.npz", None, radius=1.0)


def test_an_objective_that_underflows_is_verified():
    """The exact square of w is 1e-400, of which the run can only say 0: it printed FAILED  F(w)  0 +- 0."""
    risk = pb.risks.Logistic(np.ones((2, 3)), [1, -1], sample_weight=[0.0, 0.0])
    result = pb.minimize(risk, np.full(3, 1e-200), lam=1.0, method="lbfgs", evidence=True)
    report = pb.verify(result.certificate, risk, lam=1.0)
    assert result.fun == 0.0 and report.ok and 0.0 < report.fun < 1e-280


def test_coarser_rounding_of_the_verifier_refuses_no_honest_error():
    """F is 1e-44 at margins of 100, where errors of scores are more than 1e-9 of it; other sums bound them better."""
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((3, 600)), rng.standard_normal(600)
    w *= 100.0 / np.abs(X @ w).min()
    risk = pb.risks.Logistic(X, np.sign(X @ w), n_classes=2)
    certificate = pb.minimize(risk, w, lam=1e-100, max_iter=1, method="lbfgs", evidence=True).certificate
    found = pb.verify(dataclasses.replace(certificate, error=1.0), risk)
    error = 0.5 * (found.fun - certificate.fun)
    assert error > 2e-9 * certificate.fun
    for share, ok in ((1.0, True), (0.4, False), (0.0, False)):
        claims = dataclasses.replace(certificate, error=share * error)
        assert pb.verify(claims, risk).ok == ok, share
