"""`DependencyParser`, a parser of sentences whose words are texts or numbers."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, ParameterError, StateError
from ..core.labels import as_output
from ..core.ragged import Ragged, array_of
from ..core.types import Callbacks, Data, Floats
from ..core.validation import check_choice, check_flag, check_integer, integer_array, shown
from ..models import Dependency
from ..models.dependency.templates import (
    DEFAULT_TEMPLATES,
    MOST_KINDS,
    RELATION_TEMPLATES,
    ROOT,
    parse_templates,
)
from ..oracles import arborescence_marginals
from ..solvers.method import Method
from .base import without_weightless
from .collections import by_blocks
from .probabilities import NeedsLogLoss, Probabilities
from .structured import StructuredEstimator, as_fitted, check_list, length
from .tokens import TEXTS, decoded, is_single, single

FIELDS = {"word": "forms", "lower": "forms", "lemma": "lemmas", "pos": "upos", "xpos": "xpos", "relation": "relations"}
"""Attributes of words by the fields of `pybundle.datasets.Sentence`; "lower" is the form in small letters."""


class DependencyParser(Probabilities, StructuredEstimator):
    """Non-projective dependency parser with arc features from templates, trained to a certified gap.

        F(w) = |w|^2 / (2 C) + sum_i c_i max_y [ wrong heads in y + <w, Psi(x_i, y) - Psi(x_i, y_i)> ],

    where Psi is a sum over arcs (`pb.models.Dependency`); with `loss="logistic"` the log-loss over trees instead.

    X is a list of sentences, each a list of words: dictionaries `{"word": "dog", "pos": "NOUN"}`, tuples of texts in
    the order of `attributes`, or an array of integers (n, number of attributes); or a `pb.datasets.Sentence`; or, for
    features of your own, a CSR matrix of arcs as `pb.models.Dependency` takes it. y is a list of heads: one number for
    each of the n words, 1..n or 0 for the root, with -1 for the root in front or without. With `relations=True` it is a
    list of pairs (head, relation), one for each word.

    Parameters
    ----------
    {parameters}
    loss : {"hinge", "logistic"}
    attributes : tuple of str
        Names of the attributes of a word. For a `Sentence`: "word", "lower" (in small letters), "lemma", "pos"
        (universal), "xpos" (fine).
    templates : sequence of str, optional
        Features of arcs, see `pb.models.Dependency.hashed`; a selection of McDonald et al. (2005) by default.
        `pb.models.TREEBANK_TEMPLATES` are for the attributes ("lower", "xpos", "pos"), words with both tags.
    hash_bits : int
        Features are hashed to `2 ** hash_bits` weights.
    min_count : int
        Values of an attribute that occur less often in the training data count as one value, and so do unseen ones;
        1 keeps all values apart. `pybundle train` uses 2 with the templates above. For words as texts.
    single_root : bool
        Whether exactly one word hangs on the root.
    relations : bool
        Whether arcs have relations, such as "nsubj". An arc can have those that the training data show for the "pos" of
        head and word (if `attributes` hold it) and the direction; arcs that they do not show have the most frequent
        relation of the word's tag. What is only seen under the root, or never there, stays so.
    relation_templates : sequence of str, optional
        Features of the relation of an arc, like `templates`; `pb.models.TREEBANK_RELATION_TEMPLATES` belong to
        `pb.models.TREEBANK_TEMPLATES`.
    counts : {"both", "heads", "relations"}
        With relations, which words the loss counts: those with a wrong head or relation, a wrong head, a wrong
        relation.

    Attributes
    ----------
    coef_ : ndarray, shape (2 ** hash_bits,), or one for each column of the CSR matrices
    kinds_ : list of str, or None
        The most frequent values, as "pos=NOUN", of attributes that templates ask for between head and word; the others
        share one number.
    vocabulary_ : list of str, or None
        The values, as "word=dog", that are kept apart if `min_count` is above 1.
    relations_ : list of str, or None
        The relations, the most frequent first.
    allowed_ : list of str, or None
        What arcs can have, the most frequent first, as tags of head ("" for the root) and word, "left" or "right" of
        the head, and relation, between tabs.
    n_features_in_ : int
    {certificate}

    Notes
    -----
    `score` is the fraction of words with the right head (UAS), with relations that of words with both right (LAS);
    `pb.metrics.attachment_scores` computes these and more.

    Examples
    --------
    >>> import pybundle as pb
    >>> X = [[("dogs", "N"), ("bark", "V")], [("the", "D"), ("cat", "N"), ("sleeps", "V")]]
    >>> y = [[2, 0], [2, 3, 0]]
    >>> parser = pb.DependencyParser(C=10.0, hash_bits=12).fit(X, y)
    >>> parser.predict([[("the", "D"), ("dog", "N"), ("barks", "V")]])
    [[2, 3, 0]]
    >>> parser.predict_single([("dogs", "N"), ("bark", "V")])
    [2, 0]
    >>> y = [[(2, "nsubj"), (0, "root")], [(2, "det"), (3, "nsubj"), (0, "root")]]
    >>> parser = pb.DependencyParser(C=10.0, hash_bits=12, relations=True).fit(X, y)
    >>> parser.predict([[("the", "D"), ("dog", "N"), ("barks", "V")]])
    [[(2, 'det'), (3, 'nsubj'), (0, 'root')]]
    """

    _log_loss_is = "loss='logistic' in the fit"

    def __init__(self, C: float = 0.1, *, loss: str = "hinge", attributes: Sequence[str] = ("word", "pos"),
                 templates: Sequence[str] | None = None, hash_bits: int = 18, min_count: int = 1,
                 single_root: bool = True, relations: bool = False, relation_templates: Sequence[str] | None = None,
                 counts: str = "both", tol: float = 0.001, atol: float | None = None, method: str | Method = "auto",
                 max_iter: int | None = None, time_limit: float | None = None, n_jobs: int | None = None,
                 random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    @property
    def _log_loss(self):
        return self.loss == "logistic"

    def _take(self, X, y, sample_weight):
        X, y, weights = super()._take(X, y, sample_weight)
        is_empty = np.array([_n_words(x) == 0 for x in X])      # such sentences have no loss
        for i in np.flatnonzero(is_empty).tolist():
            if np.asarray(y[i]).tolist() not in ([], [-1]):
                raise ParameterError(f"y[{i}] must have no heads, as X[{i}] has no words, got {y[i]!r:.60}")
        return without_weightless(X, y, np.where(is_empty, 0.0, weights)) if is_empty.any() else (X, y, weights)

    def _survey(self, X, y, weights):
        """Return if arcs are CSR rows, the number of columns, counts of values and of rules, and if roots are given."""
        self._check_sentences(X)
        is_sparse = sp.issparse(X.values if isinstance(X, Ragged) else X[0])
        n_features = X[0].shape[1] if is_sparse else len(self.attributes)
        counts = None if is_sparse or not _is_text(X) else self._count_values(X)
        if not check_flag("relations", self.relations):
            return bool(is_sparse), int(n_features), counts, None, _have_root(_heads(y))
        if is_sparse:
            raise ParameterError("X must hold words for relations=True, got CSR matrices; pb.models.Dependency takes "
                                 "them")
        return False, int(n_features), counts, self._count_rules(X, y, weights, counts is not None), False

    def _learn(self, surveys):
        check_choice("loss", self.loss, ("hinge", "logistic"))
        forms = {(is_sparse, n_features, counts is None) for is_sparse, n_features, counts, *_ in surveys}
        if len(forms) > 1:
            raise ParameterError("X must hold sentences of one form in all blocks: texts, arrays of integers, or CSR "
                                 "matrices with the same number of columns")
        (is_sparse, n_features, is_array), = forms
        kinds = vocabulary = None
        if not is_array:
            kinds, vocabulary = self._frequent([counts for _, _, counts, *_ in surveys])
        relations = rules = None
        if self.relations:
            counted = sum((survey[3] for survey in surveys), Counter())
            rules = _by_count(counted)
            relations = _by_count(sum((Counter({rule[3]: n}) for rule, n in counted.items()), Counter()))
        return {"n_features_in_": n_features, "is_sparse_": is_sparse, "kinds_": kinds, "vocabulary_": vocabulary,
                "relations_": relations, "allowed_": None if rules is None else ["\t".join(rule) for rule in rules],
                "with_root_": all(with_root for *_, with_root in surveys)}

    def _encode_pairs(self, X, y, fitted):
        x, relations = self._words(X, fitted, self._tables(fitted)), fitted["relations_"]
        if relations is None:
            return x, _rooted(_heads(y), fitted["with_root_"])
        number = {relation: r for r, relation in enumerate(relations)}
        return x, _rooted([len(relations) * heads + np.array([number[name] for name in names], np.int32)
                           for heads, names in map(_split, y, range(len(y)))], False)

    def _make_model(self, fitted):
        if fitted.is_sparse_:
            return Dependency(fitted.n_features_in_, single_root=self.single_root)
        names = tuple(self.attributes)
        more = {} if fitted.relations_ is None else {
            "n_relations": len(fitted.relations_), "counts": self.counts, "tag": "pos" if "pos" in names else None,
            "relation_templates": self._relation_templates(), "allowed": self._rules(fitted)}
        return Dependency.hashed(self.hash_bits, names, self._templates(), single_root=self.single_root, **more)

    def _templates(self):
        return DEFAULT_TEMPLATES if self.templates is None else self.templates

    def _relation_templates(self):
        return RELATION_TEMPLATES if self.relation_templates is None else self.relation_templates

    def _encode(self, X):
        return self._words(X, vars(self), self._once("tables", lambda: self._tables(vars(self))))

    @by_blocks
    @as_fitted
    def predict(self, X: Data, output: str = "list") -> list[Any]:
        """Return the heads of the words of every sentence, a list, with or without the root as in the fit.

        With relations these are pairs (head, relation).

        Parameters
        ----------
        X
            Sentences as described in the class, or a Dask bag of them.
        output : {"list", "array"}
            Heads of a sentence are a list of int, which `json` and `==` take, or an int32 array; pairs are a list of
            tuples, or a structured array.
        """
        model = self.model_
        found = self._labels(model, self._encode(check_list("X", X)))
        if self.relations_ is not None:
            return as_output([self._named(codes[1:]) for codes in found], output)
        return as_output(found if self.with_root_ else [heads[1:] for heads in found], output)

    def _named(self, codes):
        """Return codes of heads and relations as a structured array."""
        heads, relations = np.divmod(codes, len(self.relations_))
        names = np.array(self.relations_)
        pairs = np.empty(len(codes), [("head", np.int32), ("relation", names.dtype)])
        pairs["head"], pairs["relation"] = heads, names[relations]
        return pairs

    def predict_single(self, sentence: Any) -> list[Any]:
        """Return the heads, or pairs, of one sentence, a list, as `predict([sentence])[0]`."""
        return single(self.predict, sentence)

    def _check_state(self):
        super()._check_state()
        for name in ("kinds_", "vocabulary_", "relations_", "allowed_"):
            texts = getattr(self, name)
            if not (texts is None or (isinstance(texts, list) and all(isinstance(text, str) for text in texts))):
                raise StateError(f"{name} must be a list of texts or None, got {texts!r:.40}")

    def _labels(self, model, x):
        found = [np.full(1, -1, np.int32)] * len(x)             # the root alone, for sentences without words
        full = [i for i, one in enumerate(x) if length(one)]
        if full:
            for i, heads in zip(full, self._decoded(model, [x[i] for i in full], None), strict=True):
                found[i] = heads
        return found

    def _count(self, X, y):
        found = self.predict(X)
        if self.relations_ is None:
            truth = _rooted(_heads(y), _have_root(_heads(y)))
            found, truth = [heads[self.with_root_:] for heads in found], [heads[1:].tolist() for heads in truth]
        else:
            truth = [list(zip(heads.tolist(), names, strict=True)) for heads, names in map(_split, y, range(len(y)))]
        right, total = np.zeros(len(found)), np.zeros(len(found))
        for i, (mine, own) in enumerate(zip(found, truth, strict=True)):
            _check_length(own, len(mine), i)
            right[i], total[i] = sum(map(operator.eq, mine, own)), len(mine)
        return right, total

    @as_fitted
    def decision_function(self, X: Data) -> list[Floats]:
        """Scores of all arcs of every sentence, a list of arrays (n + 1, n + 1): row head, column word, 0 the root.

        With R relations the shape is (n + 1, n + 1, R), and relations that an arc cannot have are -inf.
        """
        model = self.model_
        found = [model.relation_scores(self.coef_, x) if length(x) else np.zeros((1, 1, model.n_relations))
                 for x in self._encode(check_list("X", X))]
        return found if self.relations_ is not None else [scores[:, :, 0] for scores in found]

    @NeedsLogLoss
    @as_fitted
    def predict_proba(self, X: Data) -> list[Floats]:
        """Probabilities of all arcs, in the form of `decision_function`, for `loss="logistic"` only."""
        found = []
        for scores in self.decision_function(X):
            if len(scores) > 1:
                arcs = scores if scores.ndim == 2 else np.logaddexp.reduce(scores, axis=2)
                chances = arborescence_marginals(arcs, self.single_root)[0]
                scores = chances if scores.ndim == 2 else chances[:, :, None] * np.exp(scores - arcs[:, :, None])
            found.append(scores)
        return found

    # ------------------------------------------------------------------ what users write
    def _count_values(self, X):
        """Return a Counter of values by column: for all columns if `min_count` > 1, else for those of `_between`."""
        has_rare = check_integer("min_count", self.min_count, low=1) > 1
        return {column: Counter(value for i, x in enumerate(X) for value in self._column(x, i, column))
                for column in (range(len(self.attributes)) if has_rare else self._between())}

    def _frequent(self, counted):
        """Return `kinds_` and `vocabulary_` from a list of results of `_count_values`."""
        counts = {column: sum((more[column] for more in counted[1:]), counted[0][column]) for column in counted[0]}
        kinds = []
        for column in self._between():
            often = sorted(counts[column], key=lambda value: (-counts[column][value], value))[:MOST_KINDS - 1]
            kinds += [f"{self.attributes[column]}={value}" for value in often]
        if self.min_count == 1:
            return kinds, None
        return kinds, [f"{self.attributes[column]}={value}" for column in sorted(counts)
                       for value in sorted(counts[column]) if counts[column][value] >= self.min_count]

    def _count_rules(self, X, y, weights, is_text):
        """Return a Counter of (tag of the head, tag of the word, direction, relation), weighted as sentences are."""
        counted, column = Counter(), self._tag_column()
        for i, (x, pairs, weight) in enumerate(zip(X, y, weights.tolist(), strict=True)):
            heads, names = _split(pairs, i)
            n = _n_words(x)
            _check_length(names, n, i)
            if len(heads) and not 0 <= heads.min() <= heads.max() <= n:
                raise ParameterError(f"y[{i}] must hold heads 0..{n}, got {heads.tolist()!r:.60}")
            tags = [""] * (n + 1)
            if column is not None:
                tags[1:] = self._column(x, i, column) if is_text else self._numbers(x, i)[:, column].astype(str)
            for m, (h, name) in enumerate(zip(heads.tolist(), names, strict=True), 1):
                counted[tags[h], tags[m], "root" if h == 0 else "right" if m > h else "left", name] += weight
        odd = next((text for rule in counted for text in rule if "\t" in text), None)
        if odd is not None:
            raise ParameterError(f"tags and relations must be without tabs, which allowed_ holds, got {odd!r:.40}")
        return counted

    def _numbers(self, x, i):
        words, shape = integer_array(f"X[{i}]", x), (_n_words(x), len(self.attributes))
        if words.shape != shape or (words < 0).any():
            raise ParameterError(f"X[{i}] must hold attributes of words, numbers >= 0 of shape {shape}, got shape "
                                 f"{words.shape}, least {words.min(initial=0)}")
        return words

    def _tag_column(self):
        return self.attributes.index("pos") if "pos" in self.attributes else None

    def _rules(self, fitted):
        """Return `allowed_` in the numbers that the model takes."""
        column, tables = self._tag_column(), self._tables(vars(fitted))
        relations = {relation: r for r, relation in enumerate(fitted.relations_)}

        def number(tag):
            if column is None or tables is None:
                return 0 if column is None else int(tag)
            return crc32(tag.encode()) if tables[column] is None else tables[column][0].get(tag, tables[column][1])

        rules = (rule.split("\t") for rule in fitted.allowed_)
        return np.array([(ROOT if side == "root" else number(head), number(word), side != "left", relations[relation])
                         for head, word, side, relation in rules])

    def _between(self):
        """Return the columns that templates ask for between head and word, by `set` and `each`."""
        templates = parse_templates(self._templates(), tuple(self.attributes))
        if self.relations:
            templates += parse_templates(self._relation_templates(), tuple(self.attributes), "relation_templates")
        return sorted({max(t.set_column, t.each_column) for t in templates} - {-1})

    def _tables(self, fitted):
        """Return tables from values to numbers, and the number of all other values, by attribute; None for hashes."""
        if fitted["kinds_"] is None:
            return None
        between, tables = self._between(), []
        for column in range(len(self.attributes)):
            if column in between:
                kinds = self._values(fitted["kinds_"], column)
                tables.append(({value: k for k, value in enumerate(kinds)}, MOST_KINDS - 1))
            elif fitted["vocabulary_"] is None:
                tables.append(None)
            else:
                values = self._values(fitted["vocabulary_"], column)
                tables.append(({value: crc32(value.encode()) for value in values}, 0))
        return tables

    def _words(self, X, attributes, tables):
        """Return sentences in the form that the model takes; `tables` convert words that are texts."""
        self._check_sentences(X)
        if not any(map(_n_words, X)):
            return [np.empty((0, len(self.attributes)), np.int64)] * len(X)
        if attributes["is_sparse_"] or not _is_text(X):
            if attributes["kinds_"] is not None:
                raise ParameterError("X must hold words as texts, as in the fit, got arrays of numbers")
            return X if isinstance(X, Ragged) else [array_of(x, f"X[{i}]") for i, x in enumerate(X)]
        if attributes["kinds_"] is None:
            raise ParameterError("X must hold arrays of numbers, as in the fit, got texts")
        found = []
        for i, x in enumerate(X):
            words = np.empty((_n_words(x), len(self.attributes)), np.int64)
            for column, table in enumerate(tables):
                texts = self._column(x, i, column)
                if table is None:
                    words[:, column] = [crc32(text.encode()) for text in texts]
                else:
                    known, other = table
                    words[:, column] = [known.get(text, other) for text in texts]
            found.append(words)
        return found

    def _values(self, names, column):
        """Return the values of one attribute among names like "word=dog"."""
        start = f"{self.attributes[column]}="
        return [name[len(start):] for name in names if name.startswith(start)]

    def _check_sentences(self, X):
        """Refuse texts and single words in place of sentences, such as the words of one sentence alone."""
        for i, x in enumerate(X if not isinstance(X, Ragged) else ()):
            if sp.issparse(x) and x.ndim != 2:
                raise InputTypeError(f"X[{i}] must be a CSR matrix, a row for each arc, got shape {x.shape}; pass [X] "
                                     "for one sentence alone")
            words = x if isinstance(x, (list, tuple)) and not hasattr(x, "forms") else ()
            m = next((m for m, word in enumerate(words) if is_single(word)), None)
            if m is not None or (is_single(x) and not hasattr(x, "forms")):
                name, odd = (f"X[{i}]", x) if m is None else (f"X[{i}][{m}]", x[m])
                raise InputTypeError(f"{name} must be a {'list of words' if m is None else 'word'}, got {odd!r:.40} of "
                                     f"type {type(odd).__name__}; one sentence alone is [sentence]")
            if isinstance(x, (str, bytes, Mapping)) or any(isinstance(word, (str, bytes)) for word in words):
                raise InputTypeError(f"X[{i}] must be a list of words, each a dictionary or a tuple of "
                                     f"{', '.join(self.attributes)}, got {x!r:.60}; one sentence alone is [sentence]")

    def _column(self, x, i, column):
        """Return one attribute of all words of sentence i, as texts."""
        name = self.attributes[column]
        if hasattr(x, "forms"):
            if name not in FIELDS:
                raise ParameterError(f"attributes must be of {', '.join(FIELDS)} for a Sentence, got {name!r}")
            texts = getattr(x, FIELDS[name])
            return [text.lower() for text in texts] if name == "lower" else texts
        for m, word in enumerate(x):
            if isinstance(word, Mapping) and name not in word and name.encode() not in word:
                raise ParameterError(f"X[{i}][{m}] must have the attribute {name!r}, got {word!r:.60}")
            if not isinstance(word, Mapping) and len(word) != len(self.attributes):
                raise ParameterError(f"X[{i}][{m}] must have {len(self.attributes)} attributes, "
                                     f"{', '.join(self.attributes)}, got {word!r:.60}")
        return [decoded(word[name if name in word else name.encode()] if isinstance(word, Mapping) else word[column],
                        i, m) for m, word in enumerate(x)]


def _heads(y):
    """Return heads as arrays, with or without the root in front, as given."""
    return [_heads_of(heads, i) for i, heads in enumerate(y)]


def _heads_of(given, i):
    heads = np.asarray(given)
    if heads.ndim != 1 or (heads.dtype.kind not in "iu" and len(heads)):
        remedy = "; pairs (head, relation) need relations=True" if heads.ndim == 2 else ""
        raise InputTypeError(f"y[{i}] must be a sequence of heads, integers, got {given!r:.60}{remedy}")
    if len(heads) and not -2**31 <= heads.min() <= heads.max() < 2**31:
        raise ParameterError(f"y[{i}] must hold heads, words 1..n or 0 for the root, got {shown(heads)}")
    return heads.astype(np.int32)


def _split(pairs, i):
    """Return the heads and the relations of a list of pairs."""
    try:
        heads, names = zip(*pairs, strict=True) if len(pairs) else ((), ())
    except (TypeError, ValueError):
        names = None
    if names is None or not all(isinstance(name, str) for name in names):
        raise InputTypeError(f"y[{i}] must hold pairs (head, relation), as relations=True asks, got {pairs!r:.60}"
                             "; of a Sentence s these are list(zip(s.heads[1:], s.relations))")
    return _heads_of(heads, i), list(map(str, names))


def _check_length(labels, n, i):
    if len(labels) != n:
        raise ParameterError(f"y[{i}] must have one head for each of the {n} words of X[{i}], got {len(labels)}")


def _by_count(counted):
    return sorted(counted, key=lambda value: (-counted[value], value))


def _have_root(rows):
    return all(heads[0] == -1 for heads in rows if len(heads))


def _rooted(rows, have_root):
    """Return heads with the root in front."""
    return rows if have_root else [np.concatenate([[-1], heads]).astype(np.int32) for heads in rows]


def _is_text(X):
    """Return whether words of the sentences are texts rather than numbers."""
    x = next(filter(_n_words, X), X[0])
    if hasattr(x, "forms"):
        return True
    if isinstance(x, np.ndarray):
        return x.ndim == 2 and x.dtype.kind in "USO" and len(x) > 0 and any(isinstance(a, TEXTS) for a in x[0])
    return isinstance(x, (list, tuple)) and len(x) > 0 and (isinstance(x[0], Mapping) or (
        isinstance(x[0], (list, tuple)) and any(isinstance(a, TEXTS) for a in x[0])))


def _n_words(x):
    return len(x.forms) if hasattr(x, "forms") else length(x)
