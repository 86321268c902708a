"""The records of the methods for smooth risks: L-BFGS and proximal Newton."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...core.protocols import HESSIAN, SMOOTH
from ..method import Method, integer, option, or_none
from ..run import Run
from .lbfgs import QuasiNewton
from .newton import Newton as NewtonRun


@dataclass(frozen=True, kw_only=True)
class LBFGS(Method):
    """Limited-memory BFGS for smooth risks, with a lower bound from planes.

    Its steps::

        repeat
            1  d = -B g with g the gradient of F at w, and B from the last pairs of steps and
               changes of the gradient
            2  a trial w + t d; a pass gives F, the gradient, and the plane (b, a) of R there
            3  the convex combination of (b, a) and the plane of the best bound with the
               largest D = b - |a|^2 / (2 lam), a lower bound; D is at least
               F - |g|^2 / (2 lam) at the trial; stop if F at the best point is close to it
            4  if the trial meets the Wolfe conditions, it becomes w and its step a new pair;
               else another t

    An iteration is one trial. An l1 norm and bounds of weights confine a step to the orthant of w; the bound is then
    that of the penalty and the new plane, as it is with `evidence=True`, which cannot hold the points of all planes.
    Take it for log-losses and other smooth risks with many weights; "auto" takes it there. A trial is one pass and
    O(memory d) operations. Memory: 16 d bytes for each pair.

    Parameters
    ----------
    memory : int, optional
        Number of pairs that are kept; None is 100, or what fits into 512 MB or `memory_limit`, at least 5.

    Raises
    ------
    ParameterError
        If `memory` is no integer of at least 1; in `minimize`, if the risk is not declared smooth, for a penalty that
        is not separable or for constraints, and for a `memory_limit` of less than 120 d bytes.

    References
    ----------
    Nocedal (1980); Andrew & Gao (2007) for the orthants.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.Logistic([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> result = pb.minimize(risk, lam=1.0, method=pb.methods.LBFGS(memory=10), tol=1e-6)
    >>> result.success, result.lower_bound <= result.fun
    (True, True)
    """

    name: ClassVar[str] = "lbfgs"
    needs: ClassVar[tuple[Any, ...]] = (SMOOTH,)
    remedy: ClassVar[str] = "use method 'oca', or a log-loss (pb.risks.Logistic, loss='logistic')"
    penalties: ClassVar[str] = "separable"
    memory: int | None = option(None, or_none(integer))

    def begin(self, search: Any) -> Run:
        return QuasiNewton(search, self.memory)


@dataclass(frozen=True, kw_only=True)
class Newton(Method):
    """Proximal Newton for smooth losses of one score, with a lower bound from planes and multipliers.

    Its steps::

        repeat
            1  z = argmin <a, z> + (z - w)' H (z - w) / 2 + Omega(z), about, with a the gradient
               of R at w and H its matrix of second derivatives
            2  w <- the point of the segment from w to z where R plus a parabola above Omega is
               least; scores are linear in w, so that the search takes no pass
            3  a pass gives F(w) and the plane of R there; penalty and plane prove a lower bound
               D; stop if F(w) - D is within the tolerance

    Up to 500 columns H is formed and factored. On more columns coordinate descent minimises the model, with Cholesky
    factors for the columns that it leaves free where it is slow. The slopes of the losses in the model, scaled to be
    feasible, are multipliers, and prove a bound, too. Take it for `Logistic`, `SquaredHinge` and `Huber` on few
    columns, or with an l1 norm that leaves few weights; "auto" takes it there.

    A step is one pass and, on few columns, O(n_examples d^2) operations for H and O(d^3) for the factor; on many,
    sweeps over the entries of the columns that move. Memory: a matrix of at most 4096^2 numbers, and a copy of X by
    columns. It does not keep to a `memory_limit`.

    Raises
    ------
    ParameterError
        In `minimize`, if the loss has no second derivatives, for a penalty that is not separable or for constraints,
        and for a `memory_limit` of less than 120 d bytes.

    References
    ----------
    Lee, Sun & Saunders (2014); Yuan, Ho & Lin (2012) for coordinate descent.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.Logistic([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> method = pb.methods.Newton()
    >>> result = pb.minimize(risk, penalty=pb.prox.L1(0.2), method=method, tol=1e-6)
    >>> result.success, result.lower_bound <= result.fun
    (True, True)
    """

    name: ClassVar[str] = "newton"
    needs: ClassVar[tuple[Any, ...]] = (HESSIAN,)
    remedy: ClassVar[str] = "use method 'lbfgs' or 'oca'"
    penalties: ClassVar[str] = "separable"

    def begin(self, search: Any) -> Run:
        return NewtonRun(search)
