"""From an executor and a risk to the risk that a run asks."""

from __future__ import annotations

from contextlib import contextmanager

from ..core.exceptions import InputTypeError
from .dask import Dask, is_client
from .risk import RemoteRisk


def placing(executor):
    """Return the executor if it places parts of a risk on workers (`place`), a client as `Dask`; None if it only maps.
    """
    if is_client(executor):
        return Dask(executor)
    if not isinstance(executor, type) and callable(getattr(executor, "place", None)):
        return executor
    if isinstance(executor, type) or not callable(getattr(executor, "map", None)):
        raise InputTypeError("executor must have a method map(function, items), or be a dask.distributed Client or a "
                             f"pb.distributed.Dask, got {_named(executor)}")
    return None


@contextmanager
def placed(risk, executor, precision=None):
    """The risk with its parts at the workers of `executor` (None: the risk itself), for the length of the block.

    A risk that is placed already is used as it is, for this block alone. `precision` as in its `derive`.
    """
    where = risk if executor is None else executor.place(risk)
    try:
        if not isinstance(where, RemoteRisk):
            yield where
            return
        with where.in_use(precision) as working:
            yield working
    finally:
        if where is not risk:
            where.close()


def _named(executor):
    return f"the class {executor.__name__} itself" if isinstance(executor, type) else type(executor).__name__
