"""What is promised about the package as such: version, shipped files, flags, public names."""

import importlib
import importlib.metadata
import inspect
import json
import pkgutil
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybundle as pb

CHECKOUT = Path(__file__).parents[1]
INSTALLED = Path(pb.__file__).parent


def test_the_version_is_the_same_in_all_papers():
    """`core/version.py` has it; the papers that cannot import it are compared."""
    texts = {name: (CHECKOUT / name).read_text(encoding="utf-8")
             for name in ("CHANGELOG.md", "CITATION.cff", "docs/static/switcher.json")}
    assert re.search(r"^## (\S+)", texts["CHANGELOG.md"], re.M).group(1) == pb.__version__
    assert re.search(r"^version: (\S+)", texts["CITATION.cff"], re.M).group(1) == pb.__version__
    assert pb.__version__ in [entry["version"] for entry in json.loads(texts["docs/static/switcher.json"])]
    try:
        assert importlib.metadata.version("pybundle-ml") == pb.__version__
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("not installed")


def test_interfaces_are_shipped():
    assert (INSTALLED / "py.typed").exists()
    for path in CHECKOUT.glob("pybundle/**/*"):
        if path.suffix in (".pxd", ".h"):
            assert (INSTALLED / path.relative_to(CHECKOUT / "pybundle")).exists(), path.name


def test_no_build_is_tied_to_this_machine():
    flags = (CHECKOUT / "setup.py").read_text(encoding="utf-8")
    assert "native" not in flags and "-ffast-math" not in flags
    assert not list(CHECKOUT.glob(".git")) or ".c\n" in (CHECKOUT / ".gitignore").read_text(encoding="utf-8")


def test_every_module_imports():
    for module in pkgutil.walk_packages(pb.__path__, "pybundle."):
        assert importlib.import_module(module.name).__name__ == module.name


