"""The bundle methods on planes of parts: BMRM and CPA, proximal BMRM, OCA."""

from __future__ import annotations

from ...core.exceptions import ParameterError
from ...core.protocols import AFFINE_SCORES, require
from ...core.validation import check_flag
from ..method import BUNDLE, Method, Option, integer, number, or_none
from .bundle_method import BundleMethod
from .policies import BestPoint, LastIterate, LineSearch, PublishedProximity


def last_iterate(search, zero_plane=True):
    return BundleMethod(search, LastIterate(), zero_plane)


def prox_bmrm(search, K, T, zero_plane):
    return BundleMethod(search, PublishedProximity(K, T, search.settings.stop == "published"), zero_plane)


def oca(search, mu, line_search):
    """Return the line search if scores are affine in w, else the proximal bundle around the best point."""
    risk, limit = search.risk, search.settings.memory_limit
    if search.problem.ball is not None:
        return last_iterate(search)
    if search.problem.square is None:
        if line_search:
            raise ParameterError("line_search=True takes one number lam, got a penalty; leave the option out")
        return BundleMethod(search, BestPoint())
    policy = LineSearch(mu)
    if line_search:
        require("line_search=True", [AFFINE_SCORES], risk, "leave the option out")
    if line_search is None:
        # the line search would read the rows of a mapped file a second time
        line_search = AFFINE_SCORES.holds(risk) and not risk.is_mapped and (
            limit is None or policy.working_bytes(risk) <= limit // 2)
    return BundleMethod(search, policy if line_search else BestPoint())


def step_length(name, value):
    """Check the step length of "prox-bmrm": "auto" or a positive number."""
    return value if isinstance(value, str) and value == "auto" else number(low=0.0, strict=True)(name, value)


ZERO_PLANE = {"zero_plane": Option(True, check_flag)}
BMRM = Method("bmrm", last_iterate, {**BUNDLE, **ZERO_PLANE})
PROX_BMRM = Method("prox-bmrm", prox_bmrm,
                   {**BUNDLE, **ZERO_PLANE, "K": Option("auto", step_length), "T": Option(100, integer)})
OCA = Method("oca", oca, {**BUNDLE, "mu": Option(0.1, number(low=0.0, strict=True, high=1.0)),
                   "line_search": Option(None, or_none(check_flag), (AFFINE_SCORES,))},
             n_parts=16, penalties="all")
