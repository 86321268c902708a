"""Schemes of chunks, and ready features: chunks of CoNLL-2000, Spanish entities of CoNLL-2002.

    PYBUNDLE_DATA=/path/to/data PYBUNDLE_NER=/path/to/conll2002 python asv_benchmarks/reproduce/schemes.py
    [--only conll2000 entities features]

PYBUNDLE_NER is the folder with esp.train and esp.testb in UTF-8, a word, a tag and a label a line, as in `conll2002` of
NLTK's data. Without it, or without python-crfsuite, sections are left out. Ready features, a certified gap of 1e-2,
C = 0.1 (SVM) or 1 (CRF); labels are in BIO, and both models are trained without that scheme and with it, twice in
turns; seconds are processor time of one thread, the smaller of both. F1 is that of `chunk_scores`.
The last section trains by one command without an option but that of the model, and python-crfsuite with the features
and parameters of its tutorial on these data (c1 = 1, c2 = 1e-3, 50 iterations). Writes results/schemes.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import Page, data_file, in_turns, table, version  # sets threads: before NumPy

# isort: split
import numpy as np

import pybundle as pb

HEADER = ("model", "scheme", "illegal sentences", "test F1", "passes", "seconds", "ratio")
MODELS = {"ChainSVM": 0.1, "ChainCRF": 1.0}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS), help="the others are kept")
    page = Page("schemes.md", TEXT, SECTIONS)
    for name in parser.parse_args().only:
        text = SECTIONS[name]()
        if text is not None:
            page.replace(name, f"pybundle {version()}{text}")


def conll2000():
    return schemes([read(data_file("conll2000", f"{part}.txt.gz")) for part in ("train", "test")])


def entities():
    files = entity_files()
    return files and schemes([read(file) for file in files])


def features():
    """F1 on the entities: one command, and the tutorial of python-crfsuite."""
    files = entity_files()
    if files is None:
        return None
    rows = [(f"`pybundle train esp.train --format conll {option}`".replace(" `", "`"), *command(*files, option.split()))
            for option in ("", "--model crf")]
    try:
        rows.append(("python-crfsuite, its tutorial", *tutorial(*map(read, files))))
    except ImportError:
        print("python-crfsuite is not installed: its row is left out")
    return f".\n\n{report(('', 'test F1', 'seconds'), rows)}"


def entity_files():
    """Paths of the training and the test file, or None."""
    folder = os.environ.get("PYBUNDLE_NER")
    files = [Path(folder or "", name) for name in ("esp.train", "esp.testb")]
    if not folder or not all(map(Path.exists, files)):
        print("skipped: set PYBUNDLE_NER to the folder that holds esp.train and esp.testb")
        return None
    return files


def read(path):
    """Tokens without labels, and labels; one sentence of each Spanish file begins with I-, which becomes B-."""
    rows = pb.datasets.read_conll(path, n_columns=3)
    return ([[token[:2] for token in tokens] for tokens in rows],
            [pb.metrics.rewritten([token[2] for token in tokens], "BIO") for tokens in rows])


def schemes(parts):
    (X, y), (X_test, y_test) = parts
    rows = []
    for model, C in MODELS.items():
        pair = [getattr(pb, model)(C, tol=1e-2, scheme=scheme, templates=pb.templates.words(2))
                for scheme in (None, "BIO")]
        fits = [lambda _, one=one: one.fit(X, y) for one in pair]
        seconds = np.min([*in_turns(*fits), *in_turns(*fits[::-1])[:, ::-1]], axis=0)
        for one, time, ratio in zip(pair, seconds, ("", f"{seconds[1] / seconds[0]:.2f}"), strict=True):
            found = one.predict(X_test)
            illegal = sum(pb.metrics.rewritten(labels, "BIO") != labels for labels in found)
            f1 = pb.metrics.chunk_scores(y_test, found).total.f1
            rows.append((model, one.scheme or "none", illegal, f"{100 * f1:.2f}", f"{one.n_passes_:.0f}", f"{time:.1f}",
                         ratio))
            print(*rows[-1], sep=" | ", flush=True)
    return f", {len(X)} sentences, {len(X_test)} for tests.\n\n{report(HEADER, rows)}"


def report(header, rows):
    text = table(header, rows)
    print(text, flush=True)
    return text


def command(train, test, options):
    """F1, and seconds of the command that trains."""
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "model.npz")
        start = os.times()
        pybundle("train", train, *options, "--save", model)
        end = os.times()
        scores = json.loads(pybundle("evaluate", test, "--load", model))
    return (f"{100 * scores['chunk f1']:.2f}",
            f"{end.children_user + end.children_system - start.children_user - start.children_system:.0f}")


def pybundle(name, data, *options):
    return subprocess.run([sys.executable, "-m", "pybundle", name, str(data), "--format", "conll", "--json", *options],
                          stdout=subprocess.PIPE, text=True, check=True).stdout


def tutorial(train, test):
    """F1 and seconds of the CRF of python-crfsuite's tutorial."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c1": 1.0, "c2": 1e-3, "max_iterations": 50, "feature.possible_transitions": True})

    def fit(_):
        for tokens, labels in zip(*train, strict=True):
            trainer.append(attributes(tokens), labels)
        trainer.train(file)

    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model.crfsuite")
        seconds = in_turns(fit)[0, 0]
        tagger = pycrfsuite.Tagger()
        tagger.open(file)
        found = [tagger.tag(attributes(tokens)) for tokens in test[0]]
    return f"{100 * pb.metrics.chunk_scores(test[1], found).total.f1:.2f}", f"{seconds:.0f}"


def attributes(tokens):
    """The features of the tutorial: the word in small letters, its ends, its case, its tag, and those of neighbours."""
    near = [[f"lower={word.lower()}", f"title={word.istitle()}", f"upper={word.isupper()}", f"tag={tag}",
             f"tag2={tag[:2]}"] for word, tag in tokens]
    return [["bias", *near[t], f"end3={word[-3:]}", f"end2={word[-2:]}", f"digit={word.isdigit()}",
             *([f"-1:{name}" for name in near[t - 1]] if t else ["first"]),
             *([f"+1:{name}" for name in near[t + 1]] if t + 1 < len(tokens) else ["last"])]
            for t, (word, _) in enumerate(tokens)]


SECTIONS = {"conll2000": conll2000, "entities": entities, "features": features}
TEXT = """# Schemes of chunks, and ready features

`asv_benchmarks/reproduce/schemes.py`: chunks of CoNLL-2000 and Spanish entities of CoNLL-2002 (`esp.train`,
`esp.testb`). "none" is the same model without a scheme; "illegal sentences" are test sentences whose predicted labels
break the scheme. Models without a scheme are trained in turns with those with one, to a certified gap of 1e-2. Seconds
are processor time of one thread, the making of features included.
"""

if __name__ == "__main__":
    main()
