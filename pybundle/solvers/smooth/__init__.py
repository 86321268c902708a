"""Quasi-Newton methods for risks that are smooth."""
