"""Estimators in the manner of scikit-learn, for flat and for structured labels."""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as problem:
    raise ImportError("the estimators need scikit-learn, which is not installed; "
                      "run: pip install 'pybundle-ml[sklearn]'") from problem

from .binary_labeling import BinaryLabelingSVM
from .chain import ChainCRF, ChainSVM
from .chain_cv import ChainCRFCV, ChainSVMCV
from .cv import MulticlassSVMCV
from .decision_focused import DecisionFocusedRegressor
from .dependency import DependencyParser
from .dependency_cv import DependencyParserCV
from .graph_svm import GraphSVM
from .landmarks import LandmarkDetector
from .logistic import MulticlassLogistic
from .metric import MetricSVM
from .multi_label import MultiLabelSVM
from .multiclass import MulticlassSVM
from .online_mkl import OnlineMKLClassifier
from .quantiles import QuantileRegressor
from .ranking import RankingSVM, RankingSVMCV
from .regression import LinearSVR
from .saving import load
from .segmentation import SegmentationSVM

__all__ = [
    "BinaryLabelingSVM", "ChainCRF", "ChainCRFCV", "ChainSVM", "ChainSVMCV", "DecisionFocusedRegressor",
    "DependencyParser", "DependencyParserCV", "GraphSVM", "LandmarkDetector", "LinearSVR", "MetricSVM", "MultiLabelSVM",
    "MulticlassLogistic", "MulticlassSVM", "MulticlassSVMCV", "OnlineMKLClassifier", "QuantileRegressor", "RankingSVM",
    "RankingSVMCV", "SegmentationSVM", "load",
]
