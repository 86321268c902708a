"""Measure what a reader of the package has to hold in mind: files a solve executes, classes, stacks, lookups, circles.

    python asv_benchmarks/structure/report.py [--tree PATH] [--before FILE] [--out FILE] [--build] [--places]

Measures the checkout PATH, built in place (default: this one), and writes results/structure.md. `--before` names a page
written earlier, whose last column is printed beside. `--build` also builds the wheel of the committed state (minutes).
`--places` only prints the lines of source behind the counts of questions and tuples. Milliseconds and the figures of
the build depend on the machine, all others do not. `RULES` says how each figure is counted; the page repeats it. If a
tree lacks a name or a mark that a rule needs, it is refused, not counted as zero: change the constant in question.
"""

import argparse
import ast
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

import house
from sources import PROTOCOLS, STRING, THREADS, Sources, code_lines, count_constants, lookups, loop_members, places

HERE = Path(__file__).resolve().parent
SOLVES = (("prox-bcfw on chains", "chains", "prox-bcfw"), ("prox-bcfw on multiclass", "multiclass", "prox-bcfw"),
          ("bmrm on multiclass", "multiclass", "bmrm"), ("default on chains", "chains", "auto"),
          ("default on multiclass", "multiclass", "auto"), ("MulticlassSVM.fit", "fit", "auto"))
WALKS = (("bmrm on chains to Viterbi", "chains", "bmrm", "viterbi"),
         ("auto on multiclass to the first block pass", "multiclass", "auto", "pass"))
RULES = """\
* *A solve*: `minimize` on 200 made-up examples with lam = 20; the risk is built before and does not count.
    * Python files count if one of their functions ran.
    * Compiled files (.pyx) count if Python called one of their functions, methods or classes. Files that these cimport
      count, too, and so on: which of those ran cannot be seen from outside.
    * "with headers" adds their .pxd, the .pxd that they cimport, and the .h that these include. All lines count.
* *Code*: lines that are neither blank nor a comment nor a docstring.
* *Classes*: `class` and `cdef class`, nested ones included.
* *Constants*: module-level names of numbers: in Python, `cdef`, enums (with a value written out) and `#define`.
* *Thread protocols*: those of the list PROTOCOLS that the sources contain. A new one must join the list; files that
  start threads or use atomic operations, in the next row, show where to look.
* *Members of the loop*: attributes of `loop` in `policies.py`. "in all" also counts attributes of these: `loop.a.b`.
* *Walks* end at the first call from Python into a compiled file of chains, or of a compiled function `visit`. They
  count Python files with a function that ran, frames of the package on the stack there, and the most there were on the
  way. Compiled frames do not count.
* *Lookups*: calls of `hasattr` and `getattr` in Python files of `solvers`. A lookup is on a risk or an oracle if the
  last name of its first argument is risk, oracle, exact, working or home.
* *Places for a method*: files of the package, README.md and docs/methods.rst that name a method by its class or by its
  name in quotes; the median of four methods.
* *Methods of a class* of solvers: functions in its body, properties included; with inherited ones, those of its bases
  in the package, too, each name once. *Members of a risk*: public names in the body of `RiskBase`.
* *Questions* about the form of the objective: lines of Python files of `solvers` with `isinstance` of a class that
  derives from Objective, Problem, Regulariser or Penalty; with `getattr` or `hasattr` of one of these; that read
  `nonneg`, `is_penalised`, `is_separable`, `is_square`, `is_of_norm` or `is_linear`; or that compare `radius`,
  `entries`, `even`, `square` or `ball` of an object with another value, or take it as a condition.
* *Planes as tuples*: lines of `bundle`, `mkl`, `runtime` and `solvers` where an offset and a slope stand side by side
  in an assignment, a return, a call that does not make a `Plane`, or a signature; or where `plane`, `aggregate`,
  `newest` or `proven` is indexed.
* *By hand*: files of `solvers` that read `record`, the evidence of a run; files that use the class of limits of free
  weights, beside its own; definitions of `__getstate__`, `__setstate__`, `__reduce__`, `check_state`, `adopt`,
  `from_state`, `terms_of` and `serialised` in the package, which pickles of estimators need, too.
* *Inner floors*: rooms are folders and files of `solvers`. The fewest arrows run up whose removal leaves no circle, one
  of each two rooms that import each other among them; floors are the longest way down along the others, at the least.
* *Places for a penalty or a structure*: Python files of the package that name one by its class beside its own file or
  folder, but not of `estimators` and `cli`; medians of four penalties and five structures.
* *Calls*: function calls that cProfile counts in one `minimize` of BinaryHinge on 200 made-up rows of 10 columns with
  lam = 1, after others of the same kind; milliseconds without the count, least of 50.
* *Circles*: groups of files that import or cimport each other; imports inside functions count, names that an
  `__init__` passes on lead to it, and a .pyx and its .pxd are one file.
"""


