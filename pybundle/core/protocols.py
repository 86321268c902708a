"""The protocols of a risk, which solvers use, and of an oracle, which risks use; both may be plain Python.

Only this module looks up which members a risk or an oracle has. Solvers read members of a completed risk, and methods
declare the `Capability` that they need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from .exceptions import InputTypeError, ParameterError
from .plane import Planes


class Maximum(NamedTuple):
    """What an oracle finds for one example: a labelling, its value, and an upper bound of all values.

    `value <= max_y [loss(y) + <w, psi(y)>] <= upper`; value and upper are equal if the oracle is exact.
    """

    labelling: Any
    value: float
    upper: float


class Decodings(NamedTuple):
    """Result of decoding a batch: `labellings[j]`, `values[j]` and `uppers[j]` belong to its j-th example."""

    labellings: Any
    values: np.ndarray
    uppers: np.ndarray


class ExamplePlane(NamedTuple):
    """Plane `offset + <slope, w>` of one example and one labelling; `slope` dense or a CSR row."""

    offset: float
    slope: Any


class Constant(NamedTuple):
    """How a risk depends on a constant added to all scores, in the coordinates of the risk; 0 if that is not known.

    If all scores are equal, R is least at the score `score`, where it is `value`. Where R is at most v, it changes by
    at most `(linear + root sqrt(v)) t` if intercepts change by a small t.
    """

    score: float = 0.0
    value: float = 0.0
    linear: float = 0.0
    root: float = 0.0


@runtime_checkable
class Oracle(Protocol):
    """Access to single examples, for methods that keep a state for each of them.

    Values are maxima over labellings; the truth has the value 0, so that they are not negative. Offsets of planes are
    not negative either. A labelling is anything that identifies a plane of an example: a class, a sequence, or the
    score at which a smooth loss is linearised. Weights of examples are part of values, offsets and slopes.

    Solvers loop over `solve` and `plane` unless the oracle is a `pb.models.BatchOracle`.
    """

    n_examples: int
    dim: int

    def solve(self, i: int, w: np.ndarray) -> Maximum:
        """Return the most violated labelling of example i at w (loss-augmented decoding), with a proven upper bound."""

    def plane(self, i: int, labelling: Any) -> ExamplePlane:
        """Return the plane of a labelling of example i; it lies below the loss of i whichever labelling is passed."""


@runtime_checkable
class Risk(Protocol):
    """`R(w) = sum_p R_p(w)`, every `R_p` convex; sums over examples, never means.

    `lower_bounds` are proven lower bounds of the parts, shape (P,), or one number for all; minus infinity is always
    valid. A risk may have the optional members of `RiskBase`; for those that it lacks, the defaults there are used.
    """

    dim: int
    n_examples: int
    n_parts: int
    lower_bounds: np.ndarray

    def evaluate(self, w: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return values (P,) and subgradients (P, dim), dense or CSR, at w."""


