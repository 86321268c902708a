"""Risks whose parts live elsewhere: in other processes of this machine, or with the workers of a Dask cluster.

A run keeps its bundle and its master problem; `w` is sent once a round, and planes are returned. The
executor decides which worker computes what, so every method on planes of parts runs unchanged.
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
