"""Online rounds of a dependency parser whose templates are groups: their time against the number of weights.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/mkl_parsing.py

UD English EWT with truth parts of speech; 60 templates with weights of their own each. Writes results/mkl_parsing.md.
What multiple kernel learning does with the templates is in online_mkl.py.
"""

import argparse
import time

from common import RESULTS, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
import scipy.sparse as sp
from parsing import ATTRIBUTES, TEMPLATES, TREEBANKS, load

import pybundle as pb
from pybundle.core.ragged import Ragged

MORE = (
    # those of the word alone are in every tree of a sentence: neither learner can use them
    "h.lower", "m.lower", "h.xpos", "m.xpos", "h.lower h.xpos direction", "m.lower m.xpos direction",
    "h.lower m.lower distance", "h.lower h.xpos m.lower m.xpos", "h.xpos m.lower m.xpos direction",
    "h.lower h.xpos m.xpos direction", "h.lower m.lower m.xpos direction", "h.lower h.xpos m.lower direction",
    "h-1.lower h.lower direction", "h.lower h+1.lower direction", "m-1.lower m.lower direction",
    "m.lower m+1.lower direction",
    "h-1.xpos h.xpos h+1.xpos m.xpos direction", "h.xpos m-1.xpos m.xpos m+1.xpos direction",
    "h-1.pos h.pos h+1.pos m-1.pos m.pos m+1.pos direction", "h.pos m-1.lower m.pos m+1.lower direction",
    "h+2.pos h.pos m.pos direction", "h.pos m.pos m+2.pos direction", "h-2.pos h.pos m.pos direction",
    "h.pos m.pos m-2.pos direction", "h.lower h+1.xpos m.xpos direction", "h.xpos m.lower m+1.xpos direction",
    "h.xpos m.lower m-1.xpos direction", "h.lower h-1.xpos m.xpos direction", "h.pos m.pos distance set.pos",
    "h.lower m.pos set.pos", "h.lower m.pos each.pos",
)
BITS, SMALL = 16, 11
OWN, OTHERS = 8, (0, 80, 2200)
"""Sentences learnt from with features of arcs that are listed, and more whose features are in the vocabulary."""
LISTED_HEADER = ("weights", "a round, ms (the first as 1)")
SPEED_HEADER = ("weights", "a round, ms (the first as 1)", "decoding in it", "the rest of it",
                "as many reads at random places")


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    data = load(TREEBANKS["English EWT"])["train"]
    text = TEXT.format(version=version(), speed=table(SPEED_HEADER, speed(data)),
                       listed=table(LISTED_HEADER, speed_listed(data)), own=OWN)
    (RESULTS / "mkl_parsing.md").write_text(text, encoding="utf-8")
    print(text)


def parser_of(templates, bits=BITS):
    return pb.models.Dependency.hashed(bits, ATTRIBUTES, templates, blocks=True)


def speed(data):
    """CPU ms of a round, of the decoding in it, of what is left, and of as many plain reads, by the number of weights.

    The least of the epochs after the first over the same sentences.
    """
    X, Y = data[0][:1500], data[1][:1500]
    n_reads = np.mean([(len(x) + 1) ** 2 for x in X]) * len(TEMPLATES + MORE)
    found = {bits: [np.inf] * 3 for bits in (SMALL, 14, 17, 18)}
    for _ in range(3):                  # in turn, for what else the machine does
        for bits, least in found.items():
            model = parser_of(TEMPLATES + MORE, bits)
            least[:] = map(min, least, (*round_times(model, X, Y), read_time(model.dim, n_reads)))
            print(bits, *(f"{value:.3f}" for value in least), sep=" | ", flush=True)
    rows = []
    for bits, (whole, decoding, reads) in found.items():
        values = whole, decoding, whole - decoding, reads
        one = found[SMALL]
        firsts = one[0], one[1], one[0] - one[1], one[2]
        rows.append((f"{(len(TEMPLATES + MORE) << bits):.2g}",
                     *(f"{value:.3f} ({value / first:.2f})" for value, first in zip(values, firsts, strict=True))))
    return rows


