"""Certificates under attack: random small problems, every claim held against exact arithmetic.

    python asv_benchmarks/reproduce/proofs.py [--problems 8000] [--processes 2] [--first 0] [--seed 0]
    python asv_benchmarks/reproduce/proofs.py --only INDEX [--seed 0]      # one problem, told run by run
    python asv_benchmarks/reproduce/proofs.py --penalties [--forgeries 5]  # sums of penalties, verify, forgeries
    python asv_benchmarks/reproduce/proofs.py --graphs [--problems 600]    # labels on graphs, relaxed and true risk
    python asv_benchmarks/reproduce/proofs.py --ranking [--problems 600]   # pairs in groups, measures of samples
    python asv_benchmarks/reproduce/proofs.py --costs [--problems 600]     # learned costs

All risks and models, all methods, data on scales of 1e-8 to 1e8, lam from 1e-10 to 1e8, starts up to 1e8 away, warm
starts, paths, parts, weights, signs, memory limits. Values are recomputed in rational numbers (hinges) or decimals of
80 digits (log-losses) by `tests/reference/exact.py`, problems are made by `problems.py` and claims are checked by
`proofs.py` beside it, labels on graphs in `graph_problems.py` and `exact_graphs.py`, pairs and measures of whole
samples in `ranking_problems.py`, learned costs in `cost_problems.py`; a short version runs in the suite
(tests/test_proofs.py and test_graph_proofs.py). Seeds are fixed. Writes asv_benchmarks/results/proofs.md, or
penalty_proofs.md, graph_proofs.md, ranking_proofs.md or cost_proofs.md, and ends with an error where a claim failed.
"""

import argparse
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from common import RESULTS, table, version

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from reference import penalty_proofs, proofs

CHUNK = 20
KINDS = (*proofs.FAILURES, "uncertified", "RuntimeWarning", "not verified")
SHOWN = 200


def attack_of(arguments):
    """The attack that is asked for, a function of seed and number."""
    if arguments.penalties:
        return partial(penalty_proofs.attack, forgeries=arguments.forgeries)
    if arguments.ranking:
        return proofs.attack_ranking
    if arguments.costs:
        return proofs.attack_costs
    return proofs.attack_graphs if arguments.graphs else proofs.attack


def work(attack, seed, indices):
    """(index, seconds, rows) of some problems; vectors and results stay behind."""
    found = []
    for index in indices:
        began = time.process_time()
        rows = attack(seed, index)
        found.append((index, time.process_time() - began, rows))
    return found


def tell(attack, seed, index):
    """One problem, run by run."""
    for row in attack(seed, index):
        print(f"{row.risk}: {row.words}\n    " + ", ".join(f"{k} {v}" for k, v in row.counts.items() if v))
        for detail in row.details:
            print(f"    {detail}")


def count(rows, key):
    """Rows of a table: sums of counts by `key(row)`, and the worst bound."""
    sums, worst = defaultdict(Counter), Counter()
    for _, row in rows:
        sums[key(row)].update(row.counts)
        worst[key(row)] = max(worst[key(row)], row.excess)
    for name in sorted(sums):
        counts = sums[name]
        refused = sum(n for kind, n in counts.items() if kind.startswith("refused"))
        yield (*(name if isinstance(name, tuple) else (name,)), counts["run"], counts["certified"], counts["success"],
               *(counts[kind] or "" for kind in KINDS), refused or "", f"{worst[name]:.0e}" if worst[name] else "")


