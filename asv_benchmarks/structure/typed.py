"""Count the public names whose types a type checker knows: those of the API reference, and members of its classes.

It reads what pyright says of the installed package, which covers private modules, too. Stubs of SciPy and scikit-learn
must be installed, or the classes that derive from theirs count as unknown:

    pyright --verifytypes pybundle --ignoreexternal --outputjson | python asv_benchmarks/structure/typed.py

The exit status is 1 if fewer than `--least` percent are known.
"""

import argparse
import importlib
import json
import re
import sys
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "api"


def listed():
    """Return the objects of the API reference."""
    for page in sorted(PAGES.glob("*.rst")):
        for path in re.findall(r"^   ~(pybundle[\w.]+)$", page.read_text(encoding="utf-8"), re.M):
            module, _, name = path.rpartition(".")
            yield getattr(importlib.import_module(module), name)


def public():
    """Return the full names, as pyright spells them, of what the reference lists and of the bases of its classes."""
    for thing in listed():
        for part in thing.__mro__ if isinstance(thing, type) else (thing,):
            if part.__module__.partition(".")[0] == "pybundle":
                yield f"{part.__module__}.{part.__qualname__}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", nargs="?", type=argparse.FileType(), default=sys.stdin, help="pyright's JSON")
    parser.add_argument("--least", type=float, default=99.0, help="percentage asked (default: %(default)s)")
    given = parser.parse_args()
    names = set(public())
    symbols = {symbol["name"]: symbol for symbol in json.load(given.report)["typeCompleteness"]["symbols"]}
    found = [symbol for name, symbol in symbols.items() if name in names or name.rpartition(".")[0] in names]
    unknown = [symbol for symbol in found if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]]
    for symbol in unknown:
        messages = {line["message"].partition("\n")[0].strip() for line in symbol["diagnostics"]}
        print(symbol["name"], *sorted(messages), sep="\n    ")
    share = 100.0 * (1.0 - len(unknown) / len(found))
    print(f"{len(found)} public symbols of {len(symbols)}, {len(unknown)} unknown: {share:.1f} % known")
    return share < given.least


if __name__ == "__main__":
    sys.exit(main())
