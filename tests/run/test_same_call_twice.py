"""The same call twice, or from two threads at once, gives the same bits, passes and history."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import stochadmm as sa


def _data(n=120, d=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    score = X[:, :3].sum(axis=1) + rng.standard_normal(n)
    return X, score


def lasso():
    X, score = _data()
    return sa.Problem.linear(sa.Squared(), X, score, on_coefficients=sa.L1(0.05), intercept=True)


def fused_logistic():
    X, score = _data()
    return sa.Problem.linear(
        sa.Logistic(),
        X,
        np.sign(score),
        structure=sa.Differences(20),
        on_structure=sa.L1(0.02),
        on_coefficients=sa.L1(0.01),
        intercept=True,
    )


def multinomial():
    X, score = _data()
    y = np.digitize(score, [-1.0, 1.0])
    return sa.Problem.linear(sa.Multinomial(3), X, y, on_coefficients=sa.L1(0.01), intercept=True)


def poisson():
    X, score = _data()
    y = np.round(np.abs(score))
    return sa.Problem.linear(sa.Poisson(), X, y, on_coefficients=sa.L1(0.05), intercept=True)


def wide():
    X, score = _data(n=40, d=1200)
    return sa.Problem.linear(sa.Logistic(), X, np.sign(score), on_coefficients=sa.L1(0.15))


def tied():
    X, score = _data(n=40, d=400)
    return sa.Problem.linear(
        sa.Logistic(), X, np.sign(score), structure=sa.Differences(400), on_structure=sa.L1(0.1)
    )


KINDS = [lasso, fused_logistic, multinomial, poisson, wide, tied]


def _seen(problem, solver="auto"):
    result = sa.minimize(problem, solver, max_passes=40.0)
    numbers = (result.coef.tobytes(), result.dual.tobytes(), result.objective, result.gap)
    return (*numbers, result.n_passes, len(result.history), result.status)


@pytest.mark.parametrize("make", KINDS)
def test_the_second_call_does_what_the_first_did(make):
    problem = make()
    first = _seen(problem)
    assert _seen(problem) == first
    assert _seen(make()) == first  # nor does another object with the same content differ


@pytest.mark.parametrize("make", KINDS)
def test_two_threads_on_one_problem_do_not_see_each_other(make):
    problem, alone = make(), _seen(make())
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(_seen, [problem] * 4)) == [alone] * 4


@pytest.mark.parametrize("solver", ["acc-sadmm", "svrg-admm", "sdca-admm"])
def test_stochastic_methods_repeat_themselves(solver):
    problem = fused_logistic()
    assert _seen(problem, solver) == _seen(problem, solver)
