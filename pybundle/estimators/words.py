"""`Words` converts the words of sentences, as users write them, to the numbers, kinds and rules of a parser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, ParameterError
from ..core.ragged import Ragged, array_of
from ..core.validation import check_integer, integer_array
from ..models.dependency.templates import DEFAULT_TEMPLATES, MOST_KINDS, RELATION_TEMPLATES, ROOT, parse_templates
from .heads import check_length, split_pairs
from .structured import length
from .tokens import TEXTS, decoded, is_single

FIELDS = {"word": "forms", "lower": "forms", "lemma": "lemmas", "pos": "upos", "xpos": "xpos", "relation": "relations"}
"""Attributes of words, and the fields of `pybundle.datasets.Sentence` for them; "lower" is the form in lower case."""


class Words:
    """Mixin of parsers that converts words by the parameters `attributes`, `templates` and `min_count`."""

    def _templates(self):
        return DEFAULT_TEMPLATES if self.templates is None else self.templates

    def _relation_templates(self):
        return RELATION_TEMPLATES if self.relation_templates is None else self.relation_templates

    def _count_values(self, X):
        """Return a Counter of values for each column; if `min_count` is 1, only for the columns of `_between`."""
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

    def _count_rules(self, X, y, weights, of_texts):
        """Return a Counter of (tag of the head, tag of the word, direction, relation), by weights of sentences."""
        counted, column = Counter(), self._tag_column()
        for i, (x, pairs, weight) in enumerate(zip(X, y, weights.tolist(), strict=True)):
            heads, names = split_pairs(pairs, i)
            n = n_words(x)
            check_length(names, n, i)
            if len(heads) and not 0 <= heads.min() <= heads.max() <= n:
                raise ParameterError(f"y[{i}] must hold heads 0..{n}, got {heads.tolist()!r:.60}")
            tags = [""] * (n + 1)
            if column is not None:
                tags[1:] = self._tags(x, i, of_texts)
            for m, (h, name) in enumerate(zip(heads.tolist(), names, strict=True), 1):
                counted[tags[h], tags[m], "root" if h == 0 else "right" if m > h else "left", name] += weight
        odd = next((text for rule in counted for text in rule if "\t" in text), None)
        if odd is not None:
            raise ParameterError(f"tags and relations must be without tabs, used in allowed_, got {odd!r:.40}")
        return counted

    def _numbers(self, x, i):
        words, shape = integer_array(f"X[{i}]", x), (n_words(x), len(self.attributes))
        if words.shape != shape or (words < 0).any():
            raise ParameterError(f"X[{i}] must hold attributes of words, integers >= 0 of shape {shape}, got shape "
                                 f"{words.shape}, least {words.min(initial=0)}")
        return words

    def _tag_column(self):
        return self.attributes.index("pos") if "pos" in self.attributes else None

    def _tags(self, x, i, of_texts):
        """Return the attribute "pos" of all words of sentence i, as texts."""
        column = self._tag_column()
        return self._column(x, i, column) if of_texts else self._numbers(x, i)[:, column].astype(str).tolist()

    def _rules(self, fitted):
        """Return `allowed_` as the rows of numbers that `Dependency.hashed` takes."""
        column, tables = self._tag_column(), self._tables(vars(fitted))
        relations = {relation: r for r, relation in enumerate(fitted.relations_)}

        def number(tag):
            return 0 if column is None else int(tag) if tables is None else tables[column](tag)

        rules = (rule.split("\t") for rule in fitted.allowed_)
        return np.array([(ROOT if side == "root" else number(head), number(word), side != "left", relations[relation])
                         for head, word, side, relation in rules])

    def _between(self):
        """Return the columns of the attributes that templates read between head and word, by `set` or `each`."""
        templates = parse_templates(self._templates(), tuple(self.attributes))
        if self.relations:
            templates += parse_templates(self._relation_templates(), tuple(self.attributes), "relation_templates")
        return sorted({max(t.set_column, t.each_column) for t in templates} - {-1})

    def _tables(self, fitted):
        """Return a function from values to numbers for each attribute, or None if words are numbers already."""
        if fitted["kinds_"] is None:
            return None
        between, tables = self._between(), []
        for column in range(len(self.attributes)):
            known, other = None, 0
            if column in between:
                kinds = self._values(fitted["kinds_"], column)
                known, other = {kind: k for k, kind in enumerate(kinds)}, MOST_KINDS - 1
            elif fitted["vocabulary_"] is not None:
                known = {value: _hashed(value) for value in self._values(fitted["vocabulary_"], column)}
            tables.append(_hashed if known is None else lambda text, known=known, other=other: known.get(text, other))
        return tables

    def _words(self, X, fitted, tables):
        """Return sentences as the model takes them; `tables` convert words that are texts."""
        self._check_sentences(X)
        if not any(map(n_words, X)):
            return [np.empty((0, len(self.attributes)), np.int64)] * len(X)
        if fitted["is_sparse_"] or not is_text(X):
            if fitted["kinds_"] is not None:
                raise ParameterError("X must hold words as texts, as in the fit, got arrays of numbers")
            return X if isinstance(X, Ragged) else [array_of(x, f"X[{i}]") for i, x in enumerate(X)]
        if fitted["kinds_"] is None:
            raise ParameterError("X must hold arrays of numbers, as in the fit, got texts")
        found = []
        for i, x in enumerate(X):
            words = np.empty((n_words(x), len(self.attributes)), np.int64)
            for column, table in enumerate(tables):
                words[:, column] = [*map(table, self._column(x, i, column))]
            found.append(words)
        return found

    def _values(self, names, column):
        """Return the values of one attribute among names like "word=dog"."""
        start = f"{self.attributes[column]}="
        return [name[len(start):] for name in names if name.startswith(start)]

    def _check_sentences(self, X):
        """Refuse texts and single words where sentences are expected, as from a user who passes one sentence as X."""
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


def _hashed(text):
    return crc32(text.encode())


def is_text(X):
    """Return whether the attributes of words are texts rather than numbers."""
    x = next(filter(n_words, X), X[0])
    if hasattr(x, "forms"):
        return True
    if isinstance(x, np.ndarray):
        return x.ndim == 2 and x.dtype.kind in "USO" and len(x) > 0 and any(isinstance(a, TEXTS) for a in x[0])
    return isinstance(x, (list, tuple)) and len(x) > 0 and (isinstance(x[0], Mapping) or (
        isinstance(x[0], (list, tuple)) and any(isinstance(a, TEXTS) for a in x[0])))


def n_words(x):
    """Return the number of words of a sentence, or of rows of its matrix."""
    return len(x.forms) if hasattr(x, "forms") else length(x)
