"""The range of lam in which the point of a certificate, computed for one lam, still meets a tolerance.

For lam' = r lam, r <= 1, the point x of a run at lam has the objective

    F'(x) = F(x) - (1 - r) c,   c = lam/2 |x|^2,

and its aggregate plane `b + <phi, w> <= R(w)`, mixed with the lower bound l <= R(w), proves for any t in [0, 1]

    min F' >= (1 - t) l + t b - t^2 q / r,   q = |phi|^2 / (2 lam).

With t = 1 the multipliers stay as they are, with t = r they are scaled with lam (keep-dual and keep-primal of Osokin et
al. 2016, section 4). At the optimum for lam, t = 1 gives a gap of only `c (1 - r)^2 / r`. So a run to half the
tolerance serves an interval of lam whose relative width is about sqrt(tol F / 2 c). The bound is concave in r and F' is
linear: a gap that is small enough at both ends of an interval is small enough inside.
"""

from __future__ import annotations

import numpy as np

# Tolerance of a run, as a fraction of the tolerance that its interval of lam must meet.
SHARE = 0.5


def gap_at(result, lam, other, floor=0.0):
    """Return the relative gap that the result of a run at lam proves for its point at another lam.

    Parameters
    ----------
    result : Result
        A certified result.
    lam, other : float
        The lam of the run, and the lam of the gap.
    floor : float
        A lower bound of R, -inf if none is known.

    Returns
    -------
    float
        The gap; it is inf if F at `other` is not positive.
    """
    ratio = other / lam
    upper = result.fun + result.error - (1.0 - ratio) * 0.5 * lam * float(result.x @ result.x)
    quadratic = result.slope * (result.slope / lam) / 2.0
    offset = result.lower_bound + quadratic
    fraction = 1.0
    if np.isfinite(floor) and quadratic > 0.0:
        fraction = min(1.0, max(0.0, (offset - floor) * ratio / (2.0 * quadratic)))
    lower = (fraction * offset - fraction**2 * quadratic / ratio
             + (0.0 if fraction == 1.0 else (1.0 - fraction) * floor))
    lower -= 1e-13 * (abs(offset) + quadratic / ratio + abs(upper))
    return (upper - lower) / upper if upper > 0.0 else float("inf")


def reach(result, lam, least, tol, floor=0.0):
    """Return the smallest lam' in [least, lam] down to which the relative gap of `result` is at most tol, or lam."""
    least = max(least, 1e-100 * lam)
    if gap_at(result, lam, least, floor) <= tol:
        return least
    good, bad = 0.0, np.log(least / lam)
    for _ in range(50):         # each step halves an interval of log r
        middle = 0.5 * (good + bad)
        if gap_at(result, lam, lam * np.exp(middle), floor) <= tol:
            good = middle
        else:
            bad = middle
    return lam * float(np.exp(good))
