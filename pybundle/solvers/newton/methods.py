"""The augmented Lagrangian method: on the multipliers of all labels, or on the planes of labellings found so far."""

from __future__ import annotations

from ...core.exceptions import ParameterError
from ...core.protocols import BOUNDED, LABELLINGS
from ..block.block_method import BlockMethod
from ..block.cached_blocks import CachedBlocks
from ..block.methods import cached
from ..block.schedules import Exact
from ..method import WARM_START, Method, Option, number, or_none
from .alm import AugmentedLagrangian
from .label_multipliers import LabelMultipliers


def alm(problem, sigma, growth):
    if problem.objective.nonneg is not None:
        raise ParameterError("method 'alm' takes no constraints w_k >= 0, got nonneg; use method 'oca'")
    if problem.risk.has_exact_blocks:
        return AugmentedLagrangian(LabelMultipliers(problem.risk), problem.objective, problem.settings, sigma, growth)
    if problem.settings.memory_limit is not None:
        raise ParameterError("memory_limit must be None for method 'alm' on planes of examples, which solves with "
                             "all of them at once; use method 'prox-bcfw' or 'oca'")
    return cached(problem, Exact(), sigma=sigma, growth=growth)


ALM = Method(alm, {"sigma": Option(None, or_none(number(low=0.0, strict=True))),
                   "growth": Option(1.5, number(low=1.0)), **WARM_START},
             needs=(LABELLINGS, BOUNDED), serialised=(AugmentedLagrangian, BlockMethod, CachedBlocks, Exact))
