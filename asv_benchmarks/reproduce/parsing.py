"""Dependency parsing of two treebanks: unlabelled attachment, certified gaps, crossing arcs.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/parsing.py [--time-limit 150]
    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/parsing.py --relations    # that section alone
    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/parsing.py --relations "English EWT"   # a part of it

UD English EWT and UD Dutch LassySmall (release 1.4, strongly non-projective) with gold parts of speech; every token
counts, punctuation included. Arc-factored hashed features, wrong-head loss summed over sentences, one root arc, one
thread. lam is chosen on the development part. On the Dutch test part the best tree is compared with the best
projective tree under the same weights. Relations are those of the command line, without an option and with
`--no-relations`; beside them a separate linear classifier names the relations of the heads that both find. Writes
results/parsing.md and a plot for each treebank.
"""

import argparse
import json
import multiprocessing
import operator
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from common import HEADER, METHODS, RESULTS, cells, data_file, solve, table, version  # sets threads: before NumPy

# isort: split
import curves
import numpy as np
from sklearn.feature_extraction import FeatureHasher

import pybundle as pb
from pybundle.datasets import read_conllu
from pybundle.models import TREEBANK_RELATION_TEMPLATES
from pybundle.models import TREEBANK_TEMPLATES as TEMPLATES

TREEBANKS = {"English EWT": "ud_english_ewt/en_ewt-ud", "Dutch LassySmall": "ud_dutch_lassysmall/nl_lassysmall-ud"}
GRIDS = {"English EWT": (300.0, 100.0, 30.0, 10.0), "Dutch LassySmall": (100.0, 30.0, 10.0, 3.0)}
ATTRIBUTES = ("lower", "xpos", "pos")
BITS = 18
USUAL = ("h.lower m.lower", "h.lower m.xpos", "h.xpos m.lower", "h.xpos m.xpos direction", "h.pos m.pos distance",
         "m.lower direction", "h.lower direction", "m.lower m.xpos", "m-1.xpos m.xpos", "m.xpos m+1.xpos",
         "h-1.xpos h.xpos", "h.xpos h+1.xpos", "h.xpos m-1.xpos m.xpos", "h.xpos m.xpos m+1.xpos",
         "h-1.xpos h.xpos m.xpos", "h.xpos h+1.xpos m.xpos", "h.xpos m.suffix direction")
RICH = (*TREEBANK_RELATION_TEMPLATES, "h.xpos m.suffix direction", "h.suffix m.xpos direction")
"""Templates of separate classifiers: words and tags of both ends and their neighbours; or those of the parser, and
suffixes of three letters."""
CONSTANTS = (0.03, 0.1, 0.3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=150.0,
                        help="seconds for one solve of English; a third of it for Dutch (default 150)")
    parser.add_argument("--relations", nargs="*", choices=TREEBANKS, help="measure the section on relations alone, "
                        "all of it or a treebank, and keep what the page says of the others")
    arguments = parser.parse_args()
    if arguments.relations is not None:
        head, _, section = (RESULTS / "parsing.md").read_text(encoding="utf-8").partition("\n## Relations\n")
        parts = dict(part.split("\n", 1) for part in section.split("\n### ")[1:])
        for name in arguments.relations or TREEBANKS:
            parts[name] = relations(name)
            (RESULTS / "parsing.md").write_text(head + joined(parts), encoding="utf-8")
        return
    limit = arguments.time_limit
    sections, compared = [], []
    model = pb.models.Dependency.hashed(BITS, ATTRIBUTES, TEMPLATES)
    for name, stem in TREEBANKS.items():
        treebank = load(stem)
        risks = {part: pb.risks.Structured(model, X, Y) for part, (X, Y) in treebank.items()}
        found = train(risks, treebank, GRIDS[name], limit if name == "English EWT" else limit / 3.0)
        best = curves.best_lam(found, "dev")
        curves.plot(found, best, "wrong heads, %", name, RESULTS / picture(name))
        sections.append(report(name, treebank, model, found, best))
        print(sections[-1], flush=True)
        for method in ("auto", "oca, P = 16", "BMRM", "Prox-BMRM"):
            lam = GRIDS[name][0]         # where auto started from zero, too
            result = found[lam][0] if method == "auto" else solve(risks["train"], lam, *METHODS[method],
                                                                 time_limit=limit / 4.0)
            compared.append((name, *cells(f"{lam:g}", method, result)))
            print(*compared[-1], sep=" | ", flush=True)
    text = TEXT.format(version=version(), dim=model.dim, n_templates=len(TEMPLATES), limit=limit,
                       sections="\n\n".join(sections), compared=table(("treebank", *HEADER), compared))
    text += joined({name: relations(name) for name in TREEBANKS})
    (RESULTS / "parsing.md").write_text(text, encoding="utf-8")


