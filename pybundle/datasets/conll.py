"""Read sentences of tokens in columns, one token a line, as in the CoNLL shared tasks before CoNLL-U."""

from __future__ import annotations

import re
from functools import partial
from itertools import dropwhile

from ..core.archive import name_of
from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import Source
from ..core.validation import check_choice, check_integer
from ..core.warn import warn_user
from .lines import BLANKS, Original, as_word, fields_of, numbered_lines, short

BORDER = re.compile(r"-DOCSTART-(?![^ \t\r\n\v\f])")
"""Start of a line between two documents; a token that only begins so, like -DOCSTART-ed, does not match."""


def read_conll(path: Source, *, n_columns: int | None = None, comment: str | None = None,
               separator: str | None = None) -> list[list[tuple[str, ...]]]:
    """Reads sentences of tokens in columns, one token a line, an empty line between sentences.

    Parameters
    ----------
    path : str, path or file
        UTF-8, plain or packed by gzip, bzip2 or xz.
    n_columns : int, optional
        By default as many as the first line that does not begin with ``#``; any other number on a line is an error.
    comment : str, optional
        Lines that start with it are skipped, too.
    separator : {"tab", "blank"}, optional
        What separates columns: tabs, so that tokens may hold spaces and no column may be empty, or any run of spaces
        and tabs. By default tabs if a token of the file has one between its columns.

    Returns
    -------
    list of list of tuple of str
        `sentences[i][t]` are the columns of token t of sentence i.

    Warns
    -----
    UserWarning
        Where the first line looks like names of columns.

    Notes
    -----
    A line whose first column is ``-DOCSTART-``, as in CoNLL-2003, ends a sentence and is no token.

    ``#`` begins comments in some files and is a word in others. A line at the start of a sentence is a comment if its
    first column is ``#`` and it has another number of columns than tokens have, or its last column is the label of no
    token.

    Examples
    --------
    >>> import tempfile, os
    >>> from pybundle.datasets import read_conll
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "two.txt")
    ...     with open(path, "w") as file:
    ...         _ = file.write("He PRP B-NP\\nsleeps VBZ B-VP\\n\\nYes UH O\\n")
    ...     read_conll(path)
    [[('He', 'PRP', 'B-NP'), ('sleeps', 'VBZ', 'B-VP')], [('Yes', 'UH', 'O')]]
    """
    return sentences_of(path, n_columns=n_columns, comment=comment, separator=separator)[0]


def sentences_of(source, *, n_columns=None, comment=None, separator=None, unlabelled=False):
    """Return the sentences of `read_conll` and the number of comments; mark the labels if `source` is an `Original`."""
    n_columns = None if n_columns is None else check_integer("n_columns", n_columns, low=1)
    if comment is not None and (not isinstance(comment, str) or not comment):
        raise InputTypeError(f"comment must be a text that comments begin with, got {comment!r:.40}")
    blocks, n_comments = [[]], 0
    for number, line in numbered_lines(source):
        text = line.strip(BLANKS)
        if comment is not None and line.startswith(comment):
            n_comments += 1
        elif text and not BORDER.match(text):
            blocks[-1].append((text, number, line))
        elif blocks[-1]:
            blocks.append([])
    if separator is None:
        has_tab = any("\t" in text for block in blocks for text, *_ in dropwhile(_is_hash, block))
        separator = "tab" if has_tab else "blank"
    check_choice("separator", separator, ("tab", "blank"))
    lines = [line for block in blocks for *_, line in dropwhile(_is_hash, block)]
    n_columns = n_columns or (len(fields_of(lines[0], separator)) if lines else 0)
    sure = [fields_of(line, separator, n_columns) for line in lines]
    labels, has_labels = {token[-1] for token in sure}, n_columns > 1 and not unlabelled

    def is_comment(row):
        token = fields_of(row[2], separator, n_columns)
        return _is_hash(row) and (len(token) != n_columns or (has_labels and token[-1] not in labels))

    sentences, name = [], name_of(source)
    for block in blocks:
        rows = [(fields_of(row[2], separator, n_columns), *row[1:]) for row in dropwhile(is_comment, block)]
        n_comments += len(block) - len(rows)
        for token, number, line in rows:
            if "" in token:
                raise ParameterError(f"{name}, line {number}: column {token.index('') + 1} is empty: {short(line)}; "
                                     "write _ there, or pass separator='blank' if several tabs count as one")
            if len(token) != n_columns:
                remedy = "pass comment='#' to skip such lines" if line[0] == "#" else \
                    "tabs separate; pass separator='blank' if blanks do, too" if separator == "tab" else \
                    "one token a line, an empty line between sentences, no line of names"
                raise ParameterError(f"{name}, line {number}: expected {n_columns} columns, got {len(token)}: "
                                     f"{short(line)}; {remedy}")
            if isinstance(source, Original):
                end = len(line.rstrip(BLANKS))
                start = end - len(token[-1])
                before = "" if not unlabelled else "\t" if separator == "tab" else line[start - 1:start] or " "
                source.mark(number, end if unlabelled else start, end,
                            partial(as_word, before=before, separator=separator))
        if rows:
            sentences.append([token for token, *_ in rows])
    if len(sure) > 1:
        _hint_at_names(name, *sure)
    return sentences, n_comments


def _is_hash(row):
    """Return whether the first word of a line is `#`."""
    return row[0][0] == "#" and not row[0][1:2].strip(BLANKS)


def _hint_at_names(name, first, *others):
    """Warn of a first token that looks like names of columns: its fields after the first occur in no other token."""
    # where most labels occur only once, a new label is no hint
    repeats = 2 * len({token[-1] for token in others}) <= len(others)
    is_new = not any(a == b for token in others for a, b in zip(token[1:], first[1:], strict=True))
    if len(first) > 1 and repeats and is_new and all(field.replace("_", "").isalpha() for field in first):
        warn_user(f"{name}: {short(' '.join(first))} is read as a token, but no other one is labelled "
                  f"{first[-1]!r:.20}; if these are the names of columns, take the line out", UserWarning)
