"""What a solver may ask of a risk, and a risk of an oracle; both may be plain Python."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .plane import Planes


class Decoded(NamedTuple):
    """Answer of an oracle for one example.

    `value <= max_y [loss(y) + <w, psi(y)>] <= upper`; both are equal when the oracle is exact.
    """

    labelling: Any
    value: float
    upper: float


class Decodings(NamedTuple):
    """Answers of a batch: `labellings[j]` belongs to the j-th example asked for; arrays of shape (len,)."""

    labellings: Any
    values: np.ndarray
    uppers: np.ndarray


class ExamplePlane(NamedTuple):
    """Plane `offset + <slope, w>` of one example and one labelling; `slope` dense or a CSR row."""

    offset: float
    slope: Any


@runtime_checkable
class Oracle(Protocol):
    """Access to single examples, for methods that keep a state for each of them.

    Values are losses, which no w makes negative: 0 is the value of the truth. A labelling is whatever names a plane of
    an example: a class, a sequence, or the score at which a smooth loss is linearised. Weights of examples
    are part of values, offsets and slopes.

    An oracle may offer batches, without which solvers loop over `solve` and `plane`:

    ``prepare(w) -> weights``
        w as batches want it; w must stay as it is while the weights are in use.
    ``update(weights, w, indices) -> weights``
        `prepare(w)` where w, which may be the same array, differs at `indices` only (int array; repeated, unsorted or
        unchanged ones are allowed): O(len(indices)) where that pays. The old weights are spent.
    ``solve_batch(rows, weights) -> Decodings``
        `solve` for the examples `rows`.
    ``planes(rows, labellings) -> (losses (n,), slopes)``
        `plane` for one labelling of each of the examples `rows`; slopes are a csr_array (n, dim) of float64 with int32
        indices, sorted in every row, each index once, zeros left out.
    ``sizes : ndarray, shape (n_examples,)``
        work of each example, in any unit.
    """

    n_examples: int
    dim: int

    def solve(self, i: int, w: np.ndarray) -> Decoded:
        """Most violating labelling of example i at w (loss-augmented decoding), with a proven upper bound."""

    def plane(self, i: int, labelling: Any) -> ExamplePlane:
        """The plane of that labelling, valid whatever the labelling is."""

    def key(self, labelling: Any) -> Any:
        """A hashable name: equal keys mean equal planes of the same example."""


@runtime_checkable
class Risk(Protocol):
    """`R(w) = sum_p R_p(w)`, every `R_p` convex; sums over examples, never means.

    A risk may offer more, and solvers look for it by name:

    ``planes(w) -> Planes``
        values, offsets and slopes; without it the offset is `R_p(w) - <slope, w>`.
    ``values(w) -> (values (P,), errors (P,))``
        values in float64 and a bound on the rounding error of each, for the certificate; without it `evaluate` is
        taken at its word.
    ``slope_errors, offset_errors : ndarray, shape (P,)``
        bounds on the rounding error of any slope of a part (Euclidean norm) and of any offset (relative); 0 without.
    ``errors_grow : bool``
        True: `slope_errors` are those of the planes so far, and are read again with each plane.
    ``renewed(whole=True) -> Risk``
        the risk itself, or another one over the same data where these were changed in place; asked when a run starts,
        with `whole=False` where a sample of large data may decide, as no planes of an earlier run are believed.
    ``slope_sizes : ndarray, shape (P,)``
        bounds on the Euclidean norm of any slope of a part, without which slopes do not travel in float32; from
        them follows by how much rounding may put a plane above the risk.
    ``excerpt(numbers) -> callable``
        the parts of those numbers with their data only: a picklable object that makes their risk (None where they have
        no example) in another process; what executors with workers of their own need.
    ``value_errors(w, values) -> errors (P,)``
        bounds on the rounding errors of values that `evaluate` gave at w in float64: the certificate of a method that
        keeps them needs no pass then.
    ``smooth : bool``
        True: R is differentiable everywhere; taken as False without the attribute.
    ``derive(n_parts=None, precision=None, executor=None) -> Risk``
        the same risk over the same data with other parts, working precision ("float32", "float64") or executor.
    ``n_parts_given : bool``
        with `derive`: False lets a solver that is not told `n_parts` choose them; True (taken without the
        attribute) keeps the parts as they are.
    ``scores(w) -> S``, ``planes_at(S) -> Planes``, ``line_search(S0, S1, a, b, upper) -> (t, R(t))``
        scores that are affine in w, so that a segment costs no pass over the data.
    ``oracle() -> Oracle``
        access to single examples.
    """

    dim: int
    n_examples: int
    n_parts: int
    lower_bounds: np.ndarray

    def evaluate(self, w: np.ndarray) -> tuple[np.ndarray, Any]:
        """Values (P,) and subgradients (P, dim), dense or CSR, at w."""


def planes_of(risk: Risk, w: np.ndarray) -> Planes:
    """Planes of any risk at w; exact offsets where the risk has them."""
    if hasattr(risk, "planes"):
        return risk.planes(w)
    values, slopes = risk.evaluate(w)
    return Planes.from_subgradients(values, slopes, w)
