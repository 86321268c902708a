"""The settings of a run, and the state that another run can start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runtime.stopping import GapBelow


def is_fine(tol):
    """Return whether a tolerance needs float64 scores (errors in float32 are about 1e-6) and Newton steps."""
    return tol < 1e-4


@dataclass(frozen=True)
class Settings:
    """Parameters of a run that do not define the problem.

    Attributes
    ----------
    gap : GapBelow
    memory_limit : int or None
        Bytes for planes and Gram matrix.
    record : Record or None
        Stores points and labellings as evidence; None stores none.
    factor : float
        Users see values of F times this: 1/n in the mean scale.
    random_state : int
        Seed of what a method draws.
    """

    gap: GapBelow
    memory_limit: int | None = None
    record: Any = None
    factor: float = 1.0
    random_state: int = 0


@dataclass(repr=False)
class Known:
    """What another run can start from, with any lam.

    Attributes
    ----------
    w : ndarray, shape (dim,)
        Best point.
    risk_value : float
        `R(w)`; infinite if unknown.
    fingerprint : object or None
        Identifies risk and partition, if the risk can: planes of another risk prove nothing.
    bundle : Bundle or None
        Planes of parts, of a bundle method.
    scores : object or None
        Scores at w, if the risk has them.
    blocks : object or None
        Planes or multipliers of single examples, of a block method.
    pairs : Pairs or None
        Steps and changes of the gradient, of a quasi-Newton method.
    bound : LowerBound or None
        Best lower bound; its plane holds for any lam.
    errors : (ndarray, ndarray) or None
        Rounding errors of slopes and offsets of the planes in `bundle`, by parts.
    record : Record or None
        Points and labellings of the planes, with `evidence=True`.
    size : float
        The `value` of `Size`.
    inference : float
        The `inference` of `Search`.
    """

    w: np.ndarray
    risk_value: float
    fingerprint: object = None
    bundle: Any = None
    scores: Any = None
    blocks: Any = None
    pairs: Any = None
    bound: Any = None
    errors: Any = None
    record: Any = None
    size: float = 0.0
    inference: float = 0.0

    def __repr__(self) -> str:
        kept = [name for name, value in vars(self).items() if value is not None and name not in
                ("w", "risk_value", "size", "inference")]
        return f"Known of {len(self.w)} weights with {', '.join(kept)}"
