"""`Result` is what solvers return; its `Status` says why the run ended."""

from __future__ import annotations

from difflib import get_close_matches
from enum import IntEnum
from typing import Any

from scipy.optimize import OptimizeResult

from ..core.types import Floats


class Status(IntEnum):
    """Why a run ended; only CONVERGED is a success."""

    CONVERGED = 0
    ITERATION_LIMIT = 1
    TIME_LIMIT = 2
    CALLBACK = 3
    INTERRUPTED = 4
    STALLED = 5
    FAILED = 6
    INFERENCE = 7


SENTENCES = {
    Status.CONVERGED: "the certified gap is within the tolerance",
    Status.ITERATION_LIMIT: "the iteration limit was reached; raise max_iter or tol",
    Status.TIME_LIMIT: "the time limit was reached; raise time_limit or tol",
    Status.CALLBACK: "the callback asked to stop",
    Status.INTERRUPTED: "interrupted by the user",
    Status.STALLED: "many iterations brought no progress; raise tol",
    Status.FAILED: "an error ended the run; see the exception",
    Status.INFERENCE: "inexact decoding leaves most of the gap; return closer upper bounds or raise tol",
}


class Result(OptimizeResult):
    """Best point, proven lower bound and the way there; fields by attribute or key.

    Attributes
    ----------
    x : ndarray, shape (dim,)
        Best point found.
    fun, lower_bound : float
        `F(x)` and a proven lower bound of all values of F, in the scale of the call.
    error : float
        Bound on the rounding error of fun: `F(x) <= fun + error`. 0 if nothing is certified.
    gap : float
        `(fun - lower_bound) / max(|fun|, atol / tol)`, rounding of fun counted; 0 when both are equal. For tol > 0 it
        is at most tol exactly if `fun - lower_bound <= max(tol |fun|, atol)`.
    inference_gap : float
        The part of `gap` that inexact decoding leaves: upper bounds minus values of the labellings found at x, relative
        as `gap` is. The rest of the gap is left by the optimisation. 0 for exact decoders.
    risk : {"true", "relaxed"}
        What F is made of: maxima over labellings, or over a set that contains these, as in `GraphLabeling`.
    slope : float
        Norm of the aggregate plane behind the bound: for another lam' the bound is
        `lower_bound + slope^2/2 (1/lam - 1/lam')` (not in a `Ball`). NaN if nothing is certified.
    certified : bool
        Both numbers were recomputed in float64 after the run, with rounding errors counted against us: they are proven,
        however far they lie apart. `success` says whether they are close.
    ball : (ndarray, float) or None
        Centre and radius of a ball that contains the exact minimiser, rounding counted; None if F is not strongly
        convex, as in a `Ball`, or nothing is certified.
    certificate : pb.Certificate or None
        The certificate that `pb.verify` and `pybundle verify` check; it has a `save`. None if nothing is certified.
    success : bool
        `fun - lower_bound <= max(tol |fun|, atol)` holds and is certified.
    status : Status
    message, hint : str
        Why the run ended, and what in the data explains many passes ("" if nothing does).
    nit, n_iter : int
        Two names of one number: solutions of the master problem; epochs for "sgd", rounds of passes for block methods,
        Newton steps for "interior-point" and for "alm" (on labellings found so far: up to ten of them, or a pass).
    n_passes : float
        Visits of examples by the exact oracle divided by the number of examples, certificate included.
    n_cached_passes : float
        Steps on stored planes of single examples, or on working sets of labels, in the same unit.
    n_planes, max_planes : int
        Stored planes at the end and at most.
    seconds : dict
        "oracle", "qp", "rest" and "total".
    history : dict of ndarray
        Equal-length arrays `time`, `n_passes`, `primal`, `best_primal`, `lower_bound`, `gap`.
    rounds : dict of ndarray
        Only of runs whose executor has workers of its own: bytes, waiting and work of every round, see
        `pb.distributed.RemoteRisk`.
    state : Known or None
        Bundle and point, to start another run from (``warm_start=``).
    """

    x: Floats
    fun: float
    lower_bound: float
    error: float
    gap: float
    inference_gap: float
    risk: str
    slope: float
    certified: bool
    ball: tuple[Floats, float] | None
    certificate: Any
    success: bool
    status: Status
    message: str
    nit: int
    n_iter: int
    n_passes: float
    n_cached_passes: float
    n_planes: int
    max_planes: int
    seconds: dict[str, float]
    history: dict[str, Floats]
    rounds: dict[str, Any]
    state: Any

    def __missing__(self, name: str) -> Any:
        if name == "n_iter" and "nit" in self:
            return self["nit"]
        near = get_close_matches(str(name), [*self, "n_iter"], 1)
        raise KeyError(f"{name!r} is no field of a Result" + (f", did you mean {near[0]}?" if near else "")
                       + f"; there are {', '.join(sorted(self))}")

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as problem:
            raise AttributeError(problem.args[0]) from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), "n_iter"})


CROSSING = ("the bound and the value cross: pb.check_oracle(risk), or pb.check_penalty for your own penalty, names "
            "the broken rule")


def sentence(status, gap, tol, choice="", advice="", atol=None):
    """Return the message of a result: reason, advice, gap and tolerance, and why "auto" chose the method.

    `atol` is given if it ended the run instead of the relative gap.
    """
    reason, _, remedy = SENTENCES[status].partition("; ")
    if status is Status.CONVERGED and atol is not None:
        reason = f"fun - lower_bound is within atol {atol:.2g}"
    words = [reason, advice, f"or {remedy}" if advice and remedy else remedy]
    reason = "; ".join(word for word in words if word)
    return f"{reason} (gap {gap:.3g}, tol {tol:.3g})" + (f"; {choice}" if choice else "")
