"""Makes evidence from the planes at given points: the multipliers that solve their master problem are the evidence."""

from __future__ import annotations

import numpy as np

from ...bundle import Bundle
from ...core.plane import Plane
from ...core.rounding import UNIT
from ...proof import multipliers
from ...proof.evidence import LARGEST
from ...runtime.lower_bound import LowerBound, aggregation_errors
from ..evidence.at_points import PlanesAtPoints
from ..evidence.limits import with_limits
from ..evidence.proof import WIDER, Proof
from ..evidence.record import FoundLabellings
from .penalty_master import master_of

POOR = 10.0
"""If the gap that labellings prove exceeds POOR times the gap of the run, points are tried as evidence."""


def of_points(search, risk, points, labelled=True):
    """Return the `Proof` by the planes at some points; each point takes one pass.

    With `labelled`, the evidence consists of labellings if the risk has them. A verifier then need not decode again,
    where ties and rounding may lead to other labellings.
    """
    planes_of = PlanesAtPoints(search.trace, risk, labelled)
    exact = planes_of.risk
    points = [w for w in points if (planes_of.is_labelled if isinstance(w, FoundLabellings)
                                    else np.abs(w).max(initial=0.0) <= LARGEST)]
    bundle, known, lower = Bundle(exact.dim, exact.n_parts), [], np.asarray(exact.lower_bounds)
    errors = np.zeros((2, exact.n_parts))
    slack = lower >= 0.0
    for k, w in enumerate(points):
        planes, labellings = planes_of(w)
        known.append(labellings)
        errors = np.maximum(errors, (planes.slope_errors, planes.offset_errors))
        bundle.append(planes._replace(origin=k), slack)
    bundle.append_flat(np.where(np.isfinite(lower) & (lower != 0.0), lower, -np.inf))
    if planes_of.is_labelled and planes_of.evidence(points, known, np.ones((len(points), exact.n_parts))) is None:
        return of_points(search, risk, points, labelled=False)
    problem, (within, limits) = search.problem, with_limits(search, risk, planes_of.is_labelled)
    best, pull, best_weights = None, None, None
    for solved in master_of(bundle, slack, problem).candidates(search, max(1e-3 * search.gap, 1e-300)):
        beta, rest = _feasible(np.append(solved, np.zeros(bundle.n_planes - len(solved))), bundle, lower, len(points))
        weights, used = np.zeros((len(points), exact.n_parts)), (bundle.origins >= 0) & (bundle.parts >= 0)
        np.add.at(weights, (bundle.origins[used], bundle.parts[used]), beta[used])
        if planes_of.has_multipliers:
            proven = multipliers.plane(exact, planes_of.evidence(points, known, weights).beta)
            error = problem.coordinates.norms(proven.slope_error, lambda last=proven.last_error: last)
            plane = Plane(proven.offset, proven.phi, error, proven.offset_error)
        else:
            norms = problem.coordinates.norms(np.sqrt(bundle.H.diagonal()), bundle.last_entries)
            error, offset_error = aggregation_errors(beta, bundle.offsets, norms, bundle.parts, *errors)
            if planes_of.is_labelled and exact.linear_risk is not None:       # the verifier adds all rows in one sum
                terms = multipliers.n_terms(exact.n_examples) + len(points) + exact.linear_risk.n_scores
                error = max(error, terms * UNIT * float(np.sum(exact.slope_sizes)))
            phi, offset = bundle.combine(beta)
            plane = Plane(offset, phi, error, offset_error)
        flats = np.where(np.isfinite(lower), np.abs(lower), 0.0)
        offset_error = plane.offset_error + 4.0 * (len(points) + 8.0) * UNIT * float(flats.sum())
        plane = Plane(plane.offset + rest, plane.slope, WIDER * plane.slope_error, WIDER * offset_error)
        bound, y = LowerBound.of(problem, plane, within), None
        if problem.rows is not None:
            used = bundle.parts[:len(solved)]
            _, y = problem.rows.pull(used, np.maximum(solved, 0.0))
            relaxed = problem.rows.relax(plane, used, solved, problem.means, WIDER)
            bound = LowerBound(plane, LowerBound.of(problem, relaxed, within).value)
        if best is None or bound.value > best.value:
            best, pull, best_weights = bound, y, weights
        if best.value >= 2.0 * search.bound.value - search.fun:
            break
    if best.value == -np.inf:
        return None
    found = Proof(planes_of.evidence(points, known, best_weights), best, pull, limits)
    # several labellings may be best at a point, as when an l1 norm makes classes equal; then the optimum may need
    # planes of labellings that were not found
    is_poor = search.fun - best.value > POOR * search.gap
    if is_poor and planes_of.is_labelled and problem.square is None:
        other = of_points(search, risk, points, labelled=False)
        found = other if other is not None and other.bound.value > best.value else found
    return found


def _feasible(beta, bundle, lower_bounds, n_points):
    """Return multipliers that are feasible in any order of summation, and what declared lower bounds add to the offset.

    In a part with a declared lower bound, multipliers sum to a little less than 1, and the bound gets the difference.
    In other parts multipliers sum to 1.
    """
    is_plane = (bundle.parts >= 0) & (bundle.origins >= 0)
    parts, beta = bundle.parts[is_plane], np.where(is_plane, beta, 0.0)
    sums = np.bincount(parts, beta[is_plane], minlength=bundle.n_parts)
    is_bounded, most = np.isfinite(lower_bounds), 1.0 - (n_points + 16.0) * 2.0**-51
    cuts = np.where(is_bounded & (sums <= most), 1.0, np.where(is_bounded, most, 1.0) / np.maximum(sums, 0.5))
    beta[is_plane] *= cuts[parts]
    sums = np.bincount(parts, beta[is_plane], minlength=bundle.n_parts)
    return beta, float(np.where(is_bounded, lower_bounds, 0.0) @ (1.0 - sums))
