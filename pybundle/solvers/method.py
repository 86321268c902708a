"""The base class of the records in `pb.methods`: a method's options, what it requires of a risk, how its run begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from ..core.exceptions import ParameterError
from ..core.validation import check_choice, check_integer, check_number

if TYPE_CHECKING:
    from .run import Run
    from .search import Search


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method of `minimize`: a frozen record of its options, from which a run begins.

    A method of your own is a subclass with a `name` and `begin`; its options are the fields of a frozen dataclass. It
    needs no registration: a checkpoint compares the text of the record.

    Attributes
    ----------
    name : str
        First word of the text of the record.
    n_parts : int
        Default number of parts of the risk.
    n_epochs : int or None
        Default of `max_iter` for a method that does not stop by its gap, and gives no warning then; None for all
        others.
    needs : tuple of Capability
        What the method requires of a risk; `remedy` is the advice if the risk lacks it.
    penalties : {"none", "separable", "all"}
        Which penalties the objective may have beside a square.

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
                object.__setattr__(self, option.name, check(option.name, value))

    def begin(self, search: Search) -> Run:
        """Return the run of this method on a search, not started yet."""
        raise NotImplementedError

    def stage(self, name: str) -> Method:
        """Return the record of the method of that name, of those that a solve with this one may run."""
        if name != self.name:
            raise ParameterError(f"method {self.name!r} has no stage {name!r}")
        return self

    def __str__(self) -> str:
        given = {option.name: getattr(self, option.name) for option in fields(self)
                 if getattr(self, option.name) != option.default}
        return " ".join([self.name, *(f"{name}={value}" for name, value in given.items())])


def option(default: Any, check: Callable[[str, Any], Any]) -> Any:
    """Return a field of a record: `check(name, value)` returns the value or raises; the default is not checked."""
    return field(default=default, metadata={"check": check})


def number(**limits):
    """A check: a number within limits, as in `check_number`."""
    return lambda name, value: check_number(name, value, **limits)


def integer(name, value):
    """A check: an integer of at least 1."""
    return check_integer(name, value, low=1)


def choice(*names):
    """A check: one of some names."""
    return lambda name, value: check_choice(name, value, names)


def or_none(check):
    """A check that lets None pass."""
    return lambda name, value: None if value is None else check(name, value)
