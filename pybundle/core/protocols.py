"""What a solver may ask of a risk, and a risk of an oracle; both may be plain Python.

This module alone looks up what a risk or an oracle offers: solvers read members, methods declare a `Capability`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from .exceptions import InputTypeError, ParameterError
from .plane import Planes


class Decoded(NamedTuple):
    """Answer of an oracle for one example.

    `value <= max_y [loss(y) + <w, psi(y)>] <= upper`; both are equal when the oracle is exact.
    """

    labelling: Any
    value: float
    upper: float


class Decodings(NamedTuple):
    """Result of decoding a batch: `labellings[j]` belongs to the j-th example of the batch; arrays of shape (len,)."""

    labellings: Any
    values: np.ndarray
    uppers: np.ndarray


class ExamplePlane(NamedTuple):
    """Plane `offset + <slope, w>` of one example and one labelling; `slope` dense or a CSR row."""

    offset: float
    slope: Any


class Constant(NamedTuple):
    """What the same change of all scores does to a risk, in the coordinates of the risk; zeros where it is not known.

    R is `value` where all scores are `score`, which is least. Where R is at most v, it changes by at most
    `(linear + root sqrt(v)) t` if intercepts change by a small t.
    """

    score: float = 0.0
    value: float = 0.0
    linear: float = 0.0
    root: float = 0.0


@runtime_checkable
class Oracle(Protocol):
    """Access to single examples, for methods that keep a state for each of them.

    Values are maxima over labellings, at least 0, the value of the truth; offsets of planes are at least 0. A labelling
    is whatever names a plane of an example: a class, a sequence, or the score at which a smooth loss is linearised.
    Weights of examples are part of values, offsets and slopes.

    Solvers loop over `solve` and `plane` unless the oracle is a `pb.models.BatchOracle`.
    """

    n_examples: int
    dim: int

    def solve(self, i: int, w: np.ndarray) -> Decoded:
        """Most violating labelling of example i at w (loss-augmented decoding), with a proven upper bound."""

    def plane(self, i: int, labelling: Any) -> ExamplePlane:
        """The plane of that labelling, valid whatever the labelling is."""


@runtime_checkable
class Risk(Protocol):
    """`R(w) = sum_p R_p(w)`, every `R_p` convex; sums over examples, never means.

    `lower_bounds` are proven lower bounds of the parts, shape (P,), or one number for all; minus infinity is always
    right. A risk may offer more: see `RiskBase`, whose defaults stand for what it lacks.
    """

    dim: int
    n_examples: int
    n_parts: int
    lower_bounds: np.ndarray

    def evaluate(self, w: np.ndarray) -> tuple[np.ndarray, Any]:
        """Values (P,) and subgradients (P, dim), dense or CSR, at w."""


class RiskBase:
    """Optional members of a risk that solvers may use, with their defaults; those of `Risk` have none.

    Risks of the package derive from it. `completed` wraps any other object. None stands for what a risk does not have.

    Attributes
    ----------
    smooth : bool
        R is differentiable everywhere.
    free : bool array, shape (dim,), or None
        Weights that `lam` and penalties leave free, such as an intercept.
    means : ndarray, shape (dim,), or None
        Means of the columns of the data if the last weight is a free intercept, 0 for that weight.
    shift : Shift or None
        The change of variables in whose coordinates the risk is, see `features.shift`; of the user if None.
    constant : Constant
        The constant score that minimises R, R there, and how much R changes with intercepts.
    nonneg : bool array, shape (dim,), or None
        Weights that must not be negative.
    fingerprint : object or None
        Equal for equal risks in any process: states and checkpoints of another one are refused.
    slope_errors, offset_errors : ndarray, shape (P,), or float
        Bounds on the rounding error of any slope of a part (Euclidean norm) and of any offset (relative), for planes
        that have none of their own. With `means` `slope_errors` also bound that of `a - m a_b` for a slope a, its last
        entry a_b and the means m.
    slope_sizes : ndarray, shape (P,), or None
        Bounds on the Euclidean norm of any slope of a part. With them workers may send slopes in float32, because
        they bound by how much rounding can lift a plane above the risk.
    values : ``values(w) -> (values (P,), errors (P,))``
        Values in float64 and a bound on the rounding error of each, for the certificate; without it `evaluate` is
        trusted.
    value_errors : ``value_errors(w, values) -> errors (P,)``
        Bounds on the rounding errors of values that `evaluate` gave at w in float64: the certificate of a method that
        keeps them needs no pass then.
    precision, search_precision : {"float32", "float64"}
        Working precision of scores and planes, and of steps which promise nothing.
    n_parts_given : bool
        With `derive`: False lets a solver choose `n_parts` if the user does not.
    line_search : ``line_search(S0, S1, a, b) -> (t, R(t))``
        Searches a segment between scores that are affine in w, without a pass. A risk with it also has
        `scores(w) -> S`, an array with a row for each example, and `planes_at(S) -> Planes`.
    linear_risk : LinearRisk or None
        The risk itself if its losses depend on linear scores of flat data: see `LinearRisk` for what else it has.
    oracle : ``oracle() -> Oracle``
        Access to single examples; a smooth risk has no labellings. A risk with it also has `parts`, the examples of
        every part, and their weights `sample_weight`.
    has_exact_blocks : bool
        The labels of an example can be enumerated, and its dual maximised exactly.
    log_loss_tokens : LabelledTokens or None
        Of classes or chains with a log-loss, see `BatchOracle`. A risk with them also has
        `planes_of(distributions) -> Planes`, for distributions of its labellings.
    user_rows : Examples or None
        The rows of flat data before a shift, or of a structured model of classes: for hints and `features.dependence`.
    column_names : sequence of str or None
        Names of their columns, for messages.
    is_mapped, partition : bool, str
        The data are read from a mapped file, and how parts were dealt out: such a file wants passes in its order.
    excerpt : ``excerpt(numbers) -> callable``
        The parts of those numbers with their data only: a picklable object that makes their risk (None where they have
        no example) in another process; what executors with workers of their own need.
    sum_planes : ``sum_planes(work) -> Planes``
        Sums of `work(rows, slope) -> (value, offset)`, which adds to slope (dim,), over the examples of every part;
        package risks of examples alone.
    remote : RemoteRisk or None
        The risk itself if its parts live with workers.
    """

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
    precision = search_precision = "float64"
    n_parts_given = True
    line_search: Any = None
    linear_risk: Any = None
    oracle: Any = None
    has_exact_blocks = False
    log_loss_tokens: Any = None
    user_rows: Any = None
    column_names: Any = None
    is_mapped = False
    excerpt: Any = None
    sum_planes: Any = None
    remote: Any = None

    def map_shards(self, function: Callable[..., Any], items: Iterable[Any]) -> Iterable[Any]:
        """Results of the function, in the order of the items; here one after another."""
        return map(function, items)

    def planes(self: Any, w: ArrayLike) -> Any:
        """Values, offsets and slopes; here the offset is `R_p(w) - <slope, w>`."""
        values, slopes = self.evaluate(w)
        return Planes.from_subgradients(values, slopes, w)

    def derive(self: Any, n_parts: int | None = None, precision: str | None = None, executor: Any = None) -> Any:
        """The same risk over the same data with other parts, working precision or executor; here the risk itself."""
        if n_parts not in (None, self.n_parts):
            raise ParameterError(f"n_parts must be {self.n_parts} for this risk, which cannot be regrouped, got "
                                 f"{n_parts}")
        return self

    def renewed(self, whole: bool = True) -> Any:
        """Return the risk itself, or a new one over the same data if these were changed in place.

        Called when a run starts, with `whole=False` if a sample of large data suffices, because no planes of an earlier
        run are believed.
        """
        return self


class Completed:
    """Somebody's risk, with the defaults of `RiskBase` for what it lacks; what it derives is completed, too."""

    def __init__(self, risk):
        self.given = risk

    def __getattr__(self, name: str) -> Any:
        if name == "given" or name.startswith("__"):        # while a copy is being made
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
    """Return the risk with every member of `RiskBase`: itself if it derives from that, else a `Completed` around it."""
    return risk if isinstance(risk, (RiskBase, Completed)) else Completed(risk)


