"""All methods by name, including "auto"; builds their runs and refuses options that a method does not have."""

from __future__ import annotations

from difflib import get_close_matches

import numpy as np

from ..core.exceptions import ParameterError
from ..core.protocols import BOUNDED, CORNERS, LABELLINGS, SINGLE, completed, require
from ..prox.base import names_of
from .block.log_loss_blocks import LogLossBlocks
from .block.methods import ALM, BCFW, BLOCKS, MP_BCFW, PROX_BCFW
from .bundle.frank_wolfe import FRANK_WOLFE
from .bundle.methods import BMRM, OCA, PROX_BMRM
from .bundle.sgd import SGD
from .fallback import MethodSequence, Stage
from .interior.methods import INTERIOR_POINT, cost_in_passes, refusal
from .method import BUNDLE, Method
from .run import is_fine
from .scaling import scaling
from .smooth.lbfgs import LBFGS
from .smooth.newton import NEWTON, patience_before

INSTEAD = {"C": "lam = 1/C", "args": "bind them in fun, as by functools.partial",
           "jac": "fun returns the value and a subgradient", "x0": "did you mean w0?",
           "bounds": "did you mean penalty=pb.prox.Box(lower, upper)?"} | {
    theirs: f"did you mean {ours}?" for theirs, ours in {
        "seed": "random_state", "timeout": "time_limit", "tolerance": "tol", "eps": "tol", "maxfun": "max_iter",
        "bound": "radius, or nonneg"}.items()}
"""What to use in place of options that other packages have."""


FEW_WEIGHTS = 50
"""With so few weights of classes, methods on planes reach fine tolerances sooner than steps on examples do."""
NARROW, TINY = 1 << 15, 1e-8
"""Weights up to which a Newton step of "alm" costs about as much as some passes, so that it may take over from a slow
run; and the tolerance up to which it always does then: its last steps gain many digits each."""
AT_ONCE = 150.0
"""Passes that steps of "interior-point" may cost where "auto" starts with them, unless all weights are free."""
UNEVEN, MANY = 100.0, 100.0
"""Ratio of the largest curvature of a column to the median, and examples for each column: see `suits_blocks`."""
MOST_BYTES = 1 << 31
"""Bytes that the distributions of labellings may take; they grow with the square of the number of labels."""


