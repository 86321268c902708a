"""A risk whose parts live elsewhere: the protocol of `Risk` over a workplace."""

from __future__ import annotations

import copy
import math
import time
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..core.exceptions import BundleError, ContradictionError, OracleError, ParameterError
from ..core.plane import PartialPlanes, Planes
from ..core.protocols import RiskBase
from ..core.types import Array, Floats
from ..core.validation import check_choice, check_vector
from .accounts import Accounts
from .messages import Question, single_errors, unpack
from .parts import Description, Parts
from .waiting import TICK, OutOfTime, Waiting
from .workplace import excerpt

DENSE_FROM = 0.1
"""Share of non-zeros from which slopes of all parts together are dense; the bundle has the same rule."""


class RemoteRisk(RiskBase):
    """`R(w) = sum_p R_p(w)` with parts that live with the workers of an executor; made by its `place`.

    Attributes
    ----------
    dim, n_examples, n_parts, lower_bounds, slope_errors, slope_sizes, offset_errors, smooth, nonneg, fingerprint
        As in `Risk`, of the placed risk.
    part_sizes : ndarray, shape (P,)
        Numbers of examples.
    rounds : dict
        What every round cost so far; also in `result.rounds`. See `Accounts`.
    home : Risk or None
        The placed risk, if its data are in this process.

    Notes
    -----
    Planes of a part are computed by one worker over the same shards in the same order as without workers, and stand in
    the order of the parts: a run that waits for all of them has the same bits, whatever the workers. There is no access
    to single examples and no line search: block methods and `method="oca"` with `line_search=True` need the data.
    One run at a time may use it; another one gets ParameterError.
    """

    dim: int
    n_examples: int
    lower_bounds: Array
    part_sizes: Array

    is_remote = True
    _run = None             # the run that uses it, if any

    def __init__(self, workplace: Any, description: Any, single: bool = False, home: Any = None) -> None:
        self._precision: str | None = None
        self._workplace, self._single = workplace, single
        self.home = home
        self._accounts = Accounts(workplace.n_workers)
        self._describe(description)

    def _describe(self, known):
        vars(self).update(known._asdict(), n_parts=len(known.lower_bounds))
        self._exact_errors = known.slope_errors
        if self._single:
            if known.slope_sizes is None:
                raise ParameterError("compress='float32' needs a risk that bounds the norms of its slopes "
                                     "(slope_sizes), since rounding is counted against the bound; use compress='exact'")
            self.slope_errors = self.slope_errors + single_errors(known.slope_sizes, self.dim)

    @classmethod
    def described_by_workers(cls, workplace: Any, single: bool = False) -> RemoteRisk:
        """Build the risk if only the workers have the data: they send sizes and bounds."""
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

    def planes(self, w: ArrayLike) -> Any:
        """Return one plane per part, tight at w: w is sent once, and the call waits for the last part."""
        return self.gather(self.submit(w))

    def gather(self, number: int) -> Any:
        """The planes of a round in the order of the parts."""
        pieces: list[Any] = [None] * self.n_parts
        while any(piece is None for piece in pieces):
            try:
                arrivals = self.collect()
            except (OutOfTime, KeyboardInterrupt) as end:
                if self.home is None or self._run is None or self._run.has_begun:
                    raise
                # without a first pass there is no result; a second Ctrl-C ends this, too
                self._run.no_longer(isinstance(end, KeyboardInterrupt))
                arrivals = [self._computed_here(parts, number) for parts in self.groups if pieces[parts[0]] is None]
            for arrival in arrivals:
                if arrival.round == number and pieces[arrival.parts[0]] is None:
                    for row, p in enumerate(arrival.parts):
                        pieces[p] = arrival.planes, row
        if self._run is not None:
            self._run.has_begun = True
        return _assembled(pieces, self.dim)

    def values(self, w: ArrayLike) -> tuple[Floats, Floats]:
        """Values (P,) in float64 and bounds (P,) on their rounding errors."""
        number = self._send(check_vector("w", w, self.dim), "values", range(len(self._workplace.groups)))
        values, errors = np.full(self.n_parts, np.nan), np.zeros(self.n_parts)
        missing = len(self._workplace.groups)
        while missing:
            for g, question, answer in self._receive():
                if question.round == number:
                    parts = self._workplace.groups[g]
                    values[parts], errors[parts] = answer.arrays
                    missing -= 1
        return values, errors

    def derive(self, n_parts: int | None = None, precision: str | None = None, executor: Any = None) -> Any:
        """The same parts, in another working precision; their number is that with which they were placed."""
        if n_parts not in (None, self.n_parts):
            raise ParameterError(f"n_parts must be {self.n_parts}, the parts that were placed, got {n_parts}; place "
                                 "the risk anew")
        other = copy.copy(self)
        if precision is not None:
            other._precision = check_choice("precision", precision, ("float32", "float64"))
            other._single, other.slope_errors = False, self._exact_errors
        return other

    @property
    def is_single(self) -> bool:
        """Whether slopes arrive in float32 although they could be exact."""
        return self._single

    @contextmanager
    def in_use(self, precision: str | None = None) -> Any:
        """The same for a run alone, for the length of the block: two would take each other's answers."""
        if not self._workplace.in_use.acquire(blocking=False):
            raise ParameterError("risk must be in one run at a time if workers hold its parts, and another run "
                                 "uses it; place it twice, or wait")
        try:
            mine = self.derive(precision=precision)
            mine._run = self._workplace.run = Waiting()
            yield mine
        finally:
            self._workplace.run = None
            self._workplace.in_use.release()

    @property
    def waiting(self) -> Any:
        """How long the run for which this is waits for workers, `Waiting`; None without a run."""
        return self._run

    def close(self) -> None:
        """Lets the workers forget the parts."""
        self._workplace.close()

    # ------------------------------------------------------------------ planes as they come
    @property
    def groups(self) -> list[Array]:
        """Numbers of the parts that are answered for together, a list of arrays."""
        return self._workplace.groups

    @property
    def n_workers(self) -> int:
        """Groups that are worked on at once."""
        return self._workplace.n_workers

    def submit(self, w: ArrayLike, groups: Any = None) -> int:
        """Send w to all groups, or to some; return the number of the round."""
        return self._send(check_vector("w", w, self.dim), "planes",
                          range(len(self._workplace.groups)) if groups is None else groups)

    def collect(self, timeout: float | None = None) -> list[Any]:
        """List of `PartialPlanes` that came since the last call, of any round.

        Waits for one if there is none, but no longer than `timeout` seconds.
        """
        found = []
        for g, question, answer in self._receive(timeout):
            if question.kind == "planes":
                found.append(self._arrival(self._workplace.groups[g], question.round, answer))
        return found

    # ------------------------------------------------------------------ inside
    def _arrival(self, parts, number, answer):
        if answer.record is not None:
            self.errors_grow, self.slope_errors = True, np.array(self.slope_errors)
            grown = 1.0 if self.means is None else 1.0 + float(np.linalg.norm(self.means))
            self.slope_errors[parts] = np.maximum(self.slope_errors[parts], grown * answer.record)
        return PartialPlanes(parts, unpack(answer.arrays, self.dim), number)

    def _computed_here(self, parts, number):
        """The planes of a group in the last round as its worker would have sent them."""
        question, w = self._last
        return self._arrival(parts, number, checked(Parts(excerpt(self.home, parts), len(parts)).answer(question, w)))

    def _send(self, w, kind, groups):
        self._check_open()
        if self._run is not self._workplace.run is not None and self._workplace.n_open > 0:
            raise ParameterError("risk must not be evaluated while a run uses it that does not wait for all answers "
                                 "(deterministic=False); place it twice")
        w, number = np.array(w), self._accounts.open()
        self._workplace.last_round = number
        question = Question(number, kind, self._precision, self._single)
        self._last = question, w
        if self._run is not None:
            self._run.asked()
        for g in groups:
            self._workplace.ask(g, question, w)
            self._workplace.n_open += 1
            self._accounts.sent(number, w.nbytes)
        return number

    def _check_open(self):
        if self._workplace.is_closed:
            raise BundleError("the parts of this risk were given back by close(), of this risk or of its executor; "
                              "place the risk again")

    def _receive(self, timeout=None):
        self._check_open()
        began, found = time.perf_counter(), []
        while not found and (timeout is None or time.perf_counter() < began + timeout):
            found = self._workplace.answers(TICK if timeout is None else min(timeout, TICK))
            if not found and self._run is not None:
                self._run.check()
        self._accounts.waited(time.perf_counter() - began)
        self._workplace.n_open -= len(found)
        failed = None
        for _, question, answer in found:
            self._accounts.received(question.round, answer)
            if self._run is not None:       # groups of one worker take turns
                self._run.heard(answer.seconds * -(-len(self.groups) // self.n_workers))
            if failed is None and answer.failure is not None and question.round > self._workplace.given_up:
                failed = answer
        if failed is not None:
            self._workplace.given_up = self._workplace.last_round
            checked(failed)
        return [entry for entry in found if entry[2].failure is None]


def checked(answer):
    """The answer itself; raises the error of the worker, with its traceback as a note."""
    failure = answer.failure
    if failure is None:
        return answer
    error = (ContradictionError if isinstance(failure.error, ContradictionError) else OracleError)(failure.sentence)
    error.add_note("traceback of the worker:\n" + failure.trace)
    raise error from failure.error


def _assembled(pieces, dim):
    """Planes in the order of the parts from (planes, row) of each."""
    values = np.array([planes.values[row] for planes, row in pieces])
    offsets = np.array([planes.offsets[row] for planes, row in pieces])
    count = sum(planes.slopes.indptr[row + 1] - planes.slopes.indptr[row] if sp.issparse(planes.slopes) else dim
                for planes, row in pieces)
    if count < DENSE_FROM * dim * len(pieces):
        return Planes(values, offsets, sp.vstack([planes.slopes[[row]] for planes, row in pieces], format="csr"))
    slopes = np.zeros((len(pieces), dim))
    for p, (planes, row) in enumerate(pieces):
        if sp.issparse(planes.slopes):
            inside = slice(*planes.slopes.indptr[row:row + 2])
            np.add.at(slopes[p], planes.slopes.indices[inside], planes.slopes.data[inside])     # entries may repeat
        else:
            slopes[p] = planes.slopes[row]
    return Planes(values, offsets, slopes)


def _joined(records, groups):
    """Merge the descriptions of the groups; None stands for groups without examples."""
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
    means = first.means         # any will do: they only say how distances are measured
    if means is not None:
        means = np.average([record.means for record in known], axis=0, weights=[record.n_examples for record in known])
        records = [record and _measured_from(record, means) for record in records]
    constants, values = zip(*(record.constant for record in known), strict=True)    # R of the best one is no less
    names = ("lower_bounds", "part_sizes", "slope_errors", "offset_errors", "slope_sizes")
    return Description(first.dim, sum(record.n_examples for record in known), *map(column, names),
                       all(record.smooth for record in known), first.nonneg, first.free, means, first.shift,
                       (float(np.median(constants)), math.fsum(values)),
                       (sum(record.steepness[0] for record in known), math.hypot(*(r.steepness[1] for r in known))),
                       tuple(None if record is None else record.fingerprint for record in records))


def _measured_from(record, means):
    """The description with slope errors and sizes that hold for the common means: see `RiskBase.slope_errors`.

    A worker states the sum of a part for all columns and of |its own means| times a part for the intercept, which is
    no larger.
    """
    size, own = float(np.linalg.norm(means)), float(np.linalg.norm(record.means))
    factor = 1.0 + size if own == 0.0 else max(1.0, min(1.0 + size, 1.01 * size / own))
    sizes = record.slope_sizes
    return record._replace(slope_errors=factor * record.slope_errors,
                           slope_sizes=None if sizes is None else factor * sizes)
