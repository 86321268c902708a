"""Features of the tokens of CoNLL columns: the word and its form, other columns, and those of its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.exceptions import InputTypeError


def token_features(tokens: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Features of the tokens of one sentence, as the command line makes them of CoNLL columns.

    They are the word in small letters, its last letters and its form, the other columns, and the words and columns of
    up to two tokens before and after.

    Parameters
    ----------
    tokens : list of tuples of str
        The columns of every token: the word first, no label.

    Returns
    -------
    list of dict
        One sequence for `ChainSVM` and `ChainCRF`, also for models that `pybundle train` saved.

    Raises
    ------
    InputTypeError
        If a token is no tuple or list of texts.

    Examples
    --------
    >>> from pybundle.datasets import token_features
    >>> token_features([("Dogs", "NNS"), ("bark", "VBP")])[1]["-1"]
    {'word': 'dogs', '2': 'NNS'}
    """
    tokens = list(tokens)
    for t, token in enumerate(tokens):
        if not isinstance(token, (tuple, list)) or not token or not all(isinstance(column, str) for column in token):
            raise InputTypeError(f"tokens[{t}] must be a tuple of texts, the word first, got {token!r:.40} of type "
                                 f"{type(token).__name__}; a word alone is (word,)")
    around = [{"word": token[0].lower(), **{str(k): column for k, column in enumerate(token[1:], 2)}}
              for token in tokens]
    found = []
    for t, token in enumerate(tokens):
        word = token[0]
        mine = {"bias": 1.0, **around[t], "suffix": word[-3:], "suffix2": word[-2:], "is_title": word.istitle(),
                "is_upper": word.isupper(), "is_digit": word.isdigit(), "is_first": t == 0,
                "is_last": t == len(tokens) - 1}
        for shift in (-2, -1, 1, 2):
            if 0 <= t + shift < len(tokens):
                mine[f"{shift:+d}"] = around[t + shift]
        found.append(mine)
    return found
