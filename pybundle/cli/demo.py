"""Train a first model and show its certificate, for newcomers (`pybundle demo`)."""

import sys
import time
from decimal import ROUND_UP, Context
from types import SimpleNamespace

from ..core.archive import write_atomically
from ..datasets import load_digits
from ..plotting import plot_convergence
from .models import estimators
from .output import certificate, certificate_rows, print_json, print_rows, shown

NEXT = """
What to type next:
  pybundle demo --tol 1e-6                      the same model, closer to the optimum
  pybundle bench                                several methods side by side on these digits
  pybundle train DATA --save model.npz          a model of your own data: svmlight, csv, npz, CoNLL, CoNLL-U
  pybundle --help                               all commands"""


def demo(arguments):
    """Train and test on scikit-learn's digits, and save model and plot."""
    X, y, X_test, y_test = load_digits()
    svm = estimators().MulticlassSVM(C=1.0 / arguments.lam, method=arguments.method, tol=arguments.tol)
    if not arguments.json:
        print(f"Training a multiclass SVM: {X.shape[0]} handwritten digits, {X.shape[1]} pixels, 10 classes.\n"
              f"Minimises lam/2 |w|^2 + sum of hinge losses, lam = {arguments.lam:g}, method {arguments.method!r}.")
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
        if svm.certified_:
            percent = float(Context(prec=2, rounding=ROUND_UP).create_decimal_from_float(100 * svm.gap_))
            print("\nNo weights have an objective below the lower bound. This is proven, rounding errors included.\n"
                  f"More training could lower the objective by {percent:g} % at most.")
        print(NEXT)
    if not svm.converged_:
        print(f"pybundle: the gap {shown('gap', svm.gap_)} is above tol = {arguments.tol:g}", file=sys.stderr)
    return 0 if svm.converged_ else 1
