"""What the commands read of data files, whatever stands before the data and ends the lines, and what they refuse."""

import dataclasses
import io
import json
import warnings

import numpy as np
import pytest
from test_command_lines import TEXTS, WORDS, call, folder  # noqa: F401

import pybundle as pb
from pybundle.cli import guess
from pybundle.datasets import read_conll, read_conllu, read_csv, read_svmlight

pytest.importorskip("sklearn")


@pytest.mark.parametrize("n", [99, 101, 5000])
@pytest.mark.parametrize("separator", list(",;\t|"))
def test_the_separator_is_found_below_any_number_of_comments(tmp_path, n, separator):
    """Only the first hundred lines were looked at: below as many comments all but the comma was one column."""
    rows = "".join(separator.join(row) + "\n" for row in (["a", "b", "k"], ["1", "2.5", "x"], ["3", "4.5", "y"]))
    text = "# made by hand, in 2024\n\n" * n + rows
    X, y, names = read_csv(io.StringIO(text))
    assert X.tolist() == [[1.0, 2.5], [3.0, 4.5]] and y.tolist() == ["x", "y"] and names == ["a", "b"]
    (tmp_path / "table").write_text(text)
    assert guess.guess(tmp_path / "table") == "csv"


@pytest.mark.parametrize("name", ["a.svm", "a.csv", "a.conllu", "train.txt"])
def test_formats_are_guessed_below_any_number_of_comments(tmp_path, name):
    (tmp_path / "data").write_text("# one of many\n" * 300 + TEXTS[name])
    assert guess.guess(tmp_path / "data") == {"a.svm": "svmlight", "a.csv": "csv", "a.conllu": "conllu",
                                              "train.txt": "conll"}[name]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r", "\r\r\n"])
@pytest.mark.parametrize("trained", ["\n", "\r\n", "\r"])
def test_names_with_line_breaks_are_the_same_whatever_ends_the_lines(tmp_path, trained, ends):
    """A file with other line ends was refused: its columns had other names; and its labels were other classes."""
    text = 'b,"size\nin m","kind\nof it"\n' + "".join(f'{k % 3},{-k % 5},"{"xy"[k % 2]}\nz"\n' for k in range(20))
    swapped = '"size\nin m",b\n' + "".join(f"{-k % 5},{k % 3}\n" for k in range(20))
    for file, content, end in (("train", text, trained), ("same", text, ends), ("swapped", swapped, ends)):
        (tmp_path / f"{file}.csv").write_bytes(content.replace("\n", end).encode())
    assert call(f"train {tmp_path}/train.csv --tol 0.1 --save {tmp_path}/m.npz")[0] == 0
    assert pb.load(tmp_path / "m.npz").classes_.tolist() == ["x\nz", "y\nz"]
    for command in ("evaluate {}/same.csv", "evaluate {}/same.csv --label 'kind\nof it'",
                    "predict {}/swapped.csv --unlabelled"):
        code, _, err = call(f"{command.format(tmp_path)} --load {tmp_path}/m.npz")
        assert (code, err) == (0, ""), command


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_treebank_without_heads_is_told_so(folder, command):  # noqa: F811
    """The advice was --skip-bad, which leaves all sentences out."""
    code, _, err = call(f"{command} {folder}/raw.conllu --load {folder}/parser.model")
    assert code == 2 and "give predict --unlabelled" in err and "--skip-bad" not in err
    with pytest.raises(pb.ParameterError, match="pass unlabelled=True"):
        read_conllu(folder / "raw.conllu")


CERTIFIED = ["a.csv --scale", "a.csv --no-intercept --label kind", "first.csv --label first --tol 0.01", "a.csv -C inf",
             "zero.svm --zero-based --features 9", "named.npz --arrays T,t --scale", "train.txt --model crf",
             "a.conll --hash-bits 6 --comment %", "a.conllu --hash-bits 7", "s.npz",
             "raw_and_a.conllu --skip-bad -C 0.1 --hash-bits 7"]


