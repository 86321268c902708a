"""What the pages of the papers share: runs that are made once, kept in results/papers/runs.jsonl, and resumed.

A page is a list of sections, functions of a `Page` that return Markdown. A section asks the page for its runs; the page
returns the record that is kept, or makes it. So a page can be written at any time, and a run that was cut off, by its
time limit or by a signal, resumes from its checkpoint when the same command is given again.
"""

import argparse
import json
import os
import re
import time
import warnings
from dataclasses import fields
from typing import NamedTuple

from common import RESULTS, commit, table  # sets threads: before NumPy

# isort: split
import numpy as np
from problems import problem
from threadpoolctl import threadpool_info

import pybundle as pb

PAPERS = RESULTS / "papers"
KEPT = PAPERS / "runs.jsonl"
WORK = RESULTS.parent / "figures" / "runs"
"""Checkpoints and solutions; not committed."""
POINTS = 60         # of the curve of a long run
BUSY = 1.5          # load of the machine above which other programs ran beside
REPEATS = """\
## How far counts move

Counts depend on the commit, and on the processor, for which BLAS chooses its kernels: other roundings lead to other
iterates of a zig-zagging method. {n} runs of this page were measured more than once. Their iterations differ by
{median:.1f} % in the median and by {most:.1f} % at most; the tables above show the last ones.

{table}"""


class Run(NamedTuple):
    """A solve of a problem to a relative gap of 1e-2, as the tables of the papers name it."""

    data: str
    method: str
    lam: float
    n_parts: int | None = None
    start: str = "zero"         # "reuse from L": the solution at 10 lam, of a chain that starts at L; "sgd": ten epochs
    options: tuple = (("stop", "published"),)

    @property
    def key(self):
        parts = "" if self.n_parts is None else f" P={self.n_parts}"
        start = "" if self.start == "zero" else f", {self.start}"
        options = "".join(f", {name}={value}" for name, value in self.options)
        return f"{self.data} {self.method}{parts} lam={self.lam:g}{start}{options}"

    def file(self, suffix):
        WORK.mkdir(parents=True, exist_ok=True)
        return WORK / (re.sub(r"[^\w.=-]+", "_", self.key) + suffix)

    def before(self):
        """The run that this one starts from, or None."""
        if self.start == "sgd":
            return sgd(self.data, self.lam, 10)
        if self.start.startswith("reuse"):
            first, lam = float(self.start.split()[-1]), 10.0 * self.lam
            return self._replace(lam=lam, start=self.start if lam < first else "zero")
        return None


def sgd(data, lam, epochs):
    """So many epochs, wherever the gap is."""
    return Run(data, "sgd", lam, options=(("max_iter", epochs), ("random_state", 0), ("tol", 1e-9)))


