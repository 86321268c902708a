"""A folder imports only from itself and from folders at a lower level; `cimport` and `#include` count."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "pybundle"

LEVELS = {
    "core": 0,
    "features": 1, "oracles": 1, "qp": 1, "prox": 1, "bundle": 1, "datasets": 1, "metrics": 1,
    "runtime": 2, "models": 2, "templates": 2,
    "risks": 3,
    "proof": 4,  # shares nothing with what it checks
    "distributed": 4,  # risks whose parts live elsewhere
    "solvers": 5,
    "mkl": 6, "capi": 6,
    "estimators": 7, "plotting": 7,
    "cli": 8,
}  # fmt: skip
TOP = 8  # the command line, and modules that stand in no folder: __init__
SUFFIXES = (".py", ".pyx", ".pxd", ".pxi", ".h")

STRINGS = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'')
FROM = re.compile(r"^[ \t]*from[ \t]+(\.*[\w.]*)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n#]*)", re.M)
IMPORT = re.compile(r"^[ \t]*c?import[ \t]+([\w., \t]+)", re.M)
INCLUDE = re.compile(r'(?:include|extern from)[ \t]+"([^"]+)"')


def imports(path, text):
    """Dotted names of everything below pybundle that a source imports; `path` is relative to the package."""
    package = ("pybundle", *Path(path).parts[:-1])
    found = []
    for dots, module, names in _statements(path, text):
        if dots:
            base = package[: len(package) - dots + 1]
        else:
            base = ()
        target = base + tuple(part for part in module.split(".") if part)
        if target == ("pybundle",) and names:  # "from .. import core": the name is what is imported
            found += [("pybundle", name) for name in names]
        elif target[:1] == ("pybundle",):
            found.append(target)
    for name in INCLUDE.findall(text) if not path.endswith(".py") else ():
        if "/" in name:
            parts = list(package)
            for part in Path(name).parts:
                parts = parts[:-1] if part == ".." else [*parts, part]
            found.append(tuple(parts))
    return found


def _statements(path, text):
    """(leading dots, module, imported names) of every import statement."""
    if path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                yield node.level, node.module or "", [alias.name for alias in node.names]
            elif isinstance(node, ast.Import):
                yield from ((0, alias.name, []) for alias in node.names)
        return
    text = STRINGS.sub("", text.replace("\\\n", " "))
    for module, names in FROM.findall(text):
        dots = len(module) - len(module.lstrip("."))
        names = re.sub(r"#[^\n]*", "", names.strip("()"))
        yield dots, module[dots:], [name.split()[0] for name in names.split(",") if name.strip()]
    for modules in IMPORT.findall(text):
        yield from ((0, module.split()[0], []) for module in modules.split(",") if module.strip())


def violations(path, text):
    """One sentence for each import of a source that breaks the rule."""
    folder = Path(path).parts[0] if len(Path(path).parts) > 1 else None
    level = TOP if folder is None else LEVELS[folder]
    for target in imports(path, text):
        other = target[1] if len(target) > 1 and target[1] in LEVELS else None
        if level == TOP or other == folder:
            continue
        if other is None:
            yield f"{path} imports {'.'.join(target)}, which stands above every folder"
        elif LEVELS[other] >= level or (folder == "datasets" and other != "core"):
            yield f"{path} (level {level}) imports {'.'.join(target)} (level {LEVELS[other]})"


SOURCES = sorted(p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if p.suffix in SUFFIXES)


def test_every_folder_has_a_level():
    folders = {Path(path).parts[0] for path in SOURCES if "/" in path}
    assert folders <= set(LEVELS)
    assert {"core", "qp", "bundle", "runtime", "risks", "solvers"} <= folders


@pytest.mark.parametrize("path", SOURCES)
def test_imports_point_downwards(path):
    assert list(violations(path, (ROOT / path).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path, text", [
    ("core/x.py", "from ..solvers import minimize"),
    ("core/x.py", "def f():\n    from ..qp import solve_simplex_qp"),
    ("core/x.py", "from .. import bundle"),
    ("core/x.py", "import pybundle.runtime.clock"),
    ("core/x.py", "import pybundle as pb"),
    ("core/x.py", "from pybundle import __version__"),
    ("qp/x.py", "from ..bundle.bundle import Bundle"),
    ("runtime/x.py", "from ..models import chain"),
    ("datasets/x.py", "from ..oracles import viterbi"),
    ("risks/x.py", "from ..cli import main"),
    ("qp/_x.pyx", "from pybundle.solvers.bundle._alpha_search cimport least_alpha"),
    ("qp/_x.pyx", "from ..risks._engine cimport (\n    Engine,  # why\n    Weights)"),
    ("qp/_x.pyx", "cimport numpy, pybundle.risks._engine as engine"),
    ("qp/_x.pxd", "from .. cimport bundle"),
    ("core/_x.pyx", 'cdef extern from "../qp/_kernels.h" nogil:\n    int f()'),
    ("core/_x.pyx", 'cdef extern from *:\n    """\n    #include "../risks/_kernels.h"\n    """'),
    ("core/_x.h", '#include "../bundle/x.h"'),
])  # fmt: skip
def test_a_planted_violation_is_found(path, text):
    assert len(list(violations(path, text))) == 1


