"""`pb.Solve` and the records of `pb.methods`: the same bits by name, by record, in steps and resumed."""

import copy
import dataclasses
import pickle
import threading

import numpy as np
import pytest
from test_checkpoint import CASES, RISKS, bits

import pybundle as pb
from pybundle.solvers.methods import METHODS

pytestmark = pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")

OTHERS = {      # options that are not the defaults
    "bmrm": {"theta": 0.02, "max_idle": 7, "zero_plane": False}, "prox-bmrm": {"K": 0.3, "T": 9, "stop": "published"},
    "oca": {"mu": 0.2, "line_search": False}, "sgd": {"t0": 3.0}, "frank-wolfe": {},
    "bcfw": {"step": "pairwise", "gap_sampling": True, "average": True, "batch": 3, "gap_check": 4},
    "mp-bcfw": {"gap_check": 2, "visit": "all", "max_idle": 10, "max_planes": 50, "max_cached": 9, "cost": 5.0},
    "prox-bcfw": {"kappa": 0.5, "batch": 4, "n_best": 2}, "auto": {"oca.theta": 0.1},
    "lbfgs": {"memory": 5}, "newton": {}, "alm": {"sigma": 0.1, "growth": 2.0}, "interior-point": {}}


def arguments(method, name, options):
    start = {"w0": np.zeros(6)} if name == "callable" else {}
    most = 10 if method == "sgd" else 12
    return {"lam": 1.0, "tol": 1e-5, "random_state": 3, "max_iter": most, "method": method} | start | options


def steps(solve, most=np.inf):
    """Step until the run ends, or for so many iterations."""
    while solve.step() is None and solve.progress.n_iter < most:
        pass
    return solve


