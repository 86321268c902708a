"""The record that declares a method: its options, what it requires of a risk, how its run is built.

`minimize` takes such a record, or the name of one of those in `methods.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..core.validation import check_choice, check_integer, check_number


class Option(NamedTuple):
    """An option of a method.

    Attributes
    ----------
    default : object
        Value if the user does not pass the option; it is not checked.
    check : callable or None
        `check(name, value)` returns the value or raises; None if `make_settings` or `minimize`
        reads the option, not the method.
    needs : tuple of Capability
        Without these the option has no effect for a risk, and messages do not suggest it.
    """

    default: Any = None
    check: Callable | None = None
    needs: tuple = ()


class Method(NamedTuple):
    """A method of `minimize`, which takes its name or this record.

    Attributes
    ----------
    name : str
    make : callable or None
        `make(search, **options)` returns the run (`Run`) on a `Search`; it receives the options that have a check. None
        for "auto", which chooses another method.
    options : dict of str to Option
    n_parts : int
        Default number of parts of the risk.
    needs : tuple of Capability
        What the method requires of a risk; `remedy` is the advice if the risk lacks it.
    n_epochs : int or None
        Default number of iterations of a method that does not stop by its gap; None for all others.
    penalties : {"none", "separable", "all"}
        Which penalties the objective may have beside a square.
    """

    name: str
    make: Callable | None
    options: dict
    n_parts: int = 1
    needs: tuple = ()
    remedy: str = "use method 'oca'"
    n_epochs: int | None = None
    penalties: str = "none"


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


WARM_START = {"warm_start": Option()}
BUNDLE = {"stop": Option(), "theta": Option(), "max_idle": Option(), **WARM_START}
"""Options of every bundle method."""
