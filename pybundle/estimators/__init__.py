"""Estimators in the manner of scikit-learn, for flat and for structured labels."""

from typing import TYPE_CHECKING

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as problem:
    raise ImportError("the estimators need scikit-learn, which is not installed; "
                      "run: pip install 'pybundle-ml[sklearn]'") from problem

from .binary_labeling import BinaryLabelingSVM
from .chain import ChainCRF, ChainSVM
from .chain_cv import ChainCRFCV, ChainSVMCV
from .cv import MulticlassSVMCV
from .dependency import DependencyParser
from .landmarks import LandmarkDetector
from .logistic import MulticlassLogistic
from .multiclass import MulticlassSVM
from .quantiles import QuantileRegressor
from .regression import LinearSVR
from .saving import load
from .segmentation import SegmentationSVM

if TYPE_CHECKING:
    from .online_mkl import OnlineMKLClassifier as OnlineMKLClassifier

__all__ = [
    "BinaryLabelingSVM",
    "ChainCRF",
    "ChainCRFCV",
    "ChainSVM",
    "ChainSVMCV",
    "DependencyParser",
    "LandmarkDetector",
    "LinearSVR",
    "MulticlassLogistic",
    "MulticlassSVM",
    "MulticlassSVMCV",
    "OnlineMKLClassifier",
    "QuantileRegressor",
    "SegmentationSVM",
    "load",
]


def __getattr__(name):
    """Import `OnlineMKLClassifier` on first use: `pb.mkl` takes half as long to import as all other estimators."""
    if name == "OnlineMKLClassifier":
        from .online_mkl import OnlineMKLClassifier

        return OnlineMKLClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
