"""Structures of learners over tokens: single tokens, each with a class, or chains of tokens with labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.ragged import ENTRIES, array_of
from ..core.validation import check_finite
from ..models import Chain, Multiclass
from .kernel import real_rows


class Tokens(NamedTuple):
    """Examples as tokens: example i has the rows offsets[i]:offsets[i + 1] of X."""

    X: object
    offsets: np.ndarray
    truth: np.ndarray | None

    @property
    def n_examples(self):
        return len(self.offsets) - 1


class TokenStructure:
    """The labels and losses of single tokens, or of chains of tokens.

    Parameters
    ----------
    costs : ndarray, shape (n_labels, n_labels)
    chain : Chain or None
        None for single tokens.
    classes : ndarray or None
        The classes of single tokens; None if these are numbers already.

    Attributes
    ----------
    is_flat, start, end : bool
        Whether tokens are single; whether first and last labels have weights.
    masks : tuple of arrays
        Scores of pairs, first and last labels: 0, or -inf where the chain does not allow them.
    """

    def __init__(self, costs, chain=None, classes=None):
        self.costs, self.n_labels, self._chain, self.is_flat = costs, len(costs), chain, chain is None
        self.classes = classes
        self.start, self.end = (False, False) if chain is None else (chain.start, chain.end)
        self.masks = Chain(self.n_labels, 1).masks if chain is None else chain.masks

    def tokens(self, X):
        """Return examples without labels."""
        if self.is_flat:
            X = check_tokens("X", X)
            return Tokens(X, np.arange(X.shape[0] + 1), None)
        X = self._chain.tokens(X)
        return Tokens(check_tokens("X", X.values), X.offsets, None)

    def bind(self, X, Y):
        """Return examples with their labels."""
        found = self.tokens(X)
        Y = Y if self.classes is None else encode(Y, self.classes)
        if not self.is_flat:
            return found._replace(truth=self._chain.labels(Y, np.diff(found.offsets)).values)
        if len(Y) != found.n_examples:
            raise ParameterError(f"y must hold one class for each row of X, {found.n_examples} in all, got {len(Y)}")
        return found._replace(truth=np.ascontiguousarray(Y, dtype=np.int32))

    def factors(self, offsets):
        """Return the factor of the loss of each example."""
        sizes = np.diff(offsets)
        return np.ones(len(sizes)) if self.is_flat or not self._chain.normalised else 1.0 / sizes

    def link_counts(self, labels, offsets):
        """Count transitions between labels, then first and last labels if these have weights: (n_labels + 2, n_labels).

        >>> as_structure(Chain(2, 1, end=False)).link_counts(np.array([0, 1, 1, 0]), np.array([0, 3, 4]))
        array([[0., 1.],
               [0., 1.],
               [2., 0.],
               [0., 0.]])
        """
        counts, inner = np.zeros((self.n_labels + 2, self.n_labels)), np.ones(len(labels), dtype=bool)
        inner[offsets[:-1]] = False
        here = np.flatnonzero(inner)
        np.add.at(counts, (labels[here - 1], labels[here]), 1.0)
        for row, tokens, has_weights in ((-2, offsets[:-1], self.start), (-1, offsets[1:] - 1, self.end)):
            if has_weights:
                np.add.at(counts[row], labels[tokens], 1.0)
        return counts


def as_structure(model):
    """Return the structure of a model over tokens; None for other models."""
    if not isinstance(model, (Multiclass, Chain)):
        return None
    if model.rescaling != "margin":
        raise ParameterError("model must have rescaling='margin', got 'slack'")
    if isinstance(model, Chain) and model.token_support is not None:
        raise ParameterError("model must have token_support=None for kernels and Features, got "
                             f"{len(model.token_support)} pairs")
    return TokenStructure(model.costs, None if isinstance(model, Multiclass) else model)


def check_tokens(name, X):
    """Return X as a float64 array or CSR matrix of finite numbers, or raise an error."""
    X = real_rows(name, X)
    if X.ndim != 2 or min(X.shape) == 0:
        raise ParameterError(f"{name} must have shape (n, n_features), at least one of each, got shape {X.shape}")
    return check_finite(name, X)


def classes_of(Y, name="y"):
    """Return the classes in Y in ascending order."""
    try:
        classes = np.unique(np.asarray(Y))
    except (TypeError, ValueError) as problem:
        raise InputTypeError(f"{name} must be a vector of classes of one type, got {Y!r:.40}: {problem!s:.70}"
                             ) from problem
    check_finite(name, array_of(Y, name, ENTRIES + "mM"))
    if classes.ndim != 1 or len(classes) < 2:
        raise ParameterError(f"{name} must hold at least two classes, got {len(classes)}; pass all classes to "
                             "partial_fit, classes=[...], if others follow later")
    return classes


def encode(Y, classes):
    """Return the indices of the entries of Y in `classes`."""
    try:
        Y = np.asarray(Y)
        numbers = np.searchsorted(classes, Y).clip(0, len(classes) - 1)
    except (TypeError, ValueError) as problem:
        raise InputTypeError(f"y must be a vector of classes, got {Y!r:.40}: {problem!s:.70}") from problem
    if Y.ndim != 1:
        raise ParameterError(f"y must be a vector of classes, got shape {Y.shape}; pass model=pb.models.Chain(...) for "
                             "sequences of labels")
    unknown = classes[numbers] != Y
    if unknown.any():
        raise ParameterError(f"y must hold known classes, got {Y[unknown][0]!r}; classes are {classes.tolist()}; list "
                             "all of them in the first call, partial_fit(..., classes=...)")
    return numbers
