"""A parser with relations: what it learns, forms of words and labels, scores, files, and what it refuses."""

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.datasets import Sentence
from pybundle.metrics import attachment_scores

NAMES = ["N", "V", "D", "P", "O"]


def treebank(n=30, seed=0):
    """Sentences D N V (P N); the last noun hangs on the verb, or on the first noun after "of"."""
    rng, X, y = np.random.default_rng(seed), [], []
    for _ in range(n):
        x = [("the", "D"), (str(rng.choice(["dog", "cat"])), "N"), ("sees", "V")]
        pairs = [(2, "det"), (3, "nsubj"), (0, "root")]
        if rng.random() < 0.7:
            of = rng.random() < 0.5
            x += [("of", "O") if of else ("in", "P"), ("parks", "N")]
            pairs += [(5, "case"), (2, "nmod") if of else (3, "obl:in")]
        X.append(x)
        y.append(pairs)
    return X, y


def fitted(**parameters):
    X, y = treebank()
    return pb.DependencyParser(**{"C": 10.0, "hash_bits": 12, "relations": True} | parameters).fit(X, y), X, y


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("counts", ["both", "heads", "relations"])
def test_relations_are_learned(loss, counts):
    parser, X, y = fitted(loss=loss, counts=counts)
    assert parser.certified_
    if counts != "heads" or loss == "logistic":     # else nothing is paid for relations
        assert parser.predict(X) == y and parser.score(X, y) == 1.0
    assert sorted(parser.relations_) == ["case", "det", "nmod", "nsubj", "obl:in", "root"]
    assert parser.relations_[0] == "det" and "\tV\troot\troot" in parser.allowed_
    assert "N\tD\tleft\tdet" in parser.allowed_ and len(parser.allowed_) == 7


def test_only_what_was_seen_is_predicted():
    """Whatever the weights: `root` is exactly under the root, and tags have the relations of the training."""
    parser, X, _ = fitted()
    parser.coef_ = np.random.default_rng(0).standard_normal(len(parser.coef_))
    seen = {tuple(rule.split("\t")) for rule in parser.allowed_}
    for x, pairs in zip(X, parser.predict(X), strict=True):
        tags = ["", *(tag for _, tag in x)]
        for m, (head, relation) in enumerate(pairs, 1):
            assert (relation == "root") == (head == 0)
            side = "root" if head == 0 else "right" if m > head else "left"
            if any(rule[:3] == (tags[head], tags[m], side) for rule in seen):
                assert (tags[head], tags[m], side, relation) in seen


def test_forms_of_words_agree():
    """Words as tuples, dictionaries, sentences of files and numbers; labels as pairs or structured arrays."""
    parser, X, y = fitted()
    found = parser.predict(X)
    dicts = [[{"word": word, "pos": tag} for word, tag in x] for x in X]
    sentences = [Sentence([w for w, _ in x], [], [t for _, t in x], [], np.arange(len(x) + 1), []) for x in X]
    assert parser.predict(dicts) == parser.predict(sentences) == found
    arrays = parser.predict(X, output="array")
    assert [pairs.tolist() for pairs in arrays] == found and arrays[0]["head"].tolist() == [h for h, _ in found[0]]
    again = pb.DependencyParser(**parser.get_params()).fit(X, arrays)
    assert again.relations_ == parser.relations_ and again.score(X, arrays) == 1.0
    numbers = [np.array([(len(word), NAMES.index(tag)) for word, tag in x]) for x in X]
    counted = pb.DependencyParser(C=10.0, hash_bits=12, relations=True).fit(numbers, y)
    assert "0\t2\tleft\tdet" in counted.allowed_ and counted.score(numbers, y) > 0.9
    bare = pb.DependencyParser(attributes=("word",), templates=["h.word m.word distance"], relations=True,
                               relation_templates=["m.word h.word"], hash_bits=10)
    bare.fit([[(word,) for word, _ in x] for x in X], y)
    assert "\t\tleft\tdet" in bare.allowed_
    assert parser.predict_single(X[0]) == found[0] and parser.predict([[]]) == [[]]


