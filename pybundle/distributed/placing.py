"""Place a risk on the workers of an executor, for the length of a run."""

from contextlib import contextmanager

from ..core.exceptions import InputTypeError
from .dask import Dask, is_client
from .risk import RemoteRisk


def placing(executor):
    """Return the executor if it places parts of a risk on workers, a `Dask` for a client, None if it only has `map`."""
    if is_client(executor):
        return Dask(executor)
    if not isinstance(executor, type) and callable(getattr(executor, "place", None)):
        return executor
    if isinstance(executor, type) or not callable(getattr(executor, "map", None)):
        got = f"the class {executor.__name__} itself" if isinstance(executor, type) else type(executor).__name__
        raise InputTypeError("executor must have a method map(function, items), or be a dask.distributed Client or a "
                             f"pb.distributed.Dask, got {got}")
    return None


@contextmanager
def placed(risk, executor, precision=None):
    """Yield the risk with its parts at the workers of `executor`, or the risk itself for None; close it afterwards.

    A risk that was placed before is used as it is, and not closed. `precision` is that of `derive`.
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
