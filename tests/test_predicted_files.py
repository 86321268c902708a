"""Files that `pybundle predict` returns: the predicted columns are new, and every other byte is as it was."""

import bz2
import gzip
import io
import json
import lzma
import re
import sys

import numpy as np
import pytest
from test_command_lines import TEXTS, WORDS, call, folder  # noqa: F401

import pybundle as pb
from pybundle.datasets import conll, lines, read_conll, read_csv, read_svmlight

pytest.importorskip("sklearn")
PERSON = "1-2\tdu\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No"
EMPTY = "2.1\tgeht\tgehen\tVERB\tVERB\t_\t_\t_\t0:root\tCopyOf=2"
BREAKS = pytest.mark.parametrize("ends", [
    lambda text: text, lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text,
    lambda text: "\ufeff" + text.replace("\n", "\r\n", 7), lambda text: text.rstrip("\n"),
    lambda text: text.replace("\n\n", "\n \t\n\n\t\n") + "\n \n\n",
    lambda text: text.replace("\n", "\r"), lambda text: text.replace("\n", "\r", 9).replace("\n", "\r\n", 5),
    lambda text: text.replace("\n", "\r\r\n"),
], ids=["LF", "CRLF", "BOM", "BOM and mixed ends", "no final newline", "blanks in blank lines", "old Mac", "three ends",
        "CRLF written as text"])


def pieces(raw):
    """The lines and the ends between them, as a list."""
    return re.split(rb"(\r*\n|\r)", raw)


def predicted(folder, raw, options):  # noqa: F811
    """The bytes that `predict` writes of these bytes, plain and packed, as a file and on standard output."""
    outputs, packed = [], (gzip, bz2, lzma)[len(raw) % 3].compress(raw)
    for content in (packed, raw):
        (folder / "in").write_bytes(content)
        code, out, err = call(f"predict {folder}/in {options} --output {folder}/out")
        assert (code, out) == (0, ""), err
        outputs.append((folder / "out").read_bytes())
    saved, sys.stdout = sys.stdout, io.TextIOWrapper(io.BytesIO(), newline="\r\n")
    try:
        assert pb.cli.main(["predict", f"{folder}/in", *options.split()]) == 0
        outputs.append(sys.stdout.buffer.getvalue())
    finally:
        sys.stdout = saved
    assert all(output == outputs[0] for output in outputs)
    return outputs[0]


def found(folder, options):  # noqa: F811
    code, out, err = call(f"predict {folder}/in {options} --json")
    assert code == 0, err
    return json.loads(out)["predictions"]


@BREAKS
@pytest.mark.parametrize("model", ["parser", "heads"])
def test_treebanks_keep_all_but_heads_and_relations(folder, ends, model):  # noqa: F811
    """Comments, ranges, empty nodes, features and MISC were lost, so that scorers could not align the text."""
    rows = ["# global.columns = ID FORM", "# text = Über „du“", ""]
    for k, sentence in enumerate(WORDS):
        rows += [f"# sent_id = {k}", "#", PERSON]
        for i, (word, tag, _) in enumerate(sentence, 1):
            head = 0 if i == 3 else 3
            rows.append(f"{i}\t{word}ä\t{word} {word}\t{tag}\t{tag}\tA=1|B=ß\t{head}\tdep\t3:dep\tX=\u00a0#")
            rows += [EMPTY] if i == 2 else []
        rows += ["", "# between sentences", "", ""] if k % 2 else [""]
    raw = ends("\n".join([*rows, ""])).encode()
    for options in ("", " --unlabelled"):
        options = f"--format conllu --load {folder}/{model}.model{options}"
        got = predicted(folder, raw, options)
        labels = [label for sentence in found(folder, options) for label in sentence]
        expected = []
        for line in pieces(raw):
            fields = line.split(b"\t")
            if fields[0].isdigit():
                head, relation = (labels[0], "_") if model == "heads" else labels[0]
                fields[6:9] = str(head).encode(), relation.encode(), b"_"
                del labels[0]
            expected.append(b"\t".join(fields))
        assert labels == [] and got == b"".join(expected)


