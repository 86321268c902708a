"""What a run keeps for others to check, and the evidence of a certificate made from it.

Multipliers of labels are evidence as they are. Other methods do not store the origin of their planes; with
`evidence=True` a `Record` stores the points of planes, and the labellings of planes of single examples.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..bundle import Bundle
from ..core.plane import Planes
from ..core.protocols import LABELLINGS, errors_of, name_of
from ..core.rounding import UNIT
from ..models.batch_oracle import batched
from ..proof import Certificate, Labellings, Multipliers, Points, multipliers
from ..proof.certificate import LARGEST, fingerprint_of
from ..runtime.lower_bound import LowerBound, aggregation_errors
from .bundle.master import Master
from .bundle.penalty_master import PenaltyMaster
from .penalised import Penalised
from .penalty_evidence import prove_limits, renewed, stated

POOR = 10.0
"""Evidence whose gap is so many times that of the run is replaced if there is better one."""
LIGHTER = 20
"""Weights of a centre that are tried, each a tenth of the one before."""
WIDER = 2.0
"""Claims are made with errors so many times as large, as those who check them may count rounding less sharply."""


class Record:
    """Points of planes by index, and labellings by example and plane.

    In the place of a point there may be `FoundLabellings`, labellings of examples that one plane is the sum of.
    """

    def __init__(self):
        self.points, self.labellings, self._next = {}, {}, 0

    def point(self, w):
        """The number of a point, which is kept."""
        self.points[self._next] = np.array(w)
        self._next += 1
        return self._next - 1

    def labels(self, labellings):
        """The number of labellings, one or None for each example, whose planes were added up."""
        self.points[self._next] = FoundLabellings(labellings)
        self._next += 1
        return self._next - 1

    def note(self, rows, labellings, losses, slopes):
        """Store the labelling of each plane of an example."""
        for name, labelling in zip(names_of(rows, losses, slopes), labellings, strict=True):
            self.labellings.setdefault(name, labelling)

    def keep(self, numbers):
        """Drop all other points."""
        self.points = {k: self.points[k] for k in set(numbers) & self.points.keys()}


class Proof(NamedTuple):
    """Evidence, and the bound that it proves.

    Attributes
    ----------
    evidence : Labellings, Points or Multipliers
    bound : LowerBound
        Its plane is one of R alone, its value is that with linear constraints.
    multipliers : ndarray or None
        Of linear constraints.
    limits : Limits or None
        Of free weights.
    """

    evidence: Any
    bound: LowerBound
    multipliers: Any = None
    limits: Any = None


class FoundLabellings(NamedTuple):
    """The labellings of all examples, None for examples without one."""

    labellings: list


def names_of(rows, offsets, slopes):
    """Names of planes of examples: equal ones have equal numbers."""
    slopes = slopes.tocsr()
    for j, (i, offset) in enumerate(zip(np.asarray(rows).tolist(), np.asarray(offsets).tolist(), strict=True)):
        inside = slice(slopes.indptr[j], slopes.indptr[j + 1])
        data, used = slopes.data[inside], slopes.data[inside] != 0.0
        digest = blake2b(data[used].tobytes(), digest_size=16)
        digest.update(slopes.indices[inside][used].astype(np.int64).tobytes())
        yield i, offset, digest.digest()


def of_labels(risk, objective, multipliers, aggregate):
    """Evidence from multipliers of all labels, shape (n, K), and the bound that it proves.

    `aggregate` is their `(offset, phi, error, offset_error)`. What the truth has is left out.
    """
    alpha, K = np.ravel(multipliers), risk.n_scores
    used = np.flatnonzero(alpha != 0.0)
    examples, labels = np.divmod(used, K) if K > 1 else (used, np.ones(len(used), dtype=np.int64))
    if K > 1:
        off = labels != risk.labels[examples]
        used, examples, labels = used[off], examples[off], labels[off]
    evidence = Labellings.of(examples, labels, alpha[used], risk.sample_weight)
    size = 1.5 * float(evidence.masses @ risk.examples.norms[evidence.examples])
    return _best(objective, evidence, size, *aggregate)


def _best(objective, evidence, size, offset, phi, error, offset_error):
    """Evidence whose multipliers are scaled to the best bound, the truths having the rest, and that bound.

    `size` bounds the sum of multipliers times norms of slopes, of which the sums of multipliers were cut by a rounding.
    """
    counts = np.bincount(evidence.examples, minlength=1) if len(evidence.examples) else np.zeros(1)
    cut, lam = (float(counts.max()) + 12.0) * 2.0**-51, getattr(objective, "lam", None)
    effective = objective.effective(phi)
    square, t = float(effective @ effective), 1.0
    if lam is not None and 0.0 <= offset * lam < 0.999 * square:        # B t - t^2 |phi|^2 / (2 lam) is largest here
        t = offset * lam / square
        evidence = Labellings(evidence.examples, evidence.labellings, t * evidence.masses)
        phi = t * phi
    return Proof(evidence, LowerBound.from_aggregate(objective, t * offset, phi, WIDER * t * (error + cut * size),
                                                     WIDER * t * (offset_error + cut * offset)))


def of_blocks(blocks, record, objective, weights, slope_error, offset_error):
    """Evidence from planes of examples and their multipliers, and the bound that it proves.

    Planes without a known labelling (merged, or from another run) are left out: the truths take
    their multipliers.
    """
    rows, offsets, alpha, slopes = blocks.arrays()
    used = np.flatnonzero(alpha > 0.0)
    rows, offsets, alpha, slopes = rows[used], offsets[used], alpha[used], slopes[used]
    labellings = [record.labellings.get(name) for name in names_of(rows, offsets, slopes)]
    known = np.array([labelling is not None for labelling in labellings], dtype=bool)
    labellings = [labelling for labelling in labellings if labelling is not None]
    rows, offsets, alpha, slopes = rows[known], offsets[known], alpha[known], slopes[known]
    evidence = Labellings.of(rows, labellings, alpha * weights[rows], weights)
    if evidence is None:
        return None
    terms = 2.0 * len(rows) + 8.0
    size = float(alpha @ np.sqrt(slopes.multiply(slopes).sum(axis=1))) if len(rows) else 0.0
    offset = float(alpha @ offsets)
    return _best(objective, evidence, size, offset, np.asarray(slopes.T @ alpha), slope_error + terms * UNIT * size,
                 (terms * UNIT + offset_error) * offset)


class PlanesAtPoints:
    """Planes of a risk at points, in float64, and evidence made of them; with labellings of examples if known.

    For losses of one score without labellings the evidence is multipliers: another machine may round scores, and so
    slopes, differently.

    Attributes
    ----------
    risk : Risk
    is_labelled, has_multipliers : bool
    """

    def __init__(self, risk, labelled=True):
        self.risk = risk.derive(precision="float64")
        self.is_labelled = labelled and LABELLINGS.holds(self.risk)
        self.has_multipliers = not LABELLINGS.holds(self.risk) and multipliers.curve_of(risk) is not None
        self._oracle = batched(self.risk.oracle()) if self.is_labelled else None

    def __call__(self, w):
        """Return planes at w, and the labellings of the examples or None."""
        if self.has_multipliers:
            return self.risk.planes_at(self.risk.scores(w)), None
        return labelled_planes(self.risk, self._oracle, w) if self.is_labelled else (self.risk.planes(w), None)

    def evidence(self, points, known, weights):
        """Return evidence of planes with weights, shape (n_points, P) or (n_points, 1).

        None if labellings are no numbers.
        """
        weights = np.array(np.broadcast_to(weights, (len(points), self.risk.n_parts)))
        if self.is_labelled:
            return _of_labelled(self.risk, known, weights)
        if self.has_multipliers:
            beta = np.zeros(self.risk.n_examples)       # formed again: those of all points may not fit into memory
            for k in np.flatnonzero(weights.any(axis=1)):
                found = self.risk.sample_weight * self.risk.multipliers(self.risk.scores(points[k])[:, 0])
                for rows, share in zip(self.risk.parts, weights[k], strict=True):
                    beta[rows] += share * found[rows]
            return Multipliers(beta)
        used = np.flatnonzero(weights.any(axis=1))
        return Points(np.array([points[k] for k in used]).reshape(len(used), self.risk.dim), weights[used])


def with_limits(run, risk, labelled=True):
    """Return the objective of a run with limits of free weights that are proven anew, and their proof, or None."""
    if not isinstance(run.objective, Penalised):
        return run.objective, None
    objective = renewed(run.objective)
    # planes of their own: slopes far out may be larger, and so may their errors
    return objective, prove_limits(run, objective, PlanesAtPoints(risk, labelled)) if objective.is_free.any() else None


def of_distributions(risk, objective, P):
    """Return the `Proof` of distributions of classes with free intercepts, shape (n, K)."""
    c, risk = risk.sample_weight, risk.derive(n_parts=1)
    P = np.maximum(P / P.sum(axis=1, keepdims=True), 1e-300)
    planes = risk.planes_of(SimpleNamespace(nodes=np.log(P)))
    offset, (error, offset_error) = float(planes.offsets[0]), (WIDER * float(errors[0]) for errors in errors_of(risk))
    bound = LowerBound.from_aggregate(objective, offset, planes.slopes[0], error, offset_error * offset)
    return Proof(Multipliers(c[:, None] * P), bound)


def of_points(run, risk, points, labelled=True):
    """Return the `Proof` of the planes at some points and at the best one: one pass for each.

    If the labellings of the examples are known, they are the evidence; ties and rounding then have no effect.
    """
    planes_of, is_penalised = PlanesAtPoints(risk, labelled), isinstance(run.objective, Penalised)
    exact = planes_of.risk
    points = [w for w in points if (planes_of.is_labelled if isinstance(w, FoundLabellings)
                                    else np.abs(w).max(initial=0.0) <= LARGEST)]
    bundle, known, lower = Bundle(exact.dim, exact.n_parts), [], np.asarray(exact.lower_bounds)
    slack = lower >= 0.0
    for k, w in enumerate(points):
        planes, labellings = planes_of(w)
        known.append(labellings)
        bundle.append(planes._replace(origin=k), slack)
    bundle.append_flat(np.where(np.isfinite(lower) & (lower != 0.0), lower, -np.inf))
    if planes_of.is_labelled and planes_of.evidence(points, known, np.ones((len(points), exact.n_parts))) is None:
        return of_points(run, risk, points, labelled=False)
    objective, limits = with_limits(run, risk, planes_of.is_labelled)
    best, pull, best_weights = None, None, None
    for solved in _solutions(run, bundle, slack, objective):
        beta, rest = _feasible(np.append(solved, np.zeros(bundle.n_planes - len(solved))), bundle, lower, len(points))
        phi, offset = bundle.combine(beta)
        weights, used = np.zeros((len(points), exact.n_parts)), (bundle.origins >= 0) & (bundle.parts >= 0)
        np.add.at(weights, (bundle.origins[used], bundle.parts[used]), beta[used])
        if planes_of.has_multipliers:
            plane = multipliers.plane(exact, planes_of.evidence(points, known, weights).beta)
            offset, phi, offset_error = plane.offset, plane.phi, plane.offset_error
            error = objective.rounding_norms(plane.slope_error, lambda last=plane.last_error: last)
        else:
            norms = objective.rounding_norms(np.sqrt(bundle.H.diagonal()), bundle.last_entries)
            error, offset_error = aggregation_errors(beta, bundle.offsets, norms, bundle.parts, *errors_of(exact))
            if planes_of.is_labelled and exact.examples is not None:       # a check sums all rows at once
                terms = multipliers.n_terms(exact.n_examples) + len(points) + exact.n_scores
                error = max(error, terms * UNIT * float(np.sum(exact.slope_sizes)))
        flats = np.where(np.isfinite(lower), np.abs(lower), 0.0)
        offset_error += 4.0 * (len(points) + 8.0) * UNIT * float(flats.sum())
        error, offset_error = WIDER * error, WIDER * offset_error
        bound, y = LowerBound.from_aggregate(objective, offset + rest, phi, error, offset_error), None
        if objective.rows is not None:
            _, y = objective.rows.pull(bundle.parts[:len(solved)], np.maximum(solved, 0.0))
            phi, offset, *rounding = objective.rows.relax(phi, offset + rest, bundle.parts[:len(solved)], solved,
                                                          objective.means)
            errors = np.add((error, offset_error), np.multiply(WIDER, rounding))
            bound = replace(bound, value=LowerBound.from_aggregate(objective, offset, phi, *errors).value)
        if best is None or bound.value > best.value:
            best, pull, best_weights = bound, y, weights
        if best.value >= 2.0 * run.bound.value - run.fun:
            break
    if best.value == -np.inf:
        return None
    found = Proof(planes_of.evidence(points, known, best_weights), best, pull, limits)
    # labellings as good as others at these points may lack planes, as where l1 norms make classes equal
    if is_penalised and planes_of.is_labelled and run.fun - best.value > POOR * (run.fun - run.bound.value):
        other = of_points(run, risk, points, labelled=False)
        found = other if other is not None and other.bound.value > best.value else found
    return found


def _solutions(run, bundle, slack, objective):
    """Multipliers of the master problem of a bundle; with a penalty also with a centre, lighter and lighter.

    The model alone may have no minimum, or one that is hard to find.
    """
    tol = max(1e-3 * (run.fun - run.bound.value), 1e-300)
    if not isinstance(objective, Penalised):
        master = Master(bundle, slack, objective)
        for _ in range(30):         # constraints w_k >= 0 are added when violated
            beta = master.solve(tol).beta
            phi, _ = bundle.combine(np.where(bundle.parts >= 0, beta, 0.0))
            new = bundle.new_constraints(objective.pushed_outside(phi))
            if len(new) == 0:
                break
            bundle.append_signs(new)
        yield beta
        return
    master = PenaltyMaster(bundle, slack, objective)
    master.move_centre(run.w)
    alpha = master.first_alpha(run.fun)
    for k in range(LIGHTER):
        beta = master.solve(tol, 0.1**k * alpha).beta
        yield beta
        bundle.settle(np.append(beta, np.zeros(bundle.n_planes - len(beta))))
    yield master.solve(tol).beta


def labelled_planes(risk, oracle, w):
    """Planes of the parts at w, or of `FoundLabellings`, from labellings of examples, and these; None for truths."""
    rows = np.arange(risk.n_examples)
    if isinstance(w, FoundLabellings):
        labellings = w.labellings
        rows = np.array([i for i in rows.tolist() if labellings[i] is not None], dtype=np.intp)
    else:
        labellings = oracle.solve_batch(rows, oracle.prepare(w)).labellings
    losses, slopes = oracle.planes(rows, [labellings[i] for i in rows.tolist()])
    part, known = np.empty(risk.n_examples, dtype=np.intp), [None] * risk.n_examples
    for p, some in enumerate(risk.parts):
        part[some] = p
    for j in np.flatnonzero((losses != 0.0) | (np.diff(slopes.indptr) > 0)).tolist():
        known[rows[j]] = labellings[rows[j]]
    sums = sp.csr_array((np.ones(len(rows)), (part[rows], np.arange(len(rows)))), shape=(risk.n_parts, len(rows)))
    planes = Planes(np.full(risk.n_parts, np.nan), sums @ losses, (sums @ slopes).tocsr())
    if planes.density() > 0.1:
        planes = planes._replace(slopes=np.ascontiguousarray(planes.slopes.toarray()))
    return planes, known


def _of_labelled(risk, known, weights):
    """Return the weights of planes of parts as multipliers of the labellings that they sum."""
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
    places, sums = {}, []           # one entry for each labelling of an example
    for j, (i, labelling) in enumerate(zip(examples.tolist(), labellings, strict=True)):
        name = i, np.asarray(labelling).tobytes()
        k = places.setdefault(name, len(sums))
        if k == len(sums):
            sums.append([j, 0.0])
        sums[k][1] += masses[j]
    first = np.array([j for j, _ in sums], dtype=np.intp)
    return Labellings.of(examples[first], [labellings[j] for j in first], np.array([mass for _, mass in sums]),
                         risk.sample_weight)


def _feasible(beta, bundle, lower_bounds, n_points):
    """Multipliers of planes at points, made feasible whatever the order of their sum, and what lower bounds add.

    Parts with a lower bound sum to a little less than 1, and the bound has the rest; others sum to 1.
    """
    is_plane = (bundle.parts >= 0) & (bundle.origins >= 0)
    parts, beta = bundle.parts[is_plane], np.where(is_plane, beta, 0.0)
    sums = np.bincount(parts, beta[is_plane], minlength=bundle.n_parts)
    is_bounded, most = np.isfinite(lower_bounds), 1.0 - (n_points + 16.0) * 2.0**-51
    cuts = np.where(is_bounded & (sums <= most), 1.0, np.where(is_bounded, most, 1.0) / np.maximum(sums, 0.5))
    beta[is_plane] *= cuts[parts]
    sums = np.bincount(parts, beta[is_plane], minlength=bundle.n_parts)
    return beta, float(np.where(is_bounded, lower_bounds, 0.0) @ (1.0 - sums))


def certificate_of(risk, objective, bracket, w, proof, divisor):
    """Return the certificate of a result in the scale of the user, from numbers in the sum scale, at his point w."""
    lam, radius, bound = getattr(objective, "lam", None), getattr(objective, "radius", None), proof.bound
    penalty = rows = None
    if isinstance(objective, Penalised):
        penalty, rows = stated(objective, len(w), proof.multipliers)
    return Certificate(
        w=w, shift=risk.shift,
        fun=float(bracket.fun / divisor), error=float(WIDER * bracket.error / divisor),
        lower_bound=float(min(bound.value, bracket.fun) / divisor),
        lam=None if lam is None else float(lam / divisor), radius=radius, nonneg=objective.nonneg, divisor=divisor,
        offset=float(bound.offset), phi=bound.phi, offset_error=float(bound.offset_error),
        slope_error=float(np.linalg.norm(bound.error)), risk=name_of(risk), fingerprint=fingerprint_of(risk),
        n_examples=int(risk.n_examples), evidence=proof.evidence,
        penalty=penalty, rows=rows, limits=proof.limits)
