"""All records of methods by name, "auto" among them: read from text, checked, and begun."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, ClassVar

from ..core.exceptions import InputTypeError, ParameterError
from ..core.protocols import require
from ..core.validation import check_choice, refuse_unknown
from ..prox import Ball
from ..prox.base import names_of
from .auto import choose
from .block.methods import ALM, BCFW, MPBCFW, ProxBCFW
from .bundle.methods import BMRM, OCA, SGD, FrankWolfe, ProxBMRM
from .fallbacks import Fallbacks
from .interior.methods import InteriorPoint
from .method import Method
from .run import Run
from .smooth.methods import LBFGS, Newton


def check_stage(name, value):
    """Check the record of a stage of "auto": its class must be that of the method `name`."""
    kind = METHODS[name.replace("_", "-")]
    if type(value) is not kind:         # the text of Auto names options, and could not name a subclass
        raise InputTypeError(f"{name} of Auto must be a pb.methods.{kind.__name__}, got {type(value).__name__}; pass "
                             "a record of another class as method itself")
    return value


STAGE = {"check": check_stage}


@dataclass(frozen=True, kw_only=True)
class Auto(Method):
    """The method that suits the problem, and others that take over if it stalls or is slow.

    Its steps::

        1  take the first of these that fits
               "bmrm"             in a ball
               "oca"              with constraints, or if the penalty is not separable
               "prox-bcfw"        for most problems of classes or chains with a log-loss
               "newton", "lbfgs"  for other smooth risks, the first of them on few columns
               "interior-point"   for losses of one score with corners, if steps are cheap, and
                                  weights are free or targets have another penalty than lam
               "oca"              for mapped data, under a memory limit, with workers, or if the
                                  risk has only planes
               "prox-bcfw"        if the risk can decode single examples, or step on them
                                  exactly; with a penalty only the latter, unless columns are
                                  far from 0, or weights are free or few
        2  run it; if it stalls, or does not halve the gap within some passes, the next of its
           fallbacks takes over, from its best point, its bound and its planes or multipliers

    Under a memory limit "lbfgs" and "oca" stand in for "prox-bcfw". "lbfgs" continues "newton" if that stalls, and
    "oca" continues "lbfgs". After "prox-bcfw" the run may continue with "alm" (for tolerances below 1e-4 and at most
    2^15 weights, or, if labels can be enumerated, if the gap falls slowly), with "lbfgs" (for a log-loss, in the latter
    case), with "interior-point" (for losses with corners) and with "oca" (if these stall, or are slow with few
    weights). `message` of the result names the choice and its reason.

    Take it unless you compare methods. Cost and memory are those of the method that runs.

    Parameters
    ----------
    prox_bcfw, alm, lbfgs, newton, interior_point, oca, bmrm : Method
        The records of its stages, each of the class of its name; they do not change which of them is chosen.

    Raises
    ------
    InputTypeError
        If a stage is not of the class of its name.

    Examples
    --------
    >>> import pybundle as pb
    >>> method = pb.methods.Auto(prox_bcfw=pb.methods.ProxBCFW(kappa=2.0))
    >>> str(method)
    'auto prox_bcfw.kappa=2.0'
    >>> risk = pb.risks.MulticlassHinge([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 1])
    >>> pb.minimize(risk, lam=0.5, method=method).message.rpartition("; ")[2]
    "auto chose 'prox-bcfw': the labels of an example can be enumerated"
    """

    name: ClassVar[str] = "auto"
    n_parts: ClassVar[int] = 16
    penalties: ClassVar[str] = "all"
    prox_bcfw: ProxBCFW = field(default=ProxBCFW(), metadata=STAGE)
    alm: ALM = field(default=ALM(), metadata=STAGE)
    lbfgs: LBFGS = field(default=LBFGS(), metadata=STAGE)
    newton: Newton = field(default=Newton(), metadata=STAGE)
    interior_point: InteriorPoint = field(default=InteriorPoint(), metadata=STAGE)
    oca: OCA = field(default=OCA(), metadata=STAGE)
    bmrm: BMRM = field(default=BMRM(), metadata=STAGE)

    def begin(self, search: Any) -> Run:
        """Return the run of the method that `choose` takes; fallbacks are built when they take over."""
        name, words, fallbacks = choose(search)
        search.choice = f"auto chose {words}"
        run = make_run(self.stage(name), search)
        if fallbacks is not None:
            run.fallbacks = Fallbacks(fallbacks, lambda name, search: make_run(self.stage(name), search))
        return run

    def stage(self, name: str) -> Method:
        """Return the record of the stage of that name."""
        if name.replace("-", "_") not in {option.name for option in fields(self)}:
            raise ParameterError(f"method 'auto' has no stage {name!r}")
        return getattr(self, name.replace("-", "_"))

    def __str__(self) -> str:
        words = {option.name: str(getattr(self, option.name)).split()[1:] for option in fields(self)}
        return " ".join([self.name, *(f"{name}.{word}" for name, given in words.items() for word in given)])


METHODS: dict[str, type[Method]] = {kind.name: kind for kind in (
    BMRM, ProxBMRM, OCA, SGD, FrankWolfe, BCFW, MPBCFW, ProxBCFW, Auto, LBFGS, Newton, ALM, InteriorPoint)}
CUTTING_PLANE = "cutting-plane"
"""Name of `BMRM` in a ball."""


def parse(text: str | Method, **options: Any) -> Method:
    """Return the record of a method from its text: its name, and options as `name=value`, divided by spaces.

    Values are numbers, True, False and None as in Python, and else texts. The command line, the C interface and saved
    models use this function, too.

    Parameters
    ----------
    text : str or Method
        Such as "prox-bmrm K=0.4 T=50"; `str(method)` is such a text. A record is returned as it is. In "auto", options
        of its stages are written "auto prox_bcfw.n_best=4". "cutting-plane" is `BMRM`.
    **options
        More options, by name, which override those of the text.

    Returns
    -------
    Method

    Raises
    ------
    ParameterError
        If there is no such method or option, or the value of an option is not valid.
    InputTypeError
        If `text` is neither a text nor a record.

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.methods.parse("prox-bmrm K=0.4 T=50")
    ProxBMRM(theta=0.05, max_idle=None, stop='certificate', K=0.4, T=50, zero_plane=True)
    >>> pb.methods.parse("oca", max_idle=20) == pb.methods.OCA(max_idle=20)
    True
    """
    if isinstance(text, Method):
        if not text.name:
            raise ParameterError(f"{type(text).__name__} must have a name, the first word of its text")
        return _with_options(text, options) if options else text
    if not isinstance(text, str):
        raise InputTypeError(f"method must be a text or a record of pb.methods, got {type(text).__name__}")
    name, *words = text.split() or [""]
    name = check_choice("method", name, (*METHODS, CUTTING_PLANE))
    given = {}
    for word in words:
        key, _, value = word.partition("=")
        if not key or not value or key in given:
            raise ParameterError(f"method must be a name, and each option once as name=value, got {word!r} in "
                                 f"{text!r:.80}")
        given[key] = _value(value)
    given |= options
    return _with_options(METHODS["bmrm" if name == CUTTING_PLANE else name](), given)


def _with_options(method, options):
    """Return a record with other options; a name with a dot belongs to an option of a stage."""
    names = [option.name for option in fields(method)]
    stages: dict[str, dict[str, Any]] = {}
    for name in [name for name in options if "." in name]:
        first, _, rest = name.partition(".")
        stages.setdefault(first, {})[rest] = options[name]
    plain = {name: value for name, value in options.items() if "." not in name}
    for name in (*plain, *stages):
        if name not in names or (name in stages and not isinstance(getattr(method, name), Method)):
            near, owners = get_close_matches(name, names, 1), [repr(other) for other, _ in owners_of(name)]
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(names) or 'none'}"
            hint = f"it belongs to {', '.join(owners)}" if owners else hint
            stages = [stage for stage in names if hasattr(getattr(method, stage), name)]
            hint += f"; write {stages[0]}.{name}" if stages else ""
            raise ParameterError(f"unknown option {name!r} for method {method.name!r}; {hint}")
    method = replace(method, **plain)
    return replace(method, **{name: _with_options(getattr(method, name), inner) for name, inner in stages.items()})


def owners_of(option):
    """Return names and records of the methods that have an option."""
    return [(name, kind) for name, kind in METHODS.items() if option in {field.name for field in fields(kind)}]


def _value(text):
    if text in ("true", "false"):           # booleans as JSON spells them
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return text


def method_of(given, penalty=None):
    """Return the record of the argument `method`; "cutting-plane" demands a ball."""
    if isinstance(given, str) and given.split()[:1] == [CUTTING_PLANE] and not is_in_ball(penalty):
        raise ParameterError("method 'cutting-plane' minimises in a ball: pass penalty=pb.prox.Ball(radius) instead of "
                             "lam or another penalty")
    return parse(given)


def is_in_ball(penalty):
    """Return whether a penalty, or a term of its sum, is a ball."""
    return any(isinstance(term, Ball) for term in getattr(penalty, "terms", [penalty]))


def make_run(method, search):
    """Return the run of a method on a search, after checking what the method requires."""
    problem = search.problem
    if method.penalties != "all" and problem.rows is not None:
        raise ParameterError(f"method {method.name!r} takes no constraints; use 'oca'")
    if method.penalties == "none" and problem.square is None and problem.ball is None:
        raise ParameterError(f"method {method.name!r} takes one number lam, got a penalty or free weights (an array "
                             "lam, a centre, fit_intercept); use 'oca'")
    if method.penalties == "separable" and problem.entries is None:
        raise ParameterError(f"method {method.name!r} takes L1, ElasticNet, SquaredL2 and Box without groups, and "
                             f"their sums, as penalty, got {names_of(problem.penalty)}; use 'oca'")
    require(f"method {method.name!r}", method.needs, search.risk, method.remedy)
    run = method.begin(search)
    if not isinstance(run, Run):
        raise InputTypeError(f"begin of {type(method).__name__} must return a Run, got {type(run).__name__}")
    if not isinstance(method, Auto):        # a run of Auto has the method of a stage
        run.method = method
    return run


def refuse(unknown, arguments):
    """Refuse arguments that `minimize` does not have; `arguments` are the names of its own arguments."""
    owners = [kind.__name__ for name in sorted(unknown)[:1] for _, kind in owners_of(name)]
    refuse_unknown(unknown, arguments, owners and (
        f"it is an option of a method: method=pb.methods.{owners[0]}({min(unknown)}=...)"
        + (f", also of {', '.join(owners[1:])}" if owners[1:] else "")))
