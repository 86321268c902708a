"""Estimators in the manner of scikit-learn, for flat and for structured labels."""

from importlib import import_module
from typing import TYPE_CHECKING

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as problem:
    raise ImportError("the estimators need scikit-learn, which is not installed; "
                      "run: pip install 'pybundle-ml[sklearn]'") from problem

if TYPE_CHECKING:
    from .binary_labeling import BinaryLabelingSVM as BinaryLabelingSVM
    from .chain import ChainCRF as ChainCRF
    from .chain import ChainSVM as ChainSVM
    from .chain_cv import ChainCRFCV as ChainCRFCV
    from .chain_cv import ChainSVMCV as ChainSVMCV
    from .cv import MulticlassSVMCV as MulticlassSVMCV
    from .dependency import DependencyParser as DependencyParser
    from .landmarks import LandmarkDetector as LandmarkDetector
    from .logistic import MulticlassLogistic as MulticlassLogistic
    from .multiclass import MulticlassSVM as MulticlassSVM
    from .online_mkl import OnlineMKLClassifier as OnlineMKLClassifier
    from .quantiles import QuantileRegressor as QuantileRegressor
    from .regression import LinearSVR as LinearSVR
    from .saving import load as load
    from .segmentation import SegmentationSVM as SegmentationSVM

MODULES = {
    "BinaryLabelingSVM": "binary_labeling", "ChainCRF": "chain", "ChainCRFCV": "chain_cv", "ChainSVM": "chain",
    "ChainSVMCV": "chain_cv", "DependencyParser": "dependency", "LandmarkDetector": "landmarks",
    "LinearSVR": "regression", "MulticlassLogistic": "logistic", "MulticlassSVM": "multiclass",
    "MulticlassSVMCV": "cv", "OnlineMKLClassifier": "online_mkl", "QuantileRegressor": "quantiles",
    "SegmentationSVM": "segmentation", "load": "saving",
}
"""Modules of the names; a name is imported on first use, as a command that loads one model needs one of them."""

__all__ = [*MODULES]


def __getattr__(name):
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f".{MODULES[name]}", __name__), name)
    return value


def __dir__():
    return sorted({*globals(), *MODULES})
