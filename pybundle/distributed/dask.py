"""`Dask`, an executor that places parts of a risk on the workers of a dask.distributed cluster."""

from __future__ import annotations

import sys
from typing import Any

from ..core.exceptions import BundleError, InputTypeError, ParameterError
from ..core.extras import optional
from ..core.validation import check_choice, check_integer, check_number
from .dask_workplace import DaskWorkplace
from .parts import Description
from .risk import RemoteRisk
from .workplace import excerpt, grouped


class Dask:
    """Executor over a dask.distributed cluster: every worker keeps some parts of the risk and returns planes.

    Parameters
    ----------
    client : distributed.Client
        Client of any cluster: a LocalCluster, or the address of a scheduler, with TLS if `security` is set.
    n_groups : int, optional
        Number of groups in which parts are sent and evaluated, by default one per thread of a worker. More groups
        balance workers of different speed and let later workers take some over; each costs some milliseconds a round.
    compress : {"exact", "float32"}
        Planes come back dense or as CSR, whichever is smaller; "float32" makes them smaller, and counts the rounding of
        the slopes against the lower bound; tolerances below 1e-4 take "exact".
    route : {"scheduler", "direct"}
        Way of questions and answers. "direct" leaves the scheduler out, which spares this process and the scheduler
        work; this process must reach the workers then, and the scheduler takes them for idle: it is
        not for clusters that shrink or close on that ground. A request that fails on this way goes through the
        scheduler; after two failures of the same parts at the same worker, all do.
    patience : float
        Seconds without any worker, or without a word from the scheduler, after which a run ends with BundleError;
        counted while the run waits for answers. If the scheduler is known to be gone, it ends at once.
    max_tries : int
        Number of attempts to rebuild a part, or to evaluate it at one w, after its worker was lost.

    Raises
    ------
    ImportError
        Without dask.distributed.
    ParameterError
        If the client is closed, also before parts are sent.

    Notes
    -----
    The parts are tasks that hold their data, so that Dask makes a lost one again on another worker; the scheduler keeps
    these data for that. With `risk_of` data stay on the workers. Every round is one task a
    group, with w in it. A worker that comes back, or a new one, gets parts of one that has more than it has threads.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> from distributed import Client                                              # doctest: +SKIP
    >>> with Client(processes=False) as client:                                     # doctest: +SKIP
    ...     remote = pb.distributed.Dask(client, compress="float32").place(risk)
    ...     results = pb.path(remote, [100.0, 10.0, 1.0])
    """

    def __init__(self, client: Any, *, n_groups: int | None = None, compress: str = "exact", route: str = "scheduler",
                 patience: float = 30.0, max_tries: int = 5) -> None:
        optional("distributed", "executor over Dask needs dask.distributed", "dask")
        if not is_client(client):
            raise InputTypeError(f"client must be a distributed.Client, got {type(client).__name__}; make one with "
                                 "distributed.Client(address)")
        if client.asynchronous:
            raise ParameterError("client must be one that waits, got an asynchronous one; make it with "
                                 "distributed.Client(address, asynchronous=False)")
        self.client: Any = check_open(client)
        self.n_groups: int | None = None if n_groups is None else check_integer("n_groups", n_groups, low=1)
        self.single: bool = check_choice("compress", compress, ("exact", "float32")) == "float32"
        self.direct: bool = check_choice("route", route, ("scheduler", "direct")) == "direct"
        self.patience: float = check_number("patience", patience, low=0.0, strict=True)
        self.max_tries: int = check_integer("max_tries", max_tries, low=1)

    def place(self, risk: Any) -> RemoteRisk:
        """Return the risk with its parts at the workers, a `RemoteRisk`; a placed risk is returned as it is."""
        if isinstance(risk, RemoteRisk):
            return risk
        groups = grouped(risk.n_parts, self.n_groups or len(self._slots()))

        def source(g, home):
            return excerpt(risk, groups[g])

        return RemoteRisk(self._workplace(groups, source), Description.of(risk), self.single, risk)

    def risk_of(self, delayed: Any, n_parts: int = 1) -> RemoteRisk:
        """A risk whose data were never here: each of these makes the risk of its own examples at a worker.

        Parameters
        ----------
        delayed : list of dask.delayed.Delayed or distributed.Future
            One risk each, all of the same `dim`; a worker evaluates one of them at a time.
        n_parts : int
            Parts of each of these risks (their own `n_parts`).

        Returns
        -------
        RemoteRisk
            With `len(delayed) * n_parts` parts.

        Examples
        --------
        >>> parts = [dask.delayed(load)(path) for path in paths]                    # doctest: +SKIP
        >>> risk = pb.distributed.Dask(client).risk_of(parts)                       # doctest: +SKIP
        """
        if not isinstance(delayed, (list, tuple)) or not delayed:
            raise InputTypeError(f"delayed must be a non-empty list of delayed risks, got {delayed!r}")
        n_parts = check_integer("n_parts", n_parts, low=1)
        groups = grouped(n_parts * len(delayed), len(delayed))

        def source(g, home):
            from distributed import Future

            if isinstance(delayed[g], Future):
                return delayed[g]
            return self.client.compute(delayed[g], workers=[home], allow_other_workers=True)

        return RemoteRisk.described_by_workers(self._workplace(groups, source, self._holders(delayed)), self.single)

    def _workplace(self, groups, source, holders=()):
        return DaskWorkplace(self.client, groups, source, self._slots(), self.patience, self.max_tries, holders,
                             self.direct)

    def _holders(self, delayed):
        """Return the addresses of the workers that hold these futures, or none if an address is unknown."""
        from distributed import Future, wait

        if not all(isinstance(item, Future) for item in delayed):
            return ()
        while True:
            try:
                wait(delayed, timeout=self.patience)
                break
            except TimeoutError:
                self._slots()       # raises an error if there is no worker to build the parts
        found = self.client.who_has(delayed)
        addresses = [next(iter(found.get(item.key, ())), None) for item in delayed]
        return () if None in addresses else addresses

    @property
    def n_slots(self) -> int:
        """Number of threads of all workers; waits until there is a worker."""
        return len(self._slots())

    def _slots(self):
        """Return the addresses of workers, each as often as it has threads; wait until there is a worker."""
        check_open(self.client)
        try:
            self.client.wait_for_workers(1, timeout=self.patience)
        except TimeoutError as problem:
            raise BundleError(f"client must have a worker, but none came within {self.patience:g} s; start some, or "
                              "raise patience") from problem
        except OSError as problem:
            raise BundleError(f"client must reach its scheduler, but {problem}; start it again, and make another "
                              "client") from problem
        return [address for address, n in sorted(self.client.nthreads().items()) for _ in range(n)]


def is_client(executor):
    """Return whether the executor is a dask.distributed Client, without importing Dask."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(executor, distributed.Client)


def check_open(client):
    """Return the client; raise ParameterError if it is closed, as Dask's own error would be about event loops."""
    if client.status in ("closing", "closed"):
        raise ParameterError(f"client must be open, got one that is {client.status}; make another one with "
                             "distributed.Client(address), and close it after the run")
    return client
