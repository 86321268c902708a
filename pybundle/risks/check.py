"""Check a user's own risk or model, and report in words each rule that it breaks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..core.exceptions import BundleError, InputTypeError
from ..core.protocols import planes_of
from ..core.report import Report
from ..core.types import Data
from ..core.validation import check_integer, check_vector
from ..models.callable_model import CallableModel, as_model
from .function import Function
from .structured import Structured

ROUNDING = 1e-8
"""Largest relative difference that is taken for rounding; for float32 risks the limit is 1e-4."""


def check_oracle(risk: Any, X: Data = None, Y: Data = None, *, dim: int | None = None, w0: ArrayLike | None = None,
                 n_points: int = 6, n_examples: int = 20, random_state: int = 0) -> Report:
    """Check the rules on which certificates depend, at random points and on random examples.

    Parameters
    ----------
    risk : Risk, StructuredModel, pair of callables, or callable
        A model and a pair `(joint_feature, loss_augmented_decode)` need `X, Y`; a plain
        `fun(w) -> (value, subgradient)` needs `dim` or `w0`.
    X, Y : sequences, optional
        Examples and true labellings.
    dim : int, optional
    w0 : array_like, shape (dim,), optional
        A further point to try, such as the start of `minimize`; it sets the dimension.
    n_points, n_examples : int
        Number of points w (of three lengths; the middle ones are also halved and doubled) and of examples to try.
    random_state : int

    Returns
    -------
    Report
        True if no rule is broken; `print` it.

    Notes
    -----
    Rules of any risk: shapes and finite numbers, the subgradient inequality `R_p(v) >= R_p(w) + <g, v - w>`, declared
    lower bounds, equal results of repeated and of concurrent calls. Rules of a structured model on single examples:
    the loss is 0 at the truth and never negative; the value is the loss plus the score of the labelling returned, and
    linear in w; neither the truth nor a labelling found at another point exceeds the maximum; w is not changed.
    Decoders that return upper bounds may find other labellings in a repeated call. A rule that holds at all points
    tried may still fail elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> report = pb.check_oracle(lambda w: (np.abs(w).sum(), 0.5 * np.sign(w)), dim=3)
    >>> bool(report), report.findings[0].split(":")[0]
    (False, 'subgradient inequality')
    """
    rng = np.random.default_rng(random_state)
    if X is not None or Y is not None:
        risk = Structured(as_model(risk, X, Y), X, Y)
    elif not hasattr(risk, "evaluate"):
        if not callable(risk) or (dim is None and w0 is None):
            raise InputTypeError("risk must be a risk, a model with X and Y, or a callable fun(w) with dim or w0, "
                                 f"got {type(risk).__name__}" + ("; pass dim= or w0=" if callable(risk) else ""))
        risk = Function(risk, len(check_vector("w0", w0)) if dim is None else dim)
    n_points, n_examples = check_integer("n_points", n_points, low=2), check_integer("n_examples", n_examples, low=1)
    points = [scale * rng.normal(size=risk.dim) / np.sqrt(risk.dim)
              for scale in np.resize([0.01, 1.0, 30.0], n_points)]
    # a labelling that decoding misses at w, because it weights the loss wrongly, is often found at 2 w or w / 2
    points += [factor * w for w in points[1::3] for factor in (0.5, 2.0)]
    if w0 is not None:
        points.append(np.array(check_vector("w0", w0, risk.dim)))
    nonneg = getattr(risk, "nonneg", None)
    if nonneg is not None:
        points = [np.where(nonneg, np.abs(w), w) for w in points]
    report = Report()
    try:
        if isinstance(risk, Structured):
            rows = np.sort(rng.permutation(risk.n_examples)[:n_examples])
            _check_examples(report, risk, rows, points)
        if report:
            _check_risk(report, risk, points)
    except BundleError as problem:
        report.findings.append(str(problem))
    return report


def _check_risk(report, risk, points):
    rounding = 1e-4 if getattr(risk, "precision", "float64") == "float32" else ROUNDING
    report.rules += ["shapes and finite numbers", "declared lower bounds", "subgradient inequality"]
    planes = []
    for w in points:
        found = planes_of(risk, w.copy())
        slopes = found.slopes.toarray() if sp.issparse(found.slopes) else np.asarray(found.slopes)
        for name, array, shape in (("values", found.values, (risk.n_parts,)),
                                   ("subgradients", slopes, (risk.n_parts, risk.dim))):
            if np.shape(array) != shape or not np.isfinite(array).all():
                report.findings.append(f"shapes and finite numbers: {name} must be finite and have shape {shape}, got "
                                       f"shape {np.shape(array)}")
                return
        planes.append((found.values, found.offsets, slopes))
        low = np.flatnonzero(found.values < risk.lower_bounds - rounding * (1.0 + np.abs(risk.lower_bounds)))
        if len(low):
            report.findings.append(f"declared lower bounds: part {low[0]} has value {found.values[low[0]]:g}, below "
                                   f"its declared lower bound {risk.lower_bounds[low[0]]:g}")
    worst = None
    for values, offsets, slopes in planes:
        for v, (there, _, _) in zip(points, planes, strict=True):
            products = slopes @ v
            scale = rounding * (np.abs(offsets) + np.abs(products) + np.abs(there) + np.abs(values))
            excess = offsets + products - there
            p = int(np.argmax(excess - scale))
            if excess[p] > scale[p] and (worst is None or excess[p] > worst[0]):
                worst = excess[p], p, there[p]
    if worst is not None:
        report.findings.append(
            f"subgradient inequality: the plane at one point exceeds the value at another by {worst[0]:.3g} in part "
            f"{worst[1]} (value {worst[2]:.3g}); the value is not convex in w, or the second result is not its "
            "subgradient")
    if getattr(risk, "decodes_exactly", True):
        report.rules += ["determinism", "thread-safety"]
        _check_repeats(report, lambda w: planes_of(risk, w.copy())[0], points, "the risk")


def _check_examples(report, risk, rows, points):
    """Check the oracle of a structured risk; labellings found at one point must not beat its maximum at another."""
    oracle, model = risk._oracle, risk.model
    report.rules += ["value equals loss plus score", "maximum over labellings found elsewhere",
                     "maximum not below the truth", "w left alone"]
    truths = getattr(oracle, "_Y", None)
    if truths is not None and not isinstance(model, CallableModel):
        report.rules.append("loss zero at the truth")
        for i in rows:
            y = truths[i]
            if model.loss(y, y) != 0.0:
                report.findings.append(f"loss zero at the truth: example {i} has loss {model.loss(y, y):g} for its "
                                       "own truth")
                return
    norms = np.zeros(risk.n_examples) if oracle.norms is None else oracle.norms
    earlier = []
    for w in points:
        before, found = w.copy(), None
        try:
            found = oracle.solve_batch(rows, oracle.prepare(w))
        except ValueError as problem:           # models receive a read-only view of w
            if "read-only" not in str(problem):
                raise
        if found is None or not np.array_equal(w, before):
            report.findings.append("w left alone: decoding changes w, which belongs to the solver; change a copy")
            return
        earlier.append((w, list(found.labellings), np.asarray(found.values), np.asarray(found.uppers)))
    for j, i in enumerate(rows):
        planes = [oracle.plane(int(i), labellings[j]) for _, labellings, _, _ in earlier]
        for (w, _, values, uppers), (offset, slope) in zip(earlier, planes, strict=True):
            value = offset + _dot(slope, w)
            scale = 1.0 + abs(offset) + max(_dot(abs(slope), np.abs(w)), norms[i] * float(np.linalg.norm(w)))
            if abs(value - values[j]) > ROUNDING * scale:
                report.findings.append(f"value equals loss plus score: example {i} reports {values[j]:.9g}, but its "
                                       f"labelling has loss {offset:.9g} and score {value - offset:.9g}")
                return
            if uppers[j] < -ROUNDING * scale:
                report.findings.append(f"maximum not below the truth: example {i} has the maximum {uppers[j]:.9g}, "
                                       "but the truth has value 0")
                return
            best = max(b + _dot(a, w) for b, a in planes)
            if best > uppers[j] + ROUNDING * (scale + abs(best)):
                report.findings.append(f"maximum over labellings found elsewhere: example {i} has the maximum "
                                       f"{uppers[j]:.9g}, but a labelling found at another w has {best:.9g} here: "
                                       "decoding is not exact")
                return
    if oracle.decodes_exactly:
        report.rules.append("prediction has the largest score")
        _check_predictions(report, oracle, rows, points)


def _check_predictions(report, oracle, rows, points):
    """Check that a prediction scores at least 0, the score of the truth, and twice as much at 2 w as at w."""
    norms = 0.0 if oracle.norms is None else oracle.norms[rows]
    try:
        for w in points:
            scale = 1.0 + norms * float(np.linalg.norm(w))
            once = oracle.solve_batch(rows, oracle.prepare(w), loss=False).values
            twice = oracle.solve_batch(rows, oracle.prepare(2.0 * w), loss=False).values
            bad = np.flatnonzero((np.abs(twice - 2.0 * once) > ROUNDING * (scale + np.abs(twice)))
                                 | (once < -ROUNDING * scale))
            if len(bad):
                j = bad[0]
                report.findings.append(f"prediction has the largest score: at w the prediction of example {rows[j]} "
                                       f"exceeds the truth by {once[j]:.9g}, at 2 w by {twice[j]:.9g}; expected "
                                       "numbers >= 0, the second twice the first")
                return
    except NotImplementedError:
        report.rules.pop()


def _check_repeats(report, function, points, name):
    once = [function(w) for w in points]
    again = [function(w) for w in points]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(function, points * 2))
    if any(not np.array_equal(a, b) for a, b in zip(once, again, strict=True)):
        report.findings.append(f"determinism: {name} returns another value in a second call at the same w")
    elif any(not np.array_equal(a, b) for a, b in zip(once * 2, together, strict=True)):
        report.findings.append(f"thread-safety: {name} returns another value if several threads call it at once")


def _dot(slope, w):
    return float((slope @ w).item() if sp.issparse(slope) else slope @ w)
