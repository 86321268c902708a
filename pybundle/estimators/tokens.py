"""Convert tokens as users write them, dictionaries and lists of texts, into CSR rows of features.

A token is a dictionary, a sequence of texts, or one text. Entries become features as in CRFsuite:

    {"word": "the", "is_title": True, "length": 3}   ->   "word:the" = 1, "is_title" = 1, "length" = 3
    {"suffixes": ["he", "e"], "next": {"pos": "NN"}} ->   "suffixes:he" = 1, "suffixes:e" = 1, "next:pos:NN" = 1
    ["word:the", "is_title"]                         ->   "word:the" = 1, "is_title" = 1
"""

import numbers
import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from sklearn.utils import murmurhash3_32

from ..core.exceptions import InputTypeError, ParameterError
from ..core.ragged import Ragged
from ..core.validation import check_integer
from ..models.chain._token_scores import sum_duplicates

SEQUENCES = (list, tuple, set, frozenset)
TEXTS = (str, bytes)
"""Bytes are read as UTF-8, as python-crfsuite reads them."""
LARGEST = float(np.finfo(np.float32).max)


class Made:
    """Sequences whose features are made while they are read, since those of all tokens would take much memory."""

    def __init__(self, templates, X):
        self.templates, self.X = templates, X

    def __len__(self):
        return len(self.X)

    def __iter__(self):
        return (self.templates(x, f"X[{i}]") for i, x in enumerate(self.X))


def as_lists(X):
    """Return examples with arrays of texts or objects as lists; refuse examples that are no sequences."""
    if isinstance(X, Ragged):
        return X
    for i, x in enumerate(X):
        if isinstance(x, (str, bytes, Mapping)) or is_single(x):
            raise InputTypeError(f"X[{i}] must be a sequence of tokens, got {x!r:.60} of type {type(x).__name__}; "
                                 "split texts into tokens, and give one sequence alone as [sequence]")
    return [x.tolist() if isinstance(x, np.ndarray) and x.dtype.kind in "USO" else x for x in X]


def is_single(x):
    """Return whether x is a scalar, such as None or a number, rather than a list, dictionary, text or array."""
    return not getattr(x, "shape", ()) and not hasattr(x, "__len__")


def single(predict, x):
    """Return `predict([x])[0]`, without the advice to pass [x] in errors."""
    try:
        return predict([x])[0]
    except (InputTypeError, ParameterError) as problem:
        problem.args = re.sub("; [^;]*alone.*", "; predict_single takes one sequence, a list of tokens", str(problem)),
        raise


def check_tokens(X):
    """Refuse None and numbers in place of tokens."""
    for i, x in enumerate(X if not isinstance(X, Ragged) else ()):
        for t, token in enumerate(x if isinstance(x, SEQUENCES) else ()):
            if is_single(token):
                raise InputTypeError(f"X[{i}][{t}] must be a token, a dictionary, texts or numbers in a list, got "
                                     f"{token!r:.40} of type {type(token).__name__}; one sequence alone is [sequence]")


def holds_texts(X):
    """Return whether the tokens of X are features by name; False for arrays, sparse matrices and a `Ragged`."""
    if isinstance(X, (Made, Ragged)):
        return isinstance(X, Made)
    for x in X:
        if not isinstance(x, SEQUENCES):
            return False
        for token in x:
            if isinstance(token, (Mapping, *TEXTS)) or (isinstance(token, np.ndarray) and token.dtype.kind in "US"):
                return True
            if not isinstance(token, SEQUENCES):
                return False
            if token:
                return isinstance(next(iter(token)), TEXTS)
    return False


def count_features(X):
    """Return in how many tokens every feature occurs, a Counter by name."""
    return Counter(name for i, x in enumerate(X) for t, token in enumerate(x)
                   for name in {name for name, _ in entries(token, i, t)})


def frequent_features(counts, min_count=1):
    """Return the names of the features that occur in at least `min_count` tokens, sorted."""
    min_count = check_integer("min_count", min_count, low=1)
    names = sorted(name for name, count in counts.items() if count >= min_count)
    if not names:
        raise ParameterError(f"X must hold at least one feature that occurs in min_count = {min_count} tokens")
    return names


def columns_of(vocabulary, bits=None):
    """Return arguments of `rows_of`: the function from names to columns, and the mask of hashes or None."""
    if vocabulary is not None:
        return {name: k for k, name in enumerate(vocabulary)}.get, None
    return murmurhash3_32, (1 << check_integer("hash_bits", bits, low=1, high=30)) - 1


