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
        In the order of `lams`; each has the field `lam`. After Ctrl-C those that were reached. Only the one of the smallest lam keeps its `state`.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> [round(r.fun, 3) for r in pb.path(risk, [1.0, 0.1], tol=1e-8)]
    [0.5, 0.05]
    """
    check_choice("reuse", reuse, ("planes", "solution"))
    if np.ndim(lams) != 1 or len(lams) == 0:
        raise ParameterError(f"lams must be a non-empty sequence of numbers, got {lams!r}")
    lams = [check_number("lams", lam, low=0.0, strict=True) for lam in lams]
    results = [None] * len(lams)
    previous = None
    for k in sorted(range(len(lams)), key=lambda k: -lams[k]):
        warm = {}
        if previous is not None:
            warm = {"w0": previous.x}
            if reuse == "planes":
                warm["warm_start"] = previous
        elif w0 is not None:
            warm = {"w0": w0}
        result = minimize(risk, lam=lams[k], method=method, **warm, **options)
        if previous is not None:
            previous.state = None           # its planes live on in the new bundle
        previous = result
        previous.lam = lams[k]
        results[k] = previous
        if result.status is Status.INTERRUPTED:
            break
    return [result for result in results if result is not None]
