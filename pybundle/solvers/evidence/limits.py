"""Proves limits of free weights once more, for a certificate, by passes at points with large free weights.

The limits of the run itself follow from planes that the run no longer stores.
"""

from __future__ import annotations

import numpy as np

from ...proof.limits import Limits
from ..problem.free_weights import COSTLY, FreeWeights, ProvenLimits
from .at_points import PlanesAtPoints

PASSES = 30     # maximum number of passes per free weight


def with_limits(search, risk, labelled=True):
    """Return `ProvenLimits` of free weights, proven once more, and the `Limits` of the certificate or None."""
    # bounds that linear constraints imply are left out, because a certificate does not prove them
    limits = ProvenLimits(search.problem, search.problem.penalty.lowered())
    if not search.problem.is_free.any():
        return limits, None
    # a separate object computes planes for limits: at points with large weights, slopes and errors may be larger
    return limits, prove_limits(search, limits, PlanesAtPoints(search.trace, risk, labelled))


def prove_limits(search, limits, planes_of):
    """Find limits of the free weights, and return their proof, or None if no limits are found.

    Without limits of free weights no more than the declared lower bound of R can be proven.

    Parameters
    ----------
    search : Search
        The limits are searched around its best point.
    limits : ProvenLimits
    planes_of : PlanesAtPoints
    """
    if not search.limits.is_proven:          # the run itself has found no limits, or needs none
        return None
    highest = max(search.fun, search.bracket.range[0])      # the verifier computes F only at the point of users
    if search.problem.score_limits is not None:
        limits.hold(highest, search.size.value)
        return _proof(limits, [])
    cuts, point, points, known = FreeWeights(limits), search.w, [], []
    for _ in range(PASSES * len(cuts.free)):
        planes, names = planes_of(point)
        cuts.add(search.summed(planes))
        if len(cuts.shares) > len(points):
            points.append(np.array(point))
            known.append(names)
        is_second = cuts.proof is not None
        point = cuts.prove(search.w, highest, search.size.value)
        if point is None and cuts.proof is not None and not is_second and (
                cuts.cost() > COSTLY * search.rule.tol * abs(search.fun)):
            limits.forget()
            cuts.start_near()       # because the first limits are about as large as the farthest point
            point = cuts.prove(search.w, highest, search.size.value)
        if point is None:
            break
    if cuts.proof is None:
        return None
    limits.forget()
    limits.confine(cuts.proof)
    shares, evidence = np.array(cuts.shares), []
    for j in range(len(cuts.free)):
        for k in range(2):
            weights = np.zeros(len(points))
            weights[cuts.proof_cuts] = cuts.proof.multipliers[k, j]
            total = weights.sum()       # 0 if the weight has a bound on this side
            weights *= shares * (1.0 - (len(points) + 16.0) * 2.0**-51) / (total or 1.0)
            evidence.append(planes_of.evidence(points, known, weights[:, None]) if total > 0.0 else None)
    return _proof(limits, evidence)


def _proof(limits, evidence):
    # the evidence of a limit is None if the limit follows from the data
    problem, within = limits.problem, limits.penalty
    sizes = np.maximum(np.abs(within.lower), np.abs(within.upper))[problem.is_free]
    means = None if problem.means is None else np.array(problem.means)
    return Limits(sizes, means, evidence or [None] * (2 * len(sizes)))
