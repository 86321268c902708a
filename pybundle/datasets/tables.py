"""Read tables of numbers with a column of labels: text with separators, and `.npz` files of arrays."""

from __future__ import annotations

import contextlib
import re
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.archive import name_of, read_npz
from ..core.exceptions import ParameterError
from ..core.types import Source
from ..core.validation import check_flag, check_integer
from ..core.warn import warn_user
from .lines import Original, check_digits, numbered_lines, short

INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,17})")
"""Pattern of labels that are numbers; 007 is a name, because a number would lose its zeros."""
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")
MISSING = frozenset(["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
                     "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"])
"""Texts that pandas reads as missing values."""
SEPARATORS = ",;\t|"
QUOTED = re.compile(r'(?:^|(?<=[,;\t|]))"[^"]*(?:""[^"]*)*"', re.MULTILINE)
EXPECTED = "expected a number"
N_FIRST = 100
"""Number of lines, besides comments, to guess the separator from; many, as quoted names may hold line breaks."""
INDEX_NAMES = ("", "Unnamed: 0", "index")
"""Names that pandas gives its index in a file."""


class Table(NamedTuple):
    """Contents of a table.

    Attributes
    ----------
    X : ndarray of float64, shape (n, d)
    y : ndarray of int64 or str, shape (n,), or None
        Integers where all labels are.
    names : list of str, or None
        What the columns of X are called, where the file says it.
    """

    X: np.ndarray
    y: np.ndarray | None
    names: list[str] | None


class Arrays(NamedTuple):
    """Contents of a file of arrays.

    Attributes
    ----------
    X : ndarray or csr_matrix, shape (n, ...)
    y : ndarray, shape (n,), or None
    offsets : ndarray of int64, or None
        Sequence i is rows `offsets[i]:offsets[i + 1]`, where the rows are tokens.
    """

    X: np.ndarray | sp.csr_matrix
    y: np.ndarray | None
    offsets: np.ndarray | None


def read_csv(source: Source, *, label: Any = "last", keep_na: bool = False) -> Table:
    """Reads numbers in columns, separated by commas, semicolons, tabs or bars, one example a line.

    Parameters
    ----------
    source : str, path or file
        UTF-8, plain or packed by gzip, bzip2 or xz. The first line may name the columns; the separator is the sign that
        splits the first five lines alike, and into most numbers. Fields may stand in quotes, and then hold separators
        and line breaks. Lines that begin with ``#`` are comments; one of as many names as there are columns, above the
        first example, is a line of names.
    label : str, int, callable or None
        The column of labels, numbers or texts: "first", "last", its name, or its number from 1; None if there is
        none. Or a function of the names of all columns, None without a header, and of their number, that returns one of
        these.
    keep_na : bool
        Take labels such as ``NA``, ``nan`` and empty ones as they are. By default all spellings that pandas reads as a
        missing value are refused.

    Returns
    -------
    Table
        `X, y, names`.

    Raises
    ------
    ParameterError
        Naming the line, where one has another number of columns or something else than a finite number.

    Warns
    -----
    UserWarning
        Where the first line counts 0, 1, 2, ... and where the first column is an index, as pandas writes both; where
        two labels are one number, such as ``0`` and ``0.0``.

    Examples
    --------
    >>> import io
    >>> from pybundle.datasets import read_csv
    >>> X, y, names = read_csv(io.StringIO("length,width,kind\\n1.5,2,a\\n3,0.5,b\\n"))
    >>> X.tolist(), y.tolist(), names
    ([[1.5, 2.0], [3.0, 0.5]], ['a', 'b'], ['length', 'width'])
    """
    return table_of(source, label=label, keep_na=keep_na)[0]


