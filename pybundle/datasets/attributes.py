"""Read sequences of tokens with named attributes, in the format of CRFsuite."""

from __future__ import annotations

import math
import re
from functools import partial

from ..core.archive import name_of
from ..core.exceptions import ParameterError
from ..core.types import Source
from .lines import Original, as_word, naming_line, numbered_lines, short

ATTRIBUTE = re.compile(r"((?:\\.|[^\\:]|\\$)*)(?::(.*))?", re.DOTALL)
ESCAPED = re.compile(r"\\([\\:])")


def read_attributes(path: Source, *, unlabelled: bool = False) -> tuple[list[list[dict[str, float]]], list[list[str]]]:
    r"""Reads sequences in the format of CRFsuite: a token a line, its label, then its attributes, all between tabs.

    An empty line ends a sequence. An attribute is ``name`` or ``name:value``; in names, ``\:`` is a colon and ``\\`` a
    backslash. Values of an attribute that occurs twice are added.

    Parameters
    ----------
    path : str, path or file
        UTF-8, plain or packed by gzip, bzip2 or xz.
    unlabelled : bool
        Lines have no label, only attributes.

    Returns
    -------
    X : list of list of dict
        `X[i][t]` are the values of token t of sequence i by name, which `ChainSVM` and `ChainCRF` take.
    y : list of list of str
        Labels; empty with `unlabelled`.

    Raises
    ------
    ParameterError
        If a label is empty, a value is no number, or a line begins with ``@``, which stands for weights of sequences;
        the error names file and line.

    Examples
    --------
    >>> import io
    >>> from pybundle.datasets import read_attributes
    >>> read_attributes(io.StringIO("N\tw=dog\tlength:3\n\nN\tw=c\\:\n"))
    ([[{'w=dog': 1.0, 'length': 3.0}], [{'w=c:': 1.0}]], [['N'], ['N']])
    """
    X, rows = attributes_of(path, unlabelled=unlabelled)
    return X, [] if unlabelled else [[row[-1] for row in sequence] for sequence in rows]


def attributes_of(source, *, unlabelled=False):
    """Return the sequences, and the fields of their tokens, the label last; mark labels if `source` is an `Original`.
    """
    X, rows = [[]], [[]]
    for number, line in numbered_lines(source):
        text = line.rstrip("\r\n")
        if not text.strip():
            if X[-1]:
                X.append([])
                rows.append([])
            continue
        fields = tuple(text.split("\t"))
        label = () if unlabelled else fields[:1]
        if not unlabelled and (not label[0].strip() or text[0] == "@"):
            raise ParameterError(f"{name_of(source)}, line {number}: expected a label before the first tab, got "
                                 f"{short(line)}; weights of sequences (@weight) are sample_weight in Python")
        with naming_line(source, number, line):
            X[-1].append(_token(fields[len(label):]))
        rows[-1].append(fields[len(label):] + label)
        if isinstance(source, Original):
            source.mark(number, 0, len("".join(label)),
                        partial(as_word, after="\t" * unlabelled, separator="tab"))
    n = len(X) - (not X[-1])
    return X[:n], rows[:n]


def _token(fields):
    """Return the values of attributes by name; empty fields are no attributes."""
    token = {}
    for field in filter(None, fields):
        name, value = ATTRIBUTE.fullmatch(field).groups()
        try:
            number = 1.0 if value is None else float(value)
            if not math.isfinite(number):
                raise ValueError
        except ValueError:
            raise ParameterError(f"the value {value!r:.40} of {name!r:.40} must be a finite number; a colon that "
                                 r"belongs to the name is written \:") from None
        name = ESCAPED.sub(r"\1", name)
        token[name] = token.get(name, 0.0) + number
    return token
