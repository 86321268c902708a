"""Templates of features: values by hand, CRF++'s own example, refusals, models that keep them, the command line."""

import io
import json
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from test_command_lines import WORDS, call, folder  # noqa: F401

import pybundle as pb
from pybundle.datasets import read_attributes
from pybundle.templates import Templates, read_crfpp

CHUNKING = """# Unigram
U00:%x[-2,0]
U01:%x[-1,0]
U02:%x[0,0]
U03:%x[1,0]
U04:%x[2,0]
U05:%x[-1,0]/%x[0,0]
U06:%x[0,0]/%x[1,0]

U10:%x[-2,1]
U11:%x[-1,1]
U12:%x[0,1]
U13:%x[1,1]
U14:%x[2,1]
U15:%x[-2,1]/%x[-1,1]
U16:%x[-1,1]/%x[0,1]
U17:%x[0,1]/%x[1,1]
U18:%x[1,1]/%x[2,1]

U20:%x[-2,1]/%x[-1,1]/%x[0,1]
U21:%x[-1,1]/%x[0,1]/%x[1,1]
U22:%x[0,1]/%x[1,1]/%x[2,1]

# Bigram
B
"""
"""The template of CRF++'s example of chunking."""
ROWS = {0: [(-2,), (-1,), (0,), (1,), (2,), (-1, 0), (0, 1)],
        1: [(-2,), (-1,), (0,), (1,), (2,), (-2, -1), (-1, 0), (0, 1), (1, 2)], 2: [(-2, -1, 0), (-1, 0, 1), (0, 1, 2)]}
"""The same by hand: rows by tens of the number of the template."""


def by_hand(sentence, t):
    """Return the features of a token in the order of the file."""
    def value(row, column):
        place = t + row
        return f"_B{place}" if place < 0 else f"_B+{place - len(sentence) + 1}" if place >= len(sentence) else \
            sentence[place][column]

    return [f"U{tens}{k}:" + "/".join(value(row, min(tens, 1)) for row in rows)
            for tens, group in ROWS.items() for k, rows in enumerate(group)]


@given(st.lists(st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]), max_size=4)] * 2), max_size=6))
def test_the_example_of_crfpp_against_features_by_hand(sentence):
    templates = read_crfpp(io.StringIO(CHUNKING))
    assert len(templates.lines) == 19 and templates.n_columns == 2
    assert templates(sentence) == [by_hand(sentence, t) for t in range(len(sentence))]


def test_features_of_words_by_hand():
    (mine,) = Templates([f"{name}:%{name}[0,0]" for name in (
        "x", "lower", "shape", "runs", "digits", "prefix1", "prefix9", "suffix3", "suffix9")])(["McDö-12"])
    assert mine == ["x:McDö-12", "lower:mcdö-12", "shape:XxXx-00", "runs:XxXx-0", "digits:McDö-00", "prefix1:M",
                    "suffix3:-12"]
    assert Templates(["runs:%runs[0,0]", "%shape[0,0]", "bias"])(["NATO", "ÀÀÉ", "\u65e5\u672c", ""]) == [
        ["runs:X", "XXXX", "bias"], ["runs:X", "XXX", "bias"], ["runs:x", "xx", "bias"], ["runs:", "", "bias"]]
    # one value that is missing leaves the template out, and borders have no functions
    assert Templates(["%digits[0,0]/%suffix2[-1,0]"])(["a1", "b", "2"]) == [["a0/_B-1"], [], []]
    assert pb.templates.words()([]) == []


def test_shapes_of_ascii_are_those_of_all_letters():
    for code in range(128):
        sign = chr(code)
        assert Templates(["%shape[0,0]"])([sign])[0][0] == Templates(["%shape[0,0]"])([sign + "é"])[0][0][:-1]


def test_sets_are_joined():
    sets = pb.templates
    assert sets.lower(2) + sets.lower(1) == sets.lower(2) and hash(sets.words()) == hash(sets.words(1))
    assert sets.words(3) == sets.words() + sets.columns(3)
    assert eval(repr(sets.affixes(2)), {"Templates": Templates}) == sets.affixes(2)
    assert pickle.loads(pickle.dumps(sets.words(2)))([("ab", "N")]) == sets.words(2)([("ab", "N")])
    names = [name for token in sets.words(2)([("The", "DT"), ("dog", "NN")]) for name in token]
    assert {"word[0]:The", "lower[1]:dog", "suffix2:og", "column1[-1]:DT", "column1[-1..0]:DT/NN"} <= set(names)
    assert len(names) == len(set(names))
    with pytest.raises(TypeError):
        sets.digits() + 1


