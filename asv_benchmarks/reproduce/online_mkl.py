"""Tables and figures of the online MKL papers (Martins et al. 2010, 2011), published beside measured.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/online_mkl.py [--only kernels] [--runs fold=0]

Writes results/papers/online_mkl.md and its pictures. What was measured before is kept; see papers.py.
"""

import functools
import time

from papers import Page, table

# isort: split
import mkl_ocr
import mkl_parsing
import numpy as np
import race

import pybundle as pb
from pybundle import mkl

FOLDS, LAMS = 10, (1e-3, 3e-4, 1e-4)
SIGMA = np.sqrt(5.0)


def two():
    return [mkl.Linear(), mkl.B1Spline()]


def three():
    return [mkl.Linear(), mkl.Polynomial(2), mkl.Gaussian(SIGMA)]


LEARNERS = {    # published accuracy, % / seconds: recalled, the table is lost in our copy of the paper
    "linear": (lambda: three()[:1], "71.8 +- 3.9 / 6"),
    "quadratic": (lambda: three()[1:2], "85.5 +- 0.3 / 116"),
    "Gaussian": (lambda: three()[2:], "84.1 +- 0.4 / 123"),
    "average of the three": (lambda: [mkl.Mean(three())], "84.3 +- 0.3 / 118"),
    "MKL of the three": (three, "87.5 +- 0.3 / 279"),
    "B1-spline": (lambda: two()[1:], "75.4 +- 0.9 / 8"),
    "average of linear and spline": (lambda: [mkl.Mean(two())], "83.0 +- 0.3 / 15"),
    "MKL of linear and spline": (two, "85.2 +- 0.3 / 15"),
}


# ---------------------------------------------------------------------- Table 1

def kernels(page):
    rows, found = [], {}
    for name, (groups, published) in LEARNERS.items():
        records = [page.kept(f"ocr words, {name}, fold={k}", lambda k=k, groups=groups: one_fold(groups, k))
                   for k in range(FOLDS)]
        found[name], records = records, [record for record in records if record]
        if records:
            accuracy = [record["accuracy"] for record in records]
            rows.append((name, published, f"{np.mean(accuracy):.2f} +- {np.std(accuracy):.2f}", len(records),
                         f"{np.mean([record['seconds'] for record in records]):.1f}",
                         " ".join(f"{w:.2f}" for w in np.mean([record["weights"] for record in records], axis=0)),
                         counted([record["lam"] for record in records]),
                         counted([record["eta0"] for record in records])))
    leads = table(("points by which MKL is ahead of", "the three", "linear and spline"), [
        ("the best of its kernels", lead(found, "MKL of the three", ("linear", "quadratic", "Gaussian")),
         lead(found, "MKL of linear and spline", ("linear", "B1-spline"))),
        ("their average", lead(found, "MKL of the three", ("average of the three",)),
         lead(found, "MKL of linear and spline", ("average of linear and spline",)))])
    return KERNELS.format(leads=leads, table=table(
        ("", "published, from memory, % / seconds", "accuracy, %", "folds", "seconds",
         "kernel weights, label pairs last", "lam chosen", "eta_0 chosen"), rows))