def test_probabilities_are_marginals():
    parser, X, _ = fitted(loss="logistic")
    for scores, chances in zip(parser.decision_function(X[:5]), parser.predict_proba(X[:5]), strict=True):
        assert scores.shape == chances.shape == (len(scores), len(scores), len(parser.relations_))
        assert chances[:, 1:].sum(axis=(0, 2)) == pytest.approx(1.0)
        arcs, _ = pb.oracles.arborescence_marginals(np.logaddexp.reduce(scores, axis=2), True)
        assert chances.sum(axis=2) == pytest.approx(arcs) and not chances[np.isneginf(scores)].any()
    assert parser.predict_proba([[]])[0].shape == (1, 1, len(parser.relations_))


def test_scores_of_unseen_relations_and_subtypes():
    parser, X, y = fitted()
    changed = [[(head, {"obl:in": "obl", "det": "foo"}.get(name, name)) for head, name in pairs] for pairs in y]
    scores = attachment_scores(changed, parser.predict(X))
    n, n_foo = sum(map(len, y)), sum(name == "det" for pairs in y for _, name in pairs)
    n_obl = sum(name == "obl:in" for pairs in y for _, name in pairs)
    assert scores.uas == 1.0 and scores.n_words == n
    assert scores.las == pytest.approx(1.0 - (n_foo + n_obl) / n) == parser.score(X, changed)
    assert scores.las_without_subtypes == pytest.approx(1.0 - n_foo / n)
    counted = [[tag != "D" for _, tag in x] for x in X]
    assert attachment_scores(changed, parser.predict(X), counted).las_without_subtypes == 1.0
    heads = [[head for head, _ in pairs] for pairs in y]
    assert attachment_scores(heads, y)[0] == 1.0 and np.isnan(attachment_scores(heads, heads).las)
    assert np.isnan(attachment_scores([[]], [[]]).uas)
    # the root in front is no word
    rooted, wrong = [np.array([-1, *each]) for each in heads], [[len(each)] * len(each) for each in heads]
    for found in (wrong, [[-1, *each] for each in wrong]):
        assert attachment_scores(rooted, found, counted) == pytest.approx(
            attachment_scores(heads, wrong, counted), nan_ok=True)
    with pytest.raises(pb.ParameterError, match="the same words, got 3, 2 in sentence 1"):
        attachment_scores([[], heads[0][:3]], [[], heads[0][:2]])
    for odd in ((1, None), (1, "a", 2), "a"):
        with pytest.raises(pb.ParameterError, match=r"must hold heads or pairs \(head, relation\), got"):
            attachment_scores([[(1, "a")]], [[odd]])


@pytest.mark.parametrize("relations", [False, True])
def test_words_that_the_loss_does_not_count(relations):
    """The objective is that of the same truths without these words in the loss, in all forms of words."""
    X, y = treebank(6)
    y = y if relations else [[head for head, _ in pairs] for pairs in y]
    options = {"hash_bits": 10, "tol": 1e-6, "relations": relations}
    parser = pb.DependencyParser(uncounted=("P", "O"), **options).fit(X, y)
    every = pb.DependencyParser(**options).fit(X, y)
    # at w = 0 the risk is the number of words that count
    zero = [p._prepare(X, y, None)[0].values(np.zeros(len(p.coef_)))[0].sum() for p in (parser, every)]
    assert zero == [3.0 * 6 + sum(len(x) > 3 for x in X), sum(map(len, X))]
    assert parser.objective_ < every.objective_
    dicts = [[{"word": word, "pos": tag} for word, tag in x] for x in X]
    assert pb.DependencyParser(uncounted=["O", "P"], **options).fit(dicts, y).objective_ == parser.objective_
    numbers = [np.array([(len(word), NAMES.index(tag)) for word, tag in x]) for x in X]
    risk = pb.DependencyParser(uncounted=("3", "4"), **options)._prepare(numbers, y, None)[0]
    assert risk.values(np.zeros(risk.dim))[0].sum() == zero[0]
    for more in ({"uncounted": "P"}, {"uncounted": None}, {"uncounted": (3, 4)}, {"uncounted": ([3],)},
                 {"uncounted": ("P",), "loss": "logistic"},
                 {"uncounted": ("P",), "attributes": ("word", "tag"), "templates": ["h.tag m.tag"],
                  "relation_templates": ["m.tag"] if relations else None}):
        with pytest.raises(pb.ParameterError, match="uncounted must be a tuple of values of the attribute 'pos'"):
            pb.DependencyParser(**options | more).fit(X, y)


