"""The exceptions of the package, which all derive from `BundleError`, and its warnings."""


class BundleError(Exception):
    """Base of every error raised by pybundle.

    Attributes
    ----------
    result : Result or None
        Best certified state of the run that the error interrupted, if there was one.
    """

    result = None


class ParameterError(BundleError, ValueError):
    """An argument has a wrong value or shape."""


class InputTypeError(BundleError, TypeError):
    """An argument has a wrong type."""


class OracleError(BundleError, RuntimeError):
    """A risk, oracle or model broke its contract."""


class ContradictionError(OracleError):
    """The planes of a risk contradict each other, so that they prove nothing."""


class NumericalError(BundleError, ArithmeticError):
    """Rounding or overflow made a result meaningless."""


class StateError(BundleError, RuntimeError):
    """A saved file or checkpoint is malformed or does not fit."""


class LabelWarning(UserWarning):
    """Labels look like measurements, which belong to a regression."""


class ConvergenceWarning(UserWarning):
    """A run stopped before its gap reached the tolerance.

    Warnings of estimators are also of the class `sklearn.exceptions.ConvergenceWarning`.
    """
