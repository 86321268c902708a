"""Risks: the data terms R(w) of an objective, evaluated as cutting planes."""

from ..features import kernel_name
from .binary import BinaryHinge, Logistic
from .example_functions import ExampleFunctions
from .function import Function
from .multiclass import MulticlassHinge
from .structured import Structured

__all__ = ["BinaryHinge", "ExampleFunctions", "Function", "Logistic", "MulticlassHinge", "Structured", "kernel_name"]
