"""Read svmlight files, and Taskar's handwritten letters; errors name file and line."""

from __future__ import annotations

import re
import string
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.archive import name_of
from ..core.exceptions import ParameterError
from ..core.ragged import Ragged
from ..core.types import Source
from ..core.validation import check_flag, check_integer
from .lines import Original, as_word, check_digits, naming_line, numbered_lines, parse_int

MULTILABEL = "; for multi-label data use scikit-learn's load_svmlight_file(multilabel=True), OneVsRestClassifier or " \
    "MultiOutputClassifier"
SEVERAL = re.compile(r"[^\s#]*[,;|]")     # a label that looks like several labels


class SvmLight(NamedTuple):
    """Contents of an svmlight file.

    Attributes
    ----------
    X : csr_matrix of float64, shape (n, n_features)
    y : ndarray of float64, shape (n,), or None
        None if the file was read without labels.
    query : ndarray of int64, shape (n,), or None
        The numbers after ``qid:``, where the file has them.
    """

    X: sp.csr_matrix
    y: np.ndarray | None
    query: np.ndarray | None


class Letters(NamedTuple):
    """Handwritten words, letter by letter.

    Attributes
    ----------
    X : Ragged of uint8, item i of shape (length of word i, 128)
        16 rows of 8 binary pixels a letter.
    y : Ragged of int32
        0..25 for a..z.
    fold : ndarray of int32, shape (n_words,)
    """

    X: Ragged
    y: Ragged
    fold: np.ndarray


def read_svmlight(path: Source, *, n_features: int | None = None, zero_based: bool = False,
                  unlabelled: bool = False) -> SvmLight:
    """Reads svmlight, an example a line: ``label [qid:number] index:value [index:value] [# comment]``.

    Parameters
    ----------
    path : str, path or file
        Plain or packed by gzip, bzip2 or xz, which the first bytes tell.
    n_features : int, optional
        By default the largest index that occurs; give it where a test file lacks features of the training file.
    zero_based : bool
        Whether indices start at 0 instead of 1.
    unlabelled : bool
        Whether lines may lack the label; where there is one, it is skipped.

    Returns
    -------
    SvmLight
        `X, y, query`. Indices of a line must increase.

    Examples
    --------
    >>> import tempfile, os
    >>> from pybundle.datasets import read_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "two.svm")
    ...     with open(path, "w") as file:
    ...         _ = file.write("+1 1:0.5 3:2 # first\\n-1 2:1\\n")
    ...     X, y, query = read_svmlight(path)
    >>> X.toarray().tolist(), y.tolist(), query
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], [1.0, -1.0], None)
    """
    n_features = None if n_features is None else check_integer("n_features", n_features, low=1, high=2**62)
    for name, flag in (("zero_based", zero_based), ("unlabelled", unlabelled)):
        check_flag(name, flag)
    shift = 0 if zero_based else 1
    y, query, indptr, indices, values, numbers = [], [], [0], [], [], []
    lines = numbered_lines(path)
    for number, line in lines:
        text = line.partition("#")[0]
        fields = text.split()
        if not fields:
            continue
        with naming_line(path, number, line):
            check_digits(text)
            first = 0 if unlabelled and ":" in fields[0] else 1
            if not unlabelled:
                if ":" in fields[0]:
                    several = any(SEVERAL.match(later) for _, later in lines)
                    raise ValueError(f"no label stands before {fields[0]:.40}" + (
                        MULTILABEL if several else "; pass unlabelled=True if no line has one"))
                y.append(_label(fields[0]))
            numbers.append(number)
            if isinstance(path, Original):
                start = line.index(fields[0])
                end = start + len(fields[0]) if first else start
                path.mark(number, start, end, partial(as_word, after="" if first else " "))
            if len(fields) > first and fields[first].startswith("qid:"):
                query.append(_query(fields[first]))
                first += 1
            if len(query) not in (0, len(numbers)):
                raise ValueError("every line has a qid or none has; fill in those that are missing")
            before = shift - 1
            for field in fields[first:]:
                name, colon, value = field.partition(":")
                try:
                    index, amount = parse_int(name), float(value)
                except ValueError as problem:
                    what = f"{problem}; expected index:value" if colon else f"expected index:value{MULTILABEL}"
                    raise ValueError(f"{what}, got {field!r:.40}") from problem
                if index <= before:
                    raise ValueError(f"index {index} " + ("is no feature; pass zero_based=True if they start at 0"
                                                          if index < shift else "must increase within the line"))
                before = index
                indices.append(index - shift)
                values.append(amount)
            indptr.append(len(indices))
            if n_features is not None and before - shift >= n_features:
                raise ValueError(f"index {before} lies beyond n_features = {n_features}; raise that, or leave it out")
    n = len(numbers)
    if not n:
        raise ParameterError(f"{name_of(path)} holds no example; give a line 'label index:value ...' for each")
    values = np.array(values, dtype=np.float64)
    y = np.array(y, dtype=np.float64)
    for array, examples in ((values, np.repeat(np.arange(n), np.diff(indptr))), (y, np.arange(len(y)))):
        if not np.isfinite(array).all():
            j = int(np.flatnonzero(~np.isfinite(array))[0])
            i = examples[j]
            raise ParameterError(f"{name_of(path)}, line {numbers[i]}: example {i} must hold finite numbers, got "
                                 f"{array[j]}; fill in another number or leave the line out")
    indices = np.array(indices, dtype=np.int64)
    width = n_features or int(indices.max(initial=-1)) + 1
    X = sp.csr_matrix((values, indices, indptr), shape=(n, width))  # SciPy chooses int32 indices if they suffice
    return SvmLight(X, None if unlabelled else y, np.array(query, dtype=np.int64) if query else None)


