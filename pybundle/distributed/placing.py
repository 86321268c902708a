"""From an executor and a risk to the risk that a run asks."""

from __future__ import annotations

from contextlib import contextmanager

from ..core.exceptions import InputTypeError
from .dask import Dask, is_client


def placing(executor):
    """The executor where it takes the parts of a risk to its workers (`place`), a client as `Dask`; None where it maps.
    """
    if is_client(executor):
        return Dask(executor)
    if callable(getattr(executor, "place", None)):
        return executor
    if not callable(getattr(executor, "map", None)):
        raise InputTypeError("executor must have a method map(function, items), or be a dask.distributed Client or "
                             f"another executor of pb.distributed, got {type(executor).__name__}")
    return None


@contextmanager
def placed(risk, executor):
    """The risk with its parts at the workers of `executor` (None: the risk itself), for the length of the block.

    A risk that was placed before stays where it is.
    """
    where = risk if executor is None else executor.place(risk)
    try:
        yield where
    finally:
        if where is not risk:
            where.close()