@BREAKS
@pytest.mark.parametrize("between", [" ", "\t", "  \t"])
def test_columns_keep_comments_blanks_and_ends(folder, ends, between):  # noqa: F811
    rows = ["# a comment of many words", "#", "# id x O-none", "-DOCSTART- -X- O", "" * (between == " ")]
    for k, sentence in enumerate(WORDS):
        rows += ["-DOCSTART-", ""] if k == 5 else ["-DOCSTART-\t(7 texts)"] if k == 7 else []
        rows += [f"# {k} of", "#"] if k % 3 == 1 else []
        rows += [between.join((word, tag, "O" if t == 0 else label)) + " " * (t % 2) + "\t" * (k % 2)
                 for t, (word, tag, label) in enumerate(sentence)]
        rows += ["", "# a comment between sentences", ""] if k % 4 else ["", "", ""]
    raw = ends("\n".join(["", *rows, ""])).encode()
    options = f"--format conll --load {folder}/crf.model"
    got = predicted(folder, raw, options)
    labels = [label for sentence in found(folder, options) for label in sentence]
    expected = []
    for line in pieces(raw):
        words = line.split()
        if len(words) == 3 and words[0] not in (b"#", b"-DOCSTART-"):
            place = line.rindex(words[-1])
            line = line[:place] + labels.pop(0).encode() + line[place + len(words[-1]):]
        expected.append(line)
    assert labels == [] and got == b"".join(expected)


@BREAKS
def test_columns_without_labels_get_one(folder, ends):  # noqa: F811
    text = "# a b c\n" + TEXTS["tagged.conll"].replace(" ", "\t").replace("dog\tNN", "dog\tNN ") + "\n# end of it\n"
    raw = ends(text).encode()
    options = f"--format conll --unlabelled --load {folder}/crf.model"
    got = predicted(folder, raw, options)
    labels = [label for sentence in found(folder, options) for label in sentence]
    expected = []
    for line in pieces(raw):
        if len(line.split()) == 2:
            end = len(line.rstrip())
            line = line[:end] + b"\t" + labels.pop(0).encode() + line[end:]
        expected.append(line)
    assert labels == [] and got == b"".join(expected)
    (folder / "in").write_text("the\n\n#\ndog\n")
    words = f"predict {folder}/in --format conll --unlabelled --load {folder}/wordcrf.model"
    assert [len(row.split()) for row in call(words)[1].split("\n")] == [2, 0, 2, 2, 0]


@pytest.fixture(scope="module")
def odd_labels(folder):  # noqa: F811
    """A table whose classes need quotes: a separator, a quote, a line break, none of them, blanks around."""
    names = ["a, b", 'say ""x""', "two\nlines", "plain"]
    head = '"first, column";"a ""b""";"c\nd"; kind of it \n'
    rows = "".join(f'"{j}";{k}.5; {j * k} ;"{names[j]}"\n' for k in range(9) for j in range(4))
    (folder / "odd.csv").write_text(head + rows, newline="")
    assert call(f"train {folder}/odd.csv --max-iter 40 --save {folder}/odd.model")[0] in (0, 1)
    return head, rows


@BREAKS
def test_tables_keep_quotes_separators_and_line_breaks(folder, odd_labels, ends):  # noqa: F811
    head, rows = odd_labels
    text = (head + "\n" + rows).replace("c\nd", "c\vd").replace("two\nlines", "two\vlines")
    raw = ends(text).replace("\v", "\n").encode()          # breaks within quotes are text and stay what they are
    options = f"--format csv --load {folder}/odd.model"
    got, labels = predicted(folder, raw, options), found(folder, options)
    assert len(set(labels)) == 4 and len(labels) == 36
    old = read_csv(io.BytesIO(raw))
    for name, label in zip(old.y, labels, strict=True):             # all labels of this table stand in quotes
        start = raw.rindex(b";", 0, raw.index(('"' + name.replace('"', '""') + '"').encode())) + 1
        end = start + len(name.replace('"', '""').encode()) + 2
        done = got[:start] + ('"' + label.replace('"', '""') + '"').encode()
        assert got.startswith(done) and raw[:start] == got[:start]
        raw, got = raw[end:], got[len(done):]
    assert raw == got


def test_a_field_gets_quotes_where_its_label_needs_them(folder, odd_labels):  # noqa: F811
    head, _ = odd_labels
    bare = head + "".join(f'{j};{k}.5; {j * k} ;  x \n' for k in range(9) for j in range(4))
    options = f"--format csv --load {folder}/odd.model"
    got, labels = predicted(folder, bare.encode(), options), found(folder, options)
    assert read_csv(io.BytesIO(got)).y.tolist() == [label.strip() for label in labels]
    forms = {"a, b": "  a, b ", 'say "x"': '"say ""x"""', "two\nlines": '"two\nlines"', "plain": "  plain "}
    assert got.decode() == head + "".join(f"{j};{k}.5; {j * k} ;{forms[labels[4 * k + j]]}\n" for k in range(9)
                                          for j in range(4))


