"""Rounding of float64, for all bounds on errors."""

UNIT = 2.0**-53
"""Largest relative error of one operation: the unit roundoff."""