def table_of(source, *, label="last", keep_na=False):
    """Return the table of `read_csv` and the number of comments; mark the labels if `source` is an `Original`."""
    check_flag("keep_na", keep_na)
    name = name_of(source)
    place, width, header = None, 0, None
    values, labels = array("d"), []
    numbers: list[int] = []
    comments: list[tuple[int, list[str]]] = []
    rest = numbered_lines(source)
    first, n_bare = [], 0
    while n_bare < N_FIRST and (pair := next(rest, None)):
        first.append(pair)
        n_bare += len(bare_rows(pair[1]))
    separator, lines = _separator(bare_rows("".join(line for _, line in first))[:5]), chain(first, rest)
    for number, line in lines:
        if not line.strip():
            continue
        if line.lstrip()[0] == "#" and line.partition(separator)[0].strip() not in MISSING:
            comments.append((number, line.rstrip("\r\n").split(separator)))
            continue
        try:
            written = _fields(line, lines, separator)
        except ValueError as problem:
            raise ParameterError(f"{name}, line {number}: {problem}: {short(line)}") from problem
        fields = [field[1:-1].replace('""', '"').strip() if field[:1] == '"' else field.strip() for field in written]
        if not width:
            width, named = len(fields), (number, written)
            if _is_header(fields):
                header = fields
            elif comments and (header := _names(comments[-1][1], width)):
                named = comments.pop()
            place = _place(label, header, width, name, f"line {number}: one column only, {short(line)}")
            if header is not None and place is None:
                _mark(source, *named, place, separator)
            if header is fields:
                continue
            if width > 2 and fields == [str(k) for k in range(width)]:
                warn_user(f"{name}, line {number}: 0, 1, 2, ... is taken for an example; if these are the names of "
                          "columns, take the line out", UserWarning)
        if len(fields) != width:
            raise ParameterError(f"{name}, line {number}: expected {width} columns, got {len(fields)}: {short(line)}; "
                                 f"fill in what is missing, put fields that hold {separator!r} in quotes")
        if place is not None:
            labels.append(fields.pop(place))
            if labels[-1] in MISSING and not keep_na:
                what = f"holds {labels[-1]!r}, a missing value" if labels[-1] else "is empty"
                raise ParameterError(f"{name}, line {number}: the label, column {place + 1}, {what}; leave the line "
                                     f"out, or pass keep_na=True to make it a class: {short(line)}")
        _mark(source, number, written, place, separator)
        try:
            text = "".join(fields)
            check_digits(text)
            if "n" in text.lower() and not MISSING.isdisjoint(fields):      # float() accepts "nan"
                raise ValueError("missing values")
            values.extend([float(field) for field in fields])
        except ValueError as problem:
            k, what = _wrong_field(fields)
            column = k + 1 + (place is not None and k >= place)
            remedy = "; encode categories or texts, as OneHotEncoder or TfidfVectorizer do" * what.endswith(EXPECTED)
            if remedy and column == 1 and not numbers and _are_labels_first(chain([(number, line)], lines), separator):
                remedy = "; give label='first' where labels stand first"
            raise ParameterError(f"{name}, line {number}: column {column} {what}: {short(line)}{remedy}") from problem
        numbers.append(number)
    for number, written in comments:
        others = [_is_number(field) for k, field in enumerate(written) if k not in (0, place)]
        if len(written) == width and len(written[0].split()) == 1 and others and all(others):
            raise ParameterError(f"{name}, line {number}: an example must not begin with #, as comments do; put a "
                                 "label in quotes, take an example out, or write '# ' before a comment")
    if not numbers:
        raise ParameterError(f"{name} holds no example; give each a line of numbers and a label, without # before it")
    X = np.frombuffer(values, dtype=np.float64).reshape(len(numbers), -1)
    if not np.isfinite(X).all():
        i, j = np.argwhere(~np.isfinite(X))[0]
        column = j + 1 + (place is not None and j >= place)
        raise ParameterError(f"{name}, line {numbers[i]}: column {column}: numbers must be finite, got {X[i, j]}; "
                             "fill in another number or leave the line out")
    first = X[:, 0] if header is not None and place != 0 and header[0] in INDEX_NAMES else np.full(2, -1.0)
    if (first >= 0).all() and (first == np.floor(first)).all() and len(np.unique(first)) == len(first):
        warn_user(f"{name}: the first column, {header[0]!r}, numbers the lines, as pandas' index does, and is taken "
                  "for a feature; write the file with index=False", UserWarning)
    if header is not None and place is not None:
        header = header[:place] + header[place + 1:]
    plain = [plain_label(label) for label in labels]
    if (are_texts := any(isinstance(label, str) for label in plain)):
        _warn_of_equal_numbers(name, labels)
    y = np.array(labels) if are_texts else np.array(plain, np.int64)
    return Table(X, None if place is None else y, header), len(comments)


def _warn_of_equal_numbers(name, labels):
    """Warn of texts that differ and are one number, such as 0 and 0.0 in files that were joined."""
    written: dict[float, str] = {}
    for text in sorted(set(filter(_is_number, labels))):
        if (other := written.setdefault(float(text), text)) != text:
            warn_user(f"{name}: the labels {other!r} and {text!r} are one number, and two classes here; write them "
                      "alike if one class is meant", UserWarning)
            return


