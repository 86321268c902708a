"""Solve a grid of regularisation constants (`pybundle path`)."""

from ..runtime.result import Status
from ..solvers import path as solve_path
from .data import read
from .models import make_risk, progress
from .output import print_json, print_table

COLUMNS = ("lam", "objective", "lower bound", "gap", "passes", "seconds")


def path(arguments):
    """Print a line for each lam, largest first."""
    data = read(arguments)
    risk = make_risk(arguments, data)
    results = solve_path(risk, arguments.lams, reuse=arguments.reuse, tol=arguments.tol, atol=arguments.atol,
                         n_parts=arguments.parts, n_jobs=arguments.jobs, time_limit=arguments.time_limit,
                         max_iter=arguments.max_iter, callback=progress(arguments))
    rows = [(r.lam, float(r.fun), float(r.lower_bound), float(r.gap), float(r.n_passes), float(r.seconds["total"]))
            for r in sorted(results, key=lambda r: -r.lam)]
    if arguments.json:
        print_json({"data": data.name, "path": [dict(zip(COLUMNS, row, strict=True)) for row in rows]})
    else:
        print(f"{data.name}: {data.describe()}")
        print_table(COLUMNS, rows)
    if any(r.status is Status.INTERRUPTED for r in results):
        raise KeyboardInterrupt
    return 0 if all(r.success for r in results) else 1