def rows_of(X, number_of, mask):
    """Return tokens as CSR rows without duplicates: offsets of the sequences, `indptr`, `indices`, `data`.

    Names without a number are left out. Hashes are those of scikit-learn's `FeatureHasher`.
    """
    offsets, ends, columns, values = [0], [0], [], []
    for i, x in enumerate(X):
        for t, token in enumerate(x):
            if type(token) is list and {*map(type, token)} == {str}:        # names alone need no checks
                found = [column for column in map(number_of, token) if column is not None]
                columns += found
                values += [1.0] * len(found)
            else:
                for name, value in entries(token, i, t):
                    column = number_of(name) if value else None
                    if column is not None:
                        columns.append(column)
                        values.append(value)
            ends.append(len(columns))
        offsets.append(len(ends) - 1)
    offsets, ends, columns = (np.array(numbers, dtype=np.int64) for numbers in (offsets, ends, columns))
    columns = (columns if mask is None else np.abs(columns) & mask).astype(np.int32)
    values = np.array(values, dtype=np.float64)
    n = sum_duplicates(ends, columns, values)
    return offsets, ends, columns[:n], values[:n]


def encode(X, vocabulary=None, bits=None):
    """Return tokens as a Ragged of CSR rows: a column for each name of the vocabulary, or `2 ** bits` hashed ones."""
    offsets, ends, columns, values = rows_of(X, *columns_of(vocabulary, bits))
    single = values.astype(np.float32)
    if (single == values).all():                # most values are 1; float32 takes half the memory, and less time
        values = single
    width = 1 << bits if vocabulary is None else len(vocabulary)
    return Ragged(sp.csr_array((values, columns, ends), shape=(len(ends) - 1, width)), offsets)


def entries(token, i, t):
    """Return the features of token t of example i as pairs (name, value)."""
    if isinstance(token, Mapping):
        return _of_mapping(token, "", i, t)
    if isinstance(token, TEXTS):
        token = [token]
    elif isinstance(token, np.ndarray) and token.dtype.kind in "USO":
        token = token.tolist()
    if isinstance(token, SEQUENCES) and all(isinstance(name, TEXTS) for name in token):
        return [(name if isinstance(name, str) else decoded(name, i, t), 1.0) for name in token]
    raise InputTypeError(f"X[{i}][{t}] must be a dictionary of features, a list of texts or a text, like the tokens "
                         f"before, got {token!r:.60}")


def _of_mapping(token, prefix, i, t):
    found = []
    for name, value in token.items():
        if prefix or type(name) is not str:             # an unchanged name keeps its cached hash
            name = f"{prefix}{decoded(name, i, t) if isinstance(name, bytes) else name}"
        if type(value) is float and -LARGEST <= value <= LARGEST:       # the common types first, for speed
            found.append((name, value))
        elif isinstance(value, str):
            found.append((f"{name}:{value}", 1.0))
        elif isinstance(value, (float, int, np.bool_, numbers.Real)):
            if not -LARGEST <= value <= LARGEST:
                raise ParameterError(f"X[{i}][{t}][{name!r:.40}] must be a finite number of at most {LARGEST:.1e}, got "
                                     f"{value!r:.40}; drop or rescale it")
            found.append((name, float(value)))
        elif isinstance(value, bytes):
            found.append((f"{name}:{decoded(value, i, t)}", 1.0))
        elif isinstance(value, Mapping):
            found += _of_mapping(value, f"{name}:", i, t)
        elif isinstance(value, SEQUENCES) and all(isinstance(item, TEXTS) for item in value):
            found += [(f"{name}:{item if isinstance(item, str) else decoded(item, i, t)}", 1.0) for item in value]
        else:
            raise InputTypeError(f"X[{i}][{t}][{name!r}] must be a text, a number, True or False, a dictionary or a "
                                 f"list of texts, got {value!r:.60}")
    return found


def decoded(text, i, t):
    """Return a value of token t of example i as a text; bytes are read as UTF-8, and missing values are refused."""
    if not isinstance(text, TEXTS) and str(text) in ("None", "nan", "<NA>", "NaT"):
        raise ParameterError(f"X[{i}][{t}] must not hold missing values, got {text!r}; write a text in their place")
    try:
        return text.decode() if isinstance(text, bytes) else str(text)
    except UnicodeDecodeError as problem:
        raise ParameterError(f"X[{i}][{t}] must hold texts or UTF-8, got {text!r:.60}; decode the bytes") from problem
