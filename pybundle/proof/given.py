"""Compares, in fractions, the problem that a user passes to the verifier with the problem of a certificate.

The penalty of the user is a sum of terms t. For each weight `l2 = sum_t l2_t`, `l1 = sum_t l1_t`, the centre is
`C = sum_t l2_t c_t / l2`, and `sum_t l2_t c_t^2 / 2 - l2 C^2 / 2` is added to the constant. All these numbers must
agree with the certificate up to the rounding errors that it states; then its claims hold for the penalty of the user.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ..core.constraints import read_constraints
from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import bool_array, check_choice, check_number, check_vector, is_scalar
from ..prox import L2, Ball, Box, Groups, Penalty, Separable, SquaredL2
from ..prox.base import PlusSquaredL2
from ..prox.composed import SparseGroupLasso
from ..prox.separable import NOTHING, spread
from .penalty import ARRAYS, ProvenPenalty


def penalty_of(omega, dim):
    """Return the `ProvenPenalty` of a canonical penalty, which must be provable."""
    if isinstance(omega, Separable):
        rates, centre, constant = omega.rounding
        centre = np.broadcast_to(centre, (dim,)).astype(np.float64) if np.any(centre) else None
        return ProvenPenalty(**{name: np.array(getattr(omega, name)) for name in NOTHING},
                             constant=float(omega.constant), rate_error=float(rates), centre_error=centre,
                             constant_error=float(constant))
    plain, rate_error = dict(NOTHING), 0.0
    if isinstance(omega, PlusSquaredL2):
        plain["l2"], rate_error, omega = omega.rate, omega.rate_error, omega.inner
    if isinstance(omega, SparseGroupLasso):
        plain["l1"], rates = omega.l1, omega.l2
    else:
        rates = omega.rate
    groups = Groups.single(dim) if isinstance(omega, L2) else Groups.of(omega.groups, dim)
    arrays = {name: np.array(np.broadcast_to(value, (dim,)), dtype=np.float64) for name, value in plain.items()}
    return ProvenPenalty(**arrays, rate_error=rate_error,
                   labels=groups.spread(np.arange(groups.n_groups)).astype(np.intp),
                   rates=np.array(np.broadcast_to(rates, (groups.n_groups,)), dtype=np.float64))


def difference(certificate, risk, lam, penalty, constraints, scale):
    """Compare the problem of a certificate with arguments of `verify`; return a difference in words, or None."""
    if lam is not None and penalty is not None:
        raise ParameterError("at most one of lam and penalty must be given, got both; pass what minimize was given")
    is_given = lam is not None or penalty is not None
    if scale is not None:
        check_choice("scale", scale, ("sum", "mean"))
    if constraints is not None or is_given:
        rows, mine = certificate.rows, None if constraints is None else read_constraints(constraints, risk.dim)
        if (rows is None) != (mine is None) or (rows is not None and not (
                np.array_equal(rows.upper, mine[1]) and (rows.A != mine[0]).nnz == 0)):
            return "other linear constraints"
    if (scale is not None or is_given) and certificate.divisor != (certificate.n_examples if scale == "mean" else 1):
        return f"R is divided by {certificate.divisor}, but scale={scale or 'sum'!r}"
    ball = next((term for term in getattr(penalty, "terms", [penalty]) if isinstance(term, Ball)), None)
    radius = None if ball is None else ball.radius
    if is_given and certificate.radius != radius:
        return f"radius {radius}, {certificate.radius} claimed"
    return _difference(_terms(risk, lam, penalty), as_penalty(certificate)) if is_given else None


def as_penalty(certificate):
    """Return the regulariser and the sign constraints of a certificate as one `ProvenPenalty`."""
    if certificate.penalty is not None:
        return certificate.penalty
    dim = len(certificate.w)
    zeros, signs = np.zeros(dim), np.zeros(dim, dtype=bool) if certificate.nonneg is None else certificate.nonneg
    return ProvenPenalty(np.full(dim, certificate.lam or 0.0), zeros, zeros, np.where(signs, 0.0, -np.inf),
                   np.full(dim, np.inf), rate_error=certificate.lam_error)


def _terms(risk, lam, penalty):
    """Return the terms of the user's penalty on weights that are not free, and a term for sign constraints."""
    dim, free = risk.dim, getattr(risk, "free", None)
    terms = getattr(penalty, "terms", [Box() if penalty is None else penalty])
    if any(isinstance(term, Ball) for term in terms):
        free = None         # a ball limits the intercept, too
        terms = [Box(), *(term for term in terms if not isinstance(term, Ball))]
    n_held = dim if free is None else np.count_nonzero(~free)
    if lam is not None:
        lam = check_number("lam", lam, low=0.0) if is_scalar(lam) else check_vector("lam", lam, n_held)
        if np.min(lam) < 0.0:
            raise ParameterError(f"lam must not be negative, got {np.min(lam):g}")
        terms = [SquaredL2(lam)]
    if penalty is not None and not isinstance(penalty, Penalty):
        raise InputTypeError(f"penalty must be a penalty of pybundle.prox, got {type(penalty).__name__}")
    found = []
    for term in terms:
        one = term.canonical(n_held)
        found.append(penalty_of(spread(one, ~free), dim) if free is not None and isinstance(one, Separable) else
                     penalty_of(one, n_held))
    nonneg = getattr(risk, "nonneg", None)
    if nonneg is None:
        return found
    nonneg = bool_array("nonneg of the risk", nonneg, (dim,))
    return [*found, penalty_of(Box(np.where(nonneg, 0.0, -np.inf)).canonical(dim), dim)]


