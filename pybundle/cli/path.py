"""Solve a grid of regularisation constants (`pybundle path`)."""

import copy
from argparse import Namespace

from ..core.exceptions import ParameterError
from ..runtime.result import Status
from ..solvers import path as solve_path
from .data import read
from .models import kind_of, make_risk, prepared, progress
from .output import check_outputs, print_json, print_table
from .train import check_place, save

COLUMNS = ("lam", "objective", "lower bound", "gap", "passes", "seconds")


def path(arguments):
    """Print a line for each lam, largest first, and save the models if a name for them was given."""
    for lam in arguments.lams if arguments.save is not None else ():
        if "{lam}" not in arguments.save and len(arguments.lams) > 1:
            raise ParameterError(f"--save {arguments.save}: {len(arguments.lams)} models need different names; put "
                                 "{lam} into the name, as in model-{lam}.npz")
        name = _name(arguments, lam)
        check_outputs(Namespace(data=arguments.data, save=name), "save")
        check_place("--save", name)
    if len(set(arguments.lams)) < len(arguments.lams):
        raise ParameterError(f"--lams must hold different numbers, got {','.join(map(str, arguments.lams))}")
    data = read(arguments)
    risk, keep = (make_risk(arguments, data), None) if arguments.save is None else _fit(arguments, data)
    results = solve_path(risk, arguments.lams, reuse=arguments.reuse, tol=arguments.tol, atol=arguments.atol,
                         n_parts=arguments.parts, n_jobs=arguments.jobs, time_limit=arguments.time_limit,
                         max_iter=arguments.max_iter, callback=progress(arguments))
    results = sorted(results, key=lambda r: -r.lam)
    rows = [(r.lam, float(r.fun), float(r.lower_bound), float(r.gap), float(r.n_passes), float(r.seconds["total"]))
            for r in results]
    saved = [keep(result) for result in results] if keep is not None else []
    if arguments.json:
        print_json({"data": data.name, "path": [dict(zip(COLUMNS, row, strict=True)) for row in rows],
                    "saved": saved or None})
    else:
        print(f"{data.name}: {data.describe()}")
        print_table(COLUMNS, rows)
        for name in saved:
            print(f"  model saved        {name}")
    if any(r.status is Status.INTERRUPTED for r in results):
        raise KeyboardInterrupt
    return 0 if all(r.success for r in results) else 1


def _fit(arguments, data):
    """Return the risk of the estimator of `train`, and a function that saves the model of a result."""
    estimator, risk, fitted, scaler = prepared(kind_of(arguments, data), arguments, data)

    def keep(result):
        model = copy.copy(estimator).set_params(C=1.0 / result.lam)
        model._store(result, dict(fitted))
        save(model, data, scaler, _name(arguments, result.lam))
        return _name(arguments, result.lam)

    return risk, keep


def _name(arguments, lam):
    """Return the name of the file of the model for lam."""
    return arguments.save.replace("{lam}", repr(float(lam)).removesuffix(".0"))
