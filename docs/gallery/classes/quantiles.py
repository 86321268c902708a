"""
Quantiles: how far targets spread
=================================

A regression predicts one number. Quantiles also say how far the targets lie from it:
here nine of ten new targets should lie below the upper line, and one of ten below the
lower one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

import pybundle as pb

rng = np.random.default_rng(0)
x = rng.uniform(0.0, 10.0, 1500)
y = np.sin(x) + 0.1 * x + (0.1 + 0.08 * x) * rng.standard_exponential(1500)
model = make_pipeline(
    SplineTransformer(8, include_bias=False),
    pb.QuantileRegressor(quantile=[0.1, 0.5, 0.9], alpha=0.0),
)
model.fit(x[:1000, None], y[:1000])
below = y[1000:, None] <= model.predict(x[1000:, None])
print(f"share of new targets below the lines: {below.mean(axis=0).round(2)}")
print(f"largest gap {model[-1].gap_.max():.1e}")

# %%
# Splines make curves of the one column; alpha = 0 is no penalty. The bounds are proven
# nevertheless.
grid = np.linspace(0.0, 10.0, 200)
lower, median, upper = model.predict(grid[:, None]).T
figure, axis = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
axis.scatter(x[1000:], y[1000:], s=8, color="silver")
axis.fill_between(grid, lower, upper, color="tab:cyan", alpha=0.3, label="80 %")
axis.plot(grid, median, color="tab:blue", linewidth=3, label="median")
axis.set(xlabel="x", ylabel="y")
axis.legend()
