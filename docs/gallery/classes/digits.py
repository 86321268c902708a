"""
Digits: how far is this model from the best one?
================================================

A linear classifier of handwritten digits, trained until its objective is proven to be within 0.1 % of the optimum.
scikit-learn's tools work on it as on any other classifier.
"""

from sklearn.metrics import ConfusionMatrixDisplay

import pybundle as pb

X, y, X_test, y_test = pb.datasets.load_digits()
svm = pb.MulticlassSVM(C=0.1, tol=1e-3).fit(X, y)
print(f"objective {svm.objective_:.3f}, no point has less than {svm.lower_bound_:.3f}: gap {svm.gap_:.1e}")
print(f"{100 * svm.score(X_test, y_test):.1f} % of {len(y_test)} held-out digits are right")

# %%
# The gap falls over the passes; the dotted line is ``tol``. Whatever happened on the way, the two numbers at the end
# are computed anew, and rounding errors count against them.
pb.plotting.ConvergenceDisplay.from_estimator(svm)

# %%
# What each class looks for: red ink speaks for it, blue ink against it.
pb.plotting.WeightImagesDisplay.from_estimator(svm, (8, 8))

# %%
# The few errors, by scikit-learn's own display: most of them are ones and eights.
ConfusionMatrixDisplay.from_estimator(svm, X_test, y_test, cmap="Blues", colorbar=False)
