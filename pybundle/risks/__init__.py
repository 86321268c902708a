"""Risks: the data terms R(w) of an objective, evaluated as cutting planes."""

from ..features import kernel_name
from .binary import BinaryHinge, Logistic
from .example_functions import ExampleFunctions
from .function import Function
from .measures import FScore, PrecisionAtK, ROCArea
from .multiclass import MulticlassHinge
from .one_class import OneClass
from .one_score import Absolute, EpsilonInsensitive, Huber, Pinball, SquaredHinge
from .ranking import Ranking
from .structured import Structured

__all__ = ["Absolute", "BinaryHinge", "EpsilonInsensitive", "ExampleFunctions", "FScore", "Function", "Huber",
           "Logistic", "MulticlassHinge", "OneClass", "Pinball", "PrecisionAtK", "ROCArea", "Ranking", "SquaredHinge",
           "Structured", "kernel_name"]
