"""Sentences of tokens in columns, one token a line, as in the CoNLL shared tasks before CoNLL-U."""

from __future__ import annotations

from functools import partial
from itertools import chain

from ..core.archive import name_of
from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import Source
from ..core.validation import check_integer
from ..core.warn import warn_user
from .lines import BETWEEN_BLANKS, Original, as_word, numbered_lines, short


def read_conll(path: Source, *, n_columns: int | None = None,
               comment: str | None = None) -> list[list[tuple[str, ...]]]:
    """Reads sentences of tokens in columns, one token a line, an empty line between sentences.

    Parameters
    ----------
    path : str, path or file
        UTF-8, gzipped or not; columns are separated by spaces or tabs.
    n_columns : int, optional
        By default as many as the first line has; any other number on a line is an error.
    comment : str, optional
        Lines that start with it are skipped, too, for instance ``"-DOCSTART-"``.

    Returns
    -------
    list of list of tuple of str
        `sentences[i][t]` are the columns of token t of sentence i.

    Raises
    ------
    ParameterError
        Naming the line, where one has another number of columns.

    Warns
    -----
    UserWarning
        Where the first line looks like names of columns.

    Notes
    -----
    ``#`` begins comments in some files and is a word in others, as in CoNLL-2000. A line at the start of a sentence is
    a comment if a blank or nothing follows the ``#``, and if it has another number of columns than the tokens, or a
    last column that is the label of no token.

    Examples
    --------
    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "two.txt")
    ...     with open(path, "w") as file:
    ...         _ = file.write("He PRP B-NP\\nsleeps VBZ B-VP\\n\\nYes UH O\\n")
    ...     read_conll(path)
    [[('He', 'PRP', 'B-NP'), ('sleeps', 'VBZ', 'B-VP')], [('Yes', 'UH', 'O')]]
    """
    return sentences_of(path, n_columns=n_columns, comment=comment)[0]


def sentences_of(source, *, n_columns=None, comment=None, unlabelled=False):
    """The sentences as `read_conll` returns them, and the number of comments.

    In an `Original` the last field of every token is marked, with `unlabelled` the place behind it.
    """
    n_columns = None if n_columns is None else check_integer("n_columns", n_columns, low=1)
    if comment is not None and (not isinstance(comment, str) or not comment):
        raise InputTypeError(f"comment must be a text that comments begin with, got {comment!r:.40}")
    blocks, n_comments = [([], [])], 0      # of each sentence: lines at its start that may be comments, other tokens
    labels = set()
    for number, line in numbered_lines(source):
        if comment is not None and line.startswith(comment):
            n_comments += 1
            continue
        token = tuple(BETWEEN_BLANKS.findall(line))
        openings, tokens = blocks[-1]
        if not token:
            if openings or tokens:
                blocks.append(([], []))
        elif token[0] == "#" and not tokens:
            openings.append((number, line, token))
        else:
            n_columns = n_columns or len(token)
            tokens.append(_checked(source, number, line, token, n_columns, unlabelled))
            labels.add(token[-1])
    sentences = []
    for openings, tokens in blocks:
        words: list[tuple[str, ...]] = []
        for number, line, token in openings:
            if words or (len(token) == n_columns and (token[-1] in labels or n_columns == 1)):
                words.append(_checked(source, number, line, token, n_columns, unlabelled))
            else:
                n_comments += 1
        if words or tokens:
            sentences.append(words + tokens)
    _hint_at_names(name_of(source), sentences)
    return sentences, n_comments


def _checked(source, number, line, token, n_columns, unlabelled):
    """The token, marked if the source is an `Original`; ParameterError if it has another number of columns."""
    if len(token) != n_columns:
        remedy = "pass comment='#' if this is a comment" if token[0][0] == "#" else \
            "one token a line, an empty line between sentences"
        raise ParameterError(f"{name_of(source)}, line {number}: expected {n_columns} columns, got {len(token)}: "
                             f"{short(line)}; {remedy}")
    if isinstance(source, Original):
        end = len(line.rstrip(" \t\r\n\v\f"))
        start = end - len(token[-1])
        if unlabelled:
            source.mark(number, end, end, partial(as_word, before=line[start - 1:start] or " "))
        else:
            source.mark(number, start, end, as_word)
    return token


def _hint_at_names(name, sentences):
    """Warn of a first token that looks like names of columns: words, and none but the first occurs again below it."""
    first = sentences[0][0] if sentences else ()
    if len(first) < 2 or not all(field.replace("_", "").isalpha() for field in first):
        return
    others = list(chain(*sentences))[1:]
    is_new = not any(a == b for token in others for a, b in zip(token[1:], first[1:], strict=True))
    if is_new and others and 2 * len({token[-1] for token in others}) <= len(others):       # the others repeat labels
        warn_user(f"{name}: {short(' '.join(first))} is read as a token, but no other one is labelled "
                  f"{first[-1]!r:.20}; if these are the names of columns, take the line out", UserWarning)