@pytest.mark.parametrize("text, said", [
    ("U00:%x[0,0]\nB01:%x[0,0]\n", r"line 2: features of pairs of labels.*begins with U"),
    ("# a\n\nU:%m[0,0,\"^.\"]\nB\n", r"line 3: '%m\[0,0.* is a macro of Wapiti"),
    ("U:%t[0,0,\"^.\"]\nB\n", r"line 1: '%t\[0,0.* is a macro of Wapiti"),
    ("U:%x[0]\nB\n", r"line 1: '%x\[0\]' must be a macro like %x\[-1,0\]"),
    ("U:%x[+1,0]\nB\n", r"line 1: '%x\[\+1,0\]' must"), ("U:%x[0, 0]\nB\n", "line 1: .*without blanks"),
    ("U:%x[0,-1]\nB\n", "line 1: .*column from 0"), ("U:50%\nB\n", "line 1: '%' must"),
    ("U:%y[0,0]\nB\n", "line 1: '%y"), ("U:%prefix0[0,0]\nB\n", "line 1: '%prefix0"),
    ("U:%x[9,0]\nB\n", "line 1: the row 9 must be -8 to 8"), ("u:%x[0,0]\nB\n", "line 1: a line must begin with U"),
    ("*:%x[0,0]\n", "line 1: a line must begin with U, B or #"), (" U:%x[0,0]\n", "line 1: a line must begin"),
    ("U:%x[0,0]\nB\nU:a\nB1\n", "line 4: line 2 has the weights of neighbouring labels"),
    ("U:%x[0,0]\n", "no line B.*add the line B"), ("B\n", "holds no template"), ("", "holds no template"),
])  # fmt: skip
def test_files_that_cannot_be_read(tmp_path, text, said):
    (tmp_path / "template").write_text(text)
    with pytest.raises(pb.ParameterError, match=said) as caught:
        read_crfpp(tmp_path / "template")
    assert str(caught.value).startswith(str(tmp_path))


def test_files_of_other_systems(tmp_path):
    (tmp_path / "template").write_bytes(b"\xef\xbb\xbf" + CHUNKING.replace("\n", "\r\n").encode())
    assert read_crfpp(tmp_path / "template") == read_crfpp(io.StringIO(CHUNKING))


@pytest.mark.parametrize("lines, kind, said", [
    ("%x[0,0]", pb.InputTypeError, "lines must be a list of texts"), ([1], pb.InputTypeError, "lines must be"),
    (None, pb.InputTypeError, "lines must be"), ({"a": 1}, pb.InputTypeError, "lines must be"),
    ((line for line in ["%x[0,0]"]), pb.InputTypeError, "lines must be"),
    ([], pb.ParameterError, "at least one template"), (["a", "%z"], pb.ParameterError, r"lines\[1\] = '%z'"),
])  # fmt: skip
def test_lines_that_are_no_templates(lines, kind, said):
    with pytest.raises(kind, match=said):
        Templates(lines)


@pytest.mark.parametrize("make", [pb.templates.words, pb.templates.columns])
def test_numbers_of_columns_that_no_macro_names(make):
    assert make(1000).n_columns == 1000
    for n in (1001, 10**30):
        with pytest.raises(pb.ParameterError, match=f"n_columns must be an integer <= 1000, got {n}"):
            make(n)


@pytest.mark.parametrize("tokens", ["dog", {"word": "dog"}, 3, None, [None], [3], [("a", 1)], [{"word": "a"}], [()],
                                    np.zeros((2, 3)), ["a", ["b", None]]])
def test_tokens_that_are_no_columns(tokens):
    with pytest.raises(pb.InputTypeError, match=r"tokens(\[[01]\])? must be"):
        pb.templates.words()(tokens)
    assert Templates(["%x[0,1]"]).n_columns == 2
    with pytest.raises(pb.InputTypeError, match=r"tokens\[0\] must be a tuple of 2 or more texts"):
        Templates(["%x[0,1]"])(["dog"])


