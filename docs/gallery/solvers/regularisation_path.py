"""
Paths: each run warm-starts the next
=====================================

Planes bound the risk, not the objective, so they are valid for every regularisation
constant. On a path each run starts with the lower bound and the multipliers of the last
run. The grid therefore costs fewer passes than separate runs.
"""

from typing import Any

import numpy as np

import pybundle as pb

X, y, X_test, y_test = pb.datasets.load_digits()
risk = pb.risks.MulticlassHinge(X, y)
lams = np.logspace(3.0, -1.0, 9)
warm = pb.path(risk, lams)
cold = [pb.minimize(risk, lam=lam) for lam in lams]
for name, results in (("warm", warm), ("cold", cold)):
    print(
        f"{name}: {sum(result.n_passes for result in results):.0f} passes, "
        f"the last run {results[-1].n_passes:.0f}; "
        f"largest gap {max(result.gap for result in results):.1e}"
    )

# %%
# Errors along the path, with strong regularisation on the left.


def error(X: Any, y: Any) -> Any:
    return lambda w: 100.0 * np.mean((X @ w.reshape(10, -1).T).argmax(axis=1) != y)


pb.plotting.PathDisplay.from_results(
    warm,
    {"training": error(X, y), "held out": error(X_test, y_test)},
    ylabel="error, %",
)

# %%
# Cross-validation solves one such path for each fold to choose C. The band shows one
# standard deviation over the folds.
search = pb.MulticlassSVMCV(cv=5, tol=1e-2).fit(X, y)
print(f"C = {search.C_:.3g}: {100 * search.score(X_test, y_test):.1f} % right")
pb.plotting.PathDisplay.from_estimator(search)