@pytest.mark.parametrize("command", CERTIFIED)
def test_a_certificate_knows_the_options_of_its_training(folder, tmp_path, command, monkeypatch):  # noqa: F811
    """A valid certificate was "NOT verified" unless options like --model and --scale were given again."""
    monkeypatch.chdir(folder)
    (folder / "raw_and_a.conllu").write_text(TEXTS["a.conllu"] + TEXTS["raw.conllu"])
    code, _, err = call(f"train {command} --certificate {tmp_path}/c.npz")
    assert code == 0, err
    data, *given = command.split()
    code, out, err = call(f"verify {data} --certificate {tmp_path}/c.npz")
    assert code == 0 and "\nverified" in out, out + err
    model = "crf" if "crf" in command else "mkl"
    assert (call(f"verify {data} --certificate {tmp_path}/c.npz --model {model}")[0] == 0) == (model == "crf")
    other = {"--hash-bits": "9", "--features": "5", "--label": "b", "--arrays": "X,y"}
    for option in ("--hash-bits", "--features", "--label", "--arrays", "--scale", "--skip-bad", "--no-intercept"):
        value = f"={other[option]}" if option in other else ""
        code, out, err = call(f"verify {data} --certificate {tmp_path}/c.npz {option}{value}")
        if value or option not in given:
            assert (code, out) == (2, "") and f"{option}{value} is no option of the certificate" in err, option
        else:
            assert code == 0, err


@pytest.mark.parametrize("options", [("--help",), ("--version",), ("--model=forest",), ("--features=0",), ("-C", "5"),
                                     ("--certificate=b", "--exact", "--")])
def test_options_of_a_forged_certificate_are_options_and_nothing_else(folder, tmp_path, options):  # noqa: F811
    certificate = pb.load_certificate(folder / "scaled.certificate")
    dataclasses.replace(certificate, options=options).save(tmp_path / "c.npz")
    assert pb.load_certificate(tmp_path / "c.npz").options == list(options)
    code, out, _ = call(f"verify {folder}/a.csv --certificate {tmp_path}/c.npz")
    assert code in (1, 2) and "\nverified" not in out


@pytest.mark.parametrize("separator, rows", [("tab", "{word} x\t{label}"), ("blank", "{word}\t\t{label} ")])
def test_a_model_keeps_separator_and_comments_of_its_training(folder, tmp_path, separator, rows):  # noqa: F811
    """Words with blanks were split again by `predict`, unless --separator was given to it, too."""
    def text(row):
        return "\n".join("% of us\n" + "".join(row.format(word=word, label=label).rstrip(" \t") + "\n"
                         for word, _, label in sentence) for sentence in WORDS)

    for name, row in (("pairs", rows), ("words", rows.partition("\t")[0])):
        (tmp_path / f"{name}.conll").write_text(text(row))
    model = f"--load {tmp_path}/m.npz"
    options = f"--separator {separator} --comment %"
    assert call(f"train {tmp_path}/pairs.conll {options} --tol 0.1 --save {tmp_path}/m.npz")[0] == 0
    for command in ("pairs.conll", "words.conll --unlabelled"):
        expected = call(f"predict {tmp_path}/{command} {model} {options}")
        assert expected[0] == 0 and call(f"predict {tmp_path}/{command} {model}") == expected
    assert "100.00 %\n" in call(f"evaluate {tmp_path}/pairs.conll {model}")[1]


def raw_forms(sentence):
    """What a user of Python may give for a sentence of words and tags."""
    words = [word for word, *_ in sentence]
    return [words, [(word,) for word in words], [token[:2] for token in sentence], [list(token) for token in sentence],
            [{"form": word} for word in words], np.array(words)]


