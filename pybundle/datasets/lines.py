"""Read numbered lines of text files, plain or packed; errors name file and line."""

import contextlib
import io
import re
import zlib
from importlib import import_module
from itertools import accumulate
from os import PathLike

from ..core.archive import name_of
from ..core.exceptions import InputTypeError, ParameterError

LONGEST = 1 << 28
"""Largest number of bytes of a line: a small packed file may hold a line that does not fit into memory."""
BETWEEN_BLANKS = re.compile(r"[^ \t\r\n\v\f]+")
"""Pattern of a column. Only ASCII blanks separate columns, since numbers in French texts hold blanks of Unicode."""
BLANKS = " \t\r\n\v\f"
BOM = "\ufeff"
PACKED = {"gzip": rb"\x1f\x8b", "bz2": rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", "lzma": rb"\xfd7zXZ\0"}
"""Patterns of the first bytes of packed files, by the module that reads them; lzma reads `.xz`."""
PACKED_END = re.compile(r"\.(gz|bz2|xz)$", re.IGNORECASE)
"""The end of the name of a packed file."""


class Original:
    """A source that keeps the text that a reader reads, and the places of labels that the reader marks."""

    def __init__(self, source):
        self.source, self.lines, self._fields = source, [], []

    def __str__(self):
        return name_of(self.source)

    def mark(self, number, start, end, written):
        """Mark `line[start:end]` as the place of the next label; `written(label)` returns the text to put there."""
        self._fields.append((number, start, end, written))

    def line_of(self, k):
        """Return the number of the line of label k."""
        return self._fields[k][0]

    def filled(self, labels):
        """Return the text in UTF-8 with new labels, in the order of the text, and every other byte as it was."""
        text, starts = "".join(self.lines), [0, *accumulate(map(len, self.lines))]
        pieces, done, bom = [], 0, text.startswith(BOM)
        for (number, start, end, written), label in zip(self._fields, labels, strict=True):
            shift = starts[number - 1] + (bom and number == 1)
            pieces += [text[done:shift + start], written(label)]
            done = shift + end
        return "".join([*pieces, text[done:]]).encode()


def as_word(label, before="", after="", separator="blank"):
    """Return the label between `before` and `after`; raise ParameterError if it would not be one column."""
    if not label or fields_of(label, separator) != (label,):
        raise ParameterError(f"the label {label!r:.40} cannot be a column between {separator}s; --json writes any "
                             "label")
    return before + label + after


def fields_of(line, separator, width=None):
    """Return the columns of a line, which runs of blanks ("blank") or single tabs ("tab") separate."""
    if separator == "blank":
        return tuple(BETWEEN_BLANKS.findall(line))
    fields = tuple(piece.strip(BLANKS) for piece in line.split("\t"))
    return fields if any(fields[width:]) else fields[:width]


def numbered_lines(source):
    """Yield (number from 1, line) of a path, an `Original` or an open file, text or bytes in UTF-8, packed or not.

    A line ends with a line feed, which carriage returns may precede, or with a carriage return alone, as on old Macs.
    """
    original = source if isinstance(source, Original) else None
    for number, line in _lines(source if original is None else original.source):
        if "\0" in line:            # NumPy would drop a zero byte from the end of a label
            raise ParameterError(f"{name_of(source)}, line {number}: a zero byte; text must be in UTF-8")
        if original is not None:
            original.lines.append(line)
        yield number, line.removeprefix(BOM) if number == 1 else line


def _lines(source):
    is_open = hasattr(source, "read")
    if not is_open and not isinstance(source, (str, PathLike)):
        raise InputTypeError(f"source must be a path or an open file, got {type(source).__name__}")
    if is_open and isinstance(source.read(0), str):
        yield from enumerate((line for chunk in source for line in _split(chunk)), 1)
        return
    with contextlib.ExitStack() as stack:
        file = source if is_open else stack.enter_context(open(source, "rb"))
        for _ in range(2):      # a read of a pipe may be short, so the inner reader fills the outer
            file = io.BufferedReader(file)
            stack.callback(file.detach)         # else the reader would close the caller's file
        start, damaged = file.peek(10), ()
        for kind, first in PACKED.items():
            if re.match(first, start):
                module = import_module(kind)        # Python may have been built without bz2 or lzma
                file, damaged = module.open(file), (EOFError, zlib.error, getattr(module, "LZMAError", OSError))
        number, chunks = 0, iter(lambda: file.readline(LONGEST), b"")
        try:
            for number, line in enumerate((line for chunk in chunks for line in _split(chunk)), 1):
                if len(line) >= LONGEST:
                    raise ParameterError(f"{name_of(source)}, line {number}: a line of more than {LONGEST} bytes is no "
                                         "example; a zero byte or a damaged packed file is more likely")
                yield number, line.decode()
        except UnicodeDecodeError as problem:
            raise ParameterError(f"{name_of(source)}, line {number}: {problem}; text must be in UTF-8, plain or "
                                 "packed by gzip, bzip2 or xz") from problem
        except (OSError, *damaged) as problem:
            if not damaged or getattr(problem, "errno", None):      # an error of the disk, not of the contents
                raise
            raise ParameterError(f"{name_of(source)}, after line {number}: {problem}; the packed file is "
                                 "damaged") from problem


def _split(chunk):
    """Split a text that ends with a line feed into lines; carriage returns within it end lines, too."""
    cr = "\r" if isinstance(chunk, str) else b"\r"
    if cr not in chunk:
        return [chunk]
    text = chunk.rstrip("\r\n" if cr == "\r" else b"\r\n")
    *first, last = text.split(cr)
    return [*(piece + cr for piece in first), last + chunk[len(text):]]


@contextlib.contextmanager
def naming_line(source, number, line):
    """Turn a ValueError about a line into a ParameterError that names file and line."""
    try:
        yield
    except ValueError as problem:
        raise ParameterError(f"{name_of(source)}, line {number}: {problem!s:.200}: {short(line)}") from problem


def check_digits(text):
    """Refuse numbers that Python reads but other programs do not: `1_000`, and digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError("numbers must be written with the digits 0..9")


def parse_int(text, bits=62):
    """Return the integer that a text denotes; its absolute value is below 2^bits."""
    if len(text) > 40:
        raise ValueError(f"number {text:.20}... is too large")
    check_digits(text)
    number = int(text)
    if abs(number) >= 1 << bits:
        raise ValueError(f"number {text} is too large")
    return number


def short(line):
    """Return a line in quotes, shortened for messages."""
    line = line.strip()
    return repr(line if len(line) <= 60 else line[:57] + "...")
