"""No fit becomes many times slower unnoticed: processor time beside that of a NumPy pass.

The unit is a pass over 4,000 x 200 numbers, ``X @ w`` and ``X' @ u``, measured in turn with the
fit, in the same process. Limits are five times what was measured when they were set: they hold on
slow and busy machines, and a fit that takes ten times as long breaks them. Ratios of releases are
compared by `benchmarks/before_after.py`.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa

pytestmark = pytest.mark.compiled

REPEATS = 3


def rows(n, d, seed=0):
    """Return Gaussian rows, and targets that depend on a few levels of columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    w = np.repeat(rng.standard_normal(10), -(-d // 10))[:d]
    return X, X @ w / np.sqrt(d) + rng.standard_normal(n)


def chain(loss, n, d, alpha, tol=1e-6, solver="auto", **more):
    X, y = rows(n, d)
    y = y if loss.name == "squared" else np.where(y > 0, 1.0, -1.0)
    on = {"structure": sa.Differences(d), "on_structure": sa.L1(alpha)}

    def fit():
        problem = sa.Problem.linear(loss, X, y, **on, on_coefficients=sa.L1(alpha))
        return sa.minimize(problem, solver, **({"stop": tol} | more))

    return fit


def lasso(n, d, alpha):
    X, y = rows(n, d)
    return lambda: sa.minimize(
        sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(alpha)), stop=1e-6
    )


def texts():
    rng = np.random.default_rng(0)
    X = sparse.random_array((2000, 3000), density=0.01, rng=rng, format="csr")
    y = np.where(X @ rng.standard_normal(3000) > 0, 1.0, -1.0)
    return lambda: sa.minimize(
        sa.Problem.linear(sa.Logistic(), X, y, on_coefficients=sa.L1(5e-4)), stop=1e-4
    )


def low_rank():
    data = sa.datasets.make_low_rank_tasks(1000, 40, 20)
    on = {"on_structure": sa.Nuclear(2e-3), "on_coefficients": sa.L1(2e-3)}
    return lambda: sa.minimize(sa.Problem.linear(sa.Squared(), data.X, data.y, **on), stop=1e-6)


def targets():
    X, y = rows(50, 20)
    model = sa.OverlappingGroupRegressor(groups=[[j] for j in range(20)])
    return lambda: model.path(X, np.column_stack([y, -y + X[:, 0]]), alphas=10)


def search():
    X, y = rows(100, 10)
    return lambda: sa.FusedLassoRegressorCV(alphas=10).fit(X, y)


def classes():
    X, y = rows(600, 30)
    label = np.digitize(y, [-1.0, 0.0, 1.0])
    return lambda: sa.FusedLassoClassifier(0.01).fit(X, label)


FITS = {
    "lasso, 400 x 10": (lambda: lasso(400, 10, 0.1), 45),
    "lasso, 300 x 1,000": (lambda: lasso(300, 1000, 0.1), 90),
    "chain, squared, 2,000 x 200": (lambda: chain(sa.Squared(), 2000, 200, 0.01), 220),
    "chain, squared, 2,000 x 400": (lambda: chain(sa.Squared(), 2000, 400, 0.01), 1200),
    "chain, squared, 150 x 1,000": (lambda: chain(sa.Squared(), 150, 1000, 0.05), 700),
    "chain, logistic, 600 x 30": (lambda: chain(sa.Logistic(), 600, 30, 0.01), 60),
    "chain, logistic, 20,000 x 50": (lambda: chain(sa.Logistic(), 20_000, 50, 0.001), 750),
    "chain, ACC-SADMM, 10 epochs of 5,000 x 100": (
        lambda: chain(
            sa.Logistic(), 5000, 100, 1e-3, solver="acc-sadmm", stop=sa.Never(), max_epochs=10
        ),
        1300,
    ),
    "sparse rows, logistic, 2,000 x 3,000": (texts, 280),
    "low rank, 1,000 x 40 x 20": (low_rank, 190),
    "four classes on a chain, 600 x 30": (classes, 1100),
    "path of 10, 50 x 20 x 2": (targets, 480),
    "cross-validation of 10, 100 x 10": (search, 1300),
}


def seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start


@pytest.mark.parametrize("name", FITS)
def test_a_fit_takes_no_more_passes_than_its_limit(name):
    make, limit = FITS[name]
    fit, (X, u) = make(), rows(4000, 200, seed=1)
    w = np.ones(200)

    def unit():
        for _ in range(10):
            X @ w, X.T @ u

    fit()  # what is made once in a process does not count
    took, one = np.inf, np.inf
    for _ in range(REPEATS):
        one = min(one, seconds(unit) / 10)
        took = min(took, seconds(fit))
    assert took <= limit * one, f"{took / one:.0f} passes of NumPy, expected at most {limit:g}"
