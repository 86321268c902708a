"""No function changes what belongs to a module: free-threaded interpreters and two solves at once rely on it.

What threads may share by intent is an object with a lock of its own, as the limit of BLAS threads.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "pybundle"
SOURCES = sorted(path for suffix in ("py", "pyx", "h") for path in ROOT.rglob(f"*.{suffix}"))
HIDDEN = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|#[^\n]*')
AT_IMPORT = re.compile(r"^(?:if|elif|else|for|while|try|except|finally|with)\b[^\n]*\n"
                       r"(?:[ \t]+[^\n]*\n|[ \t]*\n)*", re.M)
NAMES = re.compile(r"^(?:cdef [\w \t]+?[ *]+)?(\w+)[ \t]*(?::[^=\n]+)?=[^=]", re.M)
MUTATORS = "append|extend|insert|add|update|setdefault|pop|popitem|remove|discard|clear|fill|sort|resize"
CHOSEN_AT_LOADING = {"core/_simd.h": ["static int pb_level;"]}       # by a constructor, before any function can run
STATIC = re.compile(r"^[ \t]*static[ \t]+(?!inline\b|const\b)[^(){};]*(?:=|;|\[)", re.M)


def changes(path, text):
    """Lines of a source in which a function may change a module."""
    if Path(path).suffix == ".h":
        return STATIC.findall(re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S))
    text = HIDDEN.sub("", text)
    names = "|".join(sorted(set(NAMES.findall(text)))) or "(?!)"
    text = AT_IMPORT.sub("", text)
    change = re.compile(rf"^[ \t]+global[ \t]|lru_cache|functools\.cache\b|^[ \t]*@cache\b"
                        rf"|^[ \t]+.*(?<![\w.])(?:{names})\.(?:{MUTATORS})\("
                        rf"|^[ \t]+(?:{names})(?:\[[^\n]*\]|\.\w+)+[ \t]*(?:[-+*/|&@]|//|\*\*)?=[^=]", re.M)
    return [found.group().strip() for found in change.finditer(text)]


def test_no_function_changes_a_module():
    assert len(SOURCES) > 200
    found = {str(path.relative_to(ROOT)): changes(path, path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == CHOSEN_AT_LOADING


@pytest.mark.parametrize(("path", "text"), [
    ("x.py", "COUNT = 0\n\ndef f():\n    global COUNT\n    COUNT += 1"),
    ("x.py", "_seen = {}\n\ndef f(x):\n    _seen[x] = 1"),
    ("x.py", "_seen: dict = {}\n\ndef f(x):\n    return _seen.setdefault(x, 1)"),
    ("x.py", "_seen = []\n\ndef f(x):\n    if x: _seen.append(x)"),
    ("x.py", "from functools import lru_cache"),
    ("x.py", "_last = Some()\n\ndef f(x):\n    _last.point = x"),
    ("_x.pyx", "cdef double[::1] scratch = zeros(3)\n_room = zeros(3)\n\ncdef void f():\n    _room[0] += 1.0"),
    ("_x.pyx", "cdef int calls = 0\n\ncdef void f():\n    global calls\n    calls += 1"),
    ("x.py", "SIZES = {}\nif wide:\n    SIZES[1] = 8\n\ndef f(x):\n    SIZES[x] = 8"),
    ("x.h", "static int calls;\n"),
    ("x.h", "static double scratch[16];\n"),
    ("x.h", "static int calls = 0;\n"),
])  # fmt: skip
def test_a_planted_change_is_found(path, text):
    assert changes(path, text)


@pytest.mark.parametrize(("path", "text"), [
    ("x.py", "NAMES = {1: 2}\n\ndef f(x):\n    seen = {}\n    seen[x] = NAMES[x]\n    return seen"),
    ("x.py", 'TEXT = ""\n\ndef f():\n    """TEXT.append(1)"""\n    # TEXT[0] = 1\n    return TEXT == 1'),
    ("_x.pyx", "cdef double NEAR = 1e-14\n\ncdef double f(double x):\n    return x * NEAR"),
    ("x.py", "SIZES = {}\nif wide:\n    SIZES[1] = 8\n\ndef f(x):\n    return SIZES[x]"),
    ("x.h", "static inline int f(int a) { return a; }\nstatic const int table[2] = {1, 2};\n"),
    ("x.h", "static int f(int a)\n{ return a; }\n"),
])  # fmt: skip
def test_constants_and_locals_are_left_alone(path, text):
    assert not changes(path, text)
