"""The table of "auto": what it takes for which problem, what takes over, and that every row is reached."""

import numpy as np
import pytest
from signs import signed

import pybundle as pb
from pybundle.prox import L1, Ball, SquaredL2
from pybundle.solvers.auto import NARROW, SLOW, TABLE, Case

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 6))
WIDE, MANY, VERY_WIDE = (RNG.standard_normal(shape) for shape in ((60, 80), (500, 300), (60, NARROW // 4 + 1)))
SIGNS = np.where(X[:, 0] > 0.0, 1, -1)
CLASSES = np.arange(60) % 4
TARGETS = X[:, 0] + RNG.standard_normal(60)


def chains(loss="hinge", K=12, d=20):
    rng = np.random.default_rng(1)
    rows = [rng.standard_normal((4, d)) for _ in range(10)]
    return pb.risks.Structured(pb.models.Chain(K, d), rows, [rng.integers(0, K, 4) for _ in rows], loss=loss)


def hinge(Z=WIDE):
    return pb.risks.MulticlassHinge(Z, CLASSES)


def with_ones():
    return hinge(np.hstack([WIDE, np.ones((60, 1))]))


FREE = np.tile(np.append(np.ones(80), 0.0), 4)      # a rate for each weight but the intercepts


def function():
    return pb.risks.Function(lambda w: (float(abs(w).sum()), np.sign(w)), 3, lower_bounds=0.0)


def chosen(risk, tol=1e-2, **options):
    """The method, and names of fallbacks with passes, relative gap and most passes; None without fallbacks."""
    with pb.Solve(risk, tol=tol, **options) as solve:
        run = solve.run
        words = run.search.choice.removeprefix("auto chose ").split(":")[0]
        return words, None if run.fallbacks is None else [
            (one.method, one.slow, one.at_gap, one.most) for one in run.fallbacks.left]


NOW = (np.inf, None, np.inf)        # a fallback that waits for a stall
PROBLEMS = {
    "a ball": (hinge, {"penalty": Ball(1.0)}, "'bmrm'", None),
    "constraints": (hinge, {"lam": 1.0, "constraints": (np.ones((1, 320)), -1.0, 1.0)}, "'oca'", None),
    "norms of groups": (hinge, {"penalty": pb.prox.L2(1.0)}, "'oca'", None),
    "a log-loss of chains": (lambda: chains("logistic"), {"lam": 1.0}, "'prox-bcfw'",
                             [("lbfgs", SLOW / 3.0, None, np.inf), ("oca", *NOW)]),
    "a log-loss of chains, l1": (lambda: chains("logistic"), {"penalty": L1(1.0) + SquaredL2(0.1)}, "'prox-bcfw'",
                                 [("lbfgs", SLOW, None, np.inf), ("oca", *NOW)]),
    "a log-loss under a limit": (lambda: chains("logistic"), {"lam": 1.0, "memory_limit": 10**8}, "'lbfgs'",
                                 [("oca", *NOW)]),
    "a log-loss of one score": (lambda: pb.risks.Logistic(X, SIGNS), {"lam": 1.0}, "'newton'",
                                [("lbfgs", *NOW), ("oca", *NOW)]),
    "the same on more columns": (
        lambda: pb.risks.Logistic(MANY, np.sign(MANY[:, 0])), {"lam": 1.0}, "'lbfgs', then 'newton' if it is slow",
        [("newton", 12.5, None, np.inf), ("lbfgs", *NOW), ("oca", *NOW)]),
    "quantiles without penalty": (lambda: pb.risks.Pinball(X, TARGETS, 0.3), {"lam": np.zeros(6)}, "'interior-point'",
                                  [("oca", *NOW)]),
    "a memory limit": (chains, {"lam": 1.0, "memory_limit": 10**8}, "'oca'", None),
    "a function": (function, {"lam": 1.0}, "'oca'", None),
    "evidence of l1": (hinge, {"penalty": L1(1.0), "evidence": True}, "'oca'", None),
    "l1 on few weights, tol small": (lambda: hinge(X), {"penalty": L1(1.0), "tol": 1e-5}, "'oca'", None),
    "free intercepts of classes": (with_ones, {"lam": FREE}, "'prox-bcfw'",
                                   [("oca", SLOW / 2.0, None, np.inf)]),
    "the same, tol small": (with_ones, {"lam": FREE, "tol": 1e-5}, "'prox-bcfw'",
                            [("oca", SLOW / 6.0, None, np.inf)]),
    "l1": (hinge, {"penalty": L1(1.0)}, "'prox-bcfw'", [("oca", *NOW)]),
    "labels": (hinge, {"lam": 1.0}, "'prox-bcfw'", [("alm", SLOW / 2.0, None, np.inf), ("oca", *NOW)]),
    "labels, tol small": (hinge, {"lam": 1.0, "tol": 1e-5}, "'prox-bcfw'",
                          [("alm", SLOW / 6.0, None, np.inf), ("oca", *NOW)]),
    "labels, columns uneven": (lambda: hinge(WIDE * np.geomspace(0.01, 100.0, 80)), {"lam": 1.0}, "'prox-bcfw'",
                               [("alm", SLOW / 6.0, None, np.inf), ("oca", *NOW)]),
    "labels, few weights": (lambda: hinge(X), {"lam": 1.0}, "'prox-bcfw'",
                            [("alm", SLOW / 2.0, None, np.inf), ("oca", SLOW, None, np.inf)]),
    "labels, tol tiny": (hinge, {"lam": 1.0, "tol": 1e-9}, "'prox-bcfw', then 'alm'",
                         [("alm", SLOW, 1e-3, np.inf), ("oca", *NOW)]),
    "labels, many weights": (lambda: hinge(VERY_WIDE), {"lam": 1.0, "tol": 1e-9},
                             "'prox-bcfw'", [("alm", *NOW), ("oca", *NOW)]),
    "decoders": (chains, {"lam": 1.0}, "'prox-bcfw'", [("oca", *NOW)]),
    "decoders, tol small": (chains, {"lam": 1.0, "tol": 1e-5}, "'prox-bcfw', then 'alm'",
                            [("alm", SLOW, 1e-3, np.inf), ("oca", *NOW)]),
    "decoders, many weights": (lambda: chains(d=NARROW // 12), {"lam": 1.0, "tol": 1e-5}, "'prox-bcfw', then 'alm'",
                               [("alm", *NOW), ("oca", *NOW)]),
    "decoders, signs": (chains, {"tol": 1e-5, "penalty": signed(1.0, np.arange(408) == 0)},
                        "'prox-bcfw'", [("oca", *NOW)]),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_table_takes(name):
    make, options, method, fallbacks = PROBLEMS[name]
    assert chosen(make(), **options) == (method, fallbacks)


def test_steps_follow_where_they_are_no_more_than_passes():
    """One score with corners: the steps of "interior-point" follow after as many passes as they cost."""
    words, fallbacks = chosen(pb.risks.BinaryHinge(X, SIGNS), lam=1.0)
    assert words == "'prox-bcfw'" and [one[0] for one in fallbacks] == ["interior-point", "oca"]
    assert fallbacks[0][3] > 1.0 and fallbacks[0][1] == np.inf


def test_every_row_but_those_of_files_and_workers_is_reached():
    reached = set()
    for make, options, *_ in PROBLEMS.values():
        with pb.Solve(make(), **options) as solve:
            case = Case(solve.run.search)
            reached.add(next(k for k, row in enumerate(TABLE) if row.holds(case)))
    left = [row.words for k, row in enumerate(TABLE) if k not in reached]
    assert len(TABLE) <= 20
    assert [callable(words) or "mapped" in words for words in left] == [True, True]     # tests of files, of workers
