"""Tables as people have them: comments, bars, quotes, categories, several labels; read, or refused with a remedy."""

import datetime as dt
import io
import json
import warnings

import numpy as np
import pytest
from test_command_lines import call, folder  # noqa: F401

import pybundle as pb
from pybundle.cli import guess
from pybundle.datasets import read_csv, read_svmlight
from pybundle.datasets.tables import table_of

estimators = pytest.importorskip("pybundle.estimators")
ROWS = [["1.5", "2", "x"], ["-3", "4.25", "y"], ["5", "6", "x"], ["2", "3e1", "y"]]
X = [[1.5, 2.0], [-3.0, 4.25], [5.0, 6.0], [2.0, 30.0]]


def table(separator, *, head=("a", "b", "k"), rows=ROWS):
    return "".join(separator.join(row) + "\n" for row in ([head] if head else []) + rows)


@pytest.mark.parametrize("separator", list(",;\t|"))
@pytest.mark.parametrize("head", [("a", "b", "k"), ("size, in m", "a;b|c", "k\tind"), ("a\nb", "c\r\n\n#d", 'e"f'),
                                  None])
def test_separators_and_comments(separator, head):
    """Bars left one column, and so did semicolons if a line break stood in the first name, as Excel writes them."""
    quoted = head and ['"' + name.replace('"', '""') + '"' for name in head]
    text = table(separator, head=quoted)
    for before, after, n in (("", "", 0), ("# by me, in 2024; a|b\n", "#\n", 2), ("#\n\n # \"x\n", "# 1,2\n#3|4\n", 4)):
        got, n_comments = table_of(io.StringIO(before + text + after, newline=""))
        assert got.X.tolist() == X and got.y.tolist() == list("xyxy") and n_comments == n
        assert got.names == (None if head is None else list(head[:2]))
        found = read_csv(io.StringIO(before + text.replace("x\n", "x\n# between\n") + after, newline=""))
        assert found.X.tolist() == X and found.names == got.names


def test_the_separator_leaves_most_numbers():
    """Labels and names may hold other signs, more often than the separator occurs, and decimal commas are named."""
    for text in ("1,2,a|b|c\n3,4,d\n", "u,v,a|b|c|d\n1,2,x|y\n3,4,x\n", "1,2,a;b;c\n"):
        assert read_csv(io.StringIO(text)).X[0].tolist() == [1.0, 2.0]
    for text in ("a|b|k\n1,5|2,5|x\n", "1,5;2\n", "x;y\n1,5;0\n2,5;1\n", "0,5\t2\tx\n"):
        with pytest.raises(pb.ParameterError, match=r"holds '[01],5'; numbers must have a decimal point"):
            read_csv(io.StringIO(text))


@pytest.mark.parametrize("before, label, names, n_comments", [
    ("# a,b,k\n", "k", ["a", "b"], 0), ("#a,b,k\n", "k", ["a", "b"], 0), ("# made\n#a, b ,k\n", "k", ["a", "b"], 1),
    ("# by me, in 2024\n", "last", None, 1), ("# a,b\n", "last", None, 1), ("# a,b,2\n", "last", None, 1),
    ("# a,b,k\nc,d,e\n", "e", ["c", "d"], 1),
])  # fmt: skip
def test_names_in_a_comment(before, label, names, n_comments):
    """`numpy.savetxt` writes names after `# `; other comments above a table without names are no names."""
    got, n = table_of(io.StringIO(before + table(",", head=None)), label=label)
    assert (got.X.tolist(), got.names, n) == (X, names, n_comments)


def test_an_example_is_never_taken_for_a_comment_in_silence():
    """Labels that stand first may begin with #; they need quotes, or a file would lose these examples."""
    for text, label in (("#x,1,2\ny,3,4\n#x,5,6\n", "first"), ("kind,a,b\ny,1,2\n#x,3,4\n", "first"),
                        ("1,2,x\n#1,3,y\n", "last"), ("1,2,x\n#,3,y\n", "last"), ("#1,2\n1,2\n", None)):
        with pytest.raises(pb.ParameterError, match=r"line [123]: an example must not begin with #.*; put a label"):
            read_csv(io.StringIO(text), label=label)
    assert table_of(io.StringIO("y,1,2\n# x,1,2\n# by me,1,2\n#x,1\n"), label="first")[1] == 3
    with pytest.raises(pb.ParameterError, match=r"holds no example; give each a line .* without # before it"):
        read_csv(io.StringIO("#x,1,2\n#y,3,4\n"), label="first")
    assert read_csv(io.StringIO('"#x",1\ny,2\n# z\n'), label="first").y.tolist() == ["#x", "y"]
    assert read_csv(io.StringIO("1,#x\n2,y\n#3,z\n")).y.tolist() == ["#x", "y"]


