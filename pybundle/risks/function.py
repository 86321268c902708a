"""A risk made from a Python callable or a compiled function."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy import LowLevelCallable

from ..core.exceptions import ContradictionError, InputTypeError, OracleError, ParameterError
from ..core.plane import Planes
from ..core.protocols import RiskBase
from ..core.sparse import check_sparse
from ..core.types import Floats
from ..core.validation import check_count, check_flag, check_vector, real_array
from ..models.decoded import takes_accuracy
from ._compiled import RiskCalls

MOST_RANGES = 64
"""Largest number of ranges of parts that threads evaluate; single calls may be too short for a thread."""


class Function(RiskBase):
    """A risk from a callable: any convex function of w, or the sum of P such functions.

    Parameters
    ----------
    fun : callable or scipy.LowLevelCallable
        `fun(w) -> (value, subgradient (dim,))`, or for P parts `(values (P,), subgradients (P, dim))` with
        dense or CSR subgradients. A function that is not computed exactly returns a third item, a proven upper bound
        of the value (or (P,) of them); then `value + <subgradient, v - w>` need only lie below it at every v. The bound
        of a MIP solver holds up to its tolerance: add that, 1e-6 for SciPy's HiGHS, else bounds may cross. If `fun`
        has a parameter `accuracy`, that is how far the bound may lie above the value. w is a copy: `fun` may change it.
        A compiled function, from ctypes, cffi, Cython or numba, is called once for each part, without the GIL and with
        `n_jobs` in several threads:
        ``int fun(const double *w, int64_t dim, int64_t part, double *value, double *slope, void *user_data)``
        sets the value, adds to the slope, which holds zeros, and returns 0, or an error code of its own.
    dim : int
    n_parts : int
    lower_bounds : float or array, shape (P,), optional
        A proven lower bound of every part, e.g. 0; None means none (minus infinity).
    smooth : bool
        True if every part is differentiable everywhere; "auto" then chooses "lbfgs", which needs fewer calls.

    Notes
    -----
    Results are checked after each call. An `OracleError` names what is wrong and, for a compiled function, the part
    and the error code. Exceptions raised by `fun` pass through unchanged. One call counts as one pass
    (`n_examples` = 1).

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.risks import Function
    >>> risk = Function(lambda w: (np.abs(w).sum(), np.sign(w)), dim=2, lower_bounds=0.0)
    >>> risk.evaluate(np.array([1.0, -2.0]))
    (array([3.]), array([[ 1., -1.]]))
    """

    n_examples = 1

    def __new__(cls, fun: Any = None, *args: Any, **options: Any) -> Any:
        return object.__new__(CompiledFunction if isinstance(fun, LowLevelCallable) else cls)

    def __init__(self, fun: Any, dim: int, n_parts: int = 1, lower_bounds: Any = None, smooth: bool = False) -> None:
        if not callable(fun) and not isinstance(fun, LowLevelCallable):
            raise InputTypeError("fun must be callable as fun(w) -> (value, subgradient), "
                                 f"got {type(fun).__name__}")
        self.fun: Any = fun
        self.dim: int = check_count("dim", dim)
        self.n_parts: int = check_count("n_parts", n_parts)
        check_flag("smooth", smooth)
        self.smooth: bool = bool(smooth)
        self._takes_accuracy = takes_accuracy(fun)
        self._accuracy = np.inf
        self.decodes_exactly: bool = not self._takes_accuracy
        bounds = np.full(self.n_parts, -np.inf)
        if lower_bounds is not None:
            wanted = f"lower_bounds must be a number or have shape ({self.n_parts},)"
            try:
                given = real_array(lower_bounds)
            except TypeError as problem:
                raise InputTypeError(f"{wanted}, got {lower_bounds!r}: {problem}") from problem
            if given.ndim and given.shape != bounds.shape:
                raise ParameterError(f"{wanted}, got shape {given.shape}; give one bound for each part, or one number "
                                     "for all")
            bounds[:] = given
            if np.isnan(bounds).any() or (bounds == np.inf).any():
                raise ParameterError(f"lower_bounds must be finite or -inf, got {lower_bounds!r}")
        self.lower_bounds = bounds

    def evaluate(self, w: ArrayLike) -> tuple[Floats, Any]:
        """Return the checked values (P,) and subgradients (P, dim) of the callable; subgradients are copies.

        If the callable returns upper bounds, the values are these.
        """
        _, slopes, uppers = self._answer(w)
        return uppers, slopes

    def planes(self, w: ArrayLike) -> Planes:
        """Return the planes of the values and subgradients at w, and as their `values` the upper bounds, if any."""
        if type(self).evaluate is not Function.evaluate:        # a subclass may define its own `evaluate`
            return super().planes(w)
        values, slopes, uppers = self._answer(w)
        planes = Planes.from_subgradients(values, slopes, w)
        return planes if uppers is values else planes._replace(values=uppers)

    def _answer(self, w):
        """Return checked values, subgradients and upper bounds; without upper bounds, return the values twice."""
        how = {"accuracy": self._accuracy} if self._takes_accuracy else {}
        answer = self.fun(np.array(check_vector("w", w, self.dim)), **how)
        if not isinstance(answer, (tuple, list)) or len(answer) not in (2, 3):
            raise OracleError("fun must return a pair (value, subgradient), or (value, subgradient, upper), got "
                              f"{type(answer).__name__}" + (f" of length {len(answer)}"
                                                            if isinstance(answer, (tuple, list)) else ""))
        values, slopes = self._numbers("values", answer[0]), self._subgradients(answer[1])
        uppers = values if len(answer) == 2 else self._numbers("upper bounds", answer[2])
        self._check_values(values, uppers)
        if uppers is values:
            return values, slopes, values
        self.decodes_exactly = False
        return values, slopes, np.maximum(values, uppers)

    def aim(self, accuracy: float) -> None:
        """See `RiskBase`."""
        self._accuracy = accuracy / self.n_parts

    def renewed(self, whole: bool = True) -> Self:
        """Return this risk, or a copy for one run if the callable takes an accuracy, which differs between runs."""
        return copy.copy(self) if self._takes_accuracy else self

    def _numbers(self, name, values):
        P = self.n_parts
        try:
            values = real_array(values, copy=True)
        except TypeError as problem:
            raise OracleError(f"fun must return real {name}, got {type(values).__name__}: {problem}") from problem
        if values.shape != (P,) and not (P == 1 and values.size == 1):
            raise OracleError(f"fun must return {'one value' if P == 1 else f'{name} of shape ({P},)'}, "
                              f"got shape {values.shape}")
        values = values.reshape(P)
        if not np.isfinite(values).all():
            p = int(np.flatnonzero(~np.isfinite(values))[0])
            raise OracleError(f"fun must return finite {name}, got {values[p]} for part {p}")
        return values

    def _check_values(self, values, uppers):
        low = np.flatnonzero(uppers < self.lower_bounds - 1e-9 * (1.0 + np.abs(self.lower_bounds)))
        if len(low):
            raise ContradictionError(f"fun returned {uppers[low[0]]:g} for part {low[0]}, below its lower bound "
                                     f"{self.lower_bounds[low[0]]:g}; correct lower_bounds or omit them")
        low = np.flatnonzero(uppers < values - 1e-9 * (np.abs(values) + np.abs(uppers)))
        if len(low):
            raise OracleError(f"fun must return upper bounds at or above its values, got {uppers[low[0]]:g} and "
                              f"{values[low[0]]:g} for part {low[0]}")

    def _subgradients(self, slopes):
        P, expected = self.n_parts, (self.n_parts, self.dim)
        if sp.issparse(slopes):
            if slopes.dtype.kind not in "biuf":
                raise OracleError(f"fun must return real subgradients, got dtype {slopes.dtype}")
            slopes = sp.csr_array(check_sparse("subgradients of fun", slopes, OracleError), dtype=np.float64, copy=True)
            entries = slopes.data
        else:
            try:
                slopes = real_array(slopes, copy=True)
            except TypeError as problem:
                raise OracleError("fun must return real subgradients, "
                                  f"got {type(slopes).__name__}: {problem}") from problem
            if P == 1 and slopes.shape == (self.dim,):
                slopes = slopes.reshape(expected)
            entries = slopes
        if slopes.shape != expected:
            shape = f"({self.dim},)" if P == 1 else f"{expected}"
            raise OracleError(f"fun must return {'a subgradient' if P == 1 else 'subgradients'} of shape "
                              f"{shape}, got {slopes.shape}")
        if not np.isfinite(entries).all():
            raise OracleError("fun must return finite subgradients, got NaN or infinity")
        return slopes


class CompiledFunction(Function):
    """A `Function` whose callable is a `scipy.LowLevelCallable`; created by `Function`."""

    def __init__(self, fun, dim, n_parts=1, lower_bounds=None, smooth=False):
        super().__init__(fun, dim, n_parts, lower_bounds, smooth)
        self._calls, self.map_shards, self._ranges = RiskCalls(fun, self.dim, self.lower_bounds), None, None

    def evaluate(self, w):
        """Return the checked values (P,) and subgradients (P, dim) of the function."""
        return self._calls.evaluate(w, self.map_shards, self._ranges)

    def derive(self, n_parts=None, precision=None, executor=None):
        """Return the same risk with another executor for several parts; its partition and precision are fixed."""
        other = copy.copy(super().derive(n_parts))
        if executor is not None:
            is_alone = self.n_parts == 1 or getattr(executor, "n_jobs", None) == 1
            edges = np.linspace(0, self.n_parts, min(self.n_parts, MOST_RANGES) + 1).astype(int).tolist()
            other.map_shards = None if is_alone else executor.map
            other._ranges = None if is_alone else list(pairwise(edges))
        return other


CompiledFunction.__name__ = Function.__name__       # a certificate names the class, and may be checked in Python
