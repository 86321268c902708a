"""
Regions: minimum cuts clean up noise
====================================

The task is to separate foreground from background in noisy images. Single pixels say
little. Weights on pairs of neighbours join pixels to regions; minimum cuts need these
weights at or above 0.
"""

import matplotlib.pyplot as plt

import pybundle as pb

images = pb.datasets.contrast_images(
    40, shape=(24, 24), noise=1.2, weights=(1.0, 0.1, 0.6, 1.0)
)
X, y = images.X, images.y
cuts = pb.BinaryLabelingSVM(C=1.0, tol=1e-2).fit(X[:25], y[:25])
pixels = pb.BinaryLabelingSVM(C=1.0, tol=1e-2).fit(
    [x._replace(edge_features=0.0 * x.edge_features) for x in X[:25]], y[:25]
)
print(f"pixels alone: {100 * pixels.score(X[25:], y[25:]):.1f} % right")
print(
    f"with pairs:   {100 * cuts.score(X[25:], y[25:]):.1f} % right; "
    f"weights relative to the intensity: "
    f"{(cuts.coef_ / cuts.coef_[0]).round(2)}"
)

# %%
# Three held-out images, labelled by pixels alone (above) and with pairs (below). The
# found region is tinted; a black line surrounds the true region.
figure, axes = plt.subplots(2, 3, figsize=(9.0, 6.1), layout="constrained")
for row, svm in zip(axes, (pixels, cuts), strict=True):
    for k, axis in enumerate(row):
        image = X[25 + k].nodes[:, 0].reshape(24, 24)
        pb.plotting.SegmentationDisplay.from_estimator(
            svm, X[25 + k], image=image, truth=y[25 + k], ax=axis
        )
