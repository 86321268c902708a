"""What a solve executes; runs in a process of its own, in which the measured tree is imported: see `report.py`.

    PYTHONPATH=<tree> python executed.py (chains | multiclass) <method> [viterbi | pass]
    PYTHONPATH=<tree> python executed.py fit
    PYTHONPATH=<tree> python executed.py calls

Prints JSON: Python files with a function that ran, compiled modules that were called, and for a mark the number of
those files, the frames of the package on the stack there, and the most frames there were before. `fit` is
`MulticlassSVM().fit`. `calls` counts function calls of one small `minimize`, and the least milliseconds of 50.
"""

import cProfile
import ctypes
import dis
import gc
import json
import os
import pstats
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import pybundle as pb

COMPILED = ("cython_function_or_method", "fused_cython_function")
MARKS = {"viterbi": lambda module, function: "chain" in module, "pass": lambda module, function: function == "visit",
         "": lambda module, function: False}
ROOT = str(Path(pb.__file__).parent) + os.sep


def make_solve(name, method):
    """A solve of 200 made-up examples, whose risk is built before: "chains", "multiclass" or "fit"."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((6, 4))
    if name == "chains":
        X = [rng.standard_normal((n, 6)) for n in rng.integers(3, 9, 200)]
        Y = [np.argmax(x @ W + rng.standard_normal((len(x), 4)), axis=1) for x in X]
        risk = pb.risks.Structured(pb.models.Chain(4, 6), X, Y)
    else:
        X = rng.standard_normal((200, 6))
        y = np.argmax(X @ W + rng.standard_normal((200, 4)), axis=1)
        if name == "fit":
            return lambda: pb.estimators.MulticlassSVM().fit(X, y)
        risk = pb.risks.MulticlassHinge(X, y)
    return lambda: pb.minimize(risk, lam=20.0, method=method)


def count_calls():
    """Function calls of one `minimize` of a hinge of 200 x 10 with lam = 1, and milliseconds without the count."""
    rng, seconds = np.random.default_rng(0), []
    X = rng.standard_normal((200, 10))
    y = np.where(X[:, 0] + rng.standard_normal(200) > 0.0, 1.0, -1.0)
    for _ in range(50):
        risk = pb.risks.BinaryHinge(X, y)
        began = time.perf_counter()
        pb.minimize(risk, lam=1.0)
        seconds.append(time.perf_counter() - began)
    risk, profile = pb.risks.BinaryHinge(X, y), cProfile.Profile()
    profile.runcall(pb.minimize, risk, lam=1.0)
    print(json.dumps({"calls": pstats.Stats(profile).total_calls, "milliseconds": 1e3 * min(seconds)}))


def watch_compiled(tell):
    """Calls `tell(module, name)` before each function or method of a compiled module that is called from Python."""
    def watched(function, module, name):
        def call(*args, **kwargs):
            tell(module, name)
            return function(*args, **kwargs)
        return call

    for module_name, module in [item for item in sys.modules.items() if item[0].split(".")[0] == "pybundle"]:
        for name, value in list(vars(module).items()):
            if type(value).__name__ in COMPILED:
                setattr(module, name, watched(value, value.__module__, name))
            elif isinstance(value, type) and value.__module__ == module_name and not module.__file__.endswith(".py"):
                members = gc.get_referents(value.__dict__)[0]       # classes of Cython refuse setattr
                for key in [key for key, member in members.items() if type(member).__name__ in COMPILED]:
                    members[key] = watched(members[key], module_name, key)
                ctypes.pythonapi.PyType_Modified(ctypes.py_object(value))


def is_ours(frame):
    """Does a frame belong to a function of the package?"""
    return frame.f_code.co_filename.startswith(ROOT) and frame.f_code.co_name != "<module>"


class Recorder:
    """Records what runs: instructions of Python by their code, compiled modules, and the walk to a mark."""

    def __init__(self, mark):
        self.steps, self.modules, self.reached = {}, set(), None
        self._is_there, self._deepest = MARKS[mark], 0

    def tell(self, module, function):
        """A compiled function is about to be called from Python."""
        self.modules.add(module)
        if self.reached is None and self._is_there(module, function):
            self.reached = len(self.files()), depth(sys._getframe()), self._deepest

    def trace(self, frame, event, _):
        """For `sys.settrace`."""
        if not is_ours(frame):
            return None
        frame.f_trace_opcodes = True
        if event == "call":
            self._deepest = max(self._deepest, depth(frame))
        self.steps.setdefault(frame.f_code, (frame.f_globals, set()))[1].add(frame.f_lasti)
        return self.trace

    def files(self):
        return sorted({code.co_filename.removeprefix(ROOT) for code in self.steps})

    def called_classes(self):
        """Compiled modules of classes that were called, whose constructors cannot be watched."""
        for code, (names, seen) in self.steps.items():
            for step in dis.get_instructions(code):
                if step.offset in seen and step.opname == "LOAD_GLOBAL" and step.arg & 1:       # what is called next
                    value = names.get(step.argval)
                    module = sys.modules.get(value.__module__) if isinstance(value, type) else None
                    if module and module.__name__.startswith("pybundle.") and not module.__file__.endswith(".py"):
                        yield module.__name__


def depth(frame):
    """Frames of functions of the package on the stack."""
    count = 0
    while frame is not None:
        count, frame = count + is_ours(frame), frame.f_back
    return count


def main(name, method="auto", mark=""):
    warnings.simplefilter("ignore")
    if name == "calls":
        return count_calls()
    solve, recorder = make_solve(name, method), Recorder(mark)
    make_solve(name, method)()       # imports all that is imported late: else not watched
    watch_compiled(recorder.tell)
    sys.settrace(recorder.trace)
    solve()
    sys.settrace(None)
    modules = recorder.modules | set(recorder.called_classes())
    print(json.dumps({"files": recorder.files(), "modules": sorted(modules), "reached": recorder.reached}))


if __name__ == "__main__":
    main(*sys.argv[1:])
