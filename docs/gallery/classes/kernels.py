"""
Kernels: which of them does the data need?
==========================================

A sum of functions, one for each kernel, and a norm that lets go of kernels that do not help. The truth here is a
product of two features, beside three features without meaning.
"""

import numpy as np

import pybundle as pb

rng = np.random.default_rng(0)
X = rng.standard_normal((600, 5))
y = np.where(X[:, 0] * X[:, 1] > 0.0, "alike", "different")
kernels = [pb.mkl.Linear(), pb.mkl.Polynomial(2, offset=0.0), pb.mkl.Gaussian(sigma=2.0), pb.mkl.Gaussian(sigma=0.3)]
names = ["linear", "products", "Gaussian, wide", "Gaussian, narrow"]

online = pb.mkl.OnlineMKL(kernels, lam=1e-2, n_epochs=20, random_state=0).fit(X[:300], y[:300])
print(f"{100 * online.score(X[300:], y[300:]):.1f} % of the held-out examples are right; gap {online.gap_:.2f}")

# %%
# Shares over the epochs: the products take over, the linear kernel goes.
pb.plotting.KernelWeightsDisplay.from_estimator(online, names=names)

# %%
# The online learner stops far from the optimum. ``solver="certified"`` climbs the dual until the gap is small, and says
# which kernels the optimum has.
certified = pb.mkl.OnlineMKL(kernels, lam=1e-2, solver="certified", random_state=0).fit(X[:300], y[:300])
print(f"{100 * certified.score(X[300:], y[300:]):.1f} % right; gap {certified.gap_:.3f}; shares "
      + ", ".join(f"{name} {share:.2f}" for name, share in zip(names, certified.weights_, strict=True)))
