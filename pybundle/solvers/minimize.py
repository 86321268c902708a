"""`minimize` runs a `Solve` to its end."""

from __future__ import annotations

from typing import Any, Never

from numpy.typing import ArrayLike

from ..core.types import Callbacks, PathLike
from ..core.warn import warn_user
from ..prox import Penalty
from ..runtime.result import Result, Status
from .checkpointing import Checkpoint
from .diagnostics import UNFINISHED
from .method import Method
from .solve import Solve
from .state import Known


def minimize(risk: Any, w0: ArrayLike | None = None, *, lam: float | ArrayLike | None = None,
             penalty: Penalty | None = None, method: str | Method = "auto", tol: float = 0.01,
             atol: float | None = None, warm_start: Result | Known | None = None, constraints: Any = None,
             n_parts: int | None = None, max_iter: int | None = None, time_limit: float | None = None,
             memory_limit: int | None = None, callback: Callbacks = None, verbose: int = 0, n_jobs: int | None = None,
             executor: Any = None, checkpoint: PathLike | Checkpoint | None = None, random_state: int | None = None,
             evidence: bool = False, scale: str = "sum", **unknown: Never) -> Result:
    """Minimise `F(w) = lam/2 |w|^2 + R(w)`, or with another penalty, and prove how close the result is to the minimum.

    Parameters
    ----------
    risk : Risk or callable
        A risk of `pybundle.risks`, any object with the same members, or `fun(w) -> (value, subgradient)` (then `w0` is
        required). R is the *sum* of the losses of the examples.
    w0 : array_like, shape (dim,), optional
        Starting point, default 0.
    lam : float or array_like, shape (dim,)
        Regularisation constant, or one for each weight: `sum_k lam_k/2 w_k^2`, where 0 leaves a weight free. An
        intercept of the risk (`fit_intercept`) is not counted. Exactly one of lam and penalty is given. If
        columns of free weights are exactly sums of others, x has the least norm among points of equal scores,
        intercepts not counted.
    penalty : Penalty
        `F(w) = penalty(w) + R(w)` for any penalty of `pybundle.prox`, or a sum of them, such as `L1(0.1) + Box(0.0)`;
        `SquaredL2(lam) + Box(0.0)` is lam with weights >= 0. "auto" and "oca" take all of them. `L1`, `ElasticNet`,
        `SquaredL2` and `Box` without groups, and their sums, are separable: "lbfgs" and "newton" take them, too, and
        "prox-bcfw" where the dual of an example is maximised exactly. `Ball(radius)` minimises R(w) over
        `|w| <= radius`; "auto" and "cutting-plane" take it. If the penalty grows no faster than its slopes, as `L1`,
        the risk must declare a lower bound, as all risks of `pybundle.risks` but `OneClass` do.
    method : str or Method
        A record of `pybundle.methods` with its options, such as `pb.methods.BMRM(theta=0.02)`, or the name of one with
        its defaults: "auto", "prox-bcfw", "alm", "interior-point", "lbfgs", "newton", "oca", "bmrm", "prox-bmrm",
        "bcfw", "mp-bcfw", "frank-wolfe", "sgd", and "cutting-plane", which is "bmrm" in a ball. Options may follow the
        name, as in "bmrm theta=0.02". What "auto" chooses is told at `pb.methods.Auto`, and the choice with its reason
        in `message`. See "Which model, which method" in the documentation.
    tol : float
        Relative tolerance, see `atol`. 0 leaves atol alone.
    atol : float, optional
        Stop when `fun - lower_bound <= max(tol |fun|, atol)`. None means 1e-12 of the difference of F at the centre of
        the penalty and the lower bound (of the first gap if F is 0 there), so that runs also end if their minimum is
        about 0; this costs one pass if such a run did not start there. If F, as computed, equals the bound up to
        rounding, as at a centre of the penalty without any loss, twice its rounding error is enough, too. If a free
        intercept is rounded to float64, so is what that may cost, and a warning tells if that decided.
    warm_start : Result or Known, optional
        A run on the same risk, with any lam, penalty and method: its point replaces `w0`, and its planes and
        multipliers are kept unless the number of parts differs. Refused if the data were changed in place since.
    constraints : (A, lower, upper), scipy.optimize.LinearConstraint, or a list of them, optional
        `lower <= A w <= upper` with A dense or sparse of shape (m, dim), bounds of shape (m,) or numbers, None or
        infinite where there is none. The intercept of the risk is the last column. Methods "auto" and "oca" take them.
        `x` meets each row up to 1e-10 of the sum of the sizes of its terms; the bound is one of all points that meet
        the rows. What F(x) gains by the rest, at most the multipliers of the rows times that, counts in the gap.
    n_parts : int, optional
        Number P of parts, each with its own cutting-plane model; None leaves it to the method and the risk.
    max_iter : int, optional
        Maximum number of iterations, default 10000; of epochs for "sgd", default 10.
    time_limit : float, optional
        Time limit in seconds, checked after each iteration. The run does not wait for workers (`executor`) that are
        silent for two seconds more, or for twice their longest answer so far.
    memory_limit : int, optional
        Memory in bytes that the run may use beside the data, about. When it is exceeded, idle planes are dropped and
        active ones aggregated. "newton" and "frank-wolfe" do not look at it; see "Long runs" in the documentation.
    callback : callable or list of callables, optional
        `callback(progress)` is called after each iteration; a true return value or StopIteration stops the run.
        `progress`, a `pb.Progress`, has `x, fun, lower_bound, gap, n_iter, n_passes, n_planes, seconds, tol`.
        `pb.callbacks` has some.
    verbose : int
        1 or more prints a line a few times a second, and sentences on the choice of the method, changes of it,
        checkpoints and the end. The logger `pybundle` gets these sentences at INFO in any case, and at DEBUG a line
        for every iteration.
    n_jobs : int, optional
        Threads for passes over the data; results do not depend on their number. -1: one per processor; None: 1, or the
        value of an enclosing `joblib.parallel_config`. BLAS uses one thread during the run.
    executor : object, optional
        Replaces `n_jobs`: a `dask.distributed.Client` or a `pb.distributed.Dask`, whose workers hold the parts of the
        risk (`n_parts`, 16 by default unless the method fixes it); or any object whose `map(function, items)` keeps
        the order.
    checkpoint : str, path or Checkpoint, optional
        File to which the run is written every 60 seconds, or `pb.Checkpoint(path, every=seconds)`, and at its end. If
        the file exists, the same call resumes from it and returns the same bits as an uninterrupted run (but for
        `GraphLabeling`, whose messages are not in the file), or returns the finished result; see "Long runs" in the
        documentation. Limits, tolerances, callbacks and `n_jobs` may differ; `max_iter` and `time_limit` count from the
        first start.
    random_state : int or None
        Seed of the order of examples in "sgd" and the block methods; None is 0.
    evidence : bool
        True stores what `pb.verify` needs if the method does not store it anyway: the points of planes, the labellings
        of planes of examples. This costs memory, a pass per point at the end, and the compiled passes of block methods.
        "interior-point", and on flat risks "prox-bcfw" and "alm" provide evidence without it, and "auto" as long as it
        takes these. Penalties with powers of norms or with overlapping groups have no evidence. It
        proves `certificate.lower_bound`, from a selection of planes: with free weights that gap may be some times
        `gap`, 1e-5 instead of 2e-6 for instance.
    scale : {"sum", "mean"}
        "mean": lam, atol, fun and bounds refer to `lam/2 |w|^2 + R(w)/n_examples`.

    Returns
    -------
    Result
        If the run has not converged, `success` is False with a status and a ConvergenceWarning; this is never an
        exception. Ctrl-C returns the best state so far, and so does a time limit while workers are silent (`executor`).

    Raises
    ------
    ParameterError, InputTypeError
        If an argument is wrong.
    OracleError
        If the risk breaks its contract. Like any other exception during the run it has `error.result`, the best point
        and bound so far. A risk that has failed is not called again: `certified` is then True only if all values so
        far are known in float64 with their errors (block methods, "lbfgs", "newton", decoders of `pb.models`). If it
        has contradicted itself by more than rounding, its planes and its `lower_bounds` prove nothing: `lower_bound` is
        minus infinity, and the state of the result holds the best point alone. If workers are lost, the certificate
        is computed from the data of this process.
    StateError
        If `checkpoint` is damaged, belongs to another problem (the message names the difference), or cannot be written
        at the start. Later failures to write are RuntimeWarnings.

    Examples
    --------
    >>> import pybundle as pb
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 2.0]], [0, 1, 1, 0]
    >>> result = pb.minimize(pb.risks.MulticlassHinge(X, y), lam=0.5, tol=1e-6)
    >>> result.success, result.lower_bound <= result.fun
    (True, True)
    """
    solve = None
    try:
        with Solve(risk, w0, lam=lam, penalty=penalty, method=method, tol=tol, atol=atol, warm_start=warm_start,
                   constraints=constraints, n_parts=n_parts, max_iter=max_iter, time_limit=time_limit,
                   memory_limit=memory_limit, callback=callback, verbose=verbose, n_jobs=n_jobs, executor=executor,
                   checkpoint=checkpoint, random_state=random_state, evidence=evidence, scale=scale,
                   **unknown) as solve:
            result = solve.complete()
    except KeyboardInterrupt:
        if solve is None or solve.result is None:
            raise
        result = solve.result
        result.status = Status.INTERRUPTED        # Ctrl-C came while workers were released
    if result.status in UNFINISHED and solve.run.method.n_epochs is None:
        warn_user(f"pybundle: {result.message}")
    return result
