"""Treebanks in the CoNLL-U format of Universal Dependencies."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ..core.archive import name_of
from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import Source
from ..core.validation import check_integer
from .lines import Original, numbered_lines

N_COLUMNS = 10
LEFT_OUT = re.compile(r"[0-9]+[-.][0-9]+")


class Sentence(NamedTuple):
    """Words of one sentence; the lists hold one entry for each of the n words.

    Attributes
    ----------
    forms, lemmas, upos, xpos, relations : list of str
        Columns 2, 3, 4, 5 and 8, underscores included.
    heads : ndarray of int32, shape (n + 1,)
        Head of every word, 0 for the root; `heads[0] = -1` stands for the root itself.
    """

    forms: list[str]
    lemmas: list[str]
    upos: list[str]
    xpos: list[str]
    heads: np.ndarray
    relations: list[str]


def read_conllu(source: Source, max_sentences: int | None = None, *, unlabelled: bool = False) -> list[Sentence]:
    """Sentences of a CoNLL-U file; multiword tokens (`1-2`) and empty nodes (`8.1`) are left out.

    Parameters
    ----------
    source : str, path or file
        Gzipped files are recognised by their first bytes; an open file may give text or bytes in UTF-8.
    max_sentences : int, optional
        Stop after that many.
    unlabelled : bool
        Do not look at the heads, which are all 0 then.

    Returns
    -------
    list of Sentence

    Raises
    ------
    ParameterError
        Naming the line, where one has not ten columns or an empty one, ids do not count from 1, or a head is not a
        word of the sentence or 0. Whether the heads form a tree is not looked at.

    Examples
    --------
    >>> import io
    >>> from pybundle.datasets import read_conllu
    >>> rows = ["1 Dogs dog NOUN NNS _ 2 nsubj _ _",
    ...         "2 bark bark VERB VBP _ 0 root _ _", ""]
    >>> sentence, = read_conllu(io.StringIO("\\n".join(rows).replace(" ", "\\t")))
    >>> sentence.forms, sentence.upos, sentence.heads.tolist()
    (['Dogs', 'bark'], ['NOUN', 'VERB'], [-1, 2, 0])
    """
    if not isinstance(unlabelled, (bool, np.bool_)):
        raise InputTypeError(f"unlabelled must be True or False, got {type(unlabelled).__name__}")
    if max_sentences is not None:
        max_sentences = check_integer("max_sentences", max_sentences, low=1)
    sentences, name = [], name_of(source)
    rows: list[tuple[int, list[str]]] = []
    for number, line in numbered_lines(source):
        line = line.rstrip("\r\n")
        if not line.strip(" \t"):
            if rows:
                sentences.append(_sentence(rows, name, unlabelled))
                rows = []
            if len(sentences) == max_sentences:
                break
        elif line[0] != "#":
            row = line.split("\t")
            if len(row) != N_COLUMNS:
                raise ParameterError(f"{name}, line {number}: a token must have {N_COLUMNS} columns between tabs, "
                                     f"got {len(row)}")
            if "" in row:
                raise ParameterError(f"{name}, line {number}: column {row.index('') + 1} is empty; write _ there")
            if row[0].isdecimal():
                if row[0] != str(len(rows) + 1):
                    raise ParameterError(f"{name}, line {number}: ids must count words from 1, expected "
                                         f"{len(rows) + 1}, got {row[0]:.60}; is an empty line missing before it?")
                rows.append((number, row))
                if isinstance(source, Original):        # relations of the file would be wrong under other heads
                    start, end = (len("\t".join(row[:k])) for k in (6, 9))
                    source.mark(number, start + 1, end, "{}\t_\t_".format)
            elif not LEFT_OUT.fullmatch(row[0]):
                raise ParameterError(f"{name}, line {number}: an id must be like 3, 3-4 or 3.1, got {row[0]!r:.60}")
    if rows:
        sentences.append(_sentence(rows, name, unlabelled))
    return sentences


def _sentence(rows, name, unlabelled):
    heads = np.empty(len(rows) + 1, np.int32)
    heads[0] = -1
    words = {str(k) for k in range(len(rows) + 1)}
    for k, (number, row) in enumerate(rows, 1):
        if unlabelled:
            heads[k] = 0
            continue
        if row[6] not in words or row[6] == str(k):
            raise ParameterError(f"{name}, line {number}: the head (column 7) of word {k} must be 0 or another word "
                                 f"1..{len(rows)}, got {row[6]!r:.60}")
        heads[k] = int(row[6])
    columns = list(zip(*(row for _, row in rows), strict=True))
    return Sentence(list(columns[1]), list(columns[2]), list(columns[3]), list(columns[4]), heads, list(columns[7]))
