"""Changes of one argument: None, wrong types, wrong shapes, empty, negative, huge, NaN, odd memory."""

import numpy as np
import scipy.sparse as sp

HUGE = 1 << 40
ANYTHING = (
    None, True, -1, 0, 1, 3, HUGE, 1 << 62, -(1 << 62), 10**30, 0.5, -2.5, 1e308, np.nan, np.inf, -np.inf, 1j, "", "x",
    b"x", (), [], {}, set(), [[1], [2, 3]], ["a"], [None], object(), int, len, np.float32(1), np.int8(-1),
    np.datetime64("2020"), np.array(2.0), np.empty(0), np.empty((0, 3)), np.empty((2, 0)), np.array(None),
    np.array([None, 1.0], dtype=object), np.array(["a", "b"]), np.ones(3, dtype=complex), np.ones((2, 2, 2, 2)),
    np.full(3, np.nan), np.full((3, 3), -1), np.array([HUGE, -HUGE]), np.ma.masked_all(3),
    sp.csr_array(np.eye(3)), sp.coo_array(np.eye(3)), sp.csc_matrix((3, 0)),
)
NUMBERS = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, -1, 0, 1 << 31, -(1 << 31), 1 << 62, 255)
DTYPES = (object, np.float32, np.float16, np.longdouble, np.int8, np.int64, np.uint8, np.uint64, bool, complex, str,
          ">f8", ">i4", "datetime64[s]", "V8")


def anything(r):
    return ANYTHING[r.integers(len(ANYTHING))]


def mutate(value, r):
    """Something like `value` that may be wrong."""
    try:
        return anything(r) if r.random() < 0.25 else changed(value, r)
    except (TypeError, ValueError, OverflowError):      # what was mutated before cannot be again
        return anything(r)


def changed(value, r):
    if isinstance(value, np.ndarray) and value.size:
        return array(value, r)
    if sp.issparse(value):
        return sparse(value, r)
    if isinstance(value, (list, tuple)) and value and not hasattr(value, "_fields"):
        return type(value)(sequence(list(value), r))
    if hasattr(value, "_fields"):
        k = r.integers(len(value))
        return value._replace(**{value._fields[k]: mutate(value[k], r)})
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return (value + 1, value - 1, -value, 0, HUGE, 1 << 62, 10**30, float(value), str(value))[r.integers(9)]
    if isinstance(value, float):
        return (-value, 0.0, *NUMBERS)[r.integers(2 + len(NUMBERS))]
    if isinstance(value, str):
        return ("", value + "x", value.upper(), value[1:])[r.integers(4)]
    if isinstance(value, dict) and value:
        key = list(value)[r.integers(len(value))]
        return {**value, key: mutate(value[key], r)}
    return anything(r)


def sequence(items, r):
    k = int(r.integers(len(items)))
    kind = r.integers(5)
    if kind == 0:
        del items[k]
    elif kind == 1:
        items.insert(k, items[-1])
    elif kind == 2:
        items = items * 2
    else:
        items[k] = mutate(items[k], r)
    return items


def array(a, r):
    kind = r.integers(13)
    if kind == 0:
        try:
            return a.astype(np.dtype(DTYPES[r.integers(len(DTYPES))]))
        except (TypeError, ValueError):
            return a.tolist()
    if kind == 1:
        return a.T
    if kind == 2:
        return a[::-1] if r.random() < 0.5 else np.repeat(a, 2, axis=-1)[..., ::2]
    if kind == 3:
        return a[None] if r.random() < 0.5 else a.ravel()
    if kind == 4:
        return a[:-1] if r.random() < 0.5 else a[..., 1:]
    if kind == 5:
        return np.concatenate([a, a[:1]])
    if kind == 6:
        return a[:0]
    if kind == 7:
        a = a.copy()
        a.setflags(write=False)
        return a
    if kind == 8:
        raw = np.empty(a.nbytes + 1, dtype=np.uint8)       # misaligned
        odd = raw[1:].view(a.dtype).reshape(a.shape)
        odd[...] = a
        return odd
    if kind == 9:
        return np.broadcast_to(a[:1], a.shape)
    if kind == 10:
        return a.tolist()
    a = a.copy()
    number = NUMBERS[r.integers(len(NUMBERS))]
    with np.errstate(all="ignore"):
        try:
            a[tuple(r.integers(s) for s in a.shape)] = number
        except (OverflowError, ValueError):
            a.flat[0] = -1
    return a


def sparse(a, r):
    kind = r.integers(7)
    if kind == 0:
        return a.toarray()
    if kind == 1:
        return a.tocsc() if r.random() < 0.5 else a.tocoo()
    a = a.tocsr(copy=True)
    if kind == 2 and len(a.indices):
        a.indices[r.integers(len(a.indices))] = (-1, a.shape[1], 2**31 - 1, -2**31)[r.integers(4)]
    elif kind == 3:
        a.indptr[r.integers(len(a.indptr))] = (-1, a.nnz + 5, 2**31 - 1)[r.integers(3)]
    elif kind == 4:
        a.data = array(a.data, r) if len(a.data) else a.data
    elif kind == 5:
        a.indices = a.indices[:-1]
    else:
        return a[:-1] if r.random() < 0.5 else a[:, :-1]
    return a
