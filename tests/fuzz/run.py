"""Calls of everything public with arguments that are wrong in one to three places.

    python tests/fuzz/run.py [--calls 400] [--seed 0] [--only solvers.] [--log calls.txt]

Each call must return, or raise an exception of the package or a TypeError: anything else is printed with the call, as
is a call that takes longer than --patience. The exit status is 1 then. A crash ends the process; the last line of the
log is what it was about. Methods that no page of the API lists may also raise ValueError and its like, and estimators
what scikit-learn raises.
"""

import argparse
import collections
import contextlib
import faulthandler
import functools
import importlib
import inspect
import io
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from mutations import anything, mutate
from recipes import OBJECTS, RECIPES, proven, surface, target

import pybundle as pb

EXPECTED = (pb.BundleError, TypeError)
WORK = {"max_iter", "max_sentences", "max_steps", "mean_length", "n", "n_columns", "n_epochs", "n_sentences",
        "n_sweeps", "patience", "sweeps"}
"""Amounts of work: a huge one takes long, which is no mistake of anybody."""
INSIDE = (*EXPECTED, ValueError, LookupError, AttributeError, ArithmeticError, RuntimeError, MemoryError, BufferError)


def parameters(function, given):
    """Names that may be mutated: those of the recipe, and the optional ones."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return list(given)
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [*given, *(p.name for p in found if p.kind in kinds and p.name not in given and p.name not in (
        "self", "executor", "verbose"))]


def shown(value):
    if isinstance(value, np.ndarray):
        return f"array{value.shape}:{value.dtype}={value.ravel()[:6].tolist()!r:.90}"
    try:
        return f"{value!r:.120}".replace("\n", " ")
    except AttributeError:          # a sparse matrix that is none any more
        return type(value).__name__


@functools.cache
def documented():
    """Names that the pages of the API list: functions, classes, `class.method`, and `class.*`."""
    found, pattern = set(), re.compile(r"^\.\. auto\w+:: pybundle\.(\S+)\n(?:   :members:(.*)\n)?", re.M)
    for page in (Path(__file__).parents[2] / "docs" / "api").glob("*.rst"):
        for name, members in (match.groups() for match in pattern.finditer(page.read_text(encoding="utf-8"))):
            methods = [] if members is None else members.split(",")
            found |= {name, *(f"{name}.{method.strip() or '*'}" for method in methods)}
    return found


def allowed(name):
    """Exceptions that a call may end with."""
    owner, _, method = name.rpartition(".")
    if re.match("read_|load|save", method):
        return (*EXPECTED, OSError)                         # of the file system
    if name.startswith("estimators."):
        return (*EXPECTED, ValueError, AttributeError)      # of scikit-learn: its checks, methods that are not on offer
    if owner in OBJECTS or ("." in owner and not is_documented(owner, method)):
        return INSIDE
    return EXPECTED


def is_documented(owner, method):
    folder, _, name = owner.rpartition(".")
    for base in getattr(importlib.import_module(f"pybundle.{folder}"), name).__mro__:
        name = f"{folder}.{base.__name__}"
        if f"{name}.{method}" in documented() or (f"{name}.*" in documented() and method in vars(base)):
            return True
    return folder == "bundle" or method in ("evaluate", "planes", "values")


class Fuzz:
    """Calls, counted by what came of them."""

    def __init__(self, names, patience, log):
        self.names, self.patience, self.log = names, patience, log
        self.outcomes, self.failures = collections.Counter(), []

    def check_recipes(self):
        """Every recipe unmutated: it must work."""
        for name in self.names:
            self.note(f"{name}, as it should be")
            r = np.random.default_rng(1)
            try:
                target(name, r)(**RECIPES[name](r))
            except Exception as problem:
                self.fail(name, {}, problem)

    def call(self, name, r):
        function, given = target(name, r), RECIPES[name](r)
        names = parameters(function, given)
        changed = {}
        if names:
            for key in r.choice(names, size=min(len(names), int(r.integers(1, 4))), replace=False):
                changed[str(key)] = mutate(given[key], r) if key in given else anything(r)
                odd = changed[key]
                if name.rpartition(".")[0] in OBJECTS and isinstance(odd, np.ndarray) and not odd.flags.aligned:
                    changed[key] = odd.copy()       # the public border sees to it that arrays are aligned
                if key in WORK and isinstance(changed[key], int) and changed[key] > 1000:
                    changed[key] = -changed[key]
        if "time_limit" in given and "time_limit" in changed:
            given["max_iter"] = 3               # some end is left to the run
            changed.pop("max_iter", None)
        text = f"{name}({', '.join(f'{key}={shown(value)}' for key, value in changed.items())})"
        self.note(text)
        faulthandler.dump_traceback_later(self.patience, exit=True)
        try:
            function(**{**given, **changed})
        except allowed(name) as problem:
            self.outcomes[type(problem).__name__] += 1
        except Exception as problem:
            self.outcomes["failures"] += 1
            self.fail(text, changed, problem)
        else:
            self.outcomes["returned"] += 1
        finally:
            faulthandler.cancel_dump_traceback_later()

    def fail(self, text, changed, problem):
        last = problem.__traceback__
        while last.tb_next:
            last = last.tb_next
        where = f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"
        self.failures.append(f"{text}\n    {type(problem).__name__}: {problem!s:.200} [{where}]")
        print(self.failures[-1], file=sys.stderr, flush=True)

    def note(self, text):
        if self.log is not None:
            self.log.seek(0)
            self.log.truncate()
            self.log.write(text)
            self.log.flush()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="names that begin so")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds for a call")
    parser.add_argument("--log", help="file that holds the call in progress")
    options = parser.parse_args(arguments)
    log = None if options.log is None else open(options.log, "w", encoding="utf-8")
    missing = sorted(set(surface()) - set(RECIPES))
    if missing:
        print("these have no recipe:", *missing, sep="\n    ")
        return 1
    known = set(surface())
    names = sorted(name for name in RECIPES if name.startswith(options.only) and (
        name in known or name.rpartition(".")[0] in OBJECTS))
    faulthandler.enable()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    fuzz, r = Fuzz(names, options.patience, log), np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        with contextlib.redirect_stdout(io.StringIO()):
            proven()
            np.savez("arrays.npz", X=np.eye(3), y=np.arange(3))
            pb.MulticlassSVM(max_iter=5).fit(np.eye(3), [0, 1, 2]).save("model.npz")
            fuzz.check_recipes()
            for _ in range(options.calls if not fuzz.failures else 0):
                fuzz.call(names[r.integers(len(names))], r)
    print(f"{len(names)} callables, {options.calls} calls:", dict(fuzz.outcomes.most_common()))
    return bool(fuzz.failures)


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    sys.exit(main())
