"""Fit estimators to Dask arrays and bags: workers keep the blocks, summarise them and evaluate their risks."""

import sys
from contextlib import contextmanager
from functools import wraps

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, ParameterError, StateError
from ..distributed import Dask
from ..distributed.workplace import grouped
from ..models.batch_oracle import check_lengths

LEAST_PARTS = 16
"""Least number of parts that all blocks together are divided into."""


def is_collection(data):
    """Return whether data are a Dask array, bag or another collection, without importing Dask."""
    dask = sys.modules.get("dask")
    return dask is not None and dask.is_dask_collection(data)


@contextmanager
def placed(estimator, X, y, sample_weight):
    """Yield the risk of collections, which stay on the workers, and the fitted attributes known so far.

    Workers check and survey their blocks, the driver learns from the surveys, then every worker builds its risk.
    """
    executor = Dask(_client())
    client, bare = executor.client, _bare(estimator)
    pieces = _pieces(X=X, y=y, sample_weight=sample_weight)
    parts = [[pieces[k] for k in group] for group in grouped(len(pieces), executor.n_slots)]
    firsts = np.cumsum([0, *map(len, parts)])
    taken = client.compute([_delayed(_take)(bare, int(first), *part)
                            for first, part in zip(firsts, parts, strict=False)])
    surveys = [survey for survey in client.gather(_mapped(client, "_survey", bare, taken)) if survey is not None]
    if not surveys:
        raise ParameterError("X must hold at least one example of weight above 0, got none in any block")
    fitted = estimator._learn(surveys)
    if estimator._surveys_again(fitted):
        fitted |= estimator._learn_again(client.gather(_mapped(client, "_survey_again", bare, taken, fitted=fitted)))
    if "n_features_in_" in fitted:              # scikit-learn's checks set this attribute for data in memory
        estimator.n_features_in_ = fitted["n_features_in_"]
        vars(estimator).pop("feature_names_in_", None)
    n_parts = -(-LEAST_PARTS // len(taken))
    risks = _mapped(client, "_risk", bare, taken, fitted=fitted, n_parts=n_parts)
    for future in risks:
        if future.exception() is not None:      # the error of a worker is raised here, too
            raise future.exception()
    del taken                                   # frees the blocks; the risks hold the encoded data
    remote = executor.risk_of(risks, n_parts=n_parts)
    try:
        yield remote, fitted
    finally:
        remote.close()


def by_blocks(method):
    """Decorate a method of X alone: for Dask arrays and bags it runs lazily on every block.

    The result for an array is an array if the method returns arrays, and a bag if it returns lists.
    """
    @wraps(method)
    def call(self, X, *args, **kwargs):
        if not is_collection(X):
            return method(self, X, *args, **kwargs)
        fitted = served(self)

        def of_block(block):
            return method(fitted, block, *args, **kwargs)

        def of_list(examples):
            examples = list(examples)
            return list(of_block(examples)) if examples else []

        if _is_bag(X):
            return X.map_partitions(of_list)
        X = _whole_rows(X)
        sample = None if X.ndim == 1 else of_block(np.zeros((1, *X.shape[1:]), dtype=X.dtype))
        if not isinstance(sample, np.ndarray):
            from dask.bag import from_delayed

            return from_delayed([_delayed(of_list)(block) for block in _blocks("X", X)])
        nothing = sample[:0].copy()
        return X.map_blocks(lambda block: of_block(block) if block.shape[0] else nothing, dtype=sample.dtype,
                            meta=nothing, drop_axis=list(range(1, X.ndim)), new_axis=list(range(1, sample.ndim)),
                            chunks=(X.chunks[0], *sample.shape[1:]))
    return call


def summed_by_blocks(function, X, y):
    """Return the sums over all blocks of the two arrays that `function(X, y)` returns."""
    sums = _client().gather(_client().compute([_delayed(_sums)(function, *pair) for pair in _pieces(X=X, y=y)]))
    return np.sum(sums, axis=0)


# ---------------------------------------------------------------------- tasks of a worker

def _take(estimator, first, *pieces):
    """Return the checked data (X, y, weights) of neighbouring blocks, or None if they hold no examples."""
    try:
        X, y, weights = (_joined([piece[k] for piece in pieces]) if len(pieces[0]) > k else None for k in range(3))
        if not ((X.shape[0] if sp.issparse(X) else len(X)) or len(y)):
            return None
        X, y, weights = estimator._take(X, y, None if weights is None else np.asarray(weights, dtype=float))
    except Exception as problem:
        problem.add_note(f"pybundle: examples are counted from the first one of block {first} on")
        raise
    return (X, y, weights) if len(weights) else None


def _call(name, estimator, data, n_parts=None, **more):
    """Call a method of the estimator on the data of a worker; a risk is divided into `n_parts`."""
    found = None if data is None else getattr(estimator, name)(*data, **more)
    return found if n_parts is None or found is None else found.derive(n_parts=n_parts)


def _sums(function, X, y):
    X, y = list(X), list(y)
    if not X and not y:
        return [0.0, 0.0]
    check_lengths(X, y)
    return [np.sum(array) for array in function(X, y)]


def _joined(blocks):
    """Concatenate blocks: arrays, sparse matrices, or the examples of bags as a list."""
    blocks = [block if isinstance(block, np.ndarray) or sp.issparse(block) else list(block) for block in blocks]
    if isinstance(blocks[0], list):
        return sum(blocks[1:], blocks[0])
    if len(blocks) == 1:
        return blocks[0]
    return sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)


