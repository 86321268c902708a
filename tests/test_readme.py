"""The README's examples run and print what the README shows; its two commands and its links are right."""

import contextlib
import io
import re
from pathlib import Path

import pytest
from printed import assert_prints

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def test_examples_print_what_the_readme_shows():
    pytest.importorskip("sklearn")
    names = {}
    for code, shown in zip(blocks("python"), blocks("text"), strict=True):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "README.md", "exec"), names)
        assert_prints(out.getvalue(), shown)


def test_the_first_screen_has_install_code_figures_and_no_formula():
    """It began with a formula and its proof, so that readers learned how the bound is made before what it is for."""
    screen = README[:README.index("\n## ")]
    assert screen.index("pip install") < screen.index("```python") < screen.index("results/")
    assert screen.count("asv_benchmarks/results/") >= 3 and "lam/2" not in screen


def test_the_two_commands():
    commands = re.findall(r"^    (python -m pip install .* && .*)$", README, re.M)
    assert commands == ["python -m pip install '.[all]'  && pybundle demo",
                        "python -m pip install '.[test]' && pytest -n 2"]


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_method_is_in_the_table():
    import pybundle as pb

    rows = re.findall(r"^\| (`\"[^|]*) \|", README, re.M)
    methods = set(re.findall(r"`\"([\w-]+)\"`", " ".join(rows)))
    with pytest.raises(pb.ParameterError) as caught:
        pb.minimize(pb.risks.BinaryHinge([[1.0], [-1.0]], [1, -1]), lam=1.0, method="no-such-method")
    known = set(re.findall(r"'([\w-]+)'", str(caught.value))) - {"no-such-method"}
    assert methods == known
