"""train, predict, evaluate, path and bench: what they print and write, exit codes, and one line for every error."""

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle import cli
from pybundle.cli import models
from pybundle.cli.scores import holds_chunks

pytest.importorskip("sklearn")
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 60)
X = np.round(RNG.standard_normal((60, 4)) + 2.0 * np.eye(3, 4)[Y], 3)


def svmlight(X, y):
    return "".join(f"{label} " + " ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1)) + "\n"
                   for row, label in zip(X.tolist(), y.tolist(), strict=True))


def table(X, y, header=True):
    rows = [",".join(map(repr, row)) + f",{'abc'[k]}\n" for row, k in zip(X.tolist(), y.tolist(), strict=True)]
    return "".join(["x1,x2,x3,x4,kind\n"] * header + rows)


CONLL = "He PRP B-NP\nsaw VBD B-VP\nthe DT B-NP\ndog NN I-NP\n\nDogs NNS B-NP\nsleep VBP B-VP\n. . O\n\n" * 2
CONLLU = "".join("\t".join(row.split()) + "\n" if row else "\n" for row in (
    "1 Dogs dog NOUN NNS _ 2 nsubj _ _", "2 bark bark VERB VBP _ 0 root _ _", "",
    "1 the the DET DT _ 2 det _ _", "2 cat cat NOUN NN _ 3 nsubj _ _", "3 sleeps sleep VERB VBZ _ 0 root _ _", ""))


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Runs a command in a folder with data; gives exit code, output and what stands on stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.svm").write_text(svmlight(X, Y))
    (tmp_path / "a.csv").write_text(table(X, Y))
    (tmp_path / "a.conll").write_text(CONLL)
    (tmp_path / "a.conllu").write_text(CONLLU)
    offsets = np.arange(0, 61, 5)
    np.savez_compressed(tmp_path / "a.npz", X=X, y=Y)
    np.savez(tmp_path / "s.npz", X=X, y=np.array(list("abc"))[Y], offsets=offsets)

    def run(*arguments):
        try:
            code = cli.main([str(a) for a in arguments])
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err
    return run


@pytest.mark.parametrize("file, options, kind", [
    ("a.svm", [], "MulticlassSVM"), ("a.csv", ["--no-intercept", "--lam", "2"], "MulticlassSVM"),
    ("a.npz", ["--parts", "3", "--method", "oca"], "MulticlassSVM"),
    ("a.npz", ["--parts", "3", "--method", "oca", "--cv", "2"], "MulticlassSVMCV"), ("s.npz", [], "ChainSVM"),
    ("a.conll", ["--model", "crf", "-C", "2"], "ChainCRF"), ("a.conll", ["--hash-bits", "8"], "ChainSVM"),
    ("a.conllu", ["--hash-bits", "10", "--seed", "3", "--jobs", "2"], "DependencyParser"),
    ("a.svm", ["--cv", "2", "--grid", "0.1,1"], "MulticlassSVMCV"), ("a.conll", ["--cv", "2"], "ChainSVMCV"),
    ("a.conllu", ["--cv", "2", "--grid", "0.1,1", "--hash-bits", "10"], "DependencyParserCV"),
    ("a.conll", ["--model", "crf", "--l1", "0.01", "--token-weights", "occurring"], "ChainCRF"),
])  # fmt: skip
def test_train_predict_evaluate(run, tmp_path, file, options, kind):
    code, out, err = run("train", file, *options, "--save", "m.npz", "--json")
    record = json.loads(out)
    assert code == 0 and err == "" and record["class"] == kind and record["saved"] == "m.npz"
    assert record["lower_bound"] <= record["objective"] and record["certified"] and record["gap"] <= 1e-3
    model = pb.load("m.npz")
    assert type(model).__name__ == kind and model.gap_ == record["gap"]
    code, out, err = run("train", file, *options)
    assert code == 0 and err == "" and out.startswith(f"{kind} on ") and "(certified)" in out

    code, out, err = run("predict", file, "--load", "m.npz")
    assert code == 0 and err == "" and len(out.strip().split("\n")) >= 6
    assert run("predict", file, "--load", "m.npz", "--output", "p" + file[1:].replace("npz", "txt"))[:2] == (0, "")
    predicted = tmp_path / ("p" + file[1:].replace("npz", "txt"))
    assert predicted.read_text() == out
    assert json.loads(run("predict", file, "--load", "m.npz", "--json")[1])["predictions"]

    by_model = json.loads(run("evaluate", file, "--load", "m.npz", "--json")[1])
    by_file = json.loads(run("evaluate", file, "--predictions", predicted.name, "--json")[1])
    assert by_model == by_file
    assert all(0.5 < value <= 1.0 for name, value in by_model.items() if name not in ("data", "types"))
    code, out, err = run("evaluate", file, "--load", "m.npz")
    assert code == 0 and err == "" and " %" in out
    if kind.startswith("Multiclass"):
        assert by_model["accuracy"] == pytest.approx(model.score(X, np.array(list("abc"))[Y] if "csv" in file else Y))
    left_over = [p.name for p in tmp_path.iterdir() if p.name.startswith(".")]
    assert left_over == []


