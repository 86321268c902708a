"""A grid of regularisation constants, largest first, each run warmed by the one before."""

from __future__ import annotations

import numpy as np

from ..core.exceptions import ParameterError
from ..core.validation import check_choice, check_number
from ..runtime.result import Status
from .minimize import minimize


def path(risk, lams, *, reuse="planes", w0=None, method="auto", **options):
    """Solves `min lam/2 |w|^2 + R(w)` for every lam of a grid.

    Parameters
    ----------
    risk, method, **options
        As in `minimize`.
    lams : sequence of float
        Solved from the largest to the smallest.
    reuse : {"planes", "solution"}
        "planes" keeps the bundle: planes bound R and do not depend on lam, so the next run starts with a lower bound
        and without an oracle call. "solution" keeps only the minimiser, the REUSE of Uricar & Franc (2013).

    Returns
    -------
    list of Result
        In the order of `lams`; each has the field `lam`. Only the one of the smallest lam keeps its `state`. After
        Ctrl-C, or where the callback asks to stop, those that were reached; an exception carries the finished ones
        as `error.finished`.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> [round(r.fun, 3) for r in pb.path(risk, [1.0, 0.1], tol=1e-8)]
    [0.5, 0.05]
    """
    check_choice("reuse", reuse, ("planes", "solution"))
    if not isinstance(lams, (list, tuple, np.ndarray)) or len(lams) == 0 or any(np.ndim(lam) for lam in lams):
        raise ParameterError(f"lams must be a non-empty sequence of numbers, got {lams!r}")
    lams = [check_number("lams", lam, low=0.0, strict=True) for lam in lams]
    results = [None] * len(lams)
    previous, first = None, {"w0": w0, "warm_start": options.pop("warm_start", None)}
    for k in sorted(range(len(lams)), key=lambda k: -lams[k]):
        warm = {}
        if previous is not None:
            warm = {"w0": previous.x}
            if reuse == "planes":
                warm["warm_start"] = previous
        else:
            warm = {name: value for name, value in first.items() if value is not None}
        try:
            result = minimize(risk, lam=lams[k], method=method, **warm, **options)
        except Exception as error:
            error.finished = [result for result in results if result is not None]
            raise
        if previous is not None:
            previous.state = None           # its planes live on in the new bundle
        previous = result
        previous.lam = lams[k]
        results[k] = previous
        if result.status in (Status.INTERRUPTED, Status.CALLBACK):
            break
    return [result for result in results if result is not None]
