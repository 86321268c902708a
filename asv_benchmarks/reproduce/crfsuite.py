"""Linear-chain CRFs on texts: "auto" and python-crfsuite, seconds and memory.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/crfsuite.py [--only conll2000 ewt tagging]

Chunks of CoNLL-2000 (features of conll_chunking.py) and universal tags of English EWT (words within two tokens, parts
of the word, its shape); features that occur at least twice, all transitions, lam = 2 (c2 = 1). There are weights for
the pairs of feature and tag that occur, the default of CRFsuite and of large ChainCRFs, or for all of them. The default
run of python-crfsuite ends by its own rule, at the value f. The objective with all weights has f among its values, too,
with the other weights 0. The clock is that of a run to 1.01 f, ours also that to a certified gap of 1e-2. Processor
time of one thread. Memory is the growth of the peak of the process during one fit (python-crfsuite: 20 iterations, its
own copy of the data included), in a process of its own.

"tagging" is the time to label the test sentences of CoNLL-2000, whose features are lists of texts, by the default model
of each: every sentence in a call of its own, in five turns, and all of them in one call. Writes results/crfsuite.md.
"""

import argparse
import tempfile
import time
import warnings

from common import Page, data_file, in_turns, table, version  # sets threads: before NumPy

# isort: split
import conll_chunking as chunking
import numpy as np
from log_losses import METHODS, Words, fit, peak

import pybundle as pb
from pybundle.core.ragged import Ragged

LAM = 2.0
OCCURRING = {"feature.possible_states": False, "epsilon": 1e-5, "delta": 1e-5}      # defaults of CRFsuite
HEADER = ("", "weights", "s to 1.01 f", "passes", "s to a gap of 1e-2", "passes", "MB beside the data")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="one, for memory that no set "
                        "before it has used; the others are kept")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    page = Page("crfsuite.md", TEXT, SECTIONS)
    for name in arguments.only:
        if name == "tagging":
            page.replace(name, f"pybundle {version()}. {tagging()}")
            continue
        rows = []
        for row in compare(*words(SETS[name]())):
            rows.append(row)
            print(name, *row, sep=" | ", flush=True)
        page.replace(name, f"pybundle {version()}.\n\n{table(HEADER, rows)}")


def conll():
    return chunking.read(data_file("conll2000", "train.txt.gz"))


def ewt():
    sentences = pb.datasets.read_conllu(data_file("ud_english_ewt", "en_ewt-ud-train.conllu.gz"))
    return chunking.Sentences([tokens(s.forms) for s in sentences], [list(s.upos) for s in sentences])


def tokens(forms):
    """Names of the features of every token of a sentence."""
    w = ["<<", "<", *(form.lower() for form in forms), ">", ">>"]
    return [["bias", *(f"w{k}={w[t + 2 + k]}" for k in range(-2, 3)), f"w-10={w[t + 1]} {w[t + 2]}",
             f"w01={w[t + 2]} {w[t + 3]}", *(f"suffix={w[t + 2][-k:]}" for k in range(1, 5)),
             *(f"prefix={w[t + 2][:k]}" for k in range(1, 4)),
             f"shape={form[:1].isupper()}{form.isupper()}{any(c.isdigit() for c in form)}{'-' in form}"]
            for t, form in enumerate(forms)]


def words(sentences):
    """Attributes and tags for python-crfsuite with the risk of the weights that occur, and the risk of all."""
    import pycrfsuite

    numbers = chunking.vocabulary(sentences)
    tags = sorted({tag for sentence in sentences.tags for tag in sentence})
    label = {tag: k for k, tag in enumerate(tags)}
    Y = Ragged.of([np.array([label[tag] for tag in sentence], dtype=np.int32) for sentence in sentences.tags])
    X = chunking.matrix(sentences, numbers)
    model = pb.models.Chain(len(tags), len(numbers), start=False, end=False)
    occurring, every = (pb.risks.Structured(one, X, Y, loss="logistic") for one in (model.occurring(X, Y), model))

    def attributes():
        for sentence in sentences.attributes:
            yield pycrfsuite.ItemSequence([[name for name in token if name in numbers] for token in sentence])

    return Words(occurring, attributes, sentences.tags), Words(every, attributes, sentences.tags)


