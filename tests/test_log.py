"""The logger `pybundle` gets what `verbose=1` prints, and costs nothing while nobody reads it."""

import logging
import re
import subprocess
import sys

import numpy as np
import pytest

import pybundle as pb
from pybundle.runtime.log import HEADER, RunLog, open_log


@pytest.fixture
def risk():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    return pb.risks.MulticlassHinge(rng.normal(size=(90, 4)) + np.eye(3, 4)[y], y)


def messages(caplog, level):
    return [record.getMessage() for record in caplog.records if record.name == "pybundle" and record.levelno == level]


def test_it_is_quiet_by_default():
    code = ("import pybundle as pb; from pybundle.runtime.log import open_log; assert open_log(1.0, 0) is None; "
            "pb.minimize(pb.risks.BinaryHinge([[1.0], [-1.0]], [1, -1]), lam=1.0)")
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout and not done.stderr


def test_sentences_are_those_that_are_printed(risk, caplog, capsys, tmp_path):
    """Start, checkpoints, a resumed run, another method and the end; a row for every iteration at DEBUG."""
    caplog.set_level(logging.DEBUG, "pybundle")
    given = {"lam": 0.01, "checkpoint": pb.Checkpoint(tmp_path / "run.npz", every=0.0), "verbose": 1}
    with pytest.warns(pb.ConvergenceWarning):
        pb.minimize(risk, **given, method="oca", max_iter=3)
    result = pb.minimize(risk, **given, method="oca", tol=1e-4)
    rows = messages(caplog, logging.DEBUG)
    assert len(rows) == result.nit + 2 and rows.count(HEADER) == 2
    said = messages(caplog, logging.INFO)
    printed = capsys.readouterr().out.splitlines()
    assert said == [line for line in printed if line != HEADER and not re.match(r" *\d+\.\d ", line)]
    assert said[0].startswith("90 examples, dimension 12: ")
    assert said[1] == f"{tmp_path / 'run.npz'}: written after 1 iterations"
    assert sum("resumed after 3 iterations" in line for line in said) == 1 and said[-1] == result.message


def test_a_change_of_the_method_is_told(caplog):
    caplog.set_level(logging.INFO, "pybundle")
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300, 5)), np.sign(rng.normal(size=300))
    result = pb.minimize(pb.risks.BinaryHinge(X, y), lam=1e-3, tol=1e-9, n_parts=1)
    said = messages(caplog, logging.INFO)
    assert any(" takes over from 'prox-bcfw': " in line for line in said[1:]) and said[-1] == result.message


def test_rows_that_nobody_reads_are_not_made(caplog):
    caplog.set_level(logging.INFO, "pybundle")
    log = open_log(1.0, 0)
    assert log(progress=None) is None and not log._has_header       # it asks None for no field
    caplog.set_level(logging.WARNING, "pybundle")
    assert open_log(1.0, 0) is None and isinstance(open_log(1.0, 1), RunLog)
