"""The arrays of a bundle, for files, checkpoints and copies; a bundle that is made from arrays checks them."""

from __future__ import annotations

import numpy as np

FORMAT, VERSION = "pybundle bundles", 1


def contents(bundle):
    """Return a header of plain values, and the arrays of a bundle by name."""
    header = {"dim": bundle.dim, "n_parts": bundle.n_parts, "storage": bundle.storage, "sparse": bundle.is_sparse}
    slopes = {} if bundle._store is None else bundle._store.arrays()
    columns = {name: column[:bundle.n_planes] for name, column in bundle._columns.items() if name != "products"}
    return header, {"H": bundle.H, **columns, **slopes}


def fill(bundle, header, arrays):
    """Fill an empty bundle with the planes that `contents` returned; raise ValueError if they are invalid."""
    n = len(arrays["offsets"])
    if n == 0:
        return
    saved = [name for name in bundle._columns if name != "products"]
    fits = all(arrays[name].shape == (n,) for name in saved) and arrays["H"].shape == (n, n)
    fits = fits and all(arrays[name].dtype == bundle._columns[name].dtype for name in saved)
    bundle._store = bundle._new_store(header["sparse"])
    bundle._store.restore(arrays)
    if not fits or len(bundle._store) != n or not (arrays["parts"] < bundle.n_parts).all():
        raise ValueError("array shapes do not agree")
    if not all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f"):
        raise ValueError("planes must be finite")
    if not ((arrays["beta"] >= 0.0).all() and (arrays["H"].diagonal() >= 0.0).all()):
        raise ValueError("multipliers and squares must not be negative")
    bundle._grow(n)
    bundle.n_planes = n
    bundle.H[:] = arrays["H"]
    for name in saved:
        bundle._columns[name][:n] = arrays[name]
