"""The methods of `minimize`: records of their options, and the classes to derive a method of your own from."""

from .core.plane import Plane
from .core.protocols import BOUNDED, LABELLINGS, SMOOTH
from .solvers.block.methods import ALM, BCFW, MPBCFW, ProxBCFW
from .solvers.bundle.methods import BMRM, OCA, SGD, FrankWolfe, ProxBMRM
from .solvers.interior.methods import InteriorPoint
from .solvers.method import Method, choice, integer, number, option, or_none
from .solvers.methods import Auto, parse
from .solvers.run import Run
from .solvers.search import Search
from .solvers.smooth.methods import LBFGS, Newton

__all__ = [
    "ALM", "BCFW", "BMRM", "BOUNDED", "LABELLINGS", "LBFGS", "MPBCFW", "OCA", "SGD", "SMOOTH", "Auto", "FrankWolfe",
    "InteriorPoint", "Method", "Newton", "Plane", "ProxBCFW", "ProxBMRM", "Run", "Search", "choice", "integer",
    "number", "option", "or_none", "parse",
]


def __dir__():
    return __all__
