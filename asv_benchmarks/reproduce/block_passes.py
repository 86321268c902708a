"""Oracle passes of the block methods on structured data: how many fewer "auto" needs than BCFW and MP-BCFW.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/block_passes.py [--only conll ewt horses usps ocr]

Cold starts, one thread, lam in the mean scale. "auto" runs to the goal; the others until they are there too, or until
they have made a multiple of its passes. So either their passes to the goal are known, or the gap that all those passes
left, and how many passes auto needed to that gap. Passes are visits of examples by the exact oracle, certificates
included; what is done on stored planes does not count, but its seconds do. Where the oracle knows more than the best
labelling, "auto" also runs with several labellings a visit, and the others are compared with that, too.

Writes results/block_passes.md.
"""

import argparse
import warnings

from common import Page, data_file, table, version  # sets threads: before NumPy

# isort: split
import conll_chunking
import horses
import numpy as np
import parsing
import race

import pybundle as pb

BCFW = {"method": "bcfw gap_sampling=True step=pairwise"}
N_BEST = {"ewt": 6}     # labellings a visit: the most that 2 GB of planes allow; 10 elsewhere
OTHERS = {"bcfw": {"method": "bcfw"}, "bcfw, gap sampling, pairwise": BCFW, "mp-bcfw": {"method": "mp-bcfw"}}
SETS = {    # lam in the mean scale, None is 1 / n_examples; goal; passes of the others, None a multiple of auto's
    "conll": ((0.01,), 1e-3, None),
    "conll, lam of its F1": ((3.0 / 8936,), 1e-2, None),
    "ewt": ((30.0 / 12544,), 1e-2, None),     # that of its UAS
    "horses": ((10.0, 1.0, 0.1), 1e-3, 200),
    "usps": ((None,), 1e-4, None),
    "ocr": ((0.01, 0.001, None), 1e-2, None),
}
MILESTONE = 1e-2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS), help="the other parts are kept")
    parser.add_argument("--multiple", type=float, default=6.0, help="of auto's passes for the others (default 6)")
    parser.add_argument("--time-limit", type=float, default=150.0, help="seconds of a run (default 150)")
    arguments = parser.parse_args()
    page = Page("block_passes.md", HEAD.format(version=version()), SETS)
    for name in arguments.only:
        page.replace(name, part(name, arguments.multiple, arguments.time_limit))


def part(name, multiple, limit):
    risk = LOADERS[name]()
    lams, goal, most = SETS[name]
    rows = []
    for lam in lams:
        lam = 1.0 / risk.n_examples if lam is None else lam
        auto = run(risk, lam, goal, limit)
        rows.append((f"{lam:.3g}", "auto", *cells(auto, goal), "-", "-"))
        print(name, *rows[-1], sep=" | ", flush=True)
        many = None
        if getattr(risk.oracle(), "has_further", False):
            n_best = N_BEST.get(name, 10)
            many = run(risk, lam, goal, limit, method=f"auto prox_bcfw.n_best={n_best}")
            rows.append((f"{lam:.3g}", f"auto, n_best = {n_best}", *cells(many, goal), "-", "-"))
            print(name, *rows[-1], sep=" | ", flush=True)
        for method, options in OTHERS.items():
            other = run(risk, lam, goal, limit, most or multiple * auto.n_passes, **options)
            rows.append((f"{lam:.3g}", method, *cells(other, goal), comparison(auto, other),
                         "-" if many is None else comparison(many, other)))
            print(name, *rows[-1], sep=" | ", flush=True)
    header = ("lam", "method", f"passes to {MILESTONE:g}", f"passes to {goal:g}", "passes in all", "gap at the end",
              "seconds", "of them in the oracle", "its passes / those of auto to the same gap",
              "the same, n_best > 1")
    return f"{risk.n_examples} examples, dimension {risk.dim}.\n\n" + table(header, rows)


def run(risk, lam, goal, limit, most=np.inf, **options):
    """To the goal, or until it has made `most` passes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        result = pb.minimize(risk, lam=lam, scale="mean", tol=goal, time_limit=limit, max_iter=10**6,
                             callback=lambda progress: progress.n_passes >= most, random_state=0, **options)
    result.state = None         # its planes are large
    return result


def passes_to(result, gap):
    """Passes at which the gap was at most that, or None."""
    at = np.flatnonzero(result.history["gap"] <= gap)
    return float(result.history["n_passes"][at[0]]) if len(at) else None


def cells(result, goal):
    numbers = (passes_to(result, MILESTONE), passes_to(result, goal))
    seconds = result.seconds
    return (*("-" if x is None else f"{x:.0f}" for x in numbers), f"{result.n_passes:.0f}", f"{result.gap:.1e}",
            f"{seconds['total']:.1f}", f"{seconds['oracle']:.1f}")


def comparison(auto, other):
    """Ratio of passes at the gap that the other one ended with."""
    return f"{other.n_passes / passes_to(auto, max(other.gap, auto.gap)):.1f}"


def conll():
    train = conll_chunking.read(data_file("conll2000", "train.txt.gz"))
    return conll_chunking.bind(train)[2]


def ewt():
    treebank = parsing.load(parsing.TREEBANKS["English EWT"])
    model = pb.models.Dependency.hashed(parsing.BITS, parsing.ATTRIBUTES, parsing.TEMPLATES)
    return pb.risks.Structured(model, *treebank["train"])


def weizmann():
    data = horses.read(data_file("weizmann_horses", "weizmann_horses.npz"))
    model = horses.BinaryLabeling(data.X[0].nodes.shape[1], data.X[0].edge_features.shape[1])
    return pb.risks.Structured(model, *horses.examples(data, data.train))


LOADERS = {"conll": conll, "conll, lam of its F1": conll, "ewt": ewt, "horses": weizmann,
           "usps": lambda: race.usps()[0], "ocr": lambda: race.ocr()[0]}
HEAD = """\
# Passes of block methods

Visits of examples by the exact oracle divided by their number, certificates included, from cold starts; lam in the mean
scale. The others stop at the goal or after a multiple of the passes of auto. One thread, wall clock. Written by
`asv_benchmarks/reproduce/block_passes.py` with pybundle {version}.
"""


if __name__ == "__main__":
    main()
