"""Overlapping groups with the logistic loss: what overlap costs, and the time of a conic solver.

    python benchmarks/overlap.py [--rows 20000] [--columns 500] [--groups 300] [--skip-cost]

First the seconds of an epoch against the total size of the groups, from no overlap to every column
in twenty groups, with the best line through them; figure in ``out/overlap``. Then one problem to a
relative gap of 1e-6 by ``auto`` and by CVXPY with Clarabel (``cvxpy.logistic``), both from raw
arrays to the solution, one thread. The gap of our answer is certified; the objective of both is
computed here. Compilation is excluded by a run on a small part of the same data.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

import stochadmm as sa  # noqa: E402
from stochadmm.run.path import alpha_max  # noqa: E402

OUT = Path("out/overlap")
FACTORS = (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
TOL = 1e-6


def windows(columns: int, groups: int, factor: float) -> list[np.ndarray]:
    """Return groups of neighbors, wrapped around, that hold every column ``factor`` times."""
    starts = np.arange(groups) * columns / groups
    ends = starts + factor * columns / groups
    return [np.arange(round(a), round(b)) % columns for a, b in zip(starts, ends, strict=True)]


def data(rows: int, columns: int, groups: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian rows and labels of a model in a tenth of the groups."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns)) / np.sqrt(columns)
    truth = np.zeros(columns)
    for g in rng.choice(len(groups), len(groups) // 10, replace=False):
        truth[groups[g]] = 4.0 * rng.standard_normal(len(groups[g]))
    return X, np.where(X @ truth + rng.logistic(size=rows) > 0, 1.0, -1.0)


def state(X: np.ndarray, y: np.ndarray, groups: list[np.ndarray], alpha: float) -> sa.Problem:
    """Return the problem from raw arrays."""
    copies = sa.Selection(groups, X.shape[1])
    norms = sa.GroupL2(alpha, copies.sizes, np.sqrt(copies.sizes))
    return sa.Problem.linear(
        sa.Logistic(), X, y, structure=copies, on_structure=norms, intercept=True
    )


def objective(X, y, groups, alpha, coef, intercept) -> float:
    """Return the objective, computed apart from all solvers."""
    loss = np.logaddexp(0.0, -y * (X @ coef + intercept)).mean()
    return loss + alpha * sum(np.sqrt(len(g)) * np.linalg.norm(coef[g]) for g in groups)


# ---------------------------------------------------------------- cost of overlap


def epoch_seconds(solver: str, rows: int, columns: int, groups: int, factor: float) -> float:
    """Return the shortest seconds of an epoch, without measuring."""
    members = windows(columns, groups, factor)
    X, y = data(rows, columns, members)
    problem = state(X, y, members, 1e-3)
    best = np.inf
    for _ in range(3):
        result = sa.minimize(problem, solver, stop=sa.Gap(1e-15), max_passes=15.0)
        best = min(best, result.info["seconds_solving"] / result.n_epochs)
    return best


def cost(solver: str, columns: int, groups: int, rows: int = 2000) -> list[tuple[int, float]]:
    """Print and return total group size and seconds per epoch."""
    found = []
    for factor in FACTORS:
        seconds = epoch_seconds(solver, rows, columns, groups, factor)
        found.append((factor * columns, seconds))
        print(
            f"  {solver}: overlap {factor:2d}, {found[-1][0]:6d} entries: {1e3 * seconds:8.2f} ms"
        )
    size, seconds = np.array(found).T
    derivative, first = np.polyfit(size, seconds, 1)
    line = first + derivative * size
    print(
        f"  line {1e3 * first:.2f} ms + {1e9 * derivative:.1f} ns per entry, off by at most "
        f"{np.abs(line / seconds - 1).max():.0%}"
    )
    return found


def draw(curves: dict[str, list[tuple[int, float]]], columns: int) -> None:
    """Draw seconds per epoch against the total size of the groups."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, found in curves.items():
        size, seconds = np.array(found).T
        derivative, first = np.polyfit(size, seconds, 1)
        points = ax.plot(size / columns, 1e3 * seconds, "o", label=name)
        ax.plot(
            size / columns, 1e3 * (first + derivative * size), color=points[0].get_color(), lw=1
        )
    ax.set_xlabel("groups per column")
    ax.set_ylabel("milliseconds per epoch")
    ax.set_ylim(bottom=0)
    ax.legend()
    OUT.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT / "overlap.png", dpi=150)
    print(f"  figure: {OUT / 'overlap.png'}")