def test_unlabelled_data_and_standard_input(run, tmp_path, monkeypatch):
    for file, content, format in (("a.svm", svmlight(X, Y), "svmlight"), ("a.conll", CONLL, "conll"),
                                  ("a.csv", table(X, Y), "csv"), ("a.conllu", CONLLU, "conllu")):
        bits = ("--hash-bits", "10") if format == "conllu" else ()
        assert run("train", file, *bits, "--save", "m.npz")[0] == 0
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        piped = run("predict", "-", "--format", format, "--load", "m.npz")
        assert piped == run("predict", file, "--load", "m.npz") and piped[0] == 0
        if format == "csv":
            bare = "\n".join(line.rpartition(",")[0] for line in content.split("\n"))
        elif format == "conll":
            bare = "\n".join(line.rpartition(" ")[0] for line in content.split("\n"))
        else:
            bare = content.replace("\t2\tnsubj", "\t_\t_")
        (tmp_path / f"bare{file[1:]}").write_text(bare)
        found = run("predict", f"bare{file[1:]}", "--load", "m.npz", "--unlabelled")
        assert found[0] == 0
        if format == "conll":
            assert [line.split()[-1:] for line in found[1].split("\n")] == [
                line.split()[-1:] for line in piped[1].split("\n")]
        else:
            assert found[1] == piped[1]
    np.savez(tmp_path / "bare.npz", X=X)
    run("train", "a.npz", "--save", "m.npz")
    raw = (tmp_path / "bare.npz").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert run("predict", "-", "--format", "npz", "--load", "m.npz", "--unlabelled")[1] == \
        run("predict", "a.npz", "--load", "m.npz")[1]


def test_sparse_arrays(run, tmp_path):
    S = sp.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
    np.savez(tmp_path / "c.npz", T_data=S.data, T_indices=S.indices, T_indptr=S.indptr, T_shape=S.shape, t=Y)
    code, out, err = run("train", "c.npz", "--arrays", "T,t", "--json")
    assert code == 0 and err == ""
    svm = pb.MulticlassSVM().fit(S, Y)
    assert json.loads(out)["objective"] == svm.objective_


def test_csv_labels_anywhere(run, tmp_path):
    rows = [line.split(",") for line in table(X, Y).split()]
    (tmp_path / "first.csv").write_text("\n".join(";".join([r[-1], *r[:-1]]) for r in rows))
    expected = json.loads(run("train", "a.csv", "--json")[1])["objective"]
    for label in ("first", "1", "kind"):
        assert json.loads(run("train", "first.csv", "--label", label, "--json")[1])["objective"] == expected
    assert "there are kind, x1" in run("train", "first.csv", "--label", "colour")[2]