def auto(problem, at_gap=1e-3, n_slow=150.0, **_):
    """Choose a method from the capabilities of the risk, with fallbacks if it stalls, and a reason in words.

    Without a penalty another method takes over from "prox-bcfw" if that does not halve the gap within a number of
    passes, as with columns of unequal size or huge C:

    * "alm", if labels can be enumerated: after half of `n_slow`, for fine tolerances or uneven columns a sixth; with
      more than NARROW weights only if "prox-bcfw" stalls;
    * "alm", with a decoder and fine tolerances only: after `n_slow`, and from a gap of `at_gap` on as soon as an
      iteration does not halve it, because started cold "alm" is ten times slower. With tol <= TINY this holds for
      enumerable labels and at most NARROW weights, too;
    * "oca", with at most FEW_WEIGHTS weights, if "alm" does not halve the gap of enumerable labels within `n_slow`
      passes.

    Losses of one score with corners have "interior-point" instead: at once if its steps are cheap and some weights are
    free, or targets have a penalty other than `lam`; else after as many passes as its steps cost.

    Hinge losses of classes with free intercepts are left to "oca" as early as others to "alm".

    Classes with a log-loss and free intercepts begin with "lbfgs", which scales columns, if these differ by much in
    size, or if examples are many more than columns, see `suits_blocks`.

    For classes and chains with a log-loss "lbfgs" takes over if the gap is not halved within a third of `n_slow`
    passes, or within `n_slow` with another penalty than equal squares. For other smooth risks see `patience_before`.
    The last fallback is "oca".
    """
    risk, objective = problem.risk, problem.objective
    has_signs = objective.nonneg is not None
    keeps = problem.settings.record is not None         # points of planes, as evidence

    def later(name):
        return lambda objective: make_run(name, problem._replace(objective=objective))

    stages = [Stage(later("oca"), None, np.inf)]
    if objective.radius is not None:
        return _because(make_run("cutting-plane", problem), "'cutting-plane': a radius is given")
    if objective.rows is not None:
        return _because(make_run("oca", problem), "'oca': it takes constraints")
    is_penalised = not objective.is_of_norm
    omega = objective.entries if is_penalised else None
    if is_penalised and (omega is None or not (risk.smooth or risk.has_exact_blocks)):
        return _because(make_run("oca", problem), "'oca': it takes any penalty")
    has_free = bool(objective.is_free.any())
    all_free = is_penalised and bool((objective.is_free | (omega.lower == omega.upper)).all())
    classes = objective.classes
    if classes is not None and risk.smooth:
        stages = []             # planes of parts come no nearer than repaired ones
        takes_blocks = suits_blocks(objective, risk.n_examples)
    else:
        takes_blocks = risk.dim > FEW_WEIGHTS and not keeps and not has_free
    if (risk.log_loss_tokens is not None and takes_blocks and problem.settings.memory_limit is None
            and LogLossBlocks.multiplier_bytes(risk) <= MOST_BYTES):
        # without equal squares L-BFGS is slow, too
        stages.insert(0, Stage(later("lbfgs"), None, n_slow if objective.even is None else n_slow / 3.0))
        return _because(MethodSequence(make_run("prox-bcfw", problem), *stages),
                        "'prox-bcfw': examples with a log-loss can be visited one at a time")
    if risk.smooth:
        wait = None if problem.settings.memory_limit is not None else patience_before(risk, objective)
        if wait is None:
            return _because(MethodSequence(make_run("lbfgs", problem), *stages), "'lbfgs': the risk is smooth")
        stages.insert(0, Stage(later("lbfgs"), None, np.inf))
        if wait == 0.0:
            return _because(MethodSequence(make_run("newton", problem), *stages),
                            "'newton': the risk is smooth, and steps on few columns are cheap")
        stages.insert(0, Stage(later("newton"), None, wait))
        return _because(MethodSequence(make_run("lbfgs", problem), *stages),
                        "'lbfgs', then 'newton' if it is slow: the risk is smooth")
    takes_steps = CORNERS.holds(risk) and refusal(problem) is None
    if takes_steps:
        cost = cost_in_passes(risk)
        if all_free or (is_penalised and (has_free or risk.is_regression) and cost <= AT_ONCE):
            return _because(MethodSequence(make_run("interior-point", problem), *stages),
                            "'interior-point': the loss has corners, and steps on few columns are cheap")
        stages.insert(0, Stage(later("interior-point"), None, np.inf, cost))
    if risk.is_mapped:
        why = "the data are mapped from a file, which is read in the order of its rows"
    elif problem.settings.memory_limit is not None:
        why = "planes of parts can be kept under a memory limit"
    elif risk.remote is not None:
        why = "workers hold the parts"
        if risk.remote.home is not None and LABELLINGS.holds(completed(risk.remote.home)):
            why = f"{why}; without executor, steps on examples take far fewer passes"
    elif not (BOUNDED.holds(risk) and (LABELLINGS.holds(risk) or (SINGLE.holds(risk) and not has_signs and not keeps))):
        why = "the risk has planes of parts only"
    elif is_penalised and keeps and classes is None:
        why = "the planes of parts are the evidence"
    elif is_penalised and not takes_steps and (all_free or (
            objective.even is None and objective.coordinates.are_far(risk.examples)) or (
            risk.dim <= FEW_WEIGHTS and is_fine(problem.settings.gap.tol))):
        why = "columns are far from 0, weights are free, or they are few and tol is small"
    elif is_penalised or takes_steps:
        if classes is not None:
            stages = [Stage(later("oca"), None, n_slow / (6.0 if is_fine(problem.settings.gap.tol) else 2.0))]
        return _because(MethodSequence(make_run("prox-bcfw", problem), *stages),
                        "'prox-bcfw': the dual of an example is maximised exactly")
    else:
        has_labels, is_exact = LABELLINGS.holds(risk), risk.has_exact_blocks and not has_signs
        tol, name = problem.settings.gap.tol, "'prox-bcfw'"
        wait = n_slow / (6.0 if is_fine(tol) or (is_exact and has_labels and scaling(risk)) else 2.0)
        why = ("the dual of an example is maximised exactly" if not has_labels else
               "the labels of an example can be enumerated" if is_exact else "examples can be decoded one at a time")
        if is_exact and has_labels and risk.dim <= FEW_WEIGHTS:
            stages = [Stage(later("oca"), None, n_slow)]
        if is_exact and has_labels and (tol > TINY or risk.dim > NARROW):
            stages.insert(0, Stage(later("alm"), None, wait if risk.dim <= NARROW else np.inf))
        elif has_labels and not has_signs and is_fine(tol):
            stages.insert(0, Stage(later("alm"), at_gap, n_slow))
            name, why = f"{name}, then 'alm'", f"{why}, tol is small"
        return _because(MethodSequence(make_run("prox-bcfw", problem), *stages), f"{name}: {why}")
    return _because(make_run("oca", problem), f"'oca': {why}")


