"""Sphinx settings; with pybundle installed run `make -C docs html` or `sphinx-build -W docs docs/_build/html`."""

import os
import sys
import warnings
from pathlib import Path

import pybundle

project = "pybundle"
author = "The pybundle developers"
copyright = "2026, the pybundle developers"
release = version = pybundle.__version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "sphinx-mathjax-offline",
              "numpydoc", "sphinx_gallery.gen_gallery", "sphinx_design", "sphinx_copybutton", "page_hooks"]
exclude_patterns = ["_benchmarks", "_build", "gallery", "templates", "sg_execution_times.rst"]
templates_path = ["templates"]
default_role = "code"
autosummary_generate = True           # a page for every public name
autodoc_member_order = "bysource"
autodoc_typehints = "none"            # docstrings state types and shapes
numpydoc_show_class_members = False
nitpicky = True
highlight_language = "none"         # of the numbered lines of algorithms; code says its language

html_theme = "pydata_sphinx_theme"
html_title = "pybundle"
html_favicon = "static/logo.svg"
html_show_sourcelink = False
html_static_path = ["static"]
html_extra_path = ["_benchmarks"] if tags.has("benchmarks") else []     # noqa: F821, Sphinx defines tags
html_css_files = ["pybundle.css"]
html_baseurl = "https://pybundle.readthedocs.io/en/stable/"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
toc_object_entries_show_parents = "hide"
html_theme_options = {
    "logo": {"text": "pybundle", "image_light": "static/logo.svg", "image_dark": "static/logo.svg"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    "switcher": {"json_url": html_baseurl + "_static/switcher.json", "version_match": release},
    "check_switcher": False,            # the pages are built without a network
    "github_url": "https://github.com/pybundle/pybundle",
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "show_prev_next": True,
}
html_sidebars = {page: [] for page in ("index", "quick_start", "compare")}     # they have no pages below

sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["auto_gallery"],
    "filename_pattern": r"\.py$",
    "subsection_order": ["gallery/classes", "gallery/structures", "gallery/solvers"],
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("pybundle",),
    "reference_url": {"pybundle": None},
    "backreferences_dir": "api/generated/gallery",
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
