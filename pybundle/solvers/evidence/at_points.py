"""Planes of a risk at given points, in float64, and evidence made of these planes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ...core.plane import Planes
from ...core.protocols import LABELLINGS, planes_of, with_errors
from ...models.batch_oracle import batched
from ...proof import Labellings, Multipliers, Points, multipliers
from ...risks.partition import part_of
from .record import FoundLabellings


class PlanesAtPoints:
    """Computes planes of a risk at points in float64, the labellings of examples there, and evidence of the planes.

    The evidence consists of labellings if the risk has them. For losses of a single score it consists of multipliers,
    because another machine may round scores, and so slopes, differently. For other risks it consists of the points.

    Attributes
    ----------
    trace : Trace
        Counts the passes.
    risk : Risk
    is_labelled, has_multipliers : bool
    """

    def __init__(self, trace, risk, labelled=True):
        self.trace = trace
        self.risk = risk.derive(precision="float64")
        self.is_labelled = labelled and LABELLINGS.holds(self.risk)
        self.has_multipliers = not LABELLINGS.holds(self.risk) and multipliers.curve_of(risk) is not None
        self._oracle = batched(self.risk.oracle()) if self.is_labelled else None

    def __call__(self, w):
        """Return planes at w with their errors, and the labellings of the examples or None."""
        self.trace.n_passes += 1
        if self.is_labelled:
            planes, labellings = labelled_planes(self.risk, self._oracle, w)
            return with_errors(planes, self.risk), labellings
        if self.has_multipliers:
            return with_errors(self.risk.planes_at(self.risk.scores(w)), self.risk), None
        return planes_of(self.risk, w), None

    def evidence(self, points, known, weights):
        """Return evidence of planes with the `weights` (n_points, P) or (n_points, 1).

        `known` are the labellings that calls of this object returned. If `Labellings` cannot store them as numbers, the
        result is None.
        """
        weights = np.array(np.broadcast_to(weights, (len(points), self.risk.n_parts)))
        if self.is_labelled:
            return _of_labelled(self.risk, known, weights)
        if self.has_multipliers:
            beta = np.zeros(self.risk.n_examples)       # recomputed, as a beta for each point may exceed memory
            for k in np.flatnonzero(weights.any(axis=1)):
                found = self.risk.sample_weight * self.risk.multipliers(self.risk.scores(points[k])[:, 0])
                for rows, share in zip(self.risk.parts, weights[k], strict=True):
                    beta[rows] += share * found[rows]
            return Multipliers(beta)
        used = np.flatnonzero(weights.any(axis=1))
        return Points(np.array([points[k] for k in used]).reshape(len(used), self.risk.dim), weights[used])


def labelled_planes(risk, oracle, w):
    """Return the planes of the parts at w, and a list with the labelling of each example, or None for the truth.

    If w is a `FoundLabellings`, the planes are those of its labellings.
    """
    rows = np.arange(risk.n_examples)
    if isinstance(w, FoundLabellings):
        labellings = w.labellings
        rows = np.array([i for i in rows.tolist() if labellings[i] is not None], dtype=np.intp)
    else:
        labellings = oracle.solve_batch(rows, oracle.prepare(w)).labellings
    losses, slopes = oracle.planes(rows, [labellings[i] for i in rows.tolist()])
    part, known = part_of(risk.parts, risk.n_examples), [None] * risk.n_examples
    for j in np.flatnonzero((losses != 0.0) | (np.diff(slopes.indptr) > 0)).tolist():
        known[rows[j]] = labellings[rows[j]]
    sums = sp.csr_array((np.ones(len(rows)), (part[rows], np.arange(len(rows)))), shape=(risk.n_parts, len(rows)))
    planes = Planes(np.full(risk.n_parts, np.nan), sums @ losses, (sums @ slopes).tocsr())
    if planes.density() > 0.1:
        planes = planes._replace(slopes=np.ascontiguousarray(planes.slopes.toarray()))
    return planes, known


def _of_labelled(risk, known, weights):
    """Return `Labellings`: each labelling gets the sum of the weights of the part planes that contain its plane."""
    examples, labellings, masses = [], [], []
    for labels, shares in zip(known, weights, strict=True):
        for p in np.flatnonzero(shares):
            rows = np.array([i for i in risk.parts[p].tolist() if labels[i] is not None], dtype=np.intp)
            examples.append(rows)
            labellings += [labels[int(i)] for i in rows]
            masses.append(shares[p] * risk.sample_weight[rows])
    if not examples:
        return Labellings.of(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int64), np.empty(0), risk.sample_weight)
    examples, masses = np.concatenate(examples), np.concatenate(masses)
    places, sums = {}, []           # one entry for each example and labelling
    for j, (i, labelling) in enumerate(zip(examples.tolist(), labellings, strict=True)):
        name = i, np.asarray(labelling).tobytes()
        k = places.setdefault(name, len(sums))
        if k == len(sums):
            sums.append([j, 0.0])
        sums[k][1] += masses[j]
    first = np.array([j for j, _ in sums], dtype=np.intp)
    return Labellings.of(examples[first], [labellings[j] for j in first], np.array([mass for _, mass in sums]),
                         risk.sample_weight)
