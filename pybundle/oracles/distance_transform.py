"""Generalised distance transform: the largest score minus a quadratic displacement cost, for every position."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.ragged import run_shards
from ..core.types import Array, Floats
from ..core.validation import real_numbers
from ._distance_transform import transform_lines, transform_maps


def distance_transform(f: ArrayLike, a: float | tuple[float, float],
                       b: float | tuple[float, float] = 0.0) -> tuple[Floats, Array]:
    """Compute `m(p) = max_q f(q) - a (p - q)^2 - b (p - q)` on a line or, axis by axis, on a map.

    Parameters
    ----------
    f : array_like, shape (n,) or (H, W)
        Scores; -inf forbids a position.
    a : float, or pair of floats for a map
        Curvature along axis 0 and axis 1, of any sign. A single number serves both axes.
    b : float, or pair of floats for a map, default 0
        Slope along axis 0 and axis 1.

    Returns
    -------
    values : ndarray, shape of f
        The maximum, recomputed at `argmax` as `(f - a dx^2 - b dx) - a dy^2 - b dy`; -inf if all of f is -inf.
    argmax : ndarray of int32, shape of f
        q for every p; on a map the flat index `row * W + column`. In a tie, the smallest index (for a map: the
        smallest row, then the smallest column).

    Raises
    ------
    ParameterError, InputTypeError
        If f is empty or holds NaN or +inf, or costs are not finite.

    Notes
    -----
    Time O(positions) for every a, memory O(positions). With a > 0 this is the upper envelope of parabolas
    (Felzenszwalb, Huttenlocher, "Distance Transforms of Sampled Functions", 2012); with a < 0 the same candidates
    are used in the opposite order, so no quadratic search is needed. In the choice of q, an |a| below the smallest
    normal float64, or so small that b / a overflows, is taken as 0.

    Examples
    --------
    >>> from pybundle.oracles import distance_transform
    >>> values, argmax = distance_transform([0.0, 5.0, 0.0, 0.0, 3.0], a=1.0)
    >>> values.tolist(), argmax.tolist()
    ([4.0, 5.0, 4.0, 2.0, 3.0], [1, 1, 1, 4, 4])
    """
    f = check_scores("f", f, (1, 2))
    values, argmax = distance_transform_batch(f[None], a, b)
    return values[0], argmax[0]


def distance_transform_batch(f: ArrayLike, a: float | tuple[float, float], b: float | tuple[float, float] = 0.0, *,
                             executor: Any = None) -> tuple[Floats, Floats]:
    """Compute the distance transforms of several lines or maps of the same size.

    Parameters
    ----------
    f : array_like, shape (n_items, n) or (n_items, H, W)
        Lines or maps, see `distance_transform`.
    a, b : float, or pair of floats for maps
        The same for all items.
    executor : object with ``map(function, items)``, optional
        Runs shards of items, for instance a thread pool; the result does not depend on it.

    Returns
    -------
    values, argmax : ndarray, shape of f
        Indices refer to the item itself.

    Examples
    --------
    >>> from pybundle.oracles import distance_transform_batch
    >>> values, argmax = distance_transform_batch([[[0.0, 2.0]], [[4.0, 0.0]]],
    ...                                           a=(1.0, 3.0), b=(0.0, 0.5))
    >>> values.tolist(), argmax.tolist()
    ([[[0.0, 2.0]], [[4.0, 0.5]]], [[[0, 1]], [[0, 0]]])
    """
    f = check_scores("f", f, (1, 2), batch=True)
    lengths = f.shape[1:]
    a, b = check_costs("a", a, lengths), check_costs("b", b, lengths)
    reach = np.array(lengths, dtype=float)
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite((np.abs(a) * reach + np.abs(b)) * reach).all():
            raise ParameterError(f"a = {a.tolist()} and b = {b.tolist()} overflow over {lengths} positions; scale "
                                 f"f, a and b down")
    values, argmax = np.empty(f.shape), np.empty(f.shape, dtype=np.int32)

    def work(first, last):
        part = slice(first, last)
        if len(lengths) == 1:
            transform_lines(f[part], a[0], b[0], values[part], argmax[part])
        else:
            transform_maps(f[part], a, b, values[part], argmax[part])

    run_shards(work, np.full(len(f), int(np.prod(lengths))), executor)
    return values, argmax


def check_scores(name, f, dimensions, batch=False):
    """Return scores as float64 in C order; `dimensions` lists the allowed numbers of axes besides a batch axis."""
    f = real_numbers(f"{name} must be an array of real scores", f)
    if f.ndim - batch not in dimensions:
        wanted = " or ".join(str(d + batch) for d in dimensions)
        raise ParameterError(f"{name} must have {wanted} dimension{'s' * (wanted != '1')}, got shape {f.shape}")
    item = f.shape[batch:]
    if 0 in item:
        raise ParameterError(f"{name} must hold at least one position, got shape {f.shape}")
    if np.prod(item, dtype=float) > np.iinfo(np.int32).max:
        raise ParameterError(f"{name} must have fewer than 2^31 positions, got shape {f.shape}")
    refuse_nan(name, f)
    return f


def refuse_nan(name, f):
    """Raise an error if f holds NaN or +inf; -inf forbids a label."""
    wrong = ~(f < np.inf)
    if wrong.any():
        index = np.unravel_index(int(np.argmax(wrong)), f.shape)
        place = ", ".join(str(int(i)) for i in index)
        raise ParameterError(f"{name}[{place}] must be finite or -inf (forbidden), got {f[index]}")


def check_costs(name, value, lengths):
    """Return one finite cost for each axis."""
    value = real_numbers(f"{name} must be a number or one for each axis", value)
    if value.shape not in {(), (len(lengths),)}:
        raise ParameterError(f"{name} must be a number or {len(lengths)} of them, one for each axis of f, got shape "
                             f"{value.shape}")
    if not np.isfinite(value).all():
        raise ParameterError(f"{name} must be finite, got {value.tolist()}")
    return np.ascontiguousarray(np.broadcast_to(value, (len(lengths),)))
