"""Risks whose parts live elsewhere: in other processes of this machine, or with the workers of a Dask cluster.

A run keeps its bundle and its master problem; `w` goes out once a round, planes come back. What computes where is the
executor's business, so every method that asks for planes of parts runs unchanged.
"""

from typing import TYPE_CHECKING

from .dask import Dask
from .risk import RemoteRisk

if TYPE_CHECKING:
    from .processes import Processes as Processes

__all__ = ["Dask", "Processes", "RemoteRisk"]


def __getattr__(name):
    if name == "Processes":         # multiprocessing is imported with it
        from .processes import Processes

        return Processes
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
