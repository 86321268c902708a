"""This module tells how this build was compiled."""

cdef extern from *:
    """
    #ifdef PYBUNDLE_CHECKED
    #define PB_IS_CHECKED 1
    #else
    #define PB_IS_CHECKED 0
    #endif
    """
    const int PB_IS_CHECKED


def is_checked():
    """Return whether the kernels were built with bounds checks (PYBUNDLE_CHECKED=1).

    >>> is_checked() in (True, False)
    True
    """
    return bool(PB_IS_CHECKED)
