"""Check links, anchors, and the width of code and formulas in built pages: `python check_pages.py HTML_FOLDER`."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

COLUMNS = 88        # of code that fit on a page without scrolling
SYMBOLS = 70        # in a row of a formula that fit


class Page(HTMLParser):
    """Links, anchors, lines of code and rows of formulas of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.code, self.formulas = [], set(), "", []
        self._in_code = self._in_formula = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self._in_code = self._in_code or tag == "pre"
        self._in_formula = tag == "div" and "math" in (dict(attributes).get("class") or "").split()
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value and tag in ("a", "img", "link", "script"):
                self.links.append(value)

    def handle_endtag(self, tag):
        if tag == "pre":
            self._in_code, self.code = False, self.code + "\n"
        self._in_formula = False

    def handle_data(self, data):
        if self._in_code:
            self.code += data
        if self._in_formula:
            self.formulas += re.split(r"\\\\", data)


def symbols(row):
    """About how many symbols wide a row of TeX is; a fraction counts as what stands above and below its line."""
    row = re.sub(r"\\(begin|end)\{\w+\}|\\[,;:!\[\]]|&", "", row)
    row = re.sub(r"\\(left|right|[Bb]ig+[lr]?|t?frac|bar|tilde|text|operatorname)\b", "", row)
    row = row.replace(r"\qquad", "....").replace(r"\quad", "..")
    return len(re.sub(r"[\s{}_^]", "", re.sub(r"\\([a-zA-Z]+|.)", "x", row)))


def faults(folder):
    """Yield (page, sentence) for every fault; links to other hosts are not followed."""
    paths = (path for path in sorted(folder.rglob("*.html")) if not {"_static", "benchmarks"} & set(path.parts))
    pages = {path: Page(path) for path in paths}
    for path, page in pages.items():
        for line in page.code.splitlines():
            if len(line) > COLUMNS:
                yield path.relative_to(folder), f"code of {len(line)} columns: {line.strip()}"
        for row in page.formulas:
            if symbols(row) > SYMBOLS:
                yield path.relative_to(folder), f"formula of {symbols(row)} symbols in a row: {' '.join(row.split())}"
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme == "mailto":
                yield path.relative_to(folder), f"{link}: a name with @ became an address; write \\@"
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].anchors):
                yield path.relative_to(folder), f"{link} leads nowhere"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1]).resolve()))
    for page, sentence in found:
        print(f"{page}: {sentence}", file=sys.stderr)
    sys.exit(bool(found))
