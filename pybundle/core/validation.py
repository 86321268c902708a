"""Checks of the arguments that users pass: each error names the argument, its value, the expectation and the remedy."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

import numpy as np
import scipy.sparse as sp

from .exceptions import InputTypeError, ParameterError
from .types import Floats

INSTEAD = {"C": "lam = 1/C", "args": "bind them in fun, as by functools.partial",
           "jac": "fun returns the value and a subgradient", "x0": "did you mean w0?",
           "bounds": "did you mean penalty=pb.prox.Box(lower, upper)?",
           "radius": "did you mean penalty=pb.prox.Ball(radius)?",
           "bound": "did you mean penalty=pb.prox.Ball(radius), or pb.prox.Box(lower)?",
           "nonneg": "did you mean penalty=pb.prox.SquaredL2(lam) + pb.prox.Box(0.0)?",
           "deterministic": "leave it out; pb.methods.MPBCFW(cost='clock') measures time",
           "checkpoint_every": "did you mean checkpoint=pb.Checkpoint(path, every=seconds)?"} | {
    theirs: f"did you mean {ours}?" for theirs, ours in {
        "seed": "random_state", "timeout": "time_limit", "tolerance": "tol", "eps": "tol",
        "maxfun": "max_iter"}.items()}
"""What to use in place of arguments that other packages have."""


def check_number(name: str, value: Any, *, low: float | None = None, strict: bool = False, high: float | None = None,
                 below: float | None = None) -> float:
    """Return a finite number in `[low, high]` (`(low, high]` if `strict`) that is less than `below` as float."""
    if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, numbers.Real):
        raise InputTypeError(f"{name} must be a real number, got {value!r} of type {type(value).__name__}; "
                             f"pass a float")
    try:
        value = float(value)
    except OverflowError as problem:
        raise ParameterError(f"{name} must be a finite number, got a number beyond the range of float64") from problem
    bad = not math.isfinite(value) or (low is not None and (value <= low if strict else value < low))
    if not (bad or (high is not None and value > high) or (below is not None and value >= below)):
        return value
    wanted = "a finite number"
    if low is not None:
        wanted += f" {'>' if strict else '>='} {low:g}"
    if high is not None:
        wanted += f"{' and' if low is not None else ''} <= {high:g}"
    if below is not None:
        wanted += f"{' and' if low is not None else ''} < {below:g}"
    raise ParameterError(f"{name} must be {wanted}, got {value!r}")


def check_integer(name: str, value: Any, *, low: int | None = None, high: int | None = None) -> int:
    """Return an integer in `[low, high]` as int."""
    if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, numbers.Integral):
        raise InputTypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}")
    value = int(value)
    if low is not None and value < low:
        raise ParameterError(f"{name} must be an integer >= {low}, got {value}")
    if high is not None and value > high:
        raise ParameterError(f"{name} must be an integer <= {high}, got {value}")
    return value


def check_count(name: str, value: Any, *, low: int = 1) -> int:
    """Return a number of objects that fits into int32; this refuses a typing error before it asks for huge memory."""
    return check_integer(name, value, low=low, high=np.iinfo(np.int32).max)


def check_choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Return `value`, which must be one of the strings in `choices`."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ParameterError(f"{name} must be one of {listed}, got {value!r}")
    return value


def check_path(name: str, value: Any) -> str:
    """Return a path as str."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise InputTypeError(f"{name} must be the path of a file, got {value!r:.40} of type {type(value).__name__}")
    try:
        if b"\0" not in os.fsencode(value):
            return os.fspath(value)
    except UnicodeEncodeError:
        pass
    raise ParameterError(f"{name} must be the path of a file, got characters that no path has: {value!r:.60}")


def contiguous(array, dtype=None):
    """Return the array C-contiguous and aligned, as compiled code needs it; a view of a buffer may be neither."""
    array = np.ascontiguousarray(array, dtype=dtype)
    return array if array.flags.aligned else array.copy()


def read_only(array):
    """Return a read-only view of an array, for code of users."""
    view = array.view()
    view.setflags(write=False)
    return view


