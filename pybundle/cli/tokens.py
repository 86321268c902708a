"""Features of the tokens of CoNLL columns: the word, its neighbours, its form, and the other columns around it."""

from __future__ import annotations


def features(tokens):
    """A dictionary for each token of a sentence; tokens are tuples of columns, the word first.

    >>> features([("Dogs", "NNS"), ("bark", "VBP")])[1]["-1"]
    {'word': 'dogs', '2': 'NNS'}
    """
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
