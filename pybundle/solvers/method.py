"""What a method declares: its options, what it requires of a risk, how its run is made, what a checkpoint holds of it.

`METHODS` in `methods.py` maps names to these records; nothing else knows a method by its name or class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.exceptions import InputTypeError
from ..core.validation import check_choice, check_integer, check_number


class Problem(NamedTuple):
    """What a run is made from: arguments of `minimize`, checked, and the options still as they came."""

    risk: Any
    objective: Any
    settings: Any
    options: dict
    random_state: int | None
    deterministic: bool


class Option(NamedTuple):
    """An option of a method.

    Attributes
    ----------
    default : object
        Taken without a check where nobody gives the option.
    check : callable or None
        `check(name, value)` returns the value or raises; None: `make_settings` or `minimize` reads it, not the method.
    needs : tuple of Capability
        Without these the option means nothing for a risk, and messages do not offer it.
    """

    default: Any = None
    check: Callable | None = None
    needs: tuple = ()


class Method(NamedTuple):
    """A method of `minimize`.

    Attributes
    ----------
    make : callable
        `make(problem, **options)` returns the run (`Run`), of options those with a check.
    options : dict of str to Option
    n_parts : int
        Parts of the risk where the caller leaves the choice.
    needs : tuple of Capability
        What it requires of a risk, and `remedy` what to do without.
    serialised : tuple of type
        Classes that the run is made of. A class may name further ones in an attribute `serialised` of its own.
    n_epochs : int or None
        Iterations after which it is meant to end, if not `max_iter` says otherwise; None: by its gap.
    """

    make: Callable
    options: dict
    n_parts: int = 1
    needs: tuple = ()
    remedy: str = "use method 'oca'"
    serialised: tuple = ()
    n_epochs: int | None = None


def number(**limits):
    """A check: a number within limits, as in `check_number`."""
    return lambda name, value: check_number(name, value, **limits)


def integer(low=1):
    """A check: an integer of at least `low`."""
    return lambda name, value: check_integer(name, value, low=low)


def choice(*names):
    """A check: one of some names."""
    return lambda name, value: check_choice(name, value, names)


def or_none(check):
    """A check that lets None pass."""
    return lambda name, value: None if value is None else check(name, value)


def truth(name, value):
    """A check: True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputTypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


WARM_START = {"warm_start": Option()}
BUNDLE = {"stop": Option(), "theta": Option(), "max_idle": Option(), **WARM_START}
"""Options of every bundle method."""