# ---------------------------------------------------------------------- at the driver

def _client():
    from distributed import default_client

    try:
        return default_client()
    except ValueError as problem:
        raise StateError("X is a Dask collection, and there is no client to compute it with; make one with "
                         "distributed.Client()") from problem


def _mapped(client, name, estimator, taken, **more):
    """Return futures of the results of a method on the data of each worker."""
    return client.map(_call, [name] * len(taken), [estimator] * len(taken), taken, pure=False, **more)


def _delayed(function):
    from dask import delayed

    return delayed(function, pure=False)


def _bare(estimator):
    """Return the estimator without callbacks and results, which workers do not need."""
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name != "callback"}
    return type(estimator)(**parameters)


def served(estimator):
    """Return the estimator with only what predictions need."""
    served = _bare(estimator)
    vars(served).update({name: value for name, value in vars(estimator).items()
                         if name.endswith("_") or name == "_of_fit"})
    return served


def _pieces(**collections):
    """Return, for each group of examples, a tuple of blocks: of X, of y and, unless None, of the weights."""
    columns = {name: _blocks(name, data) for name, data in collections.items()
               if data is not None or name != "sample_weight"}
    for name, blocks in columns.items():
        if len(blocks) != len(columns["X"]):
            raise ParameterError(f"{name} must have the same blocks as X, {len(columns['X'])}, got {len(blocks)}; use "
                                 "rechunk or repartition")
    return list(zip(*columns.values(), strict=True))


def _blocks(name, data):
    """Return, as delayed values, the blocks of a bag, or blocks of whole rows of an array."""
    if not is_collection(data):
        other = "y" if name == "X" else "X"
        raise InputTypeError(f"{name} must be a Dask array or bag like {other}, got {type(data).__name__}; use "
                             "dask.array.from_array or dask.bag.from_sequence")
    if _is_bag(data):
        return data.to_delayed()
    return _whole_rows(data, name).to_delayed().ravel().tolist()


def _is_bag(data):
    bag = sys.modules.get("dask.bag")
    return bag is not None and isinstance(data, bag.Bag)


def _whole_rows(X, name="X"):
    array = sys.modules.get("dask.array")
    if array is None or not isinstance(X, array.Array):
        raise InputTypeError(f"{name} must be a Dask array or bag, got {type(X).__name__}; convert a table by "
                             "to_dask_array(lengths=True)")
    return X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
