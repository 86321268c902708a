"""The interior point method: which problems it takes, and what its steps cost, compared to passes of other methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.exceptions import ParameterError
from ...core.protocols import CORNERS
from ...proof.score_limits import MOST_ENTRIES
from ..method import Method
from ..run import Run
from .interior_point import InteriorPoint as InteriorPointRun

STEPS = 12.0                # approximate number of steps of a run


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

    Its steps::

        min sum_i max(lo_i r_i, hi_i r_i) + Omega(w),  r = y - X w = u - v;  its optimality
            conditions, perturbed by mu, are u (hi - a) = mu, v (a - lo) = mu, X'a = Omega'(w),
            with a multiplier a_i between lo_i and hi_i for each example
        repeat
            1  factor X'QX + Omega'', a matrix of d^2 numbers, or one of n_examples^2 if there
               are fewer rows than columns;  Q = 1 / (u / (hi - a) + v / (a - lo))
            2  a solution with mu = 0 predicts how far mu can fall; a second one with the same
               matrix is the step of (w, a, u, v), which goes at most 0.9995 of the way to the
               border
            3  F(w), and the dual value D of the multipliers a, which are feasible; stop if both
               are close; if X has at most 2^14 entries, after three steps

    With many more rows than columns it first solves a random sample of them, and then, again and again, the rows near
    the corners of their losses, with all other multipliers at an end of their interval. `l1_k |w_k|` is a row with the
    box +-l1_k.

    Take it for quantiles, the hinge of two classes, absolute and epsilon-insensitive losses with few columns of any
    scale; weights may be free, but with the hinge only the intercept. "auto" takes it there. A gap of 1e-5 usually
    takes 7 to 50 steps; much finer ones may drown in rounding. A step costs O(n_examples d min(n_examples, d))
    operations, and counts as 4 passes. Memory: X as dense float64 rows, and a matrix of min(n_examples, d)^2.

    Raises
    ------
    ParameterError
        In `minimize`, if the loss has no corners; for a penalty with groups or with bounds of weights; for CSR data of
        more than 2^24 entries with zeros, mapped data, and a `memory_limit`; and for free weights beside an intercept
        with a loss of one side.

    References
    ----------
    Mehrotra (1992) for lines 1 and 2; Portnoy & Koenker (1997) for quantiles and the solution by few rows.

    Examples
    --------
    >>> import pybundle as pb
    >>> X, y = [[1.0], [2.0], [3.0], [4.0]], [1.1, 1.9, 3.2, 3.8]
    >>> risk = pb.risks.Pinball(X, y, quantile=0.5)
    >>> result = pb.minimize(risk, lam=[0.0], method=pb.methods.InteriorPoint(), tol=1e-6)
    >>> result.success, result.lower_bound <= result.fun
    (True, True)
    """

    name: ClassVar[str] = "interior-point"
    needs: ClassVar[tuple[Any, ...]] = (CORNERS,)
    penalties: ClassVar[str] = "separable"

    def begin(self, search: Any) -> Run:
        """Return a run, or refuse the problem."""
        words = refusal(search)
        if words is not None:
            raise ParameterError(f"method 'interior-point' {words}; use method 'oca'")
        return InteriorPointRun(search)
