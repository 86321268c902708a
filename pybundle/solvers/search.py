"""The search that all methods share: it asks the risk for planes, and remembers best point and best bound.

A method asks for planes at points of its choice (`visit`), reports values that it has found in other ways (`observe`)
and lower bounds (`offer`), and ends when best value and best bound are close (`is_close`).
"""

from __future__ import annotations

import numpy as np

from ..core.exceptions import ContradictionError, NumericalError, OracleError, ParameterError
from ..core.kept import check_array, check_float
from ..core.plane import Plane
from ..core.protocols import completed
from ..core.rounding import norm
from ..core.validation import read_only
from ..runtime.lower_bound import LowerBound
from ..runtime.stopping import GapBelow
from .counting import Counting, Trace
from .evidence.record import messages_of
from .inexact_decoding import InexactDecoding
from .plane_checks import PlaneChecks, as_arrays, lower_bounds_of, summed
from .problem.free_weights import FreeWeights, ProvenLimits
from .problem.size import Size
from .state import Known

MODERATE = 1e10
"""At points of larger norm powers in a penalty may overflow."""
SMALL = 1e-9
"""Upper bounds that lie above values by at most this share of R do so because of rounding."""
NAMELESS = "unknown"
"""Fingerprint of a risk whose own fingerprint cannot be computed; no other run can start from its state."""


