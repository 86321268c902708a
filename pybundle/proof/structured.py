"""Structured models in the verifier; it uses the features, losses and decoders of the model."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from scipy.special import entr

from ..models import BinaryLabeling, Chain, Dependency, GraphLabeling, Landmarks, Multiclass, Segmentation
from ..models.graphs import labels_of
from ..models.model_oracle import as_feature
from ..risks import Structured
from ..risks.partition import example
from . import exact as ex
from .evidence import Labellings, Multipliers
from .graphs import dual_values
from .multipliers import ROWS
from .plane import UNIT, ProvenPlane
from .problem import LabellingProblem

CHECKED = Chain, GraphLabeling, Landmarks, Multiclass, Segmentation
"""Models whose oracles refuse invalid labellings."""


def is_tree(model, codes, truth):
    """Return whether codes of heads and relations form a tree, with a single word at the root if the model requires it.

    The model refuses relations that an arc cannot have where it computes features.
    """
    codes, n = np.asarray(codes), len(labels_of(truth))
    if codes.shape != (n,) or codes.dtype.kind not in "iu" or codes[0] != -1 or n < 2:
        return False
    heads = codes // model.n_relations
    if not ((heads[1:] >= 0) & (heads[1:] < n)).all():
        return False
    reached, level = {0}, {0}
    while level:
        level = {m for m in range(1, n) if heads[m] in level}
        reached |= level
    return len(reached) == n and not (model.single_root and np.count_nonzero(heads == 0) != 1)


def is_binary(model, labels, truth):
    """Return whether `labels` are 0 or 1 for all nodes."""
    labels, truth = np.asarray(labels), np.asarray(labels_of(truth))
    return labels.shape == truth.shape and labels.dtype.kind in "biu" and ((labels == 0) | (labels == 1)).all()


CHECKS = {Dependency: is_tree, BinaryLabeling: is_binary}


class StructuredProblem(LabellingProblem):
    """A risk of a structured model; features and losses of labellings are those that the model computes."""

    exact_kinds = (Structured,)

    def __init__(self, risk, exact):
        if exact and risk.loss != "hinge":
            raise ex.ExactError("exact=True takes hinge risks and callables, got a log-loss; pass exact=False, which "
                                "counts rounding errors instead")
        if exact and not hasattr(risk.model, "loss"):
            raise ex.ExactError("exact=True takes models that tell the loss of a labelling, got "
                                f"{type(risk).__name__}; pass exact=False, which counts rounding errors instead")
        if exact and type(risk.model) is GraphLabeling and (
                risk.kind == "relaxed" or any((np.asarray(labels_of(y)) == -1).any() for y in labels_of(risk.Y))):
            raise ex.ExactError("exact=True takes graphs whose labels are all known, and risk='true'; pass "
                                "exact=False, which counts rounding errors instead")
        super().__init__(risk, exact)

    def feasible(self, evidence):
        if isinstance(evidence, Multipliers):
            beta, c, K = evidence.beta, self.c, getattr(self.risk.model, "n_classes", 0)
            fits = self.risk.loss != "hinge" and type(self.risk.model) is Multiclass and beta.shape == (len(c), K)
            fits = fits and (beta >= 0.0).all() and (beta.sum(axis=1)[c > 0.0] > 0.0).all()
            return bool(fits), f"multipliers {beta.shape}, which must be distributions of classes with a log-loss"
        is_feasible, text = super().feasible(evidence)
        if not is_feasible or not isinstance(evidence, Labellings):
            return is_feasible, text
        if self.risk.loss != "hinge":
            return False, "labellings are no evidence for a log-loss"
        model = self.risk.model
        check = CHECKS.get(type(model))
        if check is None and type(model) not in CHECKED:
            self.believe(f"that the labellings of the certificate are labellings of {type(model).__name__}")
        for j in range(len(evidence.masses) if check else 0):
            if not check(model, evidence.labellings[j], example(self.risk.Y, int(evidence.examples[j]))):
                return False, f"labelling {j} is none of {type(model).__name__}"
        return True, text

    def plane(self, evidence):
        return self._of_classes(evidence) if isinstance(evidence, Multipliers) else super().plane(evidence)

    def _of_classes(self, evidence):
        """Return the plane of the distributions `beta / sum(beta)`: offset from entropies, slope from mean features."""
        data, c, y, beta = self.risk.user_rows, self.c, self.risk.Y, evidence.beta
        phi, offsets, size = np.zeros((beta.shape[1], data.n_features)), [], 0.0
        for first in range(0, len(c), ROWS):
            some = np.arange(first, min(first + ROWS, len(c)))[c[first:first + ROWS] > 0.0]
            p, X = beta[some] / beta[some].sum(axis=1, keepdims=True), data.X[some].astype(np.float64)
            rest = p.copy()         # without the largest probability; 1 minus the sum of the rest is more exact
            rest[np.arange(len(some)), p.argmax(axis=1)] = 0.0
            total = rest.sum(axis=1)
            offsets.append(float(c[some] @ (entr(rest).sum(axis=1) - (1.0 - total) * np.log1p(-total))))
            p[np.arange(len(some)), np.asarray(y)[some]] -= 1.0
            phi += np.asarray((X.T @ (c[some, None] * p)).T)
            size += 2.02 * float(c[some] @ data.norms[some])
        unit = (min(len(c), ROWS) + len(c) / ROWS + 2.0 * beta.shape[1] + 32.0) * UNIT
        offset = math.fsum(offsets)
        return ProvenPlane(offset, phi.ravel(), unit * (8.0 + 8.0 * math.log(len(phi))) * offset, unit * size,
                           2.02 * unit * float(c.sum()))

    def value(self, w):
        name, risk = type(self.risk.model).__name__, self.risk
        if risk.decodes_exactly:
            self.believe(f"the decoder of {name}: that no labelling is better than its own")
        else:
            self.believe(" ".join(filter(None, (f"the upper bounds of the decoder of {name}", risk.assumption))))
        values, errors = self.risk.values(w)
        return ex.total(values), float(np.sum(errors)) * 1.01

    def dual_value(self, w, messages):
        oracle, c = self.risk.oracle(), self.c
        point = oracle.dual_point if type(self.risk.model) is GraphLabeling else None
        if np.shape(point) != messages.shape:
            raise ValueError(f"messages must have shape {np.shape(point)}, got {messages.shape}")
        self.believe("features of GraphLabeling, as its oracle sums them")
        values, errors = dual_values(oracle, w, messages)
        rounding = oracle.rounding(np.arange(len(c)), c, float(np.linalg.norm(w)), values)
        return math.fsum(c * values), 1.01 * (float(c @ errors) + rounding) + 4.0 * UNIT * float(c @ values)

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
        single = self.risk.derive(n_parts=self.risk.n_examples)
        error = 1.01 * terms * UNIT * float(np.linalg.norm(sizes)) + float(np.sum(single.slope_errors))
        last_error = None
        if self.risk.user_rows is not None:     # an entry of psi is an entry of a row, times a loss
            last = sizes.reshape(-1, self.risk.user_rows.width)[:, -1]
            last_error = 1.01 * (terms + 4.0) * UNIT * float(np.linalg.norm(last))
        additions = float(np.max(oracle.sizes)) + 12.0      # number of additions in a loss
        return ProvenPlane(math.fsum(offsets), phi, additions * UNIT * math.fsum(map(abs, offsets)), error, last_error)

    @property
    def c(self):
        return self.risk.sample_weight

    def _exact_labellings(self, evidence):
        model, X, Y = self.risk.model, self.risk.X, self.risk.Y
        self.believe(f"joint_feature and loss of {type(model).__name__}, as they round")
        phi, offset = np.full(self.dim, Fraction(0), dtype=object), Fraction(0)
        for j, (i, mass) in enumerate(zip(evidence.examples.tolist(), evidence.masses.tolist(), strict=True)):
            labelling, x, truth = evidence.labellings[j], example(X, i), example(Y, i)
            loss = Fraction(float(model.loss(truth, labelling)))
            scale = Fraction(mass) * (loss if model.rescaling == "slack" else 1)
            for y, sign in ((labelling, 1), (truth, -1)):
                feature = as_feature(model.joint_feature(x, y), self.dim, i)
                dense = feature.toarray()[0] if sp.issparse(feature) else feature
                for k in np.flatnonzero(dense).tolist():
                    phi[k] += sign * scale * Fraction(float(dense[k]))
            offset += Fraction(mass) * loss
        return ProvenPlane(offset, phi)