@pytest.mark.parametrize("options", ["", "--label last", "--label first", "--load csv.model"])
@pytest.mark.parametrize("text", ["a b k\n1 2 x\n3 4 y\n", "a:b:k\n1:2:x\n", "x\ny\n",
                                  "My table\na,b,c,kind\n1,2,3,x\n"])
def test_one_column_is_named_with_the_separators(folder, text, options):  # noqa: F811
    """The error blamed `--label`, which nobody had given."""
    (folder / "in.csv").write_text(text)
    command = "predict" if "--load" in options else "train"
    code, out, err = call(f"{command} {folder}/in.csv {options.replace('csv.model', f'{folder}/csv.model')}")
    first = text.split("\n")[0]
    assert (code, out) == (2, "") and f"in.csv, line 1: one column only, '{first}', by the separators , ; tab |" in err
    assert "--label" not in err and len(err) - len(str(folder)) < 220
    assert read_csv(io.StringIO("a\n1\n# x\n2\n"), label=None).X.tolist() == [[1.0], [2.0]]


SEX = [("M", "0.5", "5"), ("F", "0.25", "6"), ("I", "0.5", "5"), ("M", "1", "6"), ("F", "2", "5"), ("I", "3", "6")]


@pytest.mark.parametrize("last, is_hinted", [
    ("565656", False), ("xyxyxy", False), ("++--+-", False), (["5.0", "6.0"] * 3, False), (["-1", "+1"] * 3, False),
    (["0.1", "0.2"] * 3, True), ("123456", True), ("111111", True), (["1", "2", "3", "4", "5", "5.5"], True),
])  # fmt: skip
@pytest.mark.parametrize("head", ["", "sex,length,rings\n", "# of shells\nsex,length,rings\n"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_labels_first_are_hinted_at_if_the_last_column_holds_none(last, is_hinted, head, quote):
    """Who followed the hint had a classifier of the sex of shells, from the number of their rings."""
    text = head + "".join(f"{quote}{row[0]}{quote},{row[1]},{value}\n" for row, value in zip(SEX, last, strict=True))
    with pytest.raises(pb.ParameterError, match=r"line [123]: column 1 holds 'M', expected a number") as caught:
        read_csv(io.StringIO(text + "# end\n"))
    assert [text in str(caught.value) for text in ("give label='first'", "OneHotEncoder")] == [is_hinted, not is_hinted]
    with pytest.raises(pb.ParameterError, match=r"column 2 holds 'M', expected a number.*OneHotEncoder"):
        read_csv(io.StringIO("1,M,0\n2,F,1\n"))


@pytest.mark.parametrize("text, label, words", [
    ("1,2,x\n3,y\n", "last", "line 2: expected 3 columns, got 2: '3,y'; fill in"),
    ("1,2,x\n3,4,y,z\n", "last", "line 2: expected 3 columns, got 4: '3,4,y,z'; .*fields that hold ',' in quotes"),
    ("a,k\n1,x\ninf,y\n", "last", "line 3: column 1: numbers must be finite, got inf; fill in"),
    ("a,k\n", "last", "holds no example; give each a line"), 
    ("a,k\n1,x\n", 3, "at least two columns, got 3 of 2; the first one is column 1"),
    ("a,k\n1,x\n", "q", "label must name one column, got 'q'; there are a, k; give its number"),
    ('a,k\n"1,x\n', "last", "line 2: the end of the file comes before the end of a quote; close it"),
])  # fmt: skip
def test_errors_of_tables_have_a_remedy(text, label, words):
    with pytest.raises(pb.ParameterError, match=words) as caught:
        read_csv(io.StringIO(text), label=label)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text, number", [
    ("0,1 1:0.3\n1 2:1\n", 1), ("1 1:2\n2,5,7 1:3 4:.5\n", 2), ("0, 1 1:.3\n", 1), ("1;2 1:1\n", 1),
    ("1 1:1\n0 1 1:.3\n", 2), ("3 5 4\n0,1 0:.5\n", 1),
])  # fmt: skip
def test_multi_label_svmlight_is_named(folder, text, number):  # noqa: F811
    """It was "could not convert string to float: '0,1'"; labels are skipped where none are wanted."""
    with pytest.raises(pb.ParameterError, match=f"line {number}: .*multi-label data.*multilabel=True.*OneVsRestCl"):
        read_svmlight(io.StringIO(text))
    (folder / "in").write_text(text)
    for command in ("train", f"predict --load {folder}/svm.model", f"evaluate --load {folder}/svm.model"):
        code, _, err = call(f"{command} {folder}/in --format svmlight")
        assert code == 2 and "multi-label data" in err and "MultiOutputClassifier" in err
    assert read_svmlight(io.StringIO("0,1 1:0.5\n1 1:1\n"), unlabelled=True).X.toarray().tolist() == [[0.5], [1.0]]


