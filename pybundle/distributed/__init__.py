"""Risks whose parts live with the workers of a Dask cluster: in other processes of this machine, or on others.

A run keeps its bundle and its master problem; `w` is sent once a round, and planes are returned. The
executor decides which worker computes what, so every method on planes of parts runs unchanged.
"""

from .dask import Dask
from .risk import RemoteRisk

__all__ = ["Dask", "RemoteRisk"]