def test_a_search_chooses_by_labelled_scores():
    X, y = treebank(12)
    found = pb.DependencyParserCV([0.001, 1.0, 100.0], cv=2, hash_bits=10, tol=0.1, relations=True).fit(X, y)
    assert found.scores_.shape == (2, 3) and found.score(X, y) == 1.0


@pytest.mark.parametrize("y, error, message", [
    ([[2, 0]], pb.InputTypeError, r"y\[0\] must hold pairs .* list\(zip\(s.heads\[1:\], s.relations\)\)"),
    ([[(2, 3), (0, 4)]], pb.InputTypeError, r"y\[0\] must hold pairs"),
    ([[(2, "a", 1), (0, "b", 2)]], pb.InputTypeError, r"y\[0\] must hold pairs"),
    ([[("x", "a"), (0, "b")]], pb.InputTypeError, r"y\[0\] must be a sequence of heads"),
    ([[(3, "a"), (0, "b")]], pb.ParameterError, r"y\[0\] must hold heads 0..2, got \[3, 0\]"),
    ([[(2, "a"), (1, "b")]], pb.ParameterError, r"Y\[0\]: word 1 is on a cycle"),
    ([[(2, "a\tb"), (0, "b")]], pb.ParameterError, "tags and relations must be without tabs"),
    ([[(0, "a")]], pb.ParameterError, r"y\[0\] must have one head for each word of X\[0\], 2 in all"),
])
def test_labels_are_refused_by_name(y, error, message):
    with pytest.raises(error, match=message):
        pb.DependencyParser(relations=True).fit([[("a", "N"), ("b", "V")]], y)


@pytest.mark.parametrize("x, error, message", [
    (np.array([(0.0, 1.0), (1.0, 2.0)]), pb.InputTypeError, r"X\[0\] must be integers, got dtype float64"),
    (np.array([0, 1]), pb.ParameterError, r"X\[0\] must hold attributes of words, .* got shape \(2,\)"),
    (np.array([(0, -1), (0, 2)]), pb.ParameterError, r"X\[0\] must hold attributes .* least -1"),
])
def test_numbers_are_refused_by_name(x, error, message):
    with pytest.raises(error, match=message):
        pb.DependencyParser(relations=True).fit([x], [[(2, "a"), (0, "b")]])


def test_parameters_are_refused_by_name():
    X, y = treebank(4)
    for parameters, message in (({"counts": "words"}, "counts must be one of"),
                                ({"relation_templates": ["h.size"]}, r"relation_templates\[0\] = 'h.size'")):
        with pytest.raises(ValueError, match=message):
            pb.DependencyParser(**{"relations": True} | parameters).fit(X, y)
    for parameters in ({"counts": "heads"}, {"relation_templates": ["m.word"]}):
        with pytest.raises(pb.ParameterError, match=f"{next(iter(parameters))} must be .* with relations=False, got"):
            pb.DependencyParser(**parameters).fit(X, [[head for head, _ in pairs] for pairs in y])
    with pytest.raises(pb.ParameterError, match="must hold words for relations=True, got CSR matrices"):
        pb.DependencyParser(relations=True).fit([sp.csr_array(np.eye(4))], [[(0, "a"), (1, "b")]])
    with pytest.raises(pb.InputTypeError, match="relations must be True or False"):
        pb.DependencyParser(relations="yes").fit(X, y)
    with pytest.raises(pb.InputTypeError, match=r"sequence of heads.*; pairs \(head, relation\) need relations=True"):
        pb.DependencyParser().fit(X, y)
