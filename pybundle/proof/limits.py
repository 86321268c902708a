"""Limits of the weights without penalty, such as an intercept, and their proof: two planes for each such weight.

Let a plane `offset + <phi, v> <= R(v)` have about the slope `s m e_j` at the free weights, with a sign s and a number
m > 0; d is the difference of its slope there from `s m e_j`. At all v with `Omega(v) + R(v) <= level` it proves

    s m v_j <= level - offset - min_rest { Omega + <phi, .> } + sum_i |d_i| |v_i|.

The minimum is over all weights that are not free. If sizes B > 0 satisfy

    m B_j - sum_i |d_i| B_i >= level - offset - min_rest { Omega + <phi, .> }

for every j and s, and the left-hand sides are positive, then |v| <= B. To see this, take the j with the largest
`|v_j| / B_j`. If the penalty bounds a free weight on one side, this side needs no plane. If `d_i v_i` is least at such
a bound of v_i, this least value replaces `-|d_i| |v_i|`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..core.kept import check_array
from .plane import ProvenPlane
from .score_limits import score_limits


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits of free weights at all points whose F is at most that of the certificate.

    Attributes
    ----------
    sizes : ndarray, shape (n_free,)
        The numbers B.
    means : ndarray, shape (dim,), or None
        The last weight b is replaced by `b + <means, w>`, which changes slopes to `phi - phi_b means`.
    evidence : list of 2 n_free evidences
        The evidence of the planes that prove the limits: entry 2 j for weight j and sign +, entry 2 j + 1 for sign -.
        An entry is None if the penalty bounds this side, or `score_limits` proves the limit.
    """

    sizes: np.ndarray
    means: Any
    evidence: list[Any]

    def arrays(self) -> Any:
        """Return the named arrays for a file."""
        found = {"limit_sizes": self.sizes} | ({} if self.means is None else {"limit_means": self.means})
        for k, evidence in enumerate(self.evidence):
            if evidence is None:
                continue
            found |= {f"limit{k}_{name}": array for name, array in evidence.arrays().items()}
        return found

    @classmethod
    def from_arrays(cls, arrays: Any, kinds: Any) -> Any:
        """Return the limits of `arrays`; `kinds` maps the name of an array to the only kind of evidence that has it."""
        sizes, means = arrays.pop("limit_sizes"), arrays.pop("limit_means", None)
        evidence = []
        for k in range(2 * len(sizes)):
            start = f"limit{k}_"
            names = [name for name in arrays if name.startswith(start)]
            part = {name.removeprefix(start): arrays.pop(name) for name in names}
            evidence.append(kinds[min(kinds.keys() & part.keys())].from_arrays(part) if part else None)
            if part:
                raise ValueError(f"unknown array {min(part)!r:.40}")
        return cls(sizes, means, evidence)

    def check(self, penalty: Any, n_examples: int) -> None:
        """Raise ValueError if the arrays cannot be limits."""
        dim = len(penalty.l2)
        check_array("sizes", self.sizes, (np.size(self.sizes),), low=1e-300)
        if penalty.labels is not None or len(self.evidence) != 2 * len(self.sizes):
            raise ValueError("limits must belong to the free weights of a penalty without groups")
        if self.means is not None:
            check_array("means", self.means, (dim,))
            if self.means[-1] != 0.0 or not np.array_equal([penalty.lower[-1], penalty.upper[-1]], [-np.inf, np.inf]):
                raise ValueError("means must belong to a last weight without bounds")
            if np.abs(self.means).max(initial=0.0) > 1e120:
                raise ValueError("means must be at most 1e120")
            if not penalty.free[-1]:
                raise ValueError("means must belong to a free weight")
        for evidence in self.evidence:
            if evidence is not None:
                evidence.check(dim, n_examples)

    def failure(self, problem, penalty, level, floor, divisor):
        """Return None if the limits are proven for all points with F at most `level`, else the reason."""
        free, sizes = np.flatnonzero(penalty.free), [Fraction(size) for size in self.sizes.tolist()]
        if len(free) != len(sizes):
            return f"limits are of {len(sizes)} weights, but {len(free)} are free, and not sums of others"
        held, closed = penalty.within(free, 0.0), np.full(len(free), np.inf)
        if None in self.evidence:
            data = problem.risk if problem.shift is None else problem.risk.moved(problem.shift)
            known = score_limits(data, penalty, self.means, float(level * divisor), float(divisor))
            found = None if known is None else known.sizes()
            closed = closed if found is None else found
        for k, evidence in enumerate(self.evidence):
            j, sign = k // 2, 1 - 2 * (k % 2)
            if evidence is None:
                bound = min(float((penalty.upper if sign > 0 else -penalty.lower)[free[j]]), closed[j])
                if not bound <= self.sizes[j]:
                    return f"weight {free[j]} has no bound of {self.sizes[j]:.3g}"
                continue
            is_feasible, text = problem.feasible(evidence)
            if not is_feasible:
                return text
            plane = problem.plane(evidence).moved(self.means)
            slope, phi = plane.phi[free], plane.phi.copy()
            phi[free] *= 0
            rest = ProvenPlane(plane.offset, phi, plane.offset_error, plane.slope_error)
            t = held.shares(rest, divisor)[0] if floor is not None else 1
            least = held.least(rest, t, divisor)[0]
            if least == -np.inf:
                return f"weight {free[j]} is not limited"
            offset = t * (Fraction(plane.offset) - Fraction(plane.offset_error)) + (0 if t == 1 else (1 - t) * floor)
            left, room = -Fraction(plane.slope_error) * sum(sizes), Fraction(0)
            for i, (x, size) in enumerate(zip(map(Fraction, slope.tolist()), sizes, strict=True)):
                end = float((penalty.lower if x > 0 else penalty.upper)[free[i]])      # x v_i is least at this bound
                if i == j:
                    left += sign * x * size
                elif np.isfinite(end):
                    room -= x * Fraction(end)
                else:
                    left -= abs(x) * size
            left, room = t * left / divisor, t * room / divisor + level - offset / divisor - least
            if not (left > 0 and left >= room):
                return f"weight {free[j]} may be larger than {self.sizes[j]:.3g}"
        return None
