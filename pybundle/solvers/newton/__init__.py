"""The augmented Lagrangian method, whose Newton steps change the multipliers of all labels or planes at once."""