def check_vector(name: str, value: Any, size: int | None = None, *, error: Any = ParameterError) -> Floats:
    """Return a finite float64 vector, C-contiguous, of `size` entries; it is copied only if needed."""
    vector = real_numbers(f"{name} must be a vector of real numbers, got {type(value).__name__}", value)
    if vector.ndim != 1 or (size is not None and vector.shape[0] != size):
        expected = "a vector" if size is None else f"of shape ({size},)"
        raise error(f"{name} must be {expected}, got shape {vector.shape}")
    if not np.isfinite(vector).all():
        index = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise error(f"{name} must be finite, got {vector[index]} at index {index}")
    return vector


def check_shape(name, value, shape=None):
    """Return an array of float64 in C order, of this shape if one is given; it may contain NaN."""
    array = real_numbers(f"{name} must be an array of real numbers, got {type(value).__name__}", value)
    if shape is not None and array.shape != shape:
        raise ParameterError(f"{name} must have shape {shape}, got {array.shape}")
    return array


def check_finite(name, array, name_of=None):
    """Return the array, dense or CSR, if it is finite; else raise ParameterError, which names row i as `name_of(i)`."""
    numbers = array.data if sp.issparse(array) else array
    if numbers.dtype.kind != "f" or np.isfinite(numbers).all():
        return array
    place = np.argwhere(~np.isfinite(numbers))[0].tolist()
    value = numbers[tuple(place)]
    if sp.issparse(array):
        place = [int(np.searchsorted(array.indptr, place[0], side="right")) - 1, int(array.indices[place[0]])]
    where = f"{name_of(place[0])}, column {place[1]}" if name_of and len(place) == 2 else f"{name}{place}"
    raise ParameterError(f"{name} must be finite, got {value} in {where}; drop or impute it")


def check_rows(name, rows, n_examples, labellings=None):
    """Return indices of examples as a vector of intp; `labellings`, if given, must have as many entries."""
    rows = np.array(integer_array(name, rows), dtype=np.intp, order="C", copy=None)
    if rows.ndim != 1:
        raise ParameterError(f"{name} must be a vector of numbers of examples, got shape {rows.shape}")
    if len(rows) and (rows.min() < 0 or rows.max() >= n_examples):
        bad = rows[(rows < 0) | (rows >= n_examples)][0]
        raise ParameterError(f"{name} must be numbers of examples 0..{n_examples - 1}, got {bad}")
    if labellings is not None and len(labellings) != len(rows):
        raise ParameterError(f"labellings must hold one labelling for each row, {len(rows)} in all, got "
                             f"{len(labellings)}")
    return rows


def check_indices(name, value, n):
    """Return integers 0..n - 1 as a vector of intp."""
    array = integer_array(name, value)
    if array.ndim != 1 or (array.size and not 0 <= array.min() <= array.max() < n):
        raise ParameterError(f"{name} must be a vector of integers 0..{n - 1}, got {shown(array)}")
    return array.astype(np.intp, copy=False)


def shown(array):
    """Return the range of a vector of integers, or the shape of another array, for messages."""
    return f"shape {array.shape}" if array.ndim != 1 else f"numbers {array.min()}..{array.max()}"


def as_array(said, value):
    """Return `value` as an array, or raise InputTypeError that begins with `said`: its rows may differ in length."""
    try:
        return np.asarray(value)
    except ValueError as problem:
        raise InputTypeError(f"{said}: {problem}") from problem


def integer_array(name, value):
    """Return `value` as an array of integers of any size; an empty array may have any type."""
    if sp.issparse(value):
        raise InputTypeError(f"{name} must be integers in an array, got a sparse matrix; pass {name}.toarray()")
    array = as_array(f"{name} must be integers", value)
    if array.size and array.dtype.kind not in "iu":
        raise InputTypeError(f"{name} must be integers, got dtype {array.dtype}; {whole_numbers(name, array)}")
    return array if array.flags.aligned else array.copy()


def whole_numbers(name, array):
    """Return how to get integers from an array of another type: by a cast only if that cuts nothing off."""
    if array.dtype.kind not in "bf":
        return "number what they name"
    parts = array[array != np.floor(array)] if array.dtype.kind == "f" else array[:0]       # NaN is among them
    return f"round them, as {parts[0]:g} is no integer" if parts.size else f"pass {name}.astype(int)"


