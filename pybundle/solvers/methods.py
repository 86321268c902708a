"""All methods by name, including "auto"; builds their runs and refuses options that a method does not have."""

from __future__ import annotations

from difflib import get_close_matches

from ..core.exceptions import ParameterError
from ..core.protocols import completed, require
from ..prox.base import names_of
from .auto import choose
from .block.methods import ALM, BCFW, BLOCKS, MP_BCFW, PROX_BCFW
from .bundle.frank_wolfe import FRANK_WOLFE
from .bundle.methods import BMRM, OCA, PROX_BMRM
from .bundle.sgd import SGD
from .fallback import MethodSequence
from .interior.methods import INTERIOR_POINT
from .method import BUNDLE, Method
from .smooth.lbfgs import LBFGS
from .smooth.newton import NEWTON

INSTEAD = {"C": "lam = 1/C", "args": "bind them in fun, as by functools.partial",
           "jac": "fun returns the value and a subgradient", "x0": "did you mean w0?",
           "bounds": "did you mean penalty=pb.prox.Box(lower, upper)?"} | {
    theirs: f"did you mean {ours}?" for theirs, ours in {
        "seed": "random_state", "timeout": "time_limit", "tolerance": "tol", "eps": "tol", "maxfun": "max_iter",
        "bound": "radius, or nonneg"}.items()}
"""What to use in place of options that other packages have."""


def auto(problem, **_):
    """Build the run of the method that `choose` takes, and of those that take over from it."""
    name, words, fallbacks = choose(problem)
    run = make_run(name, problem)
    if fallbacks is not None:
        run = MethodSequence(run, fallbacks, lambda name: make_run(name, problem))
    run.search.choice = f"auto chose {words}"
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
    "auto": Method(auto, {**BUNDLE, **BLOCKS}, n_parts=16, penalties="all"),
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
    run = method.make(problem, **options)
    if not run.name:            # "auto" has named the method that it chose
        run.name = name
    return run


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
