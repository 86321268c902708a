"""`DependencyParserCV`, a parser whose C is chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from ..core.types import Callbacks
from ..solvers.method import Method
from .cv import GRID, PathCV
from .dependency import DependencyParser


class DependencyParserCV(PathCV, DependencyParser):
    """`DependencyParser` whose C is chosen by cross-validation, with one warm-started path per fold.

    Parameters
    ----------
    {grid}
    loss, attributes, templates, hash_bits, min_count, single_root, relations, relation_templates, counts, uncounted
        See `DependencyParser`.
    {grid_parameters}

    Attributes
    ----------
    {grid_attributes}
    coef_, kinds_, vocabulary_, relations_, allowed_, n_features_in_ : see `DependencyParser`
    {certificate}

    Examples
    --------
    >>> import pybundle as pb
    >>> X = [[("dogs", "N"), ("bark", "V")], [("cats", "N"), ("sleep", "V")]] * 2
    >>> y = [[2, 0], [2, 0]] * 2
    >>> parser = pb.DependencyParserCV([0.1, 1.0], cv=2, hash_bits=12).fit(X, y)
    >>> parser.scores_.shape, parser.predict(X[:1])
    ((2, 2), [[2, 0]])
    """

    _pieces = GRID
    _kind = DependencyParser

    def __init__(self, Cs: int | ArrayLike = 8, *, cv: Any = None, scoring: Any = None, search_tol: float | None = None,
                 loss: str = "hinge", attributes: Sequence[str] = ("word", "pos"),
                 templates: Sequence[str] | None = None, hash_bits: int = 18, min_count: int = 1,
                 single_root: bool = True, relations: bool = False, relation_templates: Sequence[str] | None = None,
                 counts: str = "both", uncounted: Sequence[str] = (), tol: float = 0.001, atol: float | None = None,
                 method: str | Method = "auto", max_iter: int | None = None, time_limit: float | None = None,
                 n_jobs: int | None = None, random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())
