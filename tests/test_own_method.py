"""A method is one class for its run and one record, which `minimize` takes: this one is written here."""

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import pybundle as pb
from pybundle.methods import BOUNDED, Method, Plane, Run, integer, option

EPS = np.finfo(float).eps


class FixedStepsRun(Run):
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
        return pb.Status.CONVERGED if self.search.is_close() else None

    def _visit(self, w, weight):
        planes, _ = self.search.visit(w)
        plane = self.search.summed(planes)
        self.phi = (1.0 - weight) * self.phi + weight * plane.slope
        self.offset += weight * (plane.offset - self.offset)
        self.error = max(self.error, plane.slope_error) + 8.0 * EPS * float(np.linalg.norm(plane.slope))
        self.search.offer(self.search.bound_from(Plane(self.offset, self.phi, self.error, 1e-12 * abs(self.offset))))
        self.search.log(self.search.fun)


@dataclass(frozen=True, kw_only=True)
class FixedSteps(Method):
    """Frank-Wolfe without a line search."""

    name = "fixed-steps"
    needs = (BOUNDED,)
    delay: int = option(1, integer)
    run: type = FixedStepsRun       # for tests of wrong ones

    def begin(self, search):
        return self.run(search, self.delay)


def blobs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    return pb.risks.MulticlassHinge(rng.normal(size=(90, 4)) + np.eye(3, 4)[y], y)


def test_it_is_certified_by_minimize():
    result = pb.minimize(blobs(), lam=5.0, method=FixedSteps(), tol=0.02, max_iter=3000)
    best = pb.minimize(blobs(), lam=5.0, tol=1e-6)
    assert result.success and result.certified and result.lower_bound <= best.fun <= result.fun <= 1.03 * best.fun


def test_it_resumes_from_a_checkpoint_to_the_last_bit(tmp_path):
    options = {"lam": 5.0, "method": FixedSteps(delay=2), "tol": 0.02}
    whole = pb.minimize(blobs(), **options, max_iter=3000)
    with pytest.warns(pb.ConvergenceWarning):
        pb.minimize(blobs(), **options, max_iter=7, checkpoint=pb.Checkpoint(tmp_path / "run.npz", every=0.0))
    again = pb.minimize(blobs(), **options, max_iter=3000, checkpoint=tmp_path / "run.npz")
    assert again.x.tobytes() == whole.x.tobytes() and again.nit == whole.nit and again.n_passes == whole.n_passes
    with pytest.raises(pb.StateError, match="method is 'fixed-steps delay=2' there and 'fixed-steps delay=3' here"):
        pb.minimize(blobs(), **options | {"method": FixedSteps(delay=3)}, checkpoint=tmp_path / "run.npz")


def test_it_follows_a_path():
    results = pb.path(blobs(), [20.0, 5.0], method=FixedSteps(), tol=0.02, max_iter=3000)
    assert all(result.success for result in results) and results[0].lam == 20.0


def test_its_options_and_requirements_are_checked():
    with pytest.raises(TypeError, match="unexpected keyword argument 'dlay'"):
        FixedSteps(dlay=2)
    with pytest.raises(pb.ParameterError, match="delay must be an integer >= 1"):
        FixedSteps(delay=0)
    with pytest.raises(pb.ParameterError, match="method 'fixed-steps' starts from the bound R >= 0, which Function"):
        pb.minimize(lambda w: (float(w @ w), 2.0 * w), [1.0], lam=1.0, method=FixedSteps())


def test_what_no_file_can_hold_is_told_with_the_best_state(tmp_path):
    class Growing(FixedStepsRun):
        kept = *FixedStepsRun.kept, "seen"
        seen = ()

        def iterate(self):
            self.seen = (*self.seen, {self.trace.n_iter})
            return super().iterate()

    method = FixedSteps(run=Growing)
    with pytest.raises(pb.StateError, match="set cannot be part of a checkpoint") as caught:
        pb.minimize(blobs(), lam=5.0, method=method, tol=0.02,
                    checkpoint=pb.Checkpoint(tmp_path / "run.npz", every=0.0))
    result = caught.value.result
    assert result.nit >= 1 and 0.0 <= result.lower_bound <= result.fun


def test_what_is_no_status_is_refused():
    """False from `is_close` passed for Status.CONVERGED, whose number is 0."""
    class Forgetful(FixedStepsRun):
        def iterate(self):
            return super().iterate() is not None

    with pytest.raises(pb.InputTypeError, match="iterate of Forgetful must return a Status or None, got False"):
        pb.minimize(blobs(), lam=1.0, method=FixedSteps(run=Forgetful))


PAGE = Path(__file__).parents[1] / "docs" / "own_method.rst"


