"""Slow, obvious twins of the master QP: every face for tiny problems, SLSQP and a primal active set for small ones."""

import itertools

import numpy as np
from scipy.optimize import minimize


def by_enumeration(H, f, parts, slack):
    """Least value over the stationary points of all faces; for m + P <= 9 or so."""
    m, n_parts = len(f), len(slack)
    size = m + int(slack.sum())
    K = np.zeros((size, size))
    K[:m, :m] = H
    c = np.r_[f, np.zeros(size - m)]
    E = np.zeros((n_parts, size))
    E[parts[parts >= 0], np.flatnonzero(parts >= 0)] = 1.0
    E[np.flatnonzero(slack), np.arange(m, size)] = 1.0
    best, best_x = np.inf, None
    for pattern in itertools.product((False, True), repeat=size):
        S = np.flatnonzero(pattern)
        if n_parts and (E[:, S].sum(1) == 0).any():
            continue
        kkt = np.block([[K[np.ix_(S, S)], E[:, S].T], [E[:, S], np.zeros((n_parts, n_parts))]])
        right = np.r_[c[S], np.ones(n_parts)]
        solution = np.linalg.lstsq(kkt, right, rcond=None)[0]
        x = np.zeros(size)
        x[S] = solution[: len(S)]
        if x.min(initial=0.0) < -1e-9 or np.abs(E @ x - 1.0).max(initial=0.0) > 1e-7:
            continue
        value = 0.5 * x @ K @ x - c @ x
        if value < best:
            best, best_x = value, x[:m]
    return best, best_x


def by_slsqp(H, f, parts, slack):
    """SciPy's sequential least squares from the centre of every simplex."""
    constraints = []
    x = np.zeros(len(f))
    for p, has_slack in enumerate(slack):
        row = (parts == p).astype(float)
        x += row / row.sum()
        constraints.append({"type": "ineq" if has_slack else "eq", "fun": lambda x, row=row: 1.0 - row @ x,
                            "jac": lambda x, row=row: -row})
    result = minimize(lambda x: 0.5 * x @ H @ x - f @ x, x, jac=lambda x: H @ x - f, method="SLSQP",
                      bounds=[(0.0, None)] * len(f), constraints=constraints,
                      options={"maxiter": 1000, "ftol": 1e-14})
    return result.fun, result.x


def by_active_set(H, f, parts, tol=1e-11):
    """The primal active-set method, exact up to rounding; all sums are 1, a zero plane is a column of its own.

    A curvature of 1e-13 lets steps along directions without any end at a bound.
    """
    m, n_parts, scale = len(f), parts.max() + 1, np.abs(f).max() + np.abs(H).max() + 1.0
    E = (parts == np.arange(n_parts)[:, None]).astype(float)
    support = np.array([np.flatnonzero(parts == p)[-1] for p in range(n_parts)])
    x = np.zeros(m)
    x[support] = 1.0
    while True:
        n = len(support)
        kkt = np.block([[H[np.ix_(support, support)] + 1e-13 * scale * np.eye(n), E[:, support].T],
                        [E[:, support], np.zeros((n_parts, n_parts))]])
        step = np.linalg.solve(kkt, np.r_[f[support], np.ones(n_parts)])[:n] - x[support]
        falls = np.flatnonzero(step < 0.0)
        ratios = -x[support][falls] / step[falls]
        t = min(ratios.min(initial=1.0), 1.0)
        x[support] += t * step
        if t < 1.0:
            x[support[falls[ratios.argmin()]]] = 0.0
            support = np.delete(support, falls[ratios.argmin()])
            continue
        g = H @ x - f
        excess = np.array([g[support][parts[support] == p].min() for p in range(n_parts)])[parts] - g
        if excess.max() <= tol * scale:
            return 0.5 * x @ H @ x - f @ x, x
        support = np.append(support, excess.argmax())
