"""A method is a class and one line in METHODS: this one is written here, and runs as those of the package do."""

import numpy as np
import pytest

import pybundle as pb
from pybundle.core.plane import Plane
from pybundle.core.protocols import BOUNDED
from pybundle.core.rounding import UNIT
from pybundle.runtime.result import Status
from pybundle.solvers.method import WARM_START, Method, Option, integer
from pybundle.solvers.methods import METHODS
from pybundle.solvers.plane_checks import summed
from pybundle.solvers.run import Run


class Weights:
    """The weight of the newest plane: 2 / (k + 2), or less."""

    def __init__(self, delay):
        self.delay = delay

    def of(self, k):
        return 2.0 / (k + 1.0 + self.delay)


class FixedSteps(Run):
    """Frank-Wolfe on the dual of all parts together, without a line search."""

    kept = "phi", "offset", "error"

    def __init__(self, risk, objective, settings, delay):
        super().__init__(risk, objective, settings)
        self.weights, self.phi, self.offset, self.error = Weights(delay), np.zeros(risk.dim), 0.0, 0.0

    def start(self, w0, state=None):
        if state is not None:
            self.search.take(state)
            w0 = state.w
        self._visit(self.objective.project(np.array(w0)), 1.0)

    def iterate(self):
        self.trace.n_iter += 1
        self._visit(self.objective.point(self.phi, self.objective.lam), self.weights.of(self.trace.n_iter))
        return Status.CONVERGED if self.search.is_close() else None

    def describe(self):
        return "fixed steps"

    def _visit(self, w, weight):
        planes, _ = self.search.visit(w)
        plane = summed(planes, self.objective.coordinates)
        self.phi = (1.0 - weight) * self.phi + weight * plane.slope
        self.offset += weight * (plane.offset - self.offset)
        self.error = max(self.error, plane.slope_error) + 8.0 * UNIT * float(np.linalg.norm(plane.slope))
        self.search.offer(self.search.bound_from(Plane(self.offset, self.phi, self.error, 1e-12 * self.offset)))
        self.search.log(self.search.fun)


@pytest.fixture
def method(monkeypatch):
    def make(problem, delay):
        return FixedSteps(problem.risk, problem.objective, problem.settings, delay)
    monkeypatch.setitem(METHODS, "fixed-steps", Method(make, {"delay": Option(1, integer), **WARM_START},
                                                       needs=(BOUNDED,)))
    return "fixed-steps"


def blobs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    return pb.risks.MulticlassHinge(rng.normal(size=(90, 4)) + np.eye(3, 4)[y], y)


def test_it_is_certified_by_minimize(method):
    result = pb.minimize(blobs(), lam=5.0, method=method, tol=0.02, max_iter=3000)
    best = pb.minimize(blobs(), lam=5.0, tol=1e-6)
    assert result.success and result.certified and result.lower_bound <= best.fun <= result.fun <= 1.03 * best.fun


def test_it_resumes_from_a_checkpoint_to_the_last_bit(method, tmp_path):
    options = {"lam": 5.0, "method": method, "tol": 0.02, "delay": 2}
    whole = pb.minimize(blobs(), **options, max_iter=3000)
    with pytest.warns(pb.ConvergenceWarning):
        pb.minimize(blobs(), **options, max_iter=7, checkpoint=tmp_path / "run.npz", checkpoint_every=0.0)
    again = pb.minimize(blobs(), **options, max_iter=3000, checkpoint=tmp_path / "run.npz")
    assert again.x.tobytes() == whole.x.tobytes() and again.nit == whole.nit and again.n_passes == whole.n_passes
    with pytest.raises(pb.StateError, match="delay is 2 there and 3 here"):
        pb.minimize(blobs(), **options | {"delay": 3}, checkpoint=tmp_path / "run.npz")


def test_it_follows_a_path(method):
    results = pb.path(blobs(), [20.0, 5.0], method=method, tol=0.02, max_iter=3000)
    assert all(result.success for result in results) and results[0].lam == 20.0


def test_its_options_and_requirements_are_checked(method):
    with pytest.raises(pb.ParameterError, match="unknown option 'dlay' for method 'fixed-steps'; did you mean delay"):
        pb.minimize(blobs(), lam=1.0, method=method, dlay=2)
    with pytest.raises(pb.ParameterError, match="delay must be an integer >= 1"):
        pb.minimize(blobs(), lam=1.0, method=method, delay=0)
    with pytest.raises(pb.ParameterError, match="method 'fixed-steps' starts from the bound R >= 0, which Function"):
        pb.minimize(lambda w: (float(w @ w), 2.0 * w), [1.0], lam=1.0, method=method)
