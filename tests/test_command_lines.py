"""Two hundred command lines, right and wrong: exit code, a word of what is printed, and never a traceback.

The folder of data and models is made once; no command writes into it but to `out`.
"""

import functools
import gzip
import io
import os
import shlex
import shutil
import sys
import warnings

import numpy as np
import pytest

from pybundle import cli

pytest.importorskip("sklearn")
TAGS = {"the": "DT", "dog": "NN", "cat": "NN", "barks": "VBZ", "sleeps": "VBZ", ".": "."}
CHUNKS = {"DT": "B-NP", "NN": "I-NP", "VBZ": "B-VP", ".": "O"}
SENTENCES = [("the", noun, verb, ".") for noun in ("dog", "cat") for verb in ("barks", "sleeps")] * 3
WORDS = [[(word, TAGS[word], CHUNKS[TAGS[word]]) for word in sentence] for sentence in SENTENCES]
RNG = np.random.default_rng(0)
Y = np.arange(45) % 3
X = np.round(RNG.standard_normal((45, 3)) + 2.0 * np.eye(3)[Y], 2) * [1.0, 10.0, 100.0] + [0.0, 0.0, 500.0]


def lines(rows, between=" ", head=None):
    return "".join(between.join(map(str, row)) + "\n" for row in ([head] if head else []) + list(rows))


def conll(*columns):
    return "\n".join(lines([[token[k] for k in columns] for token in sentence]) for sentence in WORDS)


def conllu(fine=True, heads=True, tags=True):
    rows = []
    for sentence in WORDS:
        for k, (word, tag, _) in enumerate(sentence, 1):
            head = {1: 2, 2: 3, 3: 0, 4: 3}[k] if heads else "_"
            relation = {1: "det", 2: "nsubj", 3: "root", 4: "advmod:x"}[k]
            both = tag if tags else "_", tag if fine else "_"
            rows.append("\t".join(map(str, (k, word, word, *both, "_", head, relation, "_", "_"))))
        rows.append("")
    return "\n".join(rows) + "\n"


def pairs(rows, y, start=1):
    return lines([label, *(f"{j}:{value}" for j, value in enumerate(row, start))]
                 for label, row in zip(y, rows, strict=True))


