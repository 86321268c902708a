"""Risks whose parts are held by the workers of a Dask cluster, in other processes or on other machines.

A run keeps its bundle and its master problem; it sends `w` once a round and gets planes. The executor decides which
worker computes what, so every method on planes of parts runs unchanged.
"""

from .dask import Dask
from .risk import RemoteRisk

__all__ = ["Dask", "RemoteRisk"]
