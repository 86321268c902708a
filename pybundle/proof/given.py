"""The problem that somebody gives to the verifier, held in fractions against the one that a certificate states.

A penalty is given as terms; their sum has for each weight `l2 = sum_t l2_t`, `l1 = sum_t l1_t`, the centre
`C = sum_t l2_t c_t / l2`, and adds `sum_t l2_t c_t^2 / 2 - l2 C^2 / 2` to the constant. All of it must be what the
certificate has, up to the rounding that the certificate states, so that its claims are about the penalty that was given.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..core.constraints import read_constraints
from ..core.exceptions import InputTypeError, ParameterError
from ..core.validation import check_choice, check_number
from ..prox import L2, Box, Groups, Regulariser, Separable, SparseGroupLasso, SquaredL2
from ..prox.base import PlusSquaredL2
from .penalty import ARRAYS, Penalty

MEAN = 2.0**-50     # lam of a certificate in the scale "mean" is `n lam / n`, rounded twice


def penalty_of(omega, dim):
    """Return a provable penalty in the form that a certificate holds."""
    plain = {"l2": 0.0, "l1": 0.0, "centre": 0.0, "lower": -np.inf, "upper": np.inf}
    if isinstance(omega, Separable):
        rates, centre, constant = omega.rounding
        centre = np.broadcast_to(centre, (dim,)).astype(np.float64) if np.any(centre) else None
        return Penalty(**{name: np.array(getattr(omega, name)) for name in plain}, constant=float(omega.constant),
                       rate_error=float(rates), centre_error=centre, constant_error=float(constant))
    rate_error = 0.0
    if isinstance(omega, PlusSquaredL2):
        plain["l2"], rate_error, omega = omega.rate, omega.rate_error, omega.inner
    if isinstance(omega, SparseGroupLasso):
        plain["l1"], rates = omega.l1, omega.l2
    else:
        rates = omega.rate
    groups = Groups.single(dim) if isinstance(omega, L2) else Groups.of(omega.groups, dim)
    arrays = {name: np.array(np.broadcast_to(value, (dim,)), dtype=np.float64) for name, value in plain.items()}
    return Penalty(**arrays, rate_error=rate_error,
                   labels=groups.spread(np.arange(groups.n_groups)).astype(np.intp),
                   rates=np.array(np.broadcast_to(rates, (groups.n_groups,)), dtype=np.float64))


class Given:
    """What of the problem is given: the regulariser, and whatever is a part of it; or the constraints alone.

    Parameters
    ----------
    risk : Risk
    lam, radius, penalty, nonneg, constraints, scale
        Arguments of `verify`.
    """

    def __init__(self, risk: Any, lam: Any, radius: Any, penalty: Any, nonneg: Any, constraints: Any, scale: Any) -> None:
        dim, free, self.scale, self.radius = risk.dim, getattr(risk, "free", None), scale, radius
        names = [name for name, value in (("lam", lam), ("radius", radius), ("penalty", penalty)) if value is not None]
        if len(names) > 1:
            raise ParameterError(f"at most one of lam, radius and penalty must be given, got {' and '.join(names)}; pass "
                                 "what minimize was given")
        self.has_regulariser = bool(names)
        self.is_any = bool(names) or constraints is not None or scale is not None
        if scale is not None:
            check_choice("scale", scale, ("sum", "mean"))
        if radius is not None:
            check_number("radius", radius, low=0.0, strict=True)
        if penalty is not None and not isinstance(penalty, Regulariser):
            raise InputTypeError(f"penalty must be a penalty of pybundle.prox, got {type(penalty).__name__}")
        self.rows = None if constraints is None else read_constraints(constraints, dim)
        nonneg = getattr(risk, "nonneg", None) if nonneg is None else np.asarray(nonneg)
        if nonneg is not None and (nonneg.dtype != np.bool_ or nonneg.shape != (dim,)):
            raise ParameterError(f"nonneg must be a bool array of shape ({dim},), got dtype {nonneg.dtype} and shape "
                                 f"{nonneg.shape}")
        penalty = SquaredL2(lam) if lam is not None else Box() if penalty is None else penalty
        places = np.arange(dim) if free is None else np.flatnonzero(~free)
        self.terms = [_spread(penalty_of(term.canonical(len(places)), len(places)), places, dim)
                      for term in getattr(penalty, "terms", [penalty])]
        if nonneg is not None:
            self.terms.append(penalty_of(Box(np.where(nonneg, 0.0, -np.inf)).canonical(dim), dim))

    def difference(self, certificate):
        """The first difference to the problem of a certificate in words, or None."""
        stated = certificate.rows
        if self.has_regulariser or self.rows is not None:
            if (stated is None) != (self.rows is None) or (stated is not None and not (
                    stated.A.shape == self.rows[0].shape and (stated.A != self.rows[0]).nnz == 0
                    and np.array_equal(stated.upper, self.rows[1]))):
                return "other linear constraints"
        if self.has_regulariser or self.scale is not None:
            if certificate.divisor != (certificate.n_examples if self.scale == "mean" else 1):
                return f"R is divided by {certificate.divisor}, but scale={self.scale or 'sum'!r}"
        if not self.has_regulariser:
            return None
        if certificate.radius != self.radius:
            return f"radius is {self.radius}, {certificate.radius} claimed"
        if certificate.lam is not None and Fraction(float(self._l2)) != self._l2:
            return "another l2"
        return _difference(self.terms, as_penalty(certificate))

    @property
    def _l2(self):
        """Of the first weight."""
        return sum(Fraction(term.l2[0]) for term in self.terms)

    def exactly(self, certificate):
        """The certificate with the lam that is given, of which its own may be a rounded multiple."""
        if not self.has_regulariser or certificate.lam is None:
            return certificate
        return replace(certificate, lam=float(self._l2))


def as_penalty(certificate):
    """The regulariser and the signs of a certificate as a penalty."""
    if certificate.penalty is not None:
        return certificate.penalty
    dim = len(certificate.w)
    zeros, signs = np.zeros(dim), np.zeros(dim, dtype=bool) if certificate.nonneg is None else certificate.nonneg
    return Penalty(np.full(dim, certificate.lam or 0.0), zeros, zeros, np.where(signs, 0.0, -np.inf),
                   np.full(dim, np.inf), rate_error=MEAN)


def _spread(penalty, places, dim):
    """The penalty on some weights of a problem whose other weights are free."""
    if len(places) == dim:
        return penalty
    arrays = {}
    for name, other in zip(ARRAYS, (0.0, 0.0, 0.0, -np.inf, np.inf), strict=True):
        arrays[name] = np.full(dim, other)
        arrays[name][places] = getattr(penalty, name)
    return replace(penalty, **arrays)


def _difference(terms, stated):
    """How the sum of terms differs from a penalty beyond its stated rounding, in words, or None."""
    groups = [term for term in terms if term.labels is not None]
    norms = groups[0] if groups else stated if stated.labels is None else terms[0]
    if not (np.array_equal(norms.labels, stated.labels) and np.array_equal(norms.rates, stated.rates)):
        return "other norms of groups"
    for name, bound in (("lower", np.max([term.lower for term in terms], axis=0)),
                        ("upper", np.min([term.upper for term in terms], axis=0))):
        if not np.array_equal(bound, getattr(stated, name)):
            return f"another bound {name} of weight {np.flatnonzero(bound != getattr(stated, name))[0]}"
    rounding, centre_error = Fraction(stated.rate_error), stated._centre_error
    constant = sum(Fraction(term.constant) for term in terms) - Fraction(stated.constant)
    columns = np.stack([getattr(one, name) for one in (*terms, stated) for name in ARRAYS[:3]] + [centre_error])
    _, places, counts = np.unique(columns, axis=1, return_index=True, return_counts=True)
    for k, count in zip(places.tolist(), counts.tolist(), strict=True):     # many are alike
        l2, l1 = (sum(Fraction(getattr(term, name)[k]) for term in terms) for name in ("l2", "l1"))
        for name, total in (("l2", l2), ("l1", l1)):
            if abs(total - Fraction(getattr(stated, name)[k])) > rounding * total:
                return f"another {name} of weight {k}: {float(total):.17g}, {getattr(stated, name)[k]:.17g} claimed"
        if l2 > 0:
            moments = [Fraction(term.l2[k]) * Fraction(term.centre[k]) for term in terms]
            centre = sum(moments) / l2
            if abs(centre - Fraction(stated.centre[k])) > Fraction(centre_error[k]):
                return f"another centre of weight {k}: {float(centre):.17g}, {stated.centre[k]:.17g} claimed"
            squares = sum(x * Fraction(term.centre[k]) for x, term in zip(moments, terms, strict=True))
            constant += count * (squares - l2 * centre**2) / 2
    return "another constant" if abs(constant) > Fraction(stated.constant_error) else None
