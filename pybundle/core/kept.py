"""Objects in checkpoints: an object names the attributes to store, and they are stored as JSON and arrays, not pickles.

An object of a run lists in `kept` the attributes that change in the run and do not follow from others. These are
numbers, texts, arrays, generators, lists and dicts of them, records (of classes that are passed to `encode`), and
further objects with `kept`. To resume, a new run makes its objects from the same data, then sets the stored attributes.
Reading a checkpoint makes no other objects and calls no other code.

    ["array", number, layout]       layout "C" or "F"
    ["list" | "tuple", [...]], ["dict" | "kept", [[key, value], ...]], ["csr", shape, data, indices, indptr]
    ["scalar", dtype, value], ["dtype", name], ["generator", state], ["record", name, [...]]
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from .exceptions import InputTypeError, StateError

PLAIN = (bool, int, float, str, type(None))


class Held(dict[str, Any]):
    """The stored attributes of an object inside of another one; an ordinary dict would be restored as a value."""


class Kept:
    """Base class of objects whose attributes in `kept` are stored in checkpoints."""

    kept: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if isinstance(cls.kept, str):           # a text would count as a sequence of names of one letter
            raise InputTypeError(f"kept of {cls.__name__} must be a tuple of names, got the text {cls.kept!r}; write "
                                 f"kept = ({cls.kept!r},)")

    def arrays(self) -> dict[str, Any]:
        """Return the attributes for a checkpoint, by name."""
        found = {name: getattr(self, name) for name in self.kept}
        return {name: Held(value.arrays()) if isinstance(value, Kept) else value for name, value in found.items()}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Set the attributes from a result of the method `arrays`, to the last bit; raise any exception if invalid."""
        if set(arrays) != set(self.kept):
            raise ValueError(f"{type(self).__name__} holds {sorted(self.kept)}, not {sorted(arrays)}")
        for name in self.kept:
            mine, value = getattr(self, name, None), arrays[name]
            if isinstance(mine, Kept) != isinstance(value, Held):
                was = "another" if isinstance(value, Held) else "no"
                raise ValueError(f"{name} of {type(self).__name__} is {type(mine).__name__} in the object made anew, "
                                 f"and was {was} object that keeps something")
            if isinstance(mine, Kept):
                mine.restore(value)
            else:
                setattr(self, name, value)


def encode(tree: Any, records: tuple[type, ...] = ()) -> tuple[Any, dict[str, Any]]:
    """Return a tree of values in the JSON form above, and its arrays by number; StateError for other values."""
    arrays: dict[str, Any] = {}

    def several(items):
        return [value(item) for item in items]

    def value(x):
        cls = type(x)
        if cls in PLAIN:
            return x
        if cls is np.ndarray and x.dtype.kind in "biufU" and x.dtype.isnative:
            is_fortran = x.flags.f_contiguous and not x.flags.c_contiguous
            arrays[str(len(arrays))] = x.T if is_fortran else x
            return ["array", len(arrays) - 1, "F" if is_fortran else "C"]
        if isinstance(x, np.generic) and x.dtype.kind in "biuf" and type(x.item()) in PLAIN:
            return ["scalar", x.dtype.str, x.item()]
        if cls in (list, tuple):
            return [cls.__name__, several(x)]
        if cls in (dict, Held):
            return ["dict" if cls is dict else "kept", [several(pair) for pair in x.items()]]
        if cls is csr_array:
            return ["csr", list(map(int, x.shape)), *several((x.data, x.indices, x.indptr))]
        if cls is np.random.Generator and type(x.bit_generator) is np.random.PCG64:
            return ["generator", value(x.bit_generator.state)]
        if isinstance(x, type) and issubclass(x, np.generic):
            return ["dtype", np.dtype(x).str]
        if cls in records:
            return ["record", cls.__name__, several(
                [getattr(x, field.name) for field in fields(x)] if is_dataclass(x) else x)]
        raise StateError(f"{getattr(cls, '__qualname__', cls)} cannot be part of a checkpoint")

    return value(tree), arrays


def decode(tree: Any, arrays: dict[str, Any], records: tuple[type, ...] = ()) -> Any:
    """Return the tree of values from what `encode` returned.

    A malformed tree raises exceptions of any class; callers turn them into an error that names the file.
    """
    made, used = {cls.__name__: cls for cls in records}, set()

    def array(number, layout):
        used.add(str(number))
        found = arrays[str(number)]
        return found.T if layout == "F" else found

    def dtype(name):
        found = np.dtype(name)
        if found.kind not in "biuf":
            raise ValueError(f"dtype {name!r:.20} is none of numbers")
        return found.type

    def csr(shape, *parts):
        parts = several(parts)
        rows = csr_array(tuple(shape))
        rows.data, rows.indices, rows.indptr = parts
        rows.check_format(full_check=True)
        rows.data, rows.indices, rows.indptr = parts        # set again, because the check changes the types of indices
        return rows

    def generator(state):
        found = np.random.default_rng(0)
        found.bit_generator.state = value(state)
        return found

    def several(items):
        return [value(item) for item in items]

    def table(items):
        return {value(key): value(item) for key, item in items}

    readers = {"array": array, "dtype": dtype, "csr": csr, "generator": generator, "list": several,
               "tuple": lambda items: tuple(several(items)), "scalar": lambda name, number: dtype(name)(number),
               "dict": table, "kept": lambda items: Held(table(items)),
               "record": lambda name, items: made[name](*several(items))}

    def value(x):
        if type(x) in PLAIN:
            return x
        kind, *content = x
        return readers[kind](*content)

    found = value(tree)
    if used != set(arrays):
        raise ValueError("it holds arrays that nothing refers to")
    return found


def check_array(name, array, shape, dtype=np.float64, low=-np.inf):
    """Raise ValueError unless an array has this shape and dtype, and its entries are finite and at least `low`."""
    if type(array) is not np.ndarray or array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{name} must be an array of shape {shape} and dtype {np.dtype(dtype)}")
    if not (np.isfinite(array).all() and (array >= low).all()):
        raise ValueError(f"{name} must be finite" + (f" and at least {low:g}" if low > -np.inf else ""))


def check_float(name, x, low=-np.inf):
    """Raise ValueError unless x is a number of at least `low`; it may be infinite."""
    if not isinstance(x, (int, float, np.number)) or not x >= low:
        raise ValueError(f"{name} must be a number" + (f" of at least {low:g}" if low > -np.inf else ""))