class Search(Counting):
    """The best point and the best bound of a run on one risk, whatever its method.

    A method makes its passes by `visit`, and offers its bounds by `offer`, as in::

        planes, fun = search.visit(w)               # one pass: planes of the parts, F(w)
        plane = search.summed(planes)               # a plane of the whole risk
        search.offer(search.bound_from(plane))      # what the plane proves
        search.log(fun)                             # a row of the history
        done = search.is_close()                    # value and bound are close enough

    Values and bounds are in the scale of the sum of the losses, also with `scale="mean"`. What is visited, observed or
    offered becomes read-only: copy what you change later.

    Attributes
    ----------
    risk : Risk
        With all members of `RiskBase`; replaced by its version in float64 where float32 is not enough.
    problem, settings : Problem, Settings
        The objective, and tolerance, memory limit and seed of the call.
    w : ndarray, shape (dim,), or None
        Best point, read-only; None until there is one.
    risk_value, fun : float
        `R(w)` and `F(w)`; infinite until there is a point.
    values : ndarray, shape (P,), or None
        Values of the parts at w.
    inference : float
        How far, at w, values lie above those of the labellings found; 0 if decoding is exact.
    bound : LowerBound or None
        Best lower bound, `bound.value`, with the plane that proves it; None before the first `offer`, which also counts
        the bounds that the risk declares.
    lower_bounds : ndarray, shape (P,)
        The lower bounds of the parts that the risk declares.
    version, bound_version : int
        Grow with every new best point, and with every new best bound.
    trace : Trace
        Counters: `n_iter`, which a method increases, `n_passes`, `n_cached_passes`, `max_planes`.
    idle : int
        Steps in a row that moved neither best value nor best bound.
    choice : str
        Reason for the method, if "auto" chose it.
    """

    # For the package alone:
    # bracket, bracket_of   the last bracket in float64 or None, and the versions of point and bound that it belongs to
    # margin                factor of the tolerance, at first 1; halved whenever float64 does not confirm the gap
    # limits, free          limits proven for weights without penalty, and the cuts that prove them (or None)
    # size                  F at a reference point, from which the default of atol follows
    # moves                 takes the best point to the point of least norm, which users get; None until F is certified
    #                       at the latter
    # checks                compare planes with values at other points
    # is_refuted            whether the risk has contradicted itself
    # messages              what proves the values of inexact decodings at the best point, if evidence is kept; or None
    # inexact               how accurate inexact decodings should be, and whether they keep the gap open

    kept = ("w", "risk_value", "fun", "values", "version", "bound", "bound_version", "bracket", "bracket_of", "margin",
            "limits", "free", "size", "checks", "trace", "idle", "is_refuted", "choice",
            "inference", "inexact")

    def __init__(self, risk, problem, settings):
        self.risk, self.problem, self.settings, self._given = completed(risk), problem, settings, risk
        self.lower_bounds, self.checks, self.trace = lower_bounds_of(risk), PlaneChecks(risk), Trace()
        self.w, self.risk_value, self.fun, self.values, self.bound = None, np.inf, np.inf, None, None
        self.version = self.bound_version = self.idle = 0
        self.bracket, self.bracket_of, self.margin = None, None, 1.0
        self.limits = ProvenLimits(problem)
        self.free, self.size = FreeWeights.of(problem, self.limits), Size(self.risk, problem)
        self.moves, self.is_refuted, self.choice, self.messages = None, False, "", None
        self.inference, self.inexact = 0.0, InexactDecoding()

    # ------------------------------------------------------------------ from one run to another
    def successor(self):
        """Return a new search for the next method, with the counters, the best bound, and the proven limits and size.

        It uses the risk in its first precision, and has no best point until that method evaluates one.
        """
        other = Search(self._given, self.problem, self.settings)
        other.trace, other.choice, other.bound = self.trace, self.choice, self.bound
        other.limits, other.free, other.size = self.limits, self.free, self.size
        return other

    def state(self, **kept):
        """Return what another run could start from: the best point and bound, and what the method has kept.

        Parameters
        ----------
        **kept
            Fields of `Known`, such as `blocks`.
        """
        known = {"bound": self.bound, "inference": self.inference, **kept}
        return Known(self.w, self.risk_value, fingerprint_of(self.risk), **known)

    def take(self, w0, state=None):
        """Return the point to start from, made feasible: w0, or the best point of another run.

        The size and the bound of that run are taken over, too.

        Parameters
        ----------
        w0 : ndarray, shape (dim,)
        state : Known or None

        Returns
        -------
        ndarray, shape (dim,)
            w0 itself if it is feasible.

        Raises
        ------
        ParameterError
            If the state is one of another risk. Risks without a fingerprint are not compared.
        """
        if state is None:
            return self.problem.project(w0)
        mine, theirs = fingerprint_of(self.risk), state.fingerprint
        if state.w.shape != (self.risk.dim,) or theirs == NAMELESS or (
                mine is not None and theirs is not None and mine != theirs):
            raise ParameterError("the run to start from (warm_start) must be on the same risk (data, labels, weights, "
                                 "partition), got one on another; pass its point as w0 to start from that only. Data "
                                 "that were changed in place since that run are other data")
        self.size.at_least(state.size)
        if state.bound is not None:
            self.offer(self.bound_from(state.bound.plane))
        return self.problem.project(state.w)

    # ------------------------------------------------------------------ passes
    def planes(self, w):
        """Return the planes at w, checked against what is known: one pass. `visit` also compares w with the best point.

        Parameters
        ----------
        w : ndarray, shape (dim,)
            Finite.

        Returns
        -------
        Planes
            One for each part; the slopes are valid until the next pass, because the risk may use its buffer again. If
            evidence is kept, `origin` is the number of w.

        Raises
        ------
        NumericalError
            If w is not finite.
        OracleError
            If the planes break a rule of risks, or lie above values found before.
        """
        if not np.isfinite(w).all():
            raise NumericalError(f"w overflows for {self.problem.penalty}; use a larger lam, or scale the data")
        with self.working("oracle", passes=1):
            planes = as_arrays(self.risk.planes(read_only(w)))
        planes = self.checks(planes, self.risk, self.w, self.values)
        if self.free is not None:
            self.free.add(self.summed(planes))
        record = self.settings.record
        return planes if record is None else planes._replace(origin=record.point(w))

    def summed(self, planes):
        """Return the plane of all parts together.

        Parameters
        ----------
        planes : Planes

        Returns
        -------
        Plane
            `R(v) >= offset + <slope, v>` for all v, up to its errors, which count the rounding of the sum. Slope of
            shape (dim,), a new array.
        """
        return summed(planes, self.problem.coordinates)

    def visit(self, w):
        """Return the planes at w and F(w), and make w the best point if it is better: one pass.

        Parameters
        ----------
        w : ndarray, shape (dim,)
            Finite. It becomes read-only if it is the best point.

        Returns
        -------
        planes : Planes
            See `planes`.
        fun : float
            F(w); infinite if w is not feasible.
        """
        planes = self.planes(w)
        return planes, self.observe_planes(w, planes)

    def probe(self):
        """Return a point whose plane may limit free weights, or None, which it is unless weights are free.

        A method with penalties other than "none" visits it after an iteration.
        """
        return None if self.free is None else self.free.probe(self)

    # ------------------------------------------------------------------ best point and best bound
    def observe_planes(self, w, planes):
        """Make w the best point if it is better, by the values of its planes; return F(w)."""
        inference, is_exact = 0.0, self.risk.decodes_exactly
        if not is_exact or self.problem.value(w) <= 0.0:
            excess = float((planes.values - planes.offsets - planes.dot(w)).sum())
            inference = 0.0 if is_exact else excess
            # at a centre of the penalty without any loss F is 0 but for rounding
            if is_exact and planes.values.sum() - excess <= self.lower_bounds.sum():
                self.size.rounding = min(max(excess, 0.0), self.size.negligible)
        return self.observe(w, float(planes.values.sum()), planes.values, inference)

    def observe(self, w, risk_value, values=None, inference=0.0):
        """Make w the best point if it is better, and freeze it.

        Parameters
        ----------
        w : ndarray, shape (dim,)
            It becomes read-only if it is the best point, because the stored values were computed at it.
        risk_value : float
            R(w), found in another way than by `visit`; this is no pass.
        values : ndarray, shape (P,), optional
            Values of the parts.
        inference : float
            If decoding is not exact: `risk_value` minus the sum of the values of the labellings found at w.

        Returns
        -------
        float
            F(w).
        """
        value = self.problem.value(w)
        if value == np.inf and self.problem.contains(w) and norm(w) < MODERATE:
            raise ParameterError(f"penalty {self.problem.penalty} must be finite at feasible points, got infinity at "
                                 f"|w| = {norm(w):.3g}, where its project returns w itself; write a method project(x) "
                                 "that returns the nearest point of finite value, and let minimiser return such points")
        fun = value + risk_value
        if inference <= SMALL * abs(risk_value):
            inference = 0.0
        if np.isfinite(fun) and not np.isfinite(self.fun):
            self.size.begin(w, fun)
        if fun < self.fun and self.problem.contains(w):
            w.setflags(write=False)
            self.w, self.risk_value, self.fun, self.values, self.inference = w, risk_value, fun, values, inference
            self.version += 1
            if self.settings.record is not None:
                self.messages = messages_of(self.risk)
            if self.problem.score_limits is not None:
                self.limits.hold(fun, self.size.value)
        if self.w is None:
            raise NumericalError(f"F must be finite at the first point, got {fun:g} for |w| = {np.linalg.norm(w):.3g}; "
                                 "start closer to 0 (w0), or scale data and penalty down")
        if not self.risk.decodes_exactly:
            self.inexact.observe(self, inference)
        return fun

    def bound_from(self, plane):
        """Return the lower bound of F that follows from a plane below R.

        Parameters
        ----------
        plane : Plane
            `offset - offset_error + <slope, w> <= R(w)` for all w, up to `slope_error |w|`. The errors bound the
            rounding of what you have computed: a convex combination of planes has the largest of their errors, plus the
            rounding of its sums. Everything after that is counted here.

        Returns
        -------
        LowerBound
            Its `value` is at most min F, rounding counted.
        """
        return LowerBound.of(self.problem, plane, self.limits)

    def offer(self, bound):
        """Keep a lower bound if it is better than the present one and than the bound that the risk declares.

        Parameters
        ----------
        bound : LowerBound
            The slope of its plane becomes read-only if it is kept.

        Returns
        -------
        bool
            Whether it was kept.
        """
        declared, best = float(self.lower_bounds.sum()), bound
        if bound.value < declared:      # the plane is weak, or the optimum is 0 and rounding lowers the bound
            known = self.bound if self.bound is not None and self.bound.value >= declared else self.bound_from(
                Plane(declared, np.zeros_like(bound.plane.slope)))
            best = max(known, bound, key=lambda bound: bound.value)         # a negative penalty may make `known` less
        if self.bound is None or best.value > self.bound.value:
            self.bound = best
            self.bound_version += 1
            if isinstance(best, LowerBound):        # a method must not write into what proves the bound
                best.plane.slope.setflags(write=False)
        self.size.bounded(best, self.fun)
        return self.bound is bound

    @property
    def gap(self):
        """Best value minus best bound, infinite as long as there is only one of them."""
        return np.inf if self.bound is None else self.fun - self.bound.value

    @property
    def rule(self):
        """The stopping rule; if its atol is None, it has the default that follows from `size`."""
        gap = self.settings.gap
        return gap if gap.atol is not None else GapBelow(gap.tol, self.size.atol(self.bound))

    def is_close(self):
        """Return whether `fun - bound.value <= max(tol |fun|, atol)`, for the best value and the best bound."""
        return self.bound is not None and np.isfinite(self.fun) and self.rule.holds(
            self.fun, self.bound.value, self.margin)

    def exact_value(self, risk):
        """Return the values at the best point and bounds on their rounding errors, or None if `risk` has no bounds."""
        if self.values is None or risk.precision != "float64" or risk.value_errors is None:
            return None
        return self.values, risk.value_errors(self.w, self.values)

    def retract(self, error):
        """Drop what an error has made doubtful: values of parts after an OracleError, the bound after a contradiction.

        A risk that contradicted itself is not convex, so that its planes bound nothing, and its declared bounds may be
        wrong, too. Only the best point and its value remain.
        """
        if isinstance(error, OracleError) and error.__cause__ is None:
            self.values = None
        if isinstance(error, ContradictionError):
            self.values, self.bound, self.is_refuted = None, None, True
            self.bound_version += 1

    # ------------------------------------------------------------------ checkpoints
    def arrays(self):
        """Return the data of a checkpoint, see `core.kept`."""
        return super().arrays() | {"is_exact": is_exact(self.risk), "has_moved": self.moves is not None}

    def restore(self, arrays):
        """Set this search from the data that `arrays` returned; refuse a bound that does not follow from its plane."""
        arrays = dict(arrays)
        was_exact, has_moved = arrays.pop("is_exact"), arrays.pop("has_moved")
        if was_exact and not is_exact(self.risk):
            self.risk = self.risk.derive(precision="float64")
        super().restore(arrays)
        self.moves = self.problem.dependence if has_moved else None
        shape, bound, bracket = (self.risk.dim,), self.bound, self.bracket
        if self.w is not None:
            check_array("w", self.w, shape)
            self.w.setflags(write=False)
        if self.values is not None:
            check_array("values", self.values, (self.risk.n_parts,))
        check_float("fun", self.fun)
        check_float("size", self.size.value, 0.0)
        check_float("rounding", self.size.rounding, 0.0)
        if bound is None:
            return
        plane = bound.plane
        check_array("slope", plane.slope, shape)
        check_float("slope_error", float(np.min(plane.slope_error)), 0.0)
        check_float("offset_error", plane.offset_error, 0.0)
        again = self.bound_from(plane).value
        scale = abs(plane.offset) + abs(plane.offset - again)
        # a bound found before the limits of free weights may lie below what follows from them
        least = -np.inf if self.limits.is_proven else again - 1e-9 * scale
        if not least <= bound.value <= again + 1e-9 * scale:
            raise ValueError("a lower bound is not what its evidence proves")
        is_current = bracket is not None and self.bracket_of == (self.version, self.bound_version)
        if is_current and not bracket.lower_bound <= min(again + 1e-9 * abs(bracket.fun), bracket.fun):
            raise ValueError("a certificate is not what its evidence proves")


def is_exact(risk):
    """Return whether a risk computes in float64 alone."""
    return risk.precision == risk.search_precision == "float64"


def fingerprint_of(risk):
    """Return the fingerprint of a risk: None if it has none, NAMELESS if computing it fails."""
    try:
        return risk.fingerprint
    except Exception:       # the risk of a user may raise anything
        return NAMELESS