@pytest.mark.parametrize("y", [
    np.eye(4), np.eye(4)[:, :2], np.eye(4).tolist(), [(0,), (0, 1), (1,), ()], [[1], [], [0], [0]],
    [{0}, {0, 1}, {1}, {1}], np.array([[0, "a"]] * 4, dtype=object),
], ids=lambda y: type(y).__name__)  # fmt: skip
def test_several_labels_of_an_example_are_refused_with_what_takes_them(y):
    """scikit-learn's "y should be a 1d array" does not say that OneVsRestClassifier takes these labels."""
    data = np.arange(8.0).reshape(4, 2)
    for estimator in (estimators.MulticlassSVM(), estimators.MulticlassLogistic(), estimators.MulticlassSVMCV(),
                      estimators.OnlineMKLClassifier()):
        with pytest.raises(pb.ParameterError, match=r"y must have one entry for each row.*use OneVsRestClassifier or"):
            estimator.fit(data, y)
    with pytest.raises(pb.ParameterError, match=r"y must have one entry for each row.*use MultiOutputRegressor"):
        estimators.QuantileRegressor().fit(data, y)


def test_wrapped_classifiers_take_several_labels():
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.multioutput import MultiOutputClassifier
    rng = np.random.default_rng(0)
    data = rng.standard_normal((60, 4))
    y = (data[:, :3] > 0.0).astype(int)
    for wrapper in (OneVsRestClassifier, MultiOutputClassifier):
        assert (wrapper(estimators.MulticlassSVM(C=10.0)).fit(data, y).predict(data) == y).mean() > 0.95


def frames():
    """Makers of data frames from columns by name, of the libraries that are there."""
    yield "object array", lambda columns: np.array(list(zip(*columns.values(), strict=True)), dtype=object)
    yield "array of texts", lambda columns: np.array(list(zip(*columns.values(), strict=True)))
    yield "lists", lambda columns: [list(row) for row in zip(*columns.values(), strict=True)]
    for name in ("pandas", "polars"):
        try:
            yield name, __import__(name).DataFrame
        except ImportError:
            yield name, None


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in frames()])
def test_columns_of_texts_are_named(make):
    """A data frame with texts ended in "could not convert string to float: 'Oslo'", without the column."""
    if make is None:
        pytest.skip("this library is not installed")
    columns = {"age": [1.0, 2.0, 3.0, 4.0], "city": ["Oslo", "Rome", "Oslo", "Bern"], "n": [5, 6, 7, 9],
               "k": list("1a1b")}
    data, numbers = make(columns), np.array([columns["age"], columns["n"], columns["n"], columns["n"]]).T
    city, both = ("'city'", "['city', 'k']") if hasattr(data, "columns") else ("1", "[1, 3]")
    for estimator in (estimators.MulticlassSVM(), estimators.MulticlassLogistic(), estimators.OnlineMKLClassifier(),
                      estimators.LinearSVR()):
        y = [0, 1, 0, 1]
        with pytest.raises(pb.ParameterError) as caught:
            estimator.fit(data, y)
        assert str(caught.value) == (f"X must hold numbers, got 'Oslo' in column {city}; use ColumnTransformer([('', "
                                     f"OneHotEncoder(), {both})], remainder='passthrough')")
        estimator.fit(numbers, y)
        with warnings.catch_warnings(), pytest.raises(pb.ParameterError, match="got 'Oslo' in column"):
            warnings.simplefilter("ignore")         # of the missing names
            estimator.predict(data)


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in frames() if name != "array of texts"])
@pytest.mark.parametrize("days", [
    [dt.date(2020, 1, k) for k in range(1, 5)], [dt.datetime(2020, 1, k) for k in range(1, 5)],
    [dt.time(k) for k in range(1, 5)], [dt.timedelta(k) for k in range(1, 5)], [f"2020-01-0{k}" for k in range(1, 5)],
    [f"{k}/1/2020" for k in range(1, 5)], [f"0{k}.01.2020 12:00" for k in range(1, 5)]],
    ids=["date", "datetime", "time", "timedelta", "ISO", "US", "German"])
