"""Schemes of labels of chunks, such as BIO, say which labels may follow each other, and which may be first and last."""

from __future__ import annotations

import numpy as np

from ..core.exceptions import ParameterError
from ..core.validation import check_choice
from ..models.chain.allowed import Allowed

RULES = {"BIO": ("BI", "I", ""), "IOB1": ("BI", "B", ""), "BILOU": ("BILU", "IL", "BI"),
           "IOBES": ("BIES", "IE", "BI")}
"""Three strings by scheme: all prefixes; prefixes that need a B or I of the same type before them; prefixes that need,
after them, a prefix of the second string and the same type. Labels are `O`, or a prefix and a type, like `B-NP`."""


def check_scheme(scheme, y, place="y[{}][{}]".format,
                 remedy="pb.metrics.rewritten(labels, scheme) mends a sequence, or pass scheme=None"):
    """Raise ParameterError if labels are not of a scheme, or break it; the error names the first `place(i, t)`."""
    rules = RULES[check_choice("scheme", scheme, RULES)]
    kinds = ", ".join(f"{prefix}-..." for prefix in rules[0])
    for i, labels in enumerate(y):
        previous = None
        for t, label in enumerate([*np.asarray(labels, dtype=object).tolist(), None]):
            if label is not None and not (label == "O" or (
                    isinstance(label, str) and label[:1] in {*rules[0]} and label[1:2] in ("", "-"))):
                raise ParameterError(f"{place(i, t)} must be O or one of {kinds} with "
                                     f"scheme={scheme!r}, got {label!r:.40}; mend it, or choose another scheme or None")
            if not ((t == 0 and label is None) or _may_follow(rules, previous, label)):
                where = "as first label" if previous is None else f"after {previous!r:.40}"
                what = f"{label!r:.40} {where}" if label is not None else f"{previous!r:.40} as last label"
                raise ParameterError(f"{place(i, t - (label is None))} must keep to scheme={scheme!r}, got {what}; "
                                     f"{remedy}")
            previous = label


def allowed_by(scheme, classes):
    """Return the `Allowed` labellings of a scheme for an array of classes."""
    rules, labels = RULES[check_choice("scheme", scheme, RULES)], classes.tolist()
    pairs = np.array([[_may_follow(rules, a, b) for b in labels] for a in labels], dtype=bool)
    return Allowed(pairs, np.array([_may_follow(rules, None, b) for b in labels], dtype=bool),
                   np.array([_may_follow(rules, a, None) for a in labels], dtype=bool))


def _may_follow(rules, a, b):
    """Return whether label b may follow label a; None is the place before the first and after the last label."""
    _, after, before = rules
    a, b = ("" if label is None else label for label in (a, b))
    if b[:1] and b[0] in after:
        return a[:1] in ("B", "I") and a[1:] == b[1:]
    return not (a[:1] and a[0] in before)
