"""Readers and small real data sets; nothing is downloaded and nothing is committed."""

from .conll import read_conll
from .conllu import Sentence, read_conllu
from .contrast_images import ContrastImages, contrast_images
from .digit_sequences import DigitStrings, GluedDigits, Language, digit_strings, glued_digits, markov_language
from .digits import Digits, load_digits
from .landmark_images import LandmarkImages, landmark_images
from .readers import Letters, SvmLight, read_letters, read_svmlight
from .tables import Arrays, Table, read_arrays, read_csv
from .token_features import token_features
from .treebank import Treebank, crossing_arcs, make_treebank

__all__ = [
    "Arrays",
    "ContrastImages",
    "DigitStrings",
    "Digits",
    "GluedDigits",
    "LandmarkImages",
    "Language",
    "Letters",
    "Sentence",
    "SvmLight",
    "Table",
    "Treebank",
    "contrast_images",
    "crossing_arcs",
    "digit_strings",
    "glued_digits",
    "landmark_images",
    "load_digits",
    "make_treebank",
    "markov_language",
    "read_arrays",
    "read_conll",
    "read_conllu",
    "read_csv",
    "read_letters",
    "read_svmlight",
    "token_features",
]