@pytest.mark.parametrize(("method", "name", "options"), CASES, ids=lambda part: str(part)[:20])
def test_names_records_and_steps_have_the_same_bits(method, name, options, tmp_path):
    given = arguments(method, name, options)
    whole = pb.minimize(RISKS[name](), **given)
    record = pickle.loads(pickle.dumps(pb.methods.parse(method)))
    with pb.Solve(RISKS[name](), **given | {"method": record}) as solve:
        assert "examples" in solve.describe()
        most = max(1, whole.nit // 2)
        half = steps(solve, most).finish() if whole.nit > 1 else None
        solve.save(tmp_path / "run.npz")
        result = steps(solve).finish()
    assert half is None or (half.nit <= whole.nit and half.lower_bound <= half.fun)
    assert bits(result) == bits(whole)
    assert bits(pb.minimize(RISKS[name](), **given, checkpoint=tmp_path / "run.npz")) == bits(whole)


@pytest.mark.parametrize("name", METHODS)
def test_a_record_is_its_text(name):
    kind, options = METHODS[name], OTHERS[name]
    default, other = kind(), pb.methods.parse(name, **options)
    assert str(default) == name and str(other).split()[1:] == [f"{key}={value}" for key, value in sorted(
        options.items(), key=lambda pair: list(_names(kind)).index(pair[0].split(".")[0]))]
    for record in (default, other):
        assert pb.methods.parse(str(record)) == record == pickle.loads(pickle.dumps(record)) == copy.deepcopy(record)
        assert hash(pb.methods.parse(str(record))) == hash(record) and pb.methods.parse(record) is record
        assert eval(repr(record), vars(pb.methods)) == record
        for field in dataclasses.fields(record):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(record, field.name, 1)
            assert field.name in (kind.__doc__ or ""), "each option is documented"


def _names(kind):
    return [field.name for field in dataclasses.fields(kind)]


def test_wrong_options_are_named_when_the_record_is_made():
    assert pb.methods.parse("oca line_search=false") == pb.methods.OCA(line_search=False)
    for make, words in [(lambda: pb.methods.BMRM(theta=2.0), "theta must be"),
                        (lambda: pb.methods.ProxBMRM(T=0), "T must be an integer >= 1"),
                        (lambda: pb.methods.Auto(oca=pb.methods.BMRM()), "oca of Auto must be a pb.methods.OCA"),
                        (lambda: pb.methods.parse("bmrm 3"), "each option once as name=value, got '3'"),
                        (lambda: pb.methods.parse("bmrm theta=.1 theta=.2"), "got 'theta=.2'"),
                        (lambda: pb.methods.parse("bmrm =3"), "got '=3'"),
                        (lambda: pb.methods.parse(""), "method must be one of"),
                        (lambda: pb.methods.parse(3), "method must be a text or a record")]:
        with pytest.raises(pb.BundleError, match=words):
            make()


def test_auto_runs_the_records_of_its_stages():
    risk, calls = RISKS["callable"](), []

    def counted(w):
        calls.append(1)
        return risk(w)

    auto = pb.methods.Auto(oca=pb.methods.OCA(mu=0.5, max_idle=2))
    result = pb.minimize(counted, np.zeros(6), lam=1.0, tol=1e-5, method=auto)
    alone = pb.minimize(risk, np.zeros(6), lam=1.0, tol=1e-5, method=pb.methods.OCA(mu=0.5, max_idle=2), n_parts=1)
    plain = pb.minimize(risk, np.zeros(6), lam=1.0, tol=1e-5)
    assert result.nit == alone.nit and result.x.tobytes() == alone.x.tobytes()
    assert result.max_planes <= plain.max_planes


def test_progress_is_what_callbacks_see():
    seen = []
    risk, given = RISKS["intercept"](), {"lam": 0.01, "scale": "mean", "tol": 1e-5, "method": "oca"}
    result = pb.minimize(risk, callback=lambda p: seen.append((p.x.copy(), p.fun, p.lower_bound, p.n_iter)), **given)
    with pb.Solve(RISKS["intercept"](), **given) as solve:
        for w, fun, lower_bound, n_iter in seen:
            solve.step()
            now = solve.progress
            assert (now.fun, now.lower_bound, now.n_iter) == (fun, lower_bound, n_iter)
            np.testing.assert_array_equal(now.x, w)
        assert solve.status is result.status and solve.message.split("(")[0] in result.message
        assert solve.step() is result.status            # an end is an end


def test_two_solves_in_two_threads_do_not_disturb_each_other():
    expected = [pb.minimize(RISKS["chain"](), **arguments("prox-bcfw", "chain", {"lam": lam})) for lam in (1.0, 0.1)]
    found = [None, None]

    def run(k):
        with pb.Solve(RISKS["chain"](), **arguments("prox-bcfw", "chain", {"lam": (1.0, 0.1)[k]})) as solve:
            found[k] = steps(solve).finish()

    threads = [threading.Thread(target=run, args=(k,)) for k in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [bits(result) for result in found] == [bits(result) for result in expected]


class _Fails:
    """A risk whose n-th call raises."""

    def __init__(self, at, error):
        self.n, self.at, self.error = 0, at, error

    def __call__(self, w):
        self.n += 1
        if self.n == self.at:
            raise self.error
        return RISKS["callable"]()(w)


def test_after_an_error_the_best_state_is_left():
    solve = pb.Solve(_Fails(6, RuntimeError("disk")), np.zeros(6), lam=1.0, tol=1e-8)
    with pytest.raises(RuntimeError, match="disk") as caught:
        steps(solve)
    result = solve.finish()
    assert result.status is pb.Status.FAILED and result.lower_bound <= result.fun == caught.value.result.fun
    for call in (solve.step, solve.resume):
        with pytest.raises(pb.ParameterError, match="disk"):
            call()


def test_ctrl_c_between_steps_and_going_on():
    whole = pb.minimize(RISKS["callable"](), np.zeros(6), lam=1.0, tol=1e-8)
    with pb.Solve(_Fails(6, KeyboardInterrupt()), np.zeros(6), lam=1.0, tol=1e-8) as solve:
        with pytest.raises(KeyboardInterrupt):
            steps(solve)
        stopped = solve.finish()
        assert stopped.status is pb.Status.INTERRUPTED and stopped.lower_bound <= whole.fun * (1 + 1e-8)
        solve.resume()
        result = steps(solve).finish()
    assert result.success and result.lower_bound <= whole.fun and whole.lower_bound <= result.fun


def test_before_the_first_step_there_is_nothing_to_tell(tmp_path):
    with pb.Solve(RISKS["dense"](), lam=1.0) as solve:
        for call in (lambda: solve.progress, solve.finish, lambda: solve.save(tmp_path / "x.npz")):
            with pytest.raises(pb.ParameterError, match="there is no point: step was not called yet"):
                call()
        assert solve.message == "running" and solve.status is None
        assert solve.complete().success


def test_evidence_of_a_solve_in_steps(tmp_path):
    risk = RISKS["dense"]()
    with pb.Solve(risk, lam=1.0, tol=1e-3, evidence=True, method="oca") as solve:
        result = steps(solve).finish()
        with pytest.raises(pb.ParameterError, match="evidence"):
            solve.save(tmp_path / "run.npz")
    report = pb.verify(result.certificate, risk, lam=1.0)
    assert report.ok and result.certificate.evidence is not None


def test_models_keep_the_text_of_a_record(tmp_path):
    clone = pytest.importorskip("sklearn.base").clone
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    method = pb.methods.Auto(prox_bcfw=pb.methods.ProxBCFW(kappa=0.3))
    model = clone(pb.MulticlassSVM(method=method)).fit(X, y)
    again = clone(pb.MulticlassSVM(method=str(method))).fit(X, y)
    assert model.get_params()["method"] == method and model.coef_.tobytes() == again.coef_.tobytes()
    model.save(tmp_path / "model.npz")
    assert pb.load(tmp_path / "model.npz").get_params()["method"] == str(method)


@pytest.mark.parametrize("method", ["oca", "bmrm", "prox-bmrm", "prox-bcfw", "mp-bcfw", "lbfgs", "auto"])
def test_a_solve_is_completed_from_where_it_is(method, tmp_path):
    """`complete` began anew after steps, with other bits; after it steps moved on, past the end."""
    name = "logistic" if method == "lbfgs" else "chain"
    given = arguments(method, name, {"lam": 0.1})
    whole = pb.minimize(RISKS[name](), **given)
    for n_steps in (0, 1, 3):
        with pb.Solve(RISKS[name](), **given) as solve:
            solve.begin()
            for _ in range(n_steps):
                solve.step()
            assert bits(solve.complete()) == bits(whole)
            assert solve.step() is whole.status and bits(solve.complete()) == bits(whole)
        for call in (solve.step, solve.resume, solve.begin):
            with pytest.raises(pb.ParameterError, match="must not be called after close"):
                call()
        assert solve.finish().fun == whole.fun


def test_a_refuted_risk_stays_refuted():
    """After `complete` had refused it, a step was made and certified; after Ctrl-C in a callback the planes stayed."""
    def lies(w):
        calls.append(1)
        value, slope = RISKS["callable"]()(w)
        return value + 1000.0 * (len(calls) == 6), slope

    def impatient(progress):
        if progress.n_iter == 2:
            raise KeyboardInterrupt

    for interrupted in (False, True):
        calls = []
        solve = pb.Solve(lies, np.zeros(6), lam=1.0, tol=1e-8, callback=impatient if interrupted else None)
        if interrupted:
            with pytest.raises(KeyboardInterrupt):
                steps(solve)
            solve.resume()
        with pytest.raises(pb.OracleError) as caught:
            steps(solve) if interrupted else solve.complete()
        assert caught.value.result.lower_bound == -np.inf == solve.finish().lower_bound
        assert not solve.finish().certified and solve.status is pb.Status.FAILED
        with pytest.raises(pb.ParameterError, match="after an error"):
            solve.complete()


class _Interrupts:
    """A risk whose parts raise KeyboardInterrupt in the middle of a pass, once."""

    def __init__(self, at):
        self.n, self.at = 0, at

    def __call__(self, w):
        self.n += 1
        if self.n == self.at:
            raise KeyboardInterrupt
        return RISKS["callable"]()(w)


@pytest.mark.parametrize("method", ["oca", "bmrm", "prox-bmrm"])
def test_a_run_torn_by_ctrl_c_goes_on_from_what_it_knows(method, tmp_path):
    best = pb.minimize(RISKS["callable"](), np.zeros(6), lam=1.0, tol=1e-9)
    for at in (2, 5, 9):
        with pb.Solve(_Interrupts(at), np.zeros(6), lam=1.0, tol=1e-6, method=method) as solve:
            with pytest.raises(KeyboardInterrupt):
                steps(solve)
            assert solve.status is pb.Status.INTERRUPTED
            if at > 2:          # the first pass is no iteration
                with pytest.raises(pb.ParameterError, match="Ctrl-C ended an iteration half way; call resume"):
                    solve.save(tmp_path / "run.npz")
            solve.resume()
            result = steps(solve).finish()
        assert result.success and result.lower_bound <= best.fun and best.lower_bound <= result.fun


def test_ctrl_c_in_complete_is_told_by_the_solve():
    with pb.Solve(_Interrupts(5), np.zeros(6), lam=1.0, tol=1e-8) as solve:
        assert solve.complete().status is pb.Status.INTERRUPTED is solve.status is solve.finish().status
        solve.resume()
        assert solve.complete().success


def test_save_onto_the_file_of_the_solve(tmp_path):
    file = tmp_path / "run.npz"
    given = arguments("oca", "dense", {})
    with pb.Solve(RISKS["dense"](), **given, checkpoint=file) as solve:
        solve.step()
        solve.step()
        solve.save(file)
        with pytest.raises(pb.StateError, match="another run writes"):
            pb.minimize(RISKS["dense"](), **given, checkpoint=file)
    assert bits(pb.minimize(RISKS["dense"](), **given, checkpoint=file)) == bits(pb.minimize(RISKS["dense"](), **given))


def test_a_method_may_delegate(tmp_path):
    class Preset(pb.methods.Method):
        name = "preset"

        def begin(self, search):
            return pb.methods.BMRM(theta=0.02).begin(search)

    given = arguments("bmrm", "dense", {}) | {"method": Preset()}
    whole = pb.minimize(RISKS["dense"](), **given)
    pb.minimize(RISKS["dense"](), **given | {"max_iter": 3}, checkpoint=tmp_path / "run.npz")
    assert bits(pb.minimize(RISKS["dense"](), **given, checkpoint=tmp_path / "run.npz")) == bits(whole)


def test_methods_that_are_none_are_refused():
    class Nothing(pb.methods.Method):
        name = "nothing"

        def begin(self, search):
            return None

    for method, words in [(Nothing(), "begin of Nothing must return a Run, got NoneType"),
                          (pb.methods.Method(), "Method must have a name")]:
        with pytest.raises(pb.BundleError, match=words):
            pb.minimize(RISKS["dense"](), lam=1.0, method=method)
    for text in ("bmrm theta={[]:1}", "bmrm theta.x=3", "auto oca.theta.x=3", "bmrm theta=" + "-" * 20000 + "1",
                 "mp-bcfw max_idle=3000000000", "mp-bcfw max_planes=3000000000"):
        with pytest.raises(pb.BundleError):
            pb.methods.parse(text)


def test_cached_passes_end_where_the_dual_does_not_rise():
    risk = pb.risks.MulticlassHinge(np.eye(3), [0, 1, 2])
    result = pb.minimize(risk, lam=1.0, method="mp-bcfw max_cached=1000000", tol=0.0, atol=0.0, max_iter=6)
    assert result.n_cached_passes < 100


def test_a_solve_says_that_it_cannot_be_pickled():
    with pb.Solve(RISKS["intercept"](), lam=1.0) as solve, pytest.raises(
            pb.InputTypeError, match=r"a Solve cannot be pickled or copied, .* resume from checkpoint="):
        pickle.dumps(solve)
