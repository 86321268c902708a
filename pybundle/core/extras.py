"""Imports of optional packages."""

from importlib import import_module


def optional(name, need, extra):
    """Return the module `name`; if it is missing, the ImportError begins with `need` and names the extra."""
    try:
        return import_module(name)
    except ImportError as problem:
        raise ImportError(f"{need}, which is not installed; run: pip install 'pybundle-ml[{extra}]'") from problem
