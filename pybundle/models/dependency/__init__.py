"""Dependency parsing: trees over the words of a sentence."""

from .model import Dependency
from .templates import TREEBANK_RELATION_TEMPLATES, TREEBANK_TEMPLATES

__all__ = ["TREEBANK_RELATION_TEMPLATES", "TREEBANK_TEMPLATES", "Dependency"]
