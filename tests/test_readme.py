"""The README's example runs and prints what the README shows; its two commands and its links are right."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"\d+\.?\d*(?:e[+-]?\d+)?")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def test_example_prints_what_the_readme_shows():
    pytest.importorskip("sklearn")
    (code,), (shown,) = blocks("python"), blocks("text")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {})
    printed = out.getvalue()
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
    printed, shown = ([[float(x) for x in NUMBER.findall(line)] for line in text.splitlines()]
                      for text in (printed, shown))
    fun, bound, gap, passes, accuracy = (line[0] for line in printed)
    assert bound <= fun and gap <= 1e-3
    assert fun == pytest.approx(shown[0][0], rel=2e-3)        # both lie within the gap of the optimum
    assert bound == pytest.approx(shown[1][0], rel=2e-3)
    assert passes == pytest.approx(shown[3][0], rel=0.5)
    assert accuracy == pytest.approx(shown[4][0], abs=0.02)


def test_the_two_commands():
    commands = re.findall(r"^    (python -m pip install .* && .*)$", README, re.M)
    assert commands == ["python -m pip install '.[all]'  && pybundle demo",
                        "python -m pip install '.[test]' && pytest"]


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_method_is_in_the_table():
    import pybundle as pb

    rows = re.findall(r"^\| (`\"[^|]*) \|", README, re.M)
    methods = set(re.findall(r"`\"([\w-]+)\"`", " ".join(rows)))
    with pytest.raises(pb.ParameterError) as caught:
        pb.minimize(pb.risks.BinaryHinge([[1.0], [-1.0]], [1, -1]), lam=1.0, method="no such method")
    known = set(re.findall(r"'([\w-]+)'", str(caught.value))) - {"no such method"}
    assert methods == known
