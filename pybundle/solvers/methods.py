"""All methods by name, including "auto"; builds their runs and refuses options that a method does not have."""

from __future__ import annotations

from difflib import get_close_matches

from ..core.exceptions import ParameterError
from ..core.protocols import completed, require
from ..core.validation import check_choice
from ..prox.base import names_of
from .auto import choose
from .block.methods import ALM, BCFW, BLOCKS, MP_BCFW, PROX_BCFW
from .bundle.frank_wolfe import FRANK_WOLFE
from .bundle.methods import BMRM, OCA, PROX_BMRM
from .bundle.sgd import SGD
from .fallbacks import Fallbacks
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


AUTO = Method("auto", None, {**BUNDLE, **BLOCKS}, n_parts=16, penalties="all")
METHODS = {method.name: method for method in (
    BMRM._replace(name="cutting-plane"), BMRM, PROX_BMRM, OCA, SGD, BCFW, MP_BCFW, PROX_BCFW, FRANK_WOLFE, AUTO, LBFGS,
    NEWTON, ALM, INTERIOR_POINT)}


def method_of(method):
    """Return the record of a method: of that name, or the record itself."""
    return method if isinstance(method, Method) else METHODS[check_choice("method", method, tuple(METHODS))]


def make_run(method, search, options):
    """Build the run of a method; check what it requires and its options."""
    if method is AUTO:
        return _chosen(search, options)
    problem = search.problem
    if method.penalties != "all" and problem.rows is not None:
        raise ParameterError(f"method {method.name!r} takes no constraints; use 'oca'")
    if method.penalties == "none" and problem.square is None and problem.ball is None:
        raise ParameterError(f"method {method.name!r} takes one number lam, got a penalty or free weights (an array "
                             "lam, fit_intercept); use 'oca'")
    if method.penalties == "separable" and problem.entries is None:
        raise ParameterError(f"method {method.name!r} takes L1, ElasticNet, SquaredL2 and Box without groups, and "
                             f"their sums, as penalty, got {names_of(problem.penalty)}; use 'oca'")
    require(f"method {method.name!r}", method.needs, search.risk, method.remedy)
    run = method.make(search, **{key: option.check(key, options[key]) if key in options else option.default
                                 for key, option in method.options.items() if option.check is not None})
    run.name = method.name
    return run


def _chosen(search, options):
    """Build the run of the method that `choose` takes; fallbacks are built when they take over."""
    name, words, fallbacks = choose(search)
    search.choice = f"auto chose {words}"
    run = make_run(METHODS[name], search, options)
    if fallbacks is not None:
        run.fallbacks = Fallbacks(fallbacks, lambda name, search: make_run(METHODS[name], search, options))
    return run


def check_options(method, options, risk, arguments):
    """Refuse options that the method does not have; `arguments` are the names of the arguments of `minimize`."""
    unknown = sorted(set(options) - set(method.options))
    if not unknown:
        return
    takes = usable(method, risk)
    others = [repr(name) for name, other in METHODS.items() if unknown[0] in other.options]
    near = get_close_matches(unknown[0], [*takes, *arguments], 1)
    if unknown[0] in INSTEAD:
        hint = INSTEAD[unknown[0]]
    elif others:
        hint = f"it belongs to {', '.join(others)}"
    elif near:
        hint = f"did you mean {near[0]}?"
    else:
        hint = f"it takes {', '.join(takes)}"
    raise ParameterError(f"unknown option {unknown[0]!r} for method {method.name!r}; {hint}")


def usable(method, risk):
    """Return the options of a method that have an effect for this risk, sorted."""
    risk = completed(risk)
    return sorted(key for key, option in method.options.items()
                  if all(capability.holds(risk) for capability in option.needs))
