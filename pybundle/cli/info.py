"""Print versions, BLAS and kernels, or what a saved model is (`pybundle info`)."""

import importlib.metadata
import os
import platform

import numpy as np
import scipy
from threadpoolctl import threadpool_info

from .. import risks
from .._build import is_checked
from ..core.version import __version__
from .look import look
from .output import print_json


def info(arguments):
    """Print the facts that a bug report needs; with a model, those of the model."""
    if arguments.model is not None:
        return look(arguments)
    rows = [("pybundle", __version__), ("Python", f"{platform.python_version()} on {platform.platform()}"),
            ("NumPy", np.__version__), ("SciPy", scipy.__version__)]
    for extra in ("scikit-learn", "matplotlib", "tqdm"):
        try:
            rows.append((extra, importlib.metadata.version(extra)))
        except importlib.metadata.PackageNotFoundError:
            rows.append((extra, "not installed"))
    for library in threadpool_info():
        if library["user_api"] == "blas":
            details = [library["version"], library.get("architecture"), f"{library['num_threads']} threads"]
            rows.append(("BLAS", f"{library['internal_api']} {', '.join(str(d) for d in details if d)}"))
    rows += [("kernels", risks.kernel_name()), ("processors", str(os.cpu_count())),
             ("checked build", "yes" if is_checked() else "no")]
    if arguments.json:
        print_json(dict(rows))
    else:
        for name, value in rows:
            print(f"{name:<14} {value}")
    return 0
