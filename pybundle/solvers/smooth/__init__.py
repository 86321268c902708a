"""L-BFGS and Newton methods for smooth risks."""
