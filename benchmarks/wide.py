"""Many columns of which few matter: working sets beside the other routes and beside peers.

    python benchmarks/wide.py [--repeats 3] [--tol 1e-6]

Gaussian rows, ten columns with coefficients, noise; strengths as shares of the smallest one that
makes all coefficients zero. Milliseconds from raw arrays to the answer, the least of the repeats,
one thread. "all columns" is the route that ``auto`` would take without working sets. scikit-learn
and celer, where installed, are run with tolerances ten times smaller until their gap, computed
here, is at most ``tol``; only the last run counts.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from sklearn.linear_model import Lasso  # noqa: E402

import stochadmm as sa  # noqa: E402

SHAPES = [
    ("squared", 300, 1_000),
    ("squared", 50, 4_300),
    ("squared", 1_000, 20_000),
    ("logistic", 300, 1_000),
    ("logistic", 2_000, 2_000),
    ("logistic", 20_000, 2_000),
]
SHARES = (0.3, 0.1, 0.01)


def rows(loss: str, n: int, d: int):
    """Return X, y and the smallest strength that makes all coefficients zero."""
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((n, d)), np.zeros(d)
    w[:10] = rng.standard_normal(10)
    z = X @ w + 0.5 * rng.standard_normal(n)
    if loss == "squared":
        return X, z, float(np.abs(X.T @ z).max()) / n
    y = np.where(z > 0, 1.0, -1.0)
    return X, y, float(np.abs(X.T @ y).max()) / (2 * n)


def problem(loss: str, X, y, alpha: float) -> sa.Problem:
    """Return the problem from raw arrays."""
    form = sa.Squared() if loss == "squared" else sa.Logistic()
    return sa.Problem.linear(form, X, y, on_coefficients=sa.L1(alpha))


def ours(loss, X, y, alpha, solver, tol, repeats):
    """Return milliseconds and the result."""
    best = np.inf
    for _ in range(repeats + 1):  # the first may load compiled code
        start = time.perf_counter()
        result = sa.minimize(problem(loss, X, y, alpha), solver, stop=sa.Gap(tol), max_seconds=60)
        best = min(best, time.perf_counter() - start)
        if best > 10:
            break
    return 1e3 * best, result


def without_working_sets(loss: str, n: int, d: int) -> str:
    """Return the route that ``auto`` would take if columns could not be left out."""
    if n < d and d > 2000:
        return "sdca-admm"
    return "gram" if loss == "squared" else "newton"


def peer(make, X, y, alpha, bound, tol):
    """Return the milliseconds of a peer's lasso at the first tolerance that is tight enough."""
    for digits in range(4, 13):
        model = make(alpha=alpha, fit_intercept=False, tol=10.0**-digits, max_iter=100_000)
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        left = y - X @ model.coef_
        value = 0.5 * float(left @ left) / len(y) + alpha * float(np.abs(model.coef_).sum())
        if value - bound <= tol * value:
            return f"{1e3 * seconds:.0f}"
    return "-"


def peers():
    """Return the lassos that are installed."""
    found = {"scikit-learn": Lasso}
    try:
        from celer import Lasso as Celer

        found["celer"] = Celer
    except ImportError:
        print("celer is not installed: its column is left out")
    return found


def main() -> None:
    """Print a line per problem."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tol", type=float, default=1e-6)
    arguments = parser.parse_args()
    others = peers()
    print(
        "| loss | rows x columns | strength | coefficients | auto, ms | all columns, ms | "
        + " | ".join(f"{name}, ms" for name in others)
        + " |"
    )
    print("|---|---|--:|--:|--:|--:|" + "--:|" * len(others))
    for loss, n, d in SHAPES:
        X, y, largest = rows(loss, n, d)
        for share in SHARES:
            alpha = share * largest
            own, result = ours(loss, X, y, alpha, "auto", arguments.tol, arguments.repeats)
            route = sa.Auto(route=without_working_sets(loss, n, d))
            slow, other = ours(loss, X, y, alpha, route, arguments.tol, 1)
            before = f"{slow:.0f}" if other.converged else f"gap {other.relative_gap:.0e}"
            columns = ["-" for _ in others]
            if loss == "squared":
                bound = result.objective - result.gap
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    columns = [
                        peer(make, X, y, alpha, bound, arguments.tol) for make in others.values()
                    ]
            assert result.converged, result.message
            print(
                f"| {loss} | {n:,} x {d:,} | {share:g} | {np.count_nonzero(result.coef)} | "
                f"{own:.0f} | {before} | " + " | ".join(columns) + " |",
                flush=True,
            )


if __name__ == "__main__":
    main()
