"""The table by which "auto" chooses: the first row that holds gives the method, the reason, and the fallbacks.

A fallback takes over when the method before it stalls, has not halved the gap within `slow` passes, or has taken `most`
passes. Once the relative gap is at most `at_gap`, it takes over after the first iteration that does not halve the gap.
The numbers were measured.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core.protocols import BOUNDED, CORNERS, LABELLINGS, SINGLE, completed
from .block.log_loss_blocks import LogLossBlocks
from .interior.methods import cost_in_passes, refusal
from .scaling import scaling
from .smooth.newton import patience_before
from .state import is_fine

SLOW = 150.0
"""Passes in which "prox-bcfw" should halve the gap; rows allow fewer if the next method starts well from planes."""
NEAR = 1e-3
"""Relative gap from which "alm" may continue "prox-bcfw"; "alm" alone takes ten times as long as both in sequence."""
FEW_WEIGHTS = 50
"""With so few weights of classes, methods on planes reach fine tolerances sooner than steps on examples do."""
NARROW, TINY = 1 << 15, 1e-8
"""Up to NARROW weights a Newton step of "alm" costs about as much as some passes, so "alm" takes over from slow runs
(of 200 parses with 2^20 weights "prox-bcfw" had the gap 1e-5 in 13 s, "alm" from 1e-3 on only 5e-4 in 29 s);
if the tolerance is at most TINY, "alm" takes over in any case, because each of its last steps gains many digits."""
AT_ONCE = 150.0
"""The table begins with "interior-point" if its steps cost at most so many passes, or if all weights are free."""
UNEVEN, MANY = 100.0, 100.0
"""Limits in `suits_blocks` of the largest curvature of a column over the median one, and of examples per column."""
MOST_BYTES = 1 << 31
"""Bytes that the distributions of labellings may take; the number grows with the square of the number of labels."""


class Fallback(NamedTuple):
    """A method that takes over under the conditions of the module docstring."""

    method: str
    slow: float = np.inf
    at_gap: float | None = None
    most: float = np.inf


OCA = Fallback("oca")


class Case:
    """The properties of a problem that rows of the table ask for; each property is computed on first use."""

    def __init__(self, search):
        self.search, self.risk, self.problem = search, search.risk, search.problem
        self.classes = self.problem.classes
        self.has_limit = search.settings.memory_limit is not None
        self.keeps = search.settings.record is not None        # whether points of planes are stored as evidence
        self.tol, self.is_fine = search.settings.gap.tol, is_fine(search.settings.gap.tol)
        self.is_few, self.is_narrow = self.risk.dim <= FEW_WEIGHTS, self.risk.dim <= NARROW
        self.is_penalised = self.problem.square is None      # true for a ball, too, but the first row takes balls

    @cached_property
    def needs_part_planes(self):
        """Whether only methods on planes of parts accept the penalty."""
        has_steps = self.risk.smooth or self.risk.has_exact_blocks
        return self.is_penalised and (self.problem.entries is None or not has_steps)

    @cached_property
    def has_free(self):
        return bool(self.problem.is_free.any())

    @cached_property
    def all_free(self):
        """Whether all weights are free or fixed."""
        omega = self.problem.entries
        return bool((self.problem.is_free | (omega.lower == omega.upper)).all())

    @cached_property
    def has_distributions(self):
        """Whether steps on distributions of labellings suit a log-loss."""
        risk = self.risk
        if risk.log_loss_tokens is None or self.has_limit or LogLossBlocks.multiplier_bytes(risk) > MOST_BYTES:
            return False
        if self.classes is not None and risk.smooth:
            return suits_blocks(self.problem, risk.n_examples)
        return not (self.is_few or self.keeps or self.has_free)

    @cached_property
    def newton_after(self):
        """Number of slow passes of "lbfgs" after which "newton" takes over; None if "newton" never does."""
        return None if self.has_limit else patience_before(self.risk, self.problem)

    @cached_property
    def steps_cost(self):
        """Cost of the steps of "interior-point" in passes; None if that method refuses the problem."""
        takes_steps = CORNERS.holds(self.risk) and refusal(self.search) is None
        return cost_in_passes(self.risk) if takes_steps else None

    @cached_property
    def begins_with_steps(self):
        if self.steps_cost is None:
            return False
        wants = self.is_penalised and (self.has_free or self.risk.is_regression)
        return self.all_free or (wants and self.steps_cost <= AT_ONCE)

    @cached_property
    def has_signs(self):
        return self.problem.penalty.nonneg is not None

    @cached_property
    def has_labels(self):
        return LABELLINGS.holds(self.risk)

    @cached_property
    def visits_examples(self):
        """Whether the oracle answers for one example alone."""
        is_single = SINGLE.holds(self.risk) and not self.has_signs and not self.keeps
        return BOUNDED.holds(self.risk) and (self.has_labels or is_single)

    @cached_property
    def suits_planes(self):
        """Whether, with a penalty, methods on planes of parts are faster than steps on examples."""
        is_far = self.problem.even is None and self.problem.coordinates.are_far(self.risk.examples)
        return self.steps_cost is None and (self.all_free or is_far or (self.is_few and self.is_fine))

    @cached_property
    def is_enumerable(self):
        return self.has_labels and self.risk.has_exact_blocks and not self.has_signs

    # ------------------------------------------------------------------ fallbacks
    @property
    def last(self):
        """Last fallback of smooth methods: "oca", or none with free intercepts of classes, as "oca" proves no more."""
        return () if self.classes is not None else (OCA,)

    @property
    def after_examples(self):
        return (OCA,) if self.steps_cost is None else (Fallback("interior-point", most=self.steps_cost), OCA)

    @property
    def after_labels(self):
        return Fallback("oca", SLOW) if self.is_few else OCA

    @property
    def half_or_less(self):
        """Number of passes for which "prox-bcfw" may be slow before "alm" on labels takes over."""
        return SLOW / (6.0 if self.is_fine or scaling(self.risk) else 2.0)

    @property
    def of_workers(self):
        home, words = self.risk.remote.home, "'oca': workers hold the parts"
        is_slow = home is not None and LABELLINGS.holds(completed(home))
        return f"{words}; without executor, steps on examples take far fewer passes" if is_slow else words


class Row(NamedTuple):
    """If `holds` is true, take the method for the reason in `words`; `fallbacks` is None if no method may take over."""

    holds: Callable[[Case], Any]
    method: str
    words: str | Callable[[Case], str]
    fallbacks: Callable[[Case], tuple] | None = None


TABLE = (
    Row(lambda c: c.problem.ball is not None, "bmrm", "'bmrm': the penalty is a ball"),
    Row(lambda c: c.problem.rows is not None, "oca", "'oca': it takes constraints"),
    Row(lambda c: c.needs_part_planes, "oca", "'oca': it takes any penalty"),
    # log-losses and other smooth losses
    Row(lambda c: c.has_distributions, "prox-bcfw",
        "'prox-bcfw': examples with a log-loss can be visited one at a time",
        lambda c: (Fallback("lbfgs", SLOW if c.problem.even is None else SLOW / 3.0), *c.last)),
    Row(lambda c: c.risk.smooth and c.newton_after is None, "lbfgs", "'lbfgs': the risk is smooth", lambda c: c.last),
    Row(lambda c: c.risk.smooth and c.newton_after == 0.0, "newton",
        "'newton': the risk is smooth, and steps on few columns are cheap", lambda c: (Fallback("lbfgs"), *c.last)),
    Row(lambda c: c.risk.smooth, "lbfgs", "'lbfgs', then 'newton' if it is slow: the risk is smooth",
        lambda c: (Fallback("newton", c.newton_after), Fallback("lbfgs"), *c.last)),
    # losses of one score with corners
    Row(lambda c: c.begins_with_steps, "interior-point",
        "'interior-point': the loss has corners, and steps on few columns are cheap", lambda c: (OCA,)),
    # planes of parts
    Row(lambda c: c.risk.is_mapped, "oca",
        "'oca': the data are mapped from a file, which is read in the order of its rows"),
    Row(lambda c: c.has_limit, "oca", "'oca': planes of parts can be kept under a memory limit"),
    Row(lambda c: c.risk.remote is not None, "oca", lambda c: c.of_workers),
    Row(lambda c: not c.visits_examples, "oca", "'oca': the risk has planes of parts only"),
    Row(lambda c: c.is_penalised and c.keeps and c.classes is None, "oca",
        "'oca': the planes of parts are the evidence"),
    Row(lambda c: c.is_penalised and c.suits_planes, "oca",
        "'oca': columns are far from 0, weights are free, or they are few and tol is small"),
    # steps on examples; with free intercepts of classes "oca" follows as early as "alm" does without free intercepts
    Row(lambda c: c.classes is not None, "prox-bcfw", "'prox-bcfw': the dual of an example is maximised exactly",
        lambda c: (Fallback("oca", SLOW / (6.0 if c.is_fine else 2.0)),)),
    Row(lambda c: c.is_penalised or c.steps_cost is not None or not c.has_labels, "prox-bcfw",
        "'prox-bcfw': the dual of an example is maximised exactly", lambda c: c.after_examples),
    Row(lambda c: c.is_enumerable and c.tol <= TINY and c.is_narrow, "prox-bcfw",
        "'prox-bcfw', then 'alm': the labels of an example can be enumerated, tol is small",
        lambda c: (Fallback("alm", SLOW, NEAR), c.after_labels)),
    Row(lambda c: c.is_enumerable, "prox-bcfw", "'prox-bcfw': the labels of an example can be enumerated",
        lambda c: (Fallback("alm", c.half_or_less if c.is_narrow else np.inf), c.after_labels)),
    Row(lambda c: c.is_fine and not c.has_signs, "prox-bcfw",
        "'prox-bcfw', then 'alm': examples can be decoded one at a time, tol is small",
        lambda c: (Fallback("alm", SLOW, NEAR) if c.is_narrow else Fallback("alm"), OCA)),
    Row(lambda c: True, "prox-bcfw", "'prox-bcfw': examples can be decoded one at a time", lambda c: (OCA,)),
)


def choose(search):
    """Return the method for a problem, the reason in words, and fallbacks or None."""
    case = Case(search)
    row = next(row for row in TABLE if row.holds(case))
    words = row.words if isinstance(row.words, str) else row.words(case)
    return row.method, words, None if row.fallbacks is None else row.fallbacks(case)


def suits_blocks(problem, n_examples):
    """Return whether steps on examples are faster than L-BFGS for a log-loss with free intercepts of classes.

    L-BFGS scales the columns. Measured seconds to a gap of 1e-3, steps : L-BFGS: 0.05 : 0.11 on 1797 x 64 pixels,
    0.50 : 0.17 on 20000 x 50 numbers, 0.30 : 0.04 if the sizes of columns differ.
    """
    if problem.even is None:
        return False
    K, d = problem.classes.rows.shape
    sizes = problem.anchors.curvatures(problem.even).reshape(K, d)[1, :-1]
    is_even = sizes.max(initial=0.0) <= UNEVEN * np.median(sizes) if len(sizes) else True
    return n_examples <= MANY * d and (is_even or n_examples <= d)
