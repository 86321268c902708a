"""The verifier recomputes the claims of a certificate from the data and the evidence alone.

It uses formulas of risks and interfaces of models, and no code of solvers, bundles or quadratic programs. It computes
each number with a bound on its rounding error, or as a fraction (`exact=True`). A claim passes if it is proven after
all errors are counted against it, up to a small fraction of the claim itself. No number in a certificate can enlarge
that fraction.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Never

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import PathLike
from ..core.validation import check_flag, refuse_unknown
from ..features.dependence import dependence_in
from ..prox import Penalty
from ..risks import BinaryHinge, Function, Logistic, MulticlassHinge, Structured
from . import exact as ex
from .anchors import anchors_of
from .certificate import Certificate, fingerprint_of, load_certificate
from .given import difference
from .linear import LinearProblem
from .problem import PlainProblem
from .structured import StructuredProblem

SHARE, TINY = 1e-9, 1e-280
"""A claim may be wrong by the fraction SHARE, as runs count rounding in another way, or by TINY, due to underflow."""


@dataclass
class Report:
    """What a verification found; true if `ok`.

    Attributes
    ----------
    ok : bool
        Every claim of the certificate was computed again and holds, for the problem that was passed to `verify`, or
        else for the one that `problem` states.
    fun, lower_bound : float
        Proven by this check alone, its rounding counted: `lower_bound <= min F <= F(w) <= fun`. The second is minus
        infinity if there is no evidence.
    evidence : str or None
        The kind of the evidence.
    problem : str
        The problem as the certificate describes it. Read it, or pass `lam`, `penalty` and the other arguments.
    checks : list of (str, bool, str)
        The claim, whether it holds, and the numbers.
    believed : list of str
        Assumptions that were not checked.
    """

    ok: bool = True
    fun: float = float("inf")
    lower_bound: float = -float("inf")
    evidence: str | None = None
    problem: str = ""
    checks: list[Any] = field(default_factory=list)
    believed: list[Any] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """`(fun - lower_bound) / |fun|` of the proven numbers, 0 if both are equal."""
        difference = self.fun - self.lower_bound
        return 0.0 if difference <= 0.0 else difference / abs(self.fun) if self.fun != 0.0 else float("inf")

    def __bool__(self) -> bool:
        return self.ok

    def add(self, name: str, holds: bool, text: str) -> bool:
        """Record a check; return whether it holds."""
        self.checks.append((name, bool(holds), text))
        self.ok = self.ok and bool(holds)
        return bool(holds)

    def __str__(self) -> str:
        width = max(len(name) for name, _, _ in self.checks)
        lines = [f"{'ok' if holds else 'FAILED':>6}  {name:<{width}}  {text}" for name, holds, text in self.checks]
        lines += [f"        believed: {text}" for text in self.believed]
        proven = f"{self.lower_bound:.10g} <= min F <= F(w) <= {self.fun:.10g}, gap {self.gap:.2e}"
        return "\n".join([f"{'verified' if self.ok else 'NOT verified'}: {proven}", f"        {self.problem}", *lines])


def verify(certificate: Certificate | PathLike, risk: Any, exact: bool = False, *,
           lam: float | ArrayLike | None = None, penalty: Penalty | None = None, constraints: Any = None,
           scale: str | None = None, **unknown: Never) -> Report:
    """Recompute the claims of a certificate without the solvers; calls risk or model only where the report says so.

    Pass what was passed to `minimize`: then the certificate must be one of that problem. What is left out altogether is
    taken from the certificate, and `report.problem` states it.

    Parameters
    ----------
    certificate : Certificate, str or path
        `result.certificate`, or the file that its `save` wrote.
    risk : risk or callable
        What was minimised, made anew from the data.
    exact : bool
        Rational arithmetic: for hinge risks and callables of moderate size. Otherwise float64 with counted errors.
    lam, penalty : float or array_like, Penalty
        At most one of them, as for `minimize`. With one of them the whole problem is compared: `constraints` and
        `scale` then have the defaults of `minimize`. Sums of penalties are compared without rounding.
    constraints : (A, lower, upper), scipy.optimize.LinearConstraint, or a list of them, optional
        Without lam and penalty only the constraints are compared.
    scale : {"sum", "mean"}, optional

    Returns
    -------
    Report
        `report.ok` is True if every claim was proven; `print(report)` lists what was checked and what was trusted.

    Raises
    ------
    StateError
        If the file was not written by `Certificate.save`.
    InputTypeError, ParameterError
        For arguments, and for a risk of another size.

    Notes
    -----
    Checked: the signs and sums of the multipliers, `phi` and `offset` that follow from them, the lower bound, and F at
    the point. A claim may exceed what this proves by at most 1e-9 of the claim, by nothing with `exact=True` unless the
    risk is a callable, whose rounding takes up to 96 calls to bound; but F(w) by underflow, 1e-280, and by rounding of
    which the run counts at least a third. Cost: a pass, and one for each point of the evidence, or one over the
    examples that have multipliers.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> result = pb.minimize(risk, lam=1.0, tol=1e-6)
    >>> report = pb.verify(result.certificate, risk, exact=True, lam=1.0)
    >>> report.ok, report.lower_bound <= report.fun
    (True, True)
    >>> pb.verify(result.certificate, risk, lam=2.0).ok
    False
    """
    refuse_unknown(unknown, tuple(verify.__kwdefaults__ or ()))
    if isinstance(certificate, (str, os.PathLike)):
        certificate = load_certificate(certificate)
    if not isinstance(certificate, Certificate):
        raise InputTypeError("certificate must be a Certificate or the path of one, got "
                             f"{type(certificate).__name__}; pass result.certificate")
    try:
        certificate.check()
    except (ValueError, TypeError, AttributeError) as error:
        raise ParameterError(f"certificate must hold numbers that fit together: {error}") from error
    check_flag("exact", exact)
    if hasattr(risk, "renewed"):        # the data may have been changed in place since the risk was made
        risk = risk.renewed()
    if not getattr(risk, "decodes_exactly", True) and certificate.messages is None:
        risk.aim(0.0)                   # decode as closely as possible, because the run may have done so
    report, shift, centred = Report(problem=certificate.problem()), certificate.shift, risk
    if shift is not None:
        if getattr(risk, "free", None) is None or not hasattr(risk, "moved") or risk.dim != len(certificate.w):
            raise ParameterError("risk must have the free intercept that the certificate is about, got "
                                 f"{type(risk).__name__} without; pass fit_intercept=True and the same data")
        if not _check_shift(report, shift, risk, certificate.penalty, certificate.rows):
            return report
        centred = risk if risk.shift == shift else risk.moved(shift)
    problem = _problem_of(risk if exact else centred, len(certificate.w), bool(exact))
    if exact:
        problem.shift = shift
    elif shift is not None:
        certificate = replace(certificate, w=shift.from_user(certificate.w))
    given = lam, penalty, constraints, scale
    if any(value is not None for value in given):
        differs = difference(certificate, problem.risk, *given)
        report.add("your problem", differs is None, differs or "regulariser and constraints are those passed")
    known = fingerprint_of(problem.risk if shift is None else centred)
    is_same = problem.n_examples == certificate.n_examples and type(problem.risk).__name__ == certificate.risk
    if known is None or certificate.fingerprint is None:
        report.believed.append("that this is the risk of the certificate: it has no fingerprint")
        report.add("same problem", is_same, f"{type(problem.risk).__name__} of {problem.n_examples} examples")
    else:
        report.add("same problem", is_same and known == certificate.fingerprint,
                   f"fingerprint {known} of data, labels, weights and model; {certificate.fingerprint} claimed")
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            _check_point(report, certificate, problem)
            if certificate.evidence is not None:
                report.evidence = certificate.evidence.kind
                _check_evidence(report, certificate, problem)
                report.add("bound and value", report.lower_bound <= report.fun and certificate.lower_bound
                           <= certificate.fun, "the lower bound is at most F(w), as computed here and as claimed")
    except ex.ExactError:
        raise
    except (ArithmeticError, ValueError, IndexError) as error:       # only a damaged or forged certificate leads here
        report.add("computable", False, f"the claims cannot be computed: {type(error).__name__}: {error}")
    if certificate.evidence is None:
        report.add("evidence", False, "the certificate holds none: call minimize with evidence=True")
    report.believed += problem.believed
    return report


def _check_shift(report, shift, risk, penalty, rows):
    """Check that a shift only changes variables: a free intercept absorbs it, and no other term has the intercept."""
    fits = shift.fits(risk.examples.X, risk.examples.scale) and (shift.target == 0.0 or risk.is_regression)
    loose = penalty is not None and (penalty.free & np.isinf(penalty.lower) & np.isinf(penalty.upper))[risk.free].all()
    return report.add("shift", fits and loose and (rows is None or not rows.A[:, risk.free].count_nonzero()), (
        f"by {shift.target:g} of targets, and of whole columns of scale 1, for an intercept that nothing holds"))


def _problem_of(risk, dim, exact):
    """Return the object that computes values and planes of a risk; the risk must have `dim` weights."""
    if not hasattr(risk, "evaluate"):
        if not callable(risk):
            raise InputTypeError(f"risk must be a risk or a callable, got {type(risk).__name__}")
        risk = Function(risk, dim, n_parts=max(1, np.size(risk(np.zeros(dim))[0])))
    if risk.dim != dim:
        raise ParameterError(f"risk must have {dim} weights, those of the certificate, got {risk.dim}; make it from "
                             "the same data with the same arguments")
    if isinstance(risk, (MulticlassHinge, BinaryHinge, Logistic)):
        return LinearProblem(risk, exact)
    return (StructuredProblem if isinstance(risk, Structured) else PlainProblem)(risk, exact)


def _check_point(report, certificate, problem):
    """Check that w is feasible, and F(w) against the data."""
    w, lam, n = certificate.w, certificate.lam, certificate.divisor
    if certificate.nonneg is not None:
        report.add("signs of w", (w[certificate.nonneg] >= 0.0).all(), "w >= 0 for the weights listed")
    if n != 1:
        report.add("scale", n == problem.n_examples, f"R is divided by {n}, of {problem.n_examples} examples")
    square = ex.total_of_squares(w)
    if certificate.radius is not None:
        inside = square <= (Fraction(certificate.radius) * Fraction(1.0 + 1e-12)) ** 2
        report.add("in the ball", inside, f"|w| = {float(square) ** 0.5:.17g}, radius {certificate.radius:.17g}")
    if certificate.penalty is not None:
        if not report.add("bounds of w", certificate.penalty.contains(w), "w keeps the bounds of the penalty"):
            return
        low, high = certificate.penalty.value(w)
    else:
        low, high = (0 if lam is None else Fraction(lam) * square / 2 * (1 + sign * Fraction(certificate.lam_error))
                     for sign in (-1, 1))
    if certificate.rows is not None and not report.add(
            "constraints", certificate.rows.contains(w),
            f"w meets {len(certificate.rows.upper)} linear constraints up to 1e-10 of their terms"):
        return
    value, error = problem.value(w) if certificate.messages is None else problem.dual_value(w, certificate.messages)
    fun = Fraction(value) / n + (high + low) / 2
    error = Fraction(error) / n + (high - low) / 2
    claimed, allowed = Fraction(certificate.fun), Fraction(certificate.error)
    report.fun = _up(fun + error)
    # `fun` itself must be right, however large the claimed error is
    tiny = Fraction(TINY)
    is_right = abs(fun - claimed) <= min(allowed, 100 * error + Fraction(SHARE) * abs(fun)) + error + tiny
    # values of inexact decodings are upper bounds, and the values found here may be lower than the values of the run
    is_right |= not getattr(problem.risk, "decodes_exactly", True) and fun <= claimed
    share = Fraction(SHARE) * abs(claimed) if error else 0
    # a run cannot count rounding inside callables; other errors that it counts may be up to a third of those here
    share += 2 * error if isinstance(problem.risk, Function) else min(2 * allowed, error)
    report.add("F(w)", is_right and fun + error <= claimed + allowed + share + tiny,
               f"{float(fun):.17g} +- {float(error):.2g}; {certificate.fun:.17g} + {certificate.error:.2g} claimed")


def _holds(claim, low, high, problem):
    """Return whether a number in `[low, high]` is proven to be at least `claim`, up to the allowed error SHARE."""
    is_sharp = problem.exact and not isinstance(problem.risk, Function)
    share, tiny = (0, 0) if is_sharp else (Fraction(SHARE) * abs(claim), Fraction(TINY))
    return claim <= min(low + share, high) + tiny


def _check_evidence(report, certificate, problem):
    """Check phi, offset and the lower bound against the evidence."""
    evidence, n = certificate.evidence, certificate.divisor
    is_feasible, text = problem.feasible(evidence)
    if not report.add("multipliers", is_feasible, text):
        return
    plane = problem.plane(evidence)
    off, allowed = plane.distance(certificate.phi), certificate.slope_error
    size = float(np.linalg.norm(certificate.phi))
    report.add("phi", off <= allowed + min(plane.slope_error, allowed + SHARE * size),
               f"claimed up to {allowed:.2g}, found at a distance of {off:.2g} +- {plane.slope_error:.2g}")
    claimed = Fraction(certificate.offset) - Fraction(certificate.offset_error)
    low, high = (Fraction(plane.offset) + sign * Fraction(plane.offset_error) for sign in (-1, 1))
    report.add("offset", _holds(claimed, low, high, problem),
               f"{float(plane.offset):.17g} +- {float(plane.offset_error):.2g}; {certificate.offset:.17g} claimed "
               f"up to {certificate.offset_error:.2g}")
    lam = None if certificate.lam is None else Fraction(certificate.lam) * (1 - Fraction(certificate.lam_error))
    found = _penalised_bounds(report, certificate, problem, plane) if certificate.penalty is not None else (
        plane.bounds(lam, certificate.radius, certificate.nonneg, n))
    if found is None:
        return
    low, high = found
    floor = problem.floor(evidence) if low < certificate.lower_bound else None
    if floor is not None and certificate.penalty is None:       # F >= R, as the square of w is >= 0
        low, high = max(low, floor / n), max(high, floor / n)
    report.lower_bound = _down(low)
    report.add("lower bound", _holds(Fraction(certificate.lower_bound), low, high, problem),
               f"{float(low):.17g} to {float(high):.17g}; {certificate.lower_bound:.17g} claimed")


def _penalised_bounds(report, certificate, problem, plane):
    """Return (low, high) around the bound that a plane proves with the penalty, or None if limits are not proven."""
    penalty, rows, limits, n = certificate.penalty.lowered(), certificate.rows, certificate.limits, certificate.divisor
    floor, level, anchors = problem.floor(certificate.evidence), report.fun, None
    found = dependence_in(problem.risk, penalty, rows) if penalty.labels is None else None
    if found is not None and len(found.left_out):
        penalty = penalty.within(found.left_out, 0.0)
        report.believed.append(f"that others make up for {len(found.left_out)} free weights: by the code that runs use")
    if rows is not None:
        plane = rows.add_to(plane)
    if limits is not None:
        if not np.isfinite(level):
            return None
        problem_of_limits = limits.failure(problem, penalty, Fraction(level), floor, n)
        if not report.add("limits", problem_of_limits is None, problem_of_limits or (
                f"{len(limits.sizes)} free weights are at most {limits.sizes.max():.3g} in size where F is at most "
                f"{level:.10g}")):
            return None
        penalty, plane = penalty.within(np.flatnonzero(penalty.free), limits.sizes), plane.moved(limits.means)
    elif penalty.free.any():
        data = problem.risk if problem.shift is None else problem.risk.moved(problem.shift)
        anchors = anchors_of(data, penalty, getattr(data, "means", None), rows) if penalty.labels is None else None
        if anchors is not None:
            report.add("intercepts", True, "other planes make their slopes 0")
            penalty, plane = penalty.within(np.flatnonzero(penalty.free), 0.0), anchors.freed(plane)
    low, high = penalty.bounds(plane, floor, n)
    if limits is not None:          # outside of the limits F exceeds the level
        low, high = min(low, Fraction(level)), min(high, Fraction(level))
    if low == -np.inf:
        report.add("lower bound", False, "the penalty grows too slowly for this plane: it proves no lower bound")
        return None
    if anchors is not None:         # rounding of the shares of anchors has lowered `high`, too
        high += Fraction(SHARE) * abs(high)
    return low, high


def _up(x):
    """Return a float not below a fraction."""
    found = float(x)
    return found if Fraction(found) >= x else float(np.nextafter(found, np.inf))


def _down(x):
    found = float(x)
    return found if Fraction(found) <= x else float(np.nextafter(found, -np.inf))
