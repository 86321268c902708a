"""Every penalty with every kind of risk, against the conic solver Clarabel: random problems, optima and lower bounds.

    python asv_benchmarks/reproduce/conic.py [--seeds 20]

Each risk is written out as a sum over examples of a maximum, or of a log-sum-exp, over all labellings; each penalty by
second-order and power cones. Neither the risks nor the penalties of the package take part. The columns are the largest
`|F - F'| / |F'|` and the largest `(bound - F') / |F'|`, where F' is Clarabel's value at a tolerance of 1e-9; a bound
may exceed F' by the error of F' only. Writes results/conic.md.
"""

import argparse
import itertools
import warnings

from common import RESULTS, table, version  # sets threads: before NumPy

# isort: split
import clarabel
import numpy as np
import scipy.sparse as sp

import pybundle as pb
from pybundle import prox as pp

TOL = 1e-6


class Program:
    """`min x'Px/2 + q'x` with affine expressions in cones; an expression is (columns, coefficients, constant)."""

    def __init__(self):
        self.squares, self.costs, self.rows, self.cones = [], [], [], []

    def variables(self, n, cost=0.0, square=0.0):
        """Return the numbers of n new variables, each with a linear and a quadratic cost."""
        first = len(self.costs)
        self.costs += list(np.broadcast_to(cost, n))
        self.squares += list(np.broadcast_to(square, n))
        return np.arange(first, first + n)

    def add(self, cone, *expressions):
        self.cones.append(cone)
        self.rows += expressions

    def at_least(self, columns, coefficients, constant=0.0):
        """`coefficients @ x[columns] + constant >= 0`."""
        self.add(clarabel.NonnegativeConeT(1), (columns, coefficients, constant))

    def norm_below(self, bound, columns):
        """`|x[columns]|_2 <= x[bound]`."""
        self.add(clarabel.SecondOrderConeT(1 + len(columns)), *(([k], [1.0], 0.0) for k in [bound, *columns]))

    def absolute(self, columns, cost=0.0):
        """Return new variables that are at least the absolute values."""
        sizes = self.variables(len(columns), cost)
        for k, size in zip(columns, sizes, strict=True):
            self.at_least([size, k], [1.0, -1.0])
            self.at_least([size, k], [1.0, 1.0])
        return sizes

    def solve(self):
        n = len(self.costs)
        A, b = sp.lil_matrix((len(self.rows), n)), np.zeros(len(self.rows))
        for i, (columns, coefficients, constant) in enumerate(self.rows):
            b[i] = constant
            for k, value in zip(columns, coefficients, strict=True):
                A[i, k] -= value
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
        P = sp.diags(np.asarray(self.squares, dtype=float)).tocsc()
        costs = np.asarray(self.costs, dtype=float)
        return clarabel.DefaultSolver(P, costs, A.tocsc(), b, self.cones, settings).solve()


# ---------------------------------------------------------------------- penalties: (regulariser, its part of a program)

def squares(program, w, rates, centre):
    program.costs[w[0]:w[-1] + 1] = list(np.asarray(program.costs)[w] - rates * centre)
    program.squares[w[0]:w[-1] + 1] = list(np.asarray(program.squares)[w] + rates)
    return 0.5 * float(np.sum(rates * centre**2))


def bounds(program, w, low, high):
    for k in w:
        program.at_least([k], [1.0], -low)
        if np.isfinite(high):
            program.at_least([k], [-1.0], high)
    return 0.0


def groups(program, w, sets, rates):
    for members, rate in zip(sets, rates, strict=True):
        program.norm_below(program.variables(1, rate)[0], w[members])
    return 0.0


def squared_sum(program, columns, rate):
    """`rate/2 (sum of columns)^2`, the columns not negative."""
    total = program.variables(1, square=rate)[0]
    program.at_least([total, *columns], [1.0] + [-1.0] * len(columns))
    return 0.0


def norms_of(program, w, sets):
    sizes = program.variables(len(sets))
    for size, members in zip(sizes, sets, strict=True):
        program.norm_below(size, w[members])
    return sizes


def powers(program, w, q):
    """`sum_k |w_k|^q` with cost 1."""
    sizes, one = program.variables(len(w), 1.0), ([], [], 1.0)
    for size, k in zip(sizes, w, strict=True):
        program.add(clarabel.PowerConeT(1.0 / q), ([size], [1.0], 0.0), one, ([k], [1.0], 0.0))
    return 0.0


