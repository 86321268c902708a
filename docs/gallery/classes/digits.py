"""
Digits: how far is this model from the best one?
================================================

A linear classifier of handwritten digits is trained until its objective is proven to be
within 0.1 % of the optimum. scikit-learn's tools work with it as with any classifier.
"""

# sphinx_gallery_thumbnail_number = 2
from sklearn.metrics import ConfusionMatrixDisplay

import pybundle as pb

X, y, X_test, y_test = pb.datasets.load_digits()
svm = pb.MulticlassSVM(C=0.1, tol=1e-3).fit(X, y)
print(
    f"objective {svm.objective_:.3f}, proven lower bound {svm.lower_bound_:.3f}: "
    f"gap {svm.gap_:.1e}"
)
print(
    f"{100 * svm.score(X_test, y_test):.1f} % "
    f"of {len(y_test)} held-out digits are right"
)

# %%
# The gap decreases from pass to pass; the dotted line is ``tol``. At the end objective
# and lower bound are recomputed, and rounding errors count against them.
pb.plotting.ConvergenceDisplay.from_estimator(svm)

# %%
# The weights of each class: ink on red pixels speaks for the class, ink on blue pixels
# against it.
pb.plotting.WeightImagesDisplay.from_estimator(svm, (8, 8))

# %%
# scikit-learn's display shows the few errors; most of them are ones and eights.
ConfusionMatrixDisplay.from_estimator(svm, X_test, y_test, cmap="Blues", colorbar=False)
