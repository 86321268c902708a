"""Compares what code prints with what a page shows: words exactly, numbers to the digits that they may differ in."""

import re

NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")


def assert_prints(printed, shown):
    """`printed` has the words of `shown`, and its numbers to two units of the last digit shown, or to 0.1 %.

    Objectives and bounds differ by less than their gap where sums are rounded in another order, on another machine;
    gaps and passes may differ by a quarter there, and seconds are not compared.
    """
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
    for (name, number), (_, wanted) in zip(_readings(printed), _readings(shown), strict=True):
        assert name == "seconds" or abs(float(number) - float(wanted)) <= _tolerance(name, wanted), \
            f"{name} {number} is printed, {wanted} is shown"


def _tolerance(name, shown):
    if name in ("gap", "passes"):
        return 0.25 * abs(float(shown)) + 1e-12
    mantissa, _, exponent = shown.partition("e")
    digits = len(mantissa.partition(".")[2])
    return 0.0 if not digits and not exponent else max(2.1 * 10.0 ** (int(exponent or 0) - digits),
                                                       1e-3 * abs(float(shown)))


def _readings(text):
    """(name, number) of every number: the column of a table, or the word in front, or behind where that is "passes"."""
    header = []
    for line in text.splitlines():
        columns, numbers = re.split("  +", line.strip()), list(NUMBER.finditer(line))
        if not numbers:
            header = columns
        elif len(numbers) == len(header) == len(columns):
            yield from zip(header, columns, strict=True)
        else:
            for found in numbers:
                words = re.findall("[a-z]+", line[:found.start()])
                behind = line[found.end():].split()[:1]
                yield "passes" if behind == ["passes"] else words[-1] if words else "", found[0]
