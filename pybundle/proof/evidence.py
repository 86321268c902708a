"""Evidence of a certificate: multipliers of labellings, of planes or of scores, from which its lower bound follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..core.exceptions import BundleError
from ..core.kept import check_array
from ..core.ragged import Ragged
from ..core.types import Array

LARGEST = 1e120
"""Largest entry of a point: squares and products of such entries stay finite."""


@dataclass(frozen=True, eq=False)
class Labellings:
    """Multipliers of labellings: `phi = sum_j masses[j] psi_j`, `offset = sum_j masses[j] loss_j`.

    Attributes
    ----------
    examples : intp array, shape (m,)
        The example of each labelling, ascending.
    labellings : ndarray, shape (m,), or Ragged of m arrays
        In the form in which the oracle of the risk returns them.
    masses : ndarray, shape (m,)
        Multipliers >= 0; for each example they sum to at most its weight c_i, and the truth has the rest.
    """

    kind = "labellings"
    examples: np.ndarray
    labellings: Any
    masses: np.ndarray

    @classmethod
    def of(cls, examples: Any, labellings: Sequence[Any], masses: Any, weights: Any) -> Self | None:
        """Return evidence from multipliers of a run, without labellings of mass 0.

        `weights` (n,) are the c_i of all examples; masses whose sum exceeds c_i by rounding are reduced. The result is
        None if labellings are tuples or not numbers, because files cannot hold them.
        """
        kept = np.flatnonzero(masses > 0.0)
        if (np.diff(examples[kept]) < 0).any():
            kept = kept[np.argsort(examples[kept], kind="stable")]
        examples, masses = np.asarray(examples[kept], dtype=np.intp), masses[kept].astype(np.float64)
        try:
            items = _items(labellings, kept)
        except (BundleError, ValueError, TypeError):
            return None
        starts = np.flatnonzero(np.diff(examples, prepend=-1))
        counts = np.diff(starts, append=len(masses))
        sums = np.add.reduceat(masses, starts) if len(starts) else masses
        bounds, rounding = weights[examples[starts]], (counts + 8.0) * 2.0**-52
        cuts = np.where(counts == 1, np.minimum(bounds / np.maximum(sums, 1e-300), 1.0), np.where(
            sums > bounds * (1.0 - rounding), bounds / np.maximum(sums, 1e-300) * (1.0 - rounding), 1.0))
        masses = np.minimum(masses * np.repeat(cuts, counts), np.repeat(bounds, counts))
        return cls(examples, items, masses)

    def arrays(self) -> dict[str, Array]:
        """Return the arrays for a file, by name."""
        is_ragged = isinstance(self.labellings, Ragged)
        labels = {"labels": self.labellings.values, "label_offsets": self.labellings.offsets} if is_ragged else {
            "labels": self.labellings}
        return {"examples": self.examples, "masses": self.masses, **labels}

    @classmethod
    def from_arrays(cls, arrays: Any) -> Self:
        """Make the object from the result of `arrays`."""
        examples, masses, labels = (arrays.pop(name) for name in ("examples", "masses", "labels"))
        if "label_offsets" in arrays:
            labels = Ragged(labels, arrays.pop("label_offsets"))
        return cls(examples, labels, masses)

    def check(self, dim: int, n_examples: Any) -> None:
        """Raise ValueError if shapes or ranges are wrong."""
        m = np.size(self.masses)
        check_array("masses", self.masses, (m,), low=0.0)
        check_array("examples", self.examples, (m,), np.intp, 0)
        if (np.diff(self.examples) < 0).any() or self.examples.max(initial=0) >= n_examples:
            raise ValueError(f"examples must be ascending numbers below {n_examples}")
        if len(self.labellings) != m:
            raise ValueError(f"there must be {m} labellings, one for each mass, got {len(self.labellings)}")


class ByFields:
    """Base class of evidence that is stored in a file as one array for each of its fields."""

    def arrays(self) -> dict[str, Array]:
        """Return the arrays for a file, by name."""
        return dict(vars(self))

    @classmethod
    def from_arrays(cls, arrays: Any) -> Self:
        """Make the object from the result of `arrays`."""
        return cls(*(arrays.pop(name) for name in cls.__annotations__))


@dataclass(frozen=True, eq=False)
class Points(ByFields):
    """Multipliers of the planes of the risk at some points.

    Attributes
    ----------
    points : ndarray, shape (k, dim)
    weights : ndarray, shape (k, P)
        Multiplier of the plane of each part at each point. If the declared lower bound of a part is finite, they sum to
        at most 1, and the bound has the rest as its multiplier. Those of any other part are divided by their sum.
    """

    kind = "points"
    points: np.ndarray
    weights: np.ndarray

    def check(self, dim: int, n_examples: Any) -> None:
        """Raise ValueError if shapes or ranges are wrong."""
        check_array("points", self.points, (len(self.points), dim))
        if np.ndim(self.weights) != 2:
            raise ValueError("weights must be a matrix")
        check_array("weights", self.weights, (len(self.points), self.weights.shape[1]), low=0.0)
        if np.abs(self.points).max(initial=0.0) > LARGEST:
            raise ValueError(f"points must have entries of at most {LARGEST:g}")


@dataclass(frozen=True, eq=False)
class Multipliers(ByFields):
    """Multipliers of scores, at which the conjugates of the losses are finite.

    Attributes
    ----------
    beta : ndarray, shape (n,) or (n, K)
        One number for each score of each example; it contains the weight c_i. With one score, and the symbols of
        `multipliers.py`, `low c_i <= beta_i <= high c_i`, and for all w
        `R(w) >= sum_i beta_i (s_i <w, x_i> - t_i) - c_i h(beta_i / c_i)`.
    """

    kind = "multipliers"
    beta: np.ndarray

    def check(self, dim: int, n_examples: Any) -> None:
        """Raise ValueError if shapes or ranges are wrong."""
        check_array("beta", self.beta, (n_examples, *np.shape(self.beta)[1:2]))


def _items(labellings, kept):
    """Return the labellings `kept` as an array of numbers, or as a `Ragged` of arrays."""
    if isinstance(labellings, np.ndarray) and labellings.ndim == 1 and labellings.dtype.kind in "biu":
        return labellings[kept]
    items = [np.asarray(labellings[j]) for j in kept.tolist()]
    is_tuple = any(isinstance(labellings[j], tuple) for j in kept.tolist())    # a user's oracle gave (y_hat, loss)
    if is_tuple or any(item.dtype.kind not in "biuf" for item in items):
        raise TypeError("labellings must be numbers or arrays of numbers")
    return Ragged.of(items, "labellings") if any(item.ndim for item in items) else np.array(items or np.empty(0, int))