def suits_blocks(objective, n_examples):
    """Return whether steps on examples need less time than L-BFGS, which scales columns, for free intercepts: measured.

    Seconds to 1e-3 were 0.05 : 0.11 on 1797 x 64 pixels, 0.50 : 0.17 on 20000 x 50, 0.30 : 0.04 if sizes differ.
    """
    if objective.even is None:
        return False
    K, d = objective.classes.rows.shape
    sizes = objective.anchors.curvatures(objective.even).reshape(K, d)[1, :-1]
    is_even = sizes.max(initial=0.0) <= UNEVEN * np.median(sizes) if len(sizes) else True
    return n_examples <= MANY * d and (is_even or n_examples <= d)


def _because(run, words):
    run.at_work.choice = f"auto chose {words}"
    return run


METHODS = {
    "cutting-plane": BMRM,
    "bmrm": BMRM,
    "prox-bmrm": PROX_BMRM,
    "oca": OCA,
    "sgd": SGD,
    "bcfw": BCFW,
    "mp-bcfw": MP_BCFW,
    "prox-bcfw": PROX_BCFW,
    "frank-wolfe": FRANK_WOLFE,
    "auto": Method(auto, {**BUNDLE, **BLOCKS}, n_parts=16, serialised=(MethodSequence,), penalties="all"),
    "lbfgs": LBFGS,
    "newton": NEWTON,
    "alm": ALM,
    "interior-point": INTERIOR_POINT,
}


def make_run(name, problem):
    """The run of a method, with its requirements and options checked."""
    method = METHODS[name]
    if not problem.objective.is_of_norm and method.penalties != "all":
        if problem.objective.rows is not None:
            raise ParameterError(f"method {name!r} takes no constraints; use 'oca'")
        if method.penalties == "none":
            raise ParameterError(f"method {name!r} takes one number lam, got a penalty or free weights (an array lam, "
                                 "fit_intercept); use 'oca'")
        if problem.objective.entries is None:
            raise ParameterError(f"method {name!r} takes L1, ElasticNet, SquaredL2 and Box without groups, and their "
                                 f"sums, as penalty, got {names_of([problem.objective.penalty])}; use 'oca'")
    require(f"method {name!r}", method.needs, problem.risk, method.remedy)
    options = {key: option.check(key, problem.options[key]) if key in problem.options else option.default
               for key, option in method.options.items() if option.check is not None}
    return method.make(problem, **options)


def check_options(name, options, risk, arguments):
    """Refuse options that the method does not have; `arguments` are the names of the arguments of `minimize`."""
    unknown = sorted(set(options) - set(METHODS[name].options))
    if not unknown:
        return
    takes = usable(name, risk)
    others = [repr(other) for other, method in METHODS.items() if unknown[0] in method.options]
    near = get_close_matches(unknown[0], [*takes, *arguments], 1)
    if unknown[0] in INSTEAD:
        hint = INSTEAD[unknown[0]]
    elif others:
        hint = f"it belongs to {', '.join(others)}"
    elif near:
        hint = f"did you mean {near[0]}?"
    else:
        hint = f"it takes {', '.join(takes)}"
    raise ParameterError(f"unknown option {unknown[0]!r} for method {name!r}; {hint}")


def usable(name, risk):
    """Options of a method that mean something for this risk, sorted."""
    risk = completed(risk)
    return sorted(key for key, option in METHODS[name].options.items()
                  if all(capability.holds(risk) for capability in option.needs))
