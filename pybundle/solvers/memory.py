"""What a run takes, before it is started."""

from __future__ import annotations

from ..bundle import estimate_bytes
from ..core.exceptions import ParameterError
from ..core.protocols import completed, is_risk
from ..core.validation import check_choice, check_number
from ..runtime.executors import Serial
from .arguments import make_objective, make_settings, regrouped
from .block.block_method import BlockMethod
from .block.cached_blocks import BLOCK, CachedBlocks
from .block.exact_blocks import ExactBlocks
from .bundle.bundle_method import BundleMethod, working_bytes
from .methods import METHODS, Problem, check_options
from .newton.alm import AugmentedLagrangian
from .newton.directions import LARGEST_RANK
from .smooth.lbfgs import QuasiNewton

PLANES = 8          # of an example, as long as they are not forgotten: measured, 3 to 12
GROWTH = 1.5        # of stores; of blocks, holes in the heap between them
USED = 3            # planes of a bundle, as a multiple of those that wait to be forgotten: measured, 1 to 4


class Memory(int):
    """Bytes in all, as a number; `parts` says of what.

    Attributes
    ----------
    method : str
        What "auto" chose, or the method asked for.
    parts : dict of str to int
        "planes", "multipliers", "scores" and "points": what a run adds. "data", which are there already, do not count.
    """

    def __new__(cls, method, **parts):
        self = super().__new__(cls, sum(size for name, size in parts.items() if name != "data"))
        self.method, self.parts = method, {name: int(size) for name, size in parts.items()}
        return self

    def __repr__(self):
        parts = ", ".join(f"{name} {size / 2**20:.3g}" for name, size in self.parts.items())
        return f"{int(self) / 2**20:.3g} MB for {self.method} ({parts})"


def estimate_memory(risk, method="auto", *, lam=1.0, n_parts=None, tol=1e-2, memory_limit=None, **options):
    """Bytes that `minimize` with these arguments would take beside the data, at its peak and about.

    Parameters
    ----------
    risk, method, lam, n_parts, tol, memory_limit, **options
        As in `minimize`. Of a method on stored planes of examples the planes of 64 examples at w = 0 are looked at.

    Returns
    -------
    Memory
        An int, with `parts` and the `method` that "auto" begins with.

    Notes
    -----
    What depends on the way (planes in use, pairs, faces) is taken for large: nothing is forgotten before its time. A
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
        raise ParameterError(f"risk must be a risk, which says its size, got {type(risk).__name__}; wrap a callable in "
                             "pb.risks.Function(fun, dim)")
    settings = make_settings(tol, 0.0, memory_limit, options, risk.n_examples)
    radius = check_number("lam", lam, low=0.0, strict=True) if method == "cutting-plane" else None
    objective = make_objective(None if radius else lam, radius, method, None, 1)
    risk = regrouped(completed(risk), n_parts, method, Serial(), settings)
    run = METHODS[method].make(Problem(risk, objective, settings, options, 0, True))
    run = getattr(run, "_current", run)
    name = run.choice.split("'")[1] if run.choice else method
    data = _data(risk)
    if isinstance(run, BundleMethod):
        return _of_bundle(name, run, data)
    if isinstance(run, BlockMethod):
        return (_of_cache if getattr(run.make_core, "func", None) is CachedBlocks else _of_labels)(name, run, data)
    points = working_bytes(risk, risk.n_parts)
    if isinstance(run, QuasiNewton):
        return Memory(name, data=data, planes=8 * risk.dim * (2 * run.pairs.room + run.planes.room + risk.n_parts),
                      points=points)
    if isinstance(run, AugmentedLagrangian):
        shape = run.multipliers.shape
        rank = min(LARGEST_RANK if memory_limit is None else run._newton.largest_rank, shape[0] * max(1, shape[1] - 1))
        return Memory(name, data=data, multipliers=8 * 5 * shape[0] * shape[1] + 4 * rank * rank,
                      scores=8 * 4 * shape[0] * shape[1], points=points)
    return Memory(name, data=data, planes=8 * 2 * risk.n_parts * risk.dim, points=points)


def _of_bundle(name, run, data):
    risk = run.risk
    n_planes = USED * risk.n_parts * (run.max_idle + 2)
    planes = GROWTH * estimate_bytes(risk.dim, n_planes)
    points, scores = working_bytes(risk, risk.n_parts), run.policy.working_bytes(risk)
    limit = run.settings.memory_limit
    if limit is not None:
        planes = min(planes, max(limit - points - scores, estimate_bytes(risk.dim, 3 * risk.n_parts)))
    return Memory(name, data=data, planes=planes, scores=scores, points=points)


def _of_labels(name, run, data):
    risk, points = run.risk, ExactBlocks.points_needed(run.risk)
    scores = 8 * 3 * risk.n_examples * risk.n_scores
    return Memory(name, data=data, multipliers=ExactBlocks.bytes_needed(risk) - scores - points, scores=scores,
                  points=points)


def _of_cache(name, run, data):
    risk, settings = run.risk, run.make_core.keywords
    core = run.make_core(risk)
    planes = min(PLANES * settings.get("n_best", 1), settings.get("cap", 100))
    total = risk.n_examples * (BLOCK + GROWTH * planes * core.plane_bytes() + 8.0 * planes * planes)
    limit, points = run.settings.memory_limit, core.working_bytes()
    if limit is not None:
        total = min(total, max(limit - points, limit // 2))
    return Memory(name, data=data, planes=total, points=points)


def _data(risk):
    return 0 if risk.examples is None else sum(array.nbytes for array in risk.examples.storage)
