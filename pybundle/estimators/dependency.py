"""`DependencyParser`, a parser of sentences whose words are texts or numbers."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import ParameterError, StateError
from ..core.graph import WeightedLabels
from ..core.labels import as_output
from ..core.ragged import Ragged
from ..core.types import Callbacks, Data, Floats
from ..core.validation import check_choice, check_flag
from ..models import Dependency
from ..oracles import arborescence_marginals
from ..solvers.method import Method
from .base import without_weightless
from .collections import by_blocks
from .heads import all_heads, check_length, have_root, rooted, split_pairs
from .probabilities import NeedsLogLoss, Probabilities
from .structured import StructuredEstimator, as_fitted, check_list, length
from .tokens import single
from .words import Words, is_text, n_words


class DependencyParser(Words, Probabilities, StructuredEstimator):
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
    {C}
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
    uncounted : sequence of str
        Values of "pos", such as ("PUNCT",), of words that the loss does not count; for `loss="hinge"`. `score` counts
        all words.
    {parameters}

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
        Number of attributes of a word, or of columns of the CSR matrices.
    {certificate}

    Notes
    -----
    `score` is the fraction of words with the right head (UAS), with relations that of words with both right (LAS);
    `pb.metrics.attachment_scores` computes these and more. Words whose true relation the training did not show count
    as wrong.

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
                 counts: str = "both", uncounted: Sequence[str] = (), tol: float = 0.001, atol: float | None = None,
                 method: str | Method = "auto", max_iter: int | None = None, time_limit: float | None = None,
                 n_jobs: int | None = None, random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    @property
    def _log_loss(self):
        return self.loss == "logistic"

    def _take(self, X, y, sample_weight):
        X, y, weights = super()._take(X, y, sample_weight)
        is_empty = np.array([n_words(x) == 0 for x in X])      # sentences without words have no loss
        for i in np.flatnonzero(is_empty).tolist():
            if np.asarray(y[i]).tolist() not in ([], [-1]):
                raise ParameterError(f"y[{i}] must have no heads, as X[{i}] has no words, got {y[i]!r:.60}")
        return without_weightless(X, y, np.where(is_empty, 0.0, weights)) if is_empty.any() else (X, y, weights)

    def _survey(self, X, y, weights):
        """Return a tuple (has CSR rows, number of columns, counts of values, counts of rules, heads have roots)."""
        self._check_sentences(X)
        is_sparse = sp.issparse(X.values if isinstance(X, Ragged) else X[0])
        n_features = X[0].shape[1] if is_sparse else len(self.attributes)
        counts = None if is_sparse or not is_text(X) else self._count_values(X)
        if not check_flag("relations", self.relations):
            for name, default in (("counts", "both"), ("relation_templates", None)):
                if (value := getattr(self, name)) is not default and value != default:
                    raise ParameterError(f"{name} must be {default!r} with relations=False, got {value!r:.40}")
            return bool(is_sparse), int(n_features), counts, None, have_root(all_heads(y))
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
            return x, self._counted(X, rooted(all_heads(y), fitted["with_root_"]), fitted)
        number = {relation: r for r, relation in enumerate(relations)}
        codes = [len(relations) * heads + np.array([number[name] for name in names], np.int32)
                 for heads, names in map(split_pairs, y, range(len(y)))]
        return x, self._counted(X, rooted(codes, False), fitted)

    def _counted(self, X, truths, fitted):
        """Return the truths, with weights of words if some words have no part in the loss."""
        is_odd = not isinstance(self.uncounted, Collection) or not all(isinstance(tag, str) for tag in self.uncounted)
        if not is_odd and len(self.uncounted) == 0:
            return truths
        if is_odd or isinstance(self.uncounted, str) or self._log_loss or fitted["is_sparse_"] \
                or self._tag_column() is None:
            raise ParameterError("uncounted must be a tuple of values of the attribute 'pos' of words, as texts, and "
                                 f"empty with loss='logistic', got {self.uncounted!r:.40}")
        odd, is_text = set(self.uncounted), fitted["kinds_"] is not None
        return [WeightedLabels(codes, np.array([1, *(tag not in odd for tag in self._tags(x, i, is_text))]))
                for i, (x, codes) in enumerate(zip(X, truths, strict=True))]

    def _make_model(self, fitted):
        if fitted.is_sparse_:
            return Dependency(fitted.n_features_in_, single_root=self.single_root)
        names = tuple(self.attributes)
        more = {} if fitted.relations_ is None else {
            "n_relations": len(fitted.relations_), "counts": self.counts, "tag": "pos" if "pos" in names else None,
            "relation_templates": self._relation_templates(), "allowed": self._rules(fitted)}
        return Dependency.hashed(self.hash_bits, names, self._templates(), single_root=self.single_root, **more)

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
            truth = rooted(all_heads(y), have_root(all_heads(y)))
            found, truth = [heads[self.with_root_:] for heads in found], [heads[1:].tolist() for heads in truth]
        else:
            truth = [list(zip(heads.tolist(), names, strict=True))
                     for heads, names in map(split_pairs, y, range(len(y)))]
        right, total = np.zeros(len(found)), np.zeros(len(found))
        for i, (mine, own) in enumerate(zip(found, truth, strict=True)):
            check_length(own, len(mine), i)
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


def _by_count(counted):
    return sorted(counted, key=lambda value: (-counted[value], value))
