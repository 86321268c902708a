"""`Decoded` is what an inexact decoder returns: a labelling, and an upper bound on the value of all labellings."""

from __future__ import annotations

import inspect
import math
import numbers
from typing import Any

from ..core.exceptions import OracleError

LARGEST = 1e300


class Decoded:
    """A labelling, and a proven upper bound on the value of every labelling.

    A decoder returns it in place of the labelling if it stops before it has proven the labelling best: a mixed-integer
    solver with a gap, a linear relaxation, a search with bounds. F is then computed from the upper bounds, planes from
    the labellings, so that `result.lower_bound <= min F <= result.fun` holds whatever the labellings are.

    Parameters
    ----------
    labelling : object
        The labelling found; the pair `(y_hat, loss)` for a pair of callables. If the truth is better, the truth is
        taken in its place.
    upper : float
        An upper bound of `loss(y, y') + <w, Psi(x, y')>` over all labellings y', the truth not subtracted, as the
        solver reports it; of `<w, Psi(x, y')>` in `decode`. With slack rescaling a bound of
        `loss(y, y') (1 + <w, Psi(x, y') - Psi(x, y)>)`.

    Notes
    -----
    A decoder with a parameter `accuracy` receives how far `upper` may lie above the value of the labelling to be of use
    in this pass; it is infinite in the first pass, and shrinks with the gap of the run:
    `.3 max(fun - lower_bound, tol |fun|, atol) / (n c_i)` for an example of weight c_i.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> class Signs(pb.models.StructuredModel):
    ...     dim = 1
    ...     def joint_feature(self, x, y):
    ...         return np.array([y * x])
    ...     def loss(self, y, y_hat):
    ...         return float(y != y_hat)
    ...     def decode(self, w, x):
    ...         return 1 if w[0] * x >= 0.0 else -1
    ...     def loss_augmented_decode(self, w, x, y):
    ...         value, y_hat = max((self.loss(y, z) + z * x * w[0], z) for z in (1, -1))
    ...         return pb.Decoded(y_hat, upper=value + 1e-3)
    >>> risk = pb.risks.Structured(Signs(), [1.0, 2.0, -1.0], [1, 1, -1])
    >>> result = pb.minimize(risk, lam=1.0, tol=1e-6)
    >>> result.status.name, bool(result.inference_gap > 0.9 * result.gap)
    ('INFERENCE', True)
    """

    def __init__(self, labelling: Any, upper: float) -> None:
        if not isinstance(upper, numbers.Real) or not abs(upper) <= LARGEST:
            raise OracleError(f"upper of Decoded must be a finite number, got {upper!r:.60}; return the bound that the "
                              "solver has proven")
        self.labelling: Any = labelling
        found = float(upper)
        self.upper: float = found if found >= upper else math.nextafter(found, math.inf)

    def __repr__(self) -> str:
        return f"Decoded({self.labelling!r}, upper={self.upper:g})"


def takes_accuracy(function):
    """Return whether a function of a user takes `accuracy` by name."""
    try:
        found = inspect.signature(function).parameters.get("accuracy")
    except (TypeError, ValueError):         # the signature of compiled code may be unknown
        return False
    return found is not None and found.kind in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY)


def labelling_of(answer):
    """Return the labelling that a decoder has found, with or without a bound."""
    return answer.labelling if isinstance(answer, Decoded) else answer
