"""Methods on the multipliers of all labels or planes at once: augmented Lagrangian, Newton directions."""