HAZARDS = {
    "comment first": "# exported; 2024|x,\n", "many": "#\n\n# \"open; quote\n #, x\n", "names": "# a, made\n",
}
"""What stands above a table."""


@BREAKS
# each hazard with both separators, and each place with both
@pytest.mark.parametrize("hazard, place, separator", [
    (hazard, place, ",|"[(i + j) % 2]) for i, hazard in enumerate(HAZARDS) for j, place in enumerate([0, 2, None])])
def test_tables_keep_comments_and_separators(folder, ends, hazard, separator, place):  # noqa: F811
    """Comments stand first, between examples and last; names hold line breaks, and one names no column of another."""
    rows = [["0.5", " 2", "x"], ['"1"', "-3", '"y"'], ["7e1", "0.25 ", " z "], ["3", "4", "x"]]
    head = ['"a\n(m)"', '"b "" \n|;,\t#"', "kind"]
    order = {0: [2, 0, 1], 2: [0, 1, 2], None: [0, 1]}[place]
    texts = [HAZARDS[hazard], *(separator.join(row[k] for k in order) + "\n" for row in [head, *rows])]
    texts[3:3] = ["# between; 1|2,x\n", "\n", "# 1,2,\t\n"]
    raw = ends("".join([*texts, "# the last one\n"]).replace("\n(m)", "\v(m)").replace(" \n|", " \v|"))
    raw = raw.replace("\v", "\n").encode()
    options = f"--format csv --load {folder}/two.model" + {0: " --label first", 2: "", None: " --unlabelled"}[place]
    if not (folder / "two.model").exists():
        pb.MulticlassSVM().fit([[0.0, 1.0], [1.0, 0.0], [5.0, 5.0]], ["#q", "say", "p"]).save(folder / "two.model")
    got, labels = predicted(folder, raw, options), found(folder, options)
    assert len(labels) == 4
    table, old = (read_csv(io.BytesIO(text), label=label) for text, label in (
        (got, "first" if place == 0 else "last"), (raw, {0: "first", 2: "last", None: None}[place])))
    assert table.y.tolist() == labels and table.X.tolist() == old.X.tolist() and table.names == old.names
    written, text = iter(["label", *labels] if place is None else labels), raw.decode()
    for row in [head, *rows] if place is None else rows:
        label, field = next(written), row[2]
        before = separator.join(row[k] for k in order)
        needs_quotes = (field[0] == '"' and place is not None) or (place == 0 and label[0] == "#")
        new = f'"{label}"' if needs_quotes else label if place is None else field.replace(field.strip(), label)
        after = before + separator + new if place is None else separator.join(new if k == 2 else row[k] for k in order)
        assert before in text
        text = text.replace(before, after, 1) if before != after else text
    assert got.decode() == text


@pytest.mark.parametrize("tail", ["", "\n", "\r\n", "\n\n \n"])
def test_tables_without_labels_get_a_column(folder, odd_labels, tail):  # noqa: F811
    head, _ = odd_labels
    rows = [f'"{j}";{k}.5; {j * k} ' for k in range(9) for j in range(4)]
    text = head.rpartition(";")[0] + "\r\n" + "\r\n".join(rows) + tail
    options = f"--format csv --unlabelled --load {folder}/odd.model"
    got, labels = predicted(folder, text.encode(), options), found(folder, options)
    needs = [f'"{label}"'.replace('"x"', '""x""') if set(label) & set(';"\n') else label for label in labels]
    assert got.decode() == head[:-1].replace("; kind of it ", ";kind of it") + "\r\n" + "\r\n".join(
        f"{row};{label}" for row, label in zip(rows, needs, strict=True)) + tail
    assert (read_csv(io.BytesIO(got)).y == labels).all()


