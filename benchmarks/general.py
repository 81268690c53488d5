"""Random two-block problems through ``minimize``, beside a conic solver (CVXPY, Clarabel).

    min  h1(x1) + f1(x1) + h2(x2) + f2(x2)     s.t.  A1 x1 + A2 x2 = b

with A1 and A2 dense, sparse, tall, wide, rank-deficient or multiples of the identity, b zero or
not, f1 and h2 present or not, vectors and matrices; every method that accepts a problem runs on
it. Counted are answers that claim too much: CONVERGED with an infeasible pair, an objective too
high or lower than the multiplier explains, and lower bounds above the optimum. Then how often each
method reached what is asked of it.

    python benchmarks/general.py [--problems 200] [--methods auto acc-sadmm] [--out FILE]

An interrupted run goes on where it stopped: runs that are in the file are not made again.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import stochadmm as sa

TOL, PASSES, SECONDS = 1e-5, 2000.0, 15.0
TRUTH = 3e-8
"""Accuracy of the conic solver, relative to 1 + |F*|."""
PRECISE = ("auto", "acc-sadmm", "svrg-admm")
"""Methods asked for a certified 1e-5."""
STEADY = ("sag-admm", "linearized-admm", "ladm-ne", "admm")
"""Methods asked for feasibility 1e-4 and |F - F*| <= 3e-4 (1 + |F*|)."""
SHARE = 0.95
KINDS = (
    "minus-identity",
    "scaled-identity",
    "negative-identity-matrix",
    "sparse-identity",
    "dense",
    "sparse",
    "tall",
    "wide",
    "rank-deficient",
)

# ---------------------------------------------------------------- the problems


class Pull:
    """f1(x) = weight/2 |x - center|^2, known by its value and gradient only."""

    def __init__(self, center: Any, weight: float) -> None:
        self.center, self.lipschitz = center, weight

    def value(self, x: Any) -> float:
        return 0.5 * self.lipschitz * float(np.sum((x - self.center) ** 2))

    def gradient(self, x: Any) -> Any:
        return self.lipschitz * (x - self.center)


class Bend:
    """f1(x) = 1/2 |M x - t|^2, smooth and not separable."""

    def __init__(self, matrix: Any, target: Any) -> None:
        self.matrix, self.target = matrix, target
        self.lipschitz = float(np.linalg.norm(matrix, 2) ** 2)

    def value(self, x: Any) -> float:
        return 0.5 * float(np.sum((self.matrix @ x - self.target) ** 2))

    def gradient(self, x: Any) -> Any:
        return self.matrix.T @ (self.matrix @ x - self.target)


@dataclass(frozen=True)
class Case:
    """A problem with what is known of its optimum."""

    number: int
    label: str
    problem: Any
    optimum: float
    multiplier: float
    """Norm of an optimal multiplier."""


def case(number: int) -> Case:
    """Return the problem of a number, always the same, solved by Clarabel."""
    rng = np.random.default_rng([12, number])
    outputs = None if rng.random() < 0.7 else int(rng.integers(2, 4))
    n, d = int(rng.integers(40, 120)), int(rng.integers(3, 10))
    kind1, kind2 = _kinds(rng, number)
    q, p = _sizes(rng, kind1, kind2, d)
    A1, A2 = _matrix(rng, kind1, q, p), _matrix(rng, kind2, q, d)
    tail = () if outputs is None else (outputs,)
    loss, X, y = _data(rng, n, d, outputs)
    h1, shown1, point1 = _penalty(rng, (p, *tail), first=True)
    h2, shown2, point2 = (
        _penalty(rng, (d, *tail), first=False)
        if rng.random() < 0.5
        else (None, "-", rng.standard_normal((d, *tail)))
    )
    f1 = _smooth(rng, p, tail) if rng.random() < 0.4 else None
    b = _dense(A1) @ point1 + _dense(A2) @ point2 if rng.random() < 0.6 else None
    problem = sa.Problem(sa.FiniteSum(loss, X, y), h1=h1, h2=h2, f1=f1, A1=A1, A2=A2, b=b)
    optimum, multiplier = _truth(problem, _dense(A1), _dense(A2))
    label = "/".join(
        (
            type(loss).__name__,
            kind1,
            kind2,
            shown1,
            shown2,
            type(f1).__name__ if f1 else "-",
            "b" if b is not None else "0",
            f"{n}x{d}",
            f"{q}x{p}",
            str(outputs),
        )
    )
    return Case(number, label, problem, optimum, multiplier)


def _kinds(rng: Any, number: int) -> tuple[str, str]:
    first = KINDS[number % len(KINDS)]
    if rng.random() < 0.25:
        return first, KINDS[int(rng.integers(0, 4))]
    return first, KINDS[int(rng.integers(4, len(KINDS)))]


def _sizes(rng: Any, kind1: str, kind2: str, d: int) -> tuple[int, int]:
    """Return rows of the constraint and columns of A1."""
    square1 = "identity" in kind1
    if "identity" in kind2:
        q = d
    elif kind2 == "tall":
        q = d + int(rng.integers(1, 4))
    elif kind2 == "wide":
        q = max(1, d - int(rng.integers(1, d)))
    else:
        q = int(rng.integers(2, d + 4))
    if square1:
        return q, q
    if kind1 == "tall":
        return q, max(1, q - int(rng.integers(1, q + 1)))
    if kind1 == "wide":
        return q, q + int(rng.integers(1, 4))
    return q, int(rng.integers(max(1, q - 2), q + 3))


def _matrix(rng: Any, kind: str, rows: int, columns: int) -> Any:
    scale = float(rng.choice([0.3, 1.0, 2.5]))
    if kind == "minus-identity":
        return sa.Identity(rows, scale=-1.0)
    if kind == "scaled-identity":
        return scale * np.eye(rows)
    if kind == "negative-identity-matrix":
        return -scale * np.eye(rows)
    if kind == "sparse-identity":
        return sparse.csr_array(-scale * sparse.eye_array(rows))
    full = rng.standard_normal((rows, columns))
    if kind == "sparse":
        keep = rng.random((rows, columns)) < 0.4
        keep[np.arange(rows), rng.integers(0, columns, rows)] = True
        return sparse.csr_array(full * keep)
    if kind == "rank-deficient":
        rank = max(1, min(rows, columns) - 1)
        return full[:, :rank] @ rng.standard_normal((rank, columns)) / np.sqrt(rank)
    return full


def _dense(A: Any) -> Any:
    if isinstance(A, sa.Identity):
        return A.tosparse().toarray()
    return A.toarray() if sparse.issparse(A) else np.asarray(A)


def _data(rng: Any, n: int, d: int, outputs: int | None) -> tuple[Any, Any, Any]:
    X = rng.standard_normal((n, d)) * rng.choice([0.5, 1.0, 2.0])
    if rng.random() < 0.3:
        X = X * (rng.random((n, d)) < 0.5)
    shape = (d,) if outputs is None else (d, outputs)
    score = X @ rng.standard_normal(shape) + rng.standard_normal((n, *shape[1:]))
    which = rng.random()
    if outputs is None:
        if which < 0.5:
            return sa.Logistic(), X, np.where(score > 0, 1.0, -1.0)
        return (sa.Squared(), X, score) if which < 0.8 else (sa.Huber(1.0), X, score)
    if which < 0.5:
        return sa.Squared(), X, score
    return sa.Multinomial(outputs), X, np.argmax(score, axis=1)


def _penalty(rng: Any, shape: tuple[int, ...], first: bool) -> tuple[Any, str, Any]:
    """Return a penalty, its name and a point of its domain."""
    alpha = float(rng.choice([0.01, 0.05, 0.3]))
    point = rng.standard_normal(shape)
    names = ["l1", "l1", "elastic-net", "groups", "non-negative", "box"]
    names += ["nuclear"] if len(shape) == 2 else []
    names += ["weighted-l1"] if first else ["ridge"]
    name = str(rng.choice(names))
    if name == "l1":
        return sa.L1(alpha), name, point
    if name == "weighted-l1":
        return sa.L1(alpha, weights=rng.random(shape[0]) + 0.1), name, point
    if name == "elastic-net":
        return sa.ElasticNet(alpha, 0.5), name, point
    if name == "ridge":
        return sa.Ridge(alpha), name, point
    if name == "groups":
        return sa.GroupL2(alpha, _groups(shape[0])), name, point
    if name == "nuclear":
        return sa.Nuclear(alpha), name, point
    if name == "non-negative":
        return sa.NonNegative(), name, np.abs(point)
    return sa.Box(-1.5, 2.0), name, np.clip(point, -1.5, 2.0)


def _groups(rows: int) -> list[int]:
    sizes = [2] * (rows // 2)
    return sizes + [1] * (rows - sum(sizes))


def _smooth(rng: Any, p: int, tail: tuple[int, ...]) -> Any:
    if rng.random() < 0.6:
        return Pull(rng.standard_normal((p, *tail)), float(rng.choice([0.1, 1.0])))
    rows = int(rng.integers(1, p + 2))
    matrix = rng.standard_normal((rows, p)) * 0.5
    return Bend(matrix, rng.standard_normal((rows, *tail)))


# ---------------------------------------------------------------- the truth


def _truth(problem: Any, A1: Any, A2: Any) -> tuple[float, float]:
    import cvxpy as cp

    x1, x2 = cp.Variable(problem.shape1), cp.Variable(problem.shape2)
    f2 = problem.f2
    objective, constraints = _stated_loss(cp, f2, x2), []
    for h, x in ((problem.h1, x1), (problem.h2, x2)):
        if h is not None:
            term, more = _stated_penalty(cp, h, x)
            objective, constraints = objective + term, constraints + more
    if isinstance(problem.f1, Pull):
        weight, center = problem.f1.lipschitz, problem.f1.center
        objective = objective + 0.5 * weight * cp.sum_squares(x1 - center)
    elif problem.f1 is not None:
        objective = objective + 0.5 * cp.sum_squares(problem.f1.matrix @ x1 - problem.f1.target)
    right = np.zeros(problem.shape_dual) if problem.b is None else problem.b
    link = A1 @ x1 + A2 @ x2 == right
    stated = cp.Problem(cp.Minimize(objective), [link, *constraints])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = stated.solve(
            cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10, max_iter=300
        )
    if stated.status not in ("optimal", "optimal_inaccurate"):
        raise RuntimeError(f"Clarabel ends with {stated.status}")
    return float(value), float(np.linalg.norm(link.dual_value))


def _stated_loss(cp: Any, f2: Any, x: Any) -> Any:
    z, y, n = f2.X @ x, f2.y, f2.n_terms
    if isinstance(f2.loss, sa.Squared):
        return cp.sum_squares(z - y) / (2 * n)
    if isinstance(f2.loss, sa.Logistic):
        return cp.sum(cp.logistic(cp.multiply(-y, z))) / n
    if isinstance(f2.loss, sa.Huber):
        return cp.sum(cp.huber(z - y, 1.0)) / (2 * n)
    chosen = np.eye(f2.n_outputs)[y]
    return (cp.sum(cp.log_sum_exp(z, axis=1)) - cp.sum(cp.multiply(chosen, z))) / n


def _stated_penalty(cp: Any, h: Any, x: Any) -> tuple[Any, list[Any]]:
    if isinstance(h, sa.L1):
        weights = np.ones(x.shape[0]) if h.weights is None else np.asarray(h.weights)
        wide = weights if len(x.shape) == 1 else np.repeat(weights[:, None], x.shape[1], 1)
        return h.alpha * cp.sum(cp.multiply(wide, cp.abs(x))), []
    if isinstance(h, sa.ElasticNet):
        l1 = h.l1_ratio * cp.sum(cp.abs(x))
        return h.alpha * (l1 + 0.5 * (1 - h.l1_ratio) * cp.sum_squares(x)), []
    if isinstance(h, sa.Ridge):
        return 0.5 * h.alpha * cp.sum_squares(x), []
    if isinstance(h, sa.Nuclear):
        return h.alpha * cp.normNuc(x), []
    if isinstance(h, sa.NonNegative):
        return 0.0, [x >= 0]
    if isinstance(h, sa.Box):
        return 0.0, [x >= h.lower, x <= h.upper]
    total, start = 0.0, 0
    for size in _groups(x.shape[0]):
        block = x[start : start + size]
        norm = cp.norm(cp.vec(block, order="C"), 2)
        total, start = total + h.alpha * norm, start + size
    return total, []


# ---------------------------------------------------------------- the runs


@dataclass(frozen=True)
class Run:
    """One method on one problem, in plain numbers."""

    number: int
    method: str
    status: str
    optimum: float
    multiplier: float
    objective: float
    feasibility: float
    gap: float
    relative_gap: float
    kkt: float
    passes: float
    seconds: float
    label: str
    message: str

    @property
    def scale(self) -> float:
        return 1.0 + abs(self.optimum)

    @property
    def wrong(self) -> list[str]:
        """Return what this answer claims without right."""
        found, slack = [], TRUTH * self.scale
        if self.status == "CONVERGED":
            allowed = TOL * max(abs(self.objective), 1.0) + slack
            if not self.feasibility <= TOL:
                found.append("infeasible")
            if not self.objective - self.optimum <= allowed:
                found.append("too high")
            if not self.optimum - self.objective <= self.explained + slack:
                found.append("too low")
        elif self.relative_gap <= TOL and self.feasibility <= TOL:
            found.append("not converged although the rule is met")
        if np.isfinite(self.gap) and not self.objective - self.gap <= self.optimum + slack:
            found.append("unsound bound")
        return found

    @property
    def explained(self) -> float:
        """Return how far below the optimum the residual may take the objective."""
        return self.multiplier * self.feasibility * (1.0 + self.right)

    right: float = 0.0
    """Norm of b."""

    @property
    def reached(self) -> bool:
        """Say whether the method did what is asked of it."""
        off = abs(self.objective - self.optimum)
        if self.method in PRECISE:
            return self.feasibility <= TOL and off <= TOL * self.scale + TRUTH * self.scale
        return self.feasibility <= 1e-4 and off <= 3e-4 * self.scale


def run(found: Case, method: str, max_seconds: float = SECONDS) -> Run | None:
    """Return what ``minimize`` says, None where the method refuses the problem."""
    problem = found.problem
    try:
        result = sa.minimize(
            problem, method, stop=sa.Gap(TOL), max_passes=PASSES, max_seconds=max_seconds
        )
    except sa.solvers.Unsuitable:
        return None
    pair = sa.Pair(result.x1.astype(float), result.x2.astype(float))
    right = 0.0 if problem.b is None else float(np.linalg.norm(problem.b))
    residual = float(np.linalg.norm(problem.constraint(pair))) / (1 + right)
    if abs(residual - result.feasibility) > 1e-12 + 1e-6 * residual:
        raise AssertionError(f"feasibility {result.feasibility} is not that of the pair")
    value = problem.objective(pair)
    same = value == result.objective  # also where both are infinite: outside of a domain
    if not (same or abs(value - result.objective) <= 1e-9 * (1 + abs(value))):
        raise AssertionError(f"objective {result.objective} is not that of the pair, {value}")
    nan = float("nan")
    return Run(
        found.number,
        method,
        result.status.name,
        found.optimum,
        found.multiplier,
        value,
        residual,
        nan if result.gap is None else result.gap,
        nan if result.relative_gap is None else result.relative_gap,
        nan if result.kkt_residual is None else result.kkt_residual,
        result.n_passes,
        result.seconds,
        found.label,
        result.message,
        right,
    )


def runs(
    count: int, methods: list[str], path: Path, first: int = 0, max_seconds: float = SECONDS
) -> Iterator[Run]:
    """Yield every run, those of the file first; new ones are added to it."""
    done = {(r.number, r.method): r for r in read(path)}
    refused = {(r.number, r.method) for r in done.values() if r.status == "REFUSED"}
    yield from (r for key, r in done.items() if key not in refused)
    columns = [f.name for f in fields(Run)]
    new = not path.exists() or path.stat().st_size == 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns)
        if new:
            writer.writeheader()
        for number in range(first, first + count):
            left = [m for m in methods if (number, m) not in done]
            if not left:
                continue
            found = case(number)
            for method in left:
                one = run(found, method, max_seconds)
                if one is not None:
                    yield one
                kept = one or _refused(found, method)
                writer.writerow(asdict(kept))
                file.flush()


def _refused(found: Case, method: str) -> Run:
    zeros = (0.0,) * 8
    return Run(found.number, method, "REFUSED", found.optimum, *zeros, found.label, "")


def read(path: Path) -> list[Run]:
    """Return the runs of a file, none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [_parsed(row) for row in csv.DictReader(file)]


