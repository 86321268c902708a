"""The examples of the documentation run."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
MIGRATIONS = sorted((ROOT / "examples").glob("from_*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_is_certified(path, capsys):
    names = runpy.run_path(str(path), run_name="__main__")
    assert names["result"].success and names["result"].certified
    assert "certified: True" in capsys.readouterr().out


@pytest.mark.parametrize("path", MIGRATIONS, ids=lambda path: path.stem)
def test_migration_runs_without_data(path, capsys, monkeypatch):
    monkeypatch.delenv("PYBUNDLE_DATA", raising=False)
    runpy.run_path(str(path), run_name="__main__")
    assert "pybundle: 9" in capsys.readouterr().out        # more than 90 % right
