"""Readers and small real data sets; nothing is downloaded and nothing is committed."""

from .digits import Digits, load_digits

__all__ = ["Digits", "load_digits"]
