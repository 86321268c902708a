"""Guess the format of a file from its first lines, if its name does not tell the format: `train.txt.gz`, `a9a`."""

import re
from itertools import dropwhile, islice

from ..datasets.conll import BORDER
from ..datasets.lines import fields_of, numbered_lines
from ..datasets.tables import SEPARATORS, bare_rows

PAIR = re.compile(r"(\d+|qid):[-+.\deE]+")
COMMENT = re.compile(r"#(\s|$)")
N_LINES = 50


def guess(path):
    """Return the text format that the lines look like, or None."""
    try:
        found = dropwhile(lambda line: line.strip()[:1] in ("", "#"), (line for _, line in numbered_lines(path)))
        lines = [line.rstrip("\r\n") for line in islice(found, N_LINES)]
    except ValueError:
        return None
    words = [line.split() for line in lines if line.strip() and line[0] != "#"]
    if not words:
        return None
    pairs = [word for fields in words for word in fields[1:]]
    if pairs and all(map(PAIR.fullmatch, pairs)):
        return "svmlight"
    if all(line.count("\t") == 9 for line in lines if line and line[0] != "#") and words[0][0][0] == "1":
        return "conllu"
    rows = bare_rows("\n".join(lines))
    separators = [separator for separator in SEPARATORS
                  if len(counts := {row.count(separator) for row in rows}) == 1 and counts != {0}]
    if set(separators) - {"\t"}:
        return "csv"
    tokens = [line.strip() for line in lines if line.strip() and not (COMMENT.match(line) or BORDER.match(line))]
    separator = "tab" if any("\t" in line for line in tokens) else "blank"
    widths = {len(fields_of(line, separator)) for line in tokens}
    if len(widths) == 1 and widths != {1} and any(not line.strip() for line in lines):
        return "conll"
    return "csv" if separators else None
