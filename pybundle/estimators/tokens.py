"""Features of tokens as users write them, dictionaries and lists of texts, made into CSR rows.

A token is a dictionary, a sequence of texts, or one text. Entries become features as in CRFsuite:

    {"word": "the", "is_title": True, "length": 3}   ->   "word:the" = 1, "is_title" = 1, "length" = 3
    {"suffixes": ["he", "e"], "next": {"pos": "NN"}} ->   "suffixes:he" = 1, "suffixes:e" = 1, "next:pos:NN" = 1
    ["word:the", "is_title"]                         ->   "word:the" = 1, "is_title" = 1
"""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction import FeatureHasher

from ..core.exceptions import InputTypeError, ParameterError
from ..core.ragged import Ragged
from ..core.validation import check_integer

SEQUENCES = (list, tuple, set, frozenset)
LARGEST = float(np.finfo(np.float32).max)


def as_lists(X):
    """Arrays of texts or of objects, sequences and tokens, as lists; the rest as it is."""
    if isinstance(X, Ragged):
        return X
    for i, x in enumerate(X):
        if isinstance(x, (str, bytes, Mapping)):
            raise InputTypeError(f"X[{i}] must be a sequence of tokens, got {x!r:.60}; split texts into tokens, and "
                                 "pass one sequence alone as [sequence]")
        if is_single(x):
            raise InputTypeError(f"X[{i}] must be a sequence of tokens, got {x!r:.60} of type {type(x).__name__}; give "
                                 "one sequence alone as [sequence]")
    return [x.tolist() if isinstance(x, np.ndarray) and x.dtype.kind in "UO" else x for x in X]


def is_single(x):
    """Whether x is None, a number or the like, and no list, dictionary, text or array."""
    return not getattr(x, "shape", ()) and not hasattr(x, "__len__")


def check_tokens(X):
    """Refuse None and numbers in place of tokens."""
    for i, x in enumerate(X if not isinstance(X, Ragged) else ()):
        for t, token in enumerate(x if isinstance(x, SEQUENCES) else ()):
            if is_single(token):
                raise InputTypeError(f"X[{i}][{t}] must be a token, that is a dictionary of features, texts or numbers "
                                     f"in a list, got {token!r:.40} of type {type(token).__name__}; one sequence alone "
                                     "is [sequence]")


def holds_texts(X):
    """Whether the tokens of X are features by name; False for arrays, sparse matrices and a `Ragged`."""
    if isinstance(X, Ragged):
        return False
    for x in X:
        if not isinstance(x, SEQUENCES):
            return False
        for token in x:
            if isinstance(token, (Mapping, str)) or (isinstance(token, np.ndarray) and token.dtype.kind == "U"):
                return True
            if not isinstance(token, SEQUENCES):
                return False
            if token:
                return isinstance(next(iter(token)), str)
    return False


def count_features(X):
    """In how many tokens every feature occurs, a Counter by name."""
    return Counter(name for i, x in enumerate(X) for t, token in enumerate(x)
                   for name in {name for name, _ in entries(token, i, t)})


def frequent_features(counts, min_count=1):
    """Names of the features that occur in at least `min_count` tokens, sorted."""
    min_count = check_integer("min_count", min_count, low=1)
    names = sorted(name for name, count in counts.items() if count >= min_count)
    if not names:
        raise ParameterError(f"X must hold at least one feature that occurs in min_count = {min_count} tokens")
    return names


def encode(X, vocabulary):
    """Tokens as a Ragged of CSR rows, a column for each name of the vocabulary; other names are left out."""
    columns = {name: k for k, name in enumerate(vocabulary)}
    indices, values, ends = [], [], [0]
    for i, x in enumerate(X):
        for t, token in enumerate(x):
            for name, value in entries(token, i, t):
                column = columns.get(name)
                if column is not None:
                    indices.append(column)
                    values.append(value)
            ends.append(len(indices))
    matrix = sp.csr_array((np.array(values, dtype=np.float64), np.array(indices, dtype=np.int32),
                           np.array(ends, dtype=np.int64)), shape=(len(ends) - 1, len(columns)))
    matrix.sum_duplicates()
    return _ragged(X, matrix)


def encode_hashed(X, bits):
    """Tokens as a Ragged of CSR rows of `2 ** bits` columns: names are hashed, equal hashes share a weight."""
    hasher = FeatureHasher(n_features=1 << check_bits(bits), input_type="pair", alternate_sign=False)
    rows = (entries(token, i, t) for i, x in enumerate(X) for t, token in enumerate(x))
    return _ragged(X, sp.csr_array(hasher.transform(rows)))


def check_bits(bits):
    """`hash_bits` as an int."""
    bits = check_integer("hash_bits", bits, low=1)
    if bits > 30:
        raise ParameterError(f"hash_bits must be 1..30, got {bits}")
    return bits


def entries(token, i, t):
    """Pairs (name, value) of token t of example i."""
    if isinstance(token, Mapping):
        return _of_mapping(token, "", i, t)
    if isinstance(token, str):
        return [(token, 1.0)]
    if isinstance(token, np.ndarray) and token.dtype.kind in "UO":
        token = token.tolist()
    if isinstance(token, SEQUENCES) and all(isinstance(name, str) for name in token):
        return [(name, 1.0) for name in token]
    raise InputTypeError(f"X[{i}][{t}] must be a dictionary of features, a list of texts or a text, like the tokens "
                         f"before, got {token!r:.60}")


def _of_mapping(token, prefix, i, t):
    found = []
    for name, value in token.items():
        name = f"{prefix}{name}"
        if isinstance(value, str):
            found.append((f"{name}:{value}", 1.0))
        elif isinstance(value, (bool, numbers.Real, np.bool_)):
            if not -LARGEST <= value <= LARGEST:
                raise ParameterError(f"X[{i}][{t}][{name!r:.40}] must be a finite number of at most {LARGEST:.1e}, got "
                                     f"{value!r:.40}; drop or rescale it")
            found.append((name, float(value)))
        elif isinstance(value, Mapping):
            found += _of_mapping(value, f"{name}:", i, t)
        elif isinstance(value, SEQUENCES) and all(isinstance(item, str) for item in value):
            found += [(f"{name}:{item}", 1.0) for item in value]
        else:
            raise InputTypeError(f"X[{i}][{t}][{name!r}] must be a text, a number, True or False, a dictionary or a "
                                 f"list of texts, got {value!r:.60}")
    return found


def _ragged(X, matrix):
    single = matrix.data.astype(np.float32)
    if (single == matrix.data).all():           # ones, above all: half the memory, and faster
        matrix = sp.csr_array((single, matrix.indices, matrix.indptr), shape=matrix.shape)
    return Ragged(matrix, np.concatenate([[0], np.cumsum([len(x) for x in X])]))
