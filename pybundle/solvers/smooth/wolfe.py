"""Line search for quasi-Newton methods, by bracketing and cubic interpolation, one trial at a time."""

from __future__ import annotations

import math

from ...core.kept import Kept

ARMIJO, CURVATURE = 1e-4, 0.9
"""The usual constants for quasi-Newton directions [Nocedal & Wright 2006, 3.1]; they nearly always accept step 1."""
MAX_TRIALS = 30


class WolfeSearch(Kept):
    """Search for a step t > 0 along a direction of descent that meets the weak Wolfe conditions

        f(t) <= f(0) + 1e-4 t f'(0),     f'(t) >= 0.9 f'(0).

    The second condition implies `<s, y> > 0` for the step s and the change y of the gradient. If f(t) and f(0) agree up
    to rounding, `f'(t) <= (1 - 2e-4) |f'(0)|` replaces the first condition [Hager & Zhang 2005], because the difference
    of such values has no correct digit, but the slopes have.

    Parameters
    ----------
    value, slope : float
        f(0) and f'(0) < 0.
    step : float
        First trial.
    growth : float
        Largest factor between two trials.
    rounding : float
        Relative rounding error of values.

    Attributes
    ----------
    step : float
        The next trial.
    has_failed : bool
        Whether there are no more trials: MAX_TRIALS are made, the bracket is empty, or the step overflows.

    Examples
    --------
    >>> search = WolfeSearch(value=1.0, slope=-2.0, step=8.0)       # f(t) = (t - 1)^2
    >>> while not search.update((search.step - 1.0) ** 2, 2.0 * (search.step - 1.0)):
    ...     pass
    >>> search.step
    1.0
    """

    kept = "step", "_value", "_slope", "_noise", "_low", "_high", "_growth", "_trials"

    def __init__(self, value, slope, step, growth=10.0, rounding=1e-12):
        self._value, self._slope = value, slope
        self._noise = rounding * abs(value)
        self._low, self._high = (0.0, value, slope), None
        self.step, self._growth = step, growth
        self._trials = 0

    @property
    def has_failed(self):
        if self._trials >= MAX_TRIALS or not math.isfinite(self.step):
            return True
        return self._high is not None and self._high[0] - self._low[0] <= 1e-14 * self._high[0]

    def update(self, value, slope):
        """Receive f(step) and f'(step); return True if the step is accepted, else set the next `step`."""
        self._trials += 1
        t = self.step
        descends = value <= self._value + ARMIJO * t * self._slope or (
            value <= self._value + self._noise and slope <= (2.0 * ARMIJO - 1.0) * self._slope)
        if descends and slope >= CURVATURE * self._slope:
            return True
        if not descends:
            self._high = t, value, slope
        else:
            before, self._low = self._low, (t, value, slope)
            if self._high is None:      # a secant step towards a zero of the derivative
                bend = (slope - before[2]) / (t - before[0])
                target = t - slope / bend if bend > 0.0 else math.inf
                self.step = min(max(target, 1.5 * t), self._growth * t)
                return False
        self.step = self._inside()
        return False

    def _inside(self):
        """Return the minimiser of the cubic through both ends of the bracket, clipped to the inner 80 % of the bracket.
        """
        (a, fa, da), (b, fb, db) = self._low, self._high
        width = b - a
        slope = da + db - 3.0 * (fb - fa) / width
        square = slope * slope - da * db
        if square >= 0.0 and math.isfinite(square):
            root = math.sqrt(square)
            if db - da + 2.0 * root > 0.0:
                t = b - width * (db + root - slope) / (db - da + 2.0 * root)
                return min(max(t, a + 0.1 * width), b - 0.1 * width)
        return 0.5 * (a + b)
