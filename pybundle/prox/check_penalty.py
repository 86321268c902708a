"""`check_penalty` checks a user's own penalty, and reports in words each rule that it breaks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..core.exceptions import InputTypeError
from ..core.report import Report
from ..core.validation import check_integer
from .base import Penalty

ROUNDING = 1e-9
"""Relative difference that is taken for rounding."""


def check_penalty(penalty: Any, dim: int, *, n_points: int = 20, random_state: int = 0) -> Report:
    """Check the rules on which certificates and masters depend, at random points and slopes.

    Parameters
    ----------
    penalty : Penalty
    dim : int
        Number of weights.
    n_points : int
        Number of points, of slopes, and of points to compare each minimiser with.
    random_state : int

    Returns
    -------
    Report
        True if no rule is broken; `print` it.

    Notes
    -----
    The rules: members return arrays and numbers of the right kind; a minimiser, with a centre and, where `moduli` are
    positive, without, is feasible and no point has a smaller value; `project` returns feasible points, and these
    themselves; `value` is convex, by at least `moduli`; `least(phi, error)`, after both are multiplied by
    `scaling(phi, error)`, is finite, and no point of no slope within the error lies below it. A rule that holds at all
    points tried may still fail elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> from pybundle.prox import SquaredL2
    >>> class Wrong(SquaredL2):
    ...     def canonical(self, dim):
    ...         return self
    ...     def least(self, phi, error=0.0):
    ...         return -float(phi @ phi) / 4.0
    >>> report = pb.check_penalty(Wrong(1.0), 3)
    >>> bool(report), report.findings[0].split(":")[0]
    (False, 'lower bound')
    """
    if not isinstance(penalty, Penalty):
        raise InputTypeError(f"penalty must be a subclass of pybundle.prox.Penalty, got {type(penalty).__name__}")
    rng, omega = np.random.default_rng(random_state), penalty.canonical(check_integer("dim", dim, low=1))
    n_points = check_integer("n_points", n_points, low=1)
    with np.printoptions(threshold=6, edgeitems=2, precision=4):
        found = list(_findings(omega, dim, n_points, rng))
    report = Report(["members", "feasible points", "minimisers", "convexity", "lower bound"])
    for rule in report.rules:
        broken = [words for name, words in found if name == rule]
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        report.findings += [f"{rule}: {words}{more}" for words in broken[:1]]
    return report


def _findings(omega, dim, n_points, rng):
    """Yield a pair (rule, what was found in words) wherever a rule is broken."""
    zero = np.zeros(dim)
    try:
        members = {"minimiser": omega.minimiser(zero, 1.0, zero), "project": omega.project(zero)}
        if not omega.has_bound():
            yield "lower bound", ("there is no method least(phi, error), or with positive moduli no method "
                                  "minimiser(phi, weight, centre)")
        elif np.min(omega.moduli) > 0.0:
            members["minimiser of weight 0"] = omega.minimiser(zero)
    except Exception as error:
        yield "members", f"{type(error).__name__} was raised at 0: {error}"
        return
    for name, x in members.items():
        if not isinstance(x, np.ndarray) or x.shape != (dim,) or x.dtype != np.float64:
            yield "members", f"{name} must return a float64 array of shape ({dim},), got {x!r:.60}"
            return
    try:
        numbers = {"value": omega.value(members["project"])}
        if omega.has_bound():
            numbers |= {"scaling": omega.scaling(zero, 0.1), "least": omega.least(zero, 0.0)}
    except Exception as error:
        yield "members", f"{type(error).__name__} was raised at 0: {error}"
        return
    for name, number in numbers.items():
        if not isinstance(number, (float, int, np.number)):
            yield "members", f"{name} must return a number, got {number!r:.60}"
            return
    points = [omega.project(scale * rng.standard_normal(dim)) for scale in np.geomspace(0.01, 10.0, n_points)]
    for x in points:
        if not np.isfinite(omega.value(x)) or omega.project(x) is not x:
            yield "feasible points", (f"project returned {x}, of value {omega.value(x):g}, expected a finite one, and "
                                      "a point that project returns as the same object")
            return
    has_modulus = omega.has_bound() and bool(np.min(omega.moduli) > 0.0)
    # `least` of a norm is 0 at all slopes less steep than the norm, so steeper slopes are tried, too
    steepest = max(abs(omega.value(x)) / max(float(np.linalg.norm(x)), 1e-300) for x in points)
    for k, size in enumerate(np.geomspace(0.01, max(10.0, 2.0 * steepest), n_points)):
        phi, centre, weight = size * rng.standard_normal(dim), points[k], float(10.0 ** rng.uniform(-2.0, 1.0))
        for own in (weight, 0.0) if has_modulus else (weight,):
            yield from _check_minimiser(omega, phi, own, centre, points, rng)
        if omega.has_bound():
            for sign in (1.0, -1.0):
                yield from _check_bound(omega, sign * phi, 0.1 * size * (k % 2), points, rng)
    for x, z in pairwise(points):
        middle = omega.value(0.5 * (x + z)) + 0.125 * float(np.sum(omega.moduli * (x - z)**2))
        mean = 0.5 * (omega.value(x) + omega.value(z))
        if middle > mean + ROUNDING * (1.0 + abs(mean)):
            yield "convexity", (f"between {x} and {z} the value and the square of moduli give {middle:.9g}, both ends "
                                f"have the mean {mean:.9g}")


def _check_minimiser(omega, phi, weight, centre, points, rng):
    def value(x):
        return omega.value(x) + float(phi @ x) + 0.5 * weight * float(np.sum((x - centre)**2))

    x = omega.minimiser(phi, weight, centre) if weight else omega.minimiser(phi)
    steps = np.geomspace(1e-4, 1.0, len(points))
    near = [x + scale * rng.standard_normal(len(x)) for scale in steps]
    near += [x * (1.0 + scale * rng.choice([-0.5, 0.5, 1.0])) for scale in steps]
    best = min([*points, *map(omega.project, near)], key=value)
    terms = abs(omega.value(x)) + float(np.abs(phi) @ np.abs(x)) + 0.5 * weight * float(np.sum((x - centre)**2))
    if not value(x) <= value(best) + ROUNDING * terms:
        yield "minimisers", (f"of the slope {phi} and the weight {weight:g} it is {x} with the value {value(x):.9g}, "
                             f"but {best} has {value(best):.9g}")


def _check_bound(omega, phi, error, points, rng):
    t = omega.scaling(phi, error)
    bound = omega.least(t * phi, t * error)
    if not (0.0 <= t <= 1.0 and np.isfinite(bound)):
        yield "lower bound", (f"of the slope {phi}, error {error:g}, scaling is {t:g} and least {bound:g}, expected a "
                              "finite number for a scaling in [0, 1]")
        return
    away = rng.standard_normal(len(phi))
    slope = t * (phi + error * away / np.linalg.norm(away))
    tried = [*points, omega.minimiser(slope, 1e-6, np.zeros(len(phi)))]
    x = min(tried, key=lambda x: omega.value(x) + float(slope @ x))
    if bound > omega.value(x) + float(slope @ x):
        yield "lower bound", (f"least is {bound:.17g} for the slope {t * phi}, error {t * error:g}, but {x} has "
                              f"{omega.value(x) + float(slope @ x):.17g} with the slope {slope}")