class RiskBase:
    """Optional members of a risk that solvers may use, with their defaults; the members of `Risk` are required.

    Risks of the package derive from this class. `completed` wraps any other risk. None means that a member is missing.

    Attributes
    ----------
    smooth : bool
        R is differentiable everywhere.
    free : bool array, shape (dim,), or None
        Weights to which no penalty applies, such as an intercept.
    means : ndarray, shape (dim,), or None
        Means of the columns of the data if the last weight is a free intercept, 0 for that weight.
    shift : Shift or None
        The change of variables between w of the risk and w of the user, see `features.shift`; None if both are equal.
    constant : Constant
        The constant score that minimises R, the value of R there, and how much R changes with intercepts.
    nonneg : bool array, shape (dim,), or None
        Weights that must not be negative.
    fingerprint : object or None
        Equal for equal risks in any process; states and checkpoints with another fingerprint are refused.
    slope_errors, offset_errors : ndarray, shape (P,), or float
        Bounds on the rounding error of any slope of a part (Euclidean norm) and of any offset (relative), for planes
        without errors of their own. With `means`, `slope_errors` also bound the rounding error of `a - m a_b` for a
        slope a, its last entry a_b and the means m.
    slope_sizes : ndarray, shape (P,), or None
        Bounds on the Euclidean norm of any slope of a part. With them workers may send slopes in float32, because the
        norms bound how far rounding can lift a plane above the risk.
    values : ``values(w) -> (values (P,), errors (P,))``
        Values in float64 and a bound on the rounding error of each, for the certificate; without this member the values
        of `evaluate` count as exact.
    value_errors : ``value_errors(w, values) -> errors (P,)``
        Bounds on the rounding errors of values that `evaluate` returned at w in float64. With them the certificate of a
        method that has these values needs no further pass.
    curvatures : ``curvatures(w) -> (dim, dim)``
        Approximate second derivatives of a smooth risk at w, for steps; only risks with `user_rows` have them.
    precision, search_precision : {"float32", "float64"}
        Working precision of scores and planes, and of steps that prove no bound.
    n_parts_given : bool
        Needs `derive`. False lets a solver choose `n_parts` unless the user chooses it.
    line_search : ``line_search(S0, S1, a, b) -> (t, R(t))``
        Searches a segment between scores that are affine in w, without a pass. A risk with it also has
        `scores(w) -> S`, an array with a row for each example, and `planes_at(S) -> Planes`.
    linear_risk : LinearRisk or None
        The risk itself if its losses depend on linear scores of flat data; `LinearRisk` has further members.
    oracle : ``oracle() -> Oracle``
        Access to single examples; a smooth risk has no labellings. A risk with an oracle also has `parts`, the examples
        of every part, and their weights `sample_weight`.
    decodes_exactly : bool
        Whether values are those of R. If not, they are upper bounds, which may lie above the planes at the same point;
        the difference is the part of the gap that inexact decoding leaves.
    kind : {"true", "relaxed"}
        Whether maxima are over labellings, or over a larger set for which they can be computed.
    assumption : str
        What a certificate takes for granted, in words for the message of a result.
    has_exact_blocks : bool
        The labels of an example can be enumerated, and its dual maximised exactly.
    log_loss_tokens : LabelledTokens or None
        For classes or chains with a log-loss, see `BatchOracle`. Such a risk also has
        `planes_of(distributions) -> Planes`, for distributions over its labellings.
    user_rows : Examples or None
        The rows of flat data before a shift, or of a structured model of classes; used for hints and for
        `features.dependence`.
    column_names : sequence of str or None
        Names of the columns of `user_rows`, for messages.
    is_mapped, partition : bool, str
        Whether the data are read from a mapped file, and how examples were assigned to parts. A pass over a mapped file
        is fast only in the order of the file.
    excerpt : ``excerpt(numbers) -> callable``
        The parts with these numbers and their data alone, for executors that have workers. The result can be pickled; a
        call of it, in another process, returns the risk of these parts, or None if they have no example.
    sum_planes : ``sum_planes(work) -> Planes``
        Calls `work(rows, slope) -> (value, offset)`, which adds to slope (dim,), for the examples of every part, and
        returns the sums. Only risks of the package that are sums over examples have it.
    remote : RemoteRisk or None
        The risk itself if workers hold its parts.
    """

    n_parts: int        # no default, because every risk sets n_parts
    smooth = False
    nonneg: Any = None
    free: Any = None
    means: Any = None
    shift: Any = None
    constant: Any = Constant()
    fingerprint: Any = None
    slope_errors: Any = 0.0
    offset_errors: Any = 0.0
    slope_sizes: Any = None
    values: Any = None
    value_errors: Any = None
    curvatures: Any = None
    precision = search_precision = "float64"
    n_parts_given = True
    line_search: Any = None
    linear_risk: Any = None
    oracle: Any = None
    decodes_exactly = True
    kind = "true"
    assumption = ""
    has_exact_blocks = False
    log_loss_tokens: Any = None
    user_rows: Any = None
    column_names: Any = None
    is_mapped = False
    excerpt: Any = None
    sum_planes: Any = None
    remote: Any = None

    def map_shards(self, function: Callable[..., Any], items: Iterable[Any]) -> Iterable[Any]:
        """Return the results of the function, in the order of the items; the default calls it for one after another."""
        return map(function, items)

    def planes(self: Any, w: ArrayLike) -> Planes:
        """Return the planes at w; by default from `evaluate`, with the offset `R_p(w) - <slope, w>`."""
        values, slopes = self.evaluate(w)
        return Planes.from_subgradients(values, slopes, w)

    def aim(self, accuracy: float) -> None:
        """Set how far upper bounds of decodings may lie above values, per example on average, in the passes to come.

        Decoders with a parameter `accuracy` receive it, divided by the weight of the example; infinite at first.
        """

    def derive(self, n_parts: int | None = None, precision: str | None = None, executor: Any = None) -> Self:
        """Return the risk of the same data with other parts, precision or executor; by default the risk itself."""
        if n_parts not in (None, self.n_parts):
            raise ParameterError(f"n_parts must be {self.n_parts} for this risk, which cannot be regrouped, got "
                                 f"{n_parts}")
        return self

    def renewed(self, whole: bool = True) -> Self:
        """Return the risk itself, or a new risk of the same data if these were changed in place.

        A run calls it at its start. If the run uses no planes of an earlier one, it passes `whole=False`: then a check
        of a sample suffices for large data.
        """
        return self


class Completed:
    """A user's risk with the defaults of `RiskBase` for members that it lacks; what it derives is wrapped, too."""

    def __init__(self, risk):
        self.given = risk

    def __getattr__(self, name: str) -> Any:
        if name == "given" or name.startswith("__"):        # `given` is missing while the object is copied
            raise AttributeError(name)
        try:
            return getattr(self.given, name)
        except AttributeError:
            if not hasattr(RiskBase, name):
                raise
            default = getattr(RiskBase, name)
            return default.__get__(self) if callable(default) else default

    def derive(self, **changes):
        return self._again("derive", changes)

    def renewed(self, **how):
        return self._again("renewed", how)

    def _again(self, name, arguments):
        if not hasattr(self.given, name):
            return getattr(RiskBase, name)(self, **arguments)
        made = getattr(self.given, name)(**arguments)
        return self if made is self.given else completed(made)


