"""Fitted exponents of ACC-SADMM: the constrained schedule against the unconstrained one.

    python benchmarks/derivatives.py [--quick]

Three fixed instances: a chain of Nesterov's type, short and run long enough that information
reaches its end (before that every schedule shows about S^-1), a power-law spectrum, and a random
fused problem. Each is stated twice with the same optimum: with a constraint (penalty
of x1 = A x2) and without (the same penalty of x2 itself). No restarts, linearized steps. For a gap
that falls like S^-p in epochs S the table shows p, fitted on the last part of the run above
rounding; theory promises at least 1 with a constraint and at least 2 without. The optimum comes
from a linear system (chain) or a conic solver.

The bound of the unconstrained schedule, from dividing the one-step inequality by theta_1^2 and
summing (theta_1(s) = 2 / (s + 4), theta_2 = 1/2, all starts at x0):

    E F(x^) - F* <= theta^2 (2 m (F(x0) - F*) + eta |x0 - x*|^2 / 2) / (1 + (m - 1)(theta + 1/2))

with theta = theta_1(S - 1), m inner steps and eta the curvature of the step. It is compared with
the mean over seeds at every epoch.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import cvxpy as cp
import numpy as np
from scipy import sparse
from scipy.linalg import solveh_banded

import stochadmm as sa
from stochadmm.solvers import Schedule

INNER_STEPS = 16
FLOOR = 1e-12  # relative to F(0) - F*: below it rounding decides, not the method


@dataclass
class Instance:
    """A squared loss with a penalty, with and without a constraint, and its optimum."""

    name: str
    X: object
    y: np.ndarray
    alpha: float
    fused: bool
    epochs: int
    solution: np.ndarray | None = None

    def constrained(self) -> sa.Problem:
        d = self.X.shape[1]
        A = sa.Differences(d) if self.fused else sa.Identity(d)
        return sa.Problem.linear(
            sa.Squared(), self.X, self.y, structure=A, on_structure=sa.L1(self.alpha)
        )

    def unconstrained(self) -> sa.Problem:
        penalty = sa.TotalVariation1D(self.alpha) if self.fused else sa.L1(self.alpha)
        return sa.Problem.linear(sa.Squared(), self.X, self.y, on_coefficients=penalty)

    def optimum(self) -> tuple[np.ndarray, float]:
        n, d = self.X.shape
        if self.solution is not None:
            at = sa.Pair(np.zeros(0), self.solution)
            return self.solution, self.unconstrained().objective(at)
        x = cp.Variable(d)
        penalty = cp.norm1(cp.diff(x)) if self.fused else cp.norm1(x)
        loss = cp.sum_squares(self.X @ x - self.y) / (2 * n)
        model = cp.Problem(cp.Minimize(loss + self.alpha * penalty))
        model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
        problem = self.unconstrained()
        return x.value, min(float(model.value), problem.objective(sa.Pair(np.zeros(0), x.value)))


def chain(d: int, epochs: int) -> Instance:
    """Squares of x_1 - 1, of the differences of neighbours, and of x_d: information walks.

    It walks one coordinate per inner step; before it has reached the end the distance to the
    solution is without bound, so to say, and no rate shows. The l1 penalty is so weak that every
    coordinate of the solution is positive: a linear system.
    """
    X = sparse.diags_array([np.ones(d), -np.ones(d)], offsets=[0, -1], shape=(d + 1, d)).tocsr()
    y = np.zeros(d + 1)
    y[0] = 1.0
    alpha = 0.5 / ((d + 1) * d**2)
    bands = np.array([np.full(d, -1.0), np.full(d, 2.0)])
    x = solveh_banded(bands, X.T @ y - (d + 1) * alpha)
    assert x.min() > 0
    return Instance("chain", X, y, alpha, False, epochs, x)


def power_law(n: int, d: int, epochs: int) -> Instance:
    """Columns of size 1/j: eigenvalues of the loss fall like j^-2, the model has all of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / np.arange(1, d + 1)
    return Instance("power law", X, X @ np.ones(d), 1e-7, False, epochs)


