"""The lecture's methods (Franc 2020) measured: cutting planes in a ball against BMRM, both stops, the iteration bound.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/lecture.py

Writes results/papers/lecture.md and its pictures. What was measured before is kept; see papers.py.
"""

import numpy as np
from papers import Page, Run, count, measured, seconds, table
from problems import problem

import pybundle as pb

LAMS = (1000.0, 100.0, 10.0)
EXACT = (("max_idle", 1000), ("theta", 1e-3))


def methods(page):
    """USPS: for every lam the ball of the minimiser, |w| <= r, has the same solution."""
    rows = []
    axes, save = page.figure("lecture", (1, len(LAMS)), (4.2 * len(LAMS), 3.6))
    for panel, lam in zip(axes[0], LAMS, strict=True):
        best = page.run(Run("usps", "auto", lam, options=(("tol", 1e-6),)))
        if best is None:
            continue
        bmrm = page.run(Run("usps", "bmrm", lam, 1, options=(("stop", "certificate"), *EXACT)))
        current = page.run(Run("usps", "bmrm", lam, 1, options=(("stop", "published"), *EXACT)))
        ball = page.kept(f"usps cutting-plane in the ball of lam={lam:g}",
                         lambda lam=lam, r=best["norm"]: measured(Run("usps", "cutting-plane", lam, 1, options=EXACT),
                                                                  page.arguments.time_limit, penalty=pb.prox.Ball(r)))
        rows.append((f"{lam:g}", f"{best['norm']:.2f}", *(count(record and record["iterations"]) for record in (
            ball, bmrm, current)), f"{iteration_bound(lam, best['fun']):.1e}", seconds(ball), seconds(bmrm)))
        for record, name in ((ball, "R, cutting planes in the ball"), (bmrm, "F, BMRM")):
            if record:
                panel.semilogy(record["curve"]["iteration"], np.array(record["curve"]["primal"]) / record["fun"],
                               label=name)
        panel.set(title=f"USPS, lam = {lam:g}", xlabel="iterations", ylabel="value of the iterate / minimum")
    return METHODS.format(figure=save("values of the iterates"), table=table(
        ("lam", "r", "iterations in the ball", "BMRM, best iterate", "BMRM, current iterate", "bound on them",
         "seconds in the ball", "seconds of BMRM, best iterate"), rows))


def iteration_bound(lam, fun, tol=1e-2):
    """log2(lam F(0) / G^2) + 4 G^2 / (lam eps) - 1 with eps = tol F(w*), G the sum of the largest |psi_i|."""
    X = problem("usps")[0].examples.X.astype(np.float64)
    G = np.sqrt(2.0) * np.linalg.norm(X, axis=1).sum()
    return np.log2(lam * len(X) / G**2) + 4.0 * G**2 / (lam * tol * fun) - 1.0


HEAD = """\
# Structured model learning (Franc, lecture, 2020)

The lecture has algorithms and a bound, no measured tables; this is what they do on USPS (7291 digits, 0/1 loss)."""
METHODS = """\
## Cutting planes in a ball, BMRM, and the bound on its iterations

"r" is |w*| of the penalty problem: the minimiser of R in that ball is the same. All to a relative gap of 1e-2, R in
the ball and F elsewhere; the lecture stops on the best iterate, the papers on the current one. Cutting planes zig-zag:
the figure shows the values of their iterates over the minimum. The bound is that of the lecture, log2(lam F(0) / G^2) +
4 G^2 / (lam eps) - 1. It takes an absolute eps, here 0.01 F(w*); G is the sum of the largest norms that subgradients of
the examples can have.

{table}

{figure}"""

if __name__ == "__main__":
    Page("lecture", __doc__, {"methods": methods}).write(HEAD)
