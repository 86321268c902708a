"""Sequence labellers whose C is chosen by cross-validation."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ..core.types import Callbacks
from ..solvers.method import Method
from ..templates import Templates
from .chain import CHAIN, ChainCRF, ChainSVM
from .cv import GRID, PathCV


class ChainSVMCV(PathCV, ChainSVM):
    """`ChainSVM` whose C is chosen by cross-validation, with one warm-started path per fold.

    {examples}

    Parameters
    ----------
    {grid}
    loss, rescaling, normalised : see `ChainSVM`
    {chain_parameters}
    {grid_parameters}

    Attributes
    ----------
    {grid_attributes}
    {chain_attributes}
    {certificate}

    Examples
    --------
    >>> import pybundle as pb
    >>> X = [["the", "dog", "barks"], ["dogs", "bark"], ["the", "cat"], ["cats", "bark"]]
    >>> y = [["DET", "N", "V"], ["N", "V"], ["DET", "N"], ["N", "V"]]
    >>> svm = pb.ChainSVMCV([0.1, 1.0], cv=2).fit(X, y)
    >>> svm.scores_.shape
    (2, 2)
    """

    _pieces = GRID | CHAIN
    _kind = ChainSVM

    def __init__(self, Cs: int | ArrayLike = 8, *, cv: Any = None, scoring: Any = None, search_tol: float | None = None,
                 loss: Any = "hamming", rescaling: str = "margin", normalised: bool = False, start: Any = True,
                 end: Any = True, templates: Templates | None = None, hash_bits: int | None = None,
                 min_count: int = 1, token_weights: str = "auto", scheme: str | None = None, tol: float = 0.001,
                 atol: float | None = None, method: str | Method = "auto", max_iter: int | None = None,
                 time_limit: float | None = None, n_jobs: int | None = None, random_state: Any = None,
                 warm_start: Any = False, verbose: int = 0, callback: Callbacks = None) -> None:
        self._take_arguments(locals())


class ChainCRFCV(PathCV, ChainCRF):
    """`ChainCRF` whose C is chosen by cross-validation, with one warm-started path per fold.

    {examples}

    Parameters
    ----------
    {grid}
    {chain_parameters}
    {grid_parameters}

    Attributes
    ----------
    {grid_attributes}
    {chain_attributes}
    {certificate}

    Examples
    --------
    >>> import pybundle as pb
    >>> X = [["the", "dog", "barks"], ["dogs", "bark"], ["the", "cat"], ["cats", "bark"]]
    >>> y = [["DET", "N", "V"], ["N", "V"], ["DET", "N"], ["N", "V"]]
    >>> crf = pb.ChainCRFCV([0.1, 1.0], cv=2).fit(X, y)
    >>> crf.scores_.shape
    (2, 2)
    """

    _pieces = GRID | CHAIN
    _kind = ChainCRF

    def __init__(self, Cs: int | ArrayLike = 8, *, cv: Any = None, scoring: Any = None, search_tol: float | None = None,
                 start: Any = True, end: Any = True, templates: Templates | None = None,
                 hash_bits: int | None = None, min_count: int = 1, token_weights: str = "auto",
                 scheme: str | None = None, tol: float = 0.001, atol: float | None = None,
                 method: str | Method = "auto", max_iter: int | None = None, time_limit: float | None = None,
                 n_jobs: int | None = None, random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())