def test_path_and_bench(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pybundle.estimators", None)       # rows need no scikit-learn
    code, out, err = run("path", "a.svm", "--lams", "1,10", "--tol", "1e-3", "--json")
    found = json.loads(out)["path"]
    assert code == 0 and err == "" and [row["lam"] for row in found] == [10.0, 1.0]
    for row in found:
        expected = pb.minimize(pb.risks.MulticlassHinge(sp.csr_matrix(X), Y, bias=1.0), lam=row["lam"], tol=1e-3)
        assert max(row["lower bound"], expected.lower_bound) <= min(row["objective"], expected.fun)
    assert run("path", "a.svm", "--lams", "1,10")[1].count("\n") == 4
    code, out, err = run("bench", "a.csv", "--methods", "bmrm,oca", "--repeat", 1)
    assert code == 0 and err == "" and [line.split()[0] for line in out.split("\n")[2:4]] == ["bmrm", "oca"]
    code, out, err = run("train", "a.svm")
    assert code == 2 and err.count("\n") == 1 and "pybundle.estimators" in err


def test_path_of_sequences(run):
    assert run("path", "a.conll", "--lams", "1,10", "--model", "crf")[0] == 0
    assert run("bench", "a.conllu", "--methods", "prox-bcfw", "--hash-bits", "8", "--repeat", "1")[0] == 0


def test_exit_code_1_where_the_gap_is_not_reached(run):
    code, out, err = run("train", "a.svm", "--max-iter", "1", "--method", "bmrm", "--save", "m.npz")
    assert code == 1 and err.count("\n") == 1 and err.startswith("pybundle: warning: the iteration limit")
    assert pb.load("m.npz").gap_ > 1e-3 and "model saved" in out


@pytest.mark.parametrize("arguments, text", [
    (["train", "none.svm"], "error: none.svm: no such file or directory"),
    (["predict", "a.svm", "--load", "none.npz"], "error: none.npz: no such file or directory"),
    (["train", "a.svm", "--cv", "1"], "cv must be at least 2 folds"),
    (["train", "one.txt"], "the format does not follow from the name; pass --format"),
    (["train", "a.txt"], "error: a.txt: no such file or directory"),
    (["train", "a.svm", "--save", "no/m.npz"], "there is no such folder"),
    (["train", "a.svm", "--model", "crf"], "--model crf takes sequences (CoNLL columns, npz with offsets)"),
    (["train", "a.svm", "--hash-bits", "4"], "--hash-bits belongs to --model chain, crf, parser"),
    (["train", "a.conll", "--no-intercept"], "--no-intercept belongs to --model svm"),
    (["train", "a.conll", "--cv", "2", "--l1", "1"], "--cv is without an l1 norm"),
    (["train", "a.svm", "--cv", "2", "-C", "1"], "--cv chooses C"),
    (["train", "a.svm", "--cv", "2", "--checkpoint", "run.npz"], "--cv chooses C"),
    (["train", "a.svm", "--checkpoint", "none/run.npz"], "cannot be written"),
    (["train", "a.svm", "--grid", "1"], "--grid belongs to --cv"),
    (["train", "a.svm", "-C", "1", "--lam", "1"], "not allowed with argument"),
    (["train", "a.svm", "-C", "nan"], "must be a finite number > 0"),
    (["train", "a.svm", "--parts", "0"], "must be an integer >= 1"),
    (["train", "a.svm", "--method", "simplex"], "method must be one of"),
    (["train", "a.svm", "--features", "3"], "a.svm, line 1: index 4 lies beyond --features 3"),
    (["train", "bad.svm"], "bad.svm, line 2: could not convert string to float: 'x'"),
    (["train", "huge.svm"], "is an index wrong?"),
    (["train", "one.svm"], "at least two classes"),
    (["train", "bad.csv"], "bad.csv, line 3: column 1 holds 'y', expected a number"),
    (["train", "short.csv"], "short.csv, line 2: expected 2 columns, got 1"),
    (["train", "bad.conll"], "bad.conll, line 2: expected 2 columns, got 3"),
    (["train", "bad.conllu"], "bad.conllu, line 1: a token must have 10 columns"),
    (["train", "bad.npz"], "bad.npz: not a readable .npz file"),
    (["train", "a.npz", "--arrays", "Z,y"], "a.npz holds no array 'Z'"),
    (["train", "a.npz", "--arrays", "X,z"], "a.npz holds no array of labels"),
    (["train", "empty.svm"], "empty.svm holds no example"),
    (["train", "empty.conll"], "empty.conll holds no example"),
    (["predict", "a.svm", "--load", "bad.npz"], "bad.npz: not a readable .npz file"),
    (["predict", "a.svm", "--load", "s.npz"], "s.npz: not a file of pybundle estimators"),
    (["predict", "a.svm"], "required: --load"),
    (["evaluate", "a.svm", "--predictions", "a.csv"], "a.csv, line 1: could not convert"),
    (["evaluate", "a.svm", "--predictions", "one.txt"], "one.txt must hold 60 predictions"),
    (["evaluate", "a.conll", "--predictions", "other.conll"], "other.conll must hold 4 predictions"),
    (["evaluate", "a.svm"], "is required"),
    (["path", "a.svm", "--lams", "1,x"], "invalid list of floats value: '1,x'"),
    (["bench", "a.svm", "--methods", "cutting-plane"], "has no lam"),
    (["bench", "a.svm", "--methods", "lbfgs"], "method 'lbfgs'"),
])  # fmt: skip
def test_errors_are_one_line_and_exit_code_2(run, tmp_path, arguments, text):
    for name, content in (("bad.svm", "1 1:1\n2 1:x\n"), ("huge.svm", "1 1:1\n2 4000000000000:1\n"),
                          ("one.svm", "1 1:1\n1 1:2\n"), ("bad.csv", "a,b\n1,x\ny,z\n"), ("short.csv", "1,2\n1\n"),
                          ("bad.conll", "a A\nb B C\n"), ("bad.conllu", "1\ta\n"), ("bad.npz", "PK nothing"),
                          ("empty.svm", "# nothing\n"), ("empty.conll", "\n\n"), ("other.conll", "a B-NP\n"),
                          ("one.txt", "1\n")):
        (tmp_path / name).write_text(content)
    code, out, err = run(*arguments)
    assert code == 2 and out == ""
    assert text in err and err.count("\n") == 1 and err.startswith("pybundle")


def test_ctrl_c_saves_the_best_state(run, monkeypatch):
    def interrupt(progress):
        raise KeyboardInterrupt

    monkeypatch.setattr("pybundle.cli.train.progress", lambda arguments: interrupt)
    code, out, err = run("train", "a.svm", "--save", "m.npz", "--method", "bmrm")
    assert code == 130 and out == ""
    assert "the best model so far, gap" in err.split("\n")[0] and err.endswith("pybundle: interrupted\n")
    model = pb.load("m.npz")
    assert model.lower_bound_ <= model.objective_ and model.certified_


def test_every_run_of_a_search_has_the_parts(run, monkeypatch):
    first = []
    monkeypatch.setattr("pybundle.cli.train.progress", lambda arguments: lambda progress: first.append(
        progress.n_planes) if progress.n_iter == 1 else None)
    for parts in (1, 3):
        first.clear()
        assert run("train", "a.npz", "--cv", "2", "--grid", "1", "--method", "bmrm", "--parts", parts)[0] == 0
        assert first == [2 * parts] * 3         # two folds and the model of all examples, after two passes


@pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")
def test_train_goes_on_from_a_checkpoint(run, tmp_path):
    whole = json.loads(run("train", "a.svm", "--tol", "1e-6", "--json")[1])
    for k in (2, 5):
        code, _, err = run("train", "a.svm", "--tol", "1e-6", "--checkpoint", "run.npz", "--max-iter", k)
        assert code == 1 and "iteration limit" in err
    again = json.loads(run("train", "a.svm", "--tol", "1e-6", "--json", "--checkpoint", "run.npz")[1])
    assert again | {"seconds": 0} == whole | {"seconds": 0}
    code, _, err = run("train", "a.svm", "--lam", "2", "--checkpoint", "run.npz")
    assert code == 2 and err.count("\n") == 1 and "lam is 1.0 there and 2.0 here" in err


def test_ctrl_c_from_outside():
    command = [sys.executable, "-P", "-m", "pybundle", "train", "-", "--format", "svmlight"]
    # a shell's background jobs are born with SIGINT ignored, and so would be the command
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    process.stdin.write(svmlight(X, Y).encode() * 300)          # more than a pipe holds: it is reading now
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert process.stderr.read() == b"pybundle: interrupted\n" and process.stdout.read() == b""
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are of POSIX")
def test_output_that_nobody_reads(tmp_path):
    (tmp_path / "a.svm").write_text(svmlight(X, Y) * 20)
    pb.MulticlassSVM().fit(X, Y).save(tmp_path / "m.npz")
    command = [sys.executable, "-P", "-m", "pybundle", "predict", "a.svm", "--load", "m.npz"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(60) == 141
    process.stderr.close()


def test_without_scikit_learn(run, tmp_path):
    code = ("import sys; sys.modules['sklearn'] = None; from pybundle.cli import main\n"
            "for line in sys.argv[1:]: sys.stderr.write(f'{main(line.split())} {line}\\n')")
    commands = {"train a.svm": 2, "predict a.svm --load m.npz": 2, "info": 0, "path a.svm --lams 1": 0,
                "bench a.csv --repeat 1 --methods oca": 0}
    done = subprocess.run([sys.executable, "-P", "-c", code, *commands], cwd=tmp_path, capture_output=True, text=True)
    said = done.stderr.splitlines()
    assert [line for line in said if line[0] in "012"] == [f"{code} {line}" for line, code in commands.items()]
    refused = [line for line in said if line.startswith("pybundle: error")]
    assert len(refused) == 2 and all("pip install 'pybundle-ml[sklearn]'" in line for line in refused)


def test_progress_on_terminals_only(run, monkeypatch):
    pytest.importorskip("tqdm")
    arguments = type("Arguments", (), {"quiet": False})
    assert models.progress(arguments) is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert isinstance(models.progress(arguments), pb.callbacks.ProgressBar)
    arguments.quiet = True
    assert models.progress(arguments) is None


def test_which_labels_are_chunks():
    assert holds_chunks([["B-X", "O"], ["O"]]) and not holds_chunks([["O"]]) and not holds_chunks([["NN", "O"]])


def test_every_model_of_a_path_is_saved(run):
    """Each has the objective that the table shows, and labels raw columns although the training scaled them."""
    code, out, err = run("path", "a.csv", "--lams", "10,0.5", "--scale", "--save", "m-{lam}.npz", "--json")
    record = json.loads(out)
    assert code == 0 and err == "" and record["saved"] == ["m-10.npz", "m-0.5.npz"]
    for row, name in zip(record["path"], record["saved"], strict=True):
        model = pb.load(name)
        assert (model.C, model.objective_, model.gap_) == (1.0 / row["lam"], row["objective"], row["gap"])
        assert model.score(X, np.array(list("abc"))[Y]) > 0.8


def test_info_of_a_model_has_its_weights_by_name(run):
    run("train", "a.conll", "--model", "crf", "--save", "m.npz")
    model = pb.load("m.npz")
    record = json.loads(run("info", "m.npz", "--top", "2", "--json")[1])
    assert record["trained on"] == "4 sequences, 14 tokens" and record["labels"] == model.classes_.tolist()
    assert record["top features"]["B-NP"] == [list(pair) for pair in model.top_features("B-NP", 2)]
    assert record["transitions"] == model.transitions() and record["objective"] == model.objective_
    assert (record["weights"], record["not 0"]) == (model.coef_.size, np.count_nonzero(model.coef_))
    out = run("info", "m.npz")[1]
    assert "transitions (row: label before)" in out and "(certified)" in out and "seconds" not in out
    run("train", "a.conll", "--model", "crf", "--scheme", "BIO", "--save", "m.npz")
    record = json.loads(run("info", "m.npz", "--json")[1])
    assert {label for label, weight in record["start"].items() if weight is None} == {"I-NP"}
    run("train", "a.csv", "--save", "m.npz")
    names = {name for pairs in json.loads(run("info", "m.npz", "--json")[1])["top features"].values()
             for name, _ in pairs}
    assert names and names <= {"x1", "x2", "x3", "x4"}


def test_kernels_are_learnt_with_a_certificate(run):
    code, out, err = run("train", "a.csv", "--model", "mkl", "--json", "--save", "k.npz")
    record = json.loads(out)
    assert code == 0 and not err and record["class"] == "OnlineMKLClassifier" and record["gap"] <= 1e-3
    assert [name for name, _ in record["kernels"]] == ["Linear", "Polynomial", "Gaussian", "Gaussian", "Gaussian"]
    assert sum(weight for _, weight in record["kernels"]) == pytest.approx(1.0)
    assert "kernel weight" in run("train", "a.csv", "--model", "mkl", "--tol", "0.1")[1]
    assert run("evaluate", "a.csv", "--load", "k.npz")[0] == 0
    for option in (("--cv", "2"), ("--method", "oca"), ("--parts", "2"), ("--time-limit", "1")):
        code, out, err = run("train", "a.csv", "--model", "mkl", *option)
        assert code == 2 and err.count("\n") == 1 and f"{option[0]} is for other models than mkl" in err
    code, _, err = run("bench", "a.csv", "--model", "mkl")
    assert code == 2 and "--model mkl is for train" in err


def test_kernels_of_too_many_examples_are_refused_before_memory_is_taken():
    from types import SimpleNamespace
    data = SimpleNamespace(shape="row", name="big", X=SimpleNamespace(shape=(10**7, 2)), y=np.arange(2))
    models.check_memory(data)
    with pytest.raises(pb.ParameterError, match="5 kernels of 10000000 examples need"):
        models.check_memory(data, 5)


@pytest.mark.skipif(sys.platform == "win32", reason="shells close streams otherwise")
@pytest.mark.parametrize("redirection, code", [(">&-", 0), ("2>&-", 0), ("<&-", 2), (">/dev/full", 2)])
def test_closed_streams_leave_no_traceback(redirection, code, tmp_path):
    if "full" in redirection and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    command = "train - --format svmlight" if "<" in redirection else "info"
    done = subprocess.run(f"'{sys.executable}' -m pybundle {command} {redirection}", shell=True, cwd=tmp_path,
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == code and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == (1 if code else 0)


def test_what_could_not_be_saved_is_refused_before_the_training(run, tmp_path, monkeypatch):
    monkeypatch.setattr("pybundle.cli.train.read", lambda arguments: pytest.fail("the data were read"))
    for place, match in ((tmp_path, "this is a folder"), (tmp_path / "no" / "m.npz", "no such folder")):
        code, _, err = run("train", "a.svm", "--save", place)
        assert code == 2 and match in err and err.count("\n") == 1


def test_no_output_takes_the_place_of_an_input(run, tmp_path, monkeypatch):
    assert run("train", "a.csv", "--save", "m.npz")[0] == 0
    os.link("a.csv", "hard.csv")
    os.symlink("m.npz", "soft.npz")
    monkeypatch.setattr("pybundle.cli.predict.read", lambda *_, **__: pytest.fail("the data were read"))
    monkeypatch.setattr("pybundle.cli.train.read", lambda *_, **__: pytest.fail("the data were read"))
    for command, output, who in (("predict", "hard.csv", "DATA"), ("predict", "soft.npz", "--load"),
                                 ("train", "hard.csv", "DATA"), ("train", tmp_path / "a.csv", "DATA")):
        options = ("--load", "m.npz", "--output") if command == "predict" else ("--save",)
        code, out, err = run(command, "a.csv", *options, output)
        assert (code, out) == (2, "") and f"{options[-1]} {output}: this is the file of {who}; name another" in err
    code, _, err = run("train", "a.csv", "--save", "new", "--checkpoint", tmp_path / "new")
    assert code == 2 and "this is the file of --save" in err
    assert (tmp_path / "a.csv").read_text() == table(X, Y)


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="devices are of POSIX")
def test_a_device_may_be_read_and_written(run):
    assert "holds no example" in run("train", "/dev/null", "--format", "csv", "--save", "/dev/null")[2]


@pytest.mark.skipif(sys.platform == "win32", reason="shells are of POSIX")
def test_standard_input_is_not_overwritten(tmp_path):
    (tmp_path / "a.csv").write_text(table(X, Y))
    command = f"'{sys.executable}' -m pybundle train - --format csv --save a.csv < a.csv"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 2 and "--save a.csv: this is the file of DATA" in done.stderr
    assert (tmp_path / "a.csv").read_text() == table(X, Y)
