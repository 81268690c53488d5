"""Rates of convergence: theory against measured exponents, ergodic and last iterate.

    python benchmarks/rates.py [--out out/rates] [--quick]

The error after K iterations is |F - F*| at the feasible point made from x2, plus
|A1 x1 + A2 x2 - b| at the pair; an exponent p is the least-squares slope of error ~ K^-p over a
range of K. Two instances:

(a) *lines*: h1 is the distance to a sum of lines, one in each of N planes, h2 ten times the
    distance to the first axes, f2 = 0; the i-th line has the angle theta_i to its axis, with
    cos(theta_i) = sqrt(i / (i + 1)). ADMM contracts plane i by cos(theta_i) only, N is far above
    K, and the start has coordinates that decay like i^-0.55: the last iterate of ADMM is as slow
    as theory allows. Without f2 there is no noise, and since A2 = I the linearized steps of SVRG-,
    SAG- and linearized ADMM are the exact ones of ADMM.
(b) *fused*: random logistic regressions with fused coefficients.

A worst-case rate may be beaten on an instance, so only exponents *below* theory are disagreements.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import stochadmm as sa

STEP = 10  # iterations per epoch, and the grain of K


# ---------------------------------------------------------------- instance (a)


@dataclass(frozen=True)
class Distance:
    """scale * distance to the span of one line in each plane; planes are consecutive pairs."""

    scale: float
    lines: np.ndarray
    """Unit vectors, shape (N, 2)."""

    def _away(self, x: np.ndarray) -> np.ndarray:
        planes = x.reshape(-1, 2)
        along = np.sum(planes * self.lines, axis=1, keepdims=True)
        return (planes - along * self.lines).ravel()

    def value(self, x: np.ndarray) -> float:
        return self.scale * float(np.linalg.norm(self._away(x)))

    def prox(self, v: np.ndarray, step: float, out: np.ndarray | None = None) -> np.ndarray:
        away = self._away(v)
        length = float(np.linalg.norm(away))
        moved = v - away * min(1.0, step * self.scale / max(length, 1e-300))
        if out is not None:
            out[...] = moved
        return moved

    def conjugate(self, u: np.ndarray) -> float:
        return 0.0 if np.linalg.norm(u) <= self.scale * (1 + 1e-9) else np.inf

    def project_dual(self, u: np.ndarray) -> np.ndarray:
        return self._away(u) * min(1.0, self.scale / max(np.linalg.norm(self._away(u)), 1e-300))


def lines(n_planes: int) -> tuple[sa.Problem, tuple[sa.Pair, np.ndarray], float]:
    """Return instance (a), its start and its optimal value."""
    i = np.arange(1, n_planes + 1)
    cos = np.sqrt(i / (i + 1))
    slanted = np.stack([cos, np.sqrt(1 - cos**2)], axis=1)
    axes = np.stack([np.ones(n_planes), np.zeros(n_planes)], axis=1)
    d = 2 * n_planes
    nothing = sa.FiniteSum(sa.Squared(), np.zeros((4, d)), np.zeros(4))
    problem = sa.Problem(
        nothing, h1=Distance(1.0, slanted), h2=Distance(10.0, axes), A1=sa.Identity(d, -1.0),
        A2=sa.Identity(d),
    )  # fmt: skip
    x = np.stack([i**-0.55, np.zeros(n_planes)], axis=1).ravel()
    return problem, (sa.Pair(x, x), np.zeros(d)), 0.0


def check_construction() -> None:
    """Show that ADMM contracts each plane as it should, and that exact steps change nothing."""
    problem, (x, dual), _ = lines(400)
    solver, rng = sa.LinearizedADMM(beta=1.0, n_inner=50), np.random.default_rng(0)
    state = solver.start(problem, x, dual)
    solver.epoch(problem, state, rng)
    before = planes_of(state)
    solver.epoch(problem, state, rng)
    ratio = (planes_of(state) / before) ** (1 / 50)
    i = np.arange(1, 401)
    worst = np.abs(ratio / np.sqrt(i / (i + 1)) - 1)[9:].max()
    print(f"construction: contraction of plane i, 10 to 400, against sqrt(i / (i + 1)): "
          f"within {max(worst, np.finfo(float).eps):.1e}")  # fmt: skip
    assert worst < 1e-6

    problem, (x, dual), _ = lines(20)
    exact, linearized = sa.ADMM(beta=1.0, relaxation=1.0), sa.LinearizedADMM(beta=1.0, n_inner=10)
    states = [solver.start(problem, x, dual) for solver in (exact, linearized)]
    for solver, state in zip((exact, linearized), states, strict=True):
        solver.epoch(problem, state, rng)
    apart = float(np.abs(states[0].x.x2 - states[1].x.x2).max())
    print(f"construction: exact and linearized ADMM after 10 iterations differ by {apart:.1e}\n")
    assert apart < 1e-6


def planes_of(state: sa.solvers.State) -> np.ndarray:
    """Return the length, plane by plane, of the vector that ADMM contracts."""
    return np.linalg.norm((state.x.x2 - state.dual).reshape(-1, 2), axis=1)


# ---------------------------------------------------------------- instance (b)


def fused(seed: int) -> tuple[sa.Problem, tuple[sa.Pair, np.ndarray], float]:
    """Return instance (b), its start and its optimal value."""
    rng = np.random.default_rng(seed)
    n, d = 400, 40
    X = rng.standard_normal((n, d))
    X /= np.sqrt(np.square(X).sum(axis=1).max())
    coef = np.repeat(rng.standard_normal(10), 4) * 5
    y = np.where(X @ coef + rng.standard_normal(n) > 0, 1.0, -1.0)
    problem = sa.Problem.linear(
        sa.Logistic(), X, y, structure=sa.Differences(d), on_structure=sa.L1(1e-3)
    )
    exact = sa.minimize(problem, sa.ProxNewton(), stop=sa.Gap(1e-12), max_passes=400)
    return problem, (problem.zeros(), problem.zeros_dual()), exact.objective


# ---------------------------------------------------------------- theory and measurement


@dataclass(frozen=True)
class Rate:
    """Exponents that theory gives for the mean and the last iterate; None where it gives none."""

    ergodic: float | None
    last: float | None
    note: str = ""


THEORY = {
    "admm": Rate(1.0, 0.5, "1/sqrt(K) is tight for the last iterate; (a) by linearized steps"),
    "linearized-admm": Rate(1.0, 0.5),
    "ladm-ne": Rate(None, 1.0, "optimal"),
    "fast-ladmm": Rate(1.0, None, "on bounded sets; the mean is what it returns"),
    "ladmpsap": Rate(1.0, None),
    "inertial-admm": Rate(None, 0.5),
    "aadmm": Rate(1.0, None, "the mean is what it returns; one run per K"),
    "stoc-admm": Rate(0.5, None),
    "opg-admm": Rate(0.5, None),
    "rda-admm": Rate(0.5, None),
    "opt-sadmm": Rate(0.5, None, "with noise; 1 without"),
    "sag-admm": Rate(1.0, None, "proved for the form 'points'"),
    "svrg-admm": Rate(1.0, 0.5),
    "asvrg-admm": Rate(None, 2.0, "claimed for bounded sets and another criterion"),
    "sdca-admm": Rate(None, None, "unknown for general convex problems"),
    "acc-sadmm": Rate(None, 1.0, "paper's variant, rate in epochs"),
    "vr-pddy": Rate(None, None, "no rate of the last iterate"),
    "spdhg": Rate(1.0, None),
}


def solver_for(name: str, K: int, instance: str) -> sa.solvers.Solver:
    """Return a method whose epochs are STEP iterations, with the penalty of the instance."""
    kind = sa.solvers.get(name)
    fields = kind.__dataclass_fields__
    wanted: dict[str, object] = {"n_inner": STEP}
    if "batch_size" in fields:
        wanted["batch_size"] = 1 if instance == "a" else 20
    if "beta" in fields and instance == "a":
        wanted["beta"] = 1.0
    if name == "admm":
        wanted["relaxation"] = 1.0
    if name == "aadmm":
        wanted["horizon"] = K
    if name == "acc-sadmm":
        wanted |= {"step": "paper", "metric": "none", "restart": "never", "sampling": "rows"}
    if "returns" in fields:
        wanted["returns"] = "last"
    return kind(**wanted)


def error(problem: sa.Problem, x: sa.Pair, optimum: float) -> float:
    """Return objective gap at the feasible point plus infeasibility of the pair."""
    gap = abs(problem.objective(problem.feasible(x)) - optimum)
    return gap + float(np.linalg.norm(problem.constraint(x)))


def curves(name: str, instance: str, grid: list[int], seeds: int) -> dict[str, np.ndarray]:
    """Return the errors of the last iterate and of the mean at each K, averaged over seeds."""
    found: dict[str, list[list[float]]] = {"last": [], "ergodic": []}
    for seed in range(seeds):
        problem, start, optimum = CACHE[instance](seed)
        last, mean = [], []
        # the horizon of AADMM is part of its parameters: one run per K
        for targets in [[K] for K in grid] if name == "aadmm" else [grid]:
            solver = solver_for(name, targets[-1], instance)
            solver.check(problem)
            wanted, done = list(targets), 0
            for state in sa.iterate(problem, solver, seed, start=start):
                done += STEP
                if done < wanted[0]:
                    continue
                wanted.pop(0)
                last.append(error(problem, state.output, optimum))
                if state.ergodic is not None:
                    mean.append(error(problem, state.ergodic, optimum))
                if not wanted:
                    break
        found["last"].append(last)
        if mean:
            found["ergodic"].append(mean)
    if name == "aadmm":
        found["last"] = []
    return {kind: np.mean(rows, axis=0) for kind, rows in found.items() if rows}


def exponent(grid: list[int], errors: np.ndarray) -> float:
    """Return p of error ~ K^-p; errors at rounding level are left out."""
    usable = errors > 1e-12
    if usable.sum() < 3:
        return math.inf
    return -float(np.polyfit(np.log(np.array(grid)[usable]), np.log(errors[usable]), 1)[0])


def verdict(theory: float | None, measured: float | None) -> str:
    """Return both numbers and, in words, how they compare."""
    if measured is None:
        return f"{'-' if theory is None else f'{theory:g}':>4} /   -         "
    shown = "    " if theory is None else f"{theory:4g}"
    word = ""
    if theory is not None:
        word = (
            "SLOWER" if measured < theory - 0.15 else "faster" if measured > theory + 0.3 else "ok"
        )
    return f"{shown} / {measured:5.2f} {word:6}"


CACHE = {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/rates"))
    parser.add_argument("--quick", action="store_true", help="smaller K, one seed")
    args = parser.parse_args()
    top = 300 if args.quick else 3000
    grid_a = [round(K / STEP) * STEP for K in np.geomspace(30, top, 7)]
    grid_b = [round(K / STEP) * STEP for K in np.geomspace(100, 10 * top, 7)]
    seeds = 1 if args.quick else 3

    check_construction()
    instance_a = lines(10 * top)
    made = [fused(seed) for seed in range(seeds)]
    CACHE["a"], CACHE["b"] = (lambda seed: instance_a), (lambda seed: made[seed])
    print(f"(a) N = {10 * top:,} planes, K = {grid_a}\n(b) K = {grid_b}, {seeds} seed(s)\n")
    print(
        f"{'theory / measured':18}{'(a) ergodic':20}{'(a) last':20}{'(b) ergodic':20}{'(b) last'}"
    )

    results, disagreements = {}, []
    for name, rate in THEORY.items():
        if name not in sa.solvers.names():
            continue
        cells = []
        for instance, grid, n_seeds in (("a", grid_a, 1), ("b", batch_grid(name, grid_b), seeds)):
            try:
                same = "linearized-admm" if (name, instance) == ("admm", "a") else name
                found = curves(same, instance, grid, n_seeds)
            except (TypeError, ValueError, ArithmeticError) as reason:
                found = {}
                print(f"  {name} cannot serve ({instance}): {reason}")
            for kind in ("ergodic", "last"):
                measured = exponent(grid, found[kind]) if kind in found else None
                theory = getattr(rate, kind)
                cells.append(verdict(theory, measured))
                if "SLOWER" in cells[-1]:
                    disagreements.append(
                        f"{name}, {kind} on ({instance}): {measured:.2f}, theory {theory:g}"
                        + (f" ({rate.note})" if rate.note else "")
                    )
            results[name, instance] = (grid, found)
        print(f"{name:18}" + "".join(f"{cell:20}" for cell in cells) + rate.note, flush=True)
    print("\nMeasured below theory by more than 0.15:")
    print("\n".join(f"  {line}" for line in disagreements) or "  none")
    figure(results, args.out)


def batch_grid(name: str, grid: list[int]) -> list[int]:
    """Return a shorter range of K for methods whose iteration is a pass over the data."""
    costly = ("admm", "linearized-admm", "ladm-ne", "aadmm")
    return [max(STEP, K // 10 // STEP * STEP) for K in grid] if name in costly else grid


def figure(results: dict, out: Path) -> None:
    """Draw all curves."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    picture, panels = plt.subplots(2, 2, figsize=(11, 8.5), sharex="row")
    for (name, instance), (grid, found) in results.items():
        for column, kind in enumerate(("ergodic", "last")):
            if kind in found:
                panel = panels["ab".index(instance), column]
                number = list(THEORY).index(name)
                panel.loglog(
                    grid, np.maximum(found[kind], 1e-14), marker=".", label=name,
                    color=plt.get_cmap("tab20")(number), ls=("-", "--", "-.")[number % 3],
                )  # fmt: skip
    for row, instance in enumerate("ab"):
        for column, kind in enumerate(("mean of the iterates", "last iterate")):
            panel = panels[row, column]
            ends = np.array(panel.get_xlim())
            high = panel.get_ylim()[1]
            for p, style in ((0.5, ":"), (1.0, "--")):
                panel.loglog(ends, high * (ends / ends[0]) ** -p, "k" + style, lw=0.8)
            panel.set_title(f"({instance}) {kind}")
            panel.set_xlabel("iterations K")
            panel.legend(fontsize=7, ncol=2)
    panels[0, 0].set_ylabel("objective gap + infeasibility")
    panels[1, 0].set_ylabel("objective gap + infeasibility")
    picture.suptitle("Dotted 1/sqrt(K), dashed 1/K")
    picture.tight_layout()
    out.mkdir(parents=True, exist_ok=True)
    picture.savefig(out / "rates.png", dpi=150)
    print(f"\nfigure: {out / 'rates.png'}")


if __name__ == "__main__":
    main()