def test_the_first_column_and_names_of_models(folder):  # noqa: F811
    """Labels are replaced where they stand; a model without names calls the new column `label`."""
    for name, options, place in (("first.csv", "--load {}/csv.model", 0), ("bac.csv", "--load {}/csv.model", -1),
                                 ("barefirst.csv", "--load {}/first.model", 0)):
        raw = TEXTS[name].encode()
        options = "--format csv " + options.format(folder)
        got, labels = predicted(folder, raw, options), found(folder, options)
        rows = [row.split(",") for row in TEXTS[name].split()]
        for row, label in zip(rows, ["kind"] * (rows[0][place] == "kind") + labels, strict=True):
            row[place] = label
        assert got.decode() == "".join(",".join(row) + "\n" for row in rows)
    got = predicted(folder, TEXTS["abc.csv"].encode(), f"--format csv --unlabelled --load {folder}/svm.model")
    assert got.startswith(b"a,b,c,label\n") and len(got.split(b"\n")) == 47


@BREAKS
def test_svmlight_keeps_comments_and_spellings(folder, ends):  # noqa: F811
    text = "# 7 1:1\n\n" + TEXTS["a.svm"].replace("\n1 1:", "\n  +1.0\t1:", 1).replace("\n", " # said 5:5\n", 5)
    raw = ends(text).encode()
    options = f"--format svmlight --load {folder}/svm.model"
    got, labels = predicted(folder, raw, options), found(folder, options)
    expected = []
    for line in pieces(raw):
        if line.strip() and not line.startswith((b"#", b"\xef\xbb\xbf#")):
            line = line.replace(line.split()[0], str(labels.pop(0)).encode(), 1)
        expected.append(line)
    assert labels == [] and got == b"".join(expected)
    bare = ends(TEXTS["bare.svm"]).encode()
    got = predicted(folder, bare, options + " --unlabelled")
    assert read_svmlight(io.BytesIO(got)).y.tolist() == found(folder, options + " --unlabelled")
    rows = [line.decode().removeprefix("\ufeff") for line in pieces(bare)]
    labels = iter(found(folder, options + " --unlabelled"))
    expected = "".join(f"{next(labels)} {row}" if row.strip() else row for row in rows)
    assert got.decode() == ("\ufeff" if bare.decode()[0] == "\ufeff" else "") + expected


@BREAKS
def test_blanks_within_tokens(folder, ends):  # noqa: F811
    """`10 000` was two columns, though tabs separate; the error named the next line."""
    text = "# text of it\n" + TEXTS["a.conll"].replace(" ", "\t").replace("dog", "10 000").replace("NN", "N N ")
    raw = ends(text).encode()
    options = f"--format conll --load {folder}/tabs.model"
    assert call(f"train {folder}/a.conll --tol 0.1 --save {folder}/tabs.model")[0] == 0
    got = predicted(folder, raw, options)
    labels = [label for sentence in found(folder, options) for label in sentence]
    expected = []
    for line in pieces(raw):
        fields = line.split(b"\t")
        expected.append(b"\t".join([*fields[:2], labels.pop(0).encode()]) if len(fields) == 3 else line)
    assert labels == [] and got == b"".join(expected)
    rows = [f"{word} x\t{label}" for sentence in WORDS for word, _, label in (*sentence, (" ", "", " "))]
    (folder / "pair").write_text("\n".join(row.replace("  x\t ", "") for row in rows) + "\n")
    assert call(f"train {folder}/pair --format conll --tol 0.1 --save {folder}/pair.model")[0] == 0
    (folder / "bare").write_text("the x\ndog x\n\n")
    options = f"predict {folder}/bare --format conll --unlabelled --load {folder}/pair.model"
    assert "got 2 columns" in call(options)[2]
    assert call(options + " --separator tab")[1] == "the x\tB-NP\ndog x\tI-NP\n\n"


def test_tabs_or_blanks(folder):  # noqa: F811
    """One tab between columns decides, not one in a comment, at the end of a line, or in a blank one."""
    for text, n in (("a b\tO\nc\tO\n", 2), ("a b O\t\n\t\nc d O \t\n", 3), ("# x\ty\na b O\n", 3)):
        assert {len(token) for sentence in read_conll(io.StringIO(text)) for token in sentence} == {n}, text
    assert read_conll(io.StringIO("a b\tO\n"), separator="blank") == [[("a", "b", "O")]]
    assert read_conll(io.StringIO("10 000\nb\n"), separator="tab") == [[("10 000",), ("b",)]]
    with pytest.raises(pb.ParameterError, match=r"line 2: expected 1 columns, got 2.* pass separator='blank' if bl"):
        read_conll(io.StringIO("a O\nb\tO\n"))
    with pytest.raises(pb.ParameterError, match="separator must be one of"):
        read_conll(io.StringIO("a O\n"), separator=",")
    (folder / "in").write_text("a O\nb\tI\n")
    assert "give --separator blank if blanks do" in call(f"train {folder}/in --format conll")[2]
    assert call(f"train {folder}/in --format conll --tol 0.1 --separator blank")[0] == 0


