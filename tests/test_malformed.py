"""Mutated files: a reader refuses them in one line or reads what a slow twin reads; no command shows a traceback."""

import gzip
import io
import re

import numpy as np
import pytest

import pybundle as pb
from pybundle import cli
from pybundle.datasets import read_arrays, read_conll, read_conllu, read_csv, read_letters, read_svmlight

N, N_COMMANDS = 1000, 400
NASTY = (b"nan", b"inf", b"1e999", b"-1", b"0", b"99999999999999999999", b"9" * 5000, b"\x00", b"\xff", b"1_0",
         b"\r", b"\n\n", b"\t", b":", b"#", b'"', b",", b" ", b"-", b"1e300", b"\xef\xbb\xbf", b"\x1f\x8b", b"\x0b",
         b"\x85", "\u2028".encode(), "\u0661".encode(), b"0x1", b"+-1", b"1 1:1 1:1")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
INTEGER = re.compile(r"[+-]?[0-9]{1,40}")


def mutated(raw, rng):
    """One to three changes of the bytes."""
    raw = bytearray(raw)
    for _ in range(rng.integers(1, 4)):
        kind, place = rng.integers(6), int(rng.integers(len(raw) + 1))
        end = min(len(raw), place + int(rng.integers(1, 12)))
        if kind == 0 and place < len(raw):
            raw[place] = rng.integers(256)
        elif kind == 1:
            del raw[place:end]
        elif kind == 2:
            raw[place:place] = NASTY[rng.integers(len(NASTY))]
        elif kind == 3:
            raw[place:end] = NASTY[rng.integers(len(NASTY))]
        elif kind == 4:
            raw[place:place] = raw[place - 20:place]
        elif rng.random() < 0.3:
            del raw[place:]
    return bytes(raw)


# ---------------------------------------------------------------------- slow twins: what a file means, or None

def lines_of(raw):
    """The lines, or None where that is no text."""
    try:
        lines = re.split(r"\r*\n|\r", raw.decode())
    except UnicodeDecodeError:
        return None
    if b"\0" in raw:
        return None
    return [lines[0].removeprefix("\ufeff"), *lines[1:]]


def number(text):
    value = float(text) if NUMBER.fullmatch(text) else np.nan
    return value if np.isfinite(value) else None


def svmlight_twin(raw):
    examples = []
    for line in lines_of(raw) or []:
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        pairs = [field.partition(":")[::2] for field in fields[1:]]
        indices = [int(k) if INTEGER.fullmatch(k) else 0 for k, _ in pairs]
        values = [number(field) for field in (fields[0], *(v for _, v in pairs))]
        if not line.partition("#")[0].isascii() or None in values:
            return None
        if any(b <= a for a, b in zip([0, *indices], indices, strict=False)):
            return None
        if indices and indices[-1] >= 1 << 62:
            return None
        examples.append((values[0], dict(zip(indices, values[1:], strict=True))))
    return examples or None


def svmlight_read(raw):
    X, y, query = read_svmlight(io.BytesIO(raw))
    assert query is None
    return [(label, {int(k) + 1: v for k, v in zip(X.indices[a:b], X.data[a:b], strict=True)})
            for label, a, b in zip(y.tolist(), X.indptr[:-1], X.indptr[1:], strict=True)]


def conll_twin(raw):
    lines = lines_of(raw)
    if lines is None:
        return None
    blocks, width = [[]], None
    between = r"[ \v\f]*\t[ \t\v\f]*" if any("\t" in line.strip(" \t\v\f") for line in lines) else r"[ \t\v\f]+"
    for line in lines:
        token = tuple(column for column in re.split(between, line.strip(" \t\v\f")) if column)
        width = width or len(token) or None
        if token and len(token) != width:
            return None
        if token:
            blocks[-1].append(token)
        else:
            blocks.append([])
    return [block for block in blocks if block]


def conll_read(raw):
    return read_conll(io.BytesIO(raw))


