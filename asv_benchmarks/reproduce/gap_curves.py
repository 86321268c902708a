"""Relative gaps along kept runs of several seeds: where a gap is reached, medians, and their figure."""

import numpy as np


def within(curve, budget):
    """The part of a curve that took at most so many oracle calls for an example."""
    n = int(np.searchsorted(curve["n_passes"], budget, "right"))
    return {name: values[:n] for name, values in curve.items()}


def relative(curve):
    best = np.array(curve["best_primal"])
    gaps = np.full(len(best), np.inf)
    known = np.isfinite(best)
    gaps[known] = (best[known] - np.array(curve["lower_bound"])[known]) / best[known]
    return np.maximum(gaps, 1e-16)


def reached(curve, gap, column):
    at = np.flatnonzero(relative(curve) <= gap)
    return curve[column][at[0]] if len(at) else np.inf


def median(values, digits):
    value = np.median(values)
    return f"{value:.{digits}f}" if np.isfinite(value) else "-"


def draw(panel, found, column):
    """Medians with minimum and maximum of the seeds."""
    for name, records in found.items():
        if not records:
            continue
        curves = [record["curve"] for record in records]
        low = max(curve[column][int(np.argmax(np.isfinite(relative(curve))))] for curve in curves)
        high = min(curve[column][-1] for curve in curves)
        grid = np.geomspace(max(low, 1e-3), max(high, low + 1e-3), 50)
        # a gap holds until the next certificate: a step, not a line
        values = np.array([relative(curve)[np.maximum(np.searchsorted(curve[column], grid, "right") - 1, 0)]
                           for curve in curves])
        line, = panel.loglog(grid, np.median(values, axis=0), label=name)
        panel.fill_between(grid, values.min(axis=0), values.max(axis=0), color=line.get_color(), alpha=0.2)
