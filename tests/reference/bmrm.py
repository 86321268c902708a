"""BMRM, P-BMRM and their proximal forms as the papers have them, line by line, with exact masters and all planes kept.

[Teo et al. 2010, Algorithm 2; Uricar and Franc 2012; Uricar, Franc, Hlavac 2013, Algorithm 2, eqs 10-13]
"""

import numpy as np
from reference.simplex_qp import by_active_set


class Model:
    """F_t(w) = lam/2 |w|^2 + sum_p max_j <a_j, w> + b_j over planes j of parts p, with the zero plane if asked."""

    def __init__(self, lam, n_parts, has_zero):
        self.lam, self.n_parts, self.A, self.b, self.parts = lam, n_parts, [], [], []
        self.has_zero = has_zero

    def add(self, w, values, slopes):
        """One plane of every part, tight at w."""
        for p in range(self.n_parts):
            if self.has_zero and len(self.b) < 2 * self.n_parts:
                self.A.append(np.zeros(len(w)))
                self.b.append(0.0)
                self.parts.append(p)
            self.A.append(slopes[p])
            self.b.append(values[p] - slopes[p] @ w)
            self.parts.append(p)

    def minimise(self, alpha, centre):
        """argmin_w F_t(w) + alpha |w - c|^2 and the minimum of F_t, the latter for alpha = 0 alone."""
        A, b, s = np.array(self.A), np.array(self.b), self.lam + 2.0 * alpha
        f = b + 2.0 * alpha / s * A @ centre
        value, beta = by_active_set(A @ A.T / s, f, np.array(self.parts))
        return (2.0 * alpha * centre - A.T @ beta) / s, -value


def bmrm(risk, w, lam, n_parts, eps, has_zero=False):
    """The points at which the risk is asked, in order, and F there."""
    model, points, values = Model(lam, n_parts, has_zero), [], []
    bound = -np.inf
    while True:
        parts, slopes = risk(w)
        points.append(w)
        values.append(parts.sum() + 0.5 * lam * w @ w)
        if values[-1] - bound <= eps * abs(values[-1]):             # F(w_t) - F_t(w_t)
            return points, values
        model.add(w, parts, slopes)
        w, bound = model.minimise(0.0, np.zeros(len(w)))


def prox_bmrm(risk, w, lam, n_parts, eps, K, T, has_zero=False):
    """The points at which the risk is asked, in order, and the proximity alpha of every accepted step.

    `risk(w)` returns values (P,) and subgradients (P, dim). As in the package, the first trial is the tuned one, since
    gamma is infinite, and a trial that tuning confirms is not asked twice. The paper has no zero plane.
    """
    model, points, alphas = Model(lam, n_parts, has_zero), [w], []

    def evaluate(w):
        values, slopes = risk(w)
        return values.sum() + 0.5 * lam * w @ w, (w, values, slopes)

    fun, planes = evaluate(w)
    model.add(*planes)
    alpha, gamma = 0.0, np.inf
    while True:
        new, is_tuned = [], False
        if gamma < np.inf:
            w_new, _ = model.minimise(alpha, w)
            fun_new, planes = evaluate(w_new)
            points.append(w_new)
            new.append(planes)
        if gamma == np.inf or fun - fun_new < gamma:                # a poor step: the least alpha within K of w_t
            is_tuned, before = True, alpha
            for alpha in (0.0, *2.0 ** np.arange(60)):
                w_tuned, minimum = model.minimise(alpha, w)
                if alpha == 0.0:
                    bound = minimum                                 # F_t(w_{t+1}^0)
                if np.linalg.norm(w_tuned - w) <= K:
                    break
            if gamma == np.inf or alpha != before:
                w_new = w_tuned
                fun_new, planes = evaluate(w_new)
                points.append(w_new)
                new.append(planes)
            gamma = fun_new / T - bound / (T * (1.0 - eps))         # (11)
        w, fun = w_new, fun_new
        alphas.append(alpha)
        if is_tuned and fun - bound <= eps * abs(fun):              # (10)
            return points, alphas
        for planes in new:
            model.add(*planes)
