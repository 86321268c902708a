"""Estimators in the manner of scikit-learn, for flat and for structured labels."""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as problem:
    raise ImportError("the estimators need scikit-learn, which is not installed; "
                      "run: pip install 'pybundle-ml[sklearn]'") from problem

from .multiclass import MulticlassSVM

__all__ = [
    "MulticlassSVM",
]
