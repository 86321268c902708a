"""The oracle of a model that has none of its own: its methods, example by example, and what they return checked."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import OracleError
from ..core.protocols import Decodings
from ..core.validation import check_choice, check_integer, check_rows, real_array
from ..features import merge_rows
from .batch_oracle import BatchOracle, check_lengths


class ModelOracle(BatchOracle):
    """Any `StructuredModel` bound to examples by loops over its five methods.

    What the methods return is checked: `OracleError` names the example and the rule that was broken.
    """

    def __init__(self, model, X, Y):
        n = check_lengths(X, Y)
        name = type(model).__name__
        self.model, self._X, self._Y = model, X, Y
        self.n_examples, self.dim = n, check_integer(f"dim of {name}", getattr(model, "dim", None), low=1)
        check_choice(f"rescaling of {name}", model.rescaling, ("margin", "slack"))
        self.sizes = np.full(n, 64)
        self._marks = np.full(n, -1, dtype=np.int64)        # of the features of truths, once they were asked for

    @property
    def fingerprint(self):
        """A number of model, sizes and features of all truths; after a pass it asks the model for nothing."""
        for i in np.flatnonzero(self._marks < 0).tolist():
            self._truth(i)
        words = (type(self.model).__name__, self.dim, self.n_examples, self.model.rescaling)
        return crc32(self._marks, crc32(repr(words).encode()))

    def solve_batch(self, rows, weights, loss=True):
        labellings, values = [], np.empty(len(rows))
        for j, i in enumerate(rows):
            y_hat = self._decode(i, weights, loss)
            psi, cost = self._plane(i, y_hat)
            score = _dot(psi, weights)
            labellings.append(y_hat)
            values[j] = score if not loss else cost + score
            if loss and values[j] < -1e-9 * (1.0 + abs(cost) + abs(score)):
                raise OracleError(f"loss_augmented_decode must return a labelling at least as good as the truth, whose "
                                  f"value is 0, but example {i} got one of value {values[j]:g}; "
                                  "pb.check_oracle(model, X, Y) tells more")
        return Decodings(labellings, values, values)

    def _decode(self, i, weights, loss):
        x, y = self._X[i], self._Y[i]
        try:
            return self.model.loss_augmented_decode(weights, x, y) if loss else self.model.decode(weights, x)
        except StopIteration as problem:        # `map` would take it for the end of the examples
            raise OracleError(f"decoding of example {i} must return a labelling, got StopIteration") from problem
        except Exception as problem:
            problem.add_note(f"pybundle: while example {i} was decoded")
            raise

    def add_planes(self, rows, labellings, scales, slope):
        total = 0.0
        for i, y_hat, scale in zip(rows, labellings, scales, strict=True):
            if scale == 0.0:
                continue
            psi, cost = self._plane(i, y_hat)
            total += scale * cost
            if sp.issparse(psi):
                np.add.at(slope, psi.indices, scale * psi.data)
            else:
                slope += scale * psi
        return total

    def planes(self, rows, labellings):
        rows = check_rows("rows", rows, self.n_examples, labellings)
        losses = np.empty(len(rows))

        def made():
            for j, (i, y_hat) in enumerate(zip(rows, labellings, strict=True)):
                psi, losses[j] = self._plane(i, y_hat)
                yield psi

        return losses, merge_rows(made(), len(rows), self.dim)

    def losses(self, rows, labellings):
        return np.array([self._loss(i, y_hat) for i, y_hat in zip(rows, labellings, strict=True)])

    def key(self, labelling):
        if isinstance(labelling, np.ndarray) and labelling.dtype.kind != "O":
            return labelling.dtype.str, labelling.shape, labelling.tobytes()
        return tuple(map(self.key, labelling)) if isinstance(labelling, (list, tuple, np.ndarray)) else labelling

    def _loss(self, i, y_hat):
        cost = self.model.loss(self._Y[i], y_hat)
        if not np.isscalar(cost) or not np.isfinite(cost) or cost < 0.0:
            raise OracleError(f"loss must be a finite number >= 0, got {cost!r} for example {i}")
        return float(cost)

    def _plane(self, i, y_hat):
        psi, cost = self._feature(i, y_hat) - self._truth(i), self._loss(i, y_hat)
        return (cost * psi if self.model.rescaling == "slack" else psi), cost

    def _truth(self, i):
        feature = self._feature(i, self._Y[i])
        if self._marks[i] < 0:
            self._marks[i] = crc32(feature.data, crc32(feature.indices)) if sp.issparse(feature) else crc32(feature)
        return feature

    def _feature(self, i, y):
        return as_feature(self.model.joint_feature(self._X[i], y), self.dim, i)


def as_feature(feature, dim, i):
    """A joint feature as a float64 vector or a CSR row of `dim` entries; OracleError names example i."""
    if sp.issparse(feature):
        row = sp.csr_array(feature.reshape(1, -1) if feature.ndim == 1 else feature, dtype=np.float64)
        size, entries = row.shape[1] if row.shape[0] == 1 else -1, row.data
    else:
        try:
            row = entries = real_array(feature)
        except TypeError as problem:
            raise OracleError(f"joint_feature must return numbers, got {type(feature).__name__} for example {i}: "
                              f"{problem}") from problem
        size = len(row) if row.ndim == 1 else -1
    if size != dim:
        raise OracleError(f"joint_feature must return {dim} numbers (dim), got shape {np.shape(feature)} for "
                          f"example {i}")
    if not np.isfinite(entries).all():
        raise OracleError(f"joint_feature must return finite numbers, got NaN or infinity for example {i}")
    return row


def _dot(psi, w):
    return float((psi @ w).item() if sp.issparse(psi) else psi @ w)