def report(rows, arguments, seconds):
    """The text of results/proofs.md."""
    header = ("runs", "certified", "converged", *KINDS, "refused", "worst bound")
    total = Counter()
    for _, row in rows:
        total.update(row.counts)
    failures = [(index, row) for index, row in rows if any(row.counts[kind] for kind in proofs.FAILURES)]
    refused = Counter()
    for _, row in rows:
        refused.update({kind[9:]: n for kind, n in row.counts.items() if kind.startswith("refused")})
    claims = ", ".join(f"{total[kind]} {kind}" for kind in proofs.FAILURES)
    lines = [
        "# Certificates under attack", "",
        f"`python asv_benchmarks/reproduce/proofs.py --problems {arguments.problems} --first {arguments.first} "
        f"--seed {arguments.seed}{' --penalties' * arguments.penalties}{' --graphs' * arguments.graphs}"
        f"{' --ranking' * arguments.ranking}{' --costs' * arguments.costs}`: "
        f"{arguments.problems} problems, {total['run']} runs, **{total['certified']} "
        f"certified results** ({total['success']} converged), {seconds / 60:.1f} minutes of processor time, "
        f"pybundle {version()}.", "",
        f"Failures: **{claims}**.", "",
        *([f"{total['verified']} certificates were confirmed by `verify` for the penalty of the caller, "
           f"{total['not verified']} of converged runs were not. Of {total['forged']} forgeries {total['forged, ok']} "
           "passed; those with false claims are among the failures.", ""] if arguments.penalties else []),
        *([f"To the labellings of the relaxed risk {total['vertices']} fractional vertices were added, best at a point "
           "met.", ""] if arguments.graphs else []),
        "* *bound*: `lower_bound` above the best exact value met, or the bound that `slope` gives for another lam.",
        "* *value*: F(x) above `fun` plus its error, or x not feasible. *ball*: the minimiser outside of `result.ball` "
        f"({total['ball seen']} balls checked).",
        "* *contradiction*: a risk that is convex was refused as contradicting itself. *crash*: an exception that is "
        "not the package's own.",
        "* *uncertified*: the result says so, which is no failure; of these "
        f"{total['bound above, uncertified']} had a bound above the best value. *refused*: other exceptions of the "
        "package: " + (", ".join(f"{name} {n}" for name, n in refused.items()) or "none") + ".",
        "* *worst bound*: relative excess of the worst bound.",
        f"* The exact minimiser was found for {total['minimum known']} of "
        f"{total['minimum known'] + total['minimum not known']} pairs of problem and lam; elsewhere the best point of "
        "all runs stands for it.", "",
        "## By risk", "", table(("risk", *header), count(rows, lambda row: row.risk)), "",
        "## By method", "", table(("method", *header), count(rows, lambda row: row.method)), ""]
    bad = [(index, row) for index, row in failures]
    if bad:
        lines += ["## By risk and method, where something failed", "",
                  table(("risk", "method", *header), [line for line in count(rows, lambda row: (row.risk, row.method))
                                                      if any(line[5:5 + len(proofs.FAILURES)])]), "",
                  f"## Failures ({len(bad)} runs; `--only` repeats a problem)", ""]
        for index, row in bad[:SHOWN]:
            lines += [f"* {index}, {row.risk}, {row.words}: " + "; ".join(
                d for d in row.details if d.split(":")[0] in proofs.FAILURES)]
        if len(bad) > SHOWN:
            lines += [f"* and {len(bad) - SHOWN} more"]
        lines += [""]
    return "\n".join(lines), bool(bad)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=8000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--penalties", action="store_true", help="sums of penalties, and verify")
    parser.add_argument("--graphs", action="store_true", help="labels on graphs")
    parser.add_argument("--ranking", action="store_true", help="pairs of rows in groups, measures of samples")
    parser.add_argument("--costs", action="store_true", help="learned costs")
    parser.add_argument("--forgeries", type=int, default=0, help="with --penalties: of each certificate")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    attack = attack_of(arguments)
    arguments.out = arguments.out or RESULTS / (
        "penalty_proofs.md" if arguments.penalties else "graph_proofs.md" if arguments.graphs else
        "ranking_proofs.md" if arguments.ranking else "cost_proofs.md" if arguments.costs else "proofs.md")
    if arguments.only is not None:
        tell(attack, arguments.seed, arguments.only)
        return 0
    last, began = arguments.first + arguments.problems, time.monotonic()
    chunks = [range(k, min(k + CHUNK, last)) for k in range(arguments.first, last, CHUNK)]
    rows, times = [], []
    with ProcessPoolExecutor(arguments.processes) as pool:
        for done, found in enumerate(pool.map(partial(work, attack, arguments.seed), chunks), 1):
            for index, seconds, mine in found:
                times.append((seconds, index))
                rows += [(index, row) for row in mine]
            if done % 10 == 0 or done == len(chunks):
                bad = sum(any(row.counts[kind] for kind in proofs.FAILURES) for _, row in rows)
                print(f"{done * CHUNK} problems, {sum(row.counts['certified'] for _, row in rows)} certified, "
                      f"{bad} runs failed, {time.monotonic() - began:.0f} s", flush=True)
    text, failed = report(rows, arguments, sum(seconds for seconds, _ in times))
    arguments.out.write_text(text)
    print("slowest (seconds, problem):", ", ".join(f"({s:.1f}, {i})" for s, i in sorted(times)[-5:]))
    print(f"wrote {arguments.out}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
