"""What the verifier needs of a risk: its value at a point, and the plane that evidence stands for.

`LinearProblem` knows the formulas of the flat losses and reads the data itself. `StructuredProblem` asks the model for
features and losses of labellings, `PlainProblem` any risk for values and subgradients. Numbers are floats with a bound
on their rounding error, or fractions with error 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, ParameterError
from ..models.model_oracle import as_feature
from ..risks import BinaryHinge, Function, Logistic, MulticlassHinge, Structured
from ..runtime.executors import single_threaded_blas
from . import exact as ex
from .certificate import Labellings

UNIT = 2.0**-53
ROWS = 512
"""Rows of dense data that are converted at a time: they stay in the cache."""


@dataclass
class Plane:
    """`R(v) >= offset - offset_error + <phi, v> - slope_error |v|` for all v; phi of floats or of fractions."""

    offset: float | Fraction
    phi: np.ndarray
    offset_error: float = 0.0
    slope_error: float = 0.0

    def distance(self, phi):
        """|phi - claimed phi|."""
        return float(np.linalg.norm((self.phi - phi).astype(np.float64)))

    def bounds(self, lam, radius, nonneg, divisor):
        """The lower bound that follows, from below and from above, as fractions."""
        phi = self.phi if nonneg is None else np.where(nonneg, np.minimum(self.phi, 0), self.phi)
        if phi.dtype == object:             # roots of fractions to 200 bits
            root = math.isqrt(int(sum(x * x for x in phi.tolist()) * 4**200))
            norms = Fraction(root, 2**200), Fraction(root + 1, 2**200)
        else:
            norm = math.sqrt(math.fsum((phi * phi).tolist()))
            spread = self.slope_error + 8.0 * UNIT * norm
            norms = Fraction(max(norm - spread, 0.0)), Fraction(norm + spread)
        offset, error = Fraction(self.offset), Fraction(self.offset_error)
        found = []
        for norm, b in zip(norms, (offset + error, offset - error), strict=True):
            price = Fraction(radius) * norm if radius is not None else norm**2 / (2 * Fraction(lam) * divisor)
            found.append((b - price) / divisor)
        return found[1], found[0]


def problem_of(risk, dim, exact):
    """The view of a risk, which must have so many weights."""
    if not hasattr(risk, "evaluate"):
        if not callable(risk):
            raise InputTypeError(f"risk must be a risk or a callable, got {type(risk).__name__}")
        risk = Function(risk, dim, n_parts=_count_parts(risk, dim))
    if risk.dim != dim:
        raise ParameterError(f"risk must have {dim} weights, those of the certificate, got {risk.dim}; make it from "
                             "the same data with the same arguments")
    if isinstance(risk, (MulticlassHinge, BinaryHinge, Logistic)):
        return LinearProblem(risk, exact)
    return (StructuredProblem if isinstance(risk, Structured) else PlainProblem)(risk, exact)


def _count_parts(fun, dim):
    return max(1, int(np.size(fun(np.zeros(dim))[0])))


class PlainProblem:
    """Any risk: values and subgradients are those that it gives."""

    def __init__(self, risk, exact):
        self.risk, self.exact = risk, exact
        self.n_examples, self.dim = risk.n_examples, risk.dim
        self.believed = []
        if exact and not isinstance(risk, (Function, *self.exact_kinds)):
            raise ParameterError(f"exact=True takes hinge risks and callables, got {type(risk).__name__}; pass "
                                 "exact=False, which counts rounding errors instead")

    exact_kinds: tuple = ()

    def believe(self, text):
        """Notes what is not checked, once."""
        if text not in self.believed:
            self.believed.append(text)

    # ------------------------------------------------------------------ values
    def value(self, w):
        """R(w) and a bound on its error."""
        if callable(getattr(self.risk, "values", None)):
            values, errors = self.risk.values(w)
            self.believe(f"values of {type(self.risk).__name__}, and the rounding errors that it counts itself")
        else:
            with single_threaded_blas():
                values, errors = self.risk.evaluate(w)[0], 0.0
            self.believe("values and subgradients of the risk, as if without rounding")
        total = ex.total(values)
        return (total, Fraction(0)) if self.exact else (total, float(np.sum(errors)) * 1.01)

    # ------------------------------------------------------------------ evidence
    def feasible(self, evidence):
        """Whether the multipliers have the right signs and sums, and a text."""
        if isinstance(evidence, Labellings):
            return False, f"labellings are no evidence for {type(self.risk).__name__}"
        lower, weights = np.asarray(self._parts(evidence).lower_bounds, dtype=float), evidence.weights
        if len(lower) != weights.shape[1]:
            return False, f"weights are of {weights.shape[1]} parts, the risk has {len(lower)}"
        bad = [p for p, bound in enumerate(lower) if not (
            ex.at_most(weights[:, p], 1.0) if np.isfinite(bound) else weights[:, p].any())]
        return not bad, f"{np.count_nonzero(weights)} planes at {len(weights)} points, of {len(lower)} parts" + (
            f"; those of part {bad[0]} sum to {float(weights[:, bad[0]].sum()):.17g}" if bad else "")

    def _parts(self, evidence):
        """The risk in the parts of the evidence, in float64."""
        parts, risk = evidence.weights.shape[1], self.risk
        return risk.derive(n_parts=parts, precision="float64") if hasattr(risk, "derive") else risk

    def plane(self, evidence):
        """The plane that the evidence stands for."""
        risk, weights = self._parts(evidence), evidence.weights
        lower = np.asarray(risk.lower_bounds, dtype=float)
        sums = np.array([float(ex.total(column)) for column in weights.T])
        shares = np.where(np.isfinite(lower), weights, weights / sums)
        rest = np.where(np.isfinite(lower), 1.0 - sums, 0.0)
        if self.exact:
            return self._exact_plane(risk, evidence.points, weights, lower)
        slope_errors = np.broadcast_to(getattr(risk, "slope_errors", 0.0), (risk.n_parts,))
        phi, sizes = np.zeros(self.dim), np.zeros(self.dim)
        offsets, offset_error, slope_error = [float(rest @ np.where(np.isfinite(lower), lower, 0.0))], 0.0, 0.0
        for x, share in zip(evidence.points, shares, strict=True):
            used = np.flatnonzero(share)
            values, slopes, errors = self._planes(risk, x)
            size_of_x = float(np.linalg.norm(x))
            for p in used:
                slope = slopes[[p]].toarray()[0] if sp.issparse(slopes) else slopes[p]
                inner = math.fsum((slope * x).tolist())
                spread = errors[p] + slope_errors[p] * size_of_x + UNIT * (
                    float(np.abs(slope) @ np.abs(x)) * 1.01 + abs(inner) + abs(values[p]))
                offsets.append(share[p] * (values[p] - inner))
                offset_error += share[p] * spread * 1.01 + 4.0 * UNIT * abs(offsets[-1])
                phi += share[p] * slope
                sizes += share[p] * np.abs(slope)
                slope_error += share[p] * slope_errors[p] * 1.01
        offset_error += UNIT * (4.0 * abs(offsets[0]) + sum(map(abs, offsets)))
        terms = np.count_nonzero(shares) + 8.0
        return Plane(math.fsum(offsets), phi, offset_error,
                     slope_error + 1.01 * terms * UNIT * float(np.linalg.norm(sizes)))

    def _planes(self, risk, x):
        """Values, subgradients and errors of the values of all parts at a point."""
        with single_threaded_blas():
            values, slopes = risk.evaluate(x)
        if hasattr(risk, "value_errors"):
            errors = risk.value_errors(x, values)
        elif callable(getattr(risk, "values", None)):
            values, errors = risk.values(x)
        else:
            errors = np.zeros(len(values))
        self.believe("planes of the risk at the points of the evidence: that it is convex, and slopes subgradients")
        return np.asarray(values, dtype=float), slopes, errors

    def _exact_plane(self, risk, points, weights, lower):
        offset, phi = Fraction(0), np.full(self.dim, Fraction(0), dtype=object)
        whole = [sum(map(Fraction, column)) for column in weights.T.tolist()]
        for p, bound in enumerate(lower):
            if np.isfinite(bound):
                offset += (1 - whole[p]) * Fraction(bound)
                whole[p] = Fraction(1)
        for x, share in zip(points, weights, strict=True):
            values, slopes, _ = self._planes(risk, x)
            for p in np.flatnonzero(share):
                slope = slopes[[p]].toarray()[0] if sp.issparse(slopes) else slopes[p]
                beta = Fraction(share[p]) / whole[p]
                offset += beta * (Fraction(values[p]) - ex.product(slope[None], x[:, None])[0, 0])
                phi = phi + beta * ex.fractions(*ex.integers(slope))
        return Plane(offset, phi)


class LabellingProblem(PlainProblem):
    """Evidence of labellings, for risks whose examples have weights c_i."""

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
        return self._exact_labellings(evidence) if self.exact else self._labellings(evidence)


class LinearProblem(LabellingProblem):
    """Multiclass and binary hinge, logistic loss: `r_i(w)` from the scores of x_i, which are formed here."""

    exact_kinds = (MulticlassHinge, BinaryHinge)

    def __init__(self, risk, exact):
        super().__init__(risk, exact)
        self.K, self.data = risk.n_scores, risk.examples
        self.y, self.c = risk.labels, risk.sample_weight
        cost = getattr(risk, "loss", None)
        self.cost = (1.0 - np.eye(self.K) if self.K > 1 else np.ones((1, 1))) if cost is None else cost

    def rows(self, numbers=None):
        """`(numbers, X)` in pieces: rows as they are stored, dense ones in float64."""
        X = self.data.X
        numbers = np.arange(self.n_examples) if numbers is None else numbers
        for first in range(0, len(numbers), ROWS):
            some = numbers[first:first + ROWS]
            yield some, X[some].astype(np.float64)

    def value(self, w):
        if self.exact:
            return self._exact_value(w)
        W, width = w.reshape(self.K, -1), self.data.width
        largest = 1.01 * math.sqrt(float(np.einsum("kj,kj->k", W, W).max()))
        values, errors = [], 0.0
        for some, X in self.rows():
            scores = np.asarray(X @ (W[:, :self.data.n_features].T * self.data.scale))
            if self.data.bias is not None:
                scores = scores + self.data.bias * W[:, -1]
            reach = 2.02 * UNIT * (width + 12.0) * largest
            found, counts = self._losses(self.y[some], scores, reach * self._size(X))
            values.append(math.fsum(self.c[some] * found))
            errors += float(self.c[some[counts]] @ (reach * self._norms(X[counts]) + 4.0 * UNIT * (
                self.cost.max() + found[counts])))
        total = math.fsum(values)
        return total, 1.01 * errors + 4.0 * UNIT * total

    def _size(self, X):
        """A bound on the norms of all rows, from a number that costs little."""
        largest = max(np.abs(X.data).max(initial=0.0) if sp.issparse(X) else max(X.max(), -X.min()), 0.0)
        most = np.diff(X.indptr).max(initial=0) if sp.issparse(X) else X.shape[1]
        return 1.01 * math.hypot(math.sqrt(most) * largest * self.data.scale, self.data.bias or 0.0)

    def _product_of_norms(self, C, X):
        """A bound on `sum_i |C_i| |x_i|`, by Cauchy and Schwarz."""
        entries = X.data if sp.issparse(X) else X.ravel()
        square = float(entries @ entries) * self.data.scale**2 + len(C) * (self.data.bias or 0.0) ** 2
        return 1.01 * math.sqrt(square) * float(np.linalg.norm(C))

    def _norms(self, X):
        squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X)
        return np.hypot(np.sqrt(np.asarray(squares).ravel()) * self.data.scale, self.data.bias or 0.0) * 1.01

    def _losses(self, y, scores, reach):
        """Losses, and which of them count: others are 0 also where scores are wrong by up to `reach`."""
        if isinstance(self.risk, Logistic):
            return np.logaddexp(0.0, -y * scores[:, 0]), np.ones(len(y), dtype=bool)
        if self.K == 1:
            top = 1.0 - y * scores[:, 0]
        else:
            here = np.arange(len(y))
            u = self.cost[y]
            u += scores
            u -= scores[here, y][:, None]
            u[here, y] = -np.inf
            top = u.max(axis=1)
        return np.maximum(top, 0.0), top > -(reach + 4.0 * UNIT * self.cost.max())

    def _exact_value(self, w):
        W, total = w.reshape(self.K, -1), Fraction(0)
        ex.check_size(self.n_examples * w.size, "scores")
        for some, X in self.rows():
            scores = ex.product(self._with_bias(X), W.T)
            for i, s in zip(some.tolist(), scores.tolist(), strict=True):
                y = int(self.y[i])
                loss = 1 - y * s[0] if self.K == 1 else max(
                    Fraction(float(self.cost[y, k])) + s[k] - s[y] for k in range(self.K))
                total += Fraction(float(self.c[i])) * max(loss, 0)
        return total, Fraction(0)

    def _with_bias(self, X):
        if self.data.scale != 1.0:
            raise ParameterError(f"exact=True takes data of scale 1, got {self.data.scale:g}; pass exact=False")
        X = X.toarray() if sp.issparse(X) else X
        return X if self.data.bias is None else np.hstack([X, np.full((len(X), 1), self.data.bias)])

    def _moves(self, evidence):
        """The examples that have multipliers off their truth, places of labellings in them, labels and masses."""
        labels, masses, examples = np.asarray(evidence.labellings), evidence.masses, evidence.examples
        is_valid = labels.ndim == 1 and labels.dtype.kind in "iu" and (
            (labels >= 0) & (labels < max(self.K, 2))).all() and not isinstance(self.risk, Logistic)
        if not is_valid:
            raise ParameterError(f"the certificate must name classes 0..{max(self.K, 2) - 1} of examples of "
                                 f"{type(self.risk).__name__}; its labellings are of another kind")
        off = labels != (0 if self.K == 1 else self.y[examples])
        rows, places = np.unique(examples[off], return_inverse=True)
        return rows, places, labels[off], masses[off]

    def plane(self, evidence):
        if self.risk.smooth and not isinstance(evidence, Labellings):
            return self._logistic_plane(evidence)
        return super().plane(evidence)

    def _logistic_plane(self, evidence):
        """The plane of `c (H(p) - p y <w, x_i>)`, valid for any p in [0, 1], with p of each point."""
        part = np.empty(self.n_examples, dtype=np.intp)
        for p, rows in enumerate(self._parts(evidence).parts):
            part[rows] = p
        phi, offsets, sizes = np.zeros(self.data.width), [], 0.0
        for some, X in self.rows():
            coefs = np.zeros(len(some))
            for w, share in zip(evidence.points, evidence.weights, strict=True):
                shares = share[part[some]] * self.c[some]
                margin = self.y[some] * np.asarray(X @ (w[:self.data.n_features] * self.data.scale))
                if self.data.bias is not None:
                    margin = margin + self.y[some] * self.data.bias * w[-1]
                tail = np.exp(-np.abs(margin))
                q = tail / (1.0 + tail)                     # the smaller probability; entropy of two terms >= 0
                offsets += (shares * (np.log1p(-q) * -(1.0 - q) - np.where(q > 0.0, q, 1.0) * np.log(
                    np.where(q > 0.0, q, 1.0)))).tolist()
                coefs -= shares * self.y[some] * np.where(margin > 0.0, q, 1.0 - q)
                sizes += float(shares @ self._norms(X))
            phi[:self.data.n_features] += np.asarray(X.T @ coefs)
            if self.data.bias is not None:
                phi[-1] += self.data.bias * coefs.sum()
        phi[:self.data.n_features] *= self.data.scale
        terms = min(self.n_examples, ROWS) + self.n_examples / ROWS + 2.0 * len(evidence.points) + 12.0
        return Plane(math.fsum(offsets), phi, 16.0 * UNIT * math.fsum(offsets), 1.01 * terms * UNIT * sizes)

    def _labellings(self, evidence):
        rows, places, labels, masses = self._moves(evidence)
        y, K = self.y[rows], self.K
        C = np.zeros((len(rows), K))
        if K == 1:
            np.add.at(C, (places, 0), -y[places] * masses)
            losses = masses
        else:
            np.add.at(C, (places, labels), masses)
            np.add.at(C, (places, y[places]), -masses)
            losses = masses * self.cost[y[places], labels]
        phi, sizes = np.zeros((K, self.data.width)), 0.0
        for first in range(0, len(rows), ROWS):
            for some, X in self.rows(rows[first:first + ROWS]):
                part = C[first:first + len(some)]
                phi[:, :self.data.n_features] += np.asarray((X.T @ part).T if sp.issparse(X) else part.T @ X)
                if self.data.bias is not None:
                    phi[:, -1] += self.data.bias * part.sum(axis=0)
                sizes += self._product_of_norms(part, X)
        phi[:, :self.data.n_features] *= self.data.scale
        terms = min(len(rows), ROWS) + len(rows) / ROWS + K + 12.0
        return Plane(math.fsum(losses.tolist()), phi.ravel(), 4.0 * UNIT * float(losses.sum()),
                     1.01 * terms * UNIT * sizes)

    def _exact_labellings(self, evidence):
        rows, places, labels, masses = self._moves(evidence)
        ex.check_size(len(rows) * self.K * self.data.width, "multipliers and features")
        y, C = self.y[rows], np.full((len(rows), self.K), Fraction(0), dtype=object)
        offset = Fraction(0)
        for at, k, mass in zip(places.tolist(), labels.tolist(), masses.tolist(), strict=True):
            if self.K == 1:
                C[at, 0] -= int(y[at]) * Fraction(mass)
                offset += Fraction(mass)
            else:
                C[at, k] += Fraction(mass)
                C[at, y[at]] -= Fraction(mass)
                offset += Fraction(mass) * Fraction(float(self.cost[y[at], k]))
        phi = np.full((self.K, self.data.width), Fraction(0), dtype=object)
        for first in range(0, len(rows), ROWS):
            for some, X in self.rows(rows[first:first + ROWS]):
                part = C[first:first + len(some)]
                phi = phi + part.T @ ex.fractions(*ex.integers(self._with_bias(X)))
        return Plane(offset, phi.ravel())


class StructuredProblem(LabellingProblem):
    """A structured model: features and losses of labellings are those of the model."""

    exact_kinds = (Structured,)

    def value(self, w):
        self.believe(f"the decoder of {type(self.risk.model).__name__}: that no labelling is better than its own")
        values, errors = self.risk.values(w)
        return ex.total(values), float(np.sum(errors)) * 1.01

    def _labellings(self, evidence):
        oracle, c = self.risk.oracle(), self.c[evidence.examples]
        self.believe(f"features of {type(self.risk.model).__name__}, as its oracle sums them")
        phi, sizes, offsets, chunks = np.zeros(self.dim), np.zeros(self.dim), [], 0
        shares = np.divide(evidence.masses, c, out=np.zeros(len(c)), where=c > 0.0)
        for first in range(0, len(shares), ROWS):
            some = slice(first, first + ROWS)
            labellings = [evidence.labellings[j] for j in range(*some.indices(len(shares)))]
            losses, slopes = oracle.planes(evidence.examples[some], labellings)
            offsets += (shares[some] * losses).tolist()
            phi += slopes.T @ shares[some]
            sizes += np.abs(slopes).T @ shares[some]
            chunks += 1
        terms = min(len(shares), ROWS) + chunks + 12.0
        error = 1.01 * terms * UNIT * float(np.linalg.norm(sizes)) + float(np.sum(self.risk.slope_errors))
        additions = float(np.max(oracle.sizes)) + 12.0      # of pieces of a loss
        return Plane(math.fsum(offsets), phi, additions * UNIT * math.fsum(map(abs, offsets)), error)

    @property
    def c(self):
        return self.risk.sample_weight

    def _exact_labellings(self, evidence):
        model, (X, Y) = self.risk.model, self.risk.examples
        self.believe(f"joint_feature and loss of {type(model).__name__}, as they round")
        phi, offset = np.full(self.dim, Fraction(0), dtype=object), Fraction(0)
        for j, (i, mass) in enumerate(zip(evidence.examples.tolist(), evidence.masses.tolist(), strict=True)):
            labelling = evidence.labellings[j]
            loss = Fraction(float(model.loss(Y[i], labelling)))
            scale = Fraction(mass) * (loss if model.rescaling == "slack" else 1)
            for y, sign in ((labelling, 1), (Y[i], -1)):
                feature = as_feature(model.joint_feature(X[i], y), self.dim, i)
                dense = feature.toarray()[0] if sp.issparse(feature) else feature
                for k in np.flatnonzero(dense).tolist():
                    phi[k] += sign * scale * Fraction(float(dense[k]))
            offset += Fraction(mass) * loss
        return Plane(offset, phi)
