"""Check that figures of pages occur in the tables of results that stand beside them: `python check_figures.py ROOT`.

Where a paragraph names a table, such as `race.md`, each number is a figure of the table that it names next, or else of
the one named last; several names may stand together. A table of the page belongs to the paragraph above it. A figure
must equal a number of its table, rounded to as many decimals.
"""

import re
import sys
from pathlib import Path

PAGES = ("README.md", "docs/index.rst", "docs/compare.rst", "docs/measured.rst")
NUMBER = r"(?<![\w.-])(?:\d+(?:\.\d+)?|\.\d+)(?:e-?\d+)?(?![\w-])"
TOKEN = re.compile(rf"(?P<figure>{NUMBER})|(?P<table>(?:papers/)?\b\w+)\.md(?![a-z])")


def blocks(page):
    """Return the items of lists and the paragraphs, each with the table behind it; no code and no targets of links."""
    code = r"``([^`]*)``" if page.suffix == ".rst" else r"`([^`]*)`"
    text = re.sub(code, lambda found: found[1] if found[1].endswith(".md") else "", page.read_text(encoding="utf-8"))
    parts = re.split(r"\n\s*\n(?!\s*[=|])|\n\s*(?=\* )", text)
    return [part for part in parts if not part.startswith(("..", "```"))]


def quoted(block):
    """Return pairs of the matches of figures and the names of the tables that they belong to."""
    groups = [([], [])]
    for match in TOKEN.finditer(block):
        if match["table"]:
            groups[-1][1].append(match["table"])
            continue
        if groups[-1][1]:
            groups.append(([], []))
        groups[-1][0].append(match)
    if len(groups) > 1 and not groups[-1][1]:
        groups[-1] = groups[-1][0], groups[-2][1]
    return groups


def occurs(figure, numbers):
    """Return whether one of the numbers, rounded to the decimals of the figure, equals it."""
    half = 0.0 if "e" in figure else 0.5 * 10.0 ** -len(figure.partition(".")[2])
    return any(abs(number - float(figure)) <= half * (1.0 + 1e-9) for number in numbers)


def stale(root):
    """Yield (page, text around the figure, figure, tables) for each figure that is in none of its tables."""
    for page in PAGES:
        for block in blocks(root / page):
            for figures, names in quoted(block):
                names = list(dict.fromkeys(names))
                tables = [root / "asv_benchmarks" / "results" / f"{name}.md" for name in names]
                numbers = [float(number) for table in tables if table.is_file()
                           for number in re.findall(NUMBER, table.read_text(encoding="utf-8"))]
                for match in figures if numbers else ():
                    if not occurs(match["figure"], numbers):
                        around = " ".join(block[max(match.start() - 60, 0):match.end() + 20].split())
                        yield page, around, match["figure"], names


if __name__ == "__main__":
    found = list(stale(Path(sys.argv[1]).resolve()))
    for page, around, figure, names in found:
        print(f"{page}: '.. {around} ..' quotes {figure}, which is not in {'.md, '.join(names)}.md", file=sys.stderr)
    sys.exit(bool(found))