def probe(tree, name, method, mark=""):
    """What `executed.py` prints about a solve; a walk that never arrives at its mark is refused."""
    env = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, HERE / "executed.py", name, method, mark], env=env, check=True,
                          stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)
    if mark and found["reached"] is None:
        raise SystemExit(f"{method} on {name} never arrives at {mark!r}; change MARKS in executed.py")
    return found


def build_wheel(tree):
    """Processor seconds of a wheel of the committed state, its MB, and its MB when stripped."""
    with tempfile.TemporaryDirectory() as folder:
        source, wheels = Path(folder, "source"), Path(folder, "wheels")
        source.mkdir()
        archive = subprocess.run(["git", "-C", tree, "archive", "HEAD"], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", source], input=archive, check=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", wheels,
                        source], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        wheel, = wheels.iterdir()
        zipfile.ZipFile(wheel).extractall(Path(folder, "content"))
        with zipfile.ZipFile(Path(folder, "stripped.zip"), "w", zipfile.ZIP_DEFLATED) as stripped:
            for path in filter(Path.is_file, Path(folder, "content").rglob("*")):
                if path.suffix == ".so":
                    subprocess.run(["strip", path], check=True)
                stripped.write(path)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return f"{seconds:.0f}", *(f"{path.stat().st_size / 1e6:.1f}" for path in (wheel, Path(stripped.filename)))


def measure(tree, with_build):
    """Rows of the table, name to figure, and what stands behind some of them."""
    sources, rows, notes = Sources(tree), {}, {}
    texts = sources.texts
    for words, name, method in SOLVES:
        found = probe(tree, name, method)
        stems = [module.removeprefix("pybundle.").replace(".", "/") for module in found["modules"]]
        files = set(found["files"]) | sources.compiled_closure(stems)
        running = [path for path in files if path.endswith((".py", ".pyx"))]
        rows[f"{words}: files; lines; with headers: files; lines"] = "; ".join(
            f"{len(paths)}; {sum(len(texts[path].splitlines()) for path in paths)}" for paths in (running, files))
        notes[words] = " ".join(sorted(files))
    rows["package: files; lines"] = f"{len(texts)}; {sum(len(text.splitlines()) for text in texts.values())}"
    rows["package: lines of code"] = str(sum(code_lines(*item) for item in texts.items()))
    rows["classes"] = str(sum(isinstance(node, ast.ClassDef) for t in sources.python().values() for node in ast.walk(t))
                          + sum(len(re.findall(r"(?m)^[ ]*(?:cdef )?class \w", re.sub(STRING, "", text)))
                                for path, text in texts.items() if path.endswith(".pyx")))
    kept = {name: [path for path, text in texts.items() if re.search(pattern, text, re.M)]
            for name, pattern in PROTOCOLS.items()}
    threads = [path for path, text in texts.items() if not path.endswith(".h") and THREADS.search(text)]
    rows["thread protocols"] = str(sum(map(bool, kept.values())))
    rows["files that start threads or use atomic operations"] = str(len(threads))
    notes["thread protocols"] = ", ".join(name for name, paths in kept.items() if paths)
    notes["threads and atomic operations"] = " ".join(threads)
    direct, chains = loop_members(sources)
    rows["members of the loop that policies reach: direct; in all"] = f"{len(direct)}; {len(chains)}"
    rows["numeric module constants"] = str(sum(count_constants(*item) for item in texts.items()))
    for words, *walk in WALKS:
        rows[f"{words}: Python files; depth; most on the way"] = "{}; {}; {}".format(*probe(tree, *walk)["reached"])
    asked, looked = lookups(sources)
    rows["lookups in solvers: on risks and oracles; in all"] = f"{len(asked)}; {len(looked)}"
    counts = places(sources)
    rows["places for a method"] = f"{statistics.median(counts.values()):g}"
    notes["places for a method"] = ", ".join(f"{name} {count}" for name, count in counts.items())
    up = [words for path, text in texts.items() for words in sources.layering.violations(path, text)]
    circles = sources.circles()
    rows["arrows between rooms that run up; circles between files"] = f"{len(up)}; {len(circles)}"
    notes["circles"] = "; ".join(" ".join(members) for members in circles) or "none"
    rows |= measure_house(tree, sources, notes)
    if with_build:
        rows["build: processor seconds; MB; MB stripped"] = "; ".join(build_wheel(tree))
    return rows, notes


