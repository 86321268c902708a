"""
Kernels: which of them does the data need?
==========================================

The model is a sum of functions, one for each kernel; the penalty sets functions of
useless kernels to 0. In these data the class depends on the product of the first two
features; the other three features are noise.
"""

import numpy as np

import pybundle as pb

rng = np.random.default_rng(0)
X = rng.standard_normal((600, 5))
y = np.where(X[:, 0] * X[:, 1] > 0.0, "alike", "different")
kernels = [
    pb.mkl.Linear(),
    pb.mkl.Polynomial(2, offset=0.0),
    pb.mkl.Gaussian(sigma=2.0),
    pb.mkl.Gaussian(sigma=0.3),
]
names = ["linear", "products", "Gaussian, wide", "Gaussian, narrow"]

online = pb.mkl.OnlineMKL(kernels, lam=1e-2, n_epochs=20, random_state=0).fit(
    X[:300], y[:300]
)
print(
    f"{100 * online.score(X[300:], y[300:]):.1f} % of the held-out examples are right; "
    f"gap {online.gap_:.2f}"
)

# %%
# The kernel weights over the epochs: the products gain weight, the linear kernel loses
# it.
pb.plotting.KernelWeightsDisplay.from_estimator(online, names=names)

# %%
# The online learner stops far from the optimum. ``solver="certified"`` maximises the
# dual until the gap is small, and finds the kernel weights of the optimum.
certified = pb.mkl.OnlineMKL(kernels, lam=1e-2, solver="certified", random_state=0).fit(
    X[:300], y[:300]
)
print(
    f"{100 * certified.score(X[300:], y[300:]):.1f} % right; "
    f"gap {certified.gap_:.3f}"
)
for name, share in zip(names, certified.weights_, strict=True):
    print(f"{share:.2f} {name}")
