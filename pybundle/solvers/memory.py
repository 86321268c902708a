"""What a run takes, before it is started."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.protocols import completed, is_risk
from ..core.validation import check_choice, check_number
from ..prox import Regulariser
from ..runtime.executors import Serial
from .arguments import make_objective, make_settings, regrouped
from .method import Problem
from .methods import METHODS, check_options, make_run
from .penalised import Penalised


class Memory(int):
    """Memory in bytes, as a number; `parts` itemises it.

    Attributes
    ----------
    method : str
        The method that "auto" chose, or the requested one.
    parts : dict of str to int
        "planes", "multipliers", "scores" and "points": what a run adds. "data", which are there already, do not count.
    """

    method: str
    parts: dict[str, int]

    def __new__(cls, method: str, **parts: float) -> Memory:
        self = super().__new__(cls, sum(size for name, size in parts.items() if name != "data"))
        self.method, self.parts = method, {name: int(size) for name, size in parts.items()}
        return self

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {size / 2**20:.3g}" for name, size in self.parts.items())
        return f"{int(self) / 2**20:.3g} MB for {self.method} ({parts})"


def estimate_memory(risk: Any, method: str = "auto", *, lam: float | ArrayLike | None = None,
                    penalty: Regulariser | None = None, constraints: Any = None, n_parts: int | None = None,
                    tol: float = 0.01, memory_limit: int | None = None, **options: Any) -> Any:
    """Bytes that `minimize` with these arguments would take beside the data, at its peak and about.

    Parameters
    ----------
    risk, method, lam, penalty, constraints, n_parts, tol, memory_limit, **options
        As in `minimize`; lam is 1 by default. Of a method on stored planes of examples the planes of 64 examples at
        w = 0 are looked at.

    Returns
    -------
    Memory
        An int, with `parts` and the `method` that "auto" begins with.

    Notes
    -----
    What depends on the course of the run (active planes, pairs, faces) is estimated from above. A
    run with `memory_limit` is at most that, unless points and scores take more than half of it.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> risk = pb.risks.MulticlassHinge(np.ones((1000, 50)), np.arange(1000) % 10)
    >>> memory = pb.estimate_memory(risk, method="oca")
    >>> memory.method, sorted(memory.parts), memory < 20_000_000
    ('oca', ['data', 'planes', 'points', 'scores'], True)
    """
    check_choice("method", method, tuple(METHODS))
    check_options(method, options, risk, estimate_memory.__kwdefaults__)
    if not is_risk(risk):
        raise ParameterError(f"risk must be a risk, which has a size, got {type(risk).__name__}; wrap a callable in "
                             "pb.risks.Function(fun, dim)")
    settings = make_settings(tol, 0.0, memory_limit, options, risk.n_examples)
    risk = completed(risk)
    lam = 1.0 if lam is None and penalty is None else lam
    radius = check_number("lam", lam, low=0.0, strict=True) if method == "cutting-plane" else None
    objective = make_objective(method, risk, lam=None if radius else lam, radius=radius, penalty=penalty,
                               constraints=constraints)
    omega = objective.penalty if isinstance(objective, Penalised) else None
    takes_oca = omega is not None and not (omega.is_separable and objective.rows is None)
    risk = regrouped(risk, n_parts, method, Serial(), settings, takes_oca=takes_oca)
    run = make_run(method, Problem(risk, objective, settings, options, 0, True)).at_work
    name = run.choice.split("'")[1] if run.choice else method
    data = 0 if risk.examples is None else sum(array.nbytes for array in risk.examples.storage)
    return Memory(name, data=data, **run.memory())