def test_dates_are_no_categories(make, days):
    """They were to be encoded by OneHotEncoder, or ended in an error of float()."""
    if make is None:
        pytest.skip("this library is not installed")
    data, y = make({"age": [1.0, 2.0, 3.0, 4.0], "day": days}), [0, 1, 0, 1]
    for estimator in (estimators.MulticlassSVM(), estimators.LinearSVR()):
        with pytest.raises((pb.ParameterError, pb.InputTypeError), match="pass dates as numbers of one unit") as caught:
            estimator.fit(data, y)
        assert ("column 'day'" if hasattr(data, "columns") else "column 1") in str(caught.value)
    if not isinstance(days[0], str):
        with pytest.raises(pb.ParameterError, match=r"y must hold numbers, got .*; pass dates as numbers of one"):
            estimators.LinearSVR().fit([[1.0], [2.0], [3.0], [5.0]], days)


def test_categories_and_missing_values_of_data_frames():
    """Categories that are numbers are numbers; missing values are no texts, and stay what scikit-learn calls them."""
    pandas = pytest.importorskip("pandas")
    svm, y = estimators.MulticlassSVM(), [0, 1, 0, 1]
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0, 5.0], "size": pandas.Categorical(["S", "M", "S", "L"])})
    for column, value in ((["S", "M", "S", "L"], "S"), (pandas.cut([1, 2, 3, 4], 2).astype(object), "(0.997, 2.5]"),
                          ([None, "M", "S", "L"], "M")):
        with pytest.raises(pb.ParameterError) as caught:
            svm.fit(frame.assign(size=pandas.Categorical(column)), y)
        assert f"got {value!r} in column 'size'; use ColumnTransformer" in str(caught.value)
    svm.fit(frame.assign(size=pandas.Categorical([1, 2, 1, 2])), y)
    with pytest.raises(ValueError, match="contains NaN"):
        svm.fit(frame.assign(size=pandas.array([1, None, 2, 2], dtype="Int64")), y)
    with pytest.raises(pb.ParameterError, match="got 'x' in column 'a'"):
        svm.fit(pandas.DataFrame([[1.0, "x"]] * 4, columns=["a", "a"]), y)


@pytest.mark.parametrize("name, change, n", [
    ("a.csv", lambda text: "\n".join(line.rpartition(",")[0] for line in text.split("\n")), "45 examples, 2 features"),
    ("a.csv", lambda text: text.replace("a,b,c", "b,a,c").replace("\n", "\n1", 1), "45 examples, 3 features"),
    ("a.csv", lambda text: "\n".join([*text.split("\n")[:1], *text.split("\n")[:0:-1]]), "45 examples, 3 features"),
    ("bare.csv", lambda text: "\n".join(line[:-2] for line in text.split("\n")), "45 examples, 2 features"),
])  # fmt: skip
def test_predictions_have_the_rows_of_the_data(folder, name, change, n):  # noqa: F811
    """Without a column of labels the last feature was compared with the labels, and the accuracy was 0."""
    text = (folder / name).read_text()
    (folder / "out").write_text(change(text))
    code, out, err = call(f"evaluate {folder}/{name} --predictions {folder}/out --format csv")
    assert (code, out) == (2, "")
    assert f"out must hold the rows of {folder}/{name}, 3 features and a label, got {n} that differ" in err
    (folder / "out").write_text("# by another program\n" + text.replace("-", "-0"))
    code, out, err = call(f"evaluate {folder}/{name} --predictions {folder}/out --format csv --json")
    assert (code, err) == (0, "") and json.loads(out)["accuracy"] == 1.0


