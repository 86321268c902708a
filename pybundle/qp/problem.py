"""Quadratic programs over a product of simplices; gap and residual of a solution are computed from the data.

    min_x q(x) = 1/2 x'Hx - f'x,   x >= 0,   sum over part p of x = 1  (<= 1 if the part has a slack)

This is the master problem of a bundle method in its multipliers (Teo et al. 2010, eq. 12, with one simplex
per part). Variables of part -1 have no sum: multipliers of sign constraints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult

from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.core.rounding import accurate_product, exact_product, exact_sum
from pybundle.core.validation import check_choice, check_integer, check_number, check_vector, integer_array, real_array

from ._simplex_qp import METHODS, SimplexQP
from .curvature import needed_shift, rounding

MESSAGES = (
    "duality gap {gap:.2g} <= tol * scale = {limit:.2g}",
    "stopped after {n_steps} steps with duality gap {gap:.2g} > {limit:.2g}; raise max_steps or tol",
    "stalled after {n_steps} steps with duality gap {gap:.2g} > {limit:.2g}; {advice}",
)


@dataclass(frozen=True)
class SimplexProblem:
    """The data of one QP after their checks; `measure` computes every number of a solution from them.

    Attributes
    ----------
    H : ndarray, shape (m, m)
    f : ndarray, shape (m,)
    parts : ndarray of int32, shape (m,)
    slack : ndarray of bool, shape (P,)
        A single bool holds for all parts.
    kind, shift : dtype, float
        Type of the floats of H, as given; and the number for which H + shift I is semidefinite up to rounding.
    """

    H: Any
    f: Any
    parts: Any
    slack: Any
    kind: Any = field(init=False)
    shift: float = field(init=False)

    def __post_init__(self) -> None:
        kind = getattr(self.H, "dtype", None)
        object.__setattr__(self, "kind", np.dtype(kind if kind in (np.float16, np.float32) else np.float64))
        for name, value in zip(("H", "f", "parts", "slack"), _checked(self), strict=True):
            object.__setattr__(self, name, value)       # the dataclass is frozen
        object.__setattr__(self, "shift", needed_shift(self.H, self.f, self.kind, bool((self.parts >= 0).all())))

    def measure(self, x: Any) -> tuple[float, float, float, float]:
        """Return value, duality gap, its scale, and KKT residual at x >= 0.

        Hx is computed in twice the precision of float64, because gradients are mostly rounding if entries are large.
        The gap is `sum_p <x_p, g_p> - min(g_p)` with g = Hx - f, and g = 0 for a slack. A variable without a sum adds
        `g x` if g >= 0, else the estimate `|g| max(x, |g|/H_jj)`. The residual is the largest of
        `min(x_j, (g_j - multiplier) / max |g, f|)` and of the violations of sums and signs. The gap also counts the
        negative curvature of H that `shift` bounds, unless its effect is below the rounding of the scale.
        """
        x = check_vector("x", x, len(self.f))
        product, rest = accurate_product(self.H, x)
        # the terms of x'Hx may cancel, so they are summed without rounding
        quadratic = 0.5 * math.fsum(np.concatenate([*exact_product(x, product), x * rest]))
        linear = math.fsum(np.concatenate(exact_product(x, self.f)))
        g, error = exact_sum(product, -self.f)
        rest += error
        n_parts = len(self.slack)
        bound = self.parts >= 0
        part = self.parts[bound]
        # Subtract the least entry of g in each part, then the least of the differences: neither step rounds much.
        least = np.where(self.slack, 0.0, np.inf)
        np.minimum.at(least, part, g[bound])
        reduced = g + rest
        reduced[bound] = (g[bound] - least[part]) + rest[bound]
        finest = np.where(self.slack, -least, np.inf)
        np.minimum.at(finest, part, reduced[bound])
        reduced[bound] -= finest[part]
        least += finest
        coarse = (x + 2.0**27) - 2.0**27            # x rounded to few bits, so that sums are exact
        surplus = (np.bincount(part, coarse[bound], n_parts) - 1.0) + np.bincount(part, (x - coarse)[bound], n_parts)
        gap = float(np.sum(np.bincount(part, x[bound] * reduced[bound], n_parts) + np.maximum(least * surplus, 0.0)))
        excess = np.where(self.slack, np.maximum(surplus, 0.0), np.abs(surplus))
        unit = max(np.abs(g).max(), np.abs(self.f).max(), np.finfo(float).tiny)
        residual = max(np.abs(np.minimum(np.maximum(x, 0.0), reduced / unit)).max(),
                       excess.max(initial=0.0), -min(x.min(), 0.0))
        # where a slack is positive, the multiplier of the sum must be 0
        unused = np.where(self.slack, np.maximum(-surplus, 0.0), 0.0)
        residual = max(residual, np.minimum(unused, np.abs(least) / unit).max(initial=0.0))
        if not bound.all():
            gs, xs, diagonal = reduced[~bound], x[~bound], self.H.diagonal()[~bound]
            newton = np.divide(-gs, diagonal, out=np.full_like(gs, np.inf), where=diagonal > 0)
            with np.errstate(invalid="ignore"):
                gap += float(np.sum(np.where(gs >= 0, gs * xs, np.abs(gs) * np.maximum(xs, newton))))
        value = quadratic - linear
        scale = max(abs(value), 1e-3 * (quadratic + abs(linear)))
        # q(y) >= q(x) + g'(y - x) - shift/2 |y - x|^2, and the right side is least at a vertex y
        square = np.bincount(part, x[bound]**2, n_parts)
        deeper = np.where(self.slack, np.maximum(0.5 * self.shift * square + least, 0.0), 0.0)
        np.maximum.at(deeper, part, 0.5 * self.shift * (square[part] - 2.0 * x[bound] + 1.0) - reduced[bound])
        lacking = float(deeper.sum())
        gap = max(gap, 0.0) + (lacking if lacking > rounding(len(x), self.kind) * scale else 0.0)
        return value, gap, scale, float(residual)


def solve_simplex_qp(H: ArrayLike, f: ArrayLike, parts: ArrayLike, tol: float = 1e-09, slack: bool | ArrayLike = False,
                     x0: ArrayLike | None = None, *, max_steps: int = 1000000, method: str = "auto") -> OptimizeResult:
    """Minimise `1/2 x'Hx - f'x` over a product of simplices.

    Parameters
    ----------
    H : array_like, shape (m, m)
        Symmetric positive semidefinite, but for the rounding of a Gram matrix, centred or not; singular is fine.
        float64 with contiguous rows is not copied, also if it is a corner of a larger array.
    f : array_like, shape (m,)
    parts : array_like of int, shape (m,)
        Simplex 0..P-1 of each variable, in any order, every one used; -1 for a variable that only has to be
        nonnegative.
    tol : float, default 1e-9
        Relative duality gap: stop when gap <= tol * max(|q|, 1e-3 (1/2 x'Hx + |f'x|)). The second term only
        matters if the two terms of q nearly cancel.
    slack : bool or array_like of bool, shape (P,), default False
        Whether the sum of a part may be less than 1.
    x0 : array_like, shape (m,), optional
        Starting point. Negative entries count as 0, and sums are scaled to 1 if required.
    max_steps : int, default 1000000
        Most pairwise steps plus face solves.
    method : {"auto", "smo", "active-set"}, default "auto"
        Pairwise steps, faces, or whichever a count of operations favours.

    Returns
    -------
    scipy.optimize.OptimizeResult
        `x` (feasible, exact zeros), `value`, `gap` (absolute), `kkt_residual`, `n_steps`, `status` (0 gap
        reached, 1 step limit, 2 stalled: no step of the method lowers the gap clearly any more), `message`,
        `success`. Value, gap and residual are recomputed from the data, in twice the precision of float64.

    Raises
    ------
    ParameterError, InputTypeError
        If an argument has a wrong value, shape or type, if q is unbounded because a variable without a sum
        has no curvature, or if H is indefinite: if a factor finds a negative curvature beyond rounding, or,
        with more than 2000 variables, if a pair of them has it or a step meets it. Rounding of the largest
        entry, not of its row, counts in the gap, and is excused only if every variable has a sum.

    Notes
    -----
    A pairwise step costs O(m) at most, a new face O(k^3) for k variables in it; memory O(k^2) beside H. The
    check of H costs a Cholesky factor up to m = 2000, O(m^2) beyond.
    Sources: Fan, Chen, Lin 2005 (pairwise steps); Wolfe 1976 and Kiwiel 1989 (faces).

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.qp import solve_simplex_qp
    >>> result = solve_simplex_qp(np.diag([1.0, 2.0, 4.0]), np.zeros(3), [0, 0, 0])
    >>> result.x.round(6), round(result.value, 6)
    (array([0.571429, 0.285714, 0.142857]), 0.285714)
    >>> result.success
    True
    """
    problem = SimplexProblem(H, f, parts, slack)
    m = len(problem.f)
    tol = check_number("tol", tol, low=0.0, strict=True)
    max_steps = check_integer("max_steps", max_steps, low=1, high=2**62)
    check_choice("method", method, tuple(METHODS))
    x = np.zeros(m) if x0 is None else np.array(check_vector("x0", x0, m))
    n_steps = 0
    # The first target is a little below tol; if `measure` finds a gap above tol, the solver continues to the next.
    for share in (0.999, 0.3, 0.03):
        state = SimplexQP().solve(problem.H, problem.f, problem.parts, problem.slack, x, 1.0, rtol=share * tol,
                                  max_steps=max(1, max_steps - n_steps), method=method)
        n_steps += state.n_steps
        if state.curvature < -rounding(m, problem.kind):
            needed_shift(problem.H, problem.f, problem.kind, False, state.curvature)        # raises ParameterError
        value, gap, scale, residual = problem.measure(x)
        limit = 0.9999 * tol * scale        # gap and scale may be wrong by a rounding error
        if gap <= limit or state.status:
            break
    status = 0 if gap <= limit else state.status or 2
    advice = (f"add {problem.shift:.2g} to the diagonal of H" if problem.shift > tol * scale else
              "take method='auto'" if method == "smo" else "raise tol or rescale H and f")
    message = MESSAGES[status].format(gap=gap, limit=limit, n_steps=n_steps, advice=advice)
    return OptimizeResult(x=x, value=value, gap=gap, kkt_residual=residual, n_steps=n_steps,
                          status=status, message=message, success=status == 0)


def _checked(problem):
    f, slack = check_vector("f", problem.f), problem.slack
    m = len(f)
    if m == 0:
        raise ParameterError("f must have at least one entry, got shape (0,); add a plane first")
    parts = _check_parts(problem.parts, m)
    n_parts = int(parts.max()) + 1
    H = _check_matrix(problem.H, m, problem.kind)
    diagonal = H.diagonal()
    unbounded = (parts < 0) & (diagonal <= 0.0) & (f > 0.0)
    if unbounded.any():
        j = int(np.flatnonzero(unbounded)[0])
        raise ParameterError(f"q is unbounded below: variable {j} has no sum (parts[{j}] = -1), no curvature "
                             f"(H[{j}, {j}] = {diagonal[j]:g}) and f[{j}] = {f[j]:g} > 0; put it into a part")
    if np.isscalar(slack) or slack is None:
        if not isinstance(slack, (bool, np.bool_)):
            raise InputTypeError(f"slack must be a bool or ({n_parts},) bools, got {slack!r}")
        slack = np.full(n_parts, bool(slack))
    else:
        try:
            slack = np.asarray(slack)
        except ValueError as problem:
            raise InputTypeError(f"slack must be a vector, got {slack!r:.40}: {problem!s:.70}") from problem
        if slack.dtype != np.bool_:
            raise InputTypeError(f"slack must hold bools, got dtype {slack.dtype}; pass slack.astype(bool)")
        if slack.shape != (n_parts,):
            raise ParameterError(f"slack must be a bool or have shape (P,) = ({n_parts},), one a part, "
                                 f"got {slack.shape}")
    return H, f, parts, np.ascontiguousarray(slack)


def _check_parts(parts, m):
    parts = integer_array("parts", parts)
    if parts.shape != (m,):
        raise ParameterError(f"parts must have shape (m,) = ({m},), one label for each entry of f, "
                             f"got {parts.shape}")
    low, high = int(parts.min()), int(parts.max())
    if low < -1 or high >= m:
        raise ParameterError(f"parts must be labels 0..P-1, or -1 for no sum, got "
                             f"{low if low < -1 else high}; relabel with np.unique(..., return_inverse=True)")
    used = np.bincount(parts[parts >= 0], minlength=high + 1)
    if high >= 0 and not used.all():
        raise ParameterError(f"every part 0..{high} must have a variable, part {int(np.argmin(used > 0))} "
                             f"has none; number them with np.unique(parts, return_inverse=True)")
    return np.ascontiguousarray(parts, dtype=np.int32)


def _check_matrix(H, m, kind):
    try:
        H = real_array(H, order="K")
    except TypeError as problem:
        raise InputTypeError(f"H must be a matrix of real numbers, got {type(H).__name__}: {problem}") from problem
    if H.shape != (m, m):
        raise ParameterError(f"H must be square with the size of f, ({m}, {m}), got {H.shape}")
    if m > 1 and (H.strides[1] != H.itemsize or H.strides[0] < m * H.itemsize or H.strides[0] % H.itemsize):
        H = np.ascontiguousarray(H)
    if not np.isfinite(H).all():
        i, j = np.argwhere(~np.isfinite(H))[0]
        raise ParameterError(f"H must be finite, got H[{i}, {j}] = {H[i, j]}")
    difference = np.abs(H - H.T)
    i, j = np.unravel_index(int(np.argmax(difference)), H.shape)
    scale = max(np.abs(H.diagonal()).max(), np.finfo(float).tiny)
    if difference[i, j] > max(1e-9, rounding(m, kind)) * scale:
        raise ParameterError(f"H must be symmetric, got H[{i}, {j}] = {H[i, j]:g} and H[{j}, {i}] = {H[j, i]:g}; pass "
                             "(H + H.T) / 2")
    return 0.5 * H + 0.5 * H.T if difference[i, j] > rounding(m, np.float64) * scale else H
