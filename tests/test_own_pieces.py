"""What the pages on own pieces say of messages: a mistake of each row is made in the page's program."""

import re
import runpy
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import pybundle as pb

DOCS = Path(__file__).parents[1] / "docs"
PROGRAMS = {name: runpy.run_path(str(DOCS / "examples" / f"{name}.py")) for name in ("similar_weights", "matching")}
SimilarWeights, Matching = PROGRAMS["similar_weights"]["SimilarWeights"], PROGRAMS["matching"]["Matching"]


def messages(page):
    """The first column of the table of messages of a page."""
    table = (DOCS / page).read_text(encoding="utf-8").partition("\nmessage begins")[2].partition("\n\n")[0]
    return re.findall(r"^``(.*?)``", table, re.M)


def meets(words, message):
    return re.match(re.escape(words).replace(r"\.\.\.", ".*"), message)


class Renamed(SimilarWeights):
    def __init__(self, *given):
        super().__init__(*given)
        self.bound = 3.0


class Shorter(SimilarWeights):
    def __init__(self, rate, share, dim):
        super().__init__(rate, share, dim - 1)


class Outside(SimilarWeights):
    def value(self, x):
        return super().value(x) if x.min() >= -0.01 else np.inf


class OtherSign(SimilarWeights):
    def minimiser(self, phi, weight=0.0, centre=0.0):
        return -super().minimiser(phi, weight, centre)


class Listed(SimilarWeights):
    def minimiser(self, phi, weight=0.0, centre=0.0):
        return super().minimiser(phi, weight, centre).tolist()


class TooConvex(SimilarWeights):
    moduli = 300.0


class NoModuli(SimilarWeights):
    moduli = 0.0


PENALTIES = {"broken: members": Listed, "broken: feasible points": Outside, "broken: minimisers": OtherSign,
             "broken: convexity": TooConvex, "broken: lower bound": NoModuli,
             "penalty must prove lower bounds": NoModuli, "penalty ... must have no attribute": Renamed,
             "penalty ... must take vectors of": Shorter, "the bound and the value cross": OtherSign}


@pytest.mark.parametrize("words", messages("own_penalty.rst"))
def test_a_wrong_penalty_gets_the_message_of_the_page(words):
    X, y = PROGRAMS["similar_weights"]["make_signals"](60, 0)
    penalty = PENALTIES[words](1.0, 20.0, 40)
    if words.startswith("broken"):
        lines = str(pb.check_penalty(penalty, 40)).splitlines()
        assert any(meets(words, line) for line in lines) and max(map(len, lines)) < 500
    else:
        with pytest.raises(pb.BundleError) as caught:
            pb.minimize(pb.risks.Logistic(X, y), penalty=penalty)
        assert meets(words, str(caught.value))


class WithoutLoss(Matching):
    def loss_augmented_decode(self, w, x, y):
        return self.decode(w, x)


class LossTwice(Matching):
    def loss_augmented_decode(self, w, x, y):
        scores = x @ w + 2.0
        scores[np.arange(len(y)), y] -= 2.0
        return linear_sum_assignment(scores, maximize=True)[1]


class Smallest(Matching):
    def loss_augmented_decode(self, w, x, y):
        return linear_sum_assignment(x @ w)[1]


class NoTruth(Matching):
    def loss(self, y, y_hat):
        return 1.0 + super().loss(y, y_hat)


class Predicts(Matching):
    def decode(self, w, x):
        return linear_sum_assignment(x @ w)[1]


class Writes(Matching):
    def decode(self, w, x):
        w *= 1.0
        return super().decode(w, x)

    def loss_augmented_decode(self, w, x, y):
        w *= 1.0
        return super().loss_augmented_decode(w, x, y)


class Random(Matching):
    """Threads get no noise: the order in which they call would decide which message comes first."""

    def __init__(self, *given):
        super().__init__(*given)
        self.rng = np.random.default_rng(0)

    def loss_augmented_decode(self, w, x, y):
        is_main = threading.current_thread() is threading.main_thread()
        return super().loss_augmented_decode(w + is_main * 1e-4 * self.rng.normal(size=len(w)), x, y)


class Negative(Matching):
    def loss(self, y, y_hat):
        return -super().loss(y, y_hat)


class Longer(Matching):
    def joint_feature(self, x, y):
        return np.append(super().joint_feature(x, y), 1.0)


class BoundBelow(Matching):
    def loss_augmented_decode(self, w, x, y):
        y_hat = super().loss_augmented_decode(w, x, y)
        return pb.Decoded(y_hat, w @ (self.joint_feature(x, y_hat) - self.joint_feature(x, y)))


MODELS = {"broken: loss_augmented_decode must return": (WithoutLoss,),
          "upper of Decoded must be at least": (BoundBelow,),
          "broken: maximum over labellings found": (LossTwice,),
          "broken: loss zero at the truth": (NoTruth,),
          "broken: prediction has the largest score": (Predicts,), "broken: w left alone": (Writes,),
          "broken: determinism": (Random,), "loss must be a finite number >= 0": (Negative,),
          "joint_feature must return": (Longer,), "loss_augmented_decode must return": (Smallest, WithoutLoss)}


@pytest.mark.parametrize("words", messages("own_structure.rst"))
def test_a_wrong_structure_gets_the_message_of_the_page(words):
    if words == "broken: thread-safety":        # it depends on the order in which threads run
        return
    X, Y = PROGRAMS["matching"]["make_matchings"](60, 0)
    for kind in MODELS[words]:
        model = kind(10)
        if words.startswith("broken"):
            assert meets(words, str(pb.check_oracle(model, X, Y)))
        else:
            with pytest.raises(pb.OracleError) as caught:
                pb.minimize(pb.risks.Structured(model, X, Y), lam=1.0, tol=1e-3)
            assert meets(words, str(caught.value))
            assert ("pb.check_oracle" in str(caught.value)) == (not words.startswith(("loss must", "joint", "upper")))