def _parsed(row: dict[str, str]) -> Run:
    texts = {name: row[name] for name in ("method", "status", "label", "message")}
    numbers = {name: float(text) for name, text in row.items() if name not in texts}
    return Run(**(numbers | texts | {"number": int(row["number"])}))  # type: ignore[arg-type]


def main(arguments: list[str] | None = None) -> int:
    """Run, print the table, and return 1 where an answer claims too much."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--methods", nargs="*", default=None)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--out", type=Path, default=Path("out/bench/general.csv"))
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args(arguments)
    methods = given.methods or ["auto", *(m for m in sa.solvers.names() if m != "auto")]
    began, found = time.perf_counter(), []
    for one in runs(given.problems, methods, given.out, given.first, given.seconds):
        found.append(one)
        if one.wrong or (given.verbose and not one.reached):
            print(
                f"{one.number:4d} {one.method:16s} {one.status:10s} {'; '.join(one.wrong):28s} "
                f"F-F* {one.objective - one.optimum:9.1e} feas {one.feasibility:8.1e} "
                f"gap {one.gap:8.1e} {one.label} [{one.message}]",
                flush=True,
            )
    print(f"\n{'method':18s} {'runs':>5s} {'converged':>9s} {'reached':>8s} {'wrong':>6s} asked")
    for method in methods:
        own = [r for r in found if r.method == method]
        if own:
            good = np.mean([r.reached for r in own])
            converged = np.mean([r.status == "CONVERGED" for r in own])
            asked = f"{SHARE:.0%}" if method in (*PRECISE, *STEADY) else ""
            wrong = sum(bool(r.wrong) for r in own)
            print(f"{method:18s} {len(own):5d} {converged:9.1%} {good:8.1%} {wrong:6d} {asked}")
    print(f"{len(found)} runs, {time.perf_counter() - began:.0f} s")
    return int(any(r.wrong for r in found))


if __name__ == "__main__":
    sys.exit(main())