def _difference(terms, stated):
    """Return in words where the sum of `terms` differs from `stated` beyond its rounding errors, or None."""
    norms = next((term for term in terms if term.labels is not None), terms[0])
    if not (np.array_equal(norms.labels, stated.labels) and np.array_equal(norms.rates, stated.rates)):
        return "other norms of groups"
    for name, bound in (("lower", np.max([term.lower for term in terms], axis=0)),
                        ("upper", np.min([term.upper for term in terms], axis=0))):
        if not np.array_equal(bound, getattr(stated, name)):
            return f"another {name} bound of weight {np.flatnonzero(bound != getattr(stated, name))[0]}"
    constant = sum(Fraction(term.constant) for term in terms) - Fraction(stated.constant)
    columns = np.stack([getattr(one, name) for one in (*terms, stated) for name in ARRAYS[:3]] + [stated.centre_errors])
    _, places, counts = np.unique(columns, axis=1, return_index=True, return_counts=True)
    for k, count in zip(places.tolist(), counts.tolist(), strict=True):     # equal weights are compared once
        *rates, centres = ([Fraction(getattr(term, name)[k]) for term in terms] for name in ARRAYS[:3])
        l2, l1, centre = (Fraction(getattr(stated, name)[k]) for name in ARRAYS[:3])
        for name, mine, theirs in (("l2", sum(rates[0]), l2), ("l1", sum(rates[1]), l1)):
            if abs(mine - theirs) > Fraction(stated.rate_error) * mine:
                return f"another {name} of weight {k}: {float(mine):.17g}, {float(theirs):.17g} claimed"
        total, moment = sum(rates[0]), sum(x * c for x, c in zip(rates[0], centres, strict=True))
        if total > 0:
            if abs(moment / total - centre) > Fraction(stated.centre_errors[k]):
                return f"another centre of weight {k}: {float(moment / total):.17g}, {float(centre):.17g} claimed"
            squares = sum(x * c * c for x, c in zip(rates[0], centres, strict=True))
            constant += count * (squares - moment**2 / total) / 2
    return "another constant" if abs(constant) > Fraction(stated.constant_error) else None
