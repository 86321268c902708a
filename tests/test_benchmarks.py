"""The asv suites import under older and later versions: they use public names of the package only. Authors' rule."""

import ast
import importlib
from pathlib import Path

import pytest

import pybundle as pb
from pybundle.solvers.methods import METHODS

pytest.importorskip("sklearn", reason="needs scikit-learn, the extra `sklearn`")

ROOT = Path(__file__).parents[1]
SUITES = sorted((ROOT / "asv_benchmarks" / "benchmarks").glob("*.py"))
PAGES = sorted((ROOT / "docs" / "api").glob("*.rst"))
DOCUMENTED = {line.strip().lstrip("~") for page in PAGES
              for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("   ~pybundle.")}
PACKAGES = ["pybundle", *(f"pybundle.{page.stem}" for page in PAGES if (ROOT / "pybundle" / page.stem).is_dir())]
PUBLIC = DOCUMENTED | {f"{package}.{name}" for package in PACKAGES
                       for name in getattr(importlib.import_module(package), "__all__", ())}
MODULES = {name.rsplit(".", k)[0] for name in PUBLIC for k in range(1, name.count(".") + 1)}


def used(text):
    """Dotted names of the package that a source imports or reaches through what it imported."""
    tree, known = ast.parse(text), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                known |= {alias.asname: alias.name} if alias.asname else {first: first, alias.name: alias.name}
    names = set(known.values())
    for node in ast.walk(tree):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name) and node.id in known:
            names.add(".".join([known[node.id], *parts]))
    return sorted(name for name in names if name.split(".")[0] == "pybundle")


def violations(text):
    """One sentence for each private name that a source uses."""
    for name in used(text):
        parts = name.split(".")
        prefixes = {".".join(parts[:k + 1]) for k in range(len(parts))}
        if any(part.startswith("_") for part in parts) or not (name in MODULES or prefixes & (PUBLIC - MODULES)):
            yield f"{name} is private"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__") \
                and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            yield f"{ast.unparse(node)} is private"


@pytest.mark.parametrize("suite", SUITES, ids=lambda path: path.stem)
def test_suites_use_public_names_that_exist(suite):
    """A suite imported a function that was removed, and asv, which imports all suites first, ran none of them."""
    text = suite.read_text(encoding="utf-8")
    assert list(violations(text)) == []
    for name in used(text):
        value = importlib.import_module("pybundle")
        parts = name.split(".")[1:]
        for k, part in enumerate(parts):
            if not hasattr(value, part):        # a module that nothing has imported yet
                importlib.import_module(".".join(["pybundle", *parts[:k + 1]]))
            value = getattr(value, part)


@pytest.mark.parametrize("text", [
    "from pybundle.solvers.block._bcfw import Blocks", "from pybundle.runtime.executors import make_executor",
    "import pybundle.solvers.block.exact_blocks", "from pybundle.features import Rows", "result._state",
    "from pybundle import bundle as b\nb._x", "import pybundle as pb\npb.solvers.block.exact_blocks.ExactBlocks(1)",
    "import pybundle as pb\npb.nothing", "from pybundle.estimators.tokens import encode",
    "from pybundle.bundle.bundle import Bundle",
])  # fmt: skip
def test_a_planted_violation_is_found(text):
    assert list(violations(text))


@pytest.mark.parametrize("text", [
    "import pybundle as pb\npb.minimize(pb.risks.Logistic([[1.0]], [1]), lam=1.0).gap", "self._fit()",
    "from pybundle.bundle import Planes\nfrom . import LARGE", "from pybundle import risks\nrisks.Function",
    "import pybundle\npybundle.mkl.OnlineMKL([]).fit", "import numpy as np\nnp.ones(1)",
    "from pybundle.qp import SimplexQP",
])  # fmt: skip
def test_a_clean_source_passes(text):
    assert list(violations(text)) == []


def test_the_rule_of_the_authors_code_is_certified(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "asv_benchmarks" / "reproduce"))
    from prox_authors import ProxAuthors

    METHODS.pop(ProxAuthors.name, None)     # the import has added it
    X, y, *_ = pb.datasets.load_digits()
    result = pb.minimize(pb.risks.MulticlassHinge(X[:200], y[:200]), lam=10.0, tol=0.1, method=ProxAuthors())
    assert result.success and result.certified
