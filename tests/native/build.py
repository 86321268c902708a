"""Compiles the C sources of this folder, and hands their functions out as SciPy wants them."""

import ctypes
import functools
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
import pytest
from scipy import LowLevelCallable

import pybundle as pb

NUMBERS, INTEGERS = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32)
COUNTS, LONG = ctypes.POINTER(ctypes.c_int64), ctypes.c_int64
SIGNATURES = {
    "risk": [NUMBERS, LONG, LONG, NUMBERS, NUMBERS, ctypes.c_void_p],
    "solve": [NUMBERS, LONG, LONG, INTEGERS, NUMBERS, NUMBERS, ctypes.c_void_p],
    "plane": [LONG, INTEGERS, NUMBERS, COUNTS, INTEGERS, NUMBERS, ctypes.c_void_p],
}


@functools.cache
def library(name):
    """The shared library of a source; a test that needs one is skipped without a C compiler."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"no C compiler {compiler[0]}")
    built = Path(tempfile.mkdtemp()) / f"{name}.so"
    source = Path(__file__).with_name(f"{name}.c")
    subprocess.run([*compiler, "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror",
                    f"-I{pb.get_include()}", str(source), "-o", str(built), "-lm"], check=True)
    found = ctypes.CDLL(str(built))
    for function, arguments in SIGNATURES.items():
        getattr(found, function).argtypes, getattr(found, function).restype = arguments, ctypes.c_int
    return found


class Data(ctypes.Structure):
    """What the functions of multiclass.c read; keeps its arrays alive."""

    _fields_ = [("n", LONG), ("d", LONG), ("K", LONG), ("P", LONG), ("X", ctypes.c_void_p), ("y", ctypes.c_void_p),
                ("bad_example", LONG), ("mistake", LONG)]

    def __init__(self, X, y, K, P, bad_example=-1, mistake=0):
        self.arrays = np.ascontiguousarray(X, dtype=np.float64), np.ascontiguousarray(y, dtype=np.int32)
        super().__init__(*X.shape, K, P, *(array.ctypes.data for array in self.arrays), bad_example, mistake)

    def callable(self, name):
        """A function of multiclass.c with these data."""
        pointer = ctypes.cast(ctypes.pointer(self), ctypes.c_void_p)
        return LowLevelCallable(getattr(library("multiclass"), name), pointer)

    def risk(self):
        return pb.risks.Function(self.callable("risk"), self.K * self.d, self.P, lower_bounds=0.0)

    def examples(self, **options):
        return pb.risks.ExampleFunctions(self.callable("solve"), self.callable("plane"), self.n, self.K * self.d,
                                         **{"max_entries": 2 * self.d, **options})


def sample(n=60, d=4, K=3, P=4, seed=0, **mistake):
    """A small problem with overlapping classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, size=n)
    return Data(rng.normal(size=(n, d)) + np.eye(K, d)[y], y, K, P, **mistake)
