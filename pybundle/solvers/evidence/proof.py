"""Makes the evidence at the end of a run, computes the bound that the evidence proves, and certifies both.

Multipliers of all labels are evidence without further data. Other methods need a `Record`, which exists with
`evidence=True` and stores the points of planes, and the labellings of planes of single examples.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ...core.exceptions import ParameterError
from ...core.plane import Plane
from ...core.protocols import errors_of, name_of
from ...core.rounding import UNIT
from ...proof import Certificate, Labellings, Multipliers
from ...proof.certificate import fingerprint_of
from ...proof.given import penalty_of
from ...proof.rows import Rows as ProvenRows
from ...prox.base import names_of as kinds_of
from ...runtime.lower_bound import LowerBound
from .record import names_of

WIDER = 2.0
"""Factor of the errors in a certificate, because its verifier may use coarser bounds of rounding."""

class Proof(NamedTuple):
    """Evidence, and the bound that it proves.

    Attributes
    ----------
    evidence : Labellings, Points or Multipliers
    bound : LowerBound
        Its plane lies below R and ignores linear constraints; its value takes constraints into account.
    multipliers : ndarray or None
        Multipliers of the linear constraints.
    limits : Limits or None
        Limits of the free weights.
    messages : ndarray or None
        What proves the value at the best point, see `Certificate`.
    """

    evidence: Any
    bound: LowerBound
    multipliers: Any = None
    limits: Any = None
    messages: Any = None


def of_labels(risk, problem, multipliers, plane, limits=None):
    """Return the `Proof` of multipliers of all labels, shape (n, K).

    `plane` is their aggregate plane. Multipliers of true labels are left out, because the planes of truths are 0.
    """
    alpha, K = np.ravel(multipliers), risk.n_scores
    used = np.flatnonzero(alpha != 0.0)
    examples, labels = np.divmod(used, K) if K > 1 else (used, np.ones(len(used), dtype=np.int64))
    if K > 1:
        off = labels != risk.labels[examples]
        used, examples, labels = used[off], examples[off], labels[off]
    evidence = Labellings.of(examples, labels, alpha[used], risk.sample_weight)
    far = 0.0 if problem.means is None else float(np.linalg.norm(problem.means))
    size = 1.5 * float(evidence.masses @ (risk.examples.norms[evidence.examples] + far))
    return _best(problem, evidence, size, plane, limits)


def _best(problem, evidence, size, plane, limits=None):
    """Return the `Proof` of multipliers after a scaling by t <= 1 that improves the bound; truths get the difference.

    The errors count `size`, a bound on `sum_j alpha_j |psi_j|`, because `Labellings` may lower multipliers by a
    rounding error to make their sums feasible, and phi changes with them.
    """
    counts = np.bincount(evidence.examples, minlength=1) if len(evidence.examples) else np.zeros(1)
    cut, form = (float(counts.max()) + 12.0) * 2.0**-51, problem.square
    effective, t = problem.penalty.effective(plane.slope), 1.0
    square = float(effective @ effective)
    if form is not None and 0.0 <= plane.offset * form.lam < 0.999 * square:   # t maximises B t - t^2 |phi|^2 / 2 lam
        t = plane.offset * form.lam / square
        evidence = Labellings(evidence.examples, evidence.labellings, t * evidence.masses)
    errors = WIDER * t * (plane.slope_error + cut * size), WIDER * t * (plane.offset_error + cut * plane.offset)
    plane = Plane(t * plane.offset, plane.slope if t == 1.0 else t * plane.slope, *errors)
    return Proof(evidence, LowerBound.of(problem, plane, limits))


def of_blocks(blocks, record, problem, weights, slope_error, offset_error):
    """Return the `Proof` of the planes in the blocks of examples, with their multipliers.

    Planes that were merged, or come from another run, have no known labelling. Such planes are left out, and the
    truths get their multipliers.
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
    errors = slope_error + terms * UNIT * size, (terms * UNIT + offset_error) * offset
    return _best(problem, evidence, size, Plane(offset, np.asarray(slopes.T @ alpha), *errors))


def of_distributions(risk, problem, P):
    """Return the `Proof` of distributions over the classes, shape (n, K), for a log-loss with free intercepts."""
    c, risk = risk.sample_weight, risk.derive(n_parts=1)
    P = np.maximum(P / P.sum(axis=1, keepdims=True), 1e-300)
    planes = risk.planes_of(SimpleNamespace(nodes=np.log(P)))
    offset, (error, offset_error) = float(planes.offsets[0]), (WIDER * float(errors[0]) for errors in errors_of(risk))
    bound = LowerBound.of(problem, Plane(offset, planes.slopes[0], error, offset_error * offset))
    return Proof(Multipliers(c[:, None] * P), bound)


def certificate_of(risk, problem, bracket, w, proof, divisor):
    """Return the certificate at the point w that users get.

    The other arguments are in the sum scale; division by `divisor` gives the scale of the user and of the certificate.
    """
    bound, plane = proof.bound, proof.bound.plane
    return Certificate(
        w=w, shift=risk.shift, **stated(problem, len(w), divisor, proof.multipliers),
        fun=float(bracket.fun / divisor), error=float(WIDER * bracket.error / divisor),
        lower_bound=float(min(bound.value, bracket.fun) / divisor),
        divisor=divisor, offset=float(plane.offset), phi=plane.slope, offset_error=float(plane.offset_error),
        slope_error=float(np.linalg.norm(plane.slope_error)), risk=name_of(risk), fingerprint=fingerprint_of(risk),
        n_examples=int(risk.n_examples), evidence=proof.evidence, limits=proof.limits, messages=proof.messages)


def stated(problem, dim, divisor, multipliers=None):
    """Return the fields of a certificate, by name, that hold the penalty, linear constraints and their multipliers."""
    terms, rows = {"lam": None, "radius": None, "nonneg": problem.penalty.nonneg}, problem.rows
    if problem.square is not None:
        return terms | {"lam": float(problem.square.lam / divisor)}
    if problem.ball is not None:
        return terms | {"radius": problem.ball.radius}
    terms["penalty"] = penalty_of((problem.dependence or problem).penalty, dim)
    if rows is None:
        return terms
    y = np.zeros(rows.m) if multipliers is None else multipliers
    return terms | {"rows": ProvenRows(rows.A, rows.upper, y)}


def check_provable(problem):
    """Refuse evidence for a penalty that no certificate can hold: some norms of groups, and powers of norms."""
    if not problem.penalty.is_provable:
        raise ParameterError("evidence takes L1, ElasticNet, SquaredL2, Box, Ball, L2 and SparseGroupLasso as penalty, "
                             f"got {kinds_of(problem.penalty)}, which pb.verify cannot check; leave out evidence")
