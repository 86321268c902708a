"""Sphinx settings; build with `sphinx-build -W docs docs/_build` where pybundle is installed."""

import re

import pybundle

project = "pybundle"
author = "The pybundle developers"
copyright = "2026, the pybundle developers"
release = version = pybundle.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
exclude_patterns = ["_build"]
default_role = "code"
html_theme = "alabaster"
html_theme_options = {"description": "certified bundle solvers", "page_width": "1000px"}
html_show_sourcelink = False
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
nitpicky = False

CODE_OR_BAR = re.compile(r"``.*?``|`[^`]*`|\|")


def escape_norms(app, what, name, obj, options, lines):
    """Docstrings write norms as |w|, which reStructuredText takes for a substitution."""
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", ".. ")):
            lines[k] = CODE_OR_BAR.sub(lambda match: r"\|" if match[0] == "|" else match[0], line)


def setup(app):
    app.connect("autodoc-process-docstring", escape_norms, priority=900)   # after numpydoc