def one_fold(groups, k):
    """Train on fold k, lam by a fifth of it held out, test on the others."""
    X, Y, fold = mkl_ocr.words()
    inside, test = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
    order = np.random.default_rng(k).permutation(inside)
    held, fit = order[:len(order) // 5], np.sort(order[len(order) // 5:])
    scores = [mkl_ocr.learner(groups(), lam).fit(X.take(fit), Y.take(fit)).score(X.take(held), Y.take(held))
              for lam in LAMS]
    lam = LAMS[int(np.argmax(scores))]
    began = time.thread_time()
    model = mkl_ocr.learner(groups(), lam).fit(X.take(inside), Y.take(inside))
    seconds = time.thread_time() - began
    return {"accuracy": round(100.0 * model.score(X.take(test), Y.take(test)), 3), "seconds": round(seconds, 2),
            "weights": np.round(model.weights_, 4).tolist(), "lam": lam, "eta0": model.eta0_}


def lead(found, many, ones):
    """Points by which learnt weights are ahead of the best of their kernels in the same fold."""
    folds = [k for k in range(FOLDS) if all(found[name][k] for name in (many, *ones))]
    ahead = [found[many][k]["accuracy"] - max(found[one][k]["accuracy"] for one in ones) for k in folds]
    return f"{np.mean(ahead):+.2f} +- {np.std(ahead):.2f}" if folds else "-"


def counted(values):
    return ", ".join(f"{value:g} ({values.count(value)})" for value in sorted(set(values), reverse=True))


# ---------------------------------------------------------------------- parsing, Figure 1

PARSING_LAMS, RANKING, EPOCHS = (1e-4, 1e-5), 1e-2, 10
COUNTS = (1, 2, 4, 8, 16, 32)


def parsing(page):
    rows, chosen = [], {}
    for name in ("MKL", "SVM"):
        trials = [page.kept(f"parsing {name} lam={lam:g} epochs={EPOCHS}",
                            lambda name=name, lam=lam: parser(name, lam, EPOCHS)) for lam in PARSING_LAMS]
        trials = [trial for trial in trials if trial]
        if trials:
            chosen[name] = best = max(trials, key=lambda trial: trial["dev"])
            rows.append((name, f"{best['lam']:g}", f"{best['seconds']:.0f}",
                         f"{best['dev']:.2f}", f"{best['test']:.2f}", best["used"]))
    ranking = page.kept(f"parsing MKL lam={RANKING:g} epochs={EPOCHS // 2}",
                        lambda: parser("MKL", RANKING, EPOCHS // 2, eta0=1.0))
    stages, best, figure = [], [], ""
    if ranking and "SVM" in chosen:
        lam = chosen["SVM"]["lam"]
        for k in COUNTS:
            found = [page.kept(f"parsing SVM of {k} templates by {name}, lam={lam:g}",
                               lambda names=record["ranked"][:k], lam=lam: parser("SVM", lam, EPOCHS // 2, names))
                     for name, record in (("MKL", ranking), ("SVM", chosen["SVM"]))]
            stages.append((k, *("-" if record is None else f"{record['test']:.2f}" for record in found)))
        best = [(f"`{name}`", f"{weight:.3f}") for name, weight in zip(ranking["ranked"][:10], sorted(
            ranking["weights"][-1], reverse=True), strict=False)]
        figure = weights_over_epochs(page, ranking, stages)
    return PARSING.format(
        table=table(("", "lam", "seconds", "dev UAS", "test UAS", "templates used"), rows),
        best=table(("template", "weight"), best),
        stages=table(("k", "by MKL's weights", "by the SVM's norms"), stages), figure=figure)


@functools.cache
def treebank():
    return mkl_parsing.load(mkl_parsing.TREEBANKS["English EWT"])


def parser(name, lam, epochs, templates=None, eta0=0.1):
    """A parser trained online, with the squared l2,1 norm or (SVM) the squared Euclidean one."""
    data = treebank()
    model = mkl_parsing.parser_of(mkl_parsing.TEMPLATES + mkl_parsing.MORE if templates is None else tuple(templates))
    began = time.thread_time()
    learner = mkl.OnlineMKL(None, model=model, lam=lam, eta0=eta0, n_epochs=epochs, average=True, certify=False,
                            regulariser=None if name == "MKL" else pb.prox.SquaredL2(rate=lam), random_state=0)
    learner.fit(*data["train"])
    seconds = time.thread_time() - began
    names = learner.model.template_names
    return {"lam": lam, "seconds": round(seconds, 1), "used": int((learner.norms_ > 0).sum()),
            "weights": np.round(learner.history_["weights"], 4).tolist() if name == "MKL" else [],
            "ranked": [names[j] for j in np.argsort(-learner.norms_)],
            **{part: round(100.0 * learner.score(*data[part]), 3) for part in ("dev", "test")}}


def weights_over_epochs(page, ranking, stages):
    axes, save = page.figure("online_mkl_parsing", (1, 2), (10.0, 4.0))
    left, right = axes[0]
    weights = np.array(ranking["weights"])
    for column in np.argsort(-weights[-1]):
        left.plot(np.arange(1, len(weights) + 1), weights[:, column], linewidth=0.8)
    left.set(xlabel="epoch", ylabel="weight of a template")
    for j, label in ((1, "ranked by MKL"), (2, "ranked by SVM norms")):
        known = [row for row in stages if row[j] != "-"]
        right.semilogx([row[0] for row in known], [float(row[j]) for row in known], marker="o", label=label, base=2)
    right.set(xlabel="templates kept", ylabel="UAS of the SVM trained on them, %")
    return save("weights over epochs, and two-stage curves")


# ---------------------------------------------------------------------- regret, (13)-(16)

DIGITS, REGRET_LAM, REGRET_EPOCHS = 2000, 1e-2, 30


def regret(page):
    axes, save = page.figure("online_mkl_regret", (1, 3), (13.0, 3.8))
    rows = []
    for panel, rate in zip(axes[0], ("fixed", "invsqrt", "strong"), strict=True):
        record = page.kept(f"regret rate={rate} lam={REGRET_LAM:g}", lambda rate=rate: regrets(rate))
        if record is None:
            continue
        for name in ("regret", "bound"):
            panel.loglog(record["rounds"], np.array(record[name]) / record["rounds"], label=f"{name} / T")
        panel.set(title=record["what"], xlabel="rounds T")
        panel.minorticks_off()
        rows.append((record["what"], record["rounds"][-1], f"{record['regret'][-1]:.4g}",
                     f"{record['bound'][-1]:.4g}", f"{record['regret'][-1] / record['bound'][-1]:.2g}"))
    return REGRET.format(figure=save("regret a round, and its bound"), n=DIGITS, lam=REGRET_LAM, table=table(
        ("rate", "rounds T", "regret", "bound", "regret / bound"), rows))


def regrets(rate):
    """Regret against the minimiser after every epoch, and the bound for this rate."""
    risk = race.usps()[0]
    X, y = risk.examples.X[:DIGITS].astype(np.float64), risk.labels[:DIGITS]
    model = pb.models.Multiclass(10, X.shape[1])
    batch = pb.risks.Structured(model, X, y)
    best = pb.minimize(batch, lam=REGRET_LAM, scale="mean", tol=1e-6)
    loss = batch.values(best.x)[0].sum() / len(y)
    norm, G = float(np.linalg.norm(best.x)), np.sqrt(2.0) * float(np.linalg.norm(X, axis=1).max())
    radius = np.sqrt(1.0 / REGRET_LAM)                     # Appendix E: the largest loss is 1
    T = REGRET_EPOCHS * len(y)
    what, options = {
        "fixed": ("eta = D / (G sqrt T), (14)", {"eta0": norm / (G * np.sqrt(T))}),
        "invsqrt": ("eta = F / (G sqrt(2 t)), (15)", {"eta0": np.sqrt(2.0) * radius / G, "radius": radius}),
        "strong": ("eta = 1 / (lam t), (16)", {"sigma": REGRET_LAM, "radius": radius}),
    }[rate]
    learner = mkl.OnlineProximal(model, pb.prox.SquaredL2(REGRET_LAM), rate=rate, random_state=0, **options)
    rounds, values, bounds = [], [], []
    for _ in range(REGRET_EPOCHS):
        learner.partial_fit(X, y)
        found = learner.regret(best.x, loss)
        rounds.append(learner.n_rounds_)
        values.append(found.regret)
        bounds.append(found.bound)
    return {"what": what, "rounds": rounds, "regret": np.round(values, 4).tolist(),
            "bound": np.round(bounds, 4).tolist()}


HEAD = """\
# Online multiple kernel learning (Martins et al., arXiv 1010.2770 and AISTATS 2011)

One thread; lam in the mean scale. The formulas, tables and appendices are lost in our copy of the papers: published
figures are quoted from memory, and their seconds are those of another machine. Further measurements: certificates and
sparse Gram matrices in [mkl_ocr.md](../mkl_ocr.md), time of rounds in [mkl_parsing.md](../mkl_parsing.md)."""
KERNELS = """\
## Table 1: handwritten words

6877 words, 26 letters, 128 binary pixels; indicators of label pairs are a group of their own, the loss is the number of
wrong letters. Trained on one fold (about 626 words, 4600 letters), tested on the other nine; mean and deviation over
the folds, 20 epochs, the last point predicts. eta_0: the best of 0.01, 0.1, 1, 10 after 3 epochs; lam of 1e-3, 3e-4,
1e-4 by words held out. Quadratic: (x'z + 1)^2; Gaussian: sigma^2 = 5; all of unit diagonal. Seconds: one training with
its Gram matrices and the search for eta_0.

{table}

Our linear kernel is 8 points above the published one, our spline 4. The reason is not known. The lam and eta_0 of the
paper are not in our copy, and both matter: on fold 0 linear has 79.5 % with lam = 3e-4 and eta_0 = 10, but 67.8 % with
eta_0 = 0.1, and 65.3 % with lam = 1e-2 (single trials of `mkl_ocr.learner`, which are not kept).

In the same fold:

{leads}

The paper's claim that MKL beats single kernels holds here for linear and spline, not for the three. MKL of linear and
spline also loses to their plain average (85.41 % against 86.00 %), where the paper has 85.2 % against 83.0 %."""
PARSING = """\
## Dependency parsing, Figure 1

The paper: CoNLL-2008 English, 39278 sentences, 507 templates, 50.1 million features; UAS 90.67 (MKL) and 90.92 (SVM),
as recalled. That set is not free: here UD English EWT (2.16), true parts of speech, 60 templates with 2^16 weights
each, wrong heads summed over a sentence, exactly one root arc, mean of all points; lam of 1e-4 and 1e-5 on the
development part, eta_0 = 0.1.

{table}

The ten heaviest templates of MKL with lam = 1e-2, which ranks them below:

{best}

Test UAS of the SVM trained again, with half of the epochs, on the k best templates; left in the figure the weights of
the templates over the epochs of the ranking.

{stages}

{figure}"""
REGRET = """\
## Proposition 5: regret and its bounds

{n} digits of USPS, multiclass hinge and lam/2 |theta|^2 with lam = {lam:g}; regret (13) against the minimiser. (14) has
the fixed rate that minimises it, D = |theta*|; (15) the diameter F = 2 sqrt(1 / lam) of the ball of Appendix E. (16) is
proved for strongly convex losses, but here only the regulariser is strongly convex. Then the regret can exceed (16) by
at most lam/2 |theta*|^2, which is less than the last digit of this table.

{table}

{figure}"""

if __name__ == "__main__":
    Page("online_mkl", __doc__, {"kernels": kernels, "parsing": parsing, "regret": regret}).write(HEAD)
