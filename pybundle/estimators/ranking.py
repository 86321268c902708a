"""`RankingSVM` orders the rows of groups by their grades, or by censored times; `RankingSVMCV` also chooses C."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.model_selection import GroupKFold, GroupShuffleSplit
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from ..core.exceptions import InputTypeError, ParameterError, StateError
from ..core.groups import group_codes
from ..core.types import Callbacks, Data, Floats
from ..core.validation import bool_array, check_vector, refuse_masked
from ..metrics import average_precision, concordance, ndcg, precision, reciprocal_rank
from ..risks import Ranking
from ..solvers.method import Method
from .base import CertifiedEstimator
from .collections import is_collection
from .compat import seed_of, validate_data
from .cv import GRID, PathCV
from .regression import FORMATS

METRICS: dict[str, Any] = {"ndcg": ndcg, "map": average_precision, "mrr": reciprocal_rank,
                           "precision": precision}
GRADE, GROUP, EVENT = "_grade", "_group", "_event"      # columns of the joined targets

SETTINGS = """form : {"hinge", "squared"}
        Whether a pair costs what its difference of scores lacks of the margin, or half of the square of that.
    margin : {"unit", "difference"}
        The difference that the scores of a pair should have: 1, or the difference of its grades.
    pair_weight : {"difference"}, optional
        The weight of a pair is the difference of its grades; by default it is 1.
    metric : str
        What `score` returns: "pairs", the share of pairs in the right order, see `pb.metrics.concordance`; or the mean
        over groups of "ndcg", "map" or "mrr", also up to rank k as in `"ndcg@10"`, or of "precision@k"."""


class RankingSVM(RegressorMixin, CertifiedEstimator):
    """Linear ranking: orders rows within groups, trained on pairs of different grades to a certified gap.

        F(w) = |w|^2 / (2 C) + sum over pairs of max(0, 1 - <w, x_i - x_j>),     y_i > y_j in one group

    Pairs are never listed: a pass takes O(nnz(X) + n log n). A linear ranker is often no better than a regression on
    the grades; compare the two.

    Parameters
    ----------
    {C}
    {ranking}
    {parameters}

    Attributes
    ----------
    coef_ : ndarray, shape (d,)
    n_features_in_, feature_names_in_ : int, ndarray
        Number of columns of X, and their names if X had some; a column `qid` is no feature.
    n_pairs_, n_groups_, n_idle_groups_ : int
        Numbers of pairs, of groups, and of groups without a pair, such as groups of one grade.
    has_groups_, has_events_ : bool
        Whether the fit had groups, and whether it had events; then `score` needs them, too.
    {certificate}

    Notes
    -----
    Groups are `qid`, one name for each row in any order, or a column of that name in a data frame. Searches of
    scikit-learn pass `qid` on only with metadata routing:

        sklearn.set_config(enable_metadata_routing=True)
        RankingSVM().set_fit_request(qid=True).set_score_request(qid=True)

    and in a Pipeline `score` must also request `sample_weight=True`. Without routing they silently leave `qid` out of
    `score`; therefore a model that was fitted with groups refuses to score without them. A column `qid` needs no
    routing, but no scaler may come before the model: scalers return arrays, in which `qid` would be a feature.
    There is no intercept, as it changes no order, and single rows have no weights.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.standard_normal((200, 3)), np.repeat(np.arange(20), 10)
    >>> y = np.clip(np.round(X[:, 0] + rng.standard_normal(200)[qid]), 0, 2)
    >>> model = pb.RankingSVM(metric="ndcg@5").fit(X, y, qid=qid)
    >>> model.converged_, model.score(X, y, qid=qid) > 0.95
    (True, True)
    """

    _pieces = MappingProxyType({"ranking": SETTINGS})
    _takes_sparse = True
    _unlimited = ("n_iter_", "n_pairs_", "n_groups_", "n_idle_groups_")
    n_features_in_: int

    def __init__(self, C: float = 1.0, *, form: str = "hinge", margin: str = "unit", pair_weight: str | None = None,
                 metric: str = "pairs", tol: float = 1e-3, atol: float | None = None, method: str | Method = "auto",
                 max_iter: int | None = None, time_limit: float | None = None, n_jobs: int | None = None,
                 random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def fit(self, X: Data, y: Any, qid: ArrayLike | None = None, event: ArrayLike | None = None) -> Self:
        """Trains on the rows X with the grades y.

        Parameters
        ----------
        X : array, CSR matrix or data frame, shape (n, d)
        y : array, shape (n,)
            Grades, where larger is better; or times, for which scores grow with the time; or pairs (event, time), as
            in scikit-survival.
        qid : array, shape (n,), optional
            Names of the groups, in any order; only rows of one group are compared. None: one group.
        event : bool array, shape (n,), optional
            Whether the event was seen at the time y_i, see `pb.risks.Ranking`.

        Returns
        -------
        self
            On Ctrl-C the best state so far is stored, then KeyboardInterrupt is raised.

        Raises
        ------
        ParameterError, InputTypeError
            If parameters or data are refused, or no group has a pair to compare.
        """
        self._parsed_metric()
        return super().fit(*self._joined(X, y, qid, event))

    def _joined(self, X, y, qid, event):
        """Return the features, and a structured array of the grades, and the groups and events if there are some."""
        if is_collection(X) or is_collection(y):
            raise InputTypeError("X and y must be in memory for RankingSVM, got Dask collections; minimise "
                                 "pb.risks.Ranking with executor= the client")
        X, qid = without_qid(X, qid)
        names = getattr(getattr(y, "dtype", None), "names", None) or ()
        if GRADE in names:              # a search or a callback passes targets that are joined already
            return X, y
        if names:
            kinds = [y.dtype[name].kind for name in names]
            if sorted(kinds) not in (["b", "f"], ["b", "i"], ["b", "u"]) or event is not None:
                raise ParameterError("y must be numbers, or pairs (event, time) of a bool and a number, then without "
                                     f"event=, got fields {', '.join(names)}")
            event, y = y[names[kinds.index("b")]], y[names[1 - kinds.index("b")]]
        if y is None:
            raise ParameterError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        refuse_masked("y", y)
        y = np.asarray(y)
        if y.dtype.kind == "c":
            raise ParameterError("Complex data not supported: y must hold real numbers")
        grades = check_vector("y", column_or_1d(y, warn=True))
        fields = {GRADE: grades}
        if qid is not None:
            fields[GROUP] = group_codes(qid, len(grades), "qid")[0]
        if event is not None:
            fields[EVENT] = bool_array("event", event, grades.shape)
        made = np.empty(len(grades), dtype=[(name, column.dtype) for name, column in fields.items()])
        for name, column in fields.items():
            made[name] = column
        return X, made

    def _take(self, X, y, sample_weight):
        X = validate_data(self, X, **FORMATS)
        if X.shape[0] != len(y):
            raise ParameterError(f"X and y must have the same number of rows, got inconsistent numbers of samples: "
                                 f"{[X.shape[0], len(y)]}")
        if len(y) < 2:
            raise ParameterError(f"X must hold two rows to compare, got {len(y)} sample")
        return X, y, np.ones(len(y))

    def _split(self, y, fraction):
        if GROUP not in y.dtype.names or not y[GROUP].any():        # all rows are one group
            return super()._split(y, fraction)
        splitter = GroupShuffleSplit(1, test_size=fraction, random_state=seed_of(self.random_state) or 0)
        return next(splitter.split(y, groups=y[GROUP]))

    def _survey(self, X, y, weights):
        return {"n_features_in_": int(X.shape[1]), "has_groups_": GROUP in y.dtype.names,
                "has_events_": EVENT in y.dtype.names}

    def _learn(self, surveys):
        return surveys[0]

    def _risk(self, X, y, weights, fitted):
        options = {name: getattr(self, name) for name in ("form", "margin", "pair_weight")}
        risk = Ranking(X, *columns(y), **options)
        fitted |= {name + "_": getattr(risk, name) for name in ("n_pairs", "n_groups", "n_idle_groups")}
        return risk

    def _last_point(self, risk, fitted):
        return self.coef_ if np.shape(vars(self).get("coef_")) == (risk.dim,) else None

    def _check_state(self):
        super()._check_state()
        if self.coef_.shape != (self.n_features_in_,) or not isinstance(vars(self).get("has_groups_"), bool) or not (
                isinstance(vars(self).get("has_events_"), bool)):
            raise StateError("coef_, has_groups_ and has_events_ must be there, and coef_ fit n_features_in_")

    def predict(self, X: Data) -> Floats:
        """Return the scores `<coef_, x_i>` (n,); only their order within a group counts."""
        check_is_fitted(self)
        X = validate_data(self, without_qid(X, None)[0], reset=False, **FORMATS)
        return np.asarray(X @ self.coef_.astype(X.dtype, copy=False), dtype=np.float64)

    def score(self, X: Data, y: Any, qid: ArrayLike | None = None, sample_weight: None = None,
              event: ArrayLike | None = None) -> float:
        """Return the metric of the rankings of X, see the parameter `metric`; arguments as in `fit`.

        Raises
        ------
        ParameterError
            If the fit had groups or events and they are missing here, or if rows have weights.
        """
        check_is_fitted(self)
        metric, k = self._parsed_metric()
        X, y = self._joined(X, y, qid, event)
        for fitted, field, name in ((self.has_groups_, GROUP, "qid"), (self.has_events_, EVENT, "event")):
            if fitted and field not in y.dtype.names:
                raise ParameterError(f"{name} must be passed to score, since the fit had it; in a search of scikit-"
                                     f"learn turn on metadata routing and set_score_request({name}=True)"
                                     + (", or pass a data frame with a column qid" if name == "qid" else ""))
        grades, groups, events = columns(y)
        scores = self.predict(X)
        if sample_weight is not None:
            raise ParameterError("sample_weight must be None, since single rows have no weight in pairs; weigh pairs "
                                 "by pair_weight='difference'")
        if metric == "pairs":
            return concordance(grades, scores, groups, event=events)
        if events is not None:
            raise ParameterError(f"metric must be 'pairs' for censored times, got {self.metric!r}")
        return METRICS[metric](grades, scores, groups, k=k)

    def _parsed_metric(self):
        parts = re.fullmatch(r"(pairs)|(ndcg|map|mrr)(?:@([1-9]\d*))?|(precision)@([1-9]\d*)", str(self.metric))
        if parts is None:
            raise ParameterError("metric must be 'pairs', 'ndcg', 'map', 'mrr', 'ndcg@k', 'map@k', 'mrr@k' or "
                                 f"'precision@k', got {self.metric!r:.40}")
        k = parts[3] or parts[5]
        return parts[1] or parts[2] or parts[4], None if k is None else int(k)


class RankingSVMCV(PathCV, RankingSVM):
    """`RankingSVM` whose C is chosen by cross-validation, with one warm-started path for each fold; groups stay whole.

    Parameters
    ----------
    {grid}
        If there are groups, a number `cv` stands for folds of whole groups (`GroupKFold`).
    {ranking}
    {grid_parameters}

    Attributes
    ----------
    {grid_attributes}
    coef_, n_features_in_, feature_names_in_, n_pairs_, n_groups_, n_idle_groups_ : see `RankingSVM`
    {certificate}

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.standard_normal((200, 3)), np.repeat(np.arange(20), 10)
    >>> y = np.clip(np.round(X[:, 0] + rng.standard_normal(200)[qid]), 0, 2)
    >>> search = pb.RankingSVMCV([0.001, 0.01, 0.1], cv=4).fit(X, y, qid=qid)
    >>> search.scores_.shape, search.C_ in search.Cs_
    ((4, 3), True)
    """

    _pieces = MappingProxyType({**GRID, "ranking": SETTINGS})
    _kind = RankingSVM

    def __init__(self, Cs: int | ArrayLike = 8, *, cv: Any = None, scoring: Any = None, search_tol: float | None = None,
                 form: str = "hinge", margin: str = "unit", pair_weight: str | None = None, metric: str = "pairs",
                 tol: float = 1e-3, atol: float | None = None, method: str | Method = "auto",
                 max_iter: int | None = None, time_limit: float | None = None, n_jobs: int | None = None,
                 random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def fit(self, X: Data, y: Any, qid: ArrayLike | None = None,        # type: ignore[override]
            event: ArrayLike | None = None) -> Self:
        """Searches the grid, then fits with the best C on all rows; arguments and errors as in `RankingSVM.fit`."""
        self._parsed_metric()
        return super().fit(*self._joined(X, y, qid, event))

    def _checked(self, X, y):
        return self._take(X, y, None)[:2]

    def _splitter(self, y):
        is_number = self.cv is None or isinstance(self.cv, (int, np.integer))
        return GroupKFold(self.cv or 5) if is_number and GROUP in y.dtype.names else self.cv

    def _folds(self, data, groups):
        y = data[1]
        return super()._folds(data, y[GROUP] if GROUP in y.dtype.names else groups)


def columns(y):
    """Return the grades of joined targets, and the groups and events, None where there are none."""
    return [np.ascontiguousarray(y[name]) if name in y.dtype.names else None for name in (GRADE, GROUP, EVENT)]


def without_qid(X, qid):
    """Return X without a column `qid`, and this column; or both arguments if X has no such column."""
    if not hasattr(X, "columns") or "qid" not in list(X.columns):
        return X, qid
    if qid is not None:
        raise ParameterError("qid must be an argument or a column of X, got both; leave one out")
    column = X["qid"]
    return X[[name for name in X.columns if name != "qid"]], np.asarray(column)