class Page:
    """A page of results/papers: keeps what was measured, and knows which runs it lacks."""

    def __init__(self, name, description, sections):
        parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--only", nargs="*", choices=list(sections), default=list(sections), metavar="SECTION",
                            help=f"sections to measure, of {', '.join(sections)}; none: only write the page")
        parser.add_argument("--runs", nargs="+", default=[], metavar="TEXT", help="only runs whose keys hold all these")
        parser.add_argument("--time-limit", type=float, default=1200.0, help="seconds of a run (default 1200); its "
                            "checkpoint is kept, and the next call goes on")
        parser.add_argument("--again", action="store_true", help="measure what is kept, too; the page shows the last "
                            "record of a run, and the counts of all of them")
        self.arguments = parser.parse_args()
        self.name, self.sections, self._measures = name, sections, False
        self.history, self.used, self.missing, self._tried = kept(), {}, [], set()

    def write(self, head, clock="processor seconds"):
        """Measure what is missing and write the page; `clock` is what its seconds are."""
        texts = []
        for name, section in self.sections.items():
            self._measures = name in self.arguments.only
            texts.append(section(self))
        text = [head.strip(), self._provenance(clock), *texts, *self._repeats()]
        if self.missing:
            keys = list(dict.fromkeys(self.missing))
            text.append(f"## Not measured yet\n\n{len(keys)} runs; `--runs \"KEY\"` measures one, such as these:\n\n"
                        + "\n".join(f"- `{key}`" for key in keys[:10]))
        PAPERS.mkdir(parents=True, exist_ok=True)
        (PAPERS / f"{self.name}.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")
        print(f"wrote {PAPERS / self.name}.md; {len(self.missing)} runs are missing")

    def _provenance(self, clock):
        """Script, commits and clock, and how many runs shared the machine."""
        commits = sorted({record["commit"] for record in self.used.values()})
        changed = ' "+" after a commit: with changes not committed.' * any(name.endswith("+") for name in commits)
        n, busy = len(self.used), sum(record["load"] > BUSY for record in self.used.values())
        which = "all runs" if busy == n else f"{busy} of the {n} runs"
        rough = f" Other programs ran beside {which} (load above {BUSY:g}), so that seconds are rough." if busy else ""
        return (f"Written by `asv_benchmarks/reproduce/{self.name}.py`. Commits measured: {', '.join(commits)}."
                f"{changed} Seconds are {clock}.{rough}")

    def _repeats(self):
        """Iterations of the runs that count them and were measured more than once, in the order of their records."""
        rows, moves = [], []
        for key in self.used:
            if len(records := self.history[key]) > 1 and "iterations" in records[-1]:
                counts = [record["iterations"] for record in records]
                moves.append(100.0 * (max(counts) - min(counts)) / min(counts))
                rows.append((f"`{key}`", ", ".join(
                    f"{count} ({record['commit']}{', ' * ('kernels' in record)}{record.get('kernels', '')})"
                    for count, record in zip(counts, records, strict=True)), f"{moves[-1]:.1f}"))
        if rows:
            yield REPEATS.format(n=len(rows), median=np.median(moves), most=max(moves),
                                 table=table(("run", "iterations (commit, kernels of BLAS)", "range, %"), rows))

    def kept(self, key, make, is_needed=False):
        """The record `key`, made by `make() -> dict or None` if it is not there and may be measured now."""
        wanted = self._measures and all(text in key for text in self.arguments.runs)
        is_known = key in self.history and not (wanted and self.arguments.again)
        if not is_known and key not in self._tried and (wanted or is_needed):
            self._tried.add(key)
            print(key, end=" ... ", flush=True)
            record = make()
            print(record and {name: value for name, value in record.items() if not isinstance(value, list)}, flush=True)
            if record is not None:
                self.history.setdefault(key, []).append({
                    "commit": commit(), "load": round(os.getloadavg()[0], 1), "kernels": kernels()} | record)
                append({"key": key} | self.history[key][-1])
        if key not in self.history:
            self.missing.append(key)
            return None
        self.used[key] = self.history[key][-1]
        return self.used[key]

    def run(self, run, is_needed=False):
        """The record of a run; the one that it starts from is made with it."""
        return self.kept(run.key, lambda: solved(run, self.arguments.time_limit, lambda before: self.run(before, True)),
                         is_needed)

    def figure(self, name, shape, size):
        """Axes of a Matplotlib figure, and a function that saves it and returns its Markdown, nothing without lines."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(*shape, squeeze=False)

        def save(caption, level=None):
            drawn = [panel for panel in axes.flat if panel.lines]
            for panel in drawn:
                if level is not None:
                    panel.axhline(level, color="0.8", zorder=0, label=f"{level:g}")
                if panel.get_legend_handles_labels()[0]:
                    panel.legend()
            if not drawn:
                return ""
            PAPERS.mkdir(parents=True, exist_ok=True)
            figure.savefig(PAPERS / f"{name}.png", dpi=100)
            return f"![{caption}]({name}.png)"

        return axes, save


def kept():
    """Lists of records by key, in the order of their measurement."""
    found = {}
    for line in KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else ():
        record = json.loads(line)
        found.setdefault(record.pop("key"), []).append(record)
    return found


def kernels():
    """The processor whose kernels OpenBLAS uses; `OPENBLAS_CORETYPE` chooses others."""
    return next((info["architecture"] for info in threadpool_info() if "architecture" in info), "")


def append(record):
    PAPERS.mkdir(parents=True, exist_ok=True)
    with KEPT.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def solved(run, limit, made):
    """The record of a run; None if it was cut off. `made(run)` makes the run that it starts from."""
    w0 = None
    if (before := run.before()) is not None:
        if made(before) is None:
            return None
        if not before.file(".npy").exists():        # the record was kept on another machine
            solved(before, limit, made)
        w0 = np.load(before.file(".npy"))
    return measured(run, limit, lam=run.lam, w0=w0)


def measured(run, limit, **arguments):
    """The record of `pb.minimize(risk, **arguments)`; None if the time limit cut it off, and its checkpoint is kept."""
    risk, errors = problem(run.data)
    # a run that measures time takes no checkpoint
    checkpoint = None if dict(run.options).get("cost") == "clock" else run.file(".npz")
    was_cut = checkpoint is not None and checkpoint.exists()
    began, end, spent = time.process_time(), time.monotonic() + limit, []

    def callback(_):
        spent.append(time.process_time() - began)
        return time.monotonic() > end

    options, names = dict(run.options), {option.name for option in fields(pb.methods.parse(run.method))}
    method = pb.methods.parse(run.method, **{name: options.pop(name) for name in names & options.keys()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        # a callback, because `time_limit` counts from the first start
        result = pb.minimize(risk, method=method, n_parts=run.n_parts, checkpoint=checkpoint,
                             callback=callback, **{"tol": 1e-2, "max_iter": 10**6} | options | arguments)
    if not (result.success or result.status in (pb.Status.ITERATION_LIMIT, pb.Status.INFERENCE)):
        what = "starts again" if checkpoint is None else "goes on"
        print(f"cut off at a gap of {result.gap:.1e}: the next call {what}")
        return None
    np.save(run.file(".npy"), result.x)
    if checkpoint is not None:
        checkpoint.unlink()
    return {"iterations": result.nit, "passes": round(result.n_passes, 1),
            "cpu": None if was_cut else round(time.process_time() - began, 2),
            "seconds": {name: round(value, 2) for name, value in result.seconds.items()}, "fun": result.fun,
            "lower_bound": result.lower_bound, "gap": result.gap, "max_planes": result.max_planes,
            "norm": float(np.linalg.norm(result.x)),
            "errors": {name: round(100.0 * error(result.x), 3) for name, error in errors.items()},
            "curve": curve(result.history if was_cut else result.history | {"cpu": np.array(spent)})}


def curve(history):
    """Rows of a history at all iterations or, of a long run, at POINTS, more of them in the beginning.

    "cpu" is there unless the run was resumed.
    """
    names = ("n_passes", "time", "primal", "best_primal", "lower_bound", *(("cpu",) if "cpu" in history else ()))
    n = len(history["gap"])
    at = np.arange(n) if n <= 2 * POINTS else np.unique(np.rint(np.geomspace(1, n, POINTS)).astype(int)) - 1
    return {name: [float(f"{value:.6g}") for value in history[name][at]] for name in names} | {
        "iteration": (at + 1).tolist()}


def seconds(record):
    """Processor seconds; wall clock if the run was cut off and resumed."""
    return "-" if record is None else f"{total(record):.1f}"


def total(record):
    return record["seconds"]["total"] if record["cpu"] is None else record["cpu"]


def split(record):
    """Oracle, master, and the rest, % of the time."""
    if record is None:
        return "-"
    return " / ".join(f"{100 * record['seconds'][name] / record['seconds']['total']:.0f}"
                      for name in ("oracle", "qp", "rest"))


def error(record, name):
    return "-" if record is None else f"{record['errors'][name]:.2f}"


def ratio(mine, theirs, digits=2):
    return "-" if mine is None or theirs is None else f"{mine / theirs:.{digits}f}"


def count(value):
    return "-" if value is None else str(value)


__all__ = ["Page", "Run", "count", "error", "measured", "ratio", "seconds", "sgd", "split", "table", "total"]
