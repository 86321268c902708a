"""Error over lam: a path of solves, a table, a plot."""

import warnings

from common import RESULTS

import pybundle as pb


def held_out(risk, grid, errors, time_limit):
    """lam: (result, {name: error}), `errors` a mapping of names to functions of w; what is known goes on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        path = pb.path(risk, grid, tol=1e-2, time_limit=time_limit)
    found = {result.lam: (result, {name: error(result.x) for name, error in errors.items()}) for result in path}
    for row in rows(found):
        print(*row, sep=" | ", flush=True)
    return found


def best_lam(found, name):
    """The lam of least error `name`."""
    return min(found, key=lambda lam: found[lam][1][name])


def rows(found):
    """lam, gap, passes and errors in percent."""
    return [(f"{lam:g}", f"{result.gap:.1e}" + ("" if result.success else " (time limit)"), f"{result.n_passes:.0f}",
             *(f"{100 * error:.2f}" for error in errors.values())) for lam, (result, errors) in found.items()]


def plot(found, best, ylabel, title, path):
    """Errors over lam, a line at the chosen one."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for name in next(iter(found.values()))[1]:
        axes.semilogx(list(found), [100 * errors[name] for _, errors in found.values()], marker="o", label=name)
    axes.axvline(best, color="0.8", zorder=0)
    axes.set(xlabel="lam", ylabel=ylabel, title=title)
    axes.legend()
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
