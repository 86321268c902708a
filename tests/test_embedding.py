"""A module outside the package cimports all that `pybundle/__init__.pxd` offers, and computes with it."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import LowLevelCallable

import pybundle as pb
from pybundle.bundle._dense import DensePlanes
from pybundle.oracles._chain import ChainTables

SOURCE = Path(__file__).parent / "native" / "surface.pyx"
SETUP = """
from Cython.Build import cythonize
from setuptools import Extension, setup
setup(name="surface", ext_modules=cythonize([Extension("surface", ["surface.pyx"], extra_compile_args=["-O0"])]))
"""


@pytest.fixture(scope="module")
def surface(tmp_path_factory):
    pytest.importorskip("Cython")
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("surface")
    (folder / "surface.pyx").write_text(SOURCE.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "setup.py").write_text(SETUP, encoding="utf-8")
    built = subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=folder, text=True,
                           capture_output=True)
    assert built.returncode == 0, built.stdout + built.stderr
    spec = importlib.util.spec_from_file_location("surface", next(folder.glob("surface*.so")))
    module = importlib.util.module_from_spec(spec)
    sys.modules["surface"] = module
    spec.loader.exec_module(module)
    return module


def test_the_module_tries_all_names():
    declared = (Path(pb.__file__).parent / "__init__.pxd").read_text(encoding="utf-8")
    names = {name for line in re.findall(r"^from .* cimport (.*)", declared, re.M) for name in line.split(", ")}
    assert len(names) > 12 and all(re.search(rf"\b{name}\b", SOURCE.read_text(encoding="utf-8")) for name in names)


@pytest.mark.slow
def test_decoders(surface):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(6, 6))
    heads, value = surface.tree(scores)
    expected = pb.oracles.max_arborescence(scores)
    assert heads.tolist() == expected[0].tolist() and value == expected[1]
    unary, transition = rng.normal(size=(7, 3)), rng.normal(size=(3, 3))
    tables = ChainTables(transition, np.zeros(3), np.zeros(3))
    labels, value = surface.chain(tables, unary)
    expected = pb.oracles.viterbi(unary, transition)
    assert labels.tolist() == expected[0].tolist() and value == expected[1]
    columns = rng.normal(size=(9, 2))
    for pairs in (None, rng.normal(size=(2, 2))):
        labels, value = surface.cover(columns, pairs)
        expected = pb.oracles.segment(columns.T, [1, 2], pairs)
        assert labels == expected.labels.tolist() and value == expected.value
    values, argmax = surface.line(columns[:, 0].copy(), 0.3, 0.1)
    expected = pb.oracles.distance_transform(columns[:, 0], 0.3, 0.1)
    assert np.array_equal(values, expected[0]) and np.array_equal(argmax, expected[1])


@pytest.mark.slow
def test_master_problem(surface):
    rng = np.random.default_rng(1)
    A, f = rng.normal(size=(8, 5)), rng.normal(size=8)
    x, gap = surface.master(A @ A.T, f, 1e-10)
    expected = pb.qp.solve_simplex_qp(A @ A.T, f, np.zeros(8, dtype=int), tol=1e-10)
    assert 0.0 <= gap <= 1e-10 and abs(x.sum() - 1.0) < 1e-12 and x.min() >= 0.0
    assert np.allclose(x, expected.x, atol=1e-4)


@pytest.mark.slow
def test_planes(surface):
    rng = np.random.default_rng(2)
    A, weights, w = rng.normal(size=(4, 3)), rng.random(4), rng.normal(size=3)
    planes = DensePlanes(3)
    planes.append(A)
    phi, products, row = surface.dense(planes, weights, w)
    assert np.array_equal(phi, planes.combine(weights)) and np.array_equal(products, planes.dot(w))
    assert row == A[0].tolist()
    indices, values = np.array([[3, 1, 3], [9, 0, 0]], dtype=np.int32), np.array([[1.0, 2.0, 4.0], [1.0, 5.0, -5.0]])
    rows = surface.sparse(10, indices, values)
    assert rows.indptr.tolist() == [0, 2, 3] and rows.indices.tolist() == [1, 3, 9] and rows.data.tolist() == [2, 5, 1]


@pytest.mark.slow
def test_functions_exported_by_cython(surface):
    risk = pb.risks.Function(LowLevelCallable.from_cython(surface, "risk"), 3, n_parts=3, lower_bounds=0.0)
    values, slopes = risk.evaluate(np.array([1.0, -2.0, 0.5]))
    assert values.tolist() == [1.0, 2.0, 0.5] and np.array_equal(slopes, np.diag([1.0, -1.0, 1.0]))
    functions = (LowLevelCallable.from_cython(surface, name) for name in ("solve", "plane"))
    result = pb.minimize(pb.risks.ExampleFunctions(*functions, 4, 1), lam=1.0, tol=1e-9)
    assert result.success and abs(result.x[0] - 1.0) < 1e-4
