"""Groups of parts on workers: the contract that the driver uses."""

import threading
from abc import ABC, abstractmethod

import numpy as np

from ..core.exceptions import ParameterError
from ..core.protocols import completed, name_of


class Workplace(ABC):
    """Send questions to groups of parts and return answers as they come; a subclass replaces lost workers itself.

    Attributes
    ----------
    groups : list of ndarray
        Numbers of the parts of every group.
    n_workers : int
        Groups that can be worked on at once.
    is_closed : bool
        Whether the parts were given back.
    in_use : Lock
        Held by the run that asks questions; `run` is its `Waiting`.
    """

    def __init__(self, groups, n_workers):
        self.groups, self.n_workers = groups, n_workers
        self.is_closed = False
        self.in_use, self.run = threading.Lock(), None

    @abstractmethod
    def ask(self, group, question, w):
        """Send a question to a group; w must not change until the answer is there."""

    @abstractmethod
    def answers(self, timeout=None):
        """Return a list of (group, question, answer): wait for at least one, or for `timeout` seconds.

        Raises BundleError if no further answer is possible, so that a call without a limit ends.
        """

    def close(self):
        """Release the parts; the workers stay."""
        self.is_closed = True
        self.release()

    @abstractmethod
    def release(self):
        """Do the work of `close`; a second call, after an interrupt, must work, too."""


def excerpt(risk, group):
    """Return the source from which a worker builds the risk of a group of parts."""
    if completed(risk).excerpt is None:
        raise ParameterError("executor needs a risk whose parts can live elsewhere (a method `excerpt`), and "
                             f"{name_of(risk)} has none; use n_jobs for threads, or give every worker a risk of "
                             "its own with pb.distributed.Dask(client).risk_of(delayed)")
    return risk.excerpt(group)


def grouped(n_parts, n_groups):
    """Return the numbers of the parts of every group: neighbours together, groups of nearly equal size.

    >>> [group.tolist() for group in grouped(5, 2)]
    [[0, 1, 2], [3, 4]]
    """
    return np.array_split(np.arange(n_parts), max(1, min(n_groups, n_parts)))
