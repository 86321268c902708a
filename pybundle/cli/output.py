"""Print results of commands: lines for people, or one JSON document with `--json`."""

import contextlib
import json
import math
import os

from ..core.exceptions import ParameterError

INPUTS = {"data": "DATA", "load": "--load"}
DIGITS = {"gap": ".2e", "passes": ".1f", "seconds": ".3f"}


def check_outputs(arguments, *names):
    """Refuse outputs that would overwrite an input or each other, links followed, before anything is read."""
    seen = [(who, 0 if given == "-" else given) for name, who in INPUTS.items()
            if (given := getattr(arguments, name, None)) is not None]
    for name in names:
        place = getattr(arguments, name)
        if place is not None:
            for who, other in seen:
                if _is_same(place, other):
                    raise ParameterError(f"--{name} {place}: this is the file of {who}; name another one")
            seen.append((f"--{name}", place))


def _is_same(place, other):
    """Return whether two paths are one regular file; `other` may be a descriptor. Devices do not count as files."""
    if os.path.exists(place):
        with contextlib.suppress(OSError):
            return os.path.isfile(place) and os.path.samefile(place, other)
        return False
    return other != 0 and os.path.realpath(place) == os.path.realpath(other)


def json_text(record):
    """Return one JSON document; NaN and infinity, which JSON lacks, become null."""
    return json.dumps(_plain(record), indent=1, allow_nan=False) + "\n"


def print_json(record):
    """Print the document of `json_text`."""
    print(json_text(record), end="")


def _plain(value):
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_rows(rows):
    """Print pairs of a name and a text, without those that have no text."""
    rows = [(name, text) for name, text in rows if text]
    width = max([18, *(len(name) for name, _ in rows)])
    for name, text in rows:
        print(f"  {name:<{width}} {text}")


def shown(name, value):
    """Return a number as all commands print what has this name; others have six digits."""
    return f"{value:{DIGITS.get(name, '.6g')}}" if isinstance(value, float) else str(value)


def print_table(head, rows):
    """Print columns, aligned to the right under their names."""
    rows = [[shown(name, item) for name, item in zip(head, row, strict=True)] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        print("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def certificate(fitted):
    """Return the numbers of the certificate of a fitted estimator by name."""
    return {"objective": fitted.objective_, "lower_bound": fitted.lower_bound_, "gap": fitted.gap_,
            "certified": fitted.certified_, "converged": fitted.converged_, "iterations": fitted.n_iter_,
            "passes": fitted.n_passes_}


def certificate_rows(record):
    """Return rows of the certificate for people."""
    return [("objective", f"{record['objective']:.6f}"), ("lower bound", f"{record['lower_bound']:.6f}"),
            ("relative gap", f"{shown('gap', record['gap'])}   ({'' if record['certified'] else 'not '}certified)"),
            *((name, shown(name, record[name])) for name in ("passes", "seconds") if name in record)]
