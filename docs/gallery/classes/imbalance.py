"""
Rare classes: weights or another threshold
==========================================

Three of a hundred examples belong to the rare class, and a plain classifier never finds
one. Class weights move the boundary; so does a threshold on probabilities.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import balanced_accuracy_score

import pybundle as pb

rng = np.random.default_rng(0)
X = rng.standard_normal((6000, 2))
y = np.where(X.sum(axis=1) + rng.standard_normal(6000) > 3.3, "rare", "usual")
X, X_test, y, y_test = X[:3000], X[3000:], y[:3000], y[3000:]

plain = pb.MulticlassSVM().fit(X, y)
balanced = pb.MulticlassSVM(class_weight="balanced").fit(X, y)
logistic = pb.MulticlassLogistic().fit(X, y)
rare = logistic.predict_proba(X_test)[:, 0] > np.mean(y == "rare")
for name, labels in (
    ("plain", plain.predict(X_test)),
    ("balanced", balanced.predict(X_test)),
    ("threshold", np.where(rare, "rare", "usual")),
):
    score, alarms = balanced_accuracy_score(y_test, labels), np.mean(labels == "rare")
    print(f"{name:10s} balanced accuracy {score:.2f}, alarms {alarms:.2f}")

# %%
# Held-out examples and two boundaries: everything above a line is called rare. That of
# the plain SVM lies beyond the picture.
figure, axis = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
for kind, colour, size in (("usual", "silver", 8), ("rare", "tab:red", 24)):
    points = X_test[y_test == kind]
    axis.scatter(points[:, 0], points[:, 1], s=size, color=colour, label=kind)
line = np.array([-4.0, 4.0])
for label, style, model, level in (
    ("balanced", "-", balanced, 0.0),
    ("threshold", "--", logistic, np.log(np.mean(y == "usual") / np.mean(y == "rare"))),
):
    (a, b), c = model.coef_[0], model.intercept_[0] - level
    axis.plot(line, -(c + a * line) / b, style, color="black", linewidth=3, label=label)
axis.set(xlim=(-4, 4), ylim=(-4, 4))
axis.legend(loc="lower left")
