"""Score labels against the true ones: accuracy, chunks, heads of words."""


def accuracy(truth, found):
    """Return the fraction of equal labels in two lists of the same length; NaN for empty lists."""
    return sum(a == b for a, b in zip(truth, found, strict=True)) / len(truth) if truth else float("nan")


def labelled_scores(truth, found):
    """Return the LAS of lists of (head, relation), with subtypes like `det:def` and without them.

    The CoNLL 2018 shared task (Zeman et al. 2018) counts without subtypes: it cuts relations at the colon.

    >>> labelled_scores([(2, "det"), (0, "root")], [(2, "det:def"), (0, "root")])
    {'LAS without subtypes': 1.0, 'LAS with subtypes': 0.5}
    """
    cut = ([(head, relation.partition(":")[0]) for head, relation in side] for side in (truth, found))
    return {"LAS without subtypes": accuracy(*cut), "LAS with subtypes": accuracy(truth, found)}


def chunk_scores(truth, found):
    """Return scores of the chunks in labels like B-NP, I-NP, O: a chunk is right if tokens and kind are the same.

    >>> chunk_scores([["B-NP", "I-NP", "O"]], [["B-NP", "I-NP", "B-VP"]])
    {'chunk precision': 0.5, 'chunk recall': 1.0, 'chunk f1': 0.6666666666666666}
    """
    mine, own = ({(i, *chunk) for i, labels in enumerate(side) for chunk in chunks(labels)} for side in (found, truth))
    right = len(mine & own)
    return {"chunk precision": right / max(len(mine), 1), "chunk recall": right / max(len(own), 1),
            "chunk f1": 2.0 * right / max(len(mine) + len(own), 1)}


def chunks(labels):
    """Return (first token, token after the last, kind) of every chunk, as the scorer of CoNLL-2000 counts them.

    A chunk begins at B and S, and at I or E if no chunk of that kind is open; it ends after E and S.

    >>> chunks(["B-NP", "I-NP", "I-VP", "O", "B-NP", "B-NP"])
    [(0, 2, 'NP'), (2, 3, 'VP'), (4, 5, 'NP'), (5, 6, 'NP')]
    """
    found, start, kind = [], None, None
    for t, label in enumerate([*labels, "O"]):
        prefix, _, this = label.partition("-")
        inside = prefix in ("B", "I", "E", "S", "U", "L", "M")
        goes_on = inside and start is not None and this == kind and prefix in ("I", "E", "L", "M")
        if start is not None and not goes_on:
            found.append((start, t, kind))
            start = None
        if inside and not goes_on:
            start, kind = t, this
        if inside and prefix in ("E", "L", "S", "U"):
            found.append((start, t + 1, kind))
            start = None
    return found


def holds_chunks(sequences):
    """Return whether all labels are O or have a prefix, and at least one has a prefix."""
    labels = {label for labels in sequences for label in labels}
    return labels != {"O"} and all(
        label == "O" or (isinstance(label, str) and label[:2] in ("B-", "I-", "E-", "S-", "U-", "L-", "M-"))
        for label in labels)
