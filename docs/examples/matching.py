"""Your own structure: matchings of two sets, decoded by SciPy's assignment solver."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

import pybundle as pb


class Matching(pb.models.StructuredModel):
    """Matches i with y[i] for a permutation y; x[i, j] has the features of a pair."""

    def __init__(self, n_features: int) -> None:
        self.dim = n_features

    def joint_feature(self, x: Any, y: Any) -> Any:
        return x[np.arange(len(y)), y].sum(axis=0)

    def loss(self, y: Any, y_hat: Any) -> float:
        return float(np.sum(y != y_hat))

    def decode(self, w: NDArray[np.float64], x: Any) -> Any:
        return linear_sum_assignment(x @ w, maximize=True)[1]

    def loss_augmented_decode(self, w: NDArray[np.float64], x: Any, y: Any) -> Any:
        scores = x @ w + 1.0  # each wrong pair has loss 1,
        scores[np.arange(len(y)), y] -= 1.0  # each true pair has loss 0
        return linear_sum_assignment(scores, maximize=True)[1]


def make_matchings(n_examples: int, seed: int) -> tuple[list[Any], list[Any]]:
    """Random features; the truth is the best matching for known weights plus noise."""
    rng = np.random.default_rng(seed)
    X = list(rng.normal(size=(n_examples, 6, 6, 10)))
    Y = [
        linear_sum_assignment(
            x @ np.arange(10.0) + rng.normal(size=(6, 6)), maximize=True
        )[1]
        for x in X
    ]
    return X, Y


if __name__ == "__main__":
    model, (X, Y) = Matching(10), make_matchings(100, seed=0)
    print(pb.check_oracle(model, X, Y))
    result = pb.minimize(pb.risks.Structured(model, X, Y), lam=1.0, tol=1e-3)
    print(f"gap {result.gap:.1e}, certified: {result.certified}")
    X_new, Y_new = make_matchings(100, seed=1)
    wrong = np.mean(
        [
            model.loss(y, model.decode(result.x, x)) / 6
            for x, y in zip(X_new, Y_new, strict=True)
        ]
    )
    print(f"wrong pairs {100 * wrong:.1f} %")
