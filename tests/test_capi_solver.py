"""What a solver of the C interface tells and writes while it runs: progress, history, log, checkpoint, certificate."""

import numpy as np
import pytest
from native.build import sample
from native.interface import LOG, Refused, Solver, of_examples, of_risk

import pybundle as pb

METHODS = [("oca", False), ("bmrm", False), ("prox-bcfw", True), ("mp-bcfw", True)]


def test_progress_gives_the_best_point_of_callbacks():
    data, points = sample(), []
    pb.minimize(data.risk(), lam=0.5, tol=1e-4, callback=lambda at: points.append((at.fun, at.lower_bound, *at.x)))
    solver, found = Solver(of_risk(data), lam=0.5, tol=1e-4), []
    while True:
        code = solver.step()
        at, w = solver.progress()
        found.append((at.fun, at.lower_bound, *w))
        assert at.seconds > 0.0 and not at.certified
        if code:
            break
    assert np.array_equal(points, found)


def test_progress_is_in_the_scale_of_the_settings():
    data, numbers = sample(), []
    arguments = {"lam": 0.01, "tol": 1e-3, "method": "oca"}
    pb.minimize(data.examples(), **arguments, scale="mean", callback=lambda at: numbers.append(at.lower_bound))
    solver = Solver(of_examples(data), **arguments, is_mean=1)
    for expected in numbers:
        solver.step()
        assert solver.progress()[0].lower_bound == expected == solver.history("lower_bound")[-1]


def test_history_is_that_of_the_result():
    data = sample()
    solver = Solver(of_risk(data), lam=0.5, tol=1e-4)
    solver.run()
    expected = pb.minimize(data.risk(), lam=0.5, tol=1e-4).history
    for column, values in expected.items():
        found = solver.history(column)
        assert len(found) == len(values) and (column == "time" or np.array_equal(found, values))
    with pytest.raises(Refused, match=r"^-1: column must be one of"):
        solver.history("speed")


def test_lines_of_progress_go_to_the_host(capfd):
    lines, others = [], []
    solvers = [Solver(of_risk(sample()), lam=0.5, verbose=1, log=LOG(lambda line, data, to=to: to.append(line)))
               for to in (lines, others)]
    solvers[0].run()
    assert lines[0].startswith(b"auto chose 'oca'") and b"lower bound" in lines[1] and len(lines) >= 3 and not others
    Solver(of_risk(sample()), lam=0.5, log=LOG(lambda line, data: others.append(line))).run()       # verbose is 0
    assert not others and capfd.readouterr().out == ""


@pytest.mark.parametrize("method, by_example", METHODS)
def test_a_checkpoint_resumes_with_the_same_bits(method, by_example, tmp_path):
    data = sample()
    settings = {"lam": 0.5, "tol": 3e-2 if method == "mp-bcfw" else 1e-5, "method": method}
    problem = of_examples(data) if by_example else of_risk(data)
    whole = Solver(problem, **settings)
    result, w = whole.run()
    settings["checkpoint"] = str(tmp_path / "run é")
    solver = Solver(problem, **settings)
    for _ in range(result.n_iter // 2):
        assert solver.step() == 0
    solver.free()                                       # writes it
    again = Solver(problem, **settings)
    found, point = again.run()
    assert found.n_iter == result.n_iter and found.lower_bound == result.lower_bound and np.array_equal(point, w)
    assert np.array_equal(again.history("lower_bound"), whole.history("lower_bound"))
    again.free()
    finished = Solver(problem, **settings)              # it has ended
    assert finished.step() == 1 and np.array_equal(finished.finish()[1], w)
    finished.free()
    with pytest.raises(Refused, match=r"^-8: checkpoint .* belongs to another problem"):
        Solver(problem, **{**settings, "lam": 1.0}).step()


def test_a_limit_writes_the_checkpoint(tmp_path):
    data, path = sample(), tmp_path / "run"
    settings = {"lam": 0.5, "tol": 1e-6, "method": "bmrm", "checkpoint": str(path)}
    solver = Solver(of_risk(data), **settings, max_iter=3)
    solver.run()
    size = path.stat().st_mtime_ns
    solver.free()
    assert path.stat().st_mtime_ns == size
    again = Solver(of_risk(data), **settings)
    again.step()
    assert again.progress()[0].n_iter == 4


def test_new_settings_continue_from_the_checkpoint(tmp_path):
    data = sample()
    settings = {"lam": 0.5, "method": "bmrm", "checkpoint": str(tmp_path / "run")}
    solver = Solver(of_risk(data), **settings, tol=1e-6)
    for _ in range(5):
        solver.step()
    solver.resume(**settings, tol=1e-5)                 # a file of the first step would lose four
    solver.step()
    assert solver.progress()[0].n_iter == 6
    result, w = solver.run()
    expected = pb.minimize(data.risk(), lam=0.5, method="bmrm", tol=1e-5)
    assert result.n_iter == expected.nit and np.array_equal(w, expected.x)


@pytest.mark.parametrize("method, by_example", METHODS)
def test_a_certificate_is_proven_and_changes_no_bit(method, by_example, tmp_path):
    data, path = sample(), tmp_path / "proof.npz"
    settings = {"lam": 0.5, "tol": 3e-2, "method": method, "evidence": 1}
    problem, risk = (of_examples(data), data.examples()) if by_example else (of_risk(data), data.risk())
    expected = Solver(problem, **settings).run()
    solver = Solver(problem, **settings)
    with pytest.raises(Refused, match=r"^-1: there is no point: step was not called yet"):
        solver.save_certificate(path)
    solver.step()
    solver.save_certificate(path)                       # in the middle, too
    assert pb.verify(pb.load_certificate(path), risk).ok
    result, w = solver.run()
    assert np.array_equal(w, expected[1]) and result.lower_bound == expected[0].lower_bound
    solver.save_certificate(path)
    certificate = pb.load_certificate(path)
    assert np.array_equal(certificate.w, w) and pb.verify(certificate, risk).ok
    assert certificate.lower_bound > 0.9 * result.lower_bound
    with pytest.raises(Refused, match=r"^-8: path must name a file that can be written"):
        solver.save_certificate(tmp_path / "none" / "proof.npz")


@pytest.mark.parametrize("method, by_example", METHODS)
def test_a_solver_starts_from_another(method, by_example):
    data = sample()
    settings, problem = {"tol": 3e-2, "method": method}, of_examples(data) if by_example else of_risk(data)
    first, second = Solver(problem, lam=1.0, **settings), Solver(problem, lam=0.5, **settings)
    with pytest.raises(Refused, match=r"^-1: step must be called, and succeed once, with the other"):
        second.start_from(first)
    first.run()
    second.start_from(first)
    second.step()
    with pytest.raises(Refused, match=r"^-1: start_from must be called before the first step"):
        second.start_from(first)
    with pytest.raises(Refused, match=r"^-5"):
        second.start_from(second)
    first.free()
    result, w = second.run()
    risk = data.examples() if by_example else data.risk()
    warm = pb.minimize(risk, lam=0.5, **settings, warm_start=pb.minimize(risk, lam=1.0, **settings))
    assert np.array_equal(w, warm.x) and result.n_iter == warm.nit
