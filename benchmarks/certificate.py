"""How tight the certificates are, and what they cost, on real data.

Graph-guided fused logistic regression, ``mean loss + mu |[G; I] x|_1``, rows of unit norm. Points
of a known relative gap lie between a rough iterate and the optimum, which a proximal Newton method
finds to about 1e-13. Printed: the true relative gap, what the scaled and the corrected dual points
certify, and the time of both beyond the pass that the solver makes anyway, in units of one full
gradient in NumPy. ``blind`` is the corrected gap when no multiplier is handed over.

    STOCHADMM_DATA=... python benchmarks/certificate.py [covtype] [mnist]
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

import stochadmm as sa
from stochadmm import structures
from stochadmm.certificates import certify
from stochadmm.problem import Pair, Problem
from stochadmm.quadratic import QuadraticModel
from stochadmm_reproduction import datasets

TARGETS = (1e-5, 1e-6, 1e-8)
MOST = {"covtype": 4.0, "mnist": 8.0}


def load(name: str) -> tuple[Any, Any, Any]:
    """Return rows, labels and the structure [G; I]."""
    if name == "covtype":
        data = datasets.load("covtype", split=True, unit_rows=True)
        edges = structures.glasso_edges(data.X)
        G = structures.from_edges(edges, n_features=data.X.shape[1])
    else:
        data = datasets.load("mnist", task="even-odd", unit_rows=True)
        G = structures.graph((28, 28))
    d = data.X.shape[1]
    A = sparse.csr_array(sparse.vstack([G.tosparse(), sparse.eye_array(d)]))
    return np.ascontiguousarray(data.X, dtype=np.float64), data.y, A


def objective(problem: Problem, x: np.ndarray) -> float:
    """Return F at x2 = x."""
    return problem.objective(problem.feasible(Pair(np.zeros(problem.shape1), x)))


def optimum(problem: Problem, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return x, multiplier and objective of the optimum: proximal Newton with full Hessians."""
    f2, best = problem.f2, objective(problem, x)
    model = QuadraticModel(problem.A2, problem.h1, None, problem.shape2)
    dual = None
    for _ in range(60):
        snap = f2.evaluate(x)
        H = f2.gram(f2.loss.curvature(snap.predictions, f2.y))
        found = model.minimize(H, snap.gradient, x, dual=dual, tol=1e-12, max_iter=3000)
        dual, step = found.dual, 1.0
        while step > 1e-4:
            ahead = x + step * (found.w - x)
            value = objective(problem, ahead)
            if value <= best:
                break
            step *= 0.5
        if value >= best - 1e-15 * abs(best):
            break
        x, best = ahead, value
    return x, dual, min(best, value)


def one_pass(X: np.ndarray, y: np.ndarray) -> float:
    """Return the median time of one full gradient in NumPy."""
    w, times = np.full(X.shape[1], 1e-3), []
    for _ in range(7):
        start = time.perf_counter()
        X.T @ (-y / (1.0 + np.exp(y * (X @ w)))) / len(y)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def timed(call: Any) -> tuple[Any, float]:
    """Return the result and the median time of a call."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return result, float(np.median(times))


def at_gap(
    problem: Problem, rough: np.ndarray, best: np.ndarray, optimal: float, gap: float
) -> float:
    """Return the share of the rough point that gives a true gap, by bisection."""
    low, high = 1e-8, 1e2
    for _ in range(40):
        t = np.sqrt(low * high)
        now = (objective(problem, best + t * (rough - best)) - optimal) / optimal
        low, high = (low, t) if now > gap else (t, high)
        if abs(now / gap - 1) < 0.05:
            break
    return float(t)


def run(name: str, strengths: tuple[float, ...]) -> None:
    """Print the table of one data set."""
    X, y, A = load(name)
    unit = one_pass(X, y)
    print(
        f"\n{name} {X.shape[0]} x {X.shape[1]}, {A.shape[0]} rows of structure, "
        f"one pass {1e3 * unit:.1f} ms, at most {MOST[name]:g} passes"
    )
    print(
        f"{'mu':>8} {'true':>9} {'scaled':>9} {'corrected':>9} {'ratio':>6} {'passes':>7}"
        f" {'scaled':>7} {'blind':>9} {'passes':>7}"
    )
    for mu in strengths:
        problem = Problem.linear(sa.Logistic(), X, y, structure=A, on_structure=sa.L1(mu))
        result = sa.minimize(problem, "acc-sadmm", max_passes=6, stop=sa.Gap(1e-12))
        best, dual, optimal = optimum(problem, np.asarray(result.x2, dtype=np.float64))
        rough, rough_dual = result.x2, result.dual
        for target in TARGETS:
            t = at_gap(problem, rough, best, optimal, target)
            x = best + t * (rough - best)
            lam = dual + t * (rough_dual - dual)
            true = (objective(problem, x) - optimal) / optimal
            point, cache = Pair(A @ x, x), problem.f2.evaluate(x)
            args = (problem, point, lam, cache)
            scaled, cheap = timed(partial(certify, *args))
            tight, dear = timed(partial(certify, *args, strength="corrected"))
            args = (problem, point, None, cache)
            blind, alone = timed(partial(certify, *args, strength="corrected"))
            certified = tight.gap / optimal
            print(
                f"{mu:8.0e} {true:9.2e} {scaled.gap / optimal:9.2e} {certified:9.2e}"
                f" {certified / true:6.1f} {dear / unit:7.2f} {cheap / unit:7.2f}"
                f" {blind.gap / optimal:9.2e} {alone / unit:7.2f}"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["covtype", "mnist"])
    for chosen in parser.parse_args().names:
        run(chosen, (1e-5, 1e-4, 1e-3))