@pytest.mark.parametrize("first", [
    "-DOCSTART- -X- -X- O\n\n", "-DOCSTART-\n", "-DOCSTART- (1 EU)\n", " -DOCSTART- O\n \n", "-DOCSTART-\t-X-\tO\n",
])  # fmt: skip
def test_borders_of_documents(folder, first):  # noqa: F811
    """`-DOCSTART-` was a token with a class of its own, a sequence long, in counts, accuracy and predictions."""
    (folder / "in").write_text(first + "a X B-A\nb X O\n" + first + "c X O\n")
    assert "2 sequences, 3 tokens, C" in call(f"train {folder}/in --format conll --tol 0.1")[1]
    assert "2 sequences, 3 tokens\n" in call(f"evaluate {folder}/in --format conll --predictions {folder}/in")[1]


TREE, ROOTS, CYCLE, AWAY = [2, 3, 0, 3], [0, 0, 2, 3], [0, 3, 4, 2], [0, 1, 1, 9]


def treebank(*sentences, ends=lambda text: text):
    rows = []
    for k, heads in enumerate(sentences):
        rows += [f"# sent_id = s{k}", f"# text = No. {k}", PERSON]
        rows += [f"{m}\t{word}\t_\t{tag}\t{tag}\t_\t{head}\tdep\t_\t_"
                 for m, ((word, tag, _), head) in enumerate(zip(WORDS[0], heads, strict=True), 1)]
        rows.append("")
    return ends("\n".join([*rows, ""])).encode()


@pytest.mark.parametrize("bad, line, said", [
    (ROOTS, 13, "word 2 is a second one on the root, beside word 1; give --multiple-roots where"),
    (CYCLE, 13, "word 2 is on a cycle, its head is word 3; give --skip-bad to leave"),
    (AWAY, 15, r"the head \(column 7\) of word 4 must be 0 or another word 1..4, got '9'; give --skip-bad to leave"),
])  # fmt: skip
def test_sentences_without_a_tree(folder, bad, line, said):  # noqa: F811
    """One such sentence blocked a treebank, with neither file nor line nor name, and without a way around it."""
    (folder / "in").write_bytes(treebank(TREE, bad, TREE))
    (folder / "model").write_bytes((folder / "parser.model").read_bytes())
    data = f"{folder}/in --format conllu"
    commands = {"train": "--hash-bits 8 --tol 0.1", "path": "--lams 1 --hash-bits 8",
                "evaluate": f"--load {folder}/model", "bench": "--methods bmrm --repeat 1 --hash-bits 8"}
    for command, options in commands.items():
        code, _, err = call(f"{command} {data} {options}")
        assert code == 2 and re.search(rf"in, line {line}, sentence s1 \('No. 1'\): {said}", err), err
        code, out, err = call(f"{command} {data} {options} --skip-bad")
        assert code == 0 and "2 sentences, 8 words, 1 sentence left out" in out
        assert f"1 sentence left out; the first: line {line}, sentence s1 ('No. 1'): " in err
    code, out, _ = call(f"evaluate {data} --skip-bad --predictions {folder}/in --json")
    assert code == 0 and json.loads(out)["left out"] == 1 and json.loads(out)["UAS"] == 1.0
    code, out, err = call(f"evaluate {data} --predictions {folder}/in --multiple-roots")
    assert (code == 0) == (bad is ROOTS), err


@BREAKS
def test_predict_keeps_sentences_without_a_tree(folder, ends):  # noqa: F811
    raw = treebank(TREE, ROOTS, TREE, CYCLE, CYCLE, ends=ends)
    options = f"--format conllu --load {folder}/parser.model"
    everything, got = predicted(folder, raw, options), predicted(folder, raw, options + " --skip-bad")
    kept = [i for i, heads in enumerate(found(folder, options + " --skip-bad")) if heads is not None]
    assert kept == [0, 2] and None not in found(folder, options)
    inputs, full, mine, k = pieces(raw), pieces(everything), pieces(got), -1
    assert len(inputs) == len(mine)
    for line, new, chosen in zip(inputs, full, mine, strict=True):
        k += line.removeprefix(b"\xef\xbb\xbf").startswith(b"# sent_id")
        assert chosen == (new if k in kept else line)


