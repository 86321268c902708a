"""Certified bundle solvers for `F(w) = lam/2 |w|^2 + R(w)`.

>>> import pybundle as pb
>>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
>>> result = pb.minimize(risk, lam=1.0, tol=1e-6)
>>> result.lower_bound <= result.fun
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import bundle, callbacks, distributed, methods, models, oracles, qp, risks
from .capi import get_include
from .core.exceptions import (
    BundleError,
    ConvergenceWarning,
    InputTypeError,
    LabelWarning,
    NumericalError,
    OracleError,
    ParameterError,
    StateError,
)
from .core.graph import Graph
from .core.version import __version__ as __version__
from .models.decoded import Decoded
from .proof import Certificate, load_certificate, verify
from .prox.check_penalty import check_penalty
from .risks.check import check_oracle
from .runtime.result import Result, Status
from .runtime.stopping import Progress
from .solvers import Checkpoint, Solve, minimize, path

if TYPE_CHECKING:
    from . import datasets as datasets
    from . import metrics as metrics
    from . import mkl as mkl
    from . import plotting as plotting
    from . import templates as templates
    from .estimators import BinaryLabelingSVM as BinaryLabelingSVM
    from .estimators import ChainCRF as ChainCRF
    from .estimators import ChainCRFCV as ChainCRFCV
    from .estimators import ChainSVM as ChainSVM
    from .estimators import ChainSVMCV as ChainSVMCV
    from .estimators import DecisionFocusedRegressor as DecisionFocusedRegressor
    from .estimators import DependencyParser as DependencyParser
    from .estimators import DependencyParserCV as DependencyParserCV
    from .estimators import GraphSVM as GraphSVM
    from .estimators import LandmarkDetector as LandmarkDetector
    from .estimators import LinearSVR as LinearSVR
    from .estimators import MetricSVM as MetricSVM
    from .estimators import MulticlassLogistic as MulticlassLogistic
    from .estimators import MulticlassSVM as MulticlassSVM
    from .estimators import MulticlassSVMCV as MulticlassSVMCV
    from .estimators import MultiLabelSVM as MultiLabelSVM
    from .estimators import OnlineMKLClassifier as OnlineMKLClassifier
    from .estimators import QuantileRegressor as QuantileRegressor
    from .estimators import RankingSVM as RankingSVM
    from .estimators import RankingSVMCV as RankingSVMCV
    from .estimators import SegmentationSVM as SegmentationSVM
    from .estimators import load as load

__all__ = [
    "BundleError",
    "Certificate",
    "Checkpoint",
    "ConvergenceWarning",
    "Decoded",
    "Graph",
    "InputTypeError",
    "LabelWarning",
    "NumericalError",
    "OracleError",
    "ParameterError",
    "Progress",
    "Result",
    "Solve",
    "StateError",
    "Status",
    "bundle",
    "callbacks",
    "check_oracle",
    "check_penalty",
    "datasets",
    "distributed",
    "get_include",
    "load_certificate",
    "methods",
    "metrics",
    "minimize",
    "mkl",
    "models",
    "oracles",
    "path",
    "prox",
    "qp",
    "risks",
    "templates",
    "verify",
]

ESTIMATORS = frozenset({
    "BinaryLabelingSVM", "ChainCRF", "ChainCRFCV", "ChainSVM", "ChainSVMCV", "DecisionFocusedRegressor",
    "DependencyParser", "DependencyParserCV", "GraphSVM", "LandmarkDetector", "LinearSVR", "MetricSVM", "MultiLabelSVM",
    "MulticlassLogistic", "MulticlassSVM", "MulticlassSVMCV", "OnlineMKLClassifier", "QuantileRegressor", "RankingSVM",
    "RankingSVMCV", "SegmentationSVM", "load",
})
"""Names that need scikit-learn, which is imported when one of these names is first used."""
FOLDERS = frozenset({"datasets", "estimators", "metrics", "mkl", "plotting", "templates"})
"""Folders that no solver needs; they are imported on first use."""


def __getattr__(name):
    import importlib

    if name in FOLDERS:
        return importlib.import_module(f".{name}", __name__)
    if name in ESTIMATORS:
        return getattr(importlib.import_module(".estimators", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({"__version__", *__all__, *ESTIMATORS, *FOLDERS})
