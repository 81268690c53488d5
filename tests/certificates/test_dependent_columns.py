"""Columns that cancel along a direction that no penalty holds: exactly, or all but exactly.

Rows ``[x, x + delta r]`` let coefficients of size 1 / delta fit r. The truth is known in the
coordinates (w1 + w2, direction), whose columns x and (x + delta r) - x are well scaled; the
difference of two numbers this close is exact.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stochadmm as sa
from stochadmm.certificates.dependence import PRIMES, null_space, residues

LOSSES = {
    "squared": (sa.Squared(), lambda y: y),
    "logistic": (sa.Logistic(), np.sign),
    "huber": (sa.Huber(0.5), lambda y: y),
    "poisson": (sa.Poisson(), lambda y: np.round(np.exp(np.clip(y, -3, 1.5)))),
    "quantile": (sa.Quantile(0.3, 0.1), lambda y: y),
    "two outputs": (sa.Squared(), lambda y: np.c_[y, y[::-1]]),
    "multinomial": (sa.Multinomial(3), lambda y: np.digitize(y, [-0.5, 0.5])),
}


def drawn(delta, size, seed=0, n=40):
    rng = np.random.default_rng([seed, 11])
    x, r = rng.standard_normal((2, n))
    y = 0.5 * x + 0.7 * r + 0.5 * rng.standard_normal(n)
    return size * np.c_[x, x + delta * r], y


def least(loss, y, X, fused, alpha):
    """Return the least objective in the coordinates (w1 + w2, direction)."""
    Z = np.c_[X[:, 0], X[:, 1] - X[:, 0]]
    top = np.abs(Z).max(axis=0)
    Z = Z[:, top > 0] / top[top > 0]
    held = {"structure": np.eye(1, Z.shape[1]), "on_structure": sa.L1(alpha / top[0])}
    found = sa.minimize(sa.Problem.linear(loss, Z, y, **(held if fused else {})), stop=1e-9)
    assert found.converged
    return found.objective


def check(name, fused, delta, size, seed=0):
    (loss, targets), alpha = LOSSES[name], 0.05 * size
    X, y = drawn(delta, size, seed)
    y = targets(y)
    held = {"structure": np.ones((1, 2)), "on_structure": sa.L1(alpha)} if fused else {}
    found = sa.minimize(sa.Problem.linear(loss, X, y, **held), max_passes=30)
    best = least(loss, y, X, fused, alpha)
    if delta >= 1e-11:
        assert found.converged and found.objective <= best + 1e-5 * (1 + abs(best))
    assert found.objective - found.gap <= best + 1e-9 * (1 + abs(best))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    ("delta", "size"), [(1e-11, 1.0), (1e-8, 1e9), (1e-13, 1e9), (1e-16, 1.0)]
)
@pytest.mark.parametrize("name", LOSSES)
def test_no_bound_exceeds_what_huge_coefficients_reach(name, delta, size, fused):
    check(name, fused, delta, size)


@pytest.mark.parametrize("opposite", [False, True])
def test_estimators_solve_for_what_nearly_equal_or_opposite_columns_reach(opposite):
    X, y = drawn(1e-9, 1.0)
    X[:, 1] *= -1.0 if opposite else 1.0
    third = np.random.default_rng(1).standard_normal(len(y))
    X, labels = np.c_[X, third], np.sign(y)
    if opposite:  # only differences are penalized: what both share is free
        model = sa.FusedLassoClassifier(0.05, l1_ratio=0.0, unpenalized=[2]).fit(X, labels)
    else:
        ones = np.array([[1.0, 1.0, 0.0]])
        model = sa.GeneralizedLassoClassifier(0.05, operator=ones).fit(X, labels)
    w = model.coef_.ravel().astype(np.longdouble)
    losses = np.logaddexp(0.0, -labels * (X @ w + model.intercept_))
    objective = losses.mean() + 0.05 * abs(w[0] - w[1] if opposite else w[0] + w[1])
    Z = np.c_[X[:, 0], X[:, 1] + X[:, 0] if opposite else X[:, 1] - X[:, 0], third]
    Z /= np.abs(Z).max(axis=0)
    held = sa.L1(0.05 / np.abs(X[:, 0]).max())
    best = sa.minimize(
        sa.Problem.linear(
            sa.Logistic(), Z, labels, structure=np.eye(1, 3), on_structure=held, intercept=True
        ),
        stop=1e-9,
    )
    assert best.converged and model.status_ is sa.Status.CONVERGED
    assert float(objective) == pytest.approx(best.objective, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("delta", [10.0**-k for k in range(6, 17)])
@pytest.mark.parametrize("name", LOSSES)
def test_no_bound_exceeds_what_huge_coefficients_reach_at_length(name, delta, size):
    for seed in range(5):
        for fused in (True, False):
            check(name, fused, delta, size, seed)


DEPENDENT = {
    "equal": lambda X: np.c_[X, X[:, 0]],
    "a multiple": lambda X: np.c_[np.round(8 * X), 3 * np.round(8 * X[:, 0])],
    "opposite": lambda X: np.c_[X, -X[:, 0]],
    "a constant beside an intercept": lambda X: np.c_[X, np.full(len(X), 0.3)],
    "one-hot beside an intercept": lambda X: np.c_[X, np.eye(3)[np.arange(len(X)) % 3]],
    "zeros": lambda X: np.c_[X, 0 * X[:, 0]],
    "a sum of integers": lambda X: np.c_[np.round(X), np.round(X).sum(axis=1)],
}


@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "poisson"])
@pytest.mark.parametrize("kind", DEPENDENT)
def test_exact_dependences_cost_a_certificate_nothing(kind, loss):
    (function, targets), rng = LOSSES[loss], np.random.default_rng(0)
    X, y = rng.standard_normal((40, 2)), rng.standard_normal(40)
    problem = sa.Problem.linear(function, DEPENDENT[kind](X), targets(y), intercept=True)
    assert sa.minimize(problem).converged


@pytest.mark.parametrize("structure", [sa.Differences(6), np.ones((1, 6))], ids=["chain", "sum"])
def test_exact_dependences_that_a_structure_leaves_free_cost_nothing(structure):
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (40, 6)).astype(float)
    X[:, 3:] = X[:, :3]
    X[:, 5] -= X.sum(axis=1)  # rows add up to zero: so do constants over them
    y = np.sign(rng.standard_normal(40))
    problem = sa.Problem.linear(
        sa.Logistic(), X, y, structure=structure, on_structure=sa.L1(0.01), intercept=True
    )
    assert sa.minimize(problem).converged


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4),
        min_size=1,
        max_size=5,
    )
)
def test_a_rank_modulo_a_prime_is_that_over_the_rationals(rows):
    kernels = [null_space(residues(np.array(rows), p), p).shape[1] for p in PRIMES]
    assert min(kernels) == 4 - rank_over_the_rationals(rows)


def rank_over_the_rationals(rows):
    """Return the rank by elimination in fractions."""
    left, rank = [[Fraction(a) for a in row] for row in rows], 0
    for column in range(4):
        pivot = next((row for row in left if row[column]), None)
        if pivot is None:
            continue
        left.remove(pivot)
        left = [
            [a - b * row[column] / pivot[column] for a, b in zip(row, pivot, strict=True)]
            for row in left
        ]
        rank += 1
    return rank
