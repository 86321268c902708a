"""
Landmarks: positions that depend on each other
===============================================

Small noisy images contain four shapes: a blob, a cross, a ring and a corner. A single
shape is easily mistaken for noise. The model therefore learns the appearance of the
shapes together with a tree of springs between their positions.
"""

import matplotlib.pyplot as plt
import numpy as np

import pybundle as pb

X, Y, _ = pb.datasets.landmark_images(100, deformation=1.2, noise=30.0, random_state=0)
detector = pb.LandmarkDetector(C=1.0, windows=[(7, 7)], tol=2e-2).fit(X[:40], Y[:40])
found = detector.predict(X[40:])
off = np.linalg.norm(found - Y[40:], axis=2)
print(
    f"certified gap {detector.gap_:.1e}; "
    f"mean distance to the truth {off.mean():.2f} pixels, "
    f"{100 * (off < 2.0).mean():.0f} % within two pixels"
)

# %%
# Twelve held-out images: crosses are predictions, circles the truth.
figure, axes = plt.subplots(2, 6, figsize=(9.0, 3.2), layout="constrained")
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
