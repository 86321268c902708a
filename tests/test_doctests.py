"""Runs the examples in the docstrings of every module, Python and compiled."""

import doctest
import functools
import importlib
import pkgutil

import pytest

import pybundle
from pybundle.core.ragged import Ragged

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = ["pybundle", *sorted(m.name for m in pkgutil.walk_packages(pybundle.__path__, "pybundle."))]


@functools.cache
def public():
    """Full names of what the public modules list in `__all__`, under the modules that define them."""
    modules = [importlib.import_module(name) for name in MODULES if name.count(".") < 2 and "._" not in name]
    things = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
    return {f"{thing.__module__}.{thing.__qualname__}" for thing in [*things, Ragged] if hasattr(thing, "__qualname__")}


def examples(module):
    """Doctests of a module; compiled modules list theirs in `__test__` too, so equal ones are run once."""
    seen = set()
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        key = tuple((example.source, example.want) for example in test.examples)
        if key and key not in seen:
            seen.add(key)
            if not public().isdisjoint((test.name, test.name.rpartition(".")[0])):
                test.globs = {}         # a reader of its page has no names but those that it imports
            yield test


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    report = []
    for test in examples(importlib.import_module(name)):
        runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


def test_compiled_examples_are_found():
    compiled = [importlib.import_module(name) for name in MODULES]
    compiled = [m for m in compiled if not (m.__file__ or "").endswith(".py")]
    assert compiled, "no compiled module was found"
    assert any(list(examples(module)) for module in compiled)
