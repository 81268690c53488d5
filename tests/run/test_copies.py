"""Results travel: between processes by pickle, between objects by deepcopy."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.base.validation import Unsuitable
from stochadmm.data import ArraySource


def _rows(n=30, d=6):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(n)


def _fused():
    X, y = _rows()
    return sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Differences(6), on_structure=sa.L1(0.05)
    )


def _by_column():
    X, y = _rows(d=40)
    return sa.Problem.linear(sa.Logistic(), X, np.sign(y), on_coefficients=sa.L1(0.01))


def _low_rank(loss):
    X, y = _rows()
    Y = np.c_[y, -y, y]
    return sa.Problem.linear(
        loss,
        X,
        Y if isinstance(loss, sa.Squared) else np.sign(Y),
        on_coefficients=sa.Nuclear(0.02),
    )


def _sparse():
    X, y = _rows()
    X = sparse.csr_array(np.where(np.abs(X) > 1.6, X, 0.0))
    return sa.Problem.linear(sa.Logistic(), X, np.sign(np.c_[y, -y]), on_coefficients=sa.L1(0.001))


def _streamed():
    X, y = _rows(n=200)
    return sa.Problem.linear(
        sa.Huber(), ArraySource(X, y), structure=sa.Differences(6), on_structure=sa.L1(0.05)
    )


PROBLEMS = (
    _fused,
    _by_column,
    lambda: _low_rank(sa.Squared()),
    lambda: _low_rank(sa.Logistic()),
    _sparse,
    _streamed,
)


@pytest.mark.parametrize("name", sa.solvers.names())
def test_results_of_every_method_can_be_pickled_copied_and_then_resumed(name):
    served = 0
    for make in PROBLEMS:
        problem = make()
        try:
            found = sa.minimize(problem, name, stop=sa.Gap(1e-12), max_passes=4)
        except (Unsuitable, ValueError):
            continue
        served += 1
        on = sa.minimize(problem, name, stop=sa.Gap(1e-12), max_passes=7, resume=found)
        for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
            np.testing.assert_array_equal(other.coef, found.coef)
            again = sa.minimize(problem, name, stop=sa.Gap(1e-12), max_passes=7, resume=other)
            np.testing.assert_array_equal(again.coef, on.coef)
    assert served


def test_a_result_of_many_tied_columns_can_be_pickled():
    X, _ = _rows(40, 320)
    found = sa.minimize(
        sa.Problem.linear(
            sa.Squared(), X, X[:, 0], structure=sa.Differences(320), on_structure=sa.L1(0.1)
        )
    )
    assert found.info["route"] == "tied-newton"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).coef, found.coef)
