"""Blocks of classes and chains with a log-loss: each block is a distribution over labellings, without stored planes."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from ...core.kept import check_array, check_float
from ...core.plane import Plane
from ..evidence.proof import of_distributions
from ._chain_dual import ChainDual
from .centre_weight import mean_weight
from .core import Core
from .intercepts import MovingIntercepts

VECTORS = 12    # number of vectors of length dim in a run with a penalty: measured


class LogLossBlocks(Core):
    """Core of `BlockMethod` for conditional random fields on chains, and classes [Collins et al. 2008].

    The steps are those of `_chain_dual.pyx`.

    Parameters
    ----------
    risk : Structured
        It has `log_loss_tokens`.
    problem : Problem
        Its penalty is separable.
    known : (nodes, edges), optional
        Logarithms of the factors of the distributions that another run has found.

    Attributes
    ----------
    n_examples, dim : int
    visits : float
        Number of visits of a chain so far: by steps, for the aggregate, and for values of F.
    """

    kept = "_evaluated", "_value", "_kappa", "_numerator", "_intercepts"
    bound_takes_pass = True

    def __init__(self, risk, problem, known=None):
        self.risk = risk.derive(n_parts=1)
        self.n_examples, self.dim = risk.n_examples, risk.dim
        self._objective = problem
        # `_omega` is None if w is linear in phi, as with equal squares
        self._omega = None if problem.is_linear else problem.scaled_entries(self.dim)
        self._intercepts = MovingIntercepts.of(problem, self.risk.user_rows)
        tokens, truth, offsets, masks, start, end, squares = self.risk.log_loss_tokens
        weights, known = self.risk.sample_weight, known if isinstance(known, tuple) else None
        self._dual = ChainDual(tokens, truth, offsets, weights, masks, start, end, known)
        self._evaluated = 0.0
        self._aggregate = self._w = None        # computed when read; None again after a step
        self._square = float(np.mean(weights**2 * squares)) if self._intercepts is None else (
            float(np.mean(weights**2)) * self._intercepts.ratio)
        self._square /= mean_weight(weights)
        # This lam gives the centre the first weight `Rbar^2 / sqrt n`. On 1000 and 8936 sentences, with 3 and 1 times
        # the l1 norm, the best weight was between 1/14 and 1/2 of that, but a centre that is too light costs far more
        # passes than one that is too heavy.
        self.first_lam = self._square / self.n_examples

    def arrays(self):
        return {"dual": self._dual.get_state(), "is_fresh": self._aggregate is not None, **super().arrays()}

    def restore(self, arrays):
        """Become the core that `arrays` described.

        If that core had an aggregate, the aggregate is computed again, as the next point follows from it. Otherwise
        the next point follows from the sums of the steps.
        """
        super().restore({name: arrays[name] for name in self.kept})
        check_array("the numerator", self._numerator, (self.dim,))
        for number in () if self._value is None else self._value[1:]:
            check_float("a value", number, 0.0)
        self._set_limits()
        if self._intercepts is not None:
            self._dual.set_intercepts(self._intercepts)
        self._dual.set_state(arrays["dual"])
        if arrays["is_fresh"]:
            self._aggregate = self._computed()

    @property
    def visits(self):
        return self._dual.visits + self._evaluated

    def known(self):
        return self._dual.nodes, self._dual.edges

    def default_kappa(self, lam):
        """Return the weight of the centre, `sqrt(lam Rbar^2)`.

        Rbar^2 is the mean of `(c_i |Psi(x_i, y_i)|)^2`, divided by the mean of the c_i.
        """
        return float(np.sqrt(lam * self._square))

    # ------------------------------------------------------------------ the point
    @property
    def w(self):
        if self._w is None:
            self._w = self._dual.point()
            if self._intercepts is not None:
                self._w = self._intercepts.point(self._w)
        return self._w

    def place(self, lam, kappa, centre):
        phi = self._phi()
        self._kappa, self._w = kappa, None
        self._set_limits()
        if self._omega is None:
            if self._intercepts is not None:
                centre = self._intercepts.move(centre)
            self._numerator = kappa * centre
            self._dual.set_point((self._numerator - phi) / (lam + kappa), lam + kappa)
            if self._intercepts is not None:
                self._dual.set_intercepts(self._intercepts)
        else:
            self._numerator = self._omega.l2 * self._omega.centre + kappa * centre
            self._dual.set_penalised_point(self._numerator - phi)

    def _set_limits(self):
        omega = self._omega
        if omega is not None:
            self._dual.set_limits(omega.l2 + self._kappa, omega.l1, omega.lower, omega.upper)

    def _phi(self):
        """Return the slope phi; after steps phi follows from the point, and has the rounding errors of the steps."""
        if self._aggregate is None and self._dual.visits:
            return self._numerator - self._dual.unshrunk_point()
        return self.aggregate().slope

    # ------------------------------------------------------------------ passes
    def oracle_pass(self, order):
        """Step on the chains of `order`; return None, as their block gaps are unknown."""
        self._aggregate = self._w = None
        self._dual.visit(order)

    def evaluate(self, search, w):
        """Compute the losses of all chains at w; return `F(w)`."""
        values, errors = self.risk.values(w)
        self._evaluated += self.n_examples
        return self.observe(search, w, float(values.sum()), float(errors.sum()))

    # ------------------------------------------------------------------ evidence
    def aggregate(self):
        """Return the `Plane` of the distributions, which is computed once after a step."""
        if self._aggregate is None:
            self._aggregate = self._computed()
            self._evaluated += self.n_examples
        return self._aggregate

    def _computed(self):
        planes = self.risk.planes_of(self._dual)        # the risk has one part
        offset = float(planes.offsets[0])
        return Plane(offset, planes.slopes[0], float(self.risk.slope_errors[0]),
                     float(self.risk.offset_errors[0]) * offset)

    def evidence(self, problem, risk, limits=None):
        if problem.classes is None:
            return None
        P = softmax(self._dual.nodes.astype(np.float64), axis=1)
        return of_distributions(risk, problem, P)

    # ------------------------------------------------------------------ memory
    @property
    def nbytes(self):
        """Return the bytes of factors and marginals."""
        return 3 * (self._dual.nodes.nbytes + self._dual.edges.nbytes)

    @staticmethod
    def multiplier_bytes(risk):
        """Return the bytes that factors and marginals will take, with work space for one chain."""
        labelled, K = risk.log_loss_tokens, risk.log_loss_tokens.tokens.n_scores
        return 12 * K * (len(labelled.truth) + K * (labelled.masks is not None) * (risk.n_examples + 5))

    @classmethod
    def bytes_needed(cls, risk):
        """Return the bytes of multipliers and of points."""
        return cls.multiplier_bytes(risk) + 8 * VECTORS * risk.dim
