"""Encode objects of known classes as JSON and arrays, and decode them: files of runs need no pickles.

Every object below a root becomes an entry of one list, and a reference to it is `[number]`: shared objects are shared
again after reading, and cycles are allowed. Numbers, texts and None are written in place.

    ["array", layout]       the array is stored under the number of this entry; layout "C" or "F"
    ["list" | "tuple", [...]], ["dict", [[key, value], ...]], ["csr", shape, data, indices, indptr]
    ["scalar", dtype, value], ["dtype", name], ["generator", state]
    ["class", name], ["enum", name, value], ["record", name, [...]]
    ["object", name, state]                result of `__getstate__`, for `__setstate__` or `__dict__`
    ["called" | "restored", name, arguments]   `__reduce__` of a class: the class itself, or its `from_state`, is called
    ["outside", word]       an object that the reader has already

Reading calls nothing but the classes that the reader lists, and then `check_state()` of every object that has one: it
raises ValueError if the object is not valid; all objects that it refers to are complete by then.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from scipy.sparse import csr_array

from .exceptions import StateError

PLAIN = (bool, int, float, str, type(None))


def encode(root, classes, outside):
    """Return entries (a list that JSON can hold, the root first) and arrays by number.

    Parameters
    ----------
    classes : dict of str to type
    outside : callable
        `outside(x)` names an object that is not written; None for all others.

    Raises
    ------
    StateError
        For an object of any other class.
    """
    writer = _Writer({cls: name for name, cls in classes.items()}, outside)
    writer.value(root)
    return writer.entries, writer.arrays


def decode(entries, arrays, classes, outside):
    """Rebuild the root object from the result of `encode`; `outside(word)` returns objects that are not in the file.

    Raises any exception for malformed entries; callers turn it into an error that names the file.
    """
    reader = _Reader(entries, arrays, classes, outside)
    root = reader.value([0])
    if reader.n_arrays != len(arrays):
        raise ValueError("it holds arrays that nothing refers to")
    for made in reader.objects:
        if hasattr(type(made), "check_state"):
            made.check_state()
    return root


def check_array(name, array, shape, dtype=np.float64, low=-np.inf):
    """Raise ValueError, for `check_state`, unless an array has the shape and type, is finite and at least `low`."""
    if type(array) is not np.ndarray or array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{name} must be an array of shape {shape} and dtype {np.dtype(dtype)}")
    if not (np.isfinite(array).all() and (array >= low).all()):
        raise ValueError(f"{name} must be finite" + (f" and at least {low:g}" if low > -np.inf else ""))


def check_float(name, x, low=-np.inf):
    """Raise ValueError unless x is a number of at least `low`; it may be infinite."""
    if not isinstance(x, (int, float, np.number)) or not x >= low:
        raise ValueError(f"{name} must be a number" + (f" of at least {low:g}" if low > -np.inf else ""))


class _Writer:
    def __init__(self, names, outside):
        self.entries, self.arrays = [], {}
        self._names, self._outside = names, outside
        self._places, self._alive = {}, []          # objects stay alive, so that no id is reused

    def value(self, x):
        if type(x) in PLAIN:
            return x
        place = self._places.get(id(x))
        if place is None:
            place = self._places[id(x)] = len(self.entries)
            self._alive.append(x)
            self.entries.append(None)
            self.entries[place] = self._entry(x, place)
        return [place]

    def _entry(self, x, place):
        word = self._outside(x)
        if word is not None:
            return ["outside", word]
        cls = type(x)
        if cls is np.ndarray and x.dtype.kind in "biufU":
            is_fortran = x.flags.f_contiguous and not x.flags.c_contiguous
            self.arrays[str(place)] = x.T if is_fortran else x
            return ["array", "F" if is_fortran else "C"]
        if isinstance(x, np.generic) and x.dtype.kind in "biuf":
            return ["scalar", x.dtype.str, x.item()]
        if cls in (list, tuple):
            return [cls.__name__, self._values(x)]
        if cls is dict:
            return ["dict", [self._values(pair) for pair in x.items()]]
        if cls is csr_array:
            return ["csr", list(map(int, x.shape)), *self._values((x.data, x.indices, x.indptr))]
        if cls is np.random.Generator:
            return ["generator", self.value(x.bit_generator.state)]
        if isinstance(x, type):
            return ["dtype", np.dtype(x).str] if issubclass(x, np.generic) else ["class", self._name(x)]
        name = self._name(cls)
        if isinstance(x, Enum):
            return ["enum", name, x.value]
        if isinstance(x, tuple):
            return ["record", name, self._values(x)]
        if cls.__reduce__ is not object.__reduce__:
            make, arguments = x.__reduce__()
            return ["called" if make is cls else "restored", name, self._values(arguments)]
        return ["object", name, self.value(x.__getstate__())]

    def _values(self, items):
        return [self.value(item) for item in items]

    def _name(self, cls):
        if cls not in self._names:
            raise StateError(f"{getattr(cls, '__qualname__', cls)} cannot be part of a checkpoint")
        return self._names[cls]


class _Reader:
    def __init__(self, entries, arrays, classes, outside):
        self._entries, self._arrays, self._classes, self._outside = entries, arrays, classes, outside
        self._known, self._open, self.n_arrays, self.objects = {}, set(), 0, []

    def value(self, x):
        if type(x) in PLAIN:
            return x
        place, = x
        if place not in self._known:
            if place in self._open or type(place) is not int or place < 0:
                raise ValueError(f"entry {place!r:.20} refers to itself or to nothing")
            self._open.add(place)
            kind, *content = self._entries[place]
            self._known[place] = READERS[kind](self, place, *content)
        return self._known[place]

    def _values(self, items):
        return [self.value(item) for item in items]

    def _array(self, _place, layout):
        self.n_arrays += 1
        array = self._arrays[str(_place)]
        return array.T if layout == "F" else array

    def _scalar(self, _place, dtype, value):
        return self._dtype(_place, dtype)(value)

    def _dtype(self, _place, name):
        dtype = np.dtype(name)
        if dtype.kind not in "biuf":
            raise ValueError(f"dtype {name!r:.20} is none of numbers")
        return dtype.type

    def _list(self, place, items):
        made = self._known[place] = []          # known before its items, which may refer to it
        made.extend(self._values(items))
        return made

    def _tuple(self, _place, items):
        return tuple(self._values(items))

    def _dict(self, place, items):
        made = self._known[place] = {}
        made.update((self.value(key), self.value(item)) for key, item in items)
        return made

    def _csr(self, _place, shape, *parts):
        parts = self._values(parts)
        made = csr_array(tuple(shape))
        made.data, made.indices, made.indptr = parts
        made.check_format(full_check=True)
        made.data, made.indices, made.indptr = parts        # the check changes the types of indices
        return made

    def _generator(self, _place, state):
        made = np.random.default_rng(0)
        made.bit_generator.state = self.value(state)
        return made

    def _class(self, _place, name):
        return self._classes[name]

    def _enum(self, _place, name, value):
        return self._classes[name](value)


    def _called(self, _place, name, arguments):
        return self._classes[name](*self._values(arguments))

    def _restored(self, _place, name, arguments):
        return self._classes[name].from_state(*self._values(arguments))

    def _object(self, place, name, state):
        cls = self._classes[name]
        made = self._known[place] = cls.__new__(cls)
        self.objects.append(made)
        state = self.value(state)
        if hasattr(cls, "__setstate__"):
            made.__setstate__(state)
        elif state is not None:
            vars(made).update(state)
        return made

    def _existing(self, _place, word):
        return self._outside(word)


READERS = {
    "array": _Reader._array, "list": _Reader._list, "tuple": _Reader._tuple, "dict": _Reader._dict,
    "csr": _Reader._csr, "scalar": _Reader._scalar, "dtype": _Reader._dtype, "generator": _Reader._generator,
    "class": _Reader._class, "enum": _Reader._enum, "record": _Reader._called,
    "object": _Reader._object, "called": _Reader._called, "restored": _Reader._restored,
    "outside": _Reader._existing,
}  # fmt: skip
