"""Line search by bracketing and cubic interpolation, one trial at a time."""

from __future__ import annotations

import math

ARMIJO, CURVATURE = 1e-4, 0.9
"""The usual constants for quasi-Newton directions [Nocedal & Wright 2006, 3.1]: the unit step is nearly always good."""
MAX_TRIALS = 30


class WolfeSearch:
    """A step t > 0 with the weak Wolfe conditions along a direction of descent,

        f(t) <= f(0) + 1e-4 t f'(0),     f'(t) >= 0.9 f'(0).

    The second one makes `<s, y> > 0` for the step s and the change y of the gradient. Where f(t) and f(0) agree up to
    rounding, the first one is asked of the derivative instead, `f'(t) <= (1 - 2e-4) |f'(0)|` [Hager & Zhang 2005]: a
    difference of values has no digits left there, one of slopes has.

    Parameters
    ----------
    value, slope : float
        f(0) and f'(0) < 0.
    step : float
        First trial.
    growth : float
        By what a trial may exceed the one before, at most.
    rounding : float
        Relative rounding error of values.

    Attributes
    ----------
    step : float
        The trial that comes next.
    has_failed : bool
        No more trials: the bracket has shrunk to nothing.

    Examples
    --------
    >>> search = WolfeSearch(value=1.0, slope=-2.0, step=8.0)       # f(t) = (t - 1)^2
    >>> while not search.tell((search.step - 1.0) ** 2, 2.0 * (search.step - 1.0)):
    ...     pass
    >>> search.step
    1.0
    """

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

    def tell(self, value, slope):
        """Takes f(step) and f'(step); True where the step is good, else `step` has changed."""
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
            if self._high is None:      # secant of the derivative
                bend = (slope - before[2]) / (t - before[0])
                target = t - slope / bend if bend > 0.0 else math.inf
                self.step = min(max(target, 1.5 * t), self._growth * t)
                return False
        self.step = self._inside()
        return False

    def _inside(self):
        """Minimum of the cubic through both ends of the bracket, kept a tenth away from them."""
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