def joined(parts):
    """The section on relations, of the texts by treebank."""
    return RELATIONS + "".join(f"\n### {name}\n\n{parts[name].strip()}\n" for name in TREEBANKS if name in parts)


def relations(name):
    """What the commands print of a treebank, processor seconds and memory of the training; a separate classifier."""
    rows, parsed, own, stem = [], {}, {}, TREEBANKS[name]
    test = str(data_file(f"{stem}-test.conllu.gz"))
    with tempfile.TemporaryDirectory() as folder:
        for option in ("-", "--no-relations"):
            model, parsed[option] = f"{folder}/parser.npz", f"{folder}/{option}.conllu"
            program = [sys.executable, "-m", "pybundle"]
            command = [*program, "train", str(data_file(f"{stem}-train.conllu.gz")), "--json", "--save", model]
            with subprocess.Popen([*command, *([] if option == "-" else [option])], stdout=subprocess.PIPE,
                                  text=True) as run:
                trained = json.loads(run.stdout.read())
                _, _, usage = os.wait4(run.pid, 0)
                run.returncode = 0
            found = subprocess.run([*program, "evaluate", "--json", "--load", model, test], capture_output=True,
                                   check=True)
            scores = {key: f"{100 * value:.2f}" for key, value in json.loads(found.stdout).items() if key != "data"}
            own[option] = scores.get("LAS with subtypes", "-")
            rows.append((option, *(scores.get(key, "-") for key in (
                "UAS", "LAS with subtypes", "LAS without subtypes")), f"{trained['gap']:.1e}",
                f"{trained['passes']:.0f}", f"{usage.ru_utime + usage.ru_stime:.0f}", f"{usage.ru_maxrss / 1e6:.2f}"))
            print(name, *rows[-1], sep=" | ", flush=True)
            with open(parsed[option], "wb") as file:
                subprocess.run([*program, "predict", "--load", model, test], stdout=file, check=True)
        separate = []
        for templates in (USUAL, RICH):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                scores, cost = pool.submit(separate_classifier, stem, parsed, templates).result()
            separate += [(option, f"{100 * found.uas:.2f}", own[option], f"{100 * found.las:.2f}", str(len(templates)),
                          *cost) for option, found in scores.items()]
    print(*separate, sep="\n", flush=True)
    return "\n\n".join([f"With pybundle {version()}.", table(ROWS, rows), table(SEPARATE_ROWS, separate)])


def separate_classifier(stem, parsed, templates):
    """Scores with relations that a classifier of true arcs gives the heads in files; C, seconds and memory."""
    parts = {part: read_conllu(data_file(f"{stem}-{part}.conllu.gz")) for part in ("train", "dev", "test")}
    X, y = {}, {}
    for part in ("train", "dev"):
        X[part] = arc_features(parts[part], [sentence.heads for sentence in parts[part]], templates)
        y[part] = [relation for sentence in parts[part] for relation in sentence.relations]
    found = []
    for C in CONSTANTS:
        start = time.process_time()
        svm = pb.MulticlassSVM(C=C, fit_intercept=False).fit(X["train"], y["train"])
        seconds = time.process_time() - start
        found.append((svm.score(X["dev"], y["dev"]), C, seconds, svm))
    _, C, seconds, svm = max(found)
    truth, scores = [list(zip(s.heads[1:], s.relations, strict=True)) for s in parts["test"]], {}
    for option, file in parsed.items():
        trees = [sentence.heads for sentence in read_conllu(file)]
        relations = iter(svm.predict(arc_features(parts["test"], trees, templates)))
        scores[option] = pb.metrics.attachment_scores(truth, [[(head, str(next(relations))) for head in heads[1:]]
                                                              for heads in trees])
    return scores, (f"{C:g}", f"{seconds:.0f}", f"{time.process_time():.0f}",
                    f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f}")


def arc_features(sentences, trees, templates):
    """Hashed features of the arcs of trees, a CSR row for each word."""
    hasher = FeatureHasher(2**BITS, input_type="string", alternate_sign=False, dtype=np.float32)
    return hasher.transform(arc_texts(sentences, trees, templates))


