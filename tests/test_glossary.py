"""One word for one thing: what the glossary lists is used, what it replaces is not."""

import re
from pathlib import Path

import pytest

import pybundle as pb

SOURCES = Path(pb.__file__).parent
DOCS = SOURCES.parent / "docs"
# words that had a second meaning or none, and what is said instead
REPLACED = {
    "gold": "truth", "harvest": "planes", "keeper": "checkpointing", "relay": "sequence of methods", "unkept": "",
    "finder": "oracle", "breathe": "check for signals", "wary": "", "labellings met": "found",
    "planes met": "found", "gaps met": "block gaps", "whyever": "", "desk": "mailbox", "hands": "writers",
    "ground truth": "truth", "proximity weight": "kappa or alpha", "proximal weight": "kappa or alpha",
    "distrust": "", "true labelling": "truth", "hand over": "take over", "handover": "",
}


def texts():
    for path in sorted(SOURCES.rglob("*")):
        if path.suffix in (".py", ".pyx", ".pxd", ".h"):
            yield path.relative_to(SOURCES.parent), path.read_text(encoding="utf-8")
    for path in sorted(DOCS.glob("*.rst")):
        yield path.relative_to(DOCS.parent), path.read_text(encoding="utf-8")


@pytest.mark.parametrize("word", REPLACED)
def test_replaced_words_do_not_come_back(word):
    pattern = re.compile(rf"(?<![a-z]){re.escape(word)}(?![a-z])", re.IGNORECASE)
    found = [f"{path}:{text[:hit.start()].count(chr(10)) + 1}" for path, text in texts()
             if path.name not in ("measured.rst",) and (hit := pattern.search(text))]
    assert not found, f"write {REPLACED[word]!r} in place of {word!r}"


def test_lanes_are_those_of_vector_registers():
    found = [path for path, text in texts() if re.search(r"(?<![a-z])lanes?(?![a-z])", text, re.IGNORECASE)]
    assert not [path for path in found if path.parts[1] in ("solvers", "runtime", "core") and path.suffix == ".py"]


def test_every_greek_letter_of_the_pages_is_in_the_glossary():
    page = DOCS / "glossary.rst"
    if not page.exists():
        pytest.skip("there are no pages here")
    letter = re.compile(r"\\\\?(alpha|beta|gamma|delta|epsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau"
                        r"|phi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Phi|Psi|Omega)(?![a-z])")
    listed = set(letter.findall(page.read_text(encoding="utf-8").split("Words\n-----")[0]))
    used = {(hit, path.name) for path, text in texts() if path.suffix in (".rst", ".py")
            for hit in letter.findall(text)}
    assert len(listed) > 15 and not {(hit, name) for hit, name in used if hit not in listed}


def test_every_term_of_the_glossary_is_used():
    page = DOCS / "glossary.rst"
    if not page.exists():
        pytest.skip("there are no pages here")
    terms = re.findall(r"^   ([a-z].*)$", page.read_text(encoding="utf-8").split(".. glossary::")[1], re.MULTILINE)
    everything = " ".join(text.lower() for path, text in texts() if path.name != "glossary.rst")
    unused = [word for line in terms for word in line.split(", ") if word not in everything]
    assert len(terms) > 30 and not unused
