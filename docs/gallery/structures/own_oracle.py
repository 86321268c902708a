"""
An oracle of your own: finding an interval
==========================================

The task is to find the interval of a noisy recording in which the signal changes. The
package has no model for intervals, but five methods in plain Python define one, and
every solver trains it to a certificate.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import pybundle as pb


class Interval(pb.models.StructuredModel):
    """An example is an array (T, d), a labelling a pair (start, end), end excluded."""

    def __init__(self, n_features: int) -> None:
        self.dim = n_features

    def joint_feature(self, x: Any, y: Any) -> Any:
        return x[y[0] : y[1]].sum(axis=0)

    def loss(self, y: Any, y_hat: Any) -> float:
        """Number of steps that lie in exactly one of the two intervals."""
        inside = max(0, min(y[1], y_hat[1]) - max(y[0], y_hat[0]))
        return float(y[1] - y[0] + y_hat[1] - y_hat[0] - 2 * inside)

    def decode(self, w: Any, x: Any) -> Any:
        return best_interval(x @ w)

    def loss_augmented_decode(self, w: Any, x: Any, y: Any) -> Any:
        wrong = np.ones(len(x))
        wrong[y[0] : y[1]] = -1.0  # a step outside costs one, a step inside saves one
        return best_interval(x @ w + wrong)


def best_interval(scores: Any) -> tuple[int, int]:
    """Start and end of the largest sum; the best start follows the smallest sum."""
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    starts = np.minimum.accumulate(sums)[:-1]
    end = int(np.argmax(sums[1:] - starts)) + 1
    return int(np.argmin(sums[:end])), end


def record(rng: np.random.Generator) -> Any:
    start = int(rng.integers(5, 40))
    y = (start, start + int(rng.integers(8, 20)))
    x = rng.standard_normal((60, 4))
    x[y[0] : y[1], 0] += (
        1.2  # the first feature rises, the second falls, the third is noise
    )
    x[y[0] : y[1], 1] -= 0.8
    x[:, 3] = 1.0
    return x, y


rng = np.random.default_rng(0)
X, Y = zip(*(record(rng) for _ in range(120)), strict=True)
model = Interval(4)

# %%
# This call tests the rules that a certificate needs, and names a broken one.
print(pb.check_oracle(model, X[:20], Y[:20]))

# %%
result = pb.minimize(pb.risks.Structured(model, X[:60], Y[:60]), lam=1.0, tol=1e-3)
wrong = [
    model.loss(y, model.decode(result.x, x))
    for x, y in zip(X[60:], Y[60:], strict=True)
]
print(
    f"certified: {result.certified}, gap {result.gap:.1e}, "
    f"weights {result.x.round(2)}\n"
    f"{np.mean(wrong):.1f} of 60 steps wrong on held-out recordings"
)

# %%
# Scores of the steps of one recording, with the true interval (grey) and the predicted
# interval (blue).
x, y = X[60], Y[60]
found = model.decode(result.x, x)
figure, axis = plt.subplots(figsize=(7.0, 2.8), layout="constrained")
axis.axvspan(y[0], y[1], color="0.85", label="truth")
axis.step(np.arange(60), x @ result.x, where="post", color="#0072B2", linewidth=1.0)
axis.hlines(axis.get_ylim()[1], *found, color="#0072B2", linewidth=5, label="found")
axis.set_xlabel("step")
axis.set_ylabel("score")
axis.legend(frameon=False, loc="lower right")
