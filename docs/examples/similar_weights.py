"""Your own penalty: the weights of neighbouring points of a signal are similar."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import pybundle as pb


class SimilarWeights(pb.prox.Penalty):
    """Omega(x) = rate/2 (|x|^2 + share sum_k (x[k + 1] - x[k])^2)."""

    def __init__(self, rate: float, share: float, dim: int) -> None:
        steps = np.diff(np.eye(dim), axis=0)
        self.rate = rate
        self.Q = rate * (np.eye(dim) + share * steps.T @ steps)

    @property
    def moduli(self) -> float:  # Omega(x) - moduli/2 |x|^2 is convex
        return self.rate

    def value(self, x: Any) -> float:
        return 0.5 * float(x @ self.Q @ x)

    def minimiser(
        self, phi: NDArray[Any], weight: float = 0.0, centre: Any = 0.0
    ) -> NDArray[np.float64]:
        # 0 = Q x + phi + weight (x - centre)
        H = self.Q + weight * np.eye(len(phi))
        return np.asarray(np.linalg.solve(H, weight * centre - phi))


def make_signals(n: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Noisy signals of 40 points; the label depends on a smooth wave."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 40))
    wave = np.sin(np.linspace(0.0, 2.0 * np.pi, 40))
    return X, np.sign(X @ wave + rng.standard_normal(n))


if __name__ == "__main__":
    X, y = make_signals(100, seed=0)
    X_new, y_new = make_signals(5000, seed=1)
    risk = pb.risks.Logistic(X, y)
    penalty = SimilarWeights(rate=1.0, share=20.0, dim=40)
    print(pb.check_penalty(penalty, 40))
    result = pb.minimize(risk, penalty=penalty, tol=1e-3)
    print(f"gap {result.gap:.1e}, certified: {result.certified}")
    plain = pb.minimize(risk, penalty=pb.prox.SquaredL2(1.0), tol=1e-3)
    for name, w in (("similar weights", result.x), ("square alone", plain.x)):
        print(f"{name}: {100 * np.mean(y_new * (X_new @ w) <= 0.0):.1f} % wrong")
