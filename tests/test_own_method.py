"""A method is one class and one record, which `minimize` takes in place of a name: this one is written here."""

import numpy as np
import pytest

import pybundle as pb
from pybundle.core.plane import Plane
from pybundle.core.protocols import BOUNDED
from pybundle.core.rounding import UNIT
from pybundle.runtime.result import Status
from pybundle.solvers.method import WARM_START, Method, Option, integer
from pybundle.solvers.run import Run


class FixedSteps(Run):
    """Frank-Wolfe on the dual of all parts together, without a line search: weights 2 / (k + 1 + delay), or less."""

    kept = "phi", "offset", "error"

    def __init__(self, search, delay):
        super().__init__(search)
        self.delay, self.phi, self.offset, self.error = delay, np.zeros(search.risk.dim), 0.0, 0.0

    def start(self, w0, state=None):
        self._visit(self.search.take(w0, state), 1.0)

    def iterate(self):
        self.trace.n_iter += 1
        self._visit(self.problem.point(self.phi, self.problem.square.lam), 2.0 / (self.trace.n_iter + 1.0 + self.delay))
        return Status.CONVERGED if self.search.is_close() else None

    def _visit(self, w, weight):
        planes, _ = self.search.visit(w)
        plane = self.search.summed(planes)
        self.phi = (1.0 - weight) * self.phi + weight * plane.slope
        self.offset += weight * (plane.offset - self.offset)
        self.error = max(self.error, plane.slope_error) + 8.0 * UNIT * float(np.linalg.norm(plane.slope))
        self.search.offer(self.search.bound_from(Plane(self.offset, self.phi, self.error, 1e-12 * abs(self.offset))))
        self.search.log(self.search.fun)


FIXED_STEPS = Method("fixed-steps", FixedSteps, {"delay": Option(1, integer), **WARM_START}, needs=(BOUNDED,))


def blobs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    return pb.risks.MulticlassHinge(rng.normal(size=(90, 4)) + np.eye(3, 4)[y], y)


def test_it_is_certified_by_minimize():
    result = pb.minimize(blobs(), lam=5.0, method=FIXED_STEPS, tol=0.02, max_iter=3000)
    best = pb.minimize(blobs(), lam=5.0, tol=1e-6)
    assert result.success and result.certified and result.lower_bound <= best.fun <= result.fun <= 1.03 * best.fun


def test_it_resumes_from_a_checkpoint_to_the_last_bit(tmp_path):
    options = {"lam": 5.0, "method": FIXED_STEPS, "tol": 0.02, "delay": 2}
    whole = pb.minimize(blobs(), **options, max_iter=3000)
    with pytest.warns(pb.ConvergenceWarning):
        pb.minimize(blobs(), **options, max_iter=7, checkpoint=tmp_path / "run.npz", checkpoint_every=0.0)
    again = pb.minimize(blobs(), **options, max_iter=3000, checkpoint=tmp_path / "run.npz")
    assert again.x.tobytes() == whole.x.tobytes() and again.nit == whole.nit and again.n_passes == whole.n_passes
    with pytest.raises(pb.StateError, match="delay is 2 there and 3 here"):
        pb.minimize(blobs(), **options | {"delay": 3}, checkpoint=tmp_path / "run.npz")


def test_it_follows_a_path():
    results = pb.path(blobs(), [20.0, 5.0], method=FIXED_STEPS, tol=0.02, max_iter=3000)
    assert all(result.success for result in results) and results[0].lam == 20.0


def test_its_options_and_requirements_are_checked():
    with pytest.raises(pb.ParameterError, match="unknown option 'dlay' for method 'fixed-steps'; did you mean delay"):
        pb.minimize(blobs(), lam=1.0, method=FIXED_STEPS, dlay=2)
    with pytest.raises(pb.ParameterError, match="delay must be an integer >= 1"):
        pb.minimize(blobs(), lam=1.0, method=FIXED_STEPS, delay=0)
    with pytest.raises(pb.ParameterError, match="method 'fixed-steps' starts from the bound R >= 0, which Function"):
        pb.minimize(lambda w: (float(w @ w), 2.0 * w), [1.0], lam=1.0, method=FIXED_STEPS)


def test_what_no_file_can_hold_is_told_with_the_best_state(tmp_path):
    class Growing(FixedSteps):
        kept = *FixedSteps.kept, "seen"
        seen = ()

        def iterate(self):
            self.seen = (*self.seen, {self.trace.n_iter})
            return super().iterate()

    method = FIXED_STEPS._replace(make=Growing)
    with pytest.raises(pb.StateError, match="set cannot be part of a checkpoint") as caught:
        pb.minimize(blobs(), lam=5.0, method=method, tol=0.02, checkpoint=tmp_path / "run.npz", checkpoint_every=0.0)
    result = caught.value.result
    assert result.nit >= 1 and 0.0 <= result.lower_bound <= result.fun


def test_what_is_no_status_is_refused():
    """False from `is_close` passed for Status.CONVERGED, whose number is 0."""
    class Forgetful(FixedSteps):
        def iterate(self):
            return super().iterate() is not None

    with pytest.raises(pb.InputTypeError, match="iterate of Forgetful must return a Status or None, got False"):
        pb.minimize(blobs(), lam=1.0, method=FIXED_STEPS._replace(make=Forgetful))


def test_a_bound_keeps_its_plane():
    """A method that writes into the slope it has offered would certify another plane."""
    class Careless(FixedSteps):
        def iterate(self):
            status = super().iterate()
            self.search.bound.plane.slope[:] += 1.0
            return status

    with pytest.raises(ValueError, match="read-only"):
        pb.minimize(blobs(), lam=1.0, method=FIXED_STEPS._replace(make=Careless))