def test_public_names_are_those_of_the_reference():
    """Each name that the pages list exists, and each public one is listed: a name lost or added is noticed."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (CHECKOUT / "docs" / "api").glob("*.rst"))
    listed = set(re.findall(r"^(?:   ~?|.*auto\w+:: )pybundle\.([\w.]+)$", pages, re.M))
    for name in listed:
        assert pkgutil.resolve_name(f"pybundle.{name}") is not None
    names = {name: getattr(pb, name) for name in pb.__all__}
    names |= {f"{folder}.{name}": getattr(module, name) for folder, module in names.items() if inspect.ismodule(module)
              for name in module.__all__}
    public = {name for name, value in names.items() if isinstance(value, type) or callable(value)}
    assert public - listed == {"models.Graph", "qp.MasterSolution", "qp.SimplexProblem", "qp.SimplexQP",
                               "risks.kernel_name"}
    assert {name for name in listed if name.split(".")[0] in names} <= names.keys() | {
        "mkl.mixture_bound.best_bound", "mkl.online.Regret", "core.report.Report"}


def test_what_pages_write_as_pb_x_can_be_imported():
    """`from pybundle.callbacks import EarlyStopping` was a ModuleNotFoundError."""
    pages = [*CHECKOUT.glob("docs/**/*.rst"), *CHECKOUT.glob("docs/**/*.py"), CHECKOUT / "README.md",
             *CHECKOUT.glob("pybundle/**/*.py")]
    folders = {name for page in pages for name in re.findall(r"\bpb\.([a-z]\w*)\.", page.read_text(encoding="utf-8"))}
    assert {"callbacks", "datasets", "features", "risks"} <= folders
    for name in folders:
        module = importlib.import_module(f"pybundle.{name}")
        assert module is getattr(pb, name)
        assert all(hasattr(module, public) for public in module.__all__)


def test_dir_shows_public_names_only():
    shown = set(dir(pb))
    assert set(pb.__all__) <= shown and not {"ESTIMATORS", "FOLDERS", "TYPE_CHECKING", "annotations", "core"} & shown
    assert dir(pb.callbacks) == ["EarlyStopping", "ProgressBar", "StopSignal", "TimeLimit"]


@pytest.mark.parametrize("name, builtin", [
    ("ParameterError", ValueError), ("InputTypeError", TypeError), ("OracleError", RuntimeError),
    ("NumericalError", ArithmeticError), ("StateError", Exception),
])  # fmt: skip
def test_errors_form_one_family(name, builtin):
    error = getattr(pb, name)
    assert issubclass(error, pb.BundleError) and issubclass(error, builtin)
    assert error("x").result is None


def test_extras_are_permissive_and_complete():
    import tomllib

    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert {"sklearn", "plot", "progress", "docs", "test", "bench", "all"} <= set(extras)
    listed = " ".join([*project["dependencies"], *(name for names in extras.values() for name in names)]).lower()
    assert not re.search(r"quadprog|pymaxflow|cvxopt|gurobi|mosek|cplex", listed)
    for users in ("sklearn", "plot", "progress"):
        assert set(extras[users]) <= set(extras["all"])


def test_nothing_optional_is_imported_eagerly():
    import subprocess
    import sys

    code = ("import sys, pybundle\n"
            "print([m for m in ('datasets', 'estimators', 'mkl') if f'pybundle.{m}' in sys.modules])\n"
            "import pybundle.cli, pybundle.datasets, pybundle.plotting\n"
            "print([m for m in ('sklearn', 'matplotlib', 'tqdm', 'dask', 'distributed', 'joblib', 'numba', 'pandas', "
            "'multiprocessing', 'asyncio', 'concurrent.futures.process') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "[]"]


def test_a_command_imports_what_it_needs(tmp_path):
    """`pybundle evaluate` of a few rows once spent half a second on other commands and on plots."""
    import subprocess
    import sys

    rows = np.random.default_rng(0).standard_normal((20, 2))
    np.savetxt(tmp_path / "a.csv", np.column_stack([rows, rows[:, 0] > 0]), fmt="%.3g", delimiter=",")
    pb.MulticlassSVM(tol=0.1).fit(rows, rows[:, 0] > 0).save(tmp_path / "svm.npz")
    code = ("import sys, sklearn.base; before = set(sys.modules); from pybundle.cli import main\n"
            "assert main(['evaluate', 'a.csv', '--load', 'svm.npz']) == 0\n"
            "print(*sorted(set(sys.modules) - before))")
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert {"pybundle.cli.evaluate", "pybundle.estimators.multiclass"} <= loaded
    commands = {f"pybundle.cli.{name}" for name in ("bench", "demo", "info", "path", "train", "verify")}
    heavy = {"matplotlib", "dask", "distributed", "pandas", "pybundle.plotting", "sklearn.datasets",
             "sklearn.feature_extraction"}
    assert not loaded & (commands | heavy)


def test_messages_and_docstrings_name_what_exists():
    """A remedy that names a function of a later version is no remedy."""
    for path in sorted(CHECKOUT.glob("pybundle/**/*.py")):
        for name in set(re.findall(r"\bpb((?:\.[A-Za-z_]\w*)+)", path.read_text(encoding="utf-8"))):
            value = pb
            for part in name[1:].split("."):
                assert hasattr(value, part), f"{path.name}: pb{name}"
                value = getattr(value, part)


def public_callables():
    """Functions, methods and properties of the reference that are written in Python, also those of base classes."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (CHECKOUT / "docs" / "api").glob("*.rst"))
    for name in re.findall(r"^   ~pybundle\.([\w.]+)$", pages, re.M):
        value = pkgutil.resolve_name(f"pybundle.{name}")
        if not isinstance(value, type):
            yield name, value
        elif not issubclass(value, Exception):
            for key, member in {key: member for part in value.__mro__[::-1] if part.__module__.startswith("pybundle")
                                for key, member in vars(part).items()}.items():
                if key == "__init__" or not key.startswith("_"):
                    yield f"{name}.{key}", getattr(member, "fget", getattr(member, "__func__", member))


def test_every_public_argument_and_result_has_a_type():
    checked = 0
    for name, value in public_callables():
        if inspect.isfunction(value) and value.__module__.startswith("pybundle"):
            value, checked = inspect.unwrap(value), checked + 1
            names = [key for key in inspect.signature(value).parameters if key not in ("self", "cls")]
            assert {*names, "return"} <= value.__annotations__.keys() | {"_"}, name
            assert value.__annotations__["return"] not in ("Any", Any), f"{name} returns Any; say what it returns"
    assert checked > 1000


def test_stubs_declare_names_that_exist():
    for stub in CHECKOUT.glob("pybundle/**/*.pyi"):
        module = importlib.import_module(".".join(stub.relative_to(CHECKOUT).with_suffix("").parts))
        for name in re.findall(r"^(?:def|class) (\w+)", stub.read_text(encoding="utf-8"), re.M):
            assert name == "__getattr__" or hasattr(module, name), f"{stub.name}: {name}"