# ---------------------------------------------------------------- against a conic solver


def ours(X, y, groups, alpha):
    """Return seconds and result of ``auto``."""
    start = time.perf_counter()
    result = sa.minimize(state(X, y, groups, alpha), "auto", stop=sa.Gap(TOL), max_passes=500.0)
    return time.perf_counter() - start, result


def conic(X, y, groups, alpha, limit: float):
    """Return seconds to build, seconds to solve, status, coefficients and intercept."""
    import cvxpy as cp

    start = time.perf_counter()
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    loss = cp.sum(cp.logistic(cp.multiply(-y, X @ w + b))) / len(y)
    norms = sum(np.sqrt(len(g)) * cp.norm2(w[g]) for g in groups)
    problem = cp.Problem(cp.Minimize(loss + alpha * norms))
    problem.get_problem_data(cp.CLARABEL)
    built = time.perf_counter() - start
    start = time.perf_counter()
    problem.solve(
        cp.CLARABEL,
        tol_gap_rel=TOL,
        tol_gap_abs=1e-9,
        tol_feas=TOL,
        time_limit=limit,
        max_threads=1,
    )
    seconds = time.perf_counter() - start
    return built, seconds, problem.status, w.value, b.value


def race(rows: int, columns: int, count: int, factor: float, limit: float) -> None:
    """Print both times, the difference of the objectives, and our certificate."""
    groups = windows(columns, count, factor)
    X, y = data(rows, columns, groups)
    alpha = 0.2 * alpha_max(state(X, y, groups, 1.0))
    ours(X[:1000], y[:1000], groups, alpha)  # compiles
    seconds, result = ours(X, y, groups, alpha)
    F = objective(X, y, groups, alpha, result.coef, result.intercept)
    on = sum(bool(result.coef[g].any()) for g in groups)
    print(
        f"  auto: {seconds:.2f} s, F = {F:.10f}, certified gap {result.relative_gap:.1e}, "
        f"{on} of {count} groups, {np.count_nonzero(result.coef)} coefficients, "
        f"route {result.info['route']}",
        flush=True,
    )
    built, solving, status, w, b = conic(X, y, groups, alpha, limit)
    if w is None:
        print(f"  clarabel: {status} after {solving:.0f} s, more than {solving / seconds:.0f} x")
        return
    G = objective(X, y, groups, alpha, w, b)
    print(
        f"  clarabel: {status}, {solving:.1f} s after {built:.1f} s of building, F = {G:.10f}, "
        f"ours is {'lower' if F < G else 'higher'} by {abs(F - G) / G:.1e} of it\n"
        f"  ratio {solving / seconds:.0f} without building, {(built + solving) / seconds:.0f} with"
    )


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=500)
    parser.add_argument("--groups", type=int, default=300)
    parser.add_argument("--overlap", type=float, default=6.0, help="groups per column in the race")
    parser.add_argument("--conic-seconds", type=float, default=1500.0, help="0 leaves it out")
    parser.add_argument("--skip-cost", action="store_true")
    options = parser.parse_args()
    if not options.skip_cost:
        print(f"seconds per epoch, 2,000 x {options.columns}, {options.groups} groups")
        curves = {
            solver: cost(solver, options.columns, options.groups)
            for solver in ("acc-sadmm", "linearized-admm")
        }
        draw(curves, options.columns)
    if options.conic_seconds:
        print(
            f"to {TOL:g}, {options.rows:,} x {options.columns}, {options.groups} groups, "
            f"{options.overlap:g} per column"
        )
        race(options.rows, options.columns, options.groups, options.overlap, options.conic_seconds)


if __name__ == "__main__":
    main()
