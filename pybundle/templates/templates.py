"""`Templates` makes named features of the tokens of a sentence from their columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..core.exceptions import InputTypeError, ParameterError

OF_ASCII = {code: "X" if chr(code).isupper() else "x" if chr(code).isalpha() else "0" if chr(code).isdigit()
            else chr(code) for code in range(128)}
"""The sign of each ASCII code in shapes; `translate` with this table is fast."""
REPEATED, DIGIT = re.compile(r"(.)\1+", re.DOTALL), re.compile(r"\d")


def _shape(text):
    if text.isascii():
        return text.translate(OF_ASCII)
    return "".join("X" if sign.isupper() else "x" if sign.isalpha() else "0" if sign.isdecimal() else sign
                   for sign in text)


def _runs(text):
    return REPEATED.sub(r"\1", _shape(text))


def _digits(text):
    return DIGIT.sub("0", text) if DIGIT.search(text) else None


def _first(text, size):
    return text[:size] if len(text) >= size else None


def _last(text, size):
    return text[-size:] if len(text) >= size else None


FUNCTIONS: dict[str, Callable[[str], str | None]] = {
    "x": str, "lower": str.lower, "shape": _shape, "runs": _runs, "digits": _digits,
    **{f"{kind}{size}": partial(function, size=size) for size in range(1, 10)
       for kind, function in (("prefix", _first), ("suffix", _last))}}
"""Functions of macros; `digits` of a text without digits, and an affix longer than the text, are None."""
MACRO = re.compile(rf"%({'|'.join(FUNCTIONS)})\[(-?[0-9]{{1,3}}),([0-9]{{1,3}})\]")
REACH = 8
"""Largest distance of a row from the token, as in CRF++."""
MOST_COLUMNS = 1000
"""Largest number of columns of a token; numbers in macros have at most three digits."""
BEFORE = [f"_B-{k}" for k in range(REACH, 0, -1)]
BEHIND = [f"_B+{k}" for k in range(1, REACH + 1)]
"""Values of rows outside of the sentence, as in CRF++."""


class Templates:
    """Templates of features: each makes at most one named feature of every token of a sentence.

    A template is a text with macros ``%function[row,column]``, which are replaced by values: the function of a column
    (from 0) of the token that stands `row` tokens behind, or before if negative. ``%x`` is the column itself, so that
    ``U05:%x[-1,0]/%x[0,0]`` makes ``U05:the/dog`` as in CRF++. The other functions are

    * ``%lower``, in small letters;
    * ``%prefix1`` to ``%prefix9`` and ``%suffix1`` to ``%suffix9``, the first or last letters, if there are as many;
    * ``%shape``, with ``X`` and ``x`` for large and small letters and ``0`` for digits; ``%runs``, the same with one
      sign for a run of equal ones: ``McDonald-12`` is ``XxXxxxxx-00``, and ``XxXx-0``;
    * ``%digits``, with ``0`` for each digit, if there is a digit.

    Outside of the sentence each function is ``_B-1``, ``_B-2``, ... before it and ``_B+1``, ... behind it. A token
    has no feature of a template if a value is missing. Two templates that make the same name share its weight.

    Parameters
    ----------
    lines : sequence of str
        The templates. Rows are -8 to 8.

    Attributes
    ----------
    lines : tuple of str
    n_columns : int
        Number of columns that tokens need; further ones are not read.

    Raises
    ------
    InputTypeError, ParameterError
        If a line is no text, or cannot be read; the error names the line, and a call with other tokens names the token.

    Notes
    -----
    Calls take a time of O(n_templates * n_tokens). `a + b` has the templates of both, each once. Format and border
    values are those of CRF++ 0.58.

    Examples
    --------
    >>> import pybundle as pb
    >>> templates = pb.templates.Templates(["word:%x[0,0]", "pair:%x[-1,1]/%x[0,1]"])
    >>> templates([("Dogs", "NNS"), ("bark", "VBP")])
    [['word:Dogs', 'pair:_B-1/NNS'], ['word:bark', 'pair:NNS/VBP']]
    """

    def __init__(self, lines: Sequence[str]) -> None:
        if not isinstance(lines, (list, tuple)) or not all(isinstance(line, str) for line in lines):
            raise InputTypeError(f"lines must be a list of texts, one for each template, got {lines!r:.60}; "
                                 "pb.templates.read_crfpp reads files")
        self.lines: tuple[str, ...] = tuple(dict.fromkeys(lines))
        if not self.lines:
            raise ParameterError("lines must hold at least one template, got none")
        self._parsed = []
        for k, line in enumerate(self.lines):
            try:
                self._parsed.append(parsed(line))
            except ParameterError as problem:
                raise ParameterError(f"lines[{k}] = {line!r:.60}: {problem}") from problem
        self.n_columns: int = max([1, *(column + 1 for _, macros in self._parsed for *_, column in macros)])

    def __call__(self, tokens: Sequence[Any], name: str = "tokens") -> list[list[str]]:
        """Return the names of the features of each token of a sentence.

        Parameters
        ----------
        tokens : list
            A token is a tuple or list of texts, its columns, or one text, its only column.
        name : str
            Name of the tokens in errors.

        Returns
        -------
        list of list of str
            One sequence for a `ChainSVM` or `ChainCRF` without `templates`.
        """
        rows = [(token,) if isinstance(token, str) else token for token in _listed(tokens, name)]
        for t, row in enumerate(rows):
            if not isinstance(row, (tuple, list)) or len(row) < self.n_columns or \
                    not all(isinstance(value, str) for value in row):
                raise InputTypeError(f"{name}[{t}] must be a tuple of {self.n_columns} or more texts, the columns of a "
                                     f"token{' or a word' * (self.n_columns == 1)}, got {row!r:.60} of type "
                                     f"{type(row).__name__}; the templates make the features")
        n, padded = len(rows), {}

        def values(function, row, column):
            if (function, column) not in padded:
                made = map(FUNCTIONS[function], [token[column] for token in rows])
                padded[function, column] = [*BEFORE, *made, *BEHIND]
            return padded[function, column][REACH + row:REACH + row + n]

        found = []
        for literals, macros in self._parsed:
            names: list[str | None] = [literals[0]] * n
            for literal, macro in zip(literals[1:], macros, strict=True):
                names = [None if name is None or value is None else f"{name}{value}{literal}"
                         for name, value in zip(names, values(*macro), strict=True)]
            found.append(names)
        return [[name for name in names if name is not None] for names in zip(*found, strict=True)]

    def __add__(self, other: Templates) -> Templates:
        return Templates(self.lines + other.lines) if isinstance(other, Templates) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Templates) and self.lines == other.lines

    def __hash__(self) -> int:
        return hash(self.lines)

    def __repr__(self) -> str:
        return f"Templates({list(self.lines)})"


def parsed(line):
    """Return the texts around the macros of a template, and the macros as triples (function, row, column)."""
    pieces = MACRO.split(line)
    literals, macros = pieces[::4], []
    for function, row, column in zip(pieces[1::4], pieces[2::4], pieces[3::4], strict=True):
        if abs(int(row)) > REACH:
            raise ParameterError(f"the row {row} must be -{REACH} to {REACH}; take a nearer token")
        macros.append((function, int(row), int(column)))
    for literal in literals:
        macro = re.search("%.{0,12}", literal)
        if macro and re.match("%[mtMTX]", macro[0]):
            raise ParameterError(f"{macro[0]!r} is a macro of Wapiti, which is not read here; write %x[row,column], or "
                                 "put what a regular expression finds into a column of the data")
        if macro:
            raise ParameterError(f"{macro[0]!r} must be a macro like %x[-1,0], a row and a column from 0 without "
                                 "blanks, or %lower, %shape, %runs, %digits, %prefix3, %suffix3 instead of %x")
    return literals, macros


def _listed(tokens, name):
    """Return tokens as a list; refuse a text, a table of numbers, or a single object."""
    if isinstance(tokens, (str, bytes, dict)) or not hasattr(tokens, "__len__"):
        raise InputTypeError(f"{name} must be a list of tokens, each a tuple of its columns or a word, got "
                             f"{tokens!r:.40} of type {type(tokens).__name__}; split texts into tokens")
    return tokens if isinstance(tokens, (list, tuple)) else list(tokens)
