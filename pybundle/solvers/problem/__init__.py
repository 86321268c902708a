"""The problem as solvers see it: its objective, its lower bounds, and proven limits of free weights."""
