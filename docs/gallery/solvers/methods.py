"""
Methods side by side
====================

Several methods solve one problem with the same certificate. The plots show the gap that
they reach per pass over the data and per second.
"""

import pybundle as pb

X, y, _, _ = pb.datasets.load_digits()
risk = pb.risks.MulticlassHinge(X, y)
runs = {}
for method in ("auto", "oca", "prox-bmrm", "bmrm"):
    runs[method] = pb.minimize(risk, lam=1.0, method=method, tol=1e-3)
    print(
        f"{method:10s} {runs[method].n_passes:5.0f} passes, "
        f"objective {runs[method].fun:.3f}, lower bound "
        f"{runs[method].lower_bound:.3f}"
    )

# %%
# All methods reach the same optimum. The first points of plain BMRM are poor, since a
# few planes say little about the risk. A proximal term keeps steps short ("prox-bmrm"),
# and a line search ensures that each step improves the best point ("oca"). Methods on
# single examples ("auto") need about as few passes here, and far fewer on larger data.
pb.plotting.ConvergenceDisplay.from_results(runs, tol=1e-3)
