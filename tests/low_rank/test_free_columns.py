"""Unpenalized columns beside a nuclear norm: their units and near dependence change no answer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.certificates import certify

N, PENALIZED = 40, 3
NEARLY = (1e-6, 1e-8)


def stated(loss, X, Y, alpha=0.3, **more):
    """Return a problem whose first columns are under a nuclear norm."""
    own = sparse.csr_array(np.eye(PENALIZED, X.shape[1]))
    return sa.Problem.linear(loss, X, Y, structure=own, on_structure=sa.Nuclear(alpha), **more)


def nearly_dependent(apart):
    """Return rows whose last two columns differ little, and the same span in good columns."""
    rng = np.random.default_rng(0)
    own, x, y = rng.standard_normal((N, PENALIZED)), *rng.standard_normal((2, N))
    X = np.column_stack([own, x, x + apart * y])
    apart_only = X[:, -1] - x  # exact: the two are next to each other
    good = np.column_stack([own, x, apart_only / np.abs(apart_only).max()])
    Y = np.column_stack([y + 0.1 * rng.standard_normal(N), rng.standard_normal(N)])
    return X, good, Y


def assert_same_answer(problem, good, solver, **more):
    """Check objective and gap against the same problem in columns that lose no digit."""
    found = sa.minimize(problem, solver, stop=sa.Gap(1e-7), **more)
    best = sa.minimize(good, stop=sa.Gap(1e-9))
    assert best.converged
    assert found.converged
    assert found.objective - best.objective <= found.gap + best.gap + 1e-9 * best.objective
    assert found.objective == pytest.approx(best.objective, rel=1e-6)
    point = sa.Pair(good.zeros().x1, best.x2)
    bound = certify(good, point, best.dual, strength="corrected").bound
    assert found.objective - found.gap <= bound + 1e-6 * best.objective


@pytest.mark.parametrize("apart", NEARLY)
@pytest.mark.parametrize("intercept", [False, True])
def test_a_squared_loss_sees_what_little_tells_free_columns_apart(apart, intercept):
    X, good, Y = nearly_dependent(apart)
    problems = [stated(sa.Squared(), A, Y, intercept=intercept) for A in (X, good)]
    assert_same_answer(*problems, "auto")


def test_so_it_does_where_only_the_rows_of_one_output_tell_them_apart():
    X, good, Y = nearly_dependent(1e-8)
    weight = np.ones(Y.shape)
    weight[::3, 0] = 0.0
    problems = [
        stated(sa.Squared(), A, Y, sample_weight=weight, intercept=True) for A in (X, good)
    ]
    assert_same_answer(*problems, "auto")


@pytest.mark.parametrize("apart", [*NEARLY, 1e-7])
def test_a_curved_loss_sees_what_little_tells_free_columns_apart(apart):
    X, good, Y = nearly_dependent(apart)
    problems = [stated(sa.Huber(1.0), A, Y) for A in (X, good)]
    assert_same_answer(*problems, "low-rank-newton")


@pytest.mark.parametrize("unit", [1e-7, 1e9])
def test_the_unit_of_a_free_column_beside_the_intercept_does_not_matter(unit):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, PENALIZED + 1))
    y = np.digitize(X[:, -1] + 0.5 * rng.standard_normal(60), [-0.5, 0.5])
    scaled = X * np.array([1.0, 1.0, 1.0, unit])
    problems = [stated(sa.Multinomial(), A, y, 0.05, intercept=True) for A in (scaled, X)]
    assert_same_answer(*problems, "low-rank-newton")


def test_a_start_is_given_in_the_users_columns():
    X, _, Y = nearly_dependent(1e-5)
    problem = stated(sa.Huber(1.0), X, Y)
    best = sa.minimize(problem, "low-rank-newton", stop=sa.Gap(1e-9))
    again = sa.minimize(problem, "low-rank-newton", stop=sa.Gap(1e-6), start=best)
    assert again.converged
    assert again.history[0].objective == pytest.approx(best.objective, rel=1e-6)


def test_columns_that_depend_on_others_are_left_alone():
    X, _, Y = nearly_dependent(1.0)
    twice = np.column_stack([X, X[:, -1]])
    found, best = (
        sa.minimize(stated(sa.Huber(1.0), A, Y), "low-rank-newton", stop=sa.Gap(1e-9))
        for A in (twice, X)
    )
    assert found.converged
    assert found.objective == pytest.approx(best.objective, rel=1e-8)
    assert np.abs(found.coef).max() < 10
