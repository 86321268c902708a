"""The reader of CoNLL-U and the generated treebank."""

import gzip
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.arborescence import is_tree
from reference.treebank import crossing_arcs, make_treebank

import pybundle as pb
from pybundle.datasets import read_conllu

TEXT = """\
# text = Don't run home.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\trun\trun\tVERB\tVB\t_\t0\troot\t_\t_
3.1\trun\trun\tVERB\tVB\t_\t_\t_\t_\t_
4\thome\thome\tADV\tRB\t_\t3\tadvmod\t_\t_

# a comment

1\t#\t#\tSYM\tNFP\t_\t0\troot\t_\t_
"""


def test_words_heads_and_relations(tmp_path):
    first, second = read_conllu(io.StringIO(TEXT))
    assert first.forms == ["Do", "n't", "run", "home"] and first.lemmas[1] == "not"
    assert first.upos[0] == "AUX" and first.xpos == ["VBP", "RB", "VB", "RB"]
    assert first.heads.tolist() == [-1, 3, 3, 0, 3] and first.heads.dtype == np.int32
    assert first.relations == ["aux", "advmod", "root", "advmod"]
    assert second.forms == ["#"] and second.heads.tolist() == [-1, 0]
    plain, packed = tmp_path / "a.conllu", tmp_path / "a.conllu.gz"
    plain.write_text(TEXT, encoding="utf-8")
    packed.write_bytes(gzip.compress(TEXT.encode()))
    for source in (plain, str(packed), io.BytesIO(TEXT.encode()), io.StringIO(TEXT.replace("\n", "\r\n"))):
        assert [s.forms for s in read_conllu(source)] == [first.forms, second.forms]
    assert len(read_conllu(io.StringIO(TEXT), max_sentences=1)) == 1
    assert read_conllu(io.StringIO("")) == [] == read_conllu(io.StringIO("\n\n# nothing\n"))


@pytest.mark.parametrize(("old", "new", "message"), [
    ("\t3\taux\t_\t_", "\t3\taux\t_", r"file, line 3: a token must have 10 columns between tabs, got 9"),
    ("\t3\taux", "\t5\taux", r"line 3, .*: the head \(column 7\) of word 1 must be 0 or another word 1\.\.4, got '5'"),
    ("\t3\taux", "\t1\taux", r"line 3, .*: the head \(column 7\) of word 1 must be .*, got '1'"),
    ("\t3\taux", "\t_\taux", r"line 3, .*: the head \(column 7\) of word 1 must be .*, got '_'"),
    ("2\tn't", "3\tn't", r"line 4: ids must count words from 1, expected 2, got 3"),
    ("2\tn't", "x\tn't", r"line 4: an id must be like 3, 3-4 or 3\.1, got 'x'"),
])
def test_errors_name_the_line(old, new, message):
    with pytest.raises(pb.ParameterError, match=message):
        read_conllu(io.StringIO(TEXT.replace(old, new, 1)))


def test_sources_are_checked(tmp_path):
    with pytest.raises(pb.InputTypeError, match="source must be a path or an open file"):
        read_conllu(3)
    bad = tmp_path / "bad.conllu"
    bad.write_bytes(b"1\t\xff\n")
    with pytest.raises(pb.ParameterError, match=r"line 1: .* must be in UTF-8"):
        read_conllu(bad)
    with pytest.raises(FileNotFoundError):
        read_conllu(tmp_path / "none")


def crossing_by_hand(heads):
    """An arc (h, m) is projective if every word between descends from h."""
    out = [False]
    for m in range(1, len(heads)):
        low, high = sorted((heads[m], m))
        good = True
        for k in range(low + 1, high):
            while k not in (-1, heads[m]):
                k = heads[k]
            good = good and k == heads[m]
        out.append(not good)
    return out


@given(seed=st.integers(0, 1000), share=st.sampled_from([0.0, 0.05, 0.3]), n_tags=st.integers(2, 12))
def test_a_treebank_has_trees_with_one_root(seed, share, n_tags):
    treebank = make_treebank(8, share, seed, n_tags=n_tags, n_words=50)
    for x, y in zip(treebank.X, treebank.Y, strict=True):
        assert x.shape == (len(y) - 1, 2) and is_tree(y.tolist(), single_root=True) and y[0] == -1
        assert (x[:, 0] % n_tags == x[:, 1]).all() and x.min() >= 0 and x[:, 0].max() < 50 and x[:, 1].max() < n_tags
        assert crossing_arcs(y).tolist() == crossing_by_hand(y.tolist())
        if share == 0.0:
            assert not crossing_arcs(y).any()
    again = make_treebank(8, share, seed, n_tags=n_tags, n_words=50)
    assert all(np.array_equal(a, b) for a, b in zip(treebank.X + treebank.Y, again.X + again.Y, strict=True))


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.3])
def test_the_share_of_crossing_arcs_is_what_was_asked(share):
    heads = make_treebank(300, share, random_state=4).Y
    found = sum(crossing_arcs(y).sum() for y in heads) / sum(len(y) - 1 for y in heads)
    assert found == pytest.approx(share, abs=0.1 * share)


def test_numbers_of_sentences_are_checked():
    text = "1\ta\ta\tX\tX\t_\t0\troot\t_\t_\n\n" * 3
    assert len(read_conllu(io.StringIO(text), max_sentences=2)) == 2
    with pytest.raises(pb.ParameterError, match="max_sentences must be an integer >= 1, got 0"):
        read_conllu(io.StringIO(text), max_sentences=0)


@pytest.mark.parametrize(("word", "head"), [("\u00b2", "0"), ("1", "\u00b2")])
def test_digits_that_are_no_numbers(word, head):
    with pytest.raises(pb.ParameterError, match=r"line 1\b.*'\u00b2'"):
        read_conllu(io.StringIO(f"{word}\ta\ta\tX\tX\t_\t{head}\troot\t_\t_\n"))


def test_byte_order_marks_and_bytes_that_are_no_text(tmp_path):
    row = b"1\ta\ta\tX\tX\t_\t0\troot\t_\t_\n"
    path = tmp_path / "marked.conllu"
    path.write_bytes(b"\xef\xbb\xbf# text\n" + row)
    assert read_conllu(path)[0].forms == ["a"]
    with pytest.raises(pb.ParameterError, match="line 2: 'utf-8' codec"):
        read_conllu(io.BytesIO(row + b"\xff\n"))
