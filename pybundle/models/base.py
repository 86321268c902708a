"""What every structured model is: features, loss and decoding; and a model bound to its data, the oracle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, OracleError, ParameterError
from ..core.protocols import Decoded, Decodings, ExamplePlane
from ..core.validation import check_choice, check_integer, check_rows, check_vector, real_array
from ..features import merge_rows


class StructuredModel(ABC):
    """Features, loss and decoding of one kind of structure; subclass it for your own, in plain Python.

    With `psi(y) = Psi(x, y) - Psi(x, y_i)` the risk of an example is

        max_y  loss(y_i, y) + <w, psi(y)>                 rescaling = "margin"
        max_y  loss(y_i, y) (1 + <w, psi(y)>)             rescaling = "slack"

    A model holds parameters, never data: `oracle` binds it to examples.

    Attributes
    ----------
    dim : int
        Number of weights.
    nonneg : bool array, shape (dim,), or None
        Weights that must not be negative, for instance where decoding is exact only then.
    rescaling : {"margin", "slack"}

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> class Signs(pb.models.StructuredModel):
    ...     dim = 2
    ...     def joint_feature(self, x, y):
    ...         return y * x
    ...     def loss(self, y, y_hat):
    ...         return float(y != y_hat)
    ...     def decode(self, w, x):
    ...         return 1 if w @ x >= 0.0 else -1
    ...     def loss_augmented_decode(self, w, x, y):
    ...         return max((1, -1), key=lambda z: self.loss(y, z) + z * (w @ x))
    >>> X, Y = np.array([[1.0, 2.0], [2.0, -1.0], [-1.0, -1.0]]), [1, -1, -1]
    >>> risk = pb.risks.Structured(Signs(), X, Y)
    >>> bool(pb.check_oracle(risk))
    True
    >>> pb.minimize(risk, lam=1.0, tol=1e-6).success
    True
    """

    dim: int
    nonneg: np.ndarray | None = None
    rescaling: str = "margin"

    @abstractmethod
    def joint_feature(self, x, y):
        """Psi(x, y): dense, shape (dim,), or a sparse row."""

    @abstractmethod
    def loss(self, y, y_hat):
        """Loss >= 0 of predicting `y_hat` where y is true; 0 for y itself."""

    @abstractmethod
    def decode(self, w, x):
        """The labelling of largest score `<w, Psi(x, y)>`."""

    @abstractmethod
    def loss_augmented_decode(self, w, x, y):
        """The labelling that attains the maximum in the risk of the example (x, y)."""

    def oracle(self, X, Y):
        """The model bound to examples: batches of decodings and planes, see `BatchOracle`."""
        return ModelOracle(self, X, Y)


class BatchOracle(ABC):
    """Decodings and planes of batches of examples: a model bound to data. Immutable, callable from many threads.

    Attributes
    ----------
    n_examples, dim : int
    sizes : ndarray, shape (n_examples,)
        Work of each example; batches are cut by it.
    norms : ndarray, shape (n_examples,), or None
        Bound on the sum of the norms of the pieces that `psi_i(y)` is added from, hence on its norm, for any y; None
        where unknown: rounding is not bounded then.
    fingerprint : int
        Equal for equal models, data and truths, also in another process.
    has_marginals : bool
        Whether `marginals_batch` exists.
    has_further : bool
        Whether `best_batch` exists.
    """

    n_examples: int
    dim: int
    sizes: np.ndarray
    norms: np.ndarray | None = None
    fingerprint: int
    has_marginals = False
    has_further = False

    def prepare(self, w):
        """w as the batch methods want it, made once for a pass."""
        return w

    def update(self, weights, w, indices):
        """`prepare(w)` where w differs from the one that `weights` were prepared from at `indices` only.

        `weights` may be changed, and are not to be used beside what comes back. `indices` (repeated or not, in any
        order) may name entries that did not change. Cheap where it pays: O(len(indices)) for many sparse features.
        """
        return self.prepare(w)

    @abstractmethod
    def solve_batch(self, rows, weights, loss=True):
        """Most violating labellings of the examples `rows` (without loss: predictions) as `Decodings`.

        Values are those of the labellings, with upper bounds of the maximum, all relative to the truth: a truth has
        value 0. Labellings come as any sequence.
        """

    def best_batch(self, rows, weights, k):
        """As `solve_batch`, and up to k - 1 further labellings of large value of each example.

        Returns
        -------
        found : Decodings
        owners : ndarray, shape (m,)
            Positions in `rows` that the further labellings belong to, ascending.
        further : sequence of m labellings
        """
        raise NotImplementedError(f"{type(self).__name__} gives the best labelling only")

    def finder(self, batch):
        """What finds planes of up to `batch` examples in compiled code, a `PlaneFinder`; None where there is none.

        It stands for `solve_batch` and `planes` of this class: those of a subclass are asked instead.
        """
        return None

    @abstractmethod
    def add_planes(self, rows, labellings, scales, slope):
        """`slope += sum_j scales[j] psi(labellings[j])`; gives `sum_j scales[j] loss(labellings[j])`."""

    def planes(self, rows, labellings):
        """One plane `losses[j] + <slopes[j], w>` for each labelling of the examples `rows`.

        Parameters
        ----------
        rows : array of int, shape (n,)
            An example may occur several times.
        labellings : sequence
            As they came from `solve_batch`, whole or in pieces.

        Returns
        -------
        losses : ndarray, shape (n,)
        slopes : csr_array, shape (n, dim)
            float64 with int32 indices, each row sorted, entries of the same index summed, zeros left out.
        """
        rows = check_rows("rows", rows, self.n_examples, labellings)
        losses, scale, slope = np.empty(len(rows)), np.ones(1), np.zeros(self.dim)

        def made():
            for j, i in enumerate(rows):
                losses[j] = self.add_planes(np.array([i], dtype=np.intp), [labellings[j]], scale, slope)
                yield slope
                slope[:] = 0.0

        return losses, merge_rows(made(), len(rows), self.dim)

    @abstractmethod
    def losses(self, rows, labellings):
        """Losses of labellings, shape (len(rows),)."""

    def marginals_batch(self, rows, weights, scales, slope):
        """`slope += sum_j scales[j] E psi_j`; gives `log sum_y exp <w, psi_j(y)>` and the entropies, (len(rows),)."""
        raise NotImplementedError(f"{type(self).__name__} has no marginals")

    def solve(self, i, w):
        """Most violating labelling of example i at w."""
        found = self.solve_batch(np.array([i], dtype=np.intp), self.prepare(check_vector("w", w, self.dim)))
        return Decoded(found.labellings[0], float(found.values[0]), float(found.uppers[0]))

    def plane(self, i, labelling):
        """Plane `offset + <slope, w>` of a labelling of example i."""
        slope = np.zeros(self.dim)
        offset = self.add_planes(np.array([i], dtype=np.intp), [labelling], np.ones(1), slope)
        return ExamplePlane(float(offset), slope)

    def key(self, labelling):
        """Bytes of the labelling: equal keys mean equal planes of an example."""
        return np.asarray(labelling).tobytes()


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


class CallableModel(StructuredModel):
    """A model from two functions: `joint_feature(x, y)` and `loss_augmented_decode(w, x, y) -> (y_hat, loss)`."""

    def __init__(self, joint_feature, loss_augmented_decode, dim):
        if not callable(loss_augmented_decode):
            raise InputTypeError(f"loss_augmented_decode must be callable, got {type(loss_augmented_decode).__name__}")
        self._feature, self._decode, self.dim = joint_feature, loss_augmented_decode, dim

    def joint_feature(self, x, y):
        return self._feature(x, y)

    def loss(self, y, y_hat):
        raise NotImplementedError("the loss is known only for the labellings that loss_augmented_decode returns")

    def decode(self, w, x):
        raise NotImplementedError("a pair of callables says nothing of prediction; subclass pb.models.StructuredModel")

    def loss_augmented_decode(self, w, x, y):
        return self._decode(w, x, y)

    def oracle(self, X, Y):
        return CallableOracle(self, X, Y)


class CallableOracle(ModelOracle):
    """A `CallableModel` bound to examples: a labelling is the pair (y_hat, loss) that the decoder returned."""

    def _loss(self, i, y_hat):
        if not isinstance(y_hat, tuple) or len(y_hat) != 2:
            raise OracleError("loss_augmented_decode must return a pair (y_hat, loss), "
                              f"got {type(y_hat).__name__} for example {i}")
        cost = y_hat[1]
        if not np.isscalar(cost) or not np.isfinite(cost) or cost < 0.0:
            raise OracleError(f"loss must be a finite number >= 0, got {cost!r} for example {i}")
        return float(cost)

    def _plane(self, i, y_hat):
        cost = self._loss(i, y_hat)
        return self._feature(i, y_hat[0]) - self._truth(i), cost


def as_model(model, X, Y):
    """A `StructuredModel`, or one made of a pair of callables."""
    if isinstance(model, tuple) and len(model) == 2:
        check_lengths(X, Y)
        if not callable(model[0]):
            raise InputTypeError(f"joint_feature must be callable, got {type(model[0]).__name__}")
        feature = model[0](X[0], Y[0])
        return CallableModel(*model, int(np.prod(feature.shape)) if sp.issparse(feature) else np.size(feature))
    if not hasattr(model, "oracle") or isinstance(model, type):
        raise InputTypeError("model must be a StructuredModel or a pair (joint_feature, loss_augmented_decode), got "
                             + (f"the class {model.__name__} itself" if isinstance(model, type)
                                else type(model).__name__))
    return model


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


def check_lengths(X, Y):
    """Number of examples; X and Y must agree."""
    try:
        n, m = len(X) if not sp.issparse(X) else X.shape[0], len(Y)
    except TypeError as problem:
        raise InputTypeError(f"X and Y must be sequences of examples, got {type(X).__name__} and {type(Y).__name__}"
                             ) from problem
    if n != m or n == 0:
        raise ParameterError(f"X and Y must hold the same number of examples, at least one, got {n} and {m}")
    return n


def _dot(psi, w):
    return float((psi @ w).item() if sp.issparse(psi) else psi @ w)
