"""Read treebanks in the CoNLL-U format of Universal Dependencies."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ..core.archive import name_of
from ..core.exceptions import ParameterError
from ..core.types import Source
from ..core.validation import check_flag, check_integer
from ..core.warn import warn_user
from .lines import BLANKS, Original, numbered_lines

N_COLUMNS = 10
LEFT_OUT = re.compile(r"[0-9]+[-.][0-9]+")
NAMED = re.compile(r"#\s*(sent_id|text)\s*=\s*(.*)")


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


def read_conllu(source: Source, max_sentences: int | None = None, *, unlabelled: bool = False,
                multiple_roots: bool = False, skip_bad: bool = False) -> list[Sentence]:
    """Sentences of a CoNLL-U file; multiword tokens (`1-2`) and empty nodes (`8.1`) are left out.

    Parameters
    ----------
    source : str, path or file
        Plain or packed by gzip, bzip2 or xz; an open file may give text or bytes in UTF-8.
    max_sentences : int, optional
        Stop after that many.
    unlabelled : bool
        Do not look at the heads, which are all 0 then.
    multiple_roots : bool
        Whether several words of a sentence may hang on the root.
    skip_bad : bool
        Leave sentences out whose heads are no tree, with a warning that counts them.

    Returns
    -------
    list of Sentence

    Raises
    ------
    ParameterError
        Naming the line, where one has not ten columns or an empty one, or ids do not count from 1; naming the sentence,
        too, where the heads are no tree: one is no other word of the sentence, a second word hangs on the root, or
        words form a cycle.

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
    for flag, value in (("unlabelled", unlabelled), ("multiple_roots", multiple_roots), ("skip_bad", skip_bad)):
        check_flag(flag, value)
    if max_sentences is not None:
        max_sentences = check_integer("max_sentences", max_sentences, low=1)
    trees = None if unlabelled else "multiple" if multiple_roots else "single"
    return trees_of(source, max_sentences, trees=trees, skip_bad=skip_bad)[0]


def trees_of(source, max_sentences=None, *, trees="single", skip_bad=False, left_out=()):
    """Return the sentences of `read_conllu` and the numbers of those left out, from 0; mark heads in an `Original`.

    `trees` says what heads are accepted: "single" is trees with one word below the root, "multiple" trees with one or
    more, "any" also cycles, None any text. `left_out` are numbers of sentences to leave out, as another file lacks
    them.
    """
    sentences, skipped, name = [], {}, name_of(source)
    rows: list[tuple[int, list[str]]] = []
    said: dict[str, str] = {}

    def end():
        place = len(sentences) + len(skipped)
        heads, problem = _heads(rows, trees)
        if place in left_out:
            skipped[place] = ""
        elif problem is not None:
            number, what = problem
            text = said.get("text", " ".join(row[1] for _, row in rows))
            where = f"line {number}, sentence {said.get('sent_id', place + 1)!s:.40} ({text!r:.50}): {what}"
            if not skip_bad:
                roots = "multiple_roots=True where that is meant, " if "the root" in what else ""
                remedy = "pass unlabelled=True as this file gives no heads" if not place and all(
                    row[6] == "_" for _, row in rows) else f"pass {roots}skip_bad=True to leave such sentences out"
                raise ParameterError(f"{name}, {where}; {remedy}")
            skipped[place] = where
        else:
            for number, row in rows if isinstance(source, Original) else ():
                # a new head also replaces the relation, which belongs to the old head
                at, after = (len("\t".join(row[:k])) for k in (6, 9))
                source.mark(number, at + 1, after, "{}\t_".format)
            _, forms, lemmas, upos, xpos, _, _, relations, *_ = map(list, zip(*(row for _, row in rows), strict=True))
            relations = [relation.strip(BLANKS) for relation in relations]      # as in files, without outer blanks
            sentences.append(Sentence(forms, lemmas, upos, xpos, heads, relations))

    for number, line in numbered_lines(source):
        line = line.rstrip("\r\n")
        if not line.strip(" \t"):
            if rows:
                end()
                rows, said = [], {}
            if len(sentences) == max_sentences:
                break
        elif line[0] == "#":
            if not rows and (found := NAMED.match(line)):
                said[found[1]] = found[2].strip()
        else:
            row = line.split("\t")
            if len(row) != N_COLUMNS:
                raise ParameterError(f"{name}, line {number}: a token must have {N_COLUMNS} columns between tabs, "
                                     f"got {len(row)}")
            if "" in row or not row[7].strip(BLANKS):
                k = row.index("") if "" in row else 7
                raise ParameterError(f"{name}, line {number}: column {k + 1} is empty; write _ there")
            if row[0].isdecimal():
                if row[0] != str(len(rows) + 1):
                    raise ParameterError(f"{name}, line {number}: ids must count words from 1, expected "
                                         f"{len(rows) + 1}, got {row[0]:.60}; is an empty line missing before it?")
                rows.append((number, row))
            elif not LEFT_OUT.fullmatch(row[0]):
                raise ParameterError(f"{name}, line {number}: an id must be like 3, 3-4 or 3.1, got {row[0]!r:.60}")
    if rows:
        end()
    if skipped and not left_out:
        warn_user(f"{name}: {len(skipped)} sentence{'s' * (len(skipped) > 1)} left out; the first: "
                  f"{next(iter(skipped.values()))}", UserWarning)
    return sentences, list(skipped)


def _heads(rows, trees):
    """Return the heads of one sentence, and a pair (line, reason) if the heads are no tree, else None."""
    heads = np.zeros(len(rows) + 1, np.int32)
    heads[0] = -1
    words = {str(k) for k in range(len(rows) + 1)}
    for k, (number, row) in enumerate(rows if trees is not None else (), 1):
        if row[6] not in words or row[6] == str(k):
            return heads, (number, f"the head (column 7) of word {k} must be 0 or another word 1..{len(rows)}, got "
                                   f"{row[6]!r:.60}")
        heads[k] = int(row[6])
    if trees not in ("single", "multiple"):
        return heads, None
    roots = np.flatnonzero(heads == 0).tolist()
    if trees == "single" and len(roots) > 1:
        return heads, (rows[roots[1] - 1][0], f"word {roots[1]} is a second one on the root, beside word {roots[0]}")
    # reached[k] is the word from which a walk upwards first came to word k, or 0
    above, reached = heads.tolist(), [-1] + [0] * len(rows)
    for m in range(1, len(above)):
        k = m
        while not reached[k]:
            reached[k], k = m, above[k]
        if reached[k] == m:
            return heads, (rows[k - 1][0], f"word {k} is on a cycle, its head is word {above[k]}")
    return heads, None
