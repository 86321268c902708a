"""Hooks of the documentation build: norms in docstrings, members of classes, links from names in text."""

import re

from docutils import nodes
from sphinx import addnodes

CODE_OR_BAR = re.compile(r"``.*?``|`[^`]*`|\|")
NAME = re.compile(r"(?:pb\.|pybundle\.)?([A-Za-z_][\w.]*)(?:\(.*\))?")


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
    """``pb.minimize`` and ``MulticlassSVM`` in text become links to their pages."""
    domain = app.env.domains["py"]
    for literal in list(doctree.findall(nodes.literal)):
        if isinstance(literal.parent, (nodes.reference, nodes.title, addnodes.desc_signature)):
            continue
        match = NAME.fullmatch(literal.astext())
        found = match and domain.objects.get(f"pybundle.{match[1]}")
        if not found or found.docname == page or literal.astext() == match[1].lower():
            continue        # a bare word in lower case may be an argument or a file
        address = app.builder.get_relative_uri(page, found.docname) + "#" + found.node_id
        literal.replace_self(nodes.reference("", "", literal.deepcopy(), refuri=address, internal=True))


def setup(app):
    app.connect("autodoc-process-docstring", escape_norms, priority=900)   # after numpydoc
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True}