def _query(text):
    try:
        return parse_int(text[4:])
    except ValueError as problem:
        raise ValueError(f"{problem!s:.60}; expected qid:number") from problem


def _label(text):
    try:
        return float(text)
    except ValueError as problem:
        remedy = MULTILABEL if SEVERAL.match(text) else "; write classes as integers"
        raise ValueError(f"{problem!s:.60}{remedy}") from problem


def read_letters(path: Source) -> Letters:
    """Reads ``letter.data``, the handwritten words of Kassel in the form of Taskar, Guestrin and Koller (2004).

    A line is a letter: ``id letter next_id word_id position fold`` and 128 pixels 0 or 1; next_id is -1 at the end of
    a word, position counts from 1.

    Parameters
    ----------
    path : str, path or file
        Plain or packed by gzip, bzip2 or xz.

    Returns
    -------
    Letters
        `X, y, fold`, word by word in the order of the file.

    Examples
    --------
    >>> import tempfile, os
    >>> from pybundle.datasets import read_letters
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "letter.data")
    ...     with open(path, "w") as file:
    ...         _ = file.write("1 o 2 1 1 0" + " 0" * 128 + "\\n")
    ...         _ = file.write("2 m -1 1 2 0" + " 1" * 128 + "\\n")
    ...     X, y, fold = read_letters(path)
    >>> len(X), X[0].shape, y[0].tolist(), fold.tolist()
    (1, (2, 128), [14, 12], [0])
    """
    pixels, labels, sizes, folds = [], [], [], []
    size, expected, word, fold = 0, None, None, None
    number, line = 0, ""
    for number, line in numbered_lines(path):
        fields = line.split()
        if not fields:
            continue
        with naming_line(path, number, line):
            if len(fields) != 134:
                raise ValueError(f"expected 6 columns and 128 pixels, got {len(fields)} columns")
            identity, following, this_word, position = map(parse_int, (fields[0], *fields[2:5]))
            this_fold = parse_int(fields[5], bits=31)
            if fields[1] not in string.ascii_lowercase or len(fields[1]) != 1:
                raise ValueError(f"the letter must be one of a..z, got {fields[1]!r}")
            if size == 0:
                word, fold = this_word, this_fold
            elif (identity, this_word, this_fold) != (expected, word, fold):
                raise ValueError(f"letter {expected} of word {word}, fold {fold}, is to follow, got letter {identity} "
                                 f"of word {this_word}, fold {this_fold}")
            size += 1
            if position != size:
                raise ValueError(f"expected position {size} of word {word}, got {position}")
            if set(fields[6:]) - {"0", "1"}:
                raise ValueError("pixels must be 0 or 1")
            pixels.append("".join(fields[6:]))
            labels.append(string.ascii_lowercase.index(fields[1]))
            expected = following
            if following == -1:
                sizes.append(size)
                folds.append(fold)
                size = 0
    if size or not sizes:
        raise ParameterError(f"{name_of(path)}, line {number}: the file ends with{'in' if size else 'out'} a word")
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = np.frombuffer("".join(pixels).encode(), dtype=np.uint8).reshape(-1, 128) - ord("0")
    return Letters(Ragged(X.astype(np.uint8, copy=False), offsets), Ragged(np.array(labels, dtype=np.int32), offsets),
                   np.array(folds, dtype=np.int32))
