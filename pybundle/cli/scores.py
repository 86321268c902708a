"""Score labels against the true labels."""

import numpy as np

from ..metrics import average_precision, chunk_scores, concordance, ndcg, reciprocal_rank
from ..metrics.chunks import PREFIXES


def accuracy(truth, found):
    """Return the fraction of equal labels in two lists of the same length; NaN for empty lists."""
    return sum(a == b for a, b in zip(truth, found, strict=True)) / len(truth) if truth else float("nan")


def holds_chunks(sequences):
    """Return whether all labels are O or have a prefix and a type, and at least one has them."""
    labels = {label for labels in sequences for label in labels}
    return labels != {"O"} and all(
        label == "O" or (isinstance(label, str) and label[1:2] == "-" and label[0] in PREFIXES) for label in labels)


def chunk_f1(estimator, X, y):
    """Return the F1 of chunks that an estimator finds, by which a search chooses C."""
    return chunk_scores(y, estimator.predict(X)).total.f1


def ranking_scores(grades, scores, groups):
    """Return the scores of a ranking by name; those of relevant rows only if grades >= 1 exist, and none below 0."""
    scores = np.asarray(scores, dtype=np.float64)
    found = {"ordered pairs": concordance(grades, scores, groups)}
    if grades.min() >= 0.0 and grades.max() >= 1.0:
        found |= {"NDCG@10": ndcg(grades, scores, groups, k=10), "NDCG": ndcg(grades, scores, groups),
                  "MAP": average_precision(grades, scores, groups), "MRR": reciprocal_rank(grades, scores, groups)}
    return found
