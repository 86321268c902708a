"""pybundle.h in ctypes: its structs, and `Solver`, which drives a solver through the table of functions."""

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p

import numpy as np

from pybundle.capi import _C_API

INTEGERS = {"groups", "row_columns"}
LONGS = {"row_starts"}


class Struct(ctypes.Structure):
    """A struct of pybundle.h: arrays may be set as anything that NumPy takes, texts as str."""

    def __init__(self, **fields):
        super().__init__(ctypes.sizeof(type(self)))
        self.kept = []
        for name, value in fields.items():
            self.put(name, value)

    def put(self, name, value):
        kind = dict(self._fields_)[name]
        if kind is c_void_p and not isinstance(value, (int, type(None))):
            array = np.ascontiguousarray(
                value, dtype=np.int32 if name in INTEGERS else np.int64 if name in LONGS else float)
            self.kept.append(array)
            value = array.ctypes.data
        setattr(self, name, value.encode() if isinstance(value, str) else value)


class Problem(Struct):
    _fields_ = [("size", c_size_t), ("dim", c_int64), ("n_parts", c_int64), ("risk", c_void_p),
                ("lower_bounds", c_void_p), ("n_examples", c_int64), ("label_size", c_int64),
                ("max_entries", c_int64), ("solve", c_void_p), ("plane", c_void_p), ("sample_weight", c_void_p),
                ("user_data", c_void_p), ("smooth", c_int32)]


LOG = CFUNCTYPE(None, c_char_p, c_void_p)


class Settings(Struct):
    _fields_ = [("size", c_size_t), ("method", c_char_p), ("lam", c_double), ("lams", c_void_p), ("l1", c_double),
                ("n_groups", c_int64), ("groups", c_void_p), ("group_rates", c_void_p), ("lower", c_void_p),
                ("upper", c_void_p), ("radius", c_double), ("n_rows", c_int64), ("row_starts", c_void_p),
                ("row_columns", c_void_p), ("row_values", c_void_p), ("row_lower", c_void_p), ("row_upper", c_void_p),
                ("tol", c_double), ("atol", c_double), ("time_limit", c_double), ("max_iter", c_int64),
                ("memory_limit", c_int64), ("n_jobs", c_int64), ("random_state", c_int64), ("is_mean", c_int32),
                ("verbose", c_int32), ("log", LOG), ("log_data", c_void_p), ("checkpoint", c_char_p),
                ("checkpoint_every", c_double), ("evidence", c_int32)]


class Result(Struct):
    _fields_ = [("size", c_size_t), ("status", c_int32), ("certified", c_int32), ("fun", c_double),
                ("lower_bound", c_double), ("gap", c_double), ("n_iter", c_int64), ("n_passes", c_double),
                ("n_planes", c_int64), ("seconds", c_double)]


SOLVER = c_void_p


class Api(ctypes.Structure):
    _fields_ = [("abi", c_int32), ("size", c_size_t), ("settings", CFUNCTYPE(None, POINTER(Settings))),
                ("init", CFUNCTYPE(c_int, POINTER(Problem), POINTER(Settings), c_void_p, POINTER(SOLVER))),
                ("step", CFUNCTYPE(c_int, SOLVER)),
                ("progress", CFUNCTYPE(c_int, SOLVER, POINTER(Result), c_void_p)),
                ("history", CFUNCTYPE(c_int64, SOLVER, c_char_p, c_int64, c_void_p)),
                ("finish", CFUNCTYPE(c_int, SOLVER, POINTER(Result), c_void_p)),
                ("resume", CFUNCTYPE(c_int, SOLVER, POINTER(Settings))),
                ("start_from", CFUNCTYPE(c_int, SOLVER, SOLVER)),
                ("save_certificate", CFUNCTYPE(c_int, SOLVER, c_char_p)), ("error", CFUNCTYPE(c_char_p, SOLVER)),
                ("free", CFUNCTYPE(None, SOLVER)), ("version", c_char_p),
                ("viterbi", CFUNCTYPE(c_int, c_int64, c_int64, *[c_void_p] * 6)),
                ("forward_backward", CFUNCTYPE(c_int, c_int64, c_int64, *[c_void_p] * 8)),
                ("max_arborescence", CFUNCTYPE(c_int, c_int64, c_void_p, c_int32, c_void_p, c_void_p)),
                ("arborescence_marginals", CFUNCTYPE(c_int, c_int64, c_void_p, c_int32, c_void_p, c_void_p)),
                ("min_cut", CFUNCTYPE(c_int, c_int64, c_int64, *[c_void_p] * 7)),
                ("simplex_qp", CFUNCTYPE(c_int, c_int64, c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_double,
                                         c_void_p, c_void_p))]


def table():
    """Address of the functions of the interface."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    return pointer(_C_API, b"pybundle.capi._C_API")


API = Api.from_address(table())


def settings_with(fields):
    made = Settings()
    API.settings(made)
    for name, value in fields.items():
        made.put(name, value)
    return made


class Refused(Exception):
    """A negative code with its text."""


class Solver:
    """A `pb_solver`; every negative code raises `Refused`."""

    def __init__(self, problem, **settings):
        made = settings_with(settings)
        self.dim, self.pointer, self.kept = problem.dim, SOLVER(), (problem, made)      # functions of both
        self.check(API.init(problem, made, None, self.pointer))

    def check(self, code):
        if code < 0:
            raise Refused(f"{code}: {API.error(self.pointer).decode()}")
        return code

    def step(self):
        return self.check(API.step(self.pointer))

    def run(self):
        """Train to the end; return the result and w."""
        while self.step() == 0:
            pass
        return self.finish()

    def progress(self):
        result, w = Result(), np.zeros(self.dim)
        self.check(API.progress(self.pointer, result, w.ctypes.data))
        return result, w

    def history(self, column):
        values = np.zeros(self.check(API.history(self.pointer, column.encode(), 0, None)))
        self.check(API.history(self.pointer, column.encode(), len(values), values.ctypes.data))
        return values

    def finish(self):
        result, w = Result(), np.zeros(self.dim)
        self.check(API.finish(self.pointer, result, w.ctypes.data))
        return result, w

    def resume(self, **settings):
        self.check(API.resume(self.pointer, settings_with(settings) if settings else None))

    def start_from(self, other):
        self.check(API.start_from(self.pointer, other.pointer))

    def save_certificate(self, path):
        self.check(API.save_certificate(self.pointer, str(path).encode()))

    def error(self):
        return API.error(self.pointer).decode()

    def free(self):
        API.free(self.pointer)
        self.pointer = SOLVER()

    def __del__(self):
        self.free()


def of_risk(data, **fields):
    """The problem of multiclass.c with its function `risk`."""
    return made(data, {"risk": data.callable("risk"), "n_parts": data.P, "lower_bounds": np.zeros(data.P), **fields})


def of_examples(data, **fields):
    """The problem of multiclass.c by examples."""
    return made(data, {"solve": data.callable("solve"), "plane": data.callable("plane"), "n_examples": data.n,
                       "label_size": 1, "max_entries": 2 * data.d, **fields})


def made(data, fields):
    functions = {name: fields[name].function for name in ("risk", "solve", "plane") if name in fields}
    fields |= {name: ctypes.cast(function, c_void_p).value for name, function in functions.items()}
    problem = Problem(dim=data.K * data.d, user_data=ctypes.addressof(data), **fields)
    problem.kept += [data, functions]
    return problem
