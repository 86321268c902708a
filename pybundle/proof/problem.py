"""Risks in the verifier: the value at a point, and the plane that evidence proves.

Numbers are floats with bounds on their rounding errors, or fractions with error 0.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..core.protocols import completed, planes_of
from ..risks import Function, Logistic
from ..risks.one_score import OneScore
from ..runtime.executors import single_threaded_blas
from . import exact as ex
from . import multipliers
from .evidence import Labellings, Multipliers, Points
from .plane import UNIT, ProvenPlane

ROUNDED = 4.0 * UNIT
"""Assumed relative rounding error of terms in a user's function; a value may look exact: `abs(1e17 - 0.3)` is 1e17."""

GROUPS = 32
"""Maximum number of groups of weights; a function is called three times for each, to see the sizes of its terms."""


class PlainProblem:
    """Any risk; its values and subgradients are those that it computes itself."""

    def __init__(self, risk, exact):
        self.risk, self.exact = risk, exact
        self.n_examples, self.dim = risk.n_examples, risk.dim
        self.believed = []
        if exact and not isinstance(risk, (Function, *self.exact_kinds)):
            raise ex.ExactError(f"exact=True takes hinge risks and callables, got {type(risk).__name__}; pass "
                                 "exact=False, which counts rounding errors instead")

    exact_kinds: tuple[Any, ...] = ()
    shift: Any = None       # with exact=True: the shift between the data of the user and the planes of the certificate

    def believe(self, text):
        """Record, once, an assumption that is not checked."""
        if text not in self.believed:
            self.believed.append(text)

    # ------------------------------------------------------------------ values
    def value(self, w):
        """Return R(w) and a bound on its error."""
        if callable(getattr(self.risk, "values", None)):
            values, errors = self.risk.values(w)
            self.believe(f"values of {type(self.risk).__name__}, and the rounding errors that it counts itself")
        else:
            with single_threaded_blas():
                values, errors = self.risk.evaluate(w)[0], 0.0
            self.believe("values and subgradients of the risk, as if without rounding")
        total = ex.total(values)
        if isinstance(self.risk, Function):     # the user's function rounds sums inside, too
            errors = ROUNDED * np.abs(values) + self._hidden(self.risk, w[None])[0]
        return total, float(np.sum(errors)) * 1.01

    def dual_value(self, w, messages):
        """Return an upper bound on R(w) that messages prove, and a bound on its error; for models of graphs only."""
        raise ValueError(f"{type(self.risk).__name__} has no messages")

    # ------------------------------------------------------------------ evidence
    def feasible(self, evidence):
        """Return whether the multipliers have the right signs and sums, and a text for the report."""
        if isinstance(evidence, Multipliers) and isinstance(self.risk, (Logistic, OneScore)):
            return multipliers.feasible(self.risk, evidence.beta)
        if not isinstance(evidence, Points):
            return False, f"{evidence.kind} are no evidence for {type(self.risk).__name__}"
        lower, weights = np.asarray(self._parts(evidence).lower_bounds, dtype=float), evidence.weights
        if len(lower) != weights.shape[1]:
            return False, f"weights are of {weights.shape[1]} parts, the risk has {len(lower)}"
        bad = [p for p, bound in enumerate(lower) if not (
            ex.at_most(weights[:, p], 1.0) if np.isfinite(bound) else weights[:, p].any())]
        return not bad, f"{np.count_nonzero(weights)} planes at {len(weights)} points, of {len(lower)} parts" + (
            f"; those of part {bad[0]} sum to {float(weights[:, bad[0]].sum()):.17g}" if bad else "")

    def _parts(self, evidence):
        """Return the risk with the parts of the evidence, in float64."""
        parts, risk = evidence.weights.shape[1], self.risk
        return risk if isinstance(risk, Function) else completed(risk).derive(n_parts=parts, precision="float64")

    def floor(self, evidence):
        """Return a lower bound of R as a fraction, or None."""
        risk = self._parts(evidence) if isinstance(evidence, Points) else self.risk
        lower = np.asarray(risk.lower_bounds, dtype=float)
        if not np.isfinite(lower).all():
            return None
        self.believe("the lower bounds of R that the risk declares")
        return sum(map(Fraction, lower.tolist()), Fraction(0))

    def plane(self, evidence):
        """Return the plane that feasible evidence proves."""
        if isinstance(evidence, Multipliers):
            return multipliers.plane(self.risk, evidence.beta)
        risk, weights = self._parts(evidence), evidence.weights
        lower = np.asarray(risk.lower_bounds, dtype=float)
        sums = np.array([float(ex.total(column)) for column in weights.T])
        shares = weights / np.where(np.isfinite(lower), 1.0, sums)
        rest = np.where(np.isfinite(lower), 1.0 - sums, 0.0)
        if self.exact:
            if not isinstance(risk, Function):
                raise ex.ExactError(f"exact=True takes labellings of {type(risk).__name__}, got points, at which it "
                                     "rounds; pass exact=False, which counts that")
            return self._exact_plane(risk, evidence.points, weights, lower)
        phi, sizes, scales = np.zeros(self.dim), np.zeros(self.dim), np.zeros(risk.n_parts)
        finite = np.where(np.isfinite(lower), lower, 0.0)
        offsets, offset_error = [float(rest @ finite)], 8.0 * UNIT * float(np.abs(finite).sum())
        offset_errors, slope_error = np.zeros(risk.n_parts), 0.0
        offset_error += 1.01 * float(np.sum(self._hidden(risk, evidence.points) * shares))
        for x, share in zip(evidence.points, shares, strict=True):
            with single_threaded_blas():
                planes = planes_of(risk, x)
            self.believe("planes of the risk at the points of the evidence: that it is convex, and slopes subgradients")
            slope_error += float(planes.slope_errors @ share)
            offset_errors = np.maximum(offset_errors, planes.offset_errors)
            for p in np.flatnonzero(share):
                slope = planes.slopes[[p]].toarray()[0] if sp.issparse(planes.slopes) else planes.slopes[p]
                offsets.append(share[p] * planes.offsets[p])
                scales[p] += abs(offsets[-1])
                phi += share[p] * slope
                sizes += share[p] * np.abs(slope)
        offset_error += 1.01 * float((1.01 * offset_errors + 4.0 * UNIT) @ scales)
        offset_error += UNIT * (4.0 * abs(offsets[0]) + sum(map(abs, offsets)))
        rounding, sums = 1.01 * (np.count_nonzero(shares) + 8.0) * UNIT, getattr(risk, "label_sums", None)
        means = getattr(risk if sums is None else sums, "means", None)
        last = None if means is None else rounding * float(np.linalg.norm(sizes[len(means) - 1::len(means)]))
        slope_error = 1.02 * slope_error + rounding * float(np.linalg.norm(sizes))
        return ProvenPlane(math.fsum(offsets), phi, offset_error, slope_error, last, means)

    def _hidden(self, risk, points):
        """Return the rounding errors (k, P) of the values at k points that are due to terms which cancel.

        To see the sizes of the terms, all weights except one (if there are many, except a random group) are set to 0.
        The result is 0 if the risk counts its rounding errors itself.
        """
        sizes, found = np.abs(points).max(axis=0, initial=0.0), np.zeros((len(points), risk.n_parts))
        if callable(getattr(risk, "values", None)) or not sizes.any():
            return found
        self.believe("that terms of the callable which cancel, and so its rounding, show where a weight stands alone")
        random = np.random.default_rng(crc32(points.tobytes()))
        groups = np.arange(self.dim) if self.dim <= GROUPS else random.integers(GROUPS, size=self.dim)
        ends, ratios = random.choice([-1.0, 1.0], self.dim) * sizes, np.abs(points) / np.where(sizes > 0.0, sizes, 1.0)
        with single_threaded_blas(), np.errstate(all="ignore"):
            for group in (groups == g for g in np.unique(groups)):
                try:
                    up, down, start = (risk.evaluate(ends * (sign * group))[0] for sign in (1.0, -1.0, 0.0))
                    changes = np.outer(ratios[:, group].max(axis=1), np.abs(up - start) + np.abs(down - start))
                except Exception:       # a function of the user may raise any error where it has no value
                    changes = np.full_like(found, np.nan)
                if np.isfinite(changes).all():
                    found += changes
                else:
                    self.believe("that no terms of the callable cancel where it has no value with a weight alone")
        return (self.dim + 16.0) * UNIT * found

    def _exact_plane(self, risk, points, weights, lower):
        offset, phi, error = Fraction(0), np.full(self.dim, Fraction(0), dtype=object), Fraction(0)
        whole = [sum(map(Fraction, column)) for column in weights.T.tolist()]
        for p, bound in enumerate(lower):
            if np.isfinite(bound):
                offset += (1 - whole[p]) * Fraction(bound)
                whole[p] = Fraction(1)
        for x, share, hidden in zip(points, weights, self._hidden(risk, points).tolist(), strict=True):
            with single_threaded_blas():
                values, slopes = risk.evaluate(x)
            if not risk.decodes_exactly:
                raise ex.ExactError("exact=True takes callables that return values alone, got one with upper bounds; "
                                    "pass exact=False")
            for p in np.flatnonzero(share):
                slope = slopes[[p]].toarray()[0] if sp.issparse(slopes) else slopes[p]
                beta, value = Fraction(share[p]) / whole[p], float(values[p])
                offset += beta * (Fraction(value) - ex.product(slope[None], x[:, None])[0, 0])
                offset -= beta * Fraction(ROUNDED * (abs(value) + float(np.abs(slope) @ np.abs(x))))
                error += beta * Fraction(hidden[p])
                phi = phi + beta * ex.fractions(*ex.integers(slope))
        return ProvenPlane(offset - error, phi, error)        # upper end: `offset`, from the values of fun