def squared_power_norm(program, w, q):
    """`(sum_k |w_k|^q)^(2/q) / 2`: a norm s with `r_k^(1/q) s^(1 - 1/q) >= |w_k|` and `sum_k r_k <= s`."""
    norm = program.variables(1, square=1.0)[0]
    parts = program.variables(len(w))
    program.at_least([norm, *parts], [1.0] + [-1.0] * len(w))
    for part, k in zip(parts, w, strict=True):
        program.add(clarabel.PowerConeT(1.0 / q), ([part], [1.0], 0.0), ([norm], [1.0], 0.0), ([k], [1.0], 0.0))
    return 0.0


def thirds(d):
    return [np.flatnonzero(np.arange(d) % 3 == g) for g in range(3)]


def penalties(d, rng):
    """Regularisers by name, each with the function that writes it out and returns a constant."""
    rates, centre, label = rng.uniform(0.3, 4.0, d), rng.normal(size=d), np.arange(d) % 3
    a, b = rng.uniform(0.3, 2.0, 2)

    def lasso(program, w, rate=a):
        program.absolute(w, rate)
        return 0.0

    def several(*parts):
        return lambda program, w: sum(part(program, w) for part in parts)
    third = thirds(d)
    return {
        "squares with a prior": (pp.SquaredL2(rates, centre=centre), lambda p, w: squares(p, w, rates, centre)),
        "l1": (pp.L1(a), lasso),
        "weighted l1": (pp.L1(rates), lambda p, w: lasso(p, w, rates)),
        "elastic net": (pp.ElasticNet(a, b), several(lasso, lambda p, w: squares(p, w, b, np.zeros(d)))),
        "box": (pp.Box(-0.15, 0.2), lambda p, w: bounds(p, w, -0.15, 0.2)),
        "l1 and signs": (pp.L1(a) + pp.Box(0.0), several(lasso, lambda p, w: bounds(p, w, 0.0, np.inf))),
        "group lasso": (pp.L1(a, groups=label), lambda p, w: groups(p, w, third, [a] * 3)),
        "group lasso and square": (pp.L1(a, groups=label) + pp.SquaredL2(b), several(
            lambda p, w: groups(p, w, third, [a] * 3), lambda p, w: squares(p, w, b, np.zeros(d)))),
        "sparse group lasso": (pp.SparseGroupLasso(label, a, b), several(
            lasso, lambda p, w: groups(p, w, third, [b] * 3))),
        "l2": (pp.L2(a), lambda p, w: groups(p, w, [np.arange(d)], [a])),
        "tree": (pp.TreeGroupLasso([[0], list(range(d))], [a, b]),
                 lambda p, w: groups(p, w, [[0], np.arange(d)], [a, b])),
        "squared l1": (pp.SquaredL1(a), lambda p, w: squared_sum(p, p.absolute(w), a)),
        "squared l2,1": (pp.SquaredL1(a, groups=label), lambda p, w: squared_sum(p, norms_of(p, w, third), a)),
        "l1.5": (pp.Lq(1.5, 1.0), lambda p, w: powers(p, w, 1.5)),
        "squared l1.5": (pp.SquaredLq(1.5, 1.0), lambda p, w: squared_power_norm(p, w, 1.5)),
    }


# ---------------------------------------------------------------------- risks: planes (losses, psi) of every example

def maxima(program, w, examples):
    """`sum_i max_y losses_iy + <psi_iy, w>`."""
    for losses, psi in examples:
        top = program.variables(1, 1.0)[0]
        for loss, row in zip(losses, psi, strict=True):
            program.at_least([top, *w], [1.0, *-row], -loss)


def log_sums(program, w, examples):
    """`sum_i log sum_y exp <psi_iy, w>`."""
    for _, psi in examples:
        top, parts = program.variables(1, 1.0)[0], program.variables(len(psi))
        program.at_least(parts, [-1.0] * len(psi), 1.0)
        for part, row in zip(parts, psi, strict=True):
            program.add(clarabel.ExponentialConeT(), ([top, *w], [-1.0, *row], 0.0), ([], [], 1.0),
                        ([part], [1.0], 0.0))