def test_roots_that_are_meant(folder):  # noqa: F811
    (folder / "in").write_bytes(treebank(*[ROOTS] * 9))
    assert call(f"train {folder}/in --format conllu --multiple-roots --hash-bits 8 --save {folder}/roots.model")[0] == 0
    assert not pb.load(folder / "roots.model").single_root
    code, out, _ = call(f"evaluate {folder}/in --format conllu --load {folder}/roots.model --json")
    assert code == 0 and json.loads(out)["UAS"] == 1.0           # the option is stored with the model
    said = call(f"train {folder}/a.csv --skip-bad")[2]
    assert said.endswith("--skip-bad belongs to data of format conllu, got csv\n")


def test_relations_with_and_without_subtypes(folder):  # noqa: F811
    """`det:def` for `det` was wrong without a word; the scorer of the CoNLL 2018 shared task cuts at the colon."""
    rows = ("1\tle\tle\tDET\t_\t_\t2\t{}\t_\t_\n2\tparc\tparc\tNOUN\t_\t_\t{}\t{}\t_\t_\n"
            "3\tvu\t_\tVERB\t_\t_\t0\troot\t_\t_\n")
    (folder / "in").write_text(rows.format("det", 3, "nsubj:pass"))
    cases = ("det:def", 3, 1, 2 / 3), ("nmod:def", 3, 2 / 3, 2 / 3), ("det", 0, 2 / 3, 2 / 3)
    for relation, head, plain, full in cases:
        (folder / "out").write_text(rows.format(relation, head, "nsubj:pass"))
        out = json.loads(call(f"evaluate {folder}/in --format conllu --predictions {folder}/out --json")[1])
        assert out["LAS without subtypes"] == plain and out["LAS with subtypes"] == full
        assert out["UAS"] == (1.0 if head == 3 else 2 / 3)


def test_evaluate_reads_what_predict_writes(folder, odd_labels):  # noqa: F811
    for data, model in (("odd.csv", "odd"), ("first.csv --label first", "first"), ("a.svm", "svm"), ("a.conll", "crf"),
                        ("a.conllu", "parser")):
        assert call(f"predict {folder}/{data} --load {folder}/{model}.model --output {folder}/out")[0] == 0
        by_model = json.loads(call(f"evaluate {folder}/{data} --load {folder}/{model}.model --json")[1])
        by_file = json.loads(call(f"evaluate {folder}/{data} --predictions {folder}/out --json")[1])
        assert by_model == by_file
    (folder / "in").write_text("a,k\n1,+1\n2,-1\n3,x\n")
    (folder / "out").write_text("a,k\n1,+1\n2,1\n3,1\n")         # all integers here, texts there
    code, out, _ = call(f"evaluate {folder}/in --format csv --predictions {folder}/out --json")
    assert code == 0 and json.loads(out)["accuracy"] == pytest.approx(1 / 3)


def test_a_label_that_is_no_column_is_refused(folder):  # noqa: F811
    crf = pb.ChainCRF().fit([[{"a": 1.0}, {"b": 1.0}]], [["New York", "O"]])
    crf.save(folder / "blank.model")
    code, out, err = call(f"predict {folder}/words.conll --unlabelled --load {folder}/blank.model")
    assert (code, out) == (2, "") and "the label 'New York' cannot be a column between blanks; --json writes" in err


@pytest.mark.parametrize("text, kept, n_comments", [
    ("#tag O\nis O\n\n# O\nb B\n", [["#tag", "is"], ["#", "b"]], 0),            # words of tweets
    ("# sent_id = 1\na O\nb B\n", [["a", "b"]], 1), ("#\n# x\na O\n\n# O\n", [["a"], ["#"]], 2),
    ("# doc\na O\n\n# doc\nb O\n", [["a"], ["b"]], 2),                          # as wide as tokens, but no label
    ("# doc\n\n\na O\n", [["a"]], 1), ("a O\n# O\n", [["a", "#"]], 0),
    ("#\tO\n# B\na O\n#a B\n", [["#", "#", "a", "#a"]], 0),
    ("# x\n#! B\na O\n", [["#!", "a"]], 1), (" # x y\na O", [["a"]], 1), ("# x\n# y\n", [], 2),
    ("#\na\n\n#b\n", [["#", "a"], ["#b"]], 0),
])  # fmt: skip
def test_comments_of_columns(text, kept, n_comments):
    """A line `# sent_id = 1` was an error that blamed the next line, or a token with a class of its own."""
    assert [[token[0] for token in tokens] for tokens in read_conll(io.StringIO(text))] == kept
    assert conll.sentences_of(io.StringIO(text))[1] == n_comments


