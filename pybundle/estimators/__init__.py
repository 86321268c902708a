"""Estimators in the manner of scikit-learn, for flat and for structured labels."""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as problem:
    raise ImportError("the estimators need scikit-learn, which is not installed; "
                      "run: pip install 'pybundle-ml[sklearn]'") from problem

from .binary_labeling import BinaryLabelingSVM
from .chain import ChainCRF, ChainSVM
from .cv import ChainSVMCV, MulticlassSVMCV
from .dependency import DependencyParser
from .landmarks import LandmarkDetector
from .multiclass import MulticlassSVM
from .online_mkl import OnlineMKLClassifier
from .saving import load
from .segmentation import SegmentationSVM

__all__ = [
    "BinaryLabelingSVM",
    "ChainCRF",
    "ChainSVM",
    "ChainSVMCV",
    "DependencyParser",
    "LandmarkDetector",
    "MulticlassSVM",
    "MulticlassSVMCV",
    "OnlineMKLClassifier",
    "SegmentationSVM",
    "load",
]
