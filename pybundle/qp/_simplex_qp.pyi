from typing import Any, NamedTuple

from ..core.types import Floats

METHODS: dict[str, int]

class MasterSolution(NamedTuple):
    h: Floats
    gap: float
    value: float
    n_steps: int
    status: int
    curvature: float

class SimplexQP:
    def solve(self, H: Any, f: Any, parts: Any, slack: Any, x: Any, scale: float = 1.0, tol: float = 0.0,
              rtol: float = 0.0, max_steps: int = 1000000, method: str = "auto") -> MasterSolution: ...
