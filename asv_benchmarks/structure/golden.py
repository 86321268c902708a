"""Record what runs return, and compare it with a record made earlier: a rewriting must change none of it unnamed.

    python asv_benchmarks/structure/golden.py --out FILE [--before FILE] [--only WORD]

Runs the cases of `tests/test_checkpoint.py`, and the methods of `reproduce/race.py` on its made problem and on the
digits of scikit-learn; with PYBUNDLE_DATA also on its real data. Runs end after a number of iterations, never by the
clock. Takes about a minute of one core, two more with data.

Of each run the file holds *counts* (iterations, passes, planes, status) and *bits* (hashes of x and of the history,
values as hexadecimal floats). Counts are those of any machine as a rule, bits only of one processor with one NumPy and
SciPy: they are compared if `machine` is equal. `--before` prints each difference by name and exits with 1 if there is
one. The file belongs to a machine and is not committed.
"""

import argparse
import functools
import hashlib
import json
import os
import platform
import re
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "asv_benchmarks" / "reproduce")]

import race  # sets threads: before NumPy

# isort: split
import numpy as np
import scipy
import test_checkpoint as resume

import pybundle as pb

COUNTS = ("nit", "n_passes", "n_cached_passes", "n_planes", "max_planes")
VALUES = ("fun", "lower_bound", "gap")
COLUMNS = ("n_passes", "primal", "best_primal", "lower_bound", "gap")
MADE = {"digits": (10.0, 60), "classes": (30.0, 3)}         # lam, iterations
REAL = {"usps": (1.0, 60), "ocr": (6.251, 5), "news20": (10.0, 6), "mnist": (1000.0, 6)}
LARGE = ("news20", "mnist")                                 # of which only `race.RIVALS` run


def digits():
    """The digits of scikit-learn, as race.py makes its problems."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return race.multiclass((X / 16.0).astype(np.float32), y)


def short(value):
    """The beginning and the end of the text of an option."""
    text = re.sub(r"[\s.]+", " ", str(value))
    return text if len(text) < 200 else f"{text[:40]} .. {text[-40:]}"


@functools.cache
def made(name):
    """A risk by its name."""
    return (digits if name == "digits" else getattr(race, name))()[0]


def jobs():
    """(name, function that solves) of all runs that can run here."""
    for method, name, options in resume.CASES:
        words = [f"{key}={short(value)}" for key, value in options.items()]
        yield f"resume: {', '.join([f'{method} on {name}', *words])}", functools.partial(
            resume.solve, method, name, options)
    for name, (lam, most) in (MADE | (REAL if os.environ.get("PYBUNDLE_DATA") else {})).items():
        for method in race.RIVALS if name in LARGE else race.METHODS:
            yield f"race: {method} on {name}", lambda name=name, lam=lam, options={"max_iter": most} | race.METHODS[
                method]: race.run(made(name), lam, None, **options)


def told(result):
    """Counts and bits of a result."""
    counts = {name: getattr(result, name) for name in COUNTS} | {"status": str(result.status), "to gaps": [
        race.first_at(result.history, gap)[0] for gap in race.GAPS]}
    bits = {name: float(getattr(result, name)).hex() for name in VALUES} | {"message": result.message}
    arrays = {"x": result.x} | {f"history of {name}": result.history[name] for name in COLUMNS}
    bits |= {name: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
             for name, array in arrays.items()}
    return json.loads(json.dumps({"counts": counts, "bits": bits}, default=float))


def machine():
    """Whose bits these are."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else [platform.processor()]
    return f"{names[0]}; Python {platform.python_version()}; NumPy {np.__version__}; SciPy {scipy.__version__}"


def differences(old, new, only):
    """One sentence for each figure that differs, and for each run that is in one record only."""
    kinds = ("counts", "bits") if old["machine"] == new["machine"] else ("counts",)
    for name in sorted({name for name in {**old["runs"], **new["runs"]} if only in name}):
        before, now = old["runs"].get(name), new["runs"].get(name)
        if not before or not now:
            yield f"{name}: only in the {'new' if now else 'old'} record"
            continue
        for kind in kinds:
            for key in before[kind] | now[kind]:
                if before[kind].get(key) != now[kind].get(key):
                    yield f"{name}: {key} was {before[kind].get(key)}, is {now[kind].get(key)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where to write the record")
    parser.add_argument("--before", type=Path, help="a record to compare with")
    parser.add_argument("--only", default="", metavar="WORD", help="runs whose names contain it")
    args = parser.parse_args()
    warnings.simplefilter("ignore", pb.ConvergenceWarning)
    chosen = [(name, run) for name, run in jobs() if args.only in name]
    if len(dict(chosen)) < len(chosen):
        raise SystemExit("two runs have one name; let `short` tell more")
    new = {"machine": machine(), "runs": {name: told(run()) for name, run in chosen}}
    print(f"{len(chosen)} runs")
    if args.out:
        args.out.write_text(json.dumps(new, indent=1) + "\n", encoding="utf-8")
    if args.before:
        old = json.loads(args.before.read_text(encoding="utf-8"))
        if old["machine"] != new["machine"]:
            print(f"bits are not compared: they are of {old['machine']}, here is {new['machine']}")
        found = list(differences(old, new, args.only))
        print(*found, f"{len(found)} differences", sep="\n")
        sys.exit(bool(found))


if __name__ == "__main__":
    main()
