"""
Sparse paths: columns enter one by one
======================================

With an l1 norm most weights are exactly 0 if the penalty is strong. As it falls, columns
enter the model, those that matter first. Each run starts from the one before.
"""

import matplotlib.pyplot as plt
import numpy as np

import pybundle as pb
from pybundle.prox import L1

rng = np.random.default_rng(0)
X = rng.standard_normal((500, 40))
truth = np.zeros(40)
truth[:4] = [2.0, -1.5, 1.0, -0.7]
y = np.where(X @ truth + rng.logistic(size=500) > 0.0, 1, -1)
risk = pb.risks.Logistic(X, y, fit_intercept=True)
rates = np.logspace(2.2, 0.3, 20)
results = pb.path(risk, [L1(rate) for rate in rates], tol=1e-4)
weights = np.array([result.x[:-1] for result in results])
print(f"largest gap {max(result.gap for result in results):.1e}")
for k in (5, 10, 19):
    print(f"rate {rates[k]:6.1f}: {np.count_nonzero(weights[k])} of 40 columns")

# %%
# The weights along the path, in colours those of the four columns that matter.
figure, axis = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
axis.semilogx(rates, weights[:, 4:], color="silver", linewidth=1)
for j in range(4):
    axis.semilogx(rates, weights[:, j], linewidth=4, label=f"{truth[j]:+g}")
axis.invert_xaxis()
axis.set(xlabel="rate of the l1 norm, from strong to weak", ylabel="weight")
axis.legend(title="true weight")
