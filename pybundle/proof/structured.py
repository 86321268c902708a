"""Structured models for the verifier: features, losses and decodings are those of the model."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from ..models.model_oracle import as_feature
from ..risks import Structured
from . import exact as ex
from .linear import ROWS
from .problem import UNIT, LabellingProblem, Plane


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
        model, X, Y = self.risk.model, self.risk.X, self.risk.Y
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
