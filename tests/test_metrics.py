"""Chunks: by hand, and against seqeval where it is installed."""

import random
import warnings

import numpy as np
import pytest

import pybundle as pb
from pybundle.metrics.chunks import SCHEMES, _written


@pytest.mark.parametrize("labels, expected", [
    ([], []), (["O"], []), (["B-X"], [(0, 1, "X")]), (["I-X", "I-X"], [(0, 2, "X")]),
    (["B-X", "B-X"], [(0, 1, "X"), (1, 2, "X")]), (["B-X", "I-Y"], [(0, 1, "X"), (1, 2, "Y")]),
    (["S-X", "E-X"], [(0, 1, "X"), (1, 2, "X")]), (["B-X", "I-X", "E-X", "I-X"], [(0, 3, "X"), (3, 4, "X")]),
    (["B-X", "O", "I-X"], [(0, 1, "X"), (2, 3, "X")]), (["B", "I", "O"], [(0, 2, "_")]),
    (["B-X-Y", "I-X-Y"], [(0, 2, "X-Y")]), (["B-X", "L-X", "U-X"], [(0, 2, "X"), (2, 3, "X")]),
])  # fmt: skip
def test_chunks(labels, expected):
    assert pb.metrics.chunks(labels) == expected


@pytest.mark.parametrize("scheme, labels, expected", [
    ("BIO", "I-X O B-X I-X I-Y", [(2, 4, "X")]), ("IOB1", "I-X I-X B-X O B-X", [(0, 2, "X"), (2, 3, "X")]),
    ("IOBES", "S-X B-X E-X B-X I-X", [(0, 1, "X"), (1, 3, "X")]), ("BILOU", "U-X B-X I-X L-X L-X",
                                                                   [(0, 1, "X"), (1, 4, "X")]),
    ("IOE2", "I-X E-X E-X I-X", [(0, 2, "X"), (2, 3, "X")]),
])  # fmt: skip
def test_strict_chunks(scheme, labels, expected):
    assert pb.metrics.chunks(labels.split(), strict=scheme) == expected


def test_table_of_two_sequences_by_hand():
    truth = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "O", "B-PER"]]
    found = [["B-PER", "I-PER", "O", "B-LOC"], ["B-PER", "B-LOC", "B-PER"]]
    scores = pb.metrics.chunk_scores(truth, found)
    assert str(scores).splitlines()[1:] == [
        "LOC         50.00   50.00  50.00        2      2", "PER         66.67  100.00  80.00        2      3",
        "all         60.00   75.00  66.67        4      5"]
    assert pb.metrics.chunk_scores([["O"]], [["O"]]).total == (0.0, 0.0, 0.0, 0, 0, 0)


def legal(r, n, scheme, kinds):
    """A labelling of n tokens that the scheme allows."""
    labels, before = [], None
    while len(labels) < n:
        kind, length = r.choice([*kinds, None]), min(r.choice([1, 1, 2, 3]), n - len(labels))
        prefixes = ["O"] if kind is None else _written(length, scheme, kind == before)
        labels += prefixes if kind is None else [f"{prefix}-{kind}" for prefix in prefixes]
        before = kind
    return labels


@pytest.mark.parametrize("scheme", SCHEMES)
def test_legal_labellings_are_equal_in_both_readings(scheme):
    r = random.Random(1)
    for _ in range(300):
        labels = legal(r, r.randint(1, 12), scheme, ["X", "Y"])
        assert pb.metrics.chunks(labels) == pb.metrics.chunks(labels, strict=scheme)


@pytest.mark.parametrize("scheme, name", [("BIO", "IOB2"), ("IOB1", "IOB1"), ("IOE2", "IOE2"), ("IOBES", "IOBES"),
                                          ("BILOU", "BILOU")])
def test_numbers_are_those_of_seqeval(scheme, name):
    pytest.importorskip("seqeval")
    from seqeval import scheme as schemes
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as default
    from seqeval.metrics.v1 import precision_recall_fscore_support as strict

    r, compared = random.Random(0), 0
    for _ in range(200):
        kinds = ["X", "Y", "Z-W"][:r.randint(1, 3)]
        some = ["O", *(f"{prefix}-{kind}" for prefix in SCHEMES[scheme] for kind in kinds)]
        sizes = [r.randint(1, 9) for _ in range(r.randint(1, 5))]
        # the two read illegal labels of IOB1 differently
        truth = [legal(r, n, scheme, kinds) for n in sizes]
        found = [legal(r, n, scheme, kinds) if scheme == "IOB1" or r.random() < 0.3 else
                 [r.choice(some) for _ in range(n)] for n in sizes]
        for reading, theirs, options in ((None, default, {}), (scheme, strict, {"scheme": getattr(schemes, name)})):
            scores = pb.metrics.chunk_scores(truth, found, strict=reading)
            if not scores.types or (reading is None and scheme == "BILOU"):     # its default does not know U and L
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = theirs(truth, found, average=None, zero_division=0, **options)
            np.testing.assert_allclose([score[:4] for score in scores.types.values()], np.transpose(expected))
            compared += 1
    assert compared > 150


@pytest.mark.parametrize("arguments, text", [
    ((["B-X"], ["O"]), r"y_true\[0\] must be a sequence of labels"), (("B-X", []), "y_true must be a list"),
    (([["O"]], []), "same number of sequences, got 1 and 0"), (([["O"]], [["O", "O"]]), r"y_pred\[0\] must have 1 lab"),
    (([["O"]], [["NN"]]), r"y_pred\[0\]\[0\] must be O, or a type after one of"),
    (([[1]], [["O"]]), "got 1 of type int"),
    (([["S-X"]], [["O"]], "BIO"), "one of B, I, like B-NP, got 'S-X'; strict = 'BIO'"),
    (([["O"]], [["O"]], "IOB2"), "strict must be one of"),
])  # fmt: skip
def test_wrong_labels_are_named(arguments, text):
    with pytest.raises((pb.ParameterError, pb.InputTypeError), match=text):
        pb.metrics.chunk_scores(*arguments)
