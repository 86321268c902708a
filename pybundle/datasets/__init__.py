"""Readers and small real data sets; nothing is downloaded and nothing is committed."""

from .digit_sequences import DigitStrings, GluedDigits, Language, digit_strings, glued_digits, markov_language
from .digits import Digits, load_digits
from .readers import Letters, SvmLight, read_conll, read_letters, read_svmlight

__all__ = [
    "DigitStrings",
    "Digits",
    "GluedDigits",
    "Language",
    "Letters",
    "SvmLight",
    "digit_strings",
    "glued_digits",
    "load_digits",
    "markov_language",
    "read_conll",
    "read_letters",
    "read_svmlight",
]
