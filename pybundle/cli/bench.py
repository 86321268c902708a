"""Compare methods on one problem (`pybundle bench`)."""

import time
from statistics import median

from ..core.exceptions import ParameterError
from ..datasets import load_digits
from ..runtime.result import Status
from ..solvers import minimize
from .data import Data, read
from .models import constant, make_risk
from .output import print_json, print_table

COLUMNS = ("method", "seconds", "passes", "objective", "lower bound", "gap")


def bench(arguments):
    """Print a line per method, with the median of its elapsed seconds in several runs, for which methods take turns."""
    if arguments.data is not None:
        data = read(arguments)
    else:
        X, y, *_ = load_digits()
        data = Data("digits", "row", X, y)
    risk, lam = make_risk(arguments, data), 1.0 / constant(arguments).get("C", 1.0)
    usual = ("prox-bcfw", "oca", "bmrm") if risk.oracle is not None else ("oca", "bmrm")
    seconds = {method: [] for method in arguments.methods or usual}
    if "cutting-plane" in seconds:
        raise ParameterError("method 'cutting-plane' minimises in a ball and has no lam to compare at")
    results = {}
    for _ in range(arguments.repeat):
        for method in seconds:
            started = time.perf_counter()
            result = minimize(risk, lam=lam, method=method, tol=arguments.tol, atol=arguments.atol,
                              n_parts=arguments.parts, n_jobs=arguments.jobs, time_limit=arguments.time_limit,
                              max_iter=arguments.max_iter)
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            seconds[method].append(time.perf_counter() - started)
            results[method] = result
    rows = [(method, median(seconds[method]), float(r.n_passes), float(r.fun), float(r.lower_bound), float(r.gap))
            for method, r in results.items()]
    if arguments.json:
        print_json({"data": data.name, "lam": lam, "tol": arguments.tol,
                    "methods": [dict(zip(COLUMNS, row, strict=True)) for row in rows]})
    else:
        print(f"{data.name}: {data.describe()}, lam = {lam:g}, tol = {arguments.tol:g}, median of {arguments.repeat}")
        print_table(COLUMNS, rows)
    return 0 if all(r.success for r in results.values()) else 1
