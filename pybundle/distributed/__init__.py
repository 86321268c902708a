"""Risks whose parts live elsewhere: in other processes of this machine, or with the workers of a Dask cluster.

A run keeps its bundle and its master problem; `w` goes out once a round, planes come back. What computes where is the
executor's business, so every method that asks for planes of parts runs unchanged.
"""

from .dask import Dask
from .processes import Processes
from .risk import RemoteRisk

__all__ = ["Dask", "Processes", "RemoteRisk"]
