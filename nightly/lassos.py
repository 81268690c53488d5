"""Badly scaled lassos by this library and by conic and quadratic solvers, answers judged.

    python -m nightly.lassos [--count 400] [--seed 0]

Columns and rows are scaled over up to 1e6, columns nearly repeat, targets are large or small. Each
solver runs with its default settings. An answer is *wrong* if the solver calls it solved although
its objective is above the lowest known by more than 1e-4 of the objective at zero, and *refused*
if the solver says that it failed. The lowest known is over all answers and a run at 1e-10.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np

import stochadmm as sa
from nightly import piece

ALLOWED = 1e-4


def lasso(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Return badly scaled rows, targets and a strength."""
    n, d = int(rng.integers(20, 80)), int(rng.integers(5, 40))
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        if rng.random() < 0.2:
            X[:, j] = X[:, j - 1] + 10.0 ** rng.uniform(-8, -1) * X[:, j]
    spread = float(rng.uniform(0, 6))
    X *= 10.0 ** rng.uniform(-spread / 2, spread / 2, d)
    w = np.where(rng.random(d) < 0.4, rng.standard_normal(d), 0) / np.linalg.norm(X, axis=0)
    y = (X @ w * np.sqrt(n) + 0.1 * rng.standard_normal(n)) * 10.0 ** rng.uniform(-4, 4)
    largest = float(np.abs(X.T @ y).max()) / n
    return X, y, largest * 10.0 ** rng.uniform(-4, -0.3)


def value(X: np.ndarray, y: np.ndarray, alpha: float, w: np.ndarray) -> float:
    """Return 1/(2n) |Xw - y|^2 + alpha |w|_1."""
    return float(0.5 * ((X @ w - y) ** 2).mean() + alpha * np.abs(w).sum())


def answers(
    X: np.ndarray, y: np.ndarray, alpha: float
) -> dict[str, tuple[np.ndarray | None, bool]]:
    """Return each solver's coefficients, and whether it calls them solved."""
    import cvxpy as cp
    from sklearn.linear_model import Lasso

    found: dict[str, tuple[np.ndarray | None, bool]] = {}
    ours = sa.LassoRegressor(alpha=alpha, l1_ratio=1.0, fit_intercept=False).fit(X, y)
    found["stochadmm"] = (ours.coef_, ours.status_ is sa.Status.CONVERGED)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        theirs = Lasso(alpha=alpha, fit_intercept=False).fit(X, y)
    found["scikit-learn"] = (theirs.coef_, not said)
    w = cp.Variable(X.shape[1])
    program = cp.Problem(
        cp.Minimize(cp.sum_squares(X @ w - y) / (2 * len(y)) + alpha * cp.norm1(w))
    )
    for solver in ("CLARABEL", "OSQP", "SCS"):
        try:
            program.solve(solver=solver)
            solved = program.status == "optimal"
            found[solver] = (None if w.value is None else np.asarray(w.value), solved)
        except cp.SolverError:
            found[solver] = (None, False)
    return found


def main() -> int:
    """Count wrong and refused answers of each solver."""
    asked, began = piece.arguments(__doc__.splitlines()[0], 20), time.perf_counter()
    warnings.simplefilter("ignore")
    table: dict[str, dict[str, int]] = {}
    failures: list[dict[str, Any]] = []
    for number in range(asked.first, asked.first + asked.count):
        X, y, alpha = lasso(np.random.default_rng([asked.seed, number]))
        found = answers(X, y, alpha)
        exact = sa.LassoRegressor(alpha=alpha, l1_ratio=1.0, fit_intercept=False, tol=1e-10).fit(
            X, y
        )
        values = {
            name: np.inf if w is None else value(X, y, alpha, w) for name, (w, _) in found.items()
        }
        lowest = min(*values.values(), value(X, y, alpha, exact.coef_))
        scale = value(X, y, alpha, np.zeros(X.shape[1]))
        for name, (_, solved) in found.items():
            counts = table.setdefault(name, {"right": 0, "wrong": 0, "refused": 0})
            off = values[name] - lowest > ALLOWED * scale
            kind = "refused" if not solved else "wrong" if off else "right"
            counts[kind] += 1
            if name == "stochadmm" and kind != "right":
                what = f"{kind}: {(values[name] - lowest) / scale:.1e} above the optimum"
                failures.append(
                    {"piece": "lassos", "seed": asked.seed, "number": number, "what": what}
                )
    print(f"{'solver':14} {'right':>6} {'wrong':>6} {'refused':>8}")
    for name, counts in table.items():
        print(f"{name:14} {counts['right']:6} {counts['wrong']:6} {counts['refused']:8}")
    piece.report("lassos", asked.count, failures, time.perf_counter() - began)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