class LabellingProblem(PlainProblem):
    """Base class for risks whose evidence may consist of labellings of examples; examples have weights c_i."""

    def feasible(self, evidence):
        if not isinstance(evidence, Labellings):
            return super().feasible(evidence)
        examples, masses, c = evidence.examples, evidence.masses, self.risk.sample_weight
        if len(examples) and examples.max() >= self.n_examples:
            return False, f"it names example {examples.max()} of {self.n_examples}"
        starts = np.flatnonzero(np.diff(examples, prepend=-1))
        sums = np.add.reduceat(masses, starts) if len(starts) else masses
        ends = np.append(starts[1:], len(masses))
        counts = ends - starts
        close = np.flatnonzero(np.where(counts == 1, sums, sums * (1.0 + (counts + 2.0) * UNIT)) > c[examples[starts]])
        bad = [k for k in close.tolist() if not ex.at_most(masses[starts[k]:ends[k]], c[examples[starts[k]]])]
        text = f"{len(masses)} labellings of {len(starts)} examples"
        return not bad, text + (f"; those of example {examples[starts[bad[0]]]} sum to {sums[bad[0]]:.17g}, above its "
                                f"weight {c[examples[starts[bad[0]]]]:.17g}" if bad else "")

    def plane(self, evidence):
        if not isinstance(evidence, Labellings):
            return super().plane(evidence)
        if not self.exact:
            return self._labellings(evidence)
        found = self._exact_labellings(evidence)
        if self.shift is None:
            return found
        last, columns = found.phi[-1], np.array([*map(Fraction, self.shift.columns.tolist()), Fraction(0)])
        return ProvenPlane(found.offset + last * Fraction(self.shift.target), found.phi - last * columns)
