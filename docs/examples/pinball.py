"""Your own risk: the pinball loss of quantile regression, in P parts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import pybundle as pb
from pybundle.core.plane import Planes


class PinballRisk:
    """R(w) = sum_i max(q r_i, (q - 1) r_i) with residuals r_i = y_i - <w, x_i>."""

    def __init__(self, X: NDArray[np.float64], y: NDArray[np.float64], quantile: float,
                 n_parts: int = 4) -> None:
        self.X, self.y, self.quantile = X, y, quantile
        self.n_examples, self.dim = X.shape
        self.n_parts = n_parts
        self.lower_bounds = np.zeros(n_parts)  # proven: no loss is negative
        self._parts = [np.arange(p, len(y), n_parts) for p in range(n_parts)]

    def planes(self, w: Any) -> Planes:
        """Planes of the parts: loss = side * (y - <w, x>), with slope -side * x."""
        residual = self.y - self.X @ w
        side = np.where(residual >= 0.0, self.quantile, self.quantile - 1.0)
        values = np.array([side[rows] @ residual[rows] for rows in self._parts])
        offsets = np.array([side[rows] @ self.y[rows] for rows in self._parts])
        slopes = np.array([-side[rows] @ self.X[rows] for rows in self._parts])
        return Planes(values, offsets, slopes)

    def evaluate(self, w: Any) -> tuple[Any, Any]:
        """Values and subgradients, one row for each part."""
        planes = self.planes(w)
        return planes.values, planes.slopes


rng = np.random.default_rng(0)
X = np.column_stack([np.ones(500), rng.standard_normal((500, 3))])
y = X @ [1.0, 2.0, 0.0, -1.0] + rng.standard_normal(500)

result = pb.minimize(PinballRisk(X, y, quantile=0.9), lam=1e-2, tol=1e-4)
below = np.mean(y <= X @ result.x)
print(
    f"gap {result.gap:.1e}, certified: {result.certified}; "
    f"{100 * below:.0f} % of the targets lie below the line"
)