def arc_texts(sentences, trees, templates):
    atoms = sorted({atom for template in templates for atom in template.split()})
    parsed = [re.fullmatch(r"([hm])([+-][0-9])?\.([a-z]+)", atom) or atom for atom in atoms]
    pickers = [(template, operator.itemgetter(*map(atoms.index, template.split()))) for template in templates]
    for sentence, heads in zip(sentences, trees, strict=True):
        columns = {name: ["<root>", *values(sentence, name)] for name in ATTRIBUTES}
        columns["suffix"] = [word[-3:] for word in columns["lower"]]
        for m, h in enumerate(heads[1:].tolist(), 1):
            side = "root" if h == 0 else "left" if h > m else "right"
            special = {"direction": side, "distance": f"{side}{min(abs(h - m), 6)}",
                       "set.pos": " ".join(sorted(set(columns["pos"][min(h, m) + 1:max(h, m)])))}
            found = []
            for atom in parsed:
                if isinstance(atom, str):
                    found.append(special[atom])
                else:
                    place = (h if atom[1] == "h" else m) + int(atom[2] or 0)
                    found.append(columns[atom[3]][place] if 0 <= place < len(heads) else "<none>")
            yield [f"{template} {'|'.join(pick(found))}" for template, pick in pickers]


def load(stem):
    """Attributes and heads of the three parts; words seen once in training are all alike."""
    parts = {part: read_conllu(data_file(f"{stem}-{part}.conllu.gz")) for part in ("train", "dev", "test")}
    least_seen = {"lower": 2, "xpos": 1, "pos": 1}
    numbers = {}
    for name, least in least_seen.items():
        counts = Counter(value for sentence in parts["train"] for value in values(sentence, name))
        known = sorted(value for value, count in counts.items() if count >= least)
        numbers[name] = {value: number for number, value in enumerate(known, 1)}
    return {part: ([np.array([[numbers[name].get(value, 0) for value in values(sentence, name)] for name in numbers]).T
                    for sentence in sentences], [sentence.heads for sentence in sentences])
            for part, sentences in parts.items()}


def values(sentence, name):
    if name == "lower":
        return [form.lower() for form in sentence.forms]
    # Dutch has no fine tags
    return sentence.upos if name == "pos" or set(sentence.xpos) == {"_"} else sentence.xpos


def train(risks, treebank, grid, limit):
    """lam: (result, errors); each solve starts at the solution before, its planes kept."""
    found, result = {}, None
    for lam in grid:
        options = {} if result is None else {"warm_start": result}
        result = solve(risks["train"], lam, "auto", None, time_limit=limit, **options)
        found[lam] = result, {part: float(risk.predict_losses(result.x).sum() / n_words(treebank[part][1]))
                              for part, risk in risks.items()}
        wrong = (f"{part} {100 * error:.2f} %" for part, error in found[lam][1].items())
        print(f"lam {lam:g}", f"gap {result.gap:.1e}", f"{result.n_passes:.0f} passes",
              f"{result.seconds['total']:.0f} s", *wrong, sep=" | ", flush=True)
    return found


def n_words(Y):
    return sum(len(y) - 1 for y in Y)


def crossing_arcs(heads):
    """Which words hang on a non-projective arc: a word between it and its head does not descend from the head."""
    above = np.zeros((len(heads), len(heads)), dtype=bool)
    for m in range(len(heads)):
        k = m
        while k >= 0:
            above[k, m] = True
            k = heads[k]
    ends = [sorted((head, m)) for m, head in enumerate(heads)]
    return np.array([m > 0 and not above[heads[m], low + 1:high].all() for m, (low, high) in enumerate(ends)])


def report(name, treebank, model, found, best):
    """The curve, the test figures, and crossing arcs with and without the restriction to projective trees."""
    X, Y = treebank["test"]
    w = found[best][0].x
    free = [model.decode(w, x) for x in X]
    projective = [best_projective(model.arc_scores(w, x)) for x in X]
    crossing = [crossing_arcs(y) for y in Y]
    rows = []
    for decoder, trees in (("best tree", free), ("best projective tree", projective)):
        right = np.concatenate([(y == tree)[1:] for y, tree in zip(Y, trees, strict=True)])
        hard = np.concatenate([c[1:] for c in crossing])
        guessed = np.concatenate([crossing_arcs(tree)[1:] for tree in trees])
        precision = f"{100 * right[guessed].mean():.1f}" if guessed.any() else "-"
        rows.append((decoder, f"{100 * right.mean():.2f}", f"{100 * right[hard].mean():.1f}",
                     f"{100 * right[~hard].mean():.2f}", guessed.sum(), precision))
    curve = [(*row, f"{found[lam][0].seconds['total']:.0f}", f"{found[lam][0].fun:.5g}")
             for lam, row in zip(found, curves.rows(found), strict=True)]
    return "\n".join([
        f"## {name}", "",
        f"{len(treebank['train'][0])} / {len(treebank['dev'][0])} / {len(X)} sentences, {n_words(Y)} words in the test "
        f"part, of which {sum(c.sum() for c in crossing)} hang on a crossing arc.", "",
        table(("lam", "gap", "passes", "wrong heads, training, %", "dev, %", "test, %", "seconds", "F"), curve), "",
        f"Best on the development part: lam = {best:g}; **UAS {100 * (1.0 - found[best][1]['test']):.2f} % on test**.",
        "",
        table(("decoder", "UAS, %", "crossing arcs found, %", "other arcs found, %", "crossing arcs predicted",
               "of them right, %"), rows), "",
        f"![error over lam]({picture(name)})"])


