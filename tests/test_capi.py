"""The C interface, driven by a host in C that knows nothing of Python and does not hold the GIL."""

import ctypes
import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from native.build import Data, library, sample
from native.interface import Result, table

import pybundle as pb
from pybundle.capi.machine import Busy, Machine, code_of
from pybundle.core.exceptions import NumericalError, OracleError, ParameterError

STOPPED, PARAMETER, ORACLE = 1, -1, -2
ROOM = 3000


class Outcome:
    """What `train` of host.c came to."""

    def __init__(self, data, method, lam=0.5, tol=1e-5, n_jobs=1, by_example=False, pause_at=0, room=ROOM):
        trace, self.w, self.result = np.zeros((room, 2)), np.zeros(data.K * data.d), Result()
        text, function = ctypes.create_string_buffer(400), library("host").train
        function.restype = ctypes.c_int64
        function.argtypes = [ctypes.c_void_p, ctypes.POINTER(Data), ctypes.c_char_p, ctypes.c_double, ctypes.c_double,
                             ctypes.c_int64, ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p,
                             ctypes.c_void_p, ctypes.POINTER(Result), ctypes.c_char_p]
        self.steps = function(table(), data, method.encode(), lam, tol, n_jobs, by_example, pause_at, room,
                              trace.ctypes.data, self.w.ctypes.data, self.result, text)
        self.trace, self.text = trace[:max(self.steps, 0)], text.value.decode()

    def __eq__(self, other):
        return (self.steps == other.steps and np.array_equal(self.trace, other.trace)
                and np.array_equal(self.w, other.w) and self.result.lower_bound == other.result.lower_bound)


