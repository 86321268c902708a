"""The records of the methods for smooth risks: L-BFGS and proximal Newton."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.protocols import HESSIAN, SMOOTH
from ..method import Method, integer, option, or_none
from .lbfgs import QuasiNewton
from .newton import Newton as NewtonRun


@dataclass(frozen=True, kw_only=True)
class LBFGS(Method):
    """Limited-memory BFGS for smooth risks, with a lower bound from planes.

        1  d = -B g, where B follows from the last pairs of steps and changes of the gradient g
        2  line search on w + t d to the Wolfe conditions; each trial is a pass and gives a plane
        3  the minimum of the master problem over the planes kept is a lower bound

    Take it for log-losses and other smooth risks with many weights. An l1 norm and bounds of weights confine a step to
    an orthant.

    Parameters
    ----------
    memory : int, optional
        Pairs kept; None is 100, or what fits into 512 MB or `memory_limit`.

    References
    ----------
    Nocedal (1980); Andrew & Gao (2007) for the orthants.
    """

    name: ClassVar[str] = "lbfgs"
    needs: ClassVar[tuple] = (SMOOTH,)
    remedy: ClassVar[str] = "use method 'oca', or a log-loss (pb.risks.Logistic, loss='logistic')"
    penalties: ClassVar[str] = "separable"
    memory: int | None = option(None, or_none(integer))

    def begin(self, search):
        return QuasiNewton(search, self.memory)


@dataclass(frozen=True, kw_only=True)
class Newton(Method):
    """Proximal Newton for smooth losses of one score or of classes, with the bound of its multipliers.

        1  z = argmin <g, z> + 1/2 (z - w)' H (z - w) + Omega(z), about, by sweeps or products with H
        2  line search on the segment from w to z
        3  the slopes of the losses at w, scaled to be feasible, are multipliers: their dual value is a lower bound

    Take it for few columns, or for an l1 norm that leaves few weights.

    References
    ----------
    Lee, Sun & Saunders (2014); Yuan, Ho & Lin (2012).
    """

    name: ClassVar[str] = "newton"
    needs: ClassVar[tuple] = (HESSIAN,)
    remedy: ClassVar[str] = "use method 'lbfgs' or 'oca'"
    penalties: ClassVar[str] = "separable"

    def begin(self, search):
        return NewtonRun(search)
