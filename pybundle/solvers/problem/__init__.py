"""The problem as solvers see it: the objective, its bound, what is proven of free weights."""