def speed_listed(data):
    """CPU ms of a round over the same sentences, by the size of the vocabulary, that of `OTHERS` more sentences."""
    own, Y = data[0][:OWN], data[1][:OWN]
    n_arcs = np.array([len(x) ** 2 for x in own])
    learners = {}
    for count in OTHERS:
        numbers, sizes = numbered([*data[0][OWN:OWN + count], *own])
        columns = (numbers[-n_arcs.sum():] + np.cumsum(sizes) - sizes).astype(np.int32)
        arcs = sp.csr_array((np.ones(columns.size, np.float32), columns.ravel(),
                             np.arange(len(columns) + 1) * len(sizes)), shape=(len(columns), sizes.sum()))
        learners[int(sizes.sum())] = np.repeat(np.arange(len(sizes)), sizes), arcs
    offsets, least = np.concatenate([[0], np.cumsum(n_arcs)]), dict.fromkeys(learners, np.inf)
    for _ in range(3):                  # in turn, for what else the machine does
        for dim, (groups, arcs) in learners.items():
            times, _ = epoch_times(pb.models.Dependency(dim), Ragged(arcs, offsets), Y, groups, n_epochs=100)
            least[dim] = min(least[dim], times.min())
            print(dim, least[dim], sep=" | ", flush=True)
    first = next(iter(least.values()))
    return [(f"{dim:.2g}", f"{value:.3f} ({value / first:.2f})") for dim, value in least.items()]


def numbered(X):
    """Features of all arcs numbered as they are met, template by template, (n_arcs, T); how many a template has."""
    numbers, sizes = [], []
    for template in TEMPLATES + MORE:
        if "each." in template:         # more than one feature an arc
            continue
        model = parser_of([template], 24)
        arcs, _ = model._bind(X)
        w, keys = np.arange(model.dim, dtype=float), []
        for i in range(len(X)):
            scores = arcs.scores(i, w)[:, :, 0]     # of the one feature: its number
            is_arc = ~np.eye(len(scores), dtype=bool)
            is_arc[:, 0] = False
            keys.append(scores[is_arc])
        _, first, place = np.unique(np.concatenate(keys), return_index=True, return_inverse=True)
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        numbers.append(rank[place])
        sizes.append(len(first))
    return np.stack(numbers, axis=1), np.array(sizes)


def epoch_times(model, X, Y, groups=None, n_epochs=6):
    """CPU ms of a round in every epoch after the first; and the learner."""
    times = []

    def tick(learner):
        times.append(time.thread_time())

    learner = pb.mkl.OnlineMKL(groups, model=model, lam=1e-5, eta0=0.1, n_epochs=n_epochs, certify=False,
                               random_state=0, callback=tick).fit(X, Y)
    return 1e3 * np.diff(times) / len(Y), learner


def round_times(model, X, Y):
    """ms of a round, and of decoding a sentence at the point that was learnt."""
    times, learner = epoch_times(model, X, Y)
    oracle, theta = model.oracle(X, Y), learner._learner.theta
    w, scales, decoding = np.ravel(theta.values), theta.scales, np.inf
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(X))[:, None]
        began = time.thread_time()
        for row in order:
            oracle.solve_scaled(row, w, scales)
        decoding = min(decoding, time.thread_time() - began)
    return times.min(), 1e3 * decoding / len(X)


def read_time(dim, n_reads, count=1 << 22):
    """ms of as many reads at random places of `dim` numbers as a round makes."""
    weights, places = np.ones(dim), np.random.default_rng(0).integers(0, dim, count)
    best = np.inf
    for _ in range(3):
        began = time.thread_time()
        weights.take(places)
        best = min(best, time.thread_time() - began)
    return 1e3 * best * n_reads / count


TEXT = """\
# Rounds of a parser whose templates are groups

Written by `asv_benchmarks/reproduce/mkl_parsing.py` with pybundle {version}; one thread. UD English EWT (2.16), 60
templates of hashed features, each a group. Accuracy and weights are in papers/online_mkl.md.

1500 sentences, all templates, CPU time of the fastest of the epochs after the first, by the number of weights. Decoding
reads a weight for each template of each arc, as it does for any learner. In the first row most features share weights,
which fit into the second level of the cache; with more weights there are more different features, up to forty times as
many met in these sentences, each in a cache line of its own. The last column reads as many numbers at random places of
an array of that size, and does nothing else. The rest of a round is what the learner does: gradient, norms, prox,
scales.

{speed}

The same without hashing: features of arcs as rows of a CSR matrix, numbered template by template as they are met (the
two templates with several features an arc left out). Rounds over the same {own} sentences, in vocabularies of these
alone and of more sentences in front of them: what is active stays the same.

{listed}
"""


if __name__ == "__main__":
    main()