TEXTS = {
    "a.csv": lines([[*row, "xyz"[k]] for row, k in zip(X, Y, strict=True)], ",", ["a", "b", "c", "kind"]),
    "bac.csv": lines([[*row[[1, 0, 2]], "xyz"[k]] for row, k in zip(X, Y, strict=True)], ",", ["b", "a", "c", "kind"]),
    "abc.csv": lines(X, ",", ["a", "b", "c"]), "cba.csv": lines(X[:, ::-1], ",", ["c", "b", "a"]),
    "abd.csv": lines([[*row, "xyz"[k]] for row, k in zip(X, Y, strict=True)], ",", ["a", "b", "d", "kind"]),
    "ab.csv": lines(X[:, :2], ",", ["a", "b"]), "ab5.csv": lines(np.c_[X, X], ",", list("abcdef")),
    "first.csv": lines([["xyz"[k], *row] for row, k in zip(X, Y, strict=True)], ",", ["kind", "a", "b", "c"]),
    "bare.csv": lines([[*row, "xyz"[k]] for row, k in zip(X, Y, strict=True)], ";"), "bare3.csv": lines(X, "\t"),
    "barefirst.csv": lines([["xyz"[k], *row] for row, k in zip(X, Y, strict=True)], ","),
    "measured.csv": "label,a,b\n0,0.5,0.25\n1,1.5,2.25\n0,3.5,-1.75\n",
    "ids.csv": lines([[k, k + 7] for k in range(21)], ",", ["a", "label"]),
    "one.csv": "a,k\n1,x\n2,x\n", "nan.csv": "a,k\n1,x\nnan,y\n", "ragged.csv": "a,k\n1,x\n2\n", "empty.csv": "",
    "header.csv": "a,b,kind\n", "word.csv": "a,k\n1,x\ntwo,y\n", "quote.csv": 'a,k\n"1,x\n',
    "twice.csv": "a,a,k\n1,2,x\n3,4,y\n",
    "a.svm": pairs(X, Y), "zero.svm": pairs(X, Y, 0), "narrow.svm": pairs(X[:, :2], Y),
    "wide.svm": pairs(np.c_[X, X], Y),
    "order.svm": "1 2:1 1:1\n", "bad.svm": "1 1:1\n2 1:x\n", "huge.svm": "1 1:1\n2 999999999999:1\n",
    "qid.svm": "1 qid:1 1:1\n0 1:2\n",
    "bare.svm": lines([f"{j}:{value}" for j, value in enumerate(row, 1)] for row in X),
    "signs.svm": pairs(X, Y - 1), "tens.svm": pairs(X, Y + 10),
    "target.csv": lines([[*row, "xyz"[k]] for row, k in zip(X, Y, strict=True)], ",", ["a", "b", "c", "target"]),
    "numbers.csv": "0,1,2\n1,2,0\n3,4,1\n", "index.csv": ",a,k\n0,1,x\n1,5,y\n",
    "NA.csv": "a,b,k\n1,2,x\nNA,3,y\n", "hole.csv": "a,b,k\n1,2,x\n1,,y\n", "comma.csv": "a;b;k\n1;2,5;x\n",
    "late.csv": "a,b,k\n1,2,x\nu,3,y\n", "mixed.csv": "u,1,2\n1,2,3\n",
    "label.svm": "yes 1:1\n", "empty.svm": "\n# nothing\n", "unknown": pairs(X, Y), "fraction.svm": pairs(X, Y + 0.5),
    "a.conll": conll(0, 1, 2), "tagged.conll": conll(0, 1), "words.conll": conll(0), "train.txt": conll(0, 1, 2),
    "pair.conll": conll(0, 2), "uneven.conll": "a A\nb B C\n", "empty.conll": "\n",
    "flat.txt": "The dog barks .\nThe cat sleeps .\n",
    "other.conll": conll(0, 1, 2).replace("dog", "pig"), "short.conll": "the DT B-NP\n",
    "a.conllu": conllu(), "coarse.conllu": conllu(fine=False), "raw.conllu": conllu(heads=False),
    "alien.conllu": conllu().replace("nsubj", "sbj"), "bare.conllu": conllu().replace("nsubj", "_").replace(
        "det", "_").replace("root", "_").replace("advmod:x", "_"),
    "blank.conllu": conllu().replace("nsubj", "nsubj "), "cycle.conllu": conllu().replace("\t0\t", "\t2\t"),
    "tagless.conllu": conllu(tags=False), "gaps.conllu": conllu().replace("advmod:x", "_"),
    "first.conllu": "\ufeff1\tGo\tgo\tVERB\tVB\t_\t0\tfirst\t_\t_\n\n" + conllu(),
    "cut.conllu": "1\tthe\n", "ids.conllu": conllu().replace("2\tdog", "5\tdog"),
    "on one line": "The dog barks\nA cat sleeps\n",
    "barred.conll": conll(0, 1).replace("\n", " _\n").replace("\n _", "\n"),
    "labels.txt": lines([["xyz"[k]] for k in Y]), "few.txt": "x\ny\n", "notes.txt": "nothing\nof use here\n",
    "junk.npz": "PK",
    "bytes.csv": "a,k\n1,x\0\n",
}
MODELS = {
    "csv": "a.csv --tol 0.1", "first": "first.csv --label first --tol 0.1", "bare": "bare.csv --tol 0.1",
    "barefirst": "barefirst.csv --label first --tol 0.1", "svm": "a.svm --tol 0.1",
    "zero": "zero.svm --zero-based --tol 0.1",
    "npz": "a.npz --tol 0.1", "named": "named.npz --arrays T,t --tol 0.1", "seq": "s.npz --tol 0.1",
    "crf": "a.conll --model crf --tol 0.1", "chain": "a.conll --tol 0.1", "wordcrf": "pair.conll --tol 0.1",
    "parser": "a.conllu --hash-bits 8 --tol 0.1", "coarse": "coarse.conllu --hash-bits 8 --tol 0.1",
    "heads": "a.conllu --no-relations --hash-bits 8 --tol 0.1",
    "scaled": "a.csv --scale --tol 0.1", "mkl": "a.csv --model mkl --tol 0.5",
    "cv": "a.csv --cv 2 --grid 0.1,1 --tol 0.1",
}  # fmt: skip


