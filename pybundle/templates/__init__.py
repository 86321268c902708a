"""Features of tokens for `ChainSVM` and `ChainCRF`: ready sets, and templates as in files of CRF++."""

from .crfpp import read_crfpp
from .sets import affixes, columns, digits, lower, shapes, window, words
from .templates import Templates

__all__ = ["Templates", "affixes", "columns", "digits", "lower", "read_crfpp", "shapes", "window", "words"]