def is_risk(thing):
    """Whether it has the method of a risk, `evaluate`."""
    return hasattr(thing, "evaluate")


def name_of(risk):
    """Return the class of a risk, without wrappers."""
    return type(risk.given if isinstance(risk, Completed) else risk).__name__


def check_risk(risk):
    """Refuses a risk that lacks a member of `Risk`."""
    missing = [name for name in ("dim", "n_parts", "n_examples", "lower_bounds") if not hasattr(risk, name)]
    if missing:
        raise InputTypeError(f"risk must have the attributes dim, n_parts, n_examples and lower_bounds; "
                             f"{type(risk).__name__} lacks {', '.join(missing)}")
    free = getattr(risk, "free", None)
    if not (free is None or (isinstance(free, np.ndarray) and free.dtype == np.bool_ and free.shape == (risk.dim,))):
        raise InputTypeError(f"free of {type(risk).__name__} must be a bool array of shape ({risk.dim},), got "
                             f"{free!r:.60}")
    constant = getattr(risk, "constant", Constant())
    if not isinstance(constant, Constant):
        raise InputTypeError(f"constant of {type(risk).__name__} must be a pybundle.core.protocols.Constant, got "
                             f"{constant!r:.60}; rename it if it means another thing")


def errors_of(risk, slopes=None, offsets=None):
    """Return bounds on rounding errors of slopes and of offsets, shape (P,); where not given, those of the risk."""
    return tuple(np.broadcast_to(np.asarray(errors, dtype=float), (risk.n_parts,)) for errors in (
        risk.slope_errors if slopes is None else slopes, risk.offset_errors if offsets is None else offsets))


def with_errors(planes, risk):
    """Return planes of a risk with the bounds on their rounding errors, their own or those that the risk states."""
    slopes, offsets = errors_of(risk, planes.slope_errors, planes.offset_errors)
    return planes._replace(slope_errors=slopes, offset_errors=offsets)


class Capability(NamedTuple):
    """Something that a method or an option may require of a risk.

    Attributes
    ----------
    words : str
        `method 'x' {words}`; "{name}" stands for the class of the risk.
    holds : callable
        `holds(risk)` of a completed risk.
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
    """Return the planes of any risk at w and their errors, with its own offsets if the risk computes them."""
    risk = completed(risk)
    return with_errors(risk.planes(w), risk)
