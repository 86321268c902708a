"""The digits split and the convergence plot."""

import numpy as np
import pytest

import pybundle as pb
from pybundle.datasets import load_digits
from pybundle.plotting import plot_convergence


def small_run():
    return pb.minimize(pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1]), lam=1.0)


def test_digits_split():
    pytest.importorskip("sklearn")
    X, y, X_test, y_test = load_digits()
    assert X.shape == (1437, 64) and X_test.shape == (360, 64) and X.dtype == np.float32
    assert X.flags.c_contiguous and X.min() == 0.0 and X.max() == 1.0
    assert set(y) == set(y_test) == set(range(10))
    assert not {x.tobytes() for x in X} & {x.tobytes() for x in X_test}, "an image stands in both parts"


@pytest.mark.parametrize("wrap", [lambda r: r, lambda r: [r, r], lambda r: {"a": r, "b": r}])
def test_plot_has_two_panels(wrap):
    pytest.importorskip("matplotlib")
    figure = plot_convergence(wrap(small_run()), tol=1e-2, title="t")
    passes, seconds = figure.axes
    assert passes.get_yscale() == "log" and passes.get_xlabel() == "passes over the data"
    assert seconds.get_xlabel() == "seconds"


def test_plot_refuses_what_is_no_result():
    for wrong in (3, [1, 2], {"a": None}):
        with pytest.raises(pb.InputTypeError, match="results must"):
            plot_convergence(wrong)
    with pytest.raises(pb.ParameterError, match="at least one"):
        plot_convergence([])