def bool_array(name, value, shape, remedy=""):
    """Return `value` as an array of bools of that shape."""
    array = as_array(f"{name} must be a bool array of shape {shape}", value)
    if array.dtype != np.bool_ or array.shape != shape:
        if array.dtype.kind in "iuf" and array.shape == shape and np.isin(array, (0, 1)).all():
            remedy = remedy or "0 and 1 become bools by np.equal(.., 1)"
        raise ParameterError(f"{name} must be a bool array of shape {shape}, got dtype {array.dtype} and shape "
                             f"{array.shape}" + (f"; {remedy}" if remedy else ""))
    return array


def is_scalar(value):
    """Return whether NumPy reads `value` as a number; lists of rows with different lengths are none."""
    return not isinstance(value, (list, tuple)) and np.ndim(value) == 0


def refuse_masked(name, value):
    """Raise InputTypeError for an array with masked entries, whose values are undefined."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputTypeError(f"{name} must have no masked entries, got {np.ma.count_masked(value)}; fill them, or "
                             "leave out their rows")


def real_array(value, copy=False, order="C"):
    """Return `value` as a float64 array; raise TypeError if it is ragged, complex, text, masked or out of range.

    Without these checks NumPy drops imaginary parts with a warning, reads numbers from text, and uses masked entries.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise TypeError(f"{np.ma.count_masked(value)} entries are masked; fill them, or leave them out")
    if sp.issparse(value):
        raise TypeError("a sparse matrix is no array; call its method toarray()")
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"entries of dtype {array.dtype} are not real numbers")
        if array.dtype.kind != "f":
            refuse_rounded("numbers", array)
        array = np.array(array, dtype=np.float64, order=order, copy=True if copy else None)
        return array if array.flags.aligned else array.copy()
    except (ValueError, OverflowError) as problem:
        raise TypeError(str(problem)) from problem


def check_table(name: str, value: Any, shape: Any, error: Any = ParameterError) -> Floats:
    """Return finite numbers as a float64 array of this shape, in which None stands for any size."""
    array = real_numbers(f"{name} must hold real numbers", value)
    wanted = tuple(k if size is None else size for k, size in zip(array.shape, shape, strict=False))
    if array.ndim != len(shape) or array.shape != wanted:
        raise error(f"{name} must have shape {str(shape).replace('None', 'any')}, got {array.shape}")
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0].tolist()
        raise error(f"{name} must be finite, got {array[tuple(place)]} at {place}")
    return array


def real_numbers(said, value, copy=False):
    """Return `real_array(value)`, or raise InputTypeError that begins with `said`: "w must hold real numbers"."""
    try:
        return real_array(value, copy)
    except TypeError as problem:
        raise InputTypeError(f"{said}: {problem}") from problem


def refuse_rounded(name, array,
                   remedy="subtract a constant, encode what is only a name, or convert with astype(float)"):
    """Raise InputTypeError for integers that float64 would round."""
    if array.dtype.kind in "iuO" and array.dtype.itemsize == 8:
        entries = array.ravel() if array.dtype.kind == "O" else array[np.abs(array, dtype=np.float64) >= 2.0**53]
        for number in entries.tolist():
            if isinstance(number, numbers.Integral) and abs(number) > 2**53 and (
                    int(number).bit_length() > 1023 or float(number) != int(number)):
                raise InputTypeError(f"{name} must be exact in float64, got the integer {number}; {remedy}")


def check_flag(name: str, value: Any) -> bool:
    """Return True or False, also those of NumPy, as a bool; refuse all other values."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputTypeError(f"{name} must be True or False, got {value!r:.40} of type {type(value).__name__}")
    return bool(value)


def refuse_unknown(unknown, arguments, hint=None):
    """Raise ParameterError for a name in `unknown`; `arguments` are the names of those that the function has."""
    if not unknown:
        return
    name = min(unknown)
    near = get_close_matches(name, arguments, 1)
    hint = hint or INSTEAD.get(name) or (f"did you mean {near[0]}?" if near else f"it takes {', '.join(arguments)}")
    raise ParameterError(f"unknown argument {name!r}; {hint}")
