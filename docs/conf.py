"""Sphinx settings; with pybundle installed run `make -C docs html` or `sphinx-build -W docs docs/_build/html`."""

import os
import re
import warnings

import pybundle

project = "pybundle"
author = "The pybundle developers"
copyright = "2026, the pybundle developers"
release = version = pybundle.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc",
              "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build", "gallery", "sg_execution_times.rst"]
default_role = "code"
autosummary_generate = False          # only tables; the pages list the members
autodoc_member_order = "bysource"
autodoc_typehints = "none"            # docstrings state types and shapes
numpydoc_show_class_members = False
nitpicky = True

html_theme = "pydata_sphinx_theme"
html_title = "pybundle"
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["pybundle.css"]
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
}
html_sidebars = {page: [] for page in ("index", "quick_start", "compare")}     # they have no pages below

sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["auto_gallery"],
    "filename_pattern": r"\.py$",
    "subsection_order": ["gallery/classes", "gallery/structures", "gallery/solvers"],
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": (),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "remove_config_comments": True,
}
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
warnings.filterwarnings("error", category=RuntimeWarning, module="pybundle")

CODE_OR_BAR = re.compile(r"``.*?``|`[^`]*`|\|")


def escape_norms(app, what, name, obj, options, lines):
    """Docstrings write norms as |w|, which reStructuredText reads as a substitution."""
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", ".. ")):
            lines[k] = CODE_OR_BAR.sub(lambda match: r"\|" if match[0] == "|" else match[0], line)


def setup(app):
    app.connect("autodoc-process-docstring", escape_norms, priority=900)   # after numpydoc