def test_predictions_without_labels_of_tokens(folder):  # noqa: F811
    """The column of tags was compared with the labels."""
    for files in ("a.conll --predictions {0}/tagged.conll", "tagged.conll --predictions {0}/a.conll"):
        code, _, err = call(f"evaluate {folder}/{files.format(folder)}")
        assert code == 2 and f"tagged.conll holds the columns of {folder}/a.conll without the labels; bring them" in err
    assert call(f"evaluate {folder}/a.conll --predictions {folder}/pair.conll")[0] == 0      # word and label are enough


@pytest.mark.parametrize("files, said", [
    ("abc.csv --predictions {}/labels.txt", "abc.csv: no label is right; do its labels stand in the last column"),
    ("measured.csv --predictions {}/measured.csv", "warning: y holds fractions"),
    ("ids.csv --predictions {}/ids.csv", "warning: y holds 21 numbers that all differ"),
])  # fmt: skip
def test_data_without_labels_are_told(folder, files, said):  # noqa: F811
    """The last feature was taken for the labels, without a word."""
    code, _, err = call(f"evaluate {folder}/{files.format(folder)}")
    assert code == 0 and said in err and err.count("\n") == 1


UD = "# sent_id = 1\n# text = du\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n" \
    "1\tde\tde\tADP\t_\t_\t2\tcase\t_\t_\n2\tle\tle\tDET\t_\t_\t0\troot\t_\tSpaceAfter=No\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
LOOK_ALIKES = {
    "ranges": ("conllu", "# global.columns = ID FORM\n" + UD), "empty nodes": ("conllu", UD),
    "tweets": ("conll", "@x\tO\nin\tO\nRome\tB-LOC\n\t\nso\tO\n\t\n"), "law": ("conll", "O O\nSr. B-P\n, O\n\n1 O\n"),
    "wiki": ("conll", "pt:a O\npt:b B-LOC\n\npt:, O\n"), "first empty": ("conll", "\nThe\tO\ncat\tB-animal\n\nA\tO\n"),
    "offsets": ("conll", "cell\t0\t4\tB-A\n,\t4\t5\tO\n\nof\t9\t11\tO\n"),
    "ids": ("conll", "# http://x 2\n1\tEr\tO\tO\n2\tin\tO\tO\n\n# http://y\n1\tRom\tB-L\tO\n"),
    "heart": ("svmlight", "+1 1:0.7 2:1 13:-1 \n-1 1:0.5 3:-.3 \n"), "mushrooms": ("svmlight", "1 3:1 9:1\n0 3:1\n"),
    "many labels": ("svmlight", "0,1 1:0.3\n2 2:1\n"), "iris": ("csv", "5.1,3.5,Iris-setosa\n4.9,3.0,Iris-setosa\n\n"),
    "blanks": ("csv", "5.1, 3.5, a\n4.9, 3.0, b\n\n\n"), "quoted": ("csv", "1,2,'a b'\n3,4,'b'\n"),
    "categories": ("csv", "M,0.45,15\nF,0.5,7\n"), "missing": ("csv", "1,?,2\n3,4,1\n"),
    "comment": ("csv", "# a, b, c\n1,x\n2,y\n"), "long": ("conllu", 9 * UD),
    "semicolons": ("csv", '"acid";"quality"\n7.4;5\n'), "tabs": ("csv", "15.26\t14.84\t1\n14.88\t14.57\t1\n"),
    "bars": ("csv", "a|b|y\n0.5|1|a\n"), "breaks": ("csv", '"a\nb";"c\r\nd";k\n1;2;x\n'), 
    "names": ("csv", "a b,c d,e\n1,2,x\n\n"),
    "text": (None, "An essay.\nIt has lines, and lines.\n"), "tweets in a row": (None, "id text k\n1 so it is N\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_formats_of_files_without_an_end(tmp_path, name):
    """Files as treebanks, shared tasks, LIBSVM's site and UCI have them, under names that tell nothing."""
    format, text = LOOK_ALIKES[name]
    for ends in ("\n", "\r\n"):
        (tmp_path / "file").write_bytes(text.replace("\r\n", "\n").replace("\n", ends).encode())
        assert guess.guess(str(tmp_path / "file")) == format
