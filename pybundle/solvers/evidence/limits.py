"""Limits of free weights that are proven anew for a certificate, from some passes at points far out.

Those that the run itself has found come from planes that it no longer has.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...proof.limits import Limits
from ..problem.free_weights import COSTLY, FreeWeights
from ..problem.penalised import Penalised
from .at_points import PlanesAtPoints

PASSES = 30     # per free weight, until its limits are proven

def with_limits(run, risk, labelled=True):
    """Return the objective of a run with limits of free weights that are proven anew, and their proof, or None."""
    if not isinstance(run.objective, Penalised):
        return run.objective, None
    objective = renewed(run.objective)
    # planes of their own: slopes far out may be larger, and so may their errors
    return objective, prove_limits(run, objective, PlanesAtPoints(risk, labelled)) if objective.is_free.any() else None


def prove_limits(run, objective, planes_of):
    """Confine the free weights of a renewed objective, and return the proof, or None if none is found.

    Without limits such weights leave no more than the declared lower bound of R.

    Parameters
    ----------
    run : Run
        Whose best point is the centre.
    objective : Penalised
    planes_of : PlanesAtPoints
    """
    if run.objective.level == np.inf:       # the run itself has not found any, or needs none
        return None
    highest = max(run.fun, run.certified_range[0])      # the verifier knows the point of users only
    if objective.limits is not None:
        objective.hold(highest, run.trace.size)
        return _limits(objective, [])
    cuts, point, points, known = FreeWeights(objective), run.w, [], []
    for _ in range(PASSES * len(cuts.free)):
        planes, names = planes_of(point)
        cuts.add(run.summed(planes))
        if len(cuts.shares) > len(points):
            points.append(np.array(point))
            known.append(names)
        is_second = cuts.proof is not None
        point = cuts.prove(run.w, highest, run.trace.size)
        if point is None and cuts.proof is not None and not is_second and (
                cuts.cost() > COSTLY * run.rule.tol * abs(run.fun)):
            forget_proofs(objective)
            cuts.start_near()       # the first limits are of the size of the farthest points
            point = cuts.prove(run.w, highest, run.trace.size)
        if point is None:
            break
    if cuts.proof is None:
        return None
    forget_proofs(objective)
    objective.confine(cuts.proof)
    shares, evidence = np.array(cuts.shares), []
    for j in range(len(cuts.free)):
        for k in range(2):
            weights = np.zeros(len(points))
            weights[cuts.proof_cuts] = cuts.proof.multipliers[k, j]
            total = weights.sum()       # 0 if the weight has a bound on this side
            weights *= shares * (1.0 - (len(points) + 16.0) * 2.0**-51) / (total or 1.0)
            evidence.append(planes_of.evidence(points, known, weights[:, None]) if total > 0.0 else None)
    return _limits(objective, evidence)


def renewed(objective):
    """Return the objective without what a run has proven of it."""
    return replace(objective, level=np.inf)


def forget_proofs(objective):
    """Drop limits, so that later proofs do not depend on them."""
    objective.level, objective.proven, objective.proofs = np.inf, objective.penalty.lowered(), []


def _limits(objective, evidence):
    # of a renewed objective that is confined; without evidence they follow from the data
    sizes = np.maximum(np.abs(objective.proven.lower), np.abs(objective.proven.upper))[objective.is_free]
    means = None if objective.means is None else np.array(objective.means)
    return Limits(sizes, means, evidence or [None] * (2 * len(sizes)))
