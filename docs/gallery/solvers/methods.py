"""
Methods side by side
====================

One problem, several methods, the same certificate for all: what a pass over the data buys, and what a second does.
"""

import pybundle as pb

X, y, _, _ = pb.datasets.load_digits()
risk = pb.risks.MulticlassHinge(X, y)
runs = {}
for method in ("auto", "oca", "prox-bmrm", "bmrm"):
    runs[method] = pb.minimize(risk, lam=1.0, method=method, tol=1e-3)
    print(f"{method:10s} {runs[method].n_passes:5.0f} passes, objective {runs[method].fun:.3f}, lower bound "
          f"{runs[method].lower_bound:.3f}")

# %%
# All of them meet at the same optimum. Plain BMRM wanders at first, since a few planes say little about the risk;
# proximity keeps its steps short, a line search makes each of them count ("oca"), and methods on single examples need
# the fewest passes.
pb.plotting.ConvergenceDisplay.from_results(runs, tol=1e-3)
