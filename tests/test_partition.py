import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pybundle.risks.partition as module
from pybundle.core.exceptions import ParameterError
from pybundle.risks.partition import SHARD_ROWS, partition, shards

KINDS = ("strided", "contiguous", "stratified")


@settings(derandomize=True, deadline=None)
@given(n=st.integers(1, 300), n_parts=st.integers(1, 40), kind=st.sampled_from(KINDS), seed=st.integers(0, 5))
def test_every_example_is_in_exactly_one_part(n, n_parts, kind, seed):
    labels = np.random.default_rng(seed).integers(0, 3, n)
    parts = partition(n, n_parts, kind, seed, labels)
    assert len(parts) == n_parts
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert all((np.diff(part) > 0).all() for part in parts)


def test_stratified_deals_out_every_label():
    labels = np.repeat([0, 1, 2], [50, 30, 19])
    for part in partition(99, 8, "stratified", 0, labels):
        counts = np.bincount(labels[part], minlength=3)
        assert np.abs(counts - np.array([50, 30, 19]) / 8).max() < 1.0


def test_shards_cover_the_parts_in_order():
    parts = partition(3 * SHARD_ROWS + 5, 2, "contiguous")
    units = shards(parts)
    assert [p for p, _ in units] == sorted(p for p, _ in units)
    assert max(len(rows) for _, rows in units) <= SHARD_ROWS
    for p, part in enumerate(parts):
        assert np.array_equal(np.concatenate([rows for q, rows in units if q == p]), part)


def test_partition_depends_on_the_seed_only():
    assert all(map(np.array_equal, partition(50, 4, random_state=1), partition(50, 4, random_state=1)))
    assert not np.array_equal(partition(50, 4, random_state=1)[0], partition(50, 4, random_state=2)[0])


def test_unknown_kind():
    with pytest.raises(ParameterError, match="partition must be one of 'strided'"):
        partition(5, 2, "random")
    with pytest.raises(ParameterError, match="random_state must be an integer >= 0, got -1"):
        partition(5, 2, random_state=-1)


def test_doctest():
    import doctest
    assert doctest.testmod(module).failed == 0
