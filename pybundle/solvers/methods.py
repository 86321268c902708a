"""The methods by name, "auto" among them; makes their runs and refuses options that they do not know."""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial

import numpy as np

from ..core.exceptions import ParameterError
from ..core.protocols import BOUNDED, LABELLINGS, completed, require
from .block.frank_wolfe import FRANK_WOLFE
from .block.methods import BCFW, BLOCKS, MP_BCFW, PROX_BCFW
from .bundle.methods import BMRM, OCA, PROX_BMRM
from .bundle.sgd import SGD
from .fallback import Relay, Stage
from .method import BUNDLE, Method
from .newton.methods import ALM
from .objective import Ball
from .run import is_fine
from .smooth.lbfgs import LBFGS

INSTEAD = {"C": "lam = 1/C", "args": "bind them in fun, as by functools.partial",
           "jac": "fun returns the value and a subgradient", "x0": "did you mean w0?"} | dict.fromkeys(
               ("bounds", "constraints"), "did you mean nonneg? There are no other constraints")
"""What to use in place of options that other packages have."""


def auto(problem, handover=1e-3, patience=150.0, **_):
    """The method that the capabilities of the risk speak for, the next ones for where it stalls, the reason in words.

    Fine tolerances are for the augmented Lagrangian, from a gap of `handover` on: cold it is ten times slower.
    It also follows where blocks do not halve the gap in `patience` passes: with columns of unequal size, with huge C.
    """
    risk = problem.risk
    follow = partial(partial, make_run, problem=problem)
    oca, blocks = follow("oca"), follow("prox-bcfw")
    last = Stage(oca, None, np.inf)
    is_free, wants_alm = problem.objective.nonneg is None, is_fine(problem.settings.gap.tol)
    if isinstance(problem.objective, Ball):
        return _because(make_run("cutting-plane", problem), "'cutting-plane': a radius is given")
    if risk.smooth:
        return _because(Relay(make_run("lbfgs", problem), last), "'lbfgs': the risk is smooth")
    if risk.is_mapped:
        return _because(oca(), "'oca': the data are mapped from a file, which is read in the order of its rows")
    if problem.settings.memory_limit is not None:
        return _because(oca(), "'oca': planes of parts can be kept under a memory limit")
    if risk.has_exact_blocks and is_free:
        why, alm = "the labels of an example can be enumerated", [None]
    elif LABELLINGS.holds(risk) and BOUNDED.holds(risk):
        why, alm = "examples can be decoded one at a time", []
    else:
        return _because(oca(), "'oca': the risk gives planes of parts only")
    wants_alm = wants_alm and is_free
    if wants_alm:
        alm, why = [handover], f"{why}, tol is small"
    stages = [Stage(follow("alm"), gap, patience) for gap in alm]
    name = "'prox-bcfw', then 'alm'" if wants_alm else "'prox-bcfw'"
    return _because(Relay(blocks(), *stages, last), f"{name}: {why}")


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
    "auto": Method(auto, {**BUNDLE, **BLOCKS}, n_parts=16, serialised=(Relay,)),
    "lbfgs": LBFGS,
    "alm": ALM,
}


def make_run(name, problem):
    """The run of a method, with its requirements and options checked."""
    method = METHODS[name]
    require(f"method {name!r}", method.needs, problem.risk, method.remedy)
    options = {key: option.check(key, problem.options[key]) if key in problem.options else option.default
               for key, option in method.options.items() if option.check is not None}
    return method.make(problem, **options)


def check_options(name, options, risk, arguments):
    """Refuses options that the method does not know; `arguments` are the names of those of `minimize`."""
    unknown = sorted(set(options) - set(METHODS[name].options))
    if not unknown:
        return
    takes = usable(name, risk)
    near = get_close_matches(unknown[0], [*takes, *arguments], 1)
    if unknown[0] in INSTEAD:
        hint = INSTEAD[unknown[0]]
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
