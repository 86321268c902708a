"""Readers of files, and small data sets that need no download."""

from .attributes import read_attributes
from .conll import read_conll
from .conllu import Sentence, read_conllu
from .contrast_images import ContrastImages, contrast_images
from .digit_strings import DigitStrings, digit_strings
from .digits import Digits, load_digits
from .readers import Letters, SvmLight, read_letters, read_svmlight
from .tables import Arrays, Table, read_arrays, read_csv

__all__ = [
    "Arrays", "ContrastImages", "DigitStrings", "Digits", "Letters", "Sentence", "SvmLight", "Table", "contrast_images",
    "digit_strings", "load_digits", "read_arrays", "read_attributes", "read_conll", "read_conllu", "read_csv",
    "read_letters", "read_svmlight",
]
