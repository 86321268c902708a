"""
Probabilities: events of 80 % happen in 80 % of the cases
=========================================================

A support vector machine has scores, which calibration turns into probabilities.
Logistic regression has probabilities of its own. The picture compares what both predict
with what happens.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB

import pybundle as pb

rng = np.random.default_rng(0)
common = rng.standard_normal((6000, 1))
X = 0.7 * common + 0.7 * rng.standard_normal((6000, 8))
y = (X.sum(axis=1) / 3.0 + rng.logistic(size=6000) > 0.0).astype(int)
X, X_test, y, y_test = X[:2000], X[2000:], y[:2000], y[2000:]

models = {
    "naive Bayes": GaussianNB(),
    "logistic": pb.MulticlassLogistic(),
    "SVM, calibrated": CalibratedClassifierCV(pb.MulticlassSVM()),
}
figure, axis = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
for name, model in models.items():
    model.fit(X, y)
    probability = model.predict_proba(X_test)[:, 1]
    print(f"{name:16s} log-loss {log_loss(y_test, probability):.3f}")
    CalibrationDisplay.from_predictions(
        y_test, probability, n_bins=8, name=name, ax=axis, linewidth=3, markersize=8
    )
axis.set(xlabel="predicted probability", ylabel="share that happened")

# %%
# On the diagonal predictions are right. Naive Bayes takes columns that say the same for
# independent, and is too sure of itself.
