"""The memory of this machine, to refuse problems that cannot fit before NumPy fails on one of their arrays."""

from __future__ import annotations

import os

from .exceptions import ParameterError


def machine_memory() -> int | None:
    """Return the memory of the machine in bytes, or None if the system does not tell."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_memory(what: str, n_bytes: float, remedy: str) -> None:
    """Raise ParameterError if `what` needs more memory than this machine has.

    >>> require_memory("n_labels = 3: 9 weights", 72, "take fewer")
    """
    memory = machine_memory()
    if memory is not None and n_bytes > memory:
        raise ParameterError(f"{what} need {n_bytes / 2**30:.0f} GiB, this machine has {memory / 2**30:.0f}; {remedy}")