@pytest.mark.parametrize("method", ["oca", "bmrm", "prox-bcfw", "auto"])
@pytest.mark.parametrize("by_example", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_host_goes_the_way_of_minimize(method, by_example, n_jobs):
    if method == "prox-bcfw" and not by_example:
        pytest.skip("block methods need single examples")
    data = sample()
    host = Outcome(data, method, n_jobs=n_jobs, by_example=by_example)
    python = pb.minimize(data.examples() if by_example else data.risk(), lam=0.5, tol=1e-5, method=method)
    assert host.steps == python.nit and np.array_equal(host.w, python.x)
    assert np.array_equal(host.trace, np.column_stack([python.history["best_primal"], python.history["lower_bound"]]))
    assert (host.result.fun, host.result.lower_bound, host.result.gap) == (python.fun, python.lower_bound, python.gap)
    assert host.result.certified and host.result.status == python.status
    assert host.result.n_passes == python.n_passes and host.result.n_planes == python.n_planes
    assert host.text.split(" (gap")[0] == python.message.split(" (gap")[0]      # that of the host is not certified yet


@pytest.mark.parametrize("method, by_example", [
    ("oca", False), ("bmrm", False), ("prox-bcfw", True), ("mp-bcfw", True), ("alm", True), ("auto", True)])
def test_a_pause_changes_no_bit(method, by_example):
    data, tol = sample(), 3e-2 if method == "mp-bcfw" else 1e-5       # it takes long to be exact
    straight = Outcome(data, method, tol=tol, by_example=by_example)
    assert straight.steps > 2
    for pause in (1, 2, straight.steps // 2):
        assert Outcome(data, method, tol=tol, by_example=by_example, pause_at=pause) == straight


def test_hosts_in_two_threads_get_the_bits_of_each_alone():
    problems = [(sample(n=200, seed=1), "oca", 0.3, False), (sample(n=200, seed=2), "prox-bcfw", 2.0, True)]

    def train(problem):
        data, method, lam, by_example = problem
        return Outcome(data, method, lam, by_example=by_example)

    alone = [train(problem) for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(train, problems * 3)) == alone * 3


def test_errors_come_as_code_and_text():
    assert Outcome(sample(), "none").steps == PARAMETER
    assert "method must be one of" in Outcome(sample(), "none").text
    assert "lam of pb_settings must be > 0 where none of lams" in Outcome(sample(), "oca", lam=0.0).text
    assert "must be a finite number > 0, got -1.0" in Outcome(sample(), "oca", lam=-1.0).text
    assert "'prox-bcfw' needs a risk whose single examples" in Outcome(sample(), "prox-bcfw").text
    failed = Outcome(sample(bad_example=5, mistake=7), "oca")
    assert failed.steps == ORACLE and "fun returned code 7 for part 1" in failed.text
    failed = Outcome(sample(bad_example=5, mistake=-3), "bcfw", by_example=True)
    assert failed.steps == ORACLE and "indices 0..dim - 1, got 12 for example 5" in failed.text


def test_misuse_is_answered_with_a_code():
    misuse = library("host").misuse
    misuse.argtypes = [ctypes.c_void_p, ctypes.POINTER(Data)]
    assert misuse(table(), sample()) == 0


def test_a_solver_is_not_freed_within_its_own_call():
    """It was a segmentation fault; `step` in there gave PB_BUSY already."""
    free_within = library("host").free_within
    free_within.argtypes = [ctypes.c_void_p]
    assert free_within(table()) == 0


def test_a_risk_that_contradicts_its_bound_is_told_so():
    """The text spoke of a certified gap of 0, while nothing was certified."""
    below, result, text = library("host").below_the_truth, Result(), ctypes.create_string_buffer(400)
    below.argtypes = [ctypes.c_void_p, ctypes.POINTER(Data), ctypes.POINTER(Result), ctypes.c_char_p]
    assert below(table(), sample(), result, text) == 0
    assert result.lower_bound == -np.inf and not result.certified and result.status == pb.Status.FAILED
    assert text.value.startswith(b"the bound and the value cross: pb.check_oracle(risk)") and len(text.value) < 200


def test_options_of_a_newer_host_are_refused():
    """They were dropped without a word."""
    newer = library("host").newer
    newer.argtypes = [ctypes.c_void_p, ctypes.POINTER(Data)]
    assert newer(table(), sample()) == 0


def test_finish_tells_why_the_first_step_failed():
    first_pass, texts = library("host").first_pass, [ctypes.create_string_buffer(400) for _ in range(2)]
    first_pass.argtypes = [ctypes.c_void_p, ctypes.POINTER(Data), ctypes.c_char_p, ctypes.c_char_p]
    assert first_pass(table(), sample(bad_example=5, mistake=7), *texts) == 0
    assert b"fun returned code 7 for part 1" in texts[0].value
    assert texts[1].value.startswith(b"there is no point: the first step failed (fun returned code 7 for part 1")


AFTER_THE_END = """
import ctypes
from native.build import Data, library, sample
from native.interface import Result, table
from test_capi import table
function = library("host").leave_behind
function.argtypes = [ctypes.c_void_p, ctypes.POINTER(Data)]
assert function(table(), sample()) == 0
"""


def test_calls_after_the_end_of_python_are_harmless():
    """Exit handlers in C run after Py_FinalizeEx: `free` was a segmentation fault there."""
    library("host")         # no compiler: skipped
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run([sys.executable, "-c", AFTER_THE_END], env=environment, text=True, capture_output=True,
                          cwd=Path(__file__).parent)        # not where the uncompiled folder lies
    assert done.returncode == 0, done.stderr
    codes, others, text, rest, freed = done.stdout.splitlines()
    assert codes == "-7 -7 -7 -7 -7 1" and others == "-7 -7 -7 0" and text.startswith("Python has been finalised")
    assert rest == f"auto {pb.__version__}" and freed == "freed"


def test_nothing_is_left_after_many_solves():
    data = sample(n=10)

    def count():
        gc.collect()
        return sum(type(one).__qualname__ in ("Handle", "Machine", "BundleMethod", "CompiledFunction")
                   for one in gc.get_objects())
    before = count()
    for _ in range(5):
        assert Outcome(data, "oca", tol=1e-2).steps > 0
        assert Outcome(sample(bad_example=5, mistake=7, n=10), "oca").steps == ORACLE
        assert Outcome(data, "none").steps == PARAMETER
    assert count() == before


# ---------------------------------------------------------------------- the machine behind it

def risk():
    data = sample()
    return pb.risks.MulticlassHinge(*data.arrays)


def test_points_are_in_the_coordinates_of_the_user():
    """A free intercept is moved to the mean of the columns inside a run."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 3)) + 500.0, rng.choice([-1, 1], 50)
    shifted = pb.risks.BinaryHinge(X, y, fit_intercept=True)
    machine = Machine(shifted, {"lam": 1.0, "tol": 1e-6})
    while not machine.step():
        pass
    result, w = machine.finish(), machine.progress().x
    for point in (result.x, w):
        assert 0.5 * point[:3] @ point[:3] + shifted.evaluate(point)[0].sum() == pytest.approx(result.fun, rel=1e-9)
    machine.close()


def test_new_settings_start_from_what_is_known():
    machine = Machine(risk(), {"lam": 1.0, "tol": 1e-6, "method": "oca"})
    while not machine.step():
        pass
    first = machine.finish()
    machine.resume({"lam": 0.5, "tol": 1e-6, "method": "oca"})
    while not machine.step():
        pass
    second, cold = machine.finish(), pb.minimize(risk(), lam=0.5, tol=1e-6, method="oca")
    warm = pb.minimize(risk(), lam=0.5, tol=1e-6, method="oca", warm_start=first)
    assert second.success and second.nit == warm.nit < cold.nit and np.array_equal(second.x, warm.x)
    machine.close()


def test_settings_given_twice_keep_what_is_known():
    machine = Machine(risk(), {"lam": 1.0, "tol": 1e-6, "method": "oca"})
    while not machine.step():
        pass
    first = machine.finish()
    machine.resume({"lam": 0.7, "tol": 1e-6, "method": "oca"})
    machine.resume({"lam": 0.5, "tol": 1e-6, "method": "oca"})
    while not machine.step():
        pass
    warm = pb.minimize(risk(), lam=0.5, tol=1e-6, method="oca", warm_start=first)
    assert machine.finish().nit == warm.nit and np.array_equal(machine.finish().x, warm.x)
    machine.close()


def test_planes_that_contradict_each_other_are_left_behind():
    is_wrong = [True]

    def fun(w):
        return float(w @ w), (-2.0 if is_wrong[0] else 2.0) * w
    machine = Machine(pb.risks.Function(fun, 2), {"lam": 1.0, "tol": 1e-6}, w0=[1.0, 2.0])
    with pytest.raises(OracleError, match="subgradient inequality"):
        while not machine.step():
            pass
    best, is_wrong[0] = machine.progress().x, False
    machine.resume({"lam": 1.0, "tol": 1e-6})
    assert not machine.step() and machine.progress().fun <= 1.5 * best @ best
    while not machine.step():
        pass
    result = machine.finish()
    assert result.certified and result.lower_bound <= 0.0 <= result.fun
    machine.close()


def test_limits_stop_a_machine_and_resume_lets_it_go_on():
    machine = Machine(risk(), {"lam": 0.1, "tol": 1e-9, "method": "bmrm", "max_iter": 3})
    assert machine.message() == "running"
    with pytest.raises(ParameterError, match="there is no point: step was not called yet"):
        machine.finish()
    assert [machine.step() for _ in range(5)] == [False, False, True, True, True]
    assert machine.status is pb.Status.ITERATION_LIMIT and machine.progress().n_iter == 3
    machine.resume()
    machine.step()
    assert machine.progress().n_iter == 4 and machine.finish().certified


def test_a_failed_machine_tells_its_best_state_and_takes_new_settings():
    calls = []

    def fun(w):
        calls.append(w)
        if len(calls) == 2:
            raise KeyError("lost")
        return float(np.abs(w - 1.0).sum()), np.sign(w - 1.0)
    machine = Machine(pb.risks.Function(fun, 3, lower_bounds=0.0), {"lam": 0.1, "tol": 1e-6})
    with pytest.raises(KeyError, match="lost"):
        while not machine.step():
            pass
    with pytest.raises(ParameterError, match="step must not be called after an error"):
        machine.step()
    with pytest.raises(ParameterError, match="resume must not be called after an error"):
        machine.resume()
    result = machine.finish()
    assert result.status is pb.Status.FAILED and not result.certified and np.isfinite(result.fun)
    machine.resume({"lam": 0.1, "tol": 1e-6})
    while not machine.step():
        pass
    assert machine.finish().success


def test_ctrl_c_pauses():
    state = {"interrupt": True}

    def fun(w):
        if state["interrupt"] and w.any():
            state["interrupt"] = False
            raise KeyboardInterrupt
        return float(np.abs(w - 1.0).sum()), np.sign(w - 1.0)
    machine = Machine(pb.risks.Function(fun, 3, lower_bounds=0.0), {"lam": 0.1, "tol": 1e-6})
    with pytest.raises(KeyboardInterrupt):
        while not machine.step():
            pass
    assert machine.step() and machine.finish().status is pb.Status.INTERRUPTED
    machine.resume()
    while not machine.step():
        pass
    assert machine.finish().success


def test_a_machine_at_work_refuses_a_second_caller():
    refused = []

    def fun(w):
        with pytest.raises(Busy, match="one thread at a time, and no calls from its own functions") as caught:
            machine.step()
        refused.append(code_of(caught.value))
        return float(w @ w), 2.0 * w
    machine = Machine(pb.risks.Function(fun, 2), {"lam": 1.0})
    machine.step()
    assert set(refused) == {"PB_BUSY"}


@pytest.mark.parametrize("error, name", [
    (ParameterError(), "PB_PARAMETER"), (TypeError(), "PB_PARAMETER"), (OracleError(), "PB_ORACLE"),
    (NumericalError(), "PB_NUMERICAL"), (MemoryError(), "PB_MEMORY"), (KeyboardInterrupt(), "PB_KEYBOARD"),
    (ZeroDivisionError(), "PB_INTERNAL"),
])
def test_codes_of_exceptions(error, name):
    assert code_of(error) == name