def conllu_twin(raw):
    lines = lines_of(raw)
    if lines is None:
        return None
    blocks = [[]]
    for line in lines:
        line = line.rstrip("\r\n")
        if not line.strip(" \t"):
            blocks.append([])
        elif not line.startswith("#"):
            row = line.split("\t")
            if len(row) != 10 or "" in row:
                return None
            if row[0].isdecimal():
                blocks[-1].append(row)
            elif not re.fullmatch(r"[0-9]+[-.][0-9]+", row[0]):
                return None
    found = []
    for rows in filter(None, blocks):
        words = [str(k) for k in range(len(rows) + 1)]
        if [row[0] for row in rows] != words[1:] or any(row[6] not in words or row[6] == row[0] for row in rows):
            return None
        heads = {int(row[0]): int(row[6]) for row in rows}
        if list(heads.values()).count(0) != 1 or any(not reaches(heads, m) for m in heads):
            return None
        found.append([(row[1], row[3], int(row[6]), row[7]) for row in rows])
    return found


def reaches(heads, m):
    """Whether word m reaches the root in as many steps as there are words."""
    for _ in heads:
        m = heads.get(m, 0)
    return m == 0


def conllu_read(raw):
    return [list(zip(s.forms, s.upos, s.heads[1:].tolist(), s.relations, strict=True))
            for s in read_conllu(io.BytesIO(raw))]


def csv_twin(raw):
    """Without quotes, which the twin does not understand; a comment that looks like an example is refused."""
    rows = [[field.strip() for field in line.rstrip("\r\n").split(",")] for line in lines_of(raw) or [] if line.strip()]
    rows = [row for row in rows if row[0][:1] != "#" or (len(row) == 3 and number(row[1]) is not None and
                                                         len(row[0].split()) == 1)]
    if rows and rows[0] == ["x", "y", "kind"]:
        rows = rows[1:]
    found = [([number(field) for field in row[:-1]], row[-1]) for row in rows]
    if not found or any(len(row) != 3 for row in rows) or any(None in row or not label for row, label in found):
        return None
    return found


def csv_read(raw):
    X, y, _ = read_csv(io.BytesIO(raw))
    return list(zip(X.tolist(), map(str, y.tolist()), strict=True))


def letters_twin(raw):
    words, word, expected = [], [], None
    for line in lines_of(raw) or []:
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 134 or not re.fullmatch("[a-z]", fields[1]) or set(fields[6:]) - {"0", "1"} or \
                any(not INTEGER.fullmatch(fields[k]) or abs(int(fields[k])) >= 1 << (31 if k == 5 else 62)
                    for k in (0, 2, 3, 4, 5)):
            return None
        identity, following, this, position, fold = (int(fields[k]) for k in (0, 2, 3, 4, 5))
        word.append((fields[1], "".join(fields[6:])))
        if position != len(word) or (len(word) > 1 and (identity, this, fold) != expected):
            return None
        expected = following, this, fold
        if following == -1:
            words.append((fold, word))
            word = []
    return None if word or not words else words


def letters_read(raw):
    X, y, fold = read_letters(io.BytesIO(raw))
    return [(int(f), [(chr(97 + k), "".join(map(str, row))) for k, row in zip(labels.tolist(), pixels, strict=True)])
            for f, labels, pixels in zip(fold, y, X, strict=True)]