@pytest.mark.parametrize("options", [{}, {"hash_bits": 10}, {"min_count": 2}, {"token_weights": "occurring"}])
@pytest.mark.parametrize("kind", [pb.ChainSVM, pb.ChainCRF])
def test_a_model_with_templates_is_one_of_their_features(tmp_path, kind, options):
    """Same weights, same predictions, before and after a file; texts in arrays and empty sentences, too."""
    templates = pb.templates.words(2)
    X = [[token[:2] for token in sentence] for sentence in WORDS] + [[]]
    y = [[token[2] for token in sentence] for sentence in WORDS] + [[]]
    made = [templates(x) for x in X]
    mine, theirs = kind(templates=templates, tol=0.01, **options).fit(X, y), kind(tol=0.01, **options).fit(made, y)
    assert mine.vocabulary_ == theirs.vocabulary_ and np.array_equal(mine.coef_, theirs.coef_)
    mine.save(tmp_path / "m.npz")
    for model in (mine, pb.load(tmp_path / "m.npz"), pickle.loads(pickle.dumps(mine))):
        assert model.templates == templates
        assert model.predict(X) == theirs.predict(made) and model.score(X, y) == theirs.score(made, y)
        assert model.predict_single(np.array(X[0])) == theirs.predict_single(made[0])
    assert clone(mine).templates == templates
    mine.set_params(templates=None)             # predictions take the parameters of the fit
    assert mine.predict(X) == theirs.predict(made)


def test_models_refuse_other_tokens():
    y = [["a", "b"]]
    with pytest.raises(pb.InputTypeError, match=r"templates must be Templates, such as pb.templates.words\(\)"):
        pb.ChainSVM(templates="words").fit([["x", "y"]], y)
    model = pb.ChainSVM(templates=Templates(["%digits[0,0]"])).fit([["1", "b2"]], y)
    assert len(model.predict([["no", "digits"], ["1"]])[0]) == 2
    for X in ([[{"word": "a"}]], [np.zeros((2, 3))], [[["a", 2.0]]]):
        with pytest.raises(pb.InputTypeError, match=r"X\[0\]\[0\] must be a tuple of 1 or more texts"):
            model.predict(X)
    with pytest.raises(pb.ParameterError, match="at least one feature"):
        pb.ChainSVM(templates=Templates(["%digits[0,0]"])).fit([["a", "b"]], y)


def test_search_over_C_takes_templates():
    X = [[token[:2] for token in sentence] for sentence in WORDS]
    y = [[token[2] for token in sentence] for sentence in WORDS]
    search = pb.ChainCRFCV([0.1, 1.0], cv=2, tol=0.05, templates=pb.templates.lower(1)).fit(X, y)
    assert "lower[0]:the" in search.vocabulary_


# ---------------------------------------------------------------------- at the shell

def test_features_of_the_command_line(folder, tmp_path):  # noqa: F811
    (tmp_path / "template").write_text(CHUNKING)
    found = {}
    for features in ("words", "lower,columns", str(tmp_path / "template")):
        line = f"train {folder}/a.conll --model crf --tol 0.1 --features {features} --save {tmp_path}/m.npz"
        assert call(f"{line} --certificate {tmp_path}/c.npz")[0] == 0
        found[features] = pb.load(tmp_path / "m.npz")
        assert call(f"evaluate {folder}/a.conll --load {tmp_path}/m.npz")[0] == 0
        assert call(f"verify {folder}/a.conll --certificate {tmp_path}/c.npz")[0] == 0
    assert found["words"].templates == pb.templates.words(2)
    assert found["lower,columns"].templates == pb.templates.lower() + pb.templates.columns(2)
    names = Counter(name for sentence in WORDS for t in range(len(sentence)) for name in by_hand(sentence, t))
    assert sorted(names) == found[str(tmp_path / "template")].vocabulary_
    assert call(f"train {folder}/a.conll --tol 0.1 --save {tmp_path}/d.npz")[0] == 0
    assert pb.load(tmp_path / "d.npz").templates == pb.templates.words(2)


@pytest.mark.parametrize("line, said", [
    ("train {}/a.conll --features no", "no such file, and no such set; sets are affixes, columns"),
    ("train {}/a.conll --features 7", "--features belongs to data of format svmlight"),
    ("train {}/a.svm --features words", "--features belongs to data of format conll"),
    ("train {}/a.conll --features {}/wide", "reads column 2, but the columns of"),
    ("train {}/a.conll --features {}/bad", "bad, line 1: '%y'"),
    ("train {}/a.conll --attributes --features words", "leave it out"),
    ("predict {}/a.conll --load {}/m.npz --features words", "leave it out"),
    ("predict {}/a.conll --load {}/m.npz --attributes", "trained on columns; leave --attributes out"),
])  # fmt: skip
def test_features_that_do_not_fit(folder, line, said):  # noqa: F811
    (folder / "wide").write_text("U:%x[0,2]\nB\n")
    (folder / "bad").write_text("U:%y\nB\n")
    assert call(f"train {folder}/a.conll --tol 0.5 --save {folder}/m.npz")[0] == 0
    code, _, err = call(line.replace("{}", str(folder)))
    assert code == 2 and said in err and err.count("\n") == 1


