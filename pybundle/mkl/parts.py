"""Parts of a learner over tokens; between calls a part keeps what its group has learnt, and scores new tokens.

`bind` returns a compiled group for the data of one call, and `absorb` stores what that group has learnt.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import ParameterError
from ..core.types import Data, Rows
from ..core.validation import check_flag
from ..runtime.executors import Serial
from ._feature_group import FeatureGroup
from ._groups import LinkGroup
from ._kernel_group import KernelGroup
from ._lazy import LazyVectors
from .kernel import Kernel, check_gram, described
from .kernels import as_kernel, squares_of

BLOCK = 1024
"""Number of tokens scored at a time."""


class Features:
    """A group with explicit weights of the columns of the tokens, `f(x, c) = <w_c, x>`.

    It learns the same function as `Linear(normalise=False)`. A token costs O(active features), however many features
    there are; with the kernel it costs O(tokens).

    Parameters
    ----------
    columns : slice or int array, optional
        Columns of the tokens, default all. Groups may have columns in common.
    normalise : bool, default False
        Scale every token to norm 1.

    Examples
    --------
    >>> import pybundle as pb
    >>> learner = pb.mkl.OnlineMKL([pb.mkl.Features([0]), pb.mkl.Features([1])], eta0=1.0)
    >>> _ = learner.fit([[1.0, 0.1], [-1.0, 0.1], [2.0, -0.1]], ["up", "down", "up"])
    >>> learner.predict([[3.0, 0.0]])
    array(['up'], dtype='<U4')
    """

    def __init__(self, columns: Any = None, normalise: bool = False) -> None:
        check_flag("normalise", normalise)
        self.columns: Any = columns
        self.normalise: bool = bool(normalise)

    def __repr__(self) -> str:
        return described(self)

    def __call__(self, X: Data) -> Rows:
        """Return the features of tokens."""
        X = Kernel(columns=self.columns).take(X)
        if not self.normalise:
            return X
        norms = np.sqrt(squares_of(X))
        factors = np.divide(1.0, norms, out=np.zeros(len(norms)), where=norms > 0.0)
        return sp.csr_array(sp.diags_array(factors) @ X) if sp.issparse(X) else X * factors[:, None]


class LowRank:
    """Features whose inner products approximate a kernel (Nystroem, with landmarks drawn at random)."""

    def __init__(self, kernel, X):
        X = kernel.take(X)
        rank = min(kernel.low_rank, X.shape[0])
        chosen = np.sort(np.random.default_rng(0).choice(X.shape[0], rank, replace=False))
        self._kernel, self._landmarks = kernel, X[chosen]
        self._factors = kernel._factors(self._landmarks)
        values = kernel._block(self._landmarks, self._landmarks, self._factors, self._factors)
        check_gram(values, type(kernel).__name__, kernel.is_definite(X))
        squares, vectors = np.linalg.eigh(values)
        # small eigenvalues are rounding errors, which the division would magnify
        kept = squares > 1e-10 * squares[-1]
        self._map = vectors[:, kept] / np.sqrt(squares[kept])

    def function(self, theta):
        """Return (kernel, landmarks, coefficients (n_landmarks, n_labels)), as `KernelPart.function` does."""
        return self._kernel, self._landmarks, self._map @ theta

    def __call__(self, X):
        X = self._kernel.take(X)
        return self._kernel._block(X, self._landmarks, self._kernel._factors(X), self._factors) @ self._map


def block_scores(scorers, n, n_labels, executor=None):
    """Return the sum of the scores by all scorers (None adds 0), (n, n_labels); threads do not change its bits."""
    out = np.zeros((n, n_labels))

    def block(first):
        rows = slice(first, min(first + BLOCK, n))
        for scorer in scorers:
            if scorer is not None:
                out[rows] += scorer(rows)

    (executor or Serial()).map(block, range(0, n, BLOCK))
    return out


def make_part(group, index, X, n_labels, averaging):
    """Return the part for an entry of `groups`; the tokens X determine parameters that are left to the data."""
    if isinstance(group, Features):
        return FeaturePart(group, X, n_labels, averaging)
    kernel = as_kernel(group, index).fit(X)
    if kernel.low_rank is not None:
        return FeaturePart(LowRank(kernel, X), X, n_labels, averaging)
    return KernelPart(kernel, n_labels, averaging)


class KernelPart:
    """A kernel with its support tokens and their coefficients (n_support, n_labels)."""

    def __init__(self, kernel, n_labels, averaging):
        self.kernel, self.averaging, self.n_labels = kernel, averaging, n_labels
        self.support, self.coefs = None, np.zeros((0, n_labels))
        self._total, self._ticks, self._square = np.zeros((0, n_labels)), 0.0, 0.0

    def bind(self, X, precision, executor):
        """Return the compiled group for tokens X; this computes n^2 kernel values, and those of X with the support."""
        gram = self.kernel.gram(X, precision, executor)
        if not len(self.coefs):
            return KernelGroup(gram, self.n_labels, averaging=self.averaging)
        scores = block_scores([self.scorer(X, last=True)], X.shape[0], self.n_labels, executor)
        group = KernelGroup(gram, self.n_labels, self.coefs, np.ascontiguousarray(scores.T), self._square,
                            self.averaging)
        if self.averaging:
            group.continue_average(self._total, self._ticks)
        return group

    def absorb(self, group, X, drop):
        """Store the coefficients of `group`, without tokens whose coefficients are below `drop` times the largest."""
        coefs = group.settle().copy()
        self._square = float(group.theta.norms()[0]) ** 2
        kept = np.abs(coefs).max(axis=1)
        if self.averaging:
            self._ticks = group.theta.n_ticks
            total = group.theta.average() * self._ticks
            kept = np.maximum(kept, np.abs(total).max(axis=1) / max(self._ticks, 1.0))
        kept = kept > drop * kept.max(initial=0.0)
        taken, n_old = self.kernel.take(X), len(self.coefs)
        new = taken[np.flatnonzero(kept[n_old:])]
        if self.support is None:
            self.support = new
        else:
            old = self.support[np.flatnonzero(kept[:n_old])]
            self.support = sp.vstack([old, new], format="csr") if sp.issparse(new) else np.vstack([old, new])
        self.coefs = coefs[kept]
        if self.averaging:
            self._total = total[kept]

    def saved(self):
        """Return what `restore` needs, without copies: `absorb` replaces arrays and never changes them."""
        return dict(self.__dict__)

    def restore(self, saved):
        """Restore what `saved` returned."""
        self.__dict__.update(saved)

    def function(self):
        """Return (kernel, support tokens, coefficients (n_support, n_labels)) at the last point."""
        return self.kernel, self.support, self.coefs

    def scorer(self, X, last=False):
        """Return a thread-safe function of a slice of the tokens X, which returns their scores; None if all are 0."""
        coefs = self.coefs if last or not self.averaging else self._total / max(self._ticks, 1.0)
        X = self.kernel.take(X)
        if self.support is not None and X.shape[1] != self.support.shape[1]:
            raise ParameterError(f"X must have {self.support.shape[1]} columns for {type(self.kernel).__name__} as in "
                                 f"the first call, got {X.shape[1]}")
        if not coefs.any():
            return None
        right = self.kernel._factors(self.support)
        return lambda rows: self.kernel._block(X[rows], self.support, self.kernel._factors(X[rows]), right) @ coefs


class Weights:
    """Base class of parts with explicit weights `theta`."""

    def absorb(self, group, X, drop):
        """Fold the scales into theta, which the group has changed in place."""
        self.theta.settle()

    def saved(self):
        """Return what `restore` needs."""
        return self.theta.saved()

    def restore(self, saved):
        """Restore what `saved` returned."""
        self.theta.set(*saved)


class FeaturePart(Weights):
    """Features of tokens with weights (n_features, n_labels)."""

    def __init__(self, features, X, n_labels, averaging):
        self._features = features
        self.theta = LazyVectors(features(X[:1]).shape[1], n_labels, averaging=averaging)

    def bind(self, X, precision, executor):
        X = self._checked_features(X)
        if sp.issparse(X):
            X = sp.csr_array(X)
            X.sum_duplicates()
        return FeatureGroup(self.theta, X if sp.issparse(X) else np.ascontiguousarray(X))

    def function(self):
        """Return (features, None, weights (n_columns, n_labels)); for a `LowRank` what its `function` returns."""
        features, theta = self._features, self.theta.point()
        return (features, None, theta) if isinstance(features, Features) else features.function(theta)

    def scorer(self, X):
        """Return a thread-safe function of a slice of the tokens X, which returns their scores."""
        weights = self.theta.average()
        self._checked_features(X[:1])           # checks the number of columns
        return lambda rows: np.asarray(self._checked_features(X[rows]) @ weights)

    def _checked_features(self, X):
        X = self._features(X)
        if X.shape[1] != self.theta.n_rows:
            raise ParameterError(f"X must have {self.theta.n_rows} columns for this group as in the first call, got "
                                 f"{X.shape[1]}")
        return X


class LinkPart(Weights):
    """Weights of neighbouring labels (n_labels + 2, n_labels)."""

    def __init__(self, n_labels, averaging):
        self.theta = LazyVectors(n_labels + 2, n_labels, averaging=averaging)

    def bind(self, X, precision, executor):
        return LinkGroup(self.theta)

    def weights(self):
        """Return the weights of transitions (n_labels, n_labels), first labels and last labels (n_labels,)."""
        theta = self.theta.average()
        return theta[:-2], theta[-2], theta[-1]