@pytest.mark.parametrize("path, text", [
    ("core/x.py", "import numpy as np\nfrom .plane import Planes"),
    ("solvers/x.py", "from ..core.plane import Planes\nfrom ..risks import Function\nfrom . import path"),
    ("qp/_x.pyx", "from ..core._blas cimport dot\nfrom ._smo cimport Smo\ncimport numpy as cnp"),
    ("core/_x.pyx", '"""Example.\n\nfrom pybundle.solvers import minimize\n"""'),
    ("risks/_x.pyx", 'cdef extern from "../core/_simd.h":\n    pass\ncdef extern from "_kernels.h":\n    pass'),
    ("cli/x.py", "from ..solvers import minimize\nfrom .. import plotting"),
])  # fmt: skip
def test_a_clean_source_passes(path, text):
    assert list(violations(path, text)) == []


def first_circle(sources):
    """Files that import each other in turn, or None; a .pyx and its .pxd are one file, imports in functions count.

    `sources`: texts by their paths below pybundle.
    """
    stems = {path.rsplit(".", 1)[0] for path in sources}
    graph = {stem: set() for stem in stems}
    for path, text in sources.items():
        stem, package = path.rsplit(".", 1)[0], ("pybundle", *Path(path).parts[:-1])
        for dots, module, names in _statements(path, text):
            base = (package[: len(package) - dots + 1] if dots else ()) + tuple(filter(None, module.split(".")))
            for name in (names or [""]) if base[:1] == ("pybundle",) else ():
                tries = ["/".join(parts) for parts in ((*base[1:], name), base[1:], (*base[1:], "__init__"))]
                graph[stem] |= {next((one for one in tries if one in stems), stem)} - {stem}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_no_two_files_import_each_other():
    assert first_circle({path: (ROOT / path).read_text(encoding="utf-8") for path in SOURCES
                         if not path.endswith(".h")}) is None


@pytest.mark.parametrize("sources", [
    {"a/x.py": "from . import y", "a/y.py": "def f():\n    from .x import g"},
    {"a/_x.pyx": "from pybundle.a._y cimport Y", "a/_y.pxd": "from ._x cimport X"},
    {"a/__init__.py": "from .x import f", "a/x.py": "from . import g"},
    {"a/x.py": "from ..b import y", "b/y.py": "from .z import w", "b/z.py": "import pybundle.a.x"},
])  # fmt: skip
def test_a_planted_circle_is_found(sources):
    assert first_circle(sources) is not None
    del sources[next(iter(sources))]
    assert first_circle(sources) is None