def test_comments_within_sentences_need_the_option(folder):  # noqa: F811
    (folder / "in").write_text("a O\n# a remark here\nb B\n\n% x\na O\nb B\n")
    code, _, err = call(f"train {folder}/in --format conll --comment %")
    assert code == 2 and "in, line 2: expected 2 columns, got 4: '# a remark here'" in err
    assert "; give --comment '#' to skip such lines" in err
    (folder / "in").write_text("a O\n# a remark here\nb B\n\n# x\na O\nb B\n")
    code, out, _ = call(f"train {folder}/in --format conll --comment '#' --tol 0.1")
    assert code == 0 and "2 sequences, 4 tokens, 2 comments, C" in out
    assert "--comment belongs to data of format conll, got csv" in call(f"train {folder}/a.csv --comment x")[2]
    code, _, err = call(f"train {folder}/in --format conll --comment ''")
    assert code == 2 and "comment must be a text that comments begin with, got ''" in err


@pytest.mark.parametrize("text, is_hinted", [
    ("TOKEN POS TAG\n\nthe DT O\ncat NN B-A\n\na DT O\ndog NN B-A\n", True),
    ("word ner_tag\na O\nb B\nc O\nd B\n", True), ("the DT O\ncat NN B-A\n\na DT O\n", False),
    ("London B-LOC\nis O\nbig O\n", False), ("a B\n", False), ("-DOCSTART- X\na O\nb O\n", False),
])  # fmt: skip
def test_a_line_of_names_is_hinted_at(text, is_hinted, recwarn):
    read_conll(io.StringIO(text))
    said = ["if these are the names of columns, take the line out" in str(warning.message) for warning in recwarn]
    assert said == [True] * is_hinted
    with pytest.raises(pb.ParameterError, match=r"expected 4 columns, got 3.*no line of names"):
        read_conll(io.StringIO("Sentence Token POS Tag\nthe DT O\ncat NN B-A\n"))


SPELLINGS = ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
             "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]


def test_the_spellings_are_those_of_pandas():
    parsers = pytest.importorskip("pandas.io.parsers.readers")
    assert set(SPELLINGS) == set(parsers.STR_NA_VALUES) == pb.datasets.tables.MISSING


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_missing_values_of_tables(folder, spelling):  # noqa: F811
    """A label NA became a class beside the others, without a word."""
    for field in (spelling, f'"{spelling}"', f" {spelling}\t"):
        for row, label in ((f"{field},2,y", "last"), (f"1,{field},y", "last"), (f"1,2,{field}", "last"),
                           (f"{field},1,2", "first")):
            text = f"a,b,c\n1,2,{'x' if label == 'last' else 3}\n{row}\n".replace("1,2,3", "x,1,2")
            with pytest.raises(pb.ParameterError, match=r"line 3: .*column [123],? (is empty|holds)") as caught:
                read_csv(io.StringIO(text), label=label)
            assert repr(spelling) in str(caught.value) or spelling == ""
            is_label = row[-2:] != ",y"
            assert ("pass keep_na=True" in str(caught.value)) == is_label
            if is_label:
                assert read_csv(io.StringIO(text), label=label, keep_na=True).y.tolist() == ["x", spelling]
            else:
                with pytest.raises(pb.ParameterError, match="line 3: column"):
                    read_csv(io.StringIO(text), label=label, keep_na=True)
    table = "a,k\n" + "".join(f"{j},{(spelling, 1)[j % 2]}\n" for j in range(8))
    (folder / "in").write_text(table)
    code, _, err = call(f"train {folder}/in --format csv")
    assert code == 2 and "in, line 2: the label, column 2, " in err and "give --keep-na" in err and err.count("\n") == 1
    code, out, err = call(f"train {folder}/in --format csv --keep-na --tol 0.1 --save {folder}/na.model")
    assert code == 0 and err == "" and f"{spelling} 4" in out and "1 4" in out
    code, out, err = call(f"predict {folder}/in --format csv --keep-na --load {folder}/na.model")
    assert code == 0 and len(out.split("\n")) == 10