# ---------------------------------------------------------------------- attributes of CRFsuite

ATTRIBUTES = "D\tw=the\tlong:0.5\r\nN\tw=dog\tw=dog\t\tx\\:y:2\n\n\nV\tw=barks\\\\:1e1\n"


def test_attributes_by_hand():
    X, y = read_attributes(io.StringIO(ATTRIBUTES))
    assert X == [[{"w=the": 1.0, "long": 0.5}, {"w=dog": 2.0, "x:y": 2.0}], [{"w=barks\\": 10.0}]]
    assert y == [["D", "N"], ["V"]]
    assert read_attributes(io.StringIO("a\tb\nc\n"), unlabelled=True) == ([[{"a": 1.0, "b": 1.0}, {"c": 1.0}]], [])
    assert read_attributes(io.StringIO("\n")) == ([], [])
    for text, said in (("N\ta:b\n", "line 1: the value 'b' of 'a' must be a finite number"),
                       ("N\ta:1e999\n", "line 1: the value '1e999' of 'a' must be a finite number"),
                       ("\tw\n", "expected a label"),
                       ("@weight:2\nN\tw\n", "line 1: expected a label.*sample_weight")):
        with pytest.raises(pb.ParameterError, match=said):
            read_attributes(io.StringIO(text))


def test_attributes_at_the_shell(tmp_path):
    """Labels stand first, and come back there; the model knows that its data were attributes."""
    rows = ["\n".join("\t".join([label, f"w={word}", f"t={tag}"]) for word, tag, label in s) + "\n" for s in WORDS]
    labelled, bare = "\n".join(rows), "\n".join(rows)
    for label in {label for sentence in WORDS for *_, label in sentence}:
        bare = bare.replace(f"{label}\t", "")
    (tmp_path / "a.txt").write_text(labelled)
    (tmp_path / "bare.txt").write_text(bare)
    command = f"train {tmp_path}/a.txt --attributes --model crf -C 100 --tol 0.01 --save {tmp_path}/m.npz"
    assert call(command)[::2] == (0, "")
    assert "look like attributes; if the first column" in call(command.replace(" --attributes", ""))[2]
    assert call(command)[0] == 0
    model, (X, y) = pb.load(tmp_path / "m.npz"), read_attributes(tmp_path / "a.txt")
    assert model.predict(X) == y
    for name, option in (("a", ""), ("bare", "--unlabelled"), ("bare", "--unlabelled --attributes")):
        assert call(f"predict {tmp_path}/{name}.txt {option} --load {tmp_path}/m.npz") == (0, labelled, "")
    code, out, _ = call(f"evaluate {tmp_path}/a.txt --load {tmp_path}/m.npz --json")
    assert code == 0 and json.loads(out)["token accuracy"] == 1.0
    out = call(f"evaluate {tmp_path}/a.txt --attributes --predictions {tmp_path}/a.txt --json")[1]
    assert json.loads(out)["sequence accuracy"] == 1.0
    code, _, err = call(f"predict {tmp_path}/bare.txt --load {tmp_path}/m.npz")
    assert code == 2 and "the first column holds no label of the model" in err and "give attributes, and" in err
    (tmp_path / "blanks.txt").write_text(labelled.replace("\t", " "))
    code, _, err = call(f"train {tmp_path}/blanks.txt --attributes")
    assert code == 2 and "blanks.txt holds no attribute; write a label and attributes on a line, all" in err


def test_names_of_tables_may_hold_columns_of_words(tmp_path):
    text = "\n".join("".join("\t".join(token) + "\n" for token in sentence) for sentence in WORDS)
    (tmp_path / "a.tsv").write_text(text)
    assert call(f"train {tmp_path}/a.tsv --model crf -C 100 --tol 0.01 --save {tmp_path}/m.npz")[0] == 0
    assert call(f"predict {tmp_path}/a.tsv --load {tmp_path}/m.npz") == (0, text, "")
    assert "expected a number" in call(f"train {tmp_path}/a.tsv")[2]
