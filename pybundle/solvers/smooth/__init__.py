"""Quasi-Newton methods for smooth risks."""
