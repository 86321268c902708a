"""Reads the argument `constraints`, `lower <= A w <= upper`, of solvers and of the verifier, as rows `A w <= u`.

A lower bound becomes a row with the opposite sign, and an equality becomes two rows.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from .exceptions import InputTypeError, ParameterError
from .sparse import check_sparse
from .validation import real_array


def read_constraints(constraints, dim):
    """Return A and u of the rows `A w <= u`, from `(A, lower, upper)`, a `LinearConstraint`, or several of them."""
    is_several = isinstance(constraints, list) or (
        isinstance(constraints, tuple) and all(map(_is_constraint, constraints)))
    found = [_checked(*_matrix_and_bounds(one), dim) for one in (constraints if is_several else [constraints])]
    A = sp.csr_array(sp.vstack([rows for rows, _, _ in found]) if found else (0, dim))
    lower, upper = (np.concatenate([np.empty(0), *(block[k] for block in found)]) for k in (1, 2))
    # powers of 2 scale without rounding; the largest entry of a row is then between 1/2 and 1
    scales = -np.frexp(abs(A).max(axis=1).toarray().ravel() if A.shape[0] else np.empty(0))[1]
    with np.errstate(over="ignore"):
        A.data = np.ldexp(A.data, np.repeat(scales, np.diff(A.indptr)))
        lower, upper = np.ldexp(lower, scales), np.ldexp(upper, scales)
    above, below = upper < np.inf, lower > -np.inf
    return sp.csr_array(sp.vstack([A[above], -A[below]])), np.concatenate([upper[above], -lower[below]])


def _is_constraint(one):
    """Return whether an object is a whole constraint, and not an entry of a tuple (A, lower, upper)."""
    if not isinstance(one, tuple):
        return hasattr(one, "keep_feasible")        # SciPy's LinearConstraint
    try:
        return len(one) == 3 and (sp.issparse(one[0]) or np.ndim(one[0]) > max(map(np.ndim, one[1:])))
    except ValueError:      # np.ndim fails for a list whose rows have different lengths
        return False


def _matrix_and_bounds(one):
    if isinstance(one, tuple) and len(one) == 3:
        return one
    from scipy.optimize import LinearConstraint  # a slower import than that of the whole package

    if not isinstance(one, LinearConstraint):
        raise InputTypeError("constraints must be a tuple (A, lower, upper), a scipy.optimize.LinearConstraint or a "
                             f"list of them, got {type(one).__name__}")
    if np.any(one.keep_feasible):
        raise ParameterError("constraints must have keep_feasible=False, got True, but the risk is also evaluated at "
                             "points that violate them; leave it out")
    return one.A, one.lb, one.ub


def _checked(A, lower, upper, dim):
    """Return A as CSR and both bounds, shape (m,), after checks of types, shapes and finiteness."""
    try:
        if not sp.issparse(A):
            A = np.atleast_2d(real_array(A))
        elif A.dtype.kind not in "biuf":
            raise TypeError(f"entries of dtype {A.dtype} are not real numbers")
    except (TypeError, ValueError) as problem:
        raise InputTypeError(f"constraints must have a matrix A of numbers: {problem!s:.120}") from problem
    if len(A.shape) != 2 or A.shape[1] != dim:
        raise ParameterError(f"constraints must have A of shape (m, dim) = (m, {dim}), a column for each weight and "
                             f"the last one for an intercept, got shape {A.shape}")
    A = sp.csr_array(check_sparse("constraints", A) if sp.issparse(A) else A, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(A.data))
    if len(wrong):
        row = np.searchsorted(A.indptr, wrong[0], side="right") - 1
        raise ParameterError(f"constraints must have finite entries in A, got {A.data[wrong[0]]} in row {row}; leave "
                             "the row out")
    lower, upper = _bounds("lower", lower, -np.inf, A.shape[0]), _bounds("upper", upper, np.inf, A.shape[0])
    wrong = np.flatnonzero(lower > upper)
    if len(wrong):
        raise ParameterError(f"constraints must have lower <= upper, got {lower[wrong[0]]:g} and {upper[wrong[0]]:g} "
                             f"in row {wrong[0]}; exchange them")
    return A, lower, upper


def _bounds(name, value, unbounded, m):
    """Return the bounds of m rows as a vector; each None, also in a list, becomes `unbounded`, inf or -inf."""
    try:
        array = np.asarray(unbounded if value is None else value)
        if array.dtype == object:
            array = np.array([unbounded if x is None else x for x in array.ravel()], dtype=object).reshape(array.shape)
            value = array
        array = real_array(unbounded if value is None else value)
    except (TypeError, ValueError) as problem:
        raise InputTypeError(f"constraints must have numbers or None in {name}: {problem!s:.120}") from problem
    if array.shape not in ((), (1,), (m,)):
        raise ParameterError(f"constraints must have {name} of shape ({m},), one for each row of A, or a number, got "
                             f"shape {array.shape}")
    array = np.array(np.broadcast_to(array, (m,)))
    wrong = np.flatnonzero(np.isnan(array) | (array == -unbounded))
    if len(wrong):
        raise ParameterError(f"constraints must have {name} without NaN and {-unbounded:g}, got {array[wrong[0]]:g} in "
                             f"row {wrong[0]}; None or {unbounded:g} is no bound")
    return array
