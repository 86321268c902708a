"""`minimize`: checks the arguments, builds the run of a method, and completes its `Solve`."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import InputTypeError, ParameterError
from ..core.types import Callbacks, PathLike
from ..core.validation import check_choice, check_flag, check_path
from ..core.warn import warn_user
from ..distributed.placing import placed, placing
from ..prox import Penalty
from ..runtime.executors import make_executor, single_threaded_blas
from ..runtime.log import open_log
from ..runtime.result import Result, Status
from ..runtime.stopping import Callback
from .arguments import (
    as_callbacks,
    as_risk,
    check_seconds,
    is_intercept_bounded,
    make_problem,
    make_rules,
    make_settings,
    make_signs,
    make_start,
    precision_of,
    regrouped,
)
from .checkpointing import Checkpointing, terms_of
from .diagnostics import UNFINISHED
from .evidence.proof import check_provable
from .evidence.record import Record
from .methods import METHODS, check_options, make_run, method_of
from .search import Search
from .solve import NoCheckpoint, Solve
from .state import State


def minimize(risk: Any, w0: ArrayLike | None = None, *, lam: float | ArrayLike | None = None,
             radius: float | None = None, penalty: Penalty | None = None, method: str = "auto", tol: float = 0.01,
             atol: float | None = None, n_parts: int | None = None, max_iter: int | None = None,
             time_limit: float | None = None, memory_limit: int | None = None, nonneg: ArrayLike | None = None,
             constraints: Any = None, callback: Callbacks = None, n_jobs: int | None = None, executor: Any = None,
             checkpoint: PathLike | None = None, checkpoint_every: float | None = None, deterministic: bool = True,
             random_state: int | None = None, verbose: int = 0, scale: str = "sum", evidence: bool = False,
             **options: Any) -> Result:
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
        intercept of the risk (`fit_intercept`) is not counted. Exactly one of lam, radius and penalty is given. If
        columns of free weights are exactly sums of others, x has the least norm among points of equal scores,
        intercepts not counted.
    radius : float
        Radius of the ball for method "cutting-plane", which minimises R(w) over `|w| <= radius`.
    penalty : Penalty
        `F(w) = penalty(w) + R(w)` for any penalty of `pybundle.prox`, or a sum of them, such as `L1(0.1) + Box(0.0)`.
        Methods "auto" and "oca" take it. `L1`, `ElasticNet`, `SquaredL2` and `Box` without groups, and their sums, are
        separable: "lbfgs" and "newton" take them, too, and "prox-bcfw" where the dual of an example is maximised
        exactly. If the penalty grows no faster than its slopes, as `L1`, the risk must declare a lower bound, as all
        risks of `pybundle.risks` but `OneClass` do.
    method : {"auto", "prox-bcfw", "alm", "interior-point", "lbfgs", "newton", "oca", "bmrm", "prox-bmrm", "bcfw", \
"mp-bcfw", "frank-wolfe", "cutting-plane", "sgd"}
        "auto" chooses "cutting-plane" if a radius is given, "oca" with constraints or if the penalty is not separable,
        "prox-bcfw" for classes or chains with a log-loss, "newton" or "lbfgs" for other smooth risks, "prox-bcfw" if
        the risk can decode single examples or step on them exactly, with a penalty only the latter, and "oca"
        otherwise. Under a memory limit "lbfgs" and "oca" stand in for "prox-bcfw". "lbfgs" continues "newton" if that
        stalls, and "oca" continues "lbfgs". After "prox-bcfw" it may continue with "alm" (for tolerances below 1e-4,
        or, if labels can be enumerated, if the gap falls slowly), with "lbfgs" (for a log-loss, in the latter case) and
        with "oca" (if these stall, or are slow with few weights). Losses of one score with corners on dense rows have
        "interior-point": at once if some weights are free or targets have another penalty than lam, else if the gap
        falls slowly. `message` names the choice and its reason. See "Which model, which method" in the documentation.
    tol : float
        Relative tolerance, see `atol`. 0 leaves atol alone.
    atol : float, optional
        Stop when `fun - lower_bound <= max(tol |fun|, atol)`. None means 1e-12 of the difference of F at the centre of
        the penalty and the lower bound (of the first gap if F is 0 there), so that runs also end if their minimum is
        about 0; this costs one pass if such a run did not start there. If a free intercept is rounded to float64,
        what that may cost is enough, too, and a warning tells if that decided.
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
    nonneg : bool array, shape (dim,), optional
        Weights that must not be negative: `Box(np.where(nonneg, 0.0, -np.inf))` in the penalty. None uses the attribute
        `nonneg` of the risk, if it has one.
    constraints : (A, lower, upper), scipy.optimize.LinearConstraint, or a list of them, optional
        `lower <= A w <= upper` with A dense or sparse of shape (m, dim), bounds of shape (m,) or numbers, None or
        infinite where there is none. The intercept of the risk is the last column. Methods "auto" and "oca" take them.
        `x` meets each row up to 1e-10 of the sum of the sizes of its terms; the bound is one of all points that meet
        the rows. What F(x) gains by the rest, at most the multipliers of the rows times that, counts in the gap.
    callback : callable or list of callables, optional
        `callback(progress)` is called after each iteration; a true return value or StopIteration stops the run.
        `progress` has `w, fun, lower_bound, gap, n_iter, n_passes, n_planes, seconds, tol`. `pb.callbacks` has some.
    n_jobs : int, optional
        Threads for passes over the data; results do not depend on their number. -1: one per processor; None: 1, or the
        value of an enclosing `joblib.parallel_config`. BLAS uses one thread during the run.
    executor : object, optional
        Replaces `n_jobs`: a `dask.distributed.Client` or a `pb.distributed.Dask`, whose workers hold the parts of the
        risk (`n_parts`, 16 by default unless the method fixes it); or any object whose `map(function, items)` keeps
        the order.
    checkpoint : str or path, optional
        File to which the run is written periodically and at its end. If the file exists, the same call resumes from it
        and returns the same bits as an uninterrupted run, or returns the finished result; see "Long runs" in the
        documentation. Limits, tolerances, callbacks and `n_jobs` may differ; `max_iter` and `time_limit` count from
        the first start.
    checkpoint_every : float, optional
        Seconds between two writes, checked after each iteration; default 60, or more if a write takes over 3.
    deterministic : bool
        True forbids decisions that depend on time: "mp-bcfw" counts the work of cached passes instead of timing them.
    random_state : int or None
        Seed of the order of examples in "sgd" and the block methods; None is 0.
    verbose : int
        1 or more prints a line a few times a second, and sentences on the choice of the method, changes of it,
        checkpoints and the end. The logger `pybundle` gets these sentences at INFO in any case, and at DEBUG a line
        for every iteration.
    scale : {"sum", "mean"}
        "mean": lam, atol, fun and bounds refer to `lam/2 |w|^2 + R(w)/n_examples`.
    evidence : bool
        True stores what `pb.verify` needs if the method does not store it anyway: the points of planes, the labellings
        of planes of examples. This costs memory, a pass per point at the end, and the compiled passes of block methods.
        "interior-point", and on flat risks "prox-bcfw" and "alm" provide evidence without it, and "auto" as long as it
        takes these. Penalties with powers of norms or with overlapping groups have no evidence. It
        proves `certificate.lower_bound`, from a selection of planes: with free weights that gap may be some times
        `gap`, 1e-5 instead of 2e-6 for instance.
    **options
        stop : {"certificate", "published"}
            "published" uses the rule of the method's paper on the current iterate; the default compares best value and
            best bound.
        theta : float
            Accuracy of the master problem as a fraction of the gap, default 0.05.
        max_idle : int
            Iterations after which a plane without weight is dropped, default 50 for one part, 8 for more, 2 from
            64 parts on.
        warm_start : Result or State
            A run on the same risk, with any lam or penalty: its point replaces `w0`, and its planes are kept
            unless the number of parts differs. Refused if the data were changed in place since.
        K, T : "prox-bmrm" only; its masters have the zero plane, which the paper's have not, if `lower_bounds` >= 0
            Step length ("auto": 0.01 |w0|, 0.4 for w0 = 0) and horizon (100) of the paper.
        mu, line_search : "oca" only
            Position of the planes between best point and minimiser (0.1); False forces the proximal variant.
        kappa : "prox-bcfw" only
            Weight of the proximal centre, default `sqrt(lam Rbar^2)` with Rbar^2 the mean squared norm of the planes,
            their median if labels can be enumerated; half of it with working sets of labels (64 classes or more),
            smaller for fewer sparse rows than columns in use, and at first if examples are nearly orthogonal. With a
            penalty it starts there and then balances what penalty and risk contribute to the gap.
        batch : block methods on cached planes
            Number of examples decoded at one point in a sequential pass: n/32, at most 32, for "prox-bcfw", else 1.
        n_best : "prox-bcfw", and "auto" while it runs that method
            Number of labellings added per call of the oracle (1), if the model can return more than the best: fewer
            passes, each of which costs more. Useful if the oracle takes most of the time.
        step, gap_sampling, average, gap_check : "bcfw" and "mp-bcfw" (a variant of the published MP-BCFW)
            "frank-wolfe", "pairwise" or "exact" steps; whether examples are drawn in proportion to their last gap;
            whether averages of the points are evaluated; passes between two certificates (10, 5).
        memory : "lbfgs" only
            Pairs of steps and gradients kept, default 100 or what fits into 512 MB or `memory_limit`.
        sigma, growth : "alm" only
            First step of the proximal point method on the dual (default: from the gap at the start, `lam / Rbar^2`
            without a warm start), and its factor from one proximal step to the next (1.5). `warm_start` also passes on
            the multipliers, for any lam.
        t0 : "sgd" only
            Offset of the step length `1 / (lam (t0 + t))`; default: tuned on 10 % of the data.

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
        with opened(risk, w0, lam=lam, radius=radius, penalty=penalty, method=method, tol=tol, atol=atol,
                    n_parts=n_parts, max_iter=max_iter, time_limit=time_limit, memory_limit=memory_limit,
                    nonneg=nonneg, constraints=constraints, callback=callback, n_jobs=n_jobs, executor=executor,
                    checkpoint=checkpoint, checkpoint_every=checkpoint_every, deterministic=deterministic,
                    random_state=random_state, verbose=verbose, scale=scale, evidence=evidence, **options
                    ) as solve, single_threaded_blas():
            solve.complete()
    except KeyboardInterrupt:
        if solve is None or solve.result is None:
            raise
        solve.result.status = Status.INTERRUPTED        # while workers were given back
    if solve.result.status in UNFINISHED and method_of(method).n_epochs is None:
        warn_user(f"pybundle: {solve.result.message}")
    return solve.result


@contextmanager
def opened(risk, w0=None, *, lam=None, radius=None, penalty=None, method="auto", tol=0.01, atol=None, n_parts=None,
           max_iter=None, time_limit=None, memory_limit=None, nonneg=None, constraints=None, callback=None, n_jobs=None,
           executor=None, checkpoint=None, checkpoint_every=None, deterministic=True, random_state=None, verbose=0,
           scale="sum", evidence=False, state=None, **options):
    """Check the arguments of `minimize` and yield the `Solve`; at the end close threads, workers and checkpoint file.

    `state` is that of another run to start from, as `warm_start` but for any method.
    """
    check_choice("scale", scale, ("sum", "mean"))
    method = method_of(method)
    if not isinstance(verbose, (int, np.integer)) or verbose < 0:
        raise ParameterError(f"verbose must be an integer >= 0, got {verbose!r}")
    check_options(method, options, risk, ("w0", *(minimize.__kwdefaults__ or ())))
    every = check_seconds(checkpoint_every)
    callbacks = as_callbacks(callback)
    given = risk = as_risk(risk, w0)
    warm = options.get("warm_start")
    # planes of changed data prove nothing: all data are read, to detect changes, only if planes of another run are used
    risk = risk.renewed(whole=checkpoint is not None or warm is not None or state is not None)
    signs = make_signs(nonneg, risk)
    if radius is None and risk.linear_risk is not None and not is_intercept_bounded(risk, penalty, signs, constraints):
        risk = risk.linear_risk.centred()
    n = risk.n_examples if scale == "mean" else 1
    problem = make_problem(method, risk, signs, n, lam=lam, radius=radius, penalty=penalty, constraints=constraints)
    settings = make_settings(tol, atol, memory_limit, options, n, random_state, deterministic)
    rules = make_rules(max_iter, time_limit, method)
    w0 = make_start(w0, risk.dim, risk.shift)
    state = state_of(warm) if state is None else state
    check_flag("evidence", evidence)
    if evidence:
        if checkpoint is not None:
            raise ParameterError("evidence=True takes no checkpoint, which would not hold it; leave one of them out")
        check_provable(problem)
        settings = replace(settings, record=getattr(state, "record", None) or Record())
    with ExitStack() as stack:
        pool = stack.enter_context(closing(make_executor(n_jobs))) if executor is None else executor
        places = None if executor is None else placing(executor)
        if places is not None and problem.classes is not None:       # workers know means of their own rows only
            problem = replace(problem, anchors=None, means=None)
        takes_oca = problem.rows is not None or (problem.entries is None and problem.ball is None)
        risk = regrouped(risk, n_parts, method, pool, settings, places is not None, takes_oca)
        watching = [Callback(function, settings.factor, risk.shift) for function in callbacks]
        for rule in reversed(watching):
            stack.callback(_close, rule)
        checkpointing = NoCheckpoint()
        stack.callback(lambda: checkpointing.close())
        working = risk
        if places is not None or risk.remote is not None:
            working = stack.enter_context(placed(risk, places, precision_of(settings)))
        run = make_run(method, Search(working, problem, settings), options)
        report = open_log(settings.factor, verbose)
        if checkpoint is not None:
            checkpointing = Checkpointing(
                check_path("checkpoint", checkpoint), every, working,
                terms_of(risk, given, problem, method.name, options, w0, lam=lam, radius=radius,
                         penalty=penalty, nonneg=signs, constraints=problem.rows, scale=scale,
                         random_state=random_state, deterministic=bool(deterministic)), settings,
                lambda name, limit: make_run(
                    method if name == method.name else METHODS[name],
                    Search(working, problem, replace(settings, memory_limit=limit)), options), report)
        # home: the data of this process, for evidence; at_home: the same if workers compute, in case they fail
        home = risk if risk.remote is None else None
        at_home = risk.remote.home if home is None else None if working is risk else risk
        yield Solve(run, w0, state, rules + watching, report, settings.factor, checkpointing, at_home, home)


def state_of(warm):
    """Return the state that `warm_start` has, or is."""
    state = getattr(warm, "state", warm)
    if warm is not None and not isinstance(state, State):
        raise InputTypeError("warm_start must be a Result that has a state, or that state, got "
                             + (f"{type(warm).__name__}" if not hasattr(warm, "x") else "a Result without one, as "
                                "not the last of a path; pass w0=result.x to start from its point"))
    return state


def _close(rule):
    """Close a callback after the run; if that fails, the result or the error of the run still counts."""
    try:
        rule.close()
    except Exception as error:
        name = getattr(rule.function, "__name__", type(rule.function).__name__)
        warn_user(f"pybundle: the callback {name} failed at its close: {type(error).__name__}: {error}",
                  RuntimeWarning)