@functools.cache
def made(root):
    """Data and models of all kinds, once for all modules."""
    path = root / "made"
    path.mkdir()
    for name, text in TEXTS.items():
        (path / name).write_text(text, encoding="utf-8")
    (path / "train.txt.gz").write_bytes(gzip.compress(TEXTS["train.txt"].encode()))
    np.savez(path / "a.npz", X=X, y=Y)
    np.savez(path / "named.npz", T=X, t=Y)
    np.savez(path / "wide.npz", X=np.c_[X, X], y=Y)
    np.savez(path / "unlabelled.npz", X=X)
    np.savez(path / "fraction.npz", X=X, y=Y + 0.5)
    np.savez(path / "s.npz", X=X, y=Y, offsets=np.arange(0, 46, 5))
    np.savez(path / "objects.npz", X=np.array([None]), y=Y)
    (path / "dir").mkdir()
    before = os.getcwd()
    os.chdir(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, arguments in MODELS.items():
                assert call(f"train {arguments} --save {name}.model")[0] == 0, name
            assert call("train a.svm --tol 0.1 --certificate a.certificate")[0] == 0
            assert call("train a.csv --scale --tol 0.1 --certificate scaled.certificate")[0] == 0
            assert call("train a.conllu --hash-bits 8 --tol 0.1 --certificate trees.certificate")[0] == 0
            assert call("predict a.conllu --load parser.model --output parsed.conllu")[0] == 0
            assert call("predict a.conll --load crf.model --output tagged_by_crf.conll")[0] == 0
    finally:
        os.chdir(before)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data and models of all kinds, which a module may add to."""
    return shutil.copytree(made(tmp_path_factory.getbasetemp()), tmp_path_factory.mktemp("lines"), dirs_exist_ok=True)


def call(line, stdin=""):
    """Exit code, output and errors of a command line."""
    saved = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    try:
        try:
            code = cli.main(shlex.split(line))
        except SystemExit as stop:
            code = stop.code
        return code, sys.stdout.getvalue(), sys.stderr.getvalue()
    finally:
        sys.stdin, sys.stdout, sys.stderr = saved


LINES = [line for line in """
0 | | usage: pybundle
0 | --help | train
0 | --version | pybundle 0
0 | info | NumPy
0 | info --json | "NumPy"
0 | train --help | --scale
0 | predict --help | --unlabelled
0 | verify --help | --certificate
2 | serve | invalid choice
2 | train | required: DATA
2 | --json | unrecognized arguments
2 | info a.csv | a.csv: not a readable .npz file
2 | info a.certificate | not a file of pybundle estimators
0 | info crf.model | trained on 12 sequences
0 | info csv.model --top 1 | heaviest weights
0 | info parser.model --json | "trained on": "12 sentences
0 | train a.csv | classes            3: x 15, y 15, z 15
0 | train a.csv --json | "classes": {
0 | train a.csv --tol 0.1 --scale | the certificate is of the scaled columns
0 | train a.csv --tol 0.1 --scale --json | "scaled": true
0 | train a.csv --tol 0.1 --model mkl | kernel weight
0 | train a.csv --tol 0.1 --no-intercept | MulticlassSVM
0 | train a.csv --tol 0.1 --cv 2 --grid 0.1,1 | cross-validated score
0 | train a.csv --tol 0.1 --cv 2 --grid 0.1,1 --scale | MulticlassSVMCV
0 | train a.csv --label kind --tol 0.1 | 3 features
0 | train a.csv --label 4 --tol 0.1 | 3 features
0 | train first.csv --label first --tol 0.1 | 3 features
0 | train bare.csv --tol 0.1 | 3 features
0 | train measured.csv --label label --tol 0.1 | classes            2: 0 2, 1 1
0 | train measured.csv --tol 0.1 | y holds fractions
0 | train ids.csv --tol 0.1 | 21 numbers that all differ
0 | train fraction.svm --tol 0.1 | y holds fractions
0 | train fraction.npz --tol 0.1 | classes            3: 0.5 15, 1.5 15, 2.5 15
0 | train numbers.csv --tol 0.1 | numbers.csv, line 1: 0, 1, 2, ... is taken for an example
0 | train index.csv --tol 0.1 | the first column, '', numbers the lines
0 | path fraction.svm --lams 100 | y holds fractions
0 | train a.svm --tol 0.1 | classes            3
0 | train zero.svm --zero-based --tol 0.1 | 3 features
0 | train a.svm --features 5 --tol 0.1 | 5 features
0 | train a.svm --scale --tol 0.1 | columns            scaled
0 | train unknown --tol 0.1 | 45 examples, 3 features
0 | train a.npz --tol 0.1 | 3 features
0 | train named.npz --arrays T,t --tol 0.1 | 3 features
0 | train s.npz --tol 0.1 | 9 sequences, 45 tokens
0 | train a.conll --tol 0.1 | classes            4: B-NP 12
0 | train train.txt --tol 0.1 | 12 sequences, 48 tokens
0 | train train.txt.gz --tol 0.1 | 12 sequences, 48 tokens
0 | train a.conll --model crf --tol 0.1 | ChainCRF
0 | train a.conll --hash-bits 6 --tol 0.1 | ChainSVM
0 | train a.conll --cv 2 --grid 1 --tol 0.1 | ChainSVMCV
0 | train a.conllu --hash-bits 8 --tol 0.1 | C = 0.03
0 | train coarse.conllu --hash-bits 8 --tol 0.1 -C 1 | C = 1
0 | train a.conllu --hash-bits 8 --tol 0.1 | 4, allowed in 4 combinations with tags and direction, as seen
2 | train gaps.conllu | gaps.conllu: sentence 1, token 4 has no relation in column 8
0 | train gaps.conllu --no-relations --hash-bits 8 --tol 0.1 | 12 sentences
2 | train a.csv --no-relations | --no-relations belongs to --model parser
0 | train a.conllu --no-punctuation --hash-bits 8 --tol 0.1 | 12 sentences
2 | train a.csv --no-punctuation | --no-punctuation belongs to --model parser
2 | train tagless.conllu --no-punctuation | --no-punctuation is for words with universal tags
0 | train blank.conllu --hash-bits 8 --tol 0.1 --save out | 12 sentences
0 | evaluate blank.conllu --load parser.model | LAS with subtypes
2 | evaluate a.conllu --predictions cycle.conllu | cycle.conllu: the heads of sentence 1 must be a tree, got words on a
0 | train a.conll --model crf --scheme BIO --cv 2 --grid 0.1,1 --tol 0.1 --save out | cross-validated F1 of chunks
2 | path a.csv --lams 1,2,1 --save {lam}.npz | --lams must hold different numbers, got 1.0,2.0,1.0
0 | train a.svm --method bmrm --tol 0.1 --parts 2 --quiet --seed 3 --jobs 1 | certified
0 | train a.svm --lam 10 --tol 0.1 | C = 0.1
0 | train - --format csv --tol 0.1 < a.csv | 3 features
0 | train - --format svmlight --tol 0.1 < a.svm | 3 features
1 | train a.svm --max-iter 1 --method bmrm --tol 1e-9 | iteration limit
1 | train a.svm --max-iter 1 --method bmrm --tol 1e-9 --json | "converged": false
2 | train none.csv | none.csv: no such file or directory
2 | train dir --format csv | is a directory
2 | train notes.txt | the format does not follow from the name
2 | train flat.txt | the format does not follow from the name
2 | evaluate flat.txt --load crf.model | the model was trained on 2 columns
2 | train notes.txt --model crf | notes.txt
2 | train - | standard input has no name to tell the format
2 | train first.csv | give --label first where labels stand first
2 | train barefirst.csv | give --label first where labels stand first
2 | train a.csv --label colour | --label must name one column, got 'colour'; there are a, b, c, kind
2 | train bare.csv --label kind | the first line names no columns
2 | train a.csv --label 9 | at least two columns, got 9 of 4
2 | train a.csv --label 0 | label must be
2 | train word.csv | word.csv, line 3: column 1 holds 'two', expected a number: 'two,y'
2 | train nan.csv | line 3: column 1 holds 'nan', a missing value
2 | train NA.csv | NA.csv, line 3: column 1 holds 'NA', a missing value
2 | train hole.csv | hole.csv, line 3: column 2 is empty
2 | train comma.csv | comma.csv, line 2: column 2 holds '2,5'; numbers must have a decimal point, not a comma
2 | train late.csv | line 3: column 1 holds 'u', expected a number: 'u,3,y'
2 | train mixed.csv | line 1: column 1 holds 'u', expected a number: 'u,1,2'
2 | train twice.csv | two columns are called 'a'
2 | train bare.svm | bare.svm, line 1: no label stands before 1:
2 | train ragged.csv | line 3: expected 2 columns, got 1
2 | train quote.csv | quote.csv, line 2
2 | train empty.csv | holds no example
2 | train header.csv | holds no example
2 | train bytes.csv | a zero byte
2 | train one.csv | at least two classes
2 | train bad.svm | bad.svm, line 2: could not convert string to float: 'x'
2 | train zero.svm | index 0 is no feature; give --zero-based if they start at 0
2 | train order.svm | must increase within the line
2 | train huge.svm | is an index wrong?
2 | train qid.svm | every line has a qid or none has
2 | train a.csv --features 3 | --features belongs to data of format svmlight, got csv
2 | train a.csv --arrays X,y | --arrays belongs to data of format npz, got csv
2 | train a.svm --label first | --label belongs to data of format csv, got svmlight
2 | train a.svm --keep-na | --keep-na belongs to data of format csv, got svmlight
2 | train a.csv --comment x | --comment belongs to data of format conll, got csv
2 | train a.csv --save a.csv | --save a.csv: this is the file of DATA
2 | train a.csv --save ./dir/../a.csv | this is the file of DATA
2 | train a.csv --certificate a.csv | this is the file of DATA
2 | train a.csv --save new --checkpoint dir/../new | --checkpoint dir/../new: this is the file of --save
2 | predict a.csv --load csv.model --output a.csv | --output a.csv: this is the file of DATA
2 | predict a.csv --load csv.model --output csv.model | --output csv.model: this is the file of --load
2 | train label.svm | could not convert string to float: 'yes'
2 | train empty.svm | holds no example
2 | train a.svm --features 2 | beyond --features 2
2 | train a.svm --features 0 | must be an integer >= 1
2 | train a.csv --format svmlight | a.csv, line 1
2 | train a.conll --format conllu | 10 columns between tabs
2 | train uneven.conll | expected 2 columns, got 3: 'b B C'; one token a line
2 | train empty.conll | holds no example
2 | train words.conll | got one column
2 | train cut.conllu | 10 columns between tabs
2 | train ids.conllu | ids must count words from 1
2 | train raw.conllu | the head (column 7)
2 | train junk.npz | not a readable .npz file
2 | train objects.npz | objects.npz
2 | train named.npz | holds no array 'X'
2 | train unlabelled.npz | holds no array of labels
2 | train a.npz --arrays X,z | holds no array of labels
2 | train csv.model --format npz | holds no array 'X'
2 | train a.csv --model crf | --model crf takes sequences
2 | train a.conll --model svm | --model svm takes rows
2 | train a.conll --model parser | --model parser takes sentences
2 | train a.conllu --model chain | --model chain takes sequences
2 | train a.csv --model forest | invalid choice: 'forest'
2 | train a.csv --hash-bits 4 | --hash-bits belongs to --model chain, crf, parser
2 | train a.conll --hash-bits 99 | hash_bits must be an integer <= 30, got 99
2 | train a.conll --no-intercept | --no-intercept belongs to --model svm
2 | train a.conll --scale | --scale belongs to
2 | train a.conllu --scale | --scale belongs to
2 | train s.npz --scale | --scale belongs to
2 | train a.csv --model mkl --scale | --scale belongs to --model svm
2 | train a.csv --model mkl --cv 2 | --cv is for other models than mkl
2 | train a.csv --model mkl --method bmrm | --method is for other models than mkl
2 | train a.conll --model crf --l1 1 --cv 3 | --cv is without an l1 norm
0 | train a.conllu --cv 2 --grid 0.03,0.1 --hash-bits 10 --tol 0.1 | cross-validated score
0 | train a.conll --model crf --l1 0.1 -C inf --min-count 2 --token-weights all --tol 0.1 | ChainCRF on 12 sequences
2 | train a.csv --l1 0.1 | --l1 belongs to --model chain, crf, got svm
2 | train a.csv --min-count 2 | --min-count belongs to --model chain, crf, parser, got svm
2 | train a.conllu --token-weights all | --token-weights belongs to
0 | train a.conll --model crf --cv 3 --grid 0.1,1 | cross-validated score
0 | train a.csv -C inf | C = inf
2 | train a.conll -C inf | C must be finite, got inf: without a penalty
2 | train a.csv --cv 1 | cv must be at least 2 folds
2 | train a.csv --cv 2 -C 1 | --cv chooses C
2 | train a.csv --grid 1 | --grid belongs to --cv
2 | train a.csv --cv 2 --grid 1,x | invalid list of floats value
2 | train a.csv -C 0 | must be a finite number > 0
2 | train a.csv -C -1 | -C
2 | train a.csv -C nan | must be a finite number > 0
2 | bench a.csv -C inf | must be a finite number > 0
2 | train a.csv -C | expected one argument
2 | train a.csv -C 1 --lam 1 | not allowed with argument
2 | train a.csv --tol x | invalid float value: 'x'
2 | train a.csv --tol -1 | must be a finite number >= 0
2 | train a.csv --atol nan | must be a finite number >= 0
2 | train a.csv --method simplex | method must be one of
2 | train a.csv --method cutting-plane | radius
2 | train a.csv --parts 0 | must be an integer >= 1
2 | train a.csv --max-iter 1.5 | invalid int value
2 | train a.csv --jobs 0 | n_jobs must be
2 | train a.csv --seed x | invalid int value
2 | train a.csv --save no/m.npz | there is no such folder
2 | train a.csv --save dir | this is a folder; name a file in it
2 | train a.csv --certificate no/c | there is no such folder
2 | train a.csv --checkpoint csv.model | checkpoint
2 | train a.csv --frobnicate | unrecognized arguments
0 | predict a.csv --load csv.model | x
0 | predict a.csv --load csv.model --json | "predictions"
0 | predict abc.csv --load csv.model --unlabelled | x
0 | predict cba.csv --load csv.model --unlabelled | x
0 | predict bac.csv --load csv.model | x
0 | predict first.csv --load csv.model | x
0 | predict bare.csv --load csv.model | x
0 | predict bare3.csv --load csv.model --unlabelled | x
0 | predict first.csv --load first.model | x
0 | predict a.csv --load bare.model | x
0 | predict barefirst.csv --load barefirst.model | x
0 | predict barefirst.csv --load first.model | x
0 | predict a.npz --load csv.model | x
0 | predict a.svm --load csv.model | x
0 | predict narrow.svm --load svm.model | 0
0 | predict zero.svm --load zero.model | 0
0 | predict unlabelled.npz --load npz.model --unlabelled | 0
0 | predict named.npz --load named.model | 0
0 | predict s.npz --load seq.model | 0
0 | predict a.csv --load scaled.model | x
0 | predict a.csv --load mkl.model | x
0 | predict a.csv --load cv.model | x
0 | predict - --load csv.model < a.csv | x
0 | predict - --load crf.model < a.conll | dog NN I-NP
0 | predict a.conll --load crf.model | dog NN I-NP
0 | predict tagged.conll --load crf.model --unlabelled | dog NN I-NP
0 | predict words.conll --load wordcrf.model --unlabelled | dog I-NP
0 | predict a.conllu --load parser.model | dog
0 | predict raw.conllu --load parser.model --unlabelled | dog
0 | predict a.conllu --load coarse.model | dog
0 | predict a.csv --load csv.model --output out |
0 | predict bare.svm --load svm.model --unlabelled | 0
0 | predict a.svm --load svm.model --unlabelled | 0
2 | predict bare.svm --load svm.model | no label stands before 1:
2 | predict bare.svm --load svm.model | give predict --unlabelled if no line has one
2 | predict unlabelled.npz --load npz.model | holds no array of labels; add --unlabelled
2 | predict - --load crf.model < on one line | the last column holds no label of the model, got 'barks'
2 | predict twice.csv --load csv.model | two columns are called 'a'
0 | predict barred.conll --load crf.model | dog NN I-NP
2 | predict abc.csv --load csv.model | the label kind, got the columns a, b, c: predict --unlabelled
2 | predict a.csv --load csv.model --unlabelled | leave --unlabelled away
2 | predict abd.csv --load csv.model | got the columns a, b, d, kind: bring the columns of the training
2 | predict ab.csv --load csv.model --unlabelled | got the columns a, b: bring the columns
2 | predict ab5.csv --load csv.model --unlabelled | got the columns a, b, c, d, e, f
2 | predict a.csv --load csv.model --label a | give --label kind
2 | predict bare3.csv --load bare.model | trained on 3 columns and a label, got 3 columns: predict --unlabelled
2 | predict bare.csv --load bare.model --unlabelled | got 4 columns: leave --unlabelled away
2 | predict wide.svm --load svm.model | trained on 3 features, got 6 features
2 | predict wide.npz --load npz.model | trained on 3 features, got 6 features
2 | predict wide.npz --load csv.model | trained on the columns a, b, c and the label kind, got 6 features
2 | predict zero.svm --load svm.model | give --zero-based
2 | train tagged.conll --model crf --scheme BIO | choose another --scheme or none
2 | predict tagged.conll --load crf.model | trained on 2 columns and a label, got 2 columns: predict --unlabelled
2 | predict words.conll --load crf.model --unlabelled | trained on 2 columns and a label, got 1 column:
2 | predict a.conll --load crf.model --unlabelled | got 3 columns: leave --unlabelled away
2 | predict - --format conll --unlabelled --load crf.model < The dog barks . | got 4 columns: CoNLL has one token a line
2 | predict - --format conll --load crf.model < The dog barks . | got 4 columns: CoNLL has one token a line
2 | predict - --unlabelled --load wordcrf.model < The dog barks . | got 4 columns: CoNLL has one token a line
2 | predict words.conll --load crf.model | got one column; predict --unlabelled reads words alone
2 | predict s.npz --load crf.model | trained on 2 columns and a label, got 3 features: give it data of format conll
2 | predict a.conll --load seq.model | trained on 3 features, got 3 columns: give it data of format npz
2 | predict coarse.conllu --load parser.model | trained on words with forms, upos, xpos, got words with forms, upos
2 | predict a.conll --load csv.model | MulticlassSVM takes rows
2 | predict a.csv --load crf.model | ChainCRF takes sequences
2 | predict a.csv --load parser.model | DependencyParser takes sentences
2 | predict raw.conllu --load parser.model | the head (column 7)
2 | predict a.csv | required: --load
2 | predict a.csv --load none.npz | none.npz: no such file or directory
2 | predict a.csv --load junk.npz | not a readable .npz file
2 | predict a.csv --load a.npz | not a file of pybundle estimators
2 | predict a.csv --load a.certificate | not a file of pybundle estimators
2 | predict a.csv --load csv.model --output no/p | no such file or directory
2 | predict - --load csv.model | holds no example
0 | evaluate a.csv --load csv.model | accuracy
0 | evaluate bac.csv --load csv.model | accuracy
0 | evaluate a.csv --load scaled.model --json | "accuracy": 0.
0 | evaluate a.csv --predictions labels.txt | 100.00 %
0 | evaluate a.conll --load crf.model | chunk f1
0 | evaluate a.conll --predictions tagged_by_crf.conll | chunk f1
0 | evaluate a.conllu --load parser.model | LAS with subtypes
0 | evaluate gaps.conllu --load parser.model | line 4: the relation '_' is not among the model's
0 | evaluate first.conllu --load parser.model | first.conllu, line 1: the relation 'first' is not among the model's
0 | evaluate alien.conllu --load parser.model | alien.conllu, line 2: the relation 'sbj' is not among the model's
0 | evaluate alien.conllu --load heads.model | UAS
0 | evaluate bare.conllu --load parser.model --no-punctuation | UAS
2 | evaluate tagless.conllu --predictions a.conllu --no-punctuation | got tagless.conllu without
2 | evaluate a.csv --load csv.model --no-punctuation | --no-punctuation is for words with universal tags
0 | info parser.model | relations          4, allowed in 4 combinations
0 | evaluate a.conllu --predictions parsed.conllu | UAS
0 | evaluate signs.svm --load svm.model | warning: signs.svm: labels -1 are not among the model's classes 0, 1, 2
2 | evaluate tens.svm --load svm.model | labels 10, 11, 12 are not among the model's classes 0, 1, 2
2 | evaluate target.csv --load csv.model | the column 'kind', which is not there; give --label target
0 | evaluate target.csv --load csv.model --label target | accuracy
2 | evaluate abc.csv --load csv.model | predict --unlabelled reads data without labels
2 | evaluate tagged.conll --load crf.model | got 2 columns: predict --unlabelled
2 | evaluate wide.svm --load svm.model | trained on 3 features, got 6 features
2 | evaluate unlabelled.npz --load npz.model | holds no array of labels
0 | evaluate a.conll --load crf.model --strict BIO | support
2 | evaluate a.csv --load csv.model --strict BIO | --strict is for labels of chunks
2 | evaluate a.csv | is required
2 | evaluate a.csv --load csv.model --predictions labels.txt | not allowed with argument
2 | evaluate a.csv --predictions few.txt | few.txt must hold 45 predictions
2 | evaluate a.conll --predictions short.conll | must hold 12 predictions
2 | evaluate a.conll --predictions other.conll | has other words than
2 | evaluate a.svm --predictions labels.txt | labels.txt, line 1
2 | evaluate - --predictions - | only one of DATA and --predictions
0 | verify a.svm --certificate a.certificate | 45 examples
0 | verify a.csv --scale --certificate scaled.certificate | 45 examples
0 | verify a.csv --certificate scaled.certificate | 45 examples
0 | verify a.conllu --certificate trees.certificate | 12 sentences
2 | verify a.conllu --no-relations --certificate trees.certificate | --no-relations is no option of the certificate
2 | verify a.svm | required: --certificate
2 | verify a.svm --certificate none | No such file
2 | verify a.svm --certificate svm.model | svm.model
0 | path a.csv --lams 100,10 | lower bound
0 | path a.csv --lams 100,10 --scale --json | "path"
0 | path a.conll --lams 10 --model crf | 12 sequences
0 | path a.csv --lams 100,10 --scale --save grid-{lam}.npz | model saved        grid-100.npz
2 | path a.csv --lams 100,10 --save one.npz | put {lam} into the name
2 | path a.csv --lams 1 --save a.csv | this is the file of DATA
2 | path a.csv --lams 1 --save no/m.npz | there is no such folder
2 | path a.csv | required: --lams
2 | path a.csv --lams 1,x | invalid list of floats value
2 | path a.csv --lams 1 --model mkl | --model mkl is for train
2 | path a.conll --lams 1 --scale | --scale belongs to
0 | bench a.csv --methods bmrm,oca --repeat 1 | bmrm
0 | bench a.conllu --methods prox-bcfw --repeat 1 --hash-bits 8 --json | "methods"
2 | bench a.csv --methods cutting-plane | has no lam
2 | bench a.csv --methods simplex | method must be one of
2 | bench a.csv --repeat 0 | must be an integer >= 1
2 | demo --lam -1 | --lam: must be
2 | demo --method simplex | method must be one of
2 | demo --output a.csv/x | a.csv
""".strip().split("\n")]  # fmt: skip


def test_there_are_two_hundred():
    assert len(LINES) >= 200 and len(set(LINES)) == len(LINES)


@pytest.mark.parametrize("line", LINES)
def test_command_line(line, folder, monkeypatch):
    monkeypatch.chdir(folder)
    code, command, text = (part.strip() for part in line.split("|"))
    command, _, stdin = command.partition(" < ")
    if stdin in TEXTS:
        stdin = TEXTS[stdin]
    found, out, err = call(command, stdin)
    assert found == int(code) and "Traceback" not in out + err
    assert text in out + err
    if found == 2:
        assert err.count("\n") == 1 and err.startswith("pybundle") and len(err) < 400
        assert out == "" or command.startswith("demo")          # which says first what it is about to do
