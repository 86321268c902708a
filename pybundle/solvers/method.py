"""The base class of the records in `pb.methods`: a method's options, what it requires of a risk, how its run begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import check_choice, check_count, check_number
from .run import Run

Check: TypeAlias = Callable[[str, Any], Any]
"""`check(name, value)` returns the value of an option, or raises."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method of `minimize`: a frozen record of its options, from which a run begins.

    A method of your own is a frozen dataclass that derives from this one. It has a `name`, its options as fields (made
    by `option`, so that they are checked), and `begin`, which returns a `Run`. It needs no registration: pass the
    record to `minimize`, `path` or `Solve`. A checkpoint compares its text, `str(method)`, which names all options that
    are not defaults. See "Write your own method" in the documentation.

    Attributes
    ----------
    name : str
        First word of the text of the record. These attributes are those of the class, and no options.
    n_parts : int
        Default number of parts of the risk.
    n_epochs : int or None
        Default of `max_iter` for a method that does not stop by its gap, and gives no warning then; None for all
        others.
    needs : tuple of Capability
        What the method requires of a risk, from `pybundle.core.protocols`: BOUNDED (R >= 0), SMOOTH, LABELLINGS (an
        oracle of single examples), and others. `minimize` refuses other risks.
    remedy : str
        Advice in that error.
    penalties : {"none", "separable", "all"}
        Which objectives the method takes. "none": one number lam, so that `problem.square.lam` exists; "separable":
        also penalties that are sums over single weights, and free weights; "all": any penalty and linear constraints,
        `problem.rows`, which `begin` refuses if the method leaves them out.

    Examples
    --------
    >>> import pybundle as pb
    >>> method = pb.methods.BMRM(theta=0.02)
    >>> str(method), pb.methods.parse("bmrm theta=0.02") == method
    ('bmrm theta=0.02', True)
    """

    name: ClassVar[str] = ""
    n_parts: ClassVar[int] = 1
    n_epochs: ClassVar[int | None] = None
    needs: ClassVar[tuple[Any, ...]] = ()
    remedy: ClassVar[str] = "use method 'oca'"
    penalties: ClassVar[str] = "none"

    def __post_init__(self) -> None:
        for option in fields(self):
            value, check = getattr(self, option.name), option.metadata.get("check")
            if check is not None and value is not option.default:
                value = check(option.name, value)
                object.__setattr__(self, option.name, value)
            if isinstance(value, np.ndarray):
                raise InputTypeError(f"{option.name} of method {self.name!r} must not be an array, which the text of a "
                                     f"record cannot hold; let its check return a tuple, as by tuple(array.tolist())")

    def begin(self, search: Any) -> Run:
        """Return the run of this method on a search; the run is not started yet.

        Parameters
        ----------
        search : Search
            With the risk, already divided into its parts, the problem and the settings. A method may look at them here,
            and refuse what it does not take, but it asks the risk for planes only from `Run.start` on.

        Returns
        -------
        Run

        Raises
        ------
        ParameterError
            If the method cannot minimise this problem for a reason that `needs` and `penalties` do not say.
        """
        raise NotImplementedError

    def stage(self, name: str) -> Method:
        """Return the record of the method of that name, among those that a solve with this record may run.

        That is the record itself, except in `Auto`. A checkpoint that is resumed looks up its method here.
        """
        if name != self.name:
            raise ParameterError(f"method {self.name!r} has no stage {name!r}")
        return self

    def __str__(self) -> str:
        given = {option.name: getattr(self, option.name) for option in fields(self)
                 if getattr(self, option.name) != option.default}
        return " ".join([self.name, *(f"{name}={value}" for name, value in given.items())])


def option(default: T, check: Check) -> T:
    """Return a field of a record, an option with a default and a check.

    Parameters
    ----------
    default : object
        It is not checked, so that None may stand for "the method chooses".
    check : callable
        `check(name, value)` returns the value, perhaps converted, or raises `ParameterError`; such as `integer`,
        `number(low=0.0)`, `choice("a", "b")`, `or_none(integer)`.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from pybundle.methods import Method, number, option
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Mine(Method):
    ...     name = "mine"
    ...     step: float = option(1.0, number(low=0.0, strict=True))
    >>> str(Mine(step=2))
    'mine step=2.0'
    >>> Mine(step=-1)
    Traceback (most recent call last):
    pybundle.core.exceptions.ParameterError: step must be a finite number > 0, got -1.0
    """
    return field(default=default, metadata={"check": check})


def number(**limits: Any) -> Check:
    """A check for `option`: a finite number within limits, which becomes a float.

    Parameters
    ----------
    **limits
        `low` and `high`, the least and the largest value; `strict=True` excludes `low`.

    Returns
    -------
    callable

    Examples
    --------
    >>> from pybundle.methods import number
    >>> number(low=0.0, high=1.0)("theta", 1)
    1.0
    """
    return lambda name, value: check_number(name, value, **limits)


def integer(name: str, value: Any) -> int:
    """A check for `option`: an integer of at least 1.

    Examples
    --------
    >>> from pybundle.methods import integer
    >>> integer("batch", 0)
    Traceback (most recent call last):
    pybundle.core.exceptions.ParameterError: batch must be an integer >= 1, got 0
    """
    return check_count(name, value)


def choice(*names: str) -> Check:
    """A check for `option`: one of some texts.

    Parameters
    ----------
    *names : str

    Returns
    -------
    callable

    Examples
    --------
    >>> from pybundle.methods import choice
    >>> choice("long", "short")("step", "short")
    'short'
    """
    return lambda name, value: check_choice(name, value, names)


def or_none(check: Check) -> Check:
    """A check for `option` that lets None pass, and else applies another check.

    Parameters
    ----------
    check : callable

    Returns
    -------
    callable

    Examples
    --------
    >>> from pybundle.methods import integer, or_none
    >>> or_none(integer)("batch", None) is None
    True
    """
    return lambda name, value: None if value is None else check(name, value)
