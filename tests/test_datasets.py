"""Readers against scikit-learn and hand-written files; generators against what they plant."""

import bz2
import gzip
import io
import lzma
import sys
import warnings

import numpy as np
import pytest

import pybundle as pb
from pybundle.datasets import (
    contrast_images,
    digit_strings,
    lines,
    load_digits,
    read_conll,
    read_csv,
    read_letters,
    read_svmlight,
)

BITS = " 0" * 64 + " 1" * 64


def write(folder, text, name="data.txt", packed=False):
    path = folder / name
    with (gzip.open if packed else open)(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_svmlight_as_scikit_learn_reads_it(tmp_path, packed):
    load = pytest.importorskip("sklearn.datasets").load_svmlight_file
    rng = np.random.default_rng(0)
    lines = ["# a file with everything\n", "\n"]
    for i in range(200):
        features = np.flatnonzero(rng.random(30) < 0.2) + 1
        line = f"{rng.integers(-3, 4)}" + f" qid:{i // 7}"
        line += "".join(f" {j}:{rng.standard_normal():.6g}" for j in features)
        lines.append(line + rng.choice(["\n", " # 5:7 said aside\n", "\t \r\n"]))
    path = write(tmp_path, "".join(lines), packed=packed)
    X, y, query = read_svmlight(path, n_features=30)
    with (gzip.open if packed else open)(path, "rb") as file:
        X_there, y_there, query_there = load(file, n_features=30, query_id=True)
    assert (X != X_there).nnz == 0 and X.has_canonical_format and X.indices.dtype == np.int32
    assert y.tolist() == y_there.tolist() and query.tolist() == query_there.tolist()


def test_svmlight_sizes(tmp_path):
    path = write(tmp_path, "1 0:2 3:1\n0\n")
    X, y, query = read_svmlight(path, zero_based=True)
    assert X.toarray().tolist() == [[2, 0, 0, 1], [0, 0, 0, 0]] and y.tolist() == [1, 0] and query is None
    assert read_svmlight(path, zero_based=True, n_features=9).X.shape == (2, 9)


@pytest.mark.parametrize("text, said", [
    ("1 2:1\n1 2:1 2:3\n", "line 2: index 2 must increase within the line: '1 2:1 2:3'"),
    ("1 3:1 2:3\n", "line 1: index 2 must increase"),
    ("1 0:1\n", "index 0 is no feature; pass zero_based=True"),
    ("1 -1:1\n", "index -1 is no feature"),
    ("1 a:1\n", "line 1: invalid literal for int"),
    ("1 1:\n", "line 1: could not convert string to float"),
    ("1,2 1:1\n", "line 1: could not convert string to float: '1,2'"),
    ("1 5:1\n", "index 5 lies beyond n_features = 4"),
    ("1 1:1\n\n1 1:nan\n", "example 1 must hold finite numbers, got nan"),
    ("inf 1:1\n", "example 0 must hold finite numbers, got inf"),
    ("1 qid:1 1:1\n1 1:1\n", "line 2: every line has a qid or none has"),
    ("1 1:1\n1 qid:1 1:1\n", "line 2: every line has a qid or none has"),
    ("1 qid:x 1:1\n", "base 10: 'x'; expected qid:number"),
    ("# nothing\n", "holds no example"),
    ("1 1:1\n1 qid:99999999999999999999 1:1\n", "line 2: number 99999999999999999999 is too large"),
    ("1 99999999999999999999:1\n", "line 1: number 99999999999999999999 is too large"),
])  # fmt: skip
def test_svmlight_complaints(tmp_path, text, said):
    with pytest.raises(pb.ParameterError, match=r"data\.txt") as caught:
        read_svmlight(write(tmp_path, text), n_features=4)
    assert said in str(caught.value)


def test_svmlight_without_labels():
    X, y, query = read_svmlight(io.StringIO("1:0.5 3:2\n2:1\n"), unlabelled=True)
    assert X.toarray().tolist() == [[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]] and y is None and query is None
    X, y, query = read_svmlight(io.StringIO("qid:4 1:1\nyes qid:5 1:2\n"), unlabelled=True)
    assert X.toarray().tolist() == [[1.0], [2.0]] and y is None and query.tolist() == [4, 5]
    with pytest.raises(pb.ParameterError, match=r"line 1: no label stands before 1:0.5; pass unlabelled=True"):
        read_svmlight(io.StringIO("1:0.5 3:2\n"))


@pytest.mark.parametrize("text, column, said", [
    ("a,b,k\n1,NA,x\n", 2, "'NA', a missing value"), ("k,a,b\nx,1,\n", 3, "is empty"),
    ("k;a;b\nx;1;2,5\n", 3, "a decimal point, not a comma"), ("a,b,k\n1,1_0,x\n", 2, "with the digits 0..9"),
    ("a,b,k\n1,gr\u00f6n,x\n", 2, "'gr\u00f6n', expected a number"), ("a,b,k\n1,nan,x\n", 2, "'nan', a missing value"),
    ("a,b,k\n1,inf,x\n", 2, "must be finite, got inf"),
])  # fmt: skip
def test_csv_complaints_say_what_the_field_holds(text, column, said):
    with pytest.raises(pb.ParameterError, match=f"line 2: column {column}.*{said}") as caught:
        read_csv(io.StringIO(text), label="first" if text.startswith("k") else "last")
    assert "give label='first'" not in str(caught.value) and len(str(caught.value)) < 200


def test_csv_hints_at_what_pandas_writes():
    with pytest.warns(UserWarning, match="line 1: 0, 1, 2, ... is taken for an example"):
        read_csv(io.StringIO("0,1,2\n3,4,5\n"))
    for name in ("", "Unnamed: 0"):
        with pytest.warns(UserWarning, match="the first column, '.*', numbers the lines"):
            read_csv(io.StringIO(f"{name},a,k\n0,1,x\n1,1,y\n"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in ("0,1\n3,4\n", ",a,k\n0.5,1,x\n1,1,y\n", "index,a,k\n3,1,x\n3,1,y\n"):
            read_csv(io.StringIO(text))


def test_csv_with_labels_that_are_one_number():
    """Files with 0 and with 0.0, joined, had twice the classes, without a word."""
    def table(*labels):
        return read_csv(io.StringIO("".join(f"1,2,{label}\n" for label in labels))).y

    for labels in ("0", "0.0", "1"), ("x", "1", "1e0"), ("01", "1", "2"), ("0.50", "a", ".5"):
        with pytest.warns(UserWarning, match="the labels '.*' and '.*' are one number, and two classes"):
            assert len(set(table(*labels))) > 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table("-0", "+0", "1").tolist() == [0, 0, 1]
        for labels in ("0.0", "1.0", "1.0"), ("a", "1", "2.5"), ("a", "A", "b"):
            table(*labels)


@pytest.mark.parametrize("packed", [False, True])
def test_conll(tmp_path, packed):
    text = "-DOCSTART- -X- O\n\n\nÜber IN B\n# SYM I\n \nEnde NN O"
    path = write(tmp_path, text, packed=packed)
    ending = [[("Über", "IN", "B"), ("#", "SYM", "I")], [("Ende", "NN", "O")]]
    assert read_conll(path) == ending
    assert read_conll(path, comment="-DOCSTART-") == ending
    assert read_conll(write(tmp_path, "\n\n", "empty.txt")) == []
    for kind in (io.StringIO, lambda text: io.BytesIO(text.encode())):
        for end in ("\r", "\r\n", "\r\r\n"):
            assert read_conll(kind(text.replace("\n", end).replace(f" {end}", f"{end}"))) == ending
    with pytest.raises(pb.ParameterError, match=r"data\.txt, line 4: expected 4 columns, got 3: 'Über"):
        read_conll(path, n_columns=4)
    with pytest.raises(pb.ParameterError, match=r"line 3: expected 2 columns, got 1: 'c'"):
        read_conll(write(tmp_path, "a b\n\nc\n", "ragged.txt"))


@pytest.mark.parametrize("reader", [read_svmlight, read_conll, read_letters])
def test_what_is_no_text_is_refused(tmp_path, reader):
    path = tmp_path / "broken"
    packed = gzip.compress(b"\n" * 9), bz2.compress(b"\n" * 9), lzma.compress(b"\n" * 9)
    damaged = [raw[:-12] for raw in packed] + [raw[:14] + b"nonsense" + raw[22:] for raw in packed]
    for content in (b"\x1f\x8b" + b"nonsense" * 5, *damaged, b"\xff\xfe\xff 1:1\n"):
        path.write_bytes(content)
        with pytest.raises(pb.ParameterError, match=r"broken, (line 1: .* UTF-8|after line \d: .*damaged)"):
            reader(path)
    with pytest.raises(FileNotFoundError):
        reader(tmp_path / "none")


@pytest.mark.parametrize("packed", [False, True])
def test_letters(tmp_path, packed):
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, (60, 128), dtype=np.uint8)
    y, sizes = rng.integers(0, 26, 60), [5, 1, 20, 34]
    lines = []
    for word, (size, end) in enumerate(zip(sizes, np.cumsum(sizes), strict=True)):
        for position in range(1, size + 1):
            t = end - size + position - 1
            following = -1 if position == size else t + 2
            head = (t + 1, chr(97 + y[t]), following, word + 1, position, word % 3)
            lines.append("\t".join(map(str, (*head, *X[t]))) + "\t\n")
    read = read_letters(write(tmp_path, "".join(lines), packed=packed))
    assert (read.X.values == X).all() and read.X.values.dtype == np.uint8 and read.X.sizes.tolist() == sizes
    assert read.y.values.tolist() == y.tolist() and read.fold.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("text, said", [
    ("1 a -1 1 1 0 1\n", "line 1: expected 6 columns and 128 pixels, got 7 columns"),
    ("1 A -1 1 1 0" + BITS + "\n", "line 1: the letter must be one of a..z, got 'A'"),
    ("1 a 2 1 1 0" + BITS + "\n3 b -1 1 2 0" + BITS, "line 2: letter 2 of word 1, fold 0, is to follow, got letter 3"),
    ("1 a 2 1 1 0" + BITS + "\n2 b -1 1 3 0" + BITS, "line 2: expected position 2 of word 1, got 3"),
    ("1 a -1 1 1 0" + BITS[:-1] + "2\n", "line 1: pixels must be 0 or 1"),
    ("1 a 2 1 1 0" + BITS, "line 1: the file ends within a word"),
    ("", "line 0: the file ends without a word"),
    ("1 a -1 1 1 9999999999" + BITS + "\n", "line 1: number 9999999999 is too large"),
])  # fmt: skip
def test_letters_complaints(tmp_path, text, said):
    with pytest.raises(pb.ParameterError) as caught:
        read_letters(write(tmp_path, text))
    assert said in str(caught.value)


def test_digit_strings_follow_the_chain():
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    X, y, transition = digit_strings(3000, lengths=(2, 6))
    assert X.values.dtype == np.float32 and y.values.dtype == np.int32
    assert (X.offsets == y.offsets).all() and set(X.sizes) == {2, 3, 4, 5, 6}
    pairs = np.zeros((10, 10))
    for string in y:
        np.add.at(pairs, (string[:-1], string[1:]), 1)
    counts = pairs.sum(axis=1, keepdims=True)
    assert np.allclose(transition.sum(axis=1), 1)
    z = (pairs - counts * transition) / np.sqrt(counts * transition + 1)
    assert np.abs(z).max() < 5
    known = {image.tobytes(): digit for image, digit in
             zip((digits.data / 16).astype(np.float32), digits.target, strict=True)}
    assert [known[image.tobytes()] for image in X.values[:500]] == y.values[:500].tolist()


def test_generators_are_seeded_and_split():
    pytest.importorskip("sklearn")
    make = digit_strings
    first, again, other = make(20, noise=0.1), make(20, noise=0.1), make(20, noise=0.1, random_state=1)
    assert first.X.values.tobytes() == again.X.values.tobytes() and first.y.values.tobytes() == again.y.values.tobytes()
    assert first.y.values.tobytes() != other.y.values.tobytes()
    assert (first.transition == other.transition).all()
    assert make(20).X.values.min() >= 0 and make(20).X.values.max() <= 1
    images = {x.tobytes() for x in make(300).X.values}
    assert not images & {x.tobytes() for x in make(300, held_out=True).X.values}


@pytest.mark.parametrize("text, call", [
    (r"lengths must be a pair \(least, largest\), got 3", lambda: digit_strings(1, lengths=3)),
    (r"lengths must be a pair \(least, largest\), got \(5, 4\)", lambda: digit_strings(1, lengths=(5, 4))),
    (r"lengths\[0\] must be an integer >= 1, got 0", lambda: digit_strings(1, lengths=(0, 4))),
    ("n must be an integer >= 1, got 0", lambda: digit_strings(0)),
    ("noise must be a finite number >= 0", lambda: digit_strings(1, noise=-1)),
    ("random_state must be an integer >= 0, got -1", lambda: digit_strings(1, random_state=-1)),
    ("random_state must be an integer >= 0, got -1", lambda: contrast_images(1, random_state=-1)),
    (r"shape must be \(height, width\)", lambda: contrast_images(1, shape=(4, 4, 4))),
    ("weights four numbers", lambda: contrast_images(1, weights=[1.0])),
])  # fmt: skip
def test_generator_complaints(text, call):
    with pytest.raises(pb.ParameterError, match=text):
        call()


def test_digits_need_scikit_learn(monkeypatch):
    for name in ("sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'pybundle-ml\[sklearn\]'"):
        pb.datasets.digit_strings(2)


def test_digits_split():
    pytest.importorskip("sklearn")
    X, y, X_test, y_test = load_digits()
    assert X.shape == (1437, 64) and X_test.shape == (360, 64) and X.dtype == np.float32
    assert X.flags.c_contiguous and X.min() == 0.0 and X.max() == 1.0
    assert set(y) == set(y_test) == set(range(10))
    assert not {x.tobytes() for x in X} & {x.tobytes() for x in X_test}, "an image stands in both parts"


def test_blanks_of_unicode_belong_to_tokens():
    raw = "10\u00a0000 NUM O\neuros NOUN O\n".encode()
    for source in (io.BytesIO(raw), io.StringIO(raw.decode())):
        assert read_conll(source) == [[("10\u00a0000", "NUM", "O"), ("euros", "NOUN", "O")]]


def test_labels_with_leading_zeros_are_names():
    for texts, expected in ((["007", "7"], ["007", "7"]), (["0", "-7", "+3"], [0, -7, 3]), (["00", "1"], ["00", "1"])):
        raw = "".join(f"1.5,2,{text}\n" for text in texts)
        assert read_csv(io.StringIO(raw)).y.tolist() == expected


def test_a_line_that_no_memory_holds_is_refused(monkeypatch):
    monkeypatch.setattr(lines, "LONGEST", 1000)
    bomb = gzip.compress(b"1 1:1\n" + b" " * 10**6)
    with pytest.raises(pb.ParameterError, match="line 2: a line of more than 1000 bytes"):
        read_svmlight(io.BytesIO(bomb))
    assert read_svmlight(io.BytesIO(gzip.compress(b"1 1:1\r\n" * 400))).X.shape == (400, 1)


def test_texts_are_checked_like_bytes():
    with pytest.raises(pb.ParameterError, match="line 2: a zero byte"):
        read_conll(io.StringIO("a B\nb\0 B\n"))
    assert read_conll(io.StringIO("\ufeffa B\n")) == [[("a", "B")]]


class Trickle(io.RawIOBase):
    """A pipe: hands over one byte at a time."""

    def __init__(self, content):
        self.file = io.BytesIO(content)

    def readable(self):
        return True

    def readinto(self, buffer):
        return self.file.readinto(memoryview(buffer)[:1])


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_pipes_may_hand_over_a_byte_at_a_time(pack):
    """Packed data were taken for text if the first read of a pipe held less than their first bytes."""
    raw = Trickle(pack(b"a B\nb C\n"))
    for source in (raw, io.BufferedReader(Trickle(pack(b"a B\nb C\n")))):
        assert read_conll(source) == [[("a", "B"), ("b", "C")]]
        assert not source.closed