def bare_rows(text):
    """Return the lines of a table without quoted fields, comments and blank lines."""
    text = QUOTED.sub("", text) if '"' in text else text
    return [row for row in re.split("[\r\n]", text) if row.strip() and row.lstrip()[0] != "#"]


def _separator(rows):
    """Return the separator that splits all rows into equally many fields; if several do, the one with most numbers."""
    def fit(sign):
        widths, fields = {row.count(sign) for row in rows}, sign.join(rows).split(sign)
        n_numbers = sum(_is_number(field) or bool(DECIMAL_COMMA.fullmatch(field.strip())) for field in fields)
        return len(widths) == 1 and widths != {0}, n_numbers, -len(fields)
    return max(SEPARATORS, key=fit)


def _fields(line, lines, separator):
    """Return the fields of an example as written, with quotes and blanks; a quoted field may span several lines."""
    # pieces of an open quoted field, and the separators and line ends between them
    fields, pieces, n_quotes, between = [], [], 0, ""
    while line:
        text = line.rstrip("\r\n")
        if not pieces and '"' not in text:          # a shortcut for most lines
            return text.split(separator)
        for piece in text.split(separator):
            if pieces or piece.lstrip()[:1] == '"':
                pieces += [between, piece] if pieces else [piece]
                between = separator
                n_quotes += piece.count('"')
                if n_quotes % 2:
                    continue
                piece, pieces, n_quotes = "".join(pieces), [], 0
                if not QUOTED.fullmatch(piece):
                    raise ValueError("blanks come before a quote; take them out" if piece[0] != '"' else
                                     "text follows the end of a quote in the same column; double the quotes within")
            fields.append(piece)
        if not pieces:
            return fields
        between = line[len(text):]
        line = next(lines, (0, ""))[1]
    raise ValueError("the end of the file comes before the end of a quote; close it, or leave it out")


def _mark(source, number, written, place, separator):
    """Mark the label, or the end of the line if there is none, in an `Original`."""
    if not isinstance(source, Original):
        return
    start = len(separator.join(written[:place])) + bool(place)
    before, field = (separator, "") if place is None else ("", written[place])

    def relabelled(label):      # writes quotes if the old field has them or the label needs them
        if field[:1] == '"' or any(sign in label for sign in (separator, '"', "\r", "\n")) or \
                (place == 0 and label[:1] == "#"):
            return before + '"' + label.replace('"', '""') + '"'
        return before + (field.replace(field.strip(), label, 1) if field.strip() else label)

    source.mark(number, start, start + len(field), relabelled)


def _wrong_field(fields):
    """Return the index of the first field that is no number, and what is wrong with it."""
    k = next(k for k, field in enumerate(fields)
             if not _is_number(field) or "_" in field or not field.isascii() or field in MISSING)
    field = fields[k]
    if not field:
        return k, "is empty; fill in a number or leave the line out"
    if field in ("?", "-") or field.lower() in map(str.lower, MISSING):
        return k, f"holds {field!r}, a missing value; fill in a number or leave the line out"
    if DECIMAL_COMMA.fullmatch(field):
        return k, f"holds {field!r:.40}; numbers must have a decimal point, not a comma"
    if _is_number(field):
        return k, f"holds {field!r:.40}; numbers must be written with the digits 0..9"
    return k, f"holds {field!r:.40}, {EXPECTED}"


