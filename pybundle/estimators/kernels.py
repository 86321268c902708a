"""Convert groups of `pb.mkl` and their learnt functions to arrays, numbers and texts, and back; choose kernels.

    Gaussian(0.5)                          {"": "Gaussian", ".sigma": 0.5, ".columns": None, ".low_rank": None}
    Mean([Linear(), Gaussian(0.5)])        {"": "Mean", ".kernels.0": "Linear", ".kernels.0.normalise": True, ...}
"""

import inspect

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import ParameterError, StateError
from ..mkl import B1Spline, Features, Gaussian, Linear, Mean, Polynomial, Precomputed
from ..mkl.parts import KernelPart, make_part

KINDS = {cls.__name__: cls for cls in (B1Spline, Features, Gaussian, Linear, Mean, Polynomial, Precomputed)}
"""Classes that files may hold, by name."""


def suggested(X):
    """Return kernels for rows X: linear, quadratic, and Gaussians of half, once and twice the spread of the data.

    The square of the spread is the sum of the variances, half the mean squared distance of two rows. Costs O(nnz).
    """
    squares = X.multiply(X).mean(axis=0) if sp.issparse(X) else np.square(X).mean(axis=0)
    variance = float(np.maximum(np.asarray(squares) - np.square(np.asarray(X.mean(axis=0))), 0.0).sum())
    spread = np.sqrt(variance) if np.isfinite(variance) and variance > 0.0 else 1.0
    return [Linear(), Polynomial(2), *(Gaussian(float(share * spread)) for share in (0.5, 1.0, 2.0))]


def described(group, name=""):
    """Return a group as a flat dictionary whose keys begin with `name`; raise StateError if it contains code."""
    kind = type(group).__name__
    if KINDS.get(kind) is not type(group):
        raise StateError(f"a kernel that is code cannot be saved, got {kind}; files know {', '.join(KINDS)}; pickle "
                         "the estimator instead")
    found = {name: kind}
    for parameter in inspect.signature(type(group)).parameters:
        value, key = getattr(group, parameter, None), f"{name}.{parameter}"
        if parameter == "kernels":
            for index, kernel in enumerate(value):
                found |= described(kernel, f"{key}.{index}")
        elif parameter == "column":         # a precomputed kernel keeps its column as `columns`
            found[key] = int(group.columns[0])
        elif isinstance(value, slice):
            found[key] = ":".join("" if bound is None else str(int(bound))
                                  for bound in (value.start, value.stop, value.step))
        elif parameter == "columns" and value is not None:
            found[key] = np.asarray(value)
        else:
            found[key] = value.item() if isinstance(value, np.generic) else value
    return found


def made(described, name=""):
    """Return the group from its description, the result of `described`."""
    kind = KINDS[described[name]]
    arguments = {}
    for parameter in inspect.signature(kind).parameters:
        key = f"{name}.{parameter}"
        if parameter == "kernels":
            arguments[parameter] = listed(described, key + ".")
        else:
            value = described[key]
            arguments[parameter] = _slice(value) if parameter == "columns" and isinstance(value, str) else value
    return kind(**arguments)


def listed(described, name=""):
    """Return the groups `name0`, `name1`, ... as a list."""
    found = []
    while f"{name}{len(found)}" in described:
        found.append(made(described, f"{name}{len(found)}"))
    if not found:
        raise ParameterError("a list of kernels is empty")
    return found


def _slice(text):
    return slice(*(int(bound) if bound else None for bound in text.split(":")))


def part_of(kernel, support, coefs, X, n_labels):
    """Return a part of `pb.mkl` that computes scores with these coefficients."""
    if support is None:
        part = make_part(kernel, 0, X, n_labels, False)
        part.theta.set(coefs)
    else:
        part = KernelPart(kernel, n_labels, False)
        part.support, part.coefs = support, coefs
    return part


def support_of(arrays, index):
    """Take the support examples of a group out of the arrays of a file; None if it has none."""
    if f"{index}.data" not in arrays:
        return arrays.pop(f"{index}.support", None)
    data, indices, indptr, shape = (arrays.pop(f"{index}.{name}") for name in ("data", "indices", "indptr", "shape"))
    matrix = sp.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
    matrix.check_format()
    return matrix


def n_columns(kernel, n_features):
    """Return the number of columns that a kernel uses, without allocating an array whose size a file gives."""
    if kernel.columns is None:
        return n_features
    if isinstance(kernel.columns, slice):
        return len(range(*kernel.columns.indices(n_features)))
    columns = np.asarray(kernel.columns)
    return int(columns.sum()) if columns.dtype.kind == "b" else len(columns)
