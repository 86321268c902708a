"""Columns of a data file: a model stores the columns of its training data, to compare later data with them."""

from __future__ import annotations

from typing import NamedTuple

from ..core.archive import refusing
from ..core.exceptions import ParameterError, StateError
from ..core.validation import check_integer

KEPT = ("zero_based", "arrays", "multiple_roots", "comment", "separator", "keep_na", "attributes")
"""Options that a model keeps from its training."""
WITH_LABEL = ("csv", "conll")
"""Formats in which the label is one of the columns."""
OF_TOKENS = ("conll", "conllu")
"""Formats with one token a line."""


class Columns(NamedTuple):
    """A description of the columns of a file.

    Attributes
    ----------
    format : str, or None for a model trained in Python
    n : int
        Number of columns, the label among them in csv and CoNLL.
    names : list of str, or None
        Names of all columns, if the file has them.
    label : int, or None
        Number of the column of labels, from 0.
    zero_based, arrays, multiple_roots, comment, separator, keep_na, attributes
        Options that the file was read with, which hold for later files, too.
    trained_on : str, or None
        Numbers of examples and so on of the training data, in words.
    """

    format: str | None
    n: int
    names: list | None = None
    label: int | None = None
    zero_based: bool = False
    arrays: list | None = None
    multiple_roots: bool = False
    comment: str | None = None
    separator: str | None = None
    keep_na: bool = False
    trained_on: str | None = None
    attributes: bool = False

    @property
    def features(self):
        """Names of the feature columns of a file with names."""
        return [name for k, name in enumerate(self.names) if k != self.label]

    @property
    def n_features(self):
        """Number of feature columns."""
        return self.n - (self.label is not None)

    def describe(self):
        """Return a description of the columns for messages."""
        if self.format == "conllu":
            return f"words with {', '.join(self.names)}"
        if self.names is not None:
            text = ", ".join(self.features)
            text = f"the columns {text if len(text) <= 50 else text[:47] + '...'}"
            return text if self.label is None else f"{text} and the label {self.names[self.label]:.20}"
        what = "column" if self.format in WITH_LABEL else "feature"
        return f"{self.n_features} {what}{'s' * (self.n_features != 1)}{'' if self.label is None else ' and a label'}"


def columns_of(model):
    """Return the columns that a loaded model was trained on, or None if they are not known."""
    if model._columns is not None:
        with refusing("the columns in the file of the model are malformed; train it again", StateError):
            found = Columns(**model._columns)
            check_integer("n", found.n, low=1)
            if found.names is not None and len(found.names) != found.n:
                raise ValueError("one name for each")
            found.describe()
            return found
    if getattr(model, "feature_names_in_", None) is not None:
        return Columns(None, len(model.feature_names_in_), model.feature_names_in_.tolist())
    return None


def fitting(data, trained):
    """Return the data with the columns that the model was trained on, in the order of the training.

    Columns of rows are matched by name if both files have names, else by position. Raises ParameterError if they
    differ.
    """
    got = data.columns
    if trained is None:
        return data
    order = check_columns(data.name, trained, got)
    return data if order == list(range(len(order))) or data.shape != "row" else data._replace(X=data.X[:, order])


def check_columns(name, trained, got):
    """Return the positions of the training columns in the file `name`; raise ParameterError if one is missing."""
    order = _order(trained, got)
    if order is None:
        raise misfit(name, trained, got)
    return order


def misfit(name, trained, got):
    """Return the error for columns that do not match; `got` includes the label if the file has one."""
    total = got._replace(label=None)
    if trained.format != got.format and {trained.format, got.format} & set(OF_TOKENS):
        advice = f"give it data of format {trained.format}"
    elif _order(trained, total) is not None and got.format in WITH_LABEL:
        advice = "predict --unlabelled reads data without labels"
    elif got.label is None and got.format in WITH_LABEL and got.n == trained.n and trained.label is not None and \
            (not trained.names or not got.names or trained.names[trained.label] in got.names):
        advice = "leave --unlabelled away"
    elif got.format == "conll":
        advice = "CoNLL has one token a line, its columns between blanks, or tabs by --separator tab"
    elif got.label is not None and trained.names and got.names and set(trained.names) == set(got.names):
        advice = f"give --label {trained.names[trained.label]:.20}"
    else:
        advice = "bring the columns of the training"
    return ParameterError(f"{name}: the model was trained on {trained.describe()}, got {total.describe()}: {advice}")


def _order(trained, got):
    """Return the positions of the training columns among the features of a file, or None if one is missing."""
    if "conllu" in (trained.format, got.format):
        same = trained.format == got.format and set(trained.names) <= set(got.names)
        return [] if same else None
    if ("conll" in (trained.format, got.format) and trained.format != got.format) or \
            trained.n_features != got.n_features:
        return None
    if trained.names is None or got.names is None or trained.features == got.features:
        return list(range(got.n_features))
    if set(got.features) != set(trained.features):
        return None
    return [got.features.index(name) for name in trained.features]


def of_sentences(sentences):
    """Return the columns of CoNLL-U: forms of words, and the tags that are not all missing."""
    names = [name for name in ("upos", "xpos")
             if any(set(getattr(sentence, name)) - {"_"} for sentence in sentences)]
    return Columns("conllu", 1 + len(names), ["forms", *names])