def completed(risk):
    """Return a risk with every member of `RiskBase`: the risk itself if it derives from that, else a `Completed`."""
    return risk if isinstance(risk, (RiskBase, Completed)) else Completed(risk)


def is_risk(thing):
    """Return whether an object has the method of a risk, `evaluate`."""
    return hasattr(thing, "evaluate")


def name_of(risk):
    """Return the name of the class of a risk, without the wrapper `Completed`."""
    return type(risk.given if isinstance(risk, Completed) else risk).__name__


def check_risk(risk):
    """Refuse a risk that lacks a member of `Risk`."""
    missing = [name for name in ("dim", "n_parts", "n_examples", "lower_bounds") if not hasattr(risk, name)]
    if missing:
        raise InputTypeError(f"risk must have the attributes dim, n_parts, n_examples and lower_bounds; "
                             f"{type(risk).__name__} lacks {', '.join(missing)}")
    free = getattr(risk, "free", None)
    if not (free is None or (isinstance(free, np.ndarray) and free.dtype == np.bool_ and free.shape == (risk.dim,))):
        raise InputTypeError(f"free of {type(risk).__name__} must be a bool array of shape ({risk.dim},), got "
                             f"{free!r:.60}")


def constant_of(risk):
    """Return the `Constant` of a completed risk, which takes some of them a search over all examples."""
    constant = risk.constant
    if not isinstance(constant, Constant):
        raise InputTypeError(f"constant of {name_of(risk)} must be a pybundle.core.protocols.Constant, got "
                             f"{constant!r:.60}; rename it if it means another thing")
    return constant


def errors_of(risk, slopes=None, offsets=None):
    """Return bounds on rounding errors of slopes and of offsets, each of shape (P,); by default those of the risk."""
    shape = (risk.n_parts,)
    found = (np.asarray(errors, dtype=float) for errors in (
        risk.slope_errors if slopes is None else slopes, risk.offset_errors if offsets is None else offsets))
    return tuple(errors if errors.shape == shape else np.full(shape, errors) for errors in found)


def with_errors(planes, risk):
    """Return planes with bounds on their rounding errors; planes without such bounds get those of the risk."""
    slopes, offsets = errors_of(risk, planes.slope_errors, planes.offset_errors)
    return planes._replace(slope_errors=slopes, offset_errors=offsets)


class Capability(NamedTuple):
    """A property of risks that a method or an option may require.

    Attributes
    ----------
    words : str
        End of the message that begins with "method 'x'"; "{name}" is replaced by the class of the risk.
    holds : callable
        `holds(risk)` tells whether a completed risk has the property.
    """

    words: str
    holds: Callable


SMOOTH = Capability("needs a smooth risk, and {name} here is not declared smooth", lambda risk: risk.smooth)
HESSIAN = Capability("needs a smooth risk of one score with second derivatives; {name} has none",
                     lambda risk: risk.linear_risk is not None and risk.linear_risk.second_derivatives is not None)
LABELLINGS = Capability("needs a risk whose single examples have labellings; {name} has none here",
                        lambda risk: risk.oracle is not None and not risk.smooth)
STORED = Capability("needs a risk whose labellings of examples are stored; {name} has none here",
                    lambda risk: LABELLINGS.holds(risk) and not risk.has_exact_blocks)
FURTHER = Capability("needs a model that returns more than the best labelling; that of {name} does not",
                     lambda risk: STORED.holds(risk) and getattr(risk.oracle(), "has_further", False))
EPOCHS = Capability("needs a risk with access to single examples; {name} has none",
                    lambda risk: risk.sum_planes is not None and risk.oracle is not None and (
                        risk.linear_risk is not None or LABELLINGS.holds(risk)))
SINGLE = Capability("needs a risk whose single examples have labellings or exact steps; {name} has none here",
                    lambda risk: LABELLINGS.holds(risk) or risk.has_exact_blocks
                    or risk.log_loss_tokens is not None)
BOUNDED = Capability("starts from the bound R >= 0, which {name} does not declare (lower_bounds)",
                     lambda risk: bool((np.asarray(risk.lower_bounds, dtype=float) >= 0.0).all()))
CORNERS = Capability("needs a loss of one score that is piecewise linear; that of {name} is not",
                     lambda risk: risk.linear_risk is not None and risk.linear_risk.curve is not None
                     and not risk.smooth)
AFFINE_SCORES = Capability("needs a risk with affine scores; {name} has none",
                           lambda risk: risk.line_search is not None)


def require(asker, needs, risk, remedy):
    """Raise ParameterError if `asker`, a method or an option, lacks one of the capabilities `needs`."""
    for capability in needs:
        if not capability.holds(risk):
            raise ParameterError(f"{asker} {capability.words.format(name=name_of(risk))}; {remedy}")


def planes_of(risk, w):
    """Return the planes of any risk at w, with their errors; a risk with a method `planes` computes its own offsets."""
    risk = completed(risk)
    return with_errors(risk.planes(w), risk)
