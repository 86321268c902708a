"""
Landmarks: positions that depend on each other
===============================================

Small noisy images contain four shapes: a blob, a cross, a ring and a corner. A single
shape is easily mistaken for noise. The model therefore learns the appearance of the
shapes together with a tree of springs between their positions.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import pybundle as pb

SIDE = 24
PLACES = np.array([[11.5, 11.5], [5.5, 7.0], [17.0, 6.5], [12.0, 18.0]])
SHAPES: tuple[Any, ...] = (
    lambda x, y: np.exp(-(x * x + y * y) / 4.0),  # blob
    lambda x, y: (np.maximum(abs(x), abs(y)) <= 3) * np.exp(-np.minimum(x * x, y * y)),
    lambda x, y: np.exp(-((np.hypot(x, y) - 2.5) ** 2)),  # ring
    lambda x, y: (x <= 0.5) & (y <= 0.5) & (x > -4.0) & (y > -4.0),  # corner
)


def landmark_images(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Images (n, 24, 24), and positions (n, 4, 2) of shapes that follow the blob."""
    moves = 1.2 * np.clip(rng.standard_normal((n, 4, 2)), -2.5, 2.5)
    moves[:, 1:] = 0.7 * (moves[:, 1:] + moves[:, :1])
    Y = PLACES + moves
    rows, columns = np.mgrid[:SIDE, :SIDE]
    X = 90.0 + 30.0 * rng.standard_normal((n, SIDE, SIDE))
    for image, points in zip(X, Y, strict=True):
        for shape, (x, y) in zip(SHAPES, points, strict=True):
            image += rng.uniform(70.0, 110.0) * shape(columns - x, rows - y)
    return np.clip(np.round(X), 0, 255).astype(np.uint8), Y


X, Y = landmark_images(100, np.random.default_rng(0))
detector = pb.LandmarkDetector(C=1.0, windows=[(7, 7)], tol=2e-2).fit(X[:40], Y[:40])
found = detector.predict(X[40:])
off = np.linalg.norm(found - Y[40:], axis=2)
print(
    f"certified gap {detector.gap_:.1e}; "
    f"mean distance to the truth {off.mean():.2f} pixels, "
    f"{100 * (off < 2.0).mean():.0f} % within two pixels"
)

# %%
# Six held-out images: crosses are predictions, circles the truth.
figure, axes = plt.subplots(2, 3, figsize=(6.0, 4.1), layout="constrained")
for axis, image, guess, truth in zip(axes.ravel(), X[40:], found, Y[40:], strict=False):
    axis.imshow(image, cmap="gray", vmin=50, vmax=250)
    axis.plot(
        *truth.T,
        "o",
        markersize=10,
        markerfacecolor="none",
        markeredgecolor="#56B4E9",
        markeredgewidth=1.5,
    )
    axis.plot(*guess.T, "x", markersize=6, color="#E69F00", markeredgewidth=1.8)
    axis.set_axis_off()