def picture(name):
    return f"parsing_{name.split()[0].lower()}.png"


def best_projective(scores):
    """Heads of the best projective tree with one root arc: Eisner 1996, split heads, O(n^3).

    `right[a, b]`: the best a..b headed by a, `left[a, b]` by b; open spans hold the arc between their ends.
    """
    n = len(scores)
    right, left = np.zeros((n, n)), np.zeros((n, n))
    open_right, open_left = np.full((n, n), -np.inf), np.full((n, n), -np.inf)
    split, split_right, split_left = (np.zeros((n, n), int) for _ in range(3))
    for width in range(1, n - 1):
        for a in range(1, n - width):
            b = a + width
            joined = right[a, a:b] + left[a + 1:b + 1, b]
            k = split[a, b] = int(joined.argmax())
            open_right[a, b], open_left[a, b] = joined[k] + scores[a, b], joined[k] + scores[b, a]
            joined = open_right[a, a + 1:b + 1] + right[a + 1:b + 1, b]
            k = split_right[a, b] = int(joined.argmax())
            right[a, b] = joined[k]
            joined = left[a, a:b] + open_left[a:b, b]
            k = split_left[a, b] = int(joined.argmax())
            left[a, b] = joined[k]
    root = 1 + int((scores[0, 1:] + left[1, 1:] + right[1:, n - 1]).argmax())
    heads = np.full(n, -1, np.int32)
    heads[root] = 0
    stack = [("left", 1, root), ("right", root, n - 1)]
    while stack:
        kind, a, b = stack.pop()
        if a == b:
            continue
        if kind == "right":
            k = a + 1 + split_right[a, b]
            heads[k] = a
            stack += [("inner", a, k), ("right", k, b)]
        elif kind == "left":
            k = a + split_left[a, b]
            heads[k] = b
            stack += [("left", a, k), ("inner", k, b)]
        else:
            k = a + split[a, b]
            stack += [("right", a, k), ("left", k + 1, b)]
    return heads


ROWS = ("option", "UAS, %", "LAS with subtypes, %", "LAS without, %", "gap", "passes", "processor seconds", "GB")
SEPARATE_ROWS = ("heads by", "UAS, %", "LAS with subtypes of the parser, %", "of the classifier, %",
                 "its templates", "its C", "processor seconds of one training", "of all", "GB")
RELATIONS = f"""
## Relations

`pybundle train TREEBANK-train.conllu.gz`, which learns heads and relations together, against `--no-relations`;
`pybundle evaluate` on the test part, gold parts of speech, punctuation counts. Seconds and memory are those of the
process that trains, reading included.

Below, separate classifiers, the hinge of `MulticlassSVM` on the true arcs of the training part, name the relations of
the heads that these parsers find in the test part. One has {len(USUAL)} templates hashed to 2^{BITS} columns: words and
tags of both ends and their neighbours. The other has {len(RICH)}: those for relations of the parser, and two with
suffixes. C is the best of {", ".join(map(str, CONSTANTS))} on the true arcs of the development part. All seconds of a
classifier are those of its process: reading, features, three trainings, two files.
"""
TEXT = """\
# Dependency parsing

Written by `asv_benchmarks/reproduce/parsing.py` with pybundle {version}.
UD English EWT (2.16) and UD Dutch LassySmall (1.4) with gold parts of speech; all tokens count. {n_templates} templates
hashed to {dim} weights, wrong heads summed over sentences, exactly one root arc, one thread. For a grid of lam, largest
first, `method="auto"` starts with the planes of the lam before it and stops at a
certified relative gap of 1e-2 or after {limit:g} seconds (Dutch: a third);
lam is chosen on the development part. An arc is found if the head of its word is right; "crossing" are the gold arcs
that cross another, of which a projective tree can have one of two.

{sections}

## Passes

All from zero; all but auto stop after a quarter of the time.

{compared}
"""


if __name__ == "__main__":
    main()