def _are_labels_first(lines, separator):
    """Return whether the first column of all lines holds text, and the last one numbers that cannot be labels."""
    rows = [line.strip() for _, line in lines if line.strip() and line.lstrip()[0] != "#"]
    if any(_is_number(row.partition(separator)[0].strip(' "')) for row in rows):
        return False
    last = [row.rpartition(separator)[2].strip(' "') for row in rows]
    return all(map(_is_number, last)) and not (
        1 < len(set(last)) <= max(2, len(rows) // 2) and all(float(field).is_integer() for field in last))


def _names(fields, width):
    """Return the names of columns in a comment, as NumPy writes them, or None for another comment."""
    names = [field.strip("# \t") for field in fields]
    return names if 1 < len(names) == width and all(names) and not any(map(_is_number, names)) else None


def _is_header(fields):
    """Return whether no field is a number, or all fields but one are 0, 1, 2, 3, ..., as pandas names columns."""
    numbers = [field for field in fields if _is_number(field)]
    counted = numbers == [str(k) for k in range(len(fields) - 1)] and len(numbers) > 3
    return not numbers or counted


def _is_number(field):
    with contextlib.suppress(ValueError):
        float(field)
        return True
    return False


def _place(label, header, width, name, one_column):
    """Return the column of labels, counted from 0; `one_column` is for the error of a table with one column."""
    if callable(label):
        label = label(header, width)
    if label is None:
        return None
    if width == 1:
        raise ParameterError(f"{name}, {one_column}, by the separators , ; tab | that were tried; separate labels and "
                             "numbers by one of them, and begin comments with #")
    if isinstance(label, str) and label not in ("first", "last"):
        if header is None or header.count(label) != 1:
            there = "the first line names no columns" if header is None else f"there are {', '.join(header)}"
            raise ParameterError(f"{name}: label must name one column, got {label!r:.40}; {there:.90}; "
                                 "give its number, 'first' or 'last'")
        return header.index(label)
    place = {"first": 1, "last": width}[label] if isinstance(label, str) else check_integer("label", label, low=1)
    if place > width:
        raise ParameterError(f"{name}: label must be one of at least two columns, got {place} of {width}; the first "
                             "one is column 1")
    return place - 1


def plain_label(label):
    """Return the integer that the text of a label denotes, or else the label itself."""
    return int(label) if isinstance(label, str) and INTEGER.fullmatch(label) else label


def read_arrays(source: Source, names: Sequence[str] = ("X", "y", "offsets")) -> Arrays:
    """Reads examples from a `.npz` file, without pickled objects.

    Parameters
    ----------
    source : str, path or binary file
    names : sequence of str
        What the arrays of examples, of labels and, for sequences, of offsets are called. A CSR matrix X consists of
        `X_data`, `X_indices`, `X_indptr` and `X_shape`.

    Returns
    -------
    Arrays
        `X, y, offsets`; None for what is not there.

    Raises
    ------
    ParameterError
        Where the file is damaged, holds objects, claims more than a hundred times its size, or arrays that do not fit.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from pybundle.datasets import read_arrays
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(os.path.join(folder, "two.npz"), X=np.eye(2), y=[0, 1])
    ...     X, y, offsets = read_arrays(os.path.join(folder, "two.npz"))
    >>> X.shape, y.tolist(), offsets
    ((2, 2), [0, 1], None)
    """
    keys = (*names, None, None)[:3]
    place = name_of(source)
    pieces = [f"{keys[0]}_{piece}" for piece in ("data", "indices", "indptr", "shape")]
    found = read_npz(source, {*keys, *pieces}, error=ParameterError)
    X = found.get(keys[0])
    if X is None and all(piece in found for piece in pieces):
        X = _sparse([found[piece] for piece in pieces], place, keys[0])
    if X is None:
        raise ParameterError(f"{place} holds no array {keys[0]!r} and no CSR matrix {', '.join(pieces)}")
    values = X.data if sp.issparse(X) else X
    if X.ndim < 2 or 0 in X.shape or values.dtype.kind not in "biuf":
        raise ParameterError(f"{place}: {keys[0]} must hold numbers, shape (n, d), got dtype {X.dtype}, {X.shape}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ParameterError(f"{place}: {keys[0]} must be finite")
    if X.dtype not in (np.float32, np.float64, np.uint8) or (sp.issparse(X) and X.dtype == np.uint8):
        X = X.astype(np.float32 if X.dtype == np.float16 else np.float64)
    y, offsets = (found.get(key) if key else None for key in keys[1:])
    if y is not None and (y.ndim != 1 or len(y) != X.shape[0]):
        raise ParameterError(f"{place}: {keys[1]} must have shape ({X.shape[0]},) like {keys[0]}, got {y.shape}")
    if offsets is not None:
        if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2 or offsets[0] != 0 \
                or offsets[-1] != X.shape[0] or (offsets[1:] < offsets[:-1]).any():
            raise ParameterError(f"{place}: {keys[2]} must be integers from 0 to {X.shape[0]}, never falling")
        offsets = offsets.astype(np.int64)
    return Arrays(X, y, offsets)


def _sparse(pieces, place, name):
    data, indices, indptr, shape = pieces
    try:
        if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu" or shape.dtype.kind not in "iu":
            raise ValueError("indices, indptr and shape must be integers")
        X = sp.csr_matrix((data, indices, indptr), shape=tuple(shape.tolist()))
        X.check_format(full_check=True)
    except (ValueError, TypeError, IndexError, OverflowError) as problem:
        raise ParameterError(f"{place}: {name} is no CSR matrix: {problem}") from problem
    return X