def risks(rng):
    """Risks by name, each with its planes and the function that writes them out."""
    n, d, k = 30, 3, 3
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-1.0, 1.0, d)
    y = np.argmax(X @ rng.standard_normal((d, k)) + rng.standard_normal((n, k)), axis=1)
    unit = np.eye(k)
    classes = [(1.0 - unit[label], np.stack([np.kron(unit[j] - unit[label], x) for j in range(k)]))
               for x, label in zip(X, y, strict=True)]
    hinge = pb.risks.MulticlassHinge(X, y)
    target, quantile = X @ rng.standard_normal(d) + rng.standard_normal(n), rng.uniform(0.1, 0.9)
    errors = [(slopes * t, -np.outer(slopes, x)) for x, t in zip(X, target, strict=True)
              for slopes in [np.array([quantile, quantile - 1.0])]]
    labels = [rng.integers(0, 2, 4) for _ in range(6)]
    words = [np.eye(3)[each + rng.integers(0, 2, 4)] for each in labels]
    chain = pb.risks.Structured(pb.models.Chain(2, 3), words, labels)
    everything = [np.array(labelling, dtype=np.int32) for labelling in itertools.product(range(2), repeat=4)]
    strings = []
    for i in range(6):
        planes = [chain.oracle().plane(i, labelling) for labelling in everything]
        strings.append(([plane.offset for plane in planes], np.stack([dense(plane, chain.dim) for plane in planes])))

    def value_and_slope(w):
        planes = hinge.planes(w)
        return planes.values.sum(), np.ravel(planes.slopes.sum(axis=0))
    return {
        "multiclass hinge": (hinge, classes, maxima),
        "multiclass hinge, CSR": (pb.risks.MulticlassHinge(sp.csr_array(X), y), classes, maxima),
        "multiclass log-loss": (pb.risks.Structured(pb.models.Multiclass(k, d), X, y, loss="logistic"), classes,
                                log_sums),
        "pinball": (pb.risks.Pinball(X, target, quantile), errors, maxima),
        "chain hinge": (chain, strings, maxima),
        "chain log-loss": (pb.risks.Structured(pb.models.Chain(2, 3), words, labels, loss="logistic"), strings,
                           log_sums),
        "callable": (pb.risks.Function(value_and_slope, hinge.dim, lower_bounds=[0.0]), classes, maxima),
    }


def dense(plane, dim):
    return np.asarray(plane.slope.toarray() if sp.issparse(plane.slope) else plane.slope, dtype=float).reshape(dim)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    worst, n_problems, failed, unsolved = {}, 0, 0, 0
    for seed in range(arguments.seeds):
        for name, (risk, examples, write) in risks(np.random.default_rng(seed)).items():
            for kind, (penalty, part) in penalties(risk.dim, np.random.default_rng(1000 + seed)).items():
                program = Program()
                w = program.variables(risk.dim)
                constant = part(program, w)
                write(program, w, examples)
                solution = program.solve()
                if "Solved" != str(solution.status):
                    unsolved += 1
                    continue
                exact = solution.obj_val + constant
                # "auto" leaves so few weights to L-BFGS; blocks take sums over entries
                blocks = getattr(risk, "chains", None) is not None and penalty.canonical(risk.dim).is_separable
                for column, method, tol in ((name, "auto", TOL), *[(f"{name}, blocks", "prox-bcfw", 1e-4)] * blocks):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", pb.ConvergenceWarning)
                        result = pb.minimize(risk, penalty=penalty, tol=tol, method=method)
                    n_problems, failed = n_problems + 1, failed + (not result.success)
                    found = (abs(result.fun - exact) / abs(exact), (result.lower_bound - exact) / abs(exact))
                    worst[kind, column] = np.maximum(worst.get((kind, column), -np.inf), found)
    names = list(dict.fromkeys(name for _, name in worst))
    rows = [(kind, *("{:.0e}, {:.0e}".format(*worst[kind, name]) if (kind, name) in worst else "-" for name in names))
            for kind in dict.fromkeys(kind for kind, _ in worst)]
    text = TEXT.format(version=version(), n=n_problems, failed=failed, unsolved=unsolved,
                       table=table(("penalty", *names), rows))
    (RESULTS / "conic.md").write_text(text, encoding="utf-8")
    print(text)


TEXT = """# Penalties and risks against a conic solver

`python asv_benchmarks/reproduce/conic.py`, pybundle {version}: {n} random problems to a certified 1e-6
(blocks of chains: 1e-4), of which {failed} ended without it.
Clarabel left {unsolved} more unsolved. A cell has the largest difference of the optimum from Clarabel's, relative, and
the largest excess of the lower bound over Clarabel's optimum, which is known to about 1e-9.

{table}
"""

if __name__ == "__main__":
    main()