def compare(occurring, every):
    kinds = {"that occur": occurring, "all": every}
    # before any fit here
    memory = {(kind, who): peak(fit, problem, who, LAM) for kind, problem in kinds.items() for who in METHODS}
    memory["all", "crfsuite"] = peak(fit, every, "crfsuite", LAM)
    memory["that occur", "crfsuite"] = peak(lambda: occurring.train(LAM, 20, **OCCURRING))
    problem = occurring
    losses = problem.train(LAM, 1000, **OCCURRING)[1]
    goal = 1.01 * losses[-1]
    n = next(k for k, loss in enumerate(losses, 1) if loss <= goal)
    seconds = problem.train(LAM, n, **OCCURRING)[0]
    sizes = {kind: f"{problem.risk.dim} {kind}" for kind, problem in kinds.items()}
    yield "CRFsuite", sizes["that occur"], f"{seconds:.1f}", n, "-", "-", f"{memory['that occur', 'crfsuite']:.0f}"
    yield "CRFsuite", sizes["all"], "-", "-", "-", "-", f"{memory['all', 'crfsuite']:.0f}"
    for kind, problem in kinds.items():
        for method in METHODS:
            to_goal, first = run(problem, method, 1e-6, callback=lambda progress: progress.fun <= goal)
            certified, result = run(problem, method, 1e-2)
            yield (method, sizes[kind], f"{to_goal:.1f}", f"{first.n_passes:.0f}", f"{certified:.1f}",
                   f"{result.n_passes:.0f}", f"{memory[kind, method]:.0f}")


def run(problem, method, tol, **options):
    start = time.process_time()
    result = pb.minimize(problem.risk, lam=LAM, method=method, tol=tol, **options)
    return time.process_time() - start, result


def tagging():
    """Text and table of the times of labelling."""
    import pycrfsuite

    train, test = conll(), chunking.read(data_file("conll2000", "test.txt.gz"))
    crf = pb.ChainCRF(0.5, min_count=2, start=False, end=False, tol=1e-2).fit(train.attributes, train.tags)
    problem, _ = words(train)
    trainer, tagger = pycrfsuite.Trainer(verbose=False), pycrfsuite.Tagger()
    trainer.set_params({"c2": LAM / 2.0})
    for attributes, tags in zip(problem.attributes(), train.tags, strict=True):
        trainer.append(attributes, tags)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(f"{folder}/model")
        tagger.open(f"{folder}/model")
    X, rows = test.attributes, []
    single = {"CRFsuite": tagger.tag, "ChainCRF": crf.predict_single}
    times = np.array([[[seconds(tag, x) for tag in single.values()] for x in X] for _ in range(5)]).reshape(-1, 2)
    whole = np.median(in_turns(lambda turn: [tagger.tag(x) for x in X], lambda turn: crf.predict(X)), axis=0)
    found = [tagger.tag(x) for x in X], crf.predict(X)
    for k, name in enumerate(single):
        right = np.mean([a == b for y, z in zip(test.tags, found[k], strict=True) for a, b in zip(y, z, strict=True)])
        rows.append((name, *(f"{1e3 * np.percentile(times[:, k], q):.3f}" for q in (50, 99)), f"{whole[k]:.3f}",
                     f"{100.0 * right:.2f}"))
        print(*rows[-1], sep=" | ", flush=True)
    return (f"{len(X)} sentences of {sum(map(len, X)) / len(X):.0f} tokens with {len(X[0][0])} features.\n\n"
            + table(("", "ms, one sentence: median", "99 of 100 below", "s, all in one call", "right tags, %"), rows))


def seconds(call, x):
    start = time.process_time_ns()
    call(x)
    return 1e-9 * (time.process_time_ns() - start)


SETS = {"conll2000": conll, "ewt": ewt}
SECTIONS = [*SETS, "tagging"]
TEXT = """# Linear-chain CRFs on texts

`asv_benchmarks/reproduce/crfsuite.py`, lam = 2, processor time of one thread. f is the value at which CRFsuite ends by
default; with all weights the minimum is lower.
"""

if __name__ == "__main__":
    main()
