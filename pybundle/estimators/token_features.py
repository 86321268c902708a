"""`TokenFeatures` learns from sequences labels, names of features, and which features occur with which labels."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, ParameterError
from ..core.ragged import Ragged, array_of
from ..core.validation import check_choice, check_integer
from ..models import Chain
from ..templates import Templates
from .labels import encode_labels, label_classes, merged_classes
from .schemes import check_scheme
from .structured import length
from .tokens import (
    SEQUENCES,
    Made,
    as_lists,
    check_tokens,
    count_features,
    encode,
    frequent_features,
    holds_texts,
)

FEW_WEIGHTS = 1 << 20
"""With "auto" every pair of feature and label has a weight if there are at most this many pairs."""


class TokenFeatures:
    """Mixin of sequence labellers that converts tokens and labels, as users write them, to numbers."""

    def _survey(self, X, y, weights):
        """Return the classes, counts of features by name (None for arrays and hashes), and the number of columns."""
        classes = label_classes(y)
        _check_sizes(as_lists(X), np.array([len(labels) for labels in y]))
        if self.scheme is not None:
            check_scheme(self.scheme, y)
        X = self._tokens(X)
        if not holds_texts(X):
            shape = (X.values if isinstance(X, Ragged) else _first(X)).shape[1:]
            return classes, None, int(shape[0]) if shape else 1
        if self.hash_bits is not None:
            if self.min_count != 1:
                raise ParameterError(f"min_count must be 1 with hash_bits, which keep no names to count, got "
                                     f"{self.min_count!r:.20}; leave one of them out")
            return classes, None, 1 << check_integer("hash_bits", self.hash_bits, low=1, high=30)
        return classes, count_features(X), None

    def _learn(self, surveys):
        classes = merged_classes([classes for classes, _, _ in surveys])
        if len(classes) < 2:
            raise ParameterError(f"y must hold at least two classes, got one class only, {classes.tolist()[0]!r}")
        widths = {width for _, _, width in surveys}
        if len(widths) > 1:
            raise ParameterError("X must hold features by name, or arrays of one width, in all blocks, got "
                                 + " and ".join(sorted("names" if width is None else str(width) for width in widths)))
        vocabulary, width = None, widths.pop()
        if width is None:
            counts = sum((counts for _, counts, _ in surveys[1:]), surveys[0][1])
            vocabulary = frequent_features(counts, self.min_count)
            width = len(vocabulary)
        fitted = {"classes_": classes, "vocabulary_": vocabulary, "n_features_in_": width}
        choice = check_choice("token_weights", self.token_weights, ("auto", "all", "occurring"))
        if choice == "all" or (choice == "auto" and len(classes) * width <= FEW_WEIGHTS):
            fitted["token_support_"] = None
        return fitted

    def _surveys_again(self, fitted):
        return "token_support_" not in fitted

    def _survey_again(self, X, y, weights, fitted):
        x, truths, _ = self._nonempty(*self._encode_pairs(X, y, fitted), weights)
        return self._support(x, truths, fitted)

    def _learn_again(self, surveys):
        known = [support for support in surveys if support is not None]
        if len(known) > 1:
            known = [np.unique(np.concatenate(known), axis=0)]
        return {"token_support_": known[0] if known else None}

    def _tokens(self, X):
        """Return the sequences with the features of their tokens."""
        X, templates = as_lists(X), self.templates
        if templates is None:
            return X
        if not isinstance(templates, Templates):
            raise InputTypeError(f"templates must be Templates, such as pb.templates.words(), or what "
                                 f"pb.templates.read_crfpp(path) returns, got {templates!r:.60}")
        return Made(templates, X)

    def _support(self, x, truths, fitted):
        """Return the pairs of feature and label that occur, or None if all pairs are to have weights."""
        if self.token_weights == "auto" and not (len(x) and sp.issparse(x.values) and x.values.count_nonzero()):
            return None
        return Chain(len(fitted["classes_"]), fitted["n_features_in_"]).occurring(x, truths).token_support

    def _encode_pairs(self, X, y, fitted):
        x = as_rows(self._tokens(X), fitted["n_features_in_"], fitted["vocabulary_"], self.hash_bits)
        return x, encode_labels(y, fitted["classes_"])

    @staticmethod
    def _nonempty(x, truths, weights):
        """Leave out empty sequences, which the encoder keeps, so that errors count sequences as the user does."""
        if x.sizes.all():
            return x, truths, weights
        kept = np.flatnonzero(x.sizes)
        return x.take(kept), truths.take(kept), weights[kept]


def _check_sizes(X, n_labels):
    """Check that each sequence has as many labels as tokens; values that are no sequences are left to the encoder."""
    if isinstance(X, Ragged):
        sizes = X.sizes.tolist()
    else:
        sizes = [x.shape[0] if len(getattr(x, "shape", ())) == 2 else len(x) if isinstance(x, SEQUENCES) else None
                 for x in X]
    for i, (size, n) in enumerate(zip(sizes, n_labels.tolist(), strict=True)):
        if size not in (n, None):
            raise ParameterError(f"y[{i}] must have one label for each token of X[{i}], {size}, got {n}")


def _first(X):
    """Return the first example that is not empty, as an array of tokens."""
    check_tokens(X)
    i, x = next((i, x) for i, x in enumerate(X) if length(x))
    return array_of(x, f"X[{i}]")


def as_rows(X, width, vocabulary, hash_bits):
    """Return tokens as rows of `width` columns."""
    if not isinstance(X, Ragged) and not any(map(length, X)):
        return Ragged(np.zeros((0, width)), np.zeros(len(X) + 1, dtype=np.int64))
    if not holds_texts(X):
        check_tokens(X)
        if vocabulary is not None:
            raise ParameterError("X must hold features by name, dictionaries or texts, as in the fit, got arrays")
        if isinstance(X, Ragged) or all(map(length, X)):
            return Ragged.of(X)
        nothing = _first(X)[:0]
        return Ragged.of([x if length(x) else nothing for x in X])
    if vocabulary is None and hash_bits is None:
        raise ParameterError("X must hold arrays or CSR matrices, as in the fit, got features by name")
    return encode(X, vocabulary, hash_bits)
