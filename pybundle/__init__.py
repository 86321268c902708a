"""Certified bundle solvers for `F(w) = lam/2 |w|^2 + R(w)`.

>>> import pybundle as pb
>>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
>>> result = pb.minimize(risk, lam=1.0, tol=1e-6)
>>> result.lower_bound <= result.fun
True
"""

from . import bundle, datasets, models, oracles, prox, qp, risks
from .core.exceptions import (
    BundleError,
    ConvergenceWarning,
    InputTypeError,
    NumericalError,
    OracleError,
    ParameterError,
    StateError,
)
from .risks.check import check_oracle
from .runtime.result import Result, Status
from .solvers import minimize, path

__version__ = "0.1.0"

__all__ = [
    "BundleError",
    "ConvergenceWarning",
    "InputTypeError",
    "NumericalError",
    "OracleError",
    "ParameterError",
    "Result",
    "StateError",
    "Status",
    "bundle",
    "check_oracle",
    "datasets",
    "minimize",
    "models",
    "oracles",
    "path",
    "prox",
    "qp",
    "risks",
]