def measure_house(tree, sources, notes):
    """Rows of the house: classes, questions, tuples, hooks, inner floors, places of an own piece, calls."""
    (own, n_own), (whole, n_whole) = house.largest_classes(sources)
    asked, planes = list(house.questions(sources)), list(house.bare_planes(sources))
    files = sorted({place.split(":")[0] for place, _ in planes})
    evidence, limits, hooks = house.by_hand(sources)
    n_rooms, n_arrows, up, floors = house.inner_floors(sources)
    pieces, done = house.own_places(sources), probe(tree, "calls", "auto")
    notes |= {
        "largest solver class": f"{own}; with inherited methods {whole}",
        "questions": counted(place.split(":")[0] for place, _ in asked),
        "planes as tuples": counted(place.split(":")[0] for place, _ in planes),
        "evidence by hand": " ".join(evidence), "limits by hand": " ".join(limits),
        "hooks": counted(hook.split(": ")[1] for hook in hooks),
        "arrows up inside solvers": ", ".join(f"{a} -> {b}" for a, b in up) or "none"}
    notes |= {f"places for {kind}": ", ".join(f"{name} {count}" for name, count in counts.items())
              for kind, (_, counts) in pieces.items()}
    return {
        "largest solver class: methods; with inherited": f"{n_own}; {n_whole}",
        "members that solvers may ask of a risk": str(len(house.asked_members(sources))),
        "questions about the form of the objective": str(len(asked)),
        "planes as tuples: files; lines": f"{len(files)}; {len(planes)}",
        "by hand: files with evidence; with limits; hooks; those of solvers": "; ".join(map(str, (
            len(evidence), len(limits), len(hooks), sum(hook.startswith("solvers/") for hook in hooks)))),
        "places for a penalty; a structure": "; ".join(f"{median:g}" for median, _ in pieces.values()),
        "inside solvers: rooms; arrows; arrows up; floors": f"{n_rooms}; {n_arrows}; {len(up)}; {floors}",
        "one minimize on 200 x 10: calls; milliseconds": f"{done['calls']}; {done['milliseconds']:.1f}"}


def counted(names):
    """How often each name occurs, in words."""
    return ", ".join(f"{name} {count}" for name, count in Counter(names).most_common()) or "none"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, default=HERE.parents[1], help="a built checkout")
    parser.add_argument("--before", type=Path, help="a page written before")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "structure.md")
    parser.add_argument("--build", action="store_true", help="build the wheel, too")
    parser.add_argument("--places", action="store_true", help="only print questions and tuples with their lines")
    args = parser.parse_args()
    if args.places:
        sources = Sources(args.tree.resolve())
        for title, found in (("Questions", house.questions(sources)), ("Tuples", house.bare_planes(sources))):
            print(title, *(f"    {place}: {line}" for place, line in found), sep="\n")
        return
    old, commit = {}, subprocess.run(["git", "-C", args.tree, "describe", "--always", "--dirty", "--exclude=*"],
                                     capture_output=True, text=True).stdout.strip() or "unknown"
    for line in args.before.read_text(encoding="utf-8").splitlines() if args.before else ():
        if line.startswith("| ") and line.count("|") > 2:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            old[cells[0]] = cells[-1]
    rows, notes = measure(args.tree.resolve(), args.build)
    heads = ("what", *([old["what"]] if old else []), commit)
    table = [heads, ["---"] * len(heads), *((name, *([old.get(name, "-")] if old else []), figure)
                                            for name, figure in rows.items())]
    page = ["# Structure\n\nWritten by `asv_benchmarks/structure/report.py`; a column is a commit.\n",
            *(f"| {' | '.join(row)} |" for row in table), "\n## Rules\n", RULES, "## Behind the figures\n",
            *(f"* *{name}*: {words}" for name, words in notes.items())]
    args.out.write_text("\n".join(page) + "\n", encoding="utf-8")
    print("\n".join(page[:len(table) + 1]))


if __name__ == "__main__":
    main()
