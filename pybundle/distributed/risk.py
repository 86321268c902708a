"""`RemoteRisk` implements the protocol of `Risk` for parts that workers hold."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..bundle import SPARSE_BELOW
from ..core.exceptions import BundleError, ContradictionError, OracleError, ParameterError
from ..core.plane import Planes
from ..core.protocols import Constant, RiskBase
from ..core.types import Array, Floats
from ..core.validation import check_choice, check_vector
from .accounts import Accounts
from .messages import Question, single_errors, unpack
from .parts import Description, Parts
from .waiting import TICK, OutOfTime, Waiting
from .workplace import excerpt


class RemoteRisk(RiskBase):
    """`R(w) = sum_p R_p(w)` with parts that live with the workers of an executor; made by its `place`.

    Attributes
    ----------
    dim, n_examples, n_parts, lower_bounds, slope_errors, slope_sizes, offset_errors, smooth, nonneg, fingerprint
        As in `Risk`, of the placed risk.
    rounds : dict
        What every round cost so far; also in `result.rounds`. See `Accounts`.
    home : Risk or None
        The placed risk, if its data are in this process.

    Notes
    -----
    Planes of a part are computed by one worker over the same shards in the same order as without workers, and stand in
    the order of the parts: a run has the same bits, whatever the workers. There is no access to single examples and no
    line search: block methods and `method="oca"` with `line_search=True` need the data.
    One run at a time may use it; another one gets ParameterError.
    """

    dim: int
    n_examples: int
    n_parts: int
    lower_bounds: Array

    waiting: Any = None     # the `Waiting` of the run that uses the risk

    @property
    def remote(self) -> Self:
        """See `RiskBase`."""
        return self

    def __init__(self, workplace: Any, description: Any, single: bool = False, home: Any = None) -> None:
        self._precision: str | None = None
        self._accuracy = np.inf
        self._workplace = workplace
        self.is_single: bool = single       # whether slopes are sent in float32
        self.home = home
        self._accounts = Accounts(workplace.n_workers)
        vars(self).update(description._asdict(), n_parts=len(description.lower_bounds))
        self._exact_errors, self._single_errors = self.slope_errors, np.zeros(self.n_parts)
        if self.is_single:
            if self.slope_sizes is None:
                raise ParameterError("compress='float32' needs a risk that bounds the norms of its slopes "
                                     "(slope_sizes), since rounding is counted against the bound; use compress='exact'")
            self._single_errors = self._single_errors + single_errors(self.slope_sizes, self.dim)
            self.slope_errors: Any = self.slope_errors + self._single_errors

    @classmethod
    def described_by_workers(cls, workplace: Any, single: bool = False) -> RemoteRisk:
        """Return the risk of data that only the workers have; they send its description."""
        answers: list[Any] = [None] * len(workplace.groups)
        for g in range(len(answers)):
            workplace.ask(g, Question(0, "describe"), np.empty(0))
        while any(answer is None for answer in answers):
            for g, _, answer in workplace.answers():
                answers[g] = checked(answer)
        return cls(workplace, _joined([answer.record for answer in answers], workplace.groups), single)

    @property
    def rounds(self) -> dict[str, Any]:
        return self._accounts.arrays()

    # ------------------------------------------------------------------ Risk
    def evaluate(self, w: ArrayLike) -> tuple[Floats, Any]:
        """Values (P,) and subgradients (P, dim) at w."""
        planes = self.planes(w)
        return planes.values, planes.slopes

    def planes(self, w: ArrayLike) -> Planes:
        """Return one plane per part, tight at w: w is sent once, and the call waits for the last part."""
        answers = self._ask("planes", w)
        errors, grown = np.array(self.slope_errors), 1.0
        if self.means is not None:
            grown += float(np.linalg.norm(self.means))
        for parts, answer in zip(self._workplace.groups, answers, strict=True):
            slope_errors, is_exact = answer.record or (None, True)
            self.decodes_exactly &= is_exact
            if slope_errors is not None:
                errors[parts] = grown * slope_errors + self._single_errors[parts]
        if self.waiting is not None:
            self.waiting.has_begun = True
        planes = _assembled([unpack(answer.arrays, self.dim) for answer in answers], self.dim)
        return planes._replace(slope_errors=errors)

    def aim(self, accuracy: float) -> None:
        """See `RiskBase`."""
        self._accuracy = accuracy

    def values(self, w: ArrayLike) -> tuple[Floats, Floats]:
        """Values (P,) in float64 and bounds (P,) on their rounding errors."""
        values, errors = zip(*(answer.arrays for answer in self._ask("values", w)), strict=True)
        return np.concatenate(values), np.concatenate(errors)

    def derive(self, n_parts: int | None = None, precision: str | None = None, executor: Any = None) -> Self:
        """The same parts, in another working precision; their number is that with which they were placed."""
        if n_parts not in (None, self.n_parts):
            raise ParameterError(f"n_parts must be {self.n_parts}, the parts that were placed, got {n_parts}; place "
                                 "the risk anew")
        other = copy.copy(self)
        if precision is not None:
            other._precision = check_choice("precision", precision, ("float32", "float64"))
            other.is_single, other.slope_errors = False, self._exact_errors
            other._single_errors = np.zeros(self.n_parts)
        return other

    @contextmanager
    def in_use(self, precision: str | None = None) -> Iterator[RemoteRisk]:
        """Yield the risk for use in the block by one run, as two would take each other's answers."""
        if not self._workplace.in_use.acquire(blocking=False):
            raise ParameterError("risk must be in one run at a time if workers hold its parts, and another run "
                                 "uses it; place it twice, or wait")
        try:
            mine = self.derive(precision=precision)
            mine.waiting = self._workplace.run = Waiting()
            yield mine
        finally:
            self._workplace.run = None
            self._workplace.in_use.release()

    def close(self) -> None:
        """Lets the workers forget the parts."""
        self._workplace.close()

    # ------------------------------------------------------------------ inside
    def _ask(self, kind, w):
        """Return the answers of all groups at w, in the order of the groups."""
        groups, found, run = self._workplace.groups, {}, self.waiting
        question, w = self._send(check_vector("w", w, self.dim), kind)
        while len(found) < len(groups):
            try:
                found |= self._receive(question.round)
            except (OutOfTime, KeyboardInterrupt) as end:
                if self.home is None or run is None or run.has_begun:
                    raise
                # a result needs one whole pass, so missing answers are computed here, until a second Ctrl-C
                run.no_longer(isinstance(end, KeyboardInterrupt))
                found |= {g: checked(Parts(excerpt(self.home, parts), len(parts)).answer(question, w))
                          for g, parts in enumerate(groups) if g not in found}
        return [found[g] for g in range(len(groups))]

    def _send(self, w, kind):
        """Send w to all groups, as a copy that later changes of w leave alone; return the question and the copy."""
        if self._workplace.is_closed:
            raise BundleError("the parts of this risk were given back by close(); place the risk again")
        w, number = np.array(w), self._accounts.open()
        question = Question(number, kind, self._precision, self.is_single, self._accuracy)
        if self.waiting is not None:
            self.waiting.asked()
        for g in range(len(self._workplace.groups)):
            self._workplace.ask(g, question, w)
            self._accounts.sent(number, w.nbytes)
        return question, w

    def _receive(self, number):
        """Wait for answers; return, by group, the answers to the question with this number.

        Late answers to earlier questions, after a failure or a Ctrl-C, are only counted.
        """
        began, found, workplace = time.perf_counter(), [], self._workplace
        while not found:
            found = workplace.answers(TICK)
            if not found and self.waiting is not None:
                self.waiting.check()
        self._accounts.waited(time.perf_counter() - began)
        for _, question, answer in found:
            self._accounts.received(question.round, answer)
            if self.waiting is not None:       # a worker answers for all its groups in turn
                self.waiting.heard(answer.seconds * -(-len(workplace.groups) // workplace.n_workers))
        return {g: checked(answer) for g, question, answer in found if question.round == number}


def checked(answer):
    """Return the answer, or raise the error of the worker, with its traceback as a note."""
    failure = answer.failure
    if failure is None:
        return answer
    error = (ContradictionError if isinstance(failure.error, ContradictionError) else OracleError)(failure.sentence)
    error.add_note("traceback of the worker:\n" + failure.trace)
    raise error from failure.error


def _assembled(pieces, dim):
    """Return the planes of all parts from those of the groups, in the order of the groups."""
    values, offsets = (np.concatenate([planes[k] for planes in pieces]) for k in range(2))
    slopes = [planes.slopes for planes in pieces]
    if sum(rows.nnz if sp.issparse(rows) else rows.size for rows in slopes) < SPARSE_BELOW * dim * len(values):
        return Planes(values, offsets, sp.vstack(slopes, format="csr"))
    together = np.empty((len(values), dim))
    starts = np.cumsum([rows.shape[0] for rows in slopes])[:-1]
    for mine, rows in zip(np.split(together, starts), slopes, strict=True):
        mine[:] = rows.toarray() if sp.issparse(rows) else rows     # `toarray` sums entries of equal index
    return Planes(values, offsets, together)


def _joined(records, groups):
    """Merge the descriptions of the groups; a group without examples has the description None."""
    known = [record for record in records if record is not None]
    if not known:
        raise ParameterError("the parts must hold at least one example, got none")
    dims = {record.dim for record in known}
    if len(dims) > 1:
        raise ParameterError(f"the risks of all parts must have the same dim, got {sorted(dims)}")

    def column(name, missing=0.0):
        rows = [np.full(len(group), missing) if record is None else getattr(record, name)
                for record, group in zip(records, groups, strict=True)]
        return None if any(row is None for row in rows) else np.concatenate(rows)

    first = known[0]
    means = first.means         # all parts need the same means; `_measured_from` converts error bounds to these means
    if means is not None:
        means = np.average([record.means for record in known], axis=0, weights=[record.n_examples for record in known])
        records = [record and _measured_from(record, means) for record in records]
    # each value is the minimum of a group over constant scores; at a score common to all groups, R is at least the sum
    scores, values, linear, roots = zip(*(record.constant for record in known), strict=True)
    names = ("lower_bounds", "slope_errors", "offset_errors", "slope_sizes")
    return Description(first.dim, sum(record.n_examples for record in known), *map(column, names),
                       all(record.smooth for record in known), first.nonneg, first.free, means, first.shift,
                       Constant(float(np.median(scores)), math.fsum(values), sum(linear), math.hypot(*roots)),
                       tuple(None if record is None else record.fingerprint for record in records),
                       first.assumption, first.kind)


def _measured_from(record, means):
    """Return the description with slope errors and sizes that hold for the common means, see `RiskBase.slope_errors`.

    A worker's bound is a + |m| b: m are its own means, a is from all columns, b from the intercept, and b <= a.
    """
    size, own = float(np.linalg.norm(means)), float(np.linalg.norm(record.means))
    factor = 1.0 + size if own == 0.0 else max(1.0, min(1.0 + size, 1.01 * size / own))
    sizes = record.slope_sizes
    return record._replace(slope_errors=factor * record.slope_errors,
                           slope_sizes=None if sizes is None else factor * sizes)
