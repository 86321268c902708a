"""The interior point method: which problems it takes, and what a step costs beside a pass of other methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.exceptions import ParameterError
from ...core.protocols import CORNERS
from ...proof.score_limits import MOST_ENTRIES
from ..method import Method
from .interior_point import InteriorPoint as InteriorPointRun

STEPS = 12.0                # about as many steps are needed


def refusal(search):
    """Return why the method refuses a problem whose loss of one score has corners, or None."""
    risk, problem = search.risk, search.problem
    if risk.is_mapped or search.settings.memory_limit is not None:
        return "keeps the rows in memory, got mapped data or a memory_limit"
    if risk.examples.is_sparse and risk.n_examples * risk.dim > MOST_ENTRIES:
        return f"makes the rows dense, got CSR of shape {risk.examples.X.shape}"
    omega, free = problem.entries, problem.is_free
    if (np.isfinite(omega.lower) | np.isfinite(omega.upper))[omega.lower < omega.upper].any():
        return "takes no bounds of weights, got some (w_k >= 0, or a penalty with Box)"
    if free.any() and 0.0 in risk.curve[:2] and np.flatnonzero(free).tolist() != np.flatnonzero(risk.free).tolist():
        return "takes no free weights but the intercept with a loss of one side, got some"
    return None


def cost_in_passes(risk):
    """Return how many passes of steps on examples take as long as all steps of this method; measured."""
    n, d, entries = risk.n_examples, risk.dim, risk.examples.storage[0].size / risk.n_examples
    return STEPS * (n * (1e-10 * d * min(n, d) + 2e-7) + 5e-4) / (n * (2e-9 * entries + 5e-8) + 5e-5)


@dataclass(frozen=True, kw_only=True)
class InteriorPoint(Method):
    """Primal-dual interior point method for losses of one score with corners, on few columns or few rows.

        1  Newton step on the perturbed optimality conditions of primal and dual: one factorisation of X' D X
        2  steps to the boundary, once as predictor and once as corrector
        3  the multipliers are made feasible: their dual value is a lower bound

    Take it for quantiles, hinge, absolute and epsilon-insensitive losses with few columns; weights may be free.

    References
    ----------
    Mehrotra (1992); Portnoy & Koenker (1997) for quantiles.
    """

    name: ClassVar[str] = "interior-point"
    needs: ClassVar[tuple] = (CORNERS,)
    penalties: ClassVar[str] = "separable"

    def begin(self, search):
        """Return a run, or refuse the problem."""
        words = refusal(search)
        if words is not None:
            raise ParameterError(f"method 'interior-point' {words}; use method 'oca'")
        return InteriorPointRun(search)
