"""The command line: what it prints, what it writes, and how it fails."""

import os
import subprocess
import sys

import numpy as np
import pytest

import pybundle
from pybundle import cli


def run(*arguments, capsys=None):
    code = cli.main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_demo_certifies_and_saves(tmp_path, capsys):
    pytest.importorskip("sklearn")
    code, out, err = run("demo", "--output", tmp_path / "new", "--lam", 10, "--tol", 1e-2, capsys=capsys)
    assert code == 0 and err == ""
    assert "(certified)" in out and "held-out accuracy" in out and "% at most" in out and "pybundle train" in out
    model = pybundle.load(tmp_path / "new" / "pybundle_demo.npz")
    assert model.coef_.shape == (10, 64) and model.lower_bound_ <= model.objective_ and model.gap_ <= 1e-2
    if "plot saved" in out:
        assert (tmp_path / "new" / "pybundle_demo.png").read_bytes()[:4] == b"\x89PNG"
    assert not [p for p in (tmp_path / "new").iterdir() if p.name.startswith(".")]


def test_demo_without_matplotlib_names_the_extra_and_goes_on(tmp_path, capsys, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, _ = run("demo", "--output", tmp_path, "--lam", 100, "--tol", 0.1, capsys=capsys)
    assert code == 0
    assert "pip install 'pybundle-ml[plot]'" in out
    assert [p.name for p in tmp_path.iterdir()] == ["pybundle_demo.npz"]


def test_demo_without_scikit_learn_names_the_extra(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    code, _, err = run("demo", "--output", tmp_path, capsys=capsys)
    assert code == 2
    assert "pip install 'pybundle-ml[sklearn]'" in err and err.count("\n") == 1


@pytest.mark.parametrize("arguments, text", [
    (["demo", "--lam", "-1"], "--lam: must be"),
    (["demo", "--lam", "x"], "invalid float value: 'x'"),
    (["demo", "--tol", "0"], "--tol: must be"),
    (["demo", "--method", "simplex"], "method must be one of"),
    (["demo", "--method", "cutting-plane"], "radius"),
    (["serve"], "invalid choice: 'serve'"),
])  # fmt: skip
def test_errors_are_one_line_and_exit_code_2(arguments, text, tmp_path, capsys, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    try:
        code = cli.main(arguments)
    except SystemExit as stop:
        code = stop.code
    err = capsys.readouterr().err
    assert code == 2
    assert text in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_demo_leaves_no_half_file(tmp_path, capsys, monkeypatch):
    pytest.importorskip("sklearn")

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    code, _, err = run("demo", "--output", tmp_path, "--lam", 100, "--tol", 0.1, capsys=capsys)
    assert code == 2 and "disk full" in err
    assert list(tmp_path.iterdir()) == []


def test_info_names_versions_and_kernels(capsys):
    code, out, _ = run("info", capsys=capsys)
    rows = dict(line.split(None, 1) for line in out.splitlines())
    assert code == 0
    assert rows["pybundle"] == pybundle.__version__
    assert rows["NumPy"] == np.__version__
    assert "kernels" in rows and "checked" in rows


def test_the_installed_command_runs():
    script = os.path.join(os.path.dirname(sys.executable), "pybundle")
    if not os.path.exists(script):
        pytest.skip("pybundle is not installed in this environment")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    assert done.stdout.strip() == f"pybundle {pybundle.__version__}"