def test_words_and_labels_that_look_missing():
    """They are words and labels like others where a line is a token, and an empty field is refused."""
    for word in filter(None, (spelling.replace(" ", "") for spelling in SPELLINGS)):
        assert read_conll(io.StringIO(f"{word} NA {word}\nb x O\n"))[0][0] == (word, "NA", word)
        row = f"1\t{word}\t{word}\tNA\tnull\t_\t0\tnan\t_\t_\n"
        sentence, = pb.datasets.read_conllu(io.StringIO(row))
        assert (sentence.forms, sentence.lemmas, sentence.relations) == ([word], [word], ["nan"])
        fields = row.split("\t")
        for k in range(1, 9):
            empty = "\t".join([*fields[:k], "", *fields[k + 1:]])
            for line in (empty, empty.replace("1", "1-2", 1), empty.replace("1", "1.1", 1)):
                with pytest.raises(pb.ParameterError, match=f"line 1: column {k + 1} is empty; write _ there"):
                    pb.datasets.read_conllu(io.StringIO(line), unlabelled=True)


@pytest.mark.parametrize(("text", "line", "column"), [
    ("a\tx\tO\nb\t\tO\n", 2, 2), ("a\tx\tO\n\tx\tO\n", 2, 1), ("a\tx\tO\nb\tx\t\n", 2, 3),
    ("John\tNNP\t\nruns\t\tO\n", 1, 3), ("the\tDT\t\n\t \na\tDT\t\n", 1, 3), ("\t\n#\t \tO\na\t\tb O\n", 3, 2),
])  # fmt: skip
def test_empty_columns_are_refused(folder, text, line, column):  # noqa: F811
    """Empty columns were left out, so that the next one took their place: a tag became the label."""
    (folder / "in").write_text(text)
    with pytest.raises(pb.ParameterError, match=rf"in, line {line}: column {column} is empty.*separator='blank'"):
        read_conll(folder / "in")
    assert f"line {line}: column {column} is empty" in call(f"train {folder}/in --format conll")[2]
    assert read_conll(io.StringIO("a\tO\t\n\t \t\nb\tI\n"), separator="blank") == [[("a", "O")], [("b", "I")]]


@pytest.mark.parametrize("text, said", [
    ('a,k\n1,"x\n2,y\n', "line 2: the end of the file comes before the end of a quote"),
    ('a,k\n1,"x"y\n', "line 2: text follows the end of a quote"), ('a,k\n1,"x"y"z"\n', "line 2: text follows"),
    ('a,k\n1,"x\n\n\n2"\n3\n', "line 6: expected 2 columns"),
    ('1, 2, "NA"\n3, 4, "b"\n', "line 1: blanks come before a quote; take them out"),     # the label was '"NA"'
    ('1,2,"c"\n3,4,  "a, b"\n', "line 2: blanks come before a quote"), ('a;k\n1;2\n\t"1";3\n', "line 3: blanks come"),
])  # fmt: skip
def test_quotes_of_tables_are_checked(text, said):
    with pytest.raises(pb.ParameterError, match=said):
        read_csv(io.StringIO(text))


def test_quotes_of_tables_as_the_csv_module_reads_them():
    import csv
    rng = np.random.default_rng(5)
    n_read = 0
    for _ in range(3000):
        text = "".join(rng.choice(list('ab1",;\n \t')) for _ in range(rng.integers(1, 12)))
        try:
            row = next(csv.reader(io.StringIO(text, newline=""), delimiter=",", strict=True))
        except (csv.Error, StopIteration):
            row = None
        if not text.split("\n")[0]:
            continue
        numbered = lines.numbered_lines(io.StringIO(text, newline=""))
        try:
            written = pb.datasets.tables._fields(next(numbered)[1], numbered, ",")
        except ValueError:
            assert row is None or any(field.lstrip()[:1] == '"' for field in row), text
        else:
            n_read += 1
            assert [w[1:-1].replace('""', '"') if w[:1] == '"' else w for w in written] == row, text
            assert text.startswith(",".join(written))
    assert n_read > 500