@pytest.fixture(scope="module")
def two_planes():
    """The method of the documentation, whose page `test_docs.py` runs."""
    if not PAGE.exists():
        pytest.skip("there are no pages here")
    code = re.search(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", PAGE.read_text(encoding="utf-8"), re.M)[1]
    code = re.sub("^   ", "", code, flags=re.M).strip()
    assert len(code.splitlines()) <= 60
    names = {}
    exec(compile(code, PAGE.name, "exec"), names)
    return names["TwoPlanes"]


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(5))
def test_the_method_of_the_documentation_proves_its_bounds(two_planes, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    for risk in (pb.risks.MulticlassHinge(X, rng.integers(0, 3, 60)), pb.risks.Absolute(X, y),
                 pb.risks.Function(lambda w: (np.abs(X @ w - y).sum() - 100.0, X.T @ np.sign(X @ w - y)), 4)):
        lam = 10.0 ** rng.uniform(0.0, 2.0)
        result = pb.minimize(risk, lam=lam, method=two_planes(longest=rng.uniform(0.3, 1.0)), max_iter=400)
        best = pb.minimize(risk, lam=lam, tol=0.0, atol=1e-6)
        assert result.certified and result.lower_bound <= best.fun + best.error
        assert best.lower_bound <= result.fun + result.error and result.gap < 0.2


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
def test_the_method_of_the_documentation_counts_rounding(two_planes):
    """With one weight it often reaches the minimum to the last bits, where rounding would show."""
    gaps = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x, lam = rng.normal(size=7) * 10.0 ** rng.uniform(-3.0, 3.0), 10.0 ** rng.uniform(-1.0, 1.0)
        signs = rng.choice([-1, 1], 7)
        result = pb.minimize(pb.risks.BinaryHinge(x[:, None], signs, n_classes=2), lam=lam, method=two_planes(),
                             tol=1e-14, max_iter=60)
        least = least_of_hinge([Fraction(v) for v in (x * signs).tolist()], Fraction(lam))
        assert Fraction(result.lower_bound) <= least <= Fraction(result.fun) + Fraction(result.error)
        gaps.append(result.gap)
    assert np.sum(np.array(gaps) < 1e-13) >= 20


def least_of_hinge(slopes, lam):
    """Return the minimum over w of `lam/2 w^2 + sum_i max(0, 1 - s_i w)`, exactly."""
    def value(w):
        return lam * w * w / 2 + sum(max(Fraction(0), 1 - s * w) for s in slopes)

    corners = [1 / s for s in slopes if s]
    centres = [sum(s for s in slopes if s * w < 1) / lam for corner in corners
               for w in (corner * (1 - Fraction(1, 10**30)), corner * (1 + Fraction(1, 10**30)))]
    return min(map(value, [*corners, *centres, sum(slopes) / lam]))


def test_a_bound_keeps_its_plane():
    """A method that writes into the slope it has offered would certify another plane."""
    class Careless(FixedStepsRun):
        def iterate(self):
            status = super().iterate()
            self.search.bound.plane.slope[:] += 1.0
            return status

    with pytest.raises(ValueError, match="read-only"):
        pb.minimize(blobs(), lam=1.0, method=FixedSteps(run=Careless))


def test_a_start_without_a_pass_is_told():
    class Idle(FixedStepsRun):
        def start(self, w0, state=None):
            self.search.take(w0, state)

    with pytest.raises(pb.InputTypeError, match="start of Idle must visit a point"):
        pb.minimize(blobs(), lam=1.0, method=FixedSteps(run=Idle))


def test_any_penalty_that_is_a_square_has_a_minimiser():
    """`problem.minimiser(phi)`, which the page names, divided by 0 for lam, an equal array and bounds 0."""
    class Minimises(FixedStepsRun):
        def iterate(self):
            w = self.problem.minimiser(self.phi)
            np.testing.assert_allclose(w, self.problem.point(self.phi, self.problem.square.lam), atol=1e-15)
            return super().iterate()

    for penalty in (pb.prox.SquaredL2(10.0), pb.prox.SquaredL2(np.full(12, 10.0)),
                    pb.prox.SquaredL2(10.0) + pb.prox.Box(0.0)):
        result = pb.minimize(blobs(), penalty=penalty, method=FixedSteps(run=Minimises), tol=0.05, max_iter=3000)
        assert result.success is True and result.certified


def test_a_text_is_no_tuple_of_kept_names():
    with pytest.raises(pb.InputTypeError, match=r"kept of Wrong must be a tuple of names.*write kept = \('phi',\)"):
        class Wrong(FixedStepsRun):
            kept = "phi"


def test_options_hold_no_arrays():
    @dataclass(frozen=True, kw_only=True)
    class Weighted(FixedSteps):
        weights: object = option(None, lambda name, value: np.asarray(value))

    with pytest.raises(pb.InputTypeError, match=r"weights of method 'fixed-steps' must not be an array.*a tuple"):
        Weighted(weights=[1.0, 2.0])


def test_stages_of_auto_are_no_subclasses():
    """Its text named their options, and could not be read back."""
    @dataclass(frozen=True, kw_only=True)
    class Longer(pb.methods.OCA):
        extra: int = option(1, integer)

    with pytest.raises(pb.InputTypeError, match=r"oca of Auto must be a pb.methods.OCA, got Longer; pass a record"):
        pb.methods.Auto(oca=Longer(extra=2))
