"""The command line: `pybundle demo` and `pybundle info`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy
from threadpoolctl import threadpool_info

from . import __version__, minimize, risks
from ._build import is_checked
from .core.exceptions import BundleError
from .datasets import load_digits
from .plotting import plot_convergence


def main(argv=None):
    """Runs a command; 0 on success, 1 where the gap was not reached, 2 on errors (one line on stderr)."""
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
        return arguments.command(arguments)
    except (BundleError, ImportError, OSError) as problem:
        text = " ".join(str(problem).split())
        print(f"pybundle: error: {text}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pybundle: interrupted", file=sys.stderr)
        return 130


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage text."""

    def error(self, message):
        self.exit(2, f"{self.prog}: error: {message}\n")


def _parser():
    parser = _Parser(prog="pybundle", description="Certified bundle solvers for lam/2 |w|^2 + R(w).")
    parser.add_argument("--version", action="version", version=f"pybundle {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="command")

    demo = commands.add_parser("demo", help="train a multiclass SVM on scikit-learn's digits and certify it",
                               description="Trains a multiclass SVM on 1437 handwritten digits to a certified gap, "
                                           "tests it on 360 others, saves pybundle_demo.npz and pybundle_demo.png.")
    demo.add_argument("--output", type=Path, default=Path("."), metavar="DIR", help="where to save (default: here)")
    demo.add_argument("--method", default="auto", help="method of pybundle.minimize (default: auto)")
    demo.add_argument("--lam", type=float, default=1.0, help="regularisation constant, sum scale (default: 1)")
    demo.add_argument("--tol", type=float, default=1e-3, help="relative gap to reach (default: 1e-3)")
    demo.set_defaults(command=_demo)

    info = commands.add_parser("info", help="versions, BLAS and kernels of this installation",
                               description="Prints versions, BLAS and kernels; add it to a bug report.")
    info.set_defaults(command=_info)
    return parser


def _demo(arguments):
    X, y, X_test, y_test = load_digits()
    risk = risks.MulticlassHinge(X, y)
    print(f"multiclass SVM on {X.shape[0]} handwritten digits, {X.shape[1]} pixels, 10 classes, "
          f"lam = {arguments.lam:g}, method {arguments.method!r}")
    result = minimize(risk, lam=arguments.lam, method=arguments.method, tol=arguments.tol)
    W = result.x.reshape(-1, X.shape[1])
    accuracy = float(np.mean(np.argmax(X_test @ W.T, axis=1) == y_test))
    print(f"  objective          {result.fun:.6f}")
    print(f"  lower bound        {result.lower_bound:.6f}")
    print(f"  relative gap       {result.gap:.2e}   ({'certified' if result.certified else 'not certified'})")
    print(f"  passes             {result.n_passes:.0f}")
    print(f"  seconds            {result.seconds['total']:.2f}")
    print(f"  held-out accuracy  {100 * accuracy:.1f} %   ({len(y_test)} examples)")
    arguments.output.mkdir(parents=True, exist_ok=True)
    model = arguments.output / "pybundle_demo.npz"
    _write(model, lambda file: np.savez(file, W=W, lam=arguments.lam, fun=result.fun, gap=result.gap,
                                        lower_bound=result.lower_bound))
    print(f"  model saved        {model}")
    plot = arguments.output / "pybundle_demo.png"
    try:
        figure = plot_convergence(result, tol=arguments.tol, title=f"digits, lam = {arguments.lam:g}")
        _write(plot, lambda file: figure.savefig(file, format="png"))
        print(f"  plot saved         {plot}")
    except ImportError as problem:
        print(f"  no plot            {problem}")
    if not result.success:
        print(f"pybundle: {result.message}", file=sys.stderr)
    return 0 if result.success else 1


def _info(arguments):
    rows = [("pybundle", __version__), ("Python", f"{platform.python_version()} on {platform.platform()}"),
            ("NumPy", np.__version__), ("SciPy", scipy.__version__)]
    for library in threadpool_info():
        if library["user_api"] == "blas":
            details = [library["version"], library.get("architecture"), f"{library['num_threads']} threads"]
            rows.append(("BLAS", f"{library['internal_api']} {', '.join(str(d) for d in details if d)}"))
    rows += [("kernels", risks.kernel_name()), ("checked build", "yes" if is_checked() else "no")]
    for name, value in rows:
        print(f"{name:<14} {value}")
    return 0


def _write(path, save):
    """Writes a file completely or not at all: beside its place first, then renamed."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            save(file)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask():
    """The process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


if __name__ == "__main__":
    sys.exit(main())
