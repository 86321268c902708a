"""Chains: a label for each token of a sequence."""

from .model import Chain

__all__ = ["Chain"]