@pytest.mark.parametrize("options", ["", "--model crf", "--hash-bits 12", "--model crf --hash-bits 3"])
def test_models_of_the_command_line_in_python(folder, tmp_path, options):  # noqa: F811
    """They take words with their columns, as files hold them; they once took words for names of features."""
    assert call(f"train {folder}/a.conll {options} --tol 0.1 --save {tmp_path}/m.npz")[0] == 0
    model = pb.load(tmp_path / "m.npz")
    X = [[token[:-1] for token in sentence] for sentence in read_conll(folder / "other.conll")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels = model.predict(X)
        assert [model.predict_single(x) for x in X] == labels
    code, out, err = call(f"predict {folder}/other.conll --load {tmp_path}/m.npz --json")
    assert (code, err) == (0, "") and json.loads(out)["predictions"] == labels
    for k, raw in enumerate(raw_forms(WORDS[0])):
        if k in (2, 3):                 # a further column, such as the label, is not read
            assert model.predict([[], raw]) == [[], model.predict_single(raw)] == [[], model.predict([raw])[0]]
        else:
            with pytest.raises(pb.InputTypeError, match=r"X\[1\]\[0\] must be a tuple of 2 or more texts"):
                model.predict([[], raw])


def test_sequences_of_which_nothing_is_known():
    """A sentence of new words beside others is no reason to warn, nor is a model whose l1 norm left no weight."""
    X, y = [["the", "dog", "barks"], ["dogs", "bark"]], [["D", "N", "V"], ["N", "V"]]
    crf = pb.ChainCRF(C=10.0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for known in ([["the", "cat"]], [["cat"], [], ["bark"]], [[]], [[{"the": 0.0}, {}]]):
            crf.predict(known)
            crf.decision_function(known)
        pb.ChainCRF(l1=100.0).fit(X, y).predict(X)
    for unknown in ([["word:the", "word:dog"]], [[], [{"new": 2.0}], ["cat"]]):
        with pytest.warns(UserWarning, match=r"ChainCRF: the model knows no feature of X.*as in the training"):
            crf.predict(unknown)


def test_a_model_keeps_what_missing_labels_are(tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"{k},{'NA' if k > 9 else 'EU'}\n" for k in range(20)))
    assert call(f"train {tmp_path}/a.csv --keep-na --save {tmp_path}/m.npz")[0] == 0
    assert call(f"evaluate {tmp_path}/a.csv --load {tmp_path}/m.npz")[0] == 0


def sentences(name):
    return [block + "\n\n" for block in TEXTS[name].strip().split("\n\n")]


BAD = {0: "\t3\troot", 3: "\t9\troot", 4: "\t_\troot", 11: "\t3\troot"}
"""Another head of the third word of a sentence: itself, one that is not there, none, itself."""


@pytest.mark.parametrize("data", ["all", "good"])
@pytest.mark.parametrize("predictions", ["all", "good"])
def test_bad_sentences_may_be_left_out_before_or_after_the_prediction(folder, tmp_path, data, predictions):  # noqa: F811
    """Only predictions of all sentences, compared with all, were taken; a wrong head, put in by hand, must be seen."""
    whole = [text.replace("\t0\troot", BAD[i]) if i in BAD else text for i, text in enumerate(sentences("a.conllu"))]
    (tmp_path / "all.conllu").write_text("".join(whole))
    (tmp_path / "good.conllu").write_text("".join(text for i, text in enumerate(whole) if i not in BAD))
    code, _, err = call(f"predict {tmp_path}/{predictions}.conllu --skip-bad --load {folder}/parser.model "
                        f"--output {tmp_path}/found.conllu")
    assert code == 0, err
    blocks = (tmp_path / "found.conllu").read_text().split("\n\n")
    assert "4\t.\t.\t.\t.\t_\t3" in blocks[1]
    blocks[1] = blocks[1].replace("4\t.\t.\t.\t.\t_\t3", "4\t.\t.\t.\t.\t_\t1")
    (tmp_path / "found.conllu").write_text("\n\n".join(blocks))
    truth = read_conllu(tmp_path / "good.conllu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = read_conllu(tmp_path / "found.conllu", skip_bad=True)
    n_right = sum(np.count_nonzero(a.heads[1:] == b.heads[1:]) for a, b in zip(truth, found, strict=True))
    code, out, err = call(f"evaluate {tmp_path}/{data}.conllu --skip-bad --predictions {tmp_path}/found.conllu")
    assert code == 0 and f"{100.0 * n_right / sum(len(x.forms) for x in truth):.2f} %" in out, err


@pytest.mark.parametrize("word", ["-DOCSTART-ed", "-DOCSTART--", "-DOCSTART-\u00a0x"])
def test_a_token_that_begins_like_a_border_of_documents(word):
    """It was taken for a border, so that a token was lost and its sentence cut in two."""
    got = read_conll(io.StringIO(f"-DOCSTART- O\n\na A\n{word} B\nb A\n\n-DOCSTART-\nc A\n"))
    assert got == [[("a", "A"), (word, "B"), ("b", "A")], [("c", "A")]]


@pytest.mark.parametrize("text", ["1:1 2:1\n1,2 1:1\n", " 1:1\n\n# a, b\n 2:1\n3 2:1\n0,3 1:1\n",
                                  "qid:1 1:1\n1;2 1:1\n"])
def test_multi_label_svmlight_whose_first_example_has_no_label(text):
    with pytest.raises(pb.ParameterError, match=r"line 1: no label stands before .*multi-label data.*multilabel=True"):
        read_svmlight(io.StringIO(text))
    with pytest.raises(pb.ParameterError, match="pass unlabelled=True"):
        read_svmlight(io.StringIO("1:1 2:1 # a, b\n1 1:1\n"))


def test_warnings_name_no_function_that_was_not_called():
    """Estimators warned in the name of `pybundle.minimize`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pb.MulticlassSVM(max_iter=1, tol=1e-12).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    assert caught and not any("minimize" in str(warning.message) for warning in caught)
