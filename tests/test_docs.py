"""The examples of the documentation run."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "docs" / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_is_certified(path, capsys):
    names = runpy.run_path(str(path), run_name="__main__")
    assert names["result"].success and names["result"].certified
    assert "certified: True" in capsys.readouterr().out
