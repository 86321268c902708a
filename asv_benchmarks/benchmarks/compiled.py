"""What a call of a compiled function costs beside the function itself, which does nothing here."""

import ctypes
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
from scipy import LowLevelCallable

import pybundle as pb

SOURCE = """
#include <stdint.h>
int risk(const double *w, int64_t dim, int64_t part, double *value, double *slope, void *data) {
    *value = 0.0;
    return 0;
}
int solve(const double *w, int64_t dim, int64_t i, int32_t *labelling, double *value, double *upper, void *data) {
    *value = 0.0;
    return 0;
}
int plane(int64_t i, const int32_t *labelling, double *loss, int64_t *n, int32_t *index, double *value, void *data) {
    *loss = *n = 0;
    return 0;
}
"""
NUMBERS, INTEGERS, COUNTS = (ctypes.POINTER(kind) for kind in (ctypes.c_double, ctypes.c_int32, ctypes.c_int64))
LONG, DATA = ctypes.c_int64, ctypes.c_void_p
SIGNATURES = {"risk": [NUMBERS, LONG, LONG, NUMBERS, NUMBERS, DATA],
              "solve": [NUMBERS, LONG, LONG, INTEGERS, NUMBERS, NUMBERS, DATA],
              "plane": [LONG, INTEGERS, NUMBERS, COUNTS, INTEGERS, NUMBERS, DATA]}


def functions():
    """Capsules of the three functions above; asv leaves the suite out where there is no C compiler."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    if shutil.which(compiler[0]) is None:
        raise NotImplementedError("no C compiler")
    folder = Path(tempfile.mkdtemp())
    (folder / "nothing.c").write_text(SOURCE)
    subprocess.run([*compiler, "-O2", "-shared", "-fPIC", "nothing.c", "-o", "nothing.so"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "nothing.so"))
    shutil.rmtree(folder)
    found = {}
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, ctypes.c_int
        found[name] = LowLevelCallable(function)
    return found


class Risk:
    """Time by n_parts is the cost of a call; that of one part is the cost of an evaluation."""

    params = ((1, 1000), ("compiled", "python"))
    param_names = ("n_parts", "kind")

    def setup(self, n_parts, kind):
        answer = np.zeros(n_parts), np.zeros((n_parts, 10))
        fun = functions()["risk"] if kind == "compiled" else lambda w: answer
        self.risk, self.w = pb.risks.Function(fun, 10, n_parts), np.zeros(10)

    def time_evaluate(self, n_parts, kind):
        self.risk.evaluate(self.w)


class Examples:
    """Time by 1000 is the cost of a call."""

    def setup(self):
        found = functions()
        self.oracle = pb.risks.ExampleFunctions(found["solve"], found["plane"], 1000, 10).oracle()
        self.rows, self.w, self.labellings = np.arange(1000), np.zeros(10), np.zeros((1000, 1), dtype=np.int32)

    def time_solve_batch(self):
        self.oracle.solve_batch(self.rows, self.w)

    def time_planes(self):
        self.oracle.planes(self.rows, self.labellings)