def random_fused(n: int, d: int, epochs: int) -> Instance:
    """Gaussian rows, a piecewise constant model and noise: strongly convex."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d))
    model = np.repeat(rng.standard_normal(d // 10), 10)
    return Instance("random fused", X, X @ model + rng.standard_normal(n), 0.02, True, epochs)


def gaps(problem: sa.Problem, solver: sa.AccSADMM, best: float, epochs: int, seed: int):
    """Return gap at a feasible point and infeasibility after every epoch, and the state."""
    state = solver.start(problem)
    state.engine = "compiled"
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(epochs):
        solver.epoch(problem, state, rng)
        value = problem.objective(problem.feasible(state.output))
        rows.append((value - best, float(np.linalg.norm(problem.constraint(state.output)))))
    return np.array(rows), state


def exponent(values: np.ndarray, floor: float) -> str:
    """Return p of S^-p, fitted on the last two thirds of a decade above the floor."""
    below = np.flatnonzero(values <= floor)
    last = int(below[0]) if below.size else len(values)
    first = int(last / 10**0.67)
    if last - first < 5:
        return "    -"
    s = np.arange(first, last) + 1.0
    return f"{-np.polyfit(np.log(s), np.log(np.maximum(values[first:last], 1e-300)), 1)[0]:5.2f}"


def bound(m: int, eta: float, start_gap: float, distance2: float, epochs: int) -> np.ndarray:
    """Return the right side of the bound for S = 1, ..., epochs."""
    theta = 2 / (np.arange(1, epochs + 1) + 3)
    return theta**2 * (2 * m * start_gap + eta * distance2 / 2) / (1 + (m - 1) * (theta + 0.5))


def report(instance: Instance, seeds: int, axes) -> bool:
    """Print the rows of one instance; return whether the bound held."""
    x, best = instance.optimum()
    epochs, (n, d) = instance.epochs, instance.X.shape
    b = round(2 * n / INNER_STEPS)
    options = {
        "batch_size": b,
        "n_inner": INNER_STEPS,
        "sampling": "rows",
        "restart": "never",
        "metric": "none",
    }
    slow = Schedule()
    with_, without = instance.constrained(), instance.unconstrained()
    start = without.objective_at_zero - best
    print(
        f"\n{instance.name}: n = {n}, d = {d}, b = {b}, m = {INNER_STEPS}, {epochs} epochs, "
        f"{seeds} seeds, F(0) - F* = {start:.3e}"
    )
    held, curves = True, {}
    for label, problem, theta, theory in (
        ("constraint, its schedule", with_, None, 1),
        ("no constraint, same schedule", without, slow, 1),
        ("no constraint, its schedule", without, None, 2),
    ):
        solver = sa.AccSADMM(theta=theta, **options)
        runs = [gaps(problem, solver, best, epochs, seed) for seed in range(seeds)]
        mean = np.mean([rows for rows, _ in runs], axis=0)
        curves[label] = mean[:, 0]
        text = (
            f"  {label:<29} theory {theory}   measured {exponent(mean[:, 0], FLOOR * start)}   "
            f"last gap {mean[-1, 0] / start:9.2e} of the first"
        )
        if problem.constrained:
            text += f"   infeasibility {exponent(mean[:, 1], 1e-13)}"
        print(text)
        if theory == 2:
            state = runs[0][1]
            limit = bound(INNER_STEPS, state.curvature, start, float(x @ x), epochs)
            ratio = float((mean[:, 0] / limit).max())
            held = ratio <= 1
            curves["bound"] = limit
            verdict = "ok    " if held else "MISSED"
            print(f"  {verdict} bound: largest measured / bound = {ratio:.2e}")
    for share in (1e-2, 1e-4, 1e-6):
        reached = [np.flatnonzero(c <= share * start) for k, c in curves.items() if k != "bound"]
        shown = [f"{r[0] + 1:5d}" if r.size else "  not" for r in reached]
        print(f"  epochs to {share:.0e} of the first gap, in this order: {' '.join(shown)}")
    if axes is not None:
        for label, values in curves.items():
            style = {"color": "0.6", "linestyle": "--"} if label == "bound" else {}
            axes.loglog(
                np.arange(1, epochs + 1), np.maximum(values, FLOOR * start), label=label, **style
            )
        axes.set(title=instance.name, xlabel="epochs S")
    return held


def main() -> None:
    """Print the table, write out/derivatives.png, exit with 1 when the bound fails."""
    quick = "--quick" in sys.argv
    epochs, seeds = (60, 2) if quick else (300, 5)
    instances = [
        chain(200, 10 * epochs),
        power_law(800, 200, 3 * epochs),
        random_fused(1_000, 100, epochs),
    ]
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, panels = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    except ImportError:
        figure, panels = None, [None] * 3
    held = [
        report(instance, seeds, axes) for instance, axes in zip(instances, panels, strict=True)
    ]
    if figure is not None:
        panels[0].set_ylabel("F - F*, mean over seeds")
        panels[0].legend(fontsize=8)
        Path("out").mkdir(exist_ok=True)
        figure.savefig("out/derivatives.png", dpi=120)
        print("\nfigure: out/derivatives.png")
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