ROW = " ".join("01" * 64)
TEXTS = {
    "svmlight": (b"1 1:0.5 3:-2e-1 # c\n-1 2:1\n1 1:1 2:2 3:3\n-1 1:-1\n", svmlight_twin, svmlight_read),
    "conll": (b"He PRP B-NP\nsaw VBD B-VP\n\nDogs NNS B-NP\nsleep VBP B-VP\n. . O\n", conll_twin, conll_read),
    "conllu": (b"# text\n1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_\n\n"
               b"1-2\tx\tx\tx\tx\t_\t_\t_\t_\t_\n1\tgo\tgo\tVERB\tVBP\t_\t0\troot\t_\t_\n2\ton\ton\tADP\tX\t_\t1\tad\t_\t_\n",
               conllu_twin, conllu_read),
    "csv": (b"x,y,kind\n1.5,2,a\n3,0.5,b\n-1,1e-3,a\n0,0,b\n", csv_twin, csv_read),
    "letters": (f"1 o 2 1 1 0 {ROW}\n2 m -1 1 2 0 {ROW}\n7 a -1 2 1 3 {ROW}\n".encode(), letters_twin, letters_read),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("format", TEXTS)
def test_readers(format, packed):
    raw, twin, read = TEXTS[format]
    assert read(gzip.compress(raw) if packed else raw) == twin(raw) != None         # noqa: E711
    rng, refused = np.random.default_rng(0), 0
    for _ in range(N):
        if packed:
            content = mutated(gzip.compress(raw, mtime=0), rng)
            if content[:2] != b"\x1f\x8b":
                continue
        else:
            content = mutated(raw, rng)
            if content[:2] == b"\x1f\x8b" or (format == "csv" and re.search(rb'["\t;\r]', content)):
                continue
        try:
            found = read(content)
        except pb.ParameterError as problem:
            refused += 1
            assert "\n" not in str(problem) and str(problem).startswith("file") and len(str(problem)) < 400
            if not packed:
                accepted = twin(content)
                # names of columns are any texts without a number, a header that is hit may be read as one
                assert accepted is None or (format == "csv" and content[:8] != raw[:8]), (content, str(problem))
        else:
            expected = twin(raw if packed else content)
            if format == "csv" and found != expected:
                expected = twin(content[content.index(b"\n") + 1:])
            assert found == expected, content
    assert refused > N // 10


def test_arrays():
    out, X = io.BytesIO(), np.arange(12.0).reshape(6, 2)
    np.savez_compressed(out, X=X, y=np.arange(6) % 2, offsets=np.array([0, 2, 6]))
    rng, refused = np.random.default_rng(0), 0
    for _ in range(N):
        try:
            found = read_arrays(io.BytesIO(mutated(out.getvalue(), rng)))
        except pb.ParameterError as problem:
            refused += 1
            assert "\n" not in str(problem)
        else:
            assert np.array_equal(found.X, X)
            assert found.y is None or np.array_equal(found.y, np.arange(6) % 2)
            assert found.offsets is None or found.offsets.tolist() == [0, 2, 6]
    assert refused > N // 2


COMMANDS = (["train", "--tol", "0.1", "--max-iter", "5"], ["predict", "--load", "model"],
            ["evaluate", "--load", "model"], ["path", "--lams", "1", "--max-iter", "5"])


@pytest.mark.slow
def test_commands(tmp_path, capsys, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    rng, codes = np.random.default_rng(0), []
    files = {format: raw for format, (raw, _, _) in TEXTS.items() if format != "letters"}
    out = io.BytesIO()
    np.savez(out, X=np.arange(12.0).reshape(6, 2), y=np.arange(6) % 2)
    files["npz"] = out.getvalue()
    models = {}
    for format, raw in files.items():
        (tmp_path / "data").write_bytes(raw)
        small = ["--hash-bits", "8"] if format in ("conll", "conllu") else []
        assert cli.main(["train", "data", "--format", format, "--save", "model", *small]) == 0
        models[format] = (tmp_path / "model").read_bytes()
    capsys.readouterr()
    for k in range(N_COMMANDS):
        format = list(files)[k % len(files)]
        hit = rng.integers(4)
        (tmp_path / "data").write_bytes(mutated(files[format], rng) if hit else files[format])
        (tmp_path / "model").write_bytes(models[format] if hit else mutated(models[format], rng))
        command = COMMANDS[rng.integers(4) if hit else 1]
        if command[0] in ("train", "path") and format in ("conll", "conllu"):
            command = [*command, "--hash-bits", "8"]
        try:
            code = cli.main([*command, "data", "--format", format])
        except SystemExit as stop:
            code = stop.code
        except BaseException as problem:
            raise AssertionError((command, (tmp_path / "data").read_bytes())) from problem
        said = capsys.readouterr()
        codes.append(code)
        assert code in (0, 1, 2)
        if code == 2:
            assert said.out == "" and said.err.count("\n") == 1 and said.err.startswith("pybundle: error: "), said.err
        else:
            assert said.out and "error" not in said.err
    assert codes.count(0) > N_COMMANDS // 10 and codes.count(2) > N_COMMANDS // 10
