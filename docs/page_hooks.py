"""Hooks of the documentation build: formulas and norms of docstrings, members of classes, names with their links."""

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

CODE_OR_BAR = re.compile(r"``.*?``|`[^`]*`|\|")
NAME = re.compile(r"(?:pb\.|pybundle\.)?([A-Za-z_][\w.]*)(?:\(.*\))?")
FOLDERS = ("", "risks.", "models.", "prox.", "plotting.", "mkl.")    # of names that pages may write without a folder
ROOT = Path(__file__).parents[1]
CODE = "https://github.com/pybundle/pybundle/blob/main/"
TABLES = {path.name: path for path in (ROOT / "asv_benchmarks" / "results").rglob("*.md")}
FORMULA = re.compile(r" *[FRp]\([^)]*\) (=|proportional to) ")
# what docstrings write for readers of help(), and its TeX, in the order of replacement
TEX = [(r"\[ (.*) \]", r"\\left[ \1 \\right]"), (r"(?<= )(\|[^|]*\|\^2|[^\s()]+) / \(2 C\)", r"\\frac{\1}{2 C}"),
       (r" \| ", r" \\mid "), (r"\|(\w)\|", r"\\|\1\\|"), (r"_([a-z]{2,})\b", r"_{\1}"), (r" {2,}", r" \\qquad "),
       (r"(?<! )>", r" \\rangle "), (r"<(?![= ])", r"\\langle "), (r"!=", r"\\ne"), (r">=", r"\\ge"), (r"<=", r"\\le"),
       (r"proportional to", r"\\propto"), (r"(sum|min|max) over (\w+) of", r"\\\1_{\2}"), (r"\bl1\b", r"\\texttt{l1}"),
       (r"(?<![\\\w])(sum|max|min|log|exp|rho|alpha|epsilon|nu|Psi|psi)(?![a-z])", r"\\\1"), (r"\blam\b", r"\\lambda"),
       (r"((?<=\w) |(?<![\\\w]))((?:[a-z]{2,} )*[a-z]{3,}(?: [a-z]{2,})*(?: (?=[a-z0-9]))?)", r"\\text{\1\2}"),
       (r'\\text\{(\w+)\}="\\text\{(\w+)\}"', r'\\texttt{\1="\2"}')]


def typeset(app, what, name, obj, options, lines):
    """A paragraph of a class's docstring that is a formula, such as ``F(w) = |w|^2 / (2 C) + ...``, becomes TeX."""
    k = 0
    while what == "class" and k < len(lines):
        end = next((j for j in range(k, len(lines)) if not lines[j].strip()), len(lines))
        if FORMULA.match(lines[k]):
            rows = [row.strip().replace("=", "&=", 1) for row in lines[k:end]] if end - k > 1 else [lines[k].strip()]
            for pattern, tex in TEX:
                rows = [re.sub(pattern, tex, row) for row in rows]
            lines[k:end] = ["", ".. math::", "", *(f"   {row} \\\\" for row in rows[:-1]), f"   {rows[-1]}"]
            end += 3
        k = end + 1


def list_names(app, page, source):
    """The overview of the reference gets a section for each of its pages, with the names there and their lines."""
    if page != "api":
        return
    for name in re.findall(r"^   (api/\w+)$", source[0], re.M):
        text = (Path(app.srcdir) / f"{name}.rst").read_text(encoding="utf-8")
        names = re.findall(r"^(?:   ~|\.\. autoclass:: )(pybundle\.\S+)$", text, re.M)
        heading = f":doc:`{text.partition(chr(10))[0]} <{name}>`"
        source[0] += f"\n{heading}\n{'-' * len(heading)}\n\n.. autosummary::\n   :nosignatures:\n\n"
        source[0] += "".join(f"   ~{name}\n" for name in names)


def escape_norms(app, what, name, obj, options, lines):
    """Docstrings write norms as |w|, which reStructuredText reads as a substitution, except in literal blocks."""
    before = None       # indentation of the line that begins the present literal block
    for k, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if before is not None and line.strip() and indent <= before:
            before = None
        if before is not None:
            continue
        if line.endswith("::"):
            before = indent
        if not line.lstrip().startswith((">>>", "...", ".. ")):
            lines[k] = CODE_OR_BAR.sub(lambda match: r"\|" if match[0] == "|" else match[0], line)


def skip_foreign(app, what, name, obj, skip, options):
    """Pages of classes list members that the package documents, not those of scikit-learn, dict or tuple."""
    function = getattr(obj, "fget", None) or getattr(obj, "__func__", obj)
    if what == "class" and not (getattr(function, "__module__", None) or "").startswith("pybundle"):
        return True
    return None


def link_names(app, doctree, page):
    """``pb.minimize`` and ``MulticlassSVM`` in text become links to their pages, files of the repository to GitHub."""
    domain = app.env.domains["py"]
    for literal in list(doctree.findall(nodes.literal)):
        if isinstance(literal.parent, (nodes.reference, nodes.title, addnodes.desc_signature)):
            continue
        text = literal.astext()
        path = TABLES.get(text.rpartition("/")[2], ROOT / text)
        if ("/" in text or text in TABLES) and ROOT in path.parents and path.exists():
            literal.replace_self(nodes.reference("", "", literal.deepcopy(), refuri=CODE + str(path.relative_to(ROOT))))
            continue
        match = NAME.fullmatch(text)
        places = [f"pybundle.{folder}{match[1]}" for folder in FOLDERS] if match else []
        found = next((domain.objects[place] for place in places if place in domain.objects), None)
        if not found or found.docname == page or text == match[1].lower():
            continue        # a bare word in lower case may be an argument or a file
        address = app.builder.get_relative_uri(page, found.docname) + "#" + found.node_id
        literal.replace_self(nodes.reference("", "", literal.deepcopy(), refuri=address, internal=True))


def setup(app):
    app.connect("source-read", list_names)
    app.connect("autodoc-process-docstring", typeset, priority=800)         # after numpydoc
    app.connect("autodoc-process-docstring", escape_norms, priority=900)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True}
