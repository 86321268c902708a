"""Online proximal learning of structured models, and multiple kernel learning of structured and flat models."""

from .kernel import Kernel
from .kernels import B1Spline, Callable, Gaussian, Linear, Mean, Polynomial, Precomputed
from .online import OnlineProximal
from .online_mkl import OnlineMKL
from .parts import Features

__all__ = [
    "B1Spline", "Callable", "Features", "Gaussian", "Kernel", "Linear", "Mean", "OnlineMKL", "OnlineProximal",
    "Polynomial", "Precomputed",
]
