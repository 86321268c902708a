"""`pybundle demo`."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

from ..core.archive import write_atomically
from ..datasets import load_digits
from ..plotting import plot_convergence
from .models import estimators
from .output import certificate, certificate_rows, print_json, print_rows


def demo(arguments):
    """Trains on scikit-learn's digits, tests, and saves model and plot."""
    X, y, X_test, y_test = load_digits()
    svm = estimators().MulticlassSVM(C=1.0 / arguments.lam, method=arguments.method, tol=arguments.tol)
    if not arguments.json:
        print(f"multiclass SVM on {X.shape[0]} handwritten digits, {X.shape[1]} pixels, 10 classes, "
              f"lam = {arguments.lam:g}, method {arguments.method!r}")
    started = time.perf_counter()
    svm.fit(X, y)
    record = {**certificate(svm), "seconds": time.perf_counter() - started, "accuracy": svm.score(X_test, y_test)}
    arguments.output.mkdir(parents=True, exist_ok=True)
    model, plot = (arguments.output / f"pybundle_demo.{suffix}" for suffix in ("npz", "png"))
    svm.save(model)
    rows = [*certificate_rows(record),
            ("held-out accuracy", f"{100 * record['accuracy']:.1f} %   ({len(y_test)} examples)"),
            ("model saved", model)]
    try:
        figure = plot_convergence(SimpleNamespace(history=svm.history_), tol=arguments.tol,
                                  title=f"digits, lam = {arguments.lam:g}")
        write_atomically(plot, lambda file: figure.savefig(file, format="png"))
        rows.append(("plot saved", plot))
    except ImportError as problem:
        plot = None
        rows.append(("no plot", problem))
    if arguments.json:
        print_json({**record, "model": str(model), "plot": None if plot is None else str(plot)})
    else:
        print_rows(rows)
    if not svm.converged_:
        print(f"pybundle: the gap {svm.gap_:.1e} is above tol = {arguments.tol:g}", file=sys.stderr)
    return 0 if svm.converged_ else 1
