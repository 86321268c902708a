"""What only the compiler knows about this build."""

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
    """Whether the kernels were built with bounds checks (PYBUNDLE_CHECKED=1).

    >>> is_checked() in (True, False)
    True
    """
    return bool(PB_IS_CHECKED)
