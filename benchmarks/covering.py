"""Every pair of loss, penalty, operator, weights, intercept and storage, on tiny problems.

Each problem is solved by ``auto``, certified again from the answer alone, and compared with a
conic solver (CVXPY, Clarabel) that is given the same problem in its own words. Printed: what each
problem reached, then counts and the worst numbers, then the pairs without a meaning.

    python benchmarks/covering.py [--quiet] [--tol 1e-7]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import stochadmm as sa
from stochadmm.operators import Composed, Scaled

N_ROWS, N_COLUMNS, N_OUTPUTS = 45, 6, 3
CERTIFIED, AGREES = 1e-6, 1e-5

# ---------------------------------------------------------------- the table


@dataclass(frozen=True)
class Case:
    """One row of the table: a name from each list."""

    loss: str
    penalty: str
    operator: str
    weights: str
    intercept: str
    storage: str

    def __str__(self) -> str:
        return "-".join(getattr(self, f.name) for f in fields(self))


LEVELS: dict[str, tuple[str, ...]] = {
    "loss": (
        "squared",
        "unhalved",
        "huber",
        "logistic",
        "hinge",
        "poisson",
        "quantile",
        "multinomial",
        "squared-outputs",
        "logistic-outputs",
        "huber-outputs",
    ),
    "penalty": (
        "l1",
        "weighted-l1",
        "elastic-net",
        "ridge",
        "group-l2",
        "weighted-group-l2",
        "rows-l21",
        "nuclear",
        "non-negative",
        "box",
        "ball",
        "zero",
        "tv",
        "separable",
        "stacked",
    ),
    "operator": (
        "coefficients",
        "identity",
        "dense",
        "csr",
        "incidence",
        "differences",
        "second-differences",
        "grid",
        "selection",
        "scaled",
        "composed",
        "vstack",
        "linear-operator",
        "pylops",
        "with-h2",
        "shifted",
    ),
    "weights": ("none", "rows", "some-zero", "entries"),
    "intercept": ("no", "yes", "offset"),
    "storage": ("dense", "csr"),
}
OUTPUTS = ("multinomial", "squared-outputs", "logistic-outputs", "huber-outputs")
SINGLE = tuple(name for name in LEVELS["loss"] if name not in OUTPUTS)
MEANINGLESS: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("penalty", "nuclear"): (SINGLE, "a vector has no singular values"),
    ("weights", "entries"): ((*SINGLE, "multinomial"), "a row of these losses has one target"),
}
"""(factor, level): losses it cannot go with, and why."""


def meaningless() -> Iterator[tuple[str, str, str, str]]:
    """Yield (loss, factor, level, reason) of the pairs that make no sense."""
    for (factor, level), (losses, reason) in MEANINGLESS.items():
        for loss in losses:
            yield loss, factor, level, reason


def table(seed: int = 0, candidates: int = 20) -> list[Case]:
    """Return cases that contain every meaningful pair of levels, by greedy choice."""
    rng = np.random.default_rng(seed)
    names = list(LEVELS)
    forbidden = {frozenset({("loss", a), (f, b)}) for a, f, b, _ in meaningless()}
    missing = {
        frozenset({(f, a), (g, b)})
        for f, g in itertools.combinations(names, 2)
        for a in LEVELS[f]
        for b in LEVELS[g]
    } - forbidden
    cases = []
    while missing:
        first = min(missing, key=sorted)  # the choice must not depend on the order of a set
        best, gain = None, -1
        for _ in range(candidates):
            chosen = dict(first)
            for name in rng.permutation([n for n in names if n not in chosen]):
                levels = [
                    level
                    for level in rng.permutation(LEVELS[name])
                    if not {frozenset({(name, level), old}) for old in chosen.items()} & forbidden
                ]
                if not levels:
                    break
                new = [
                    sum(frozenset({(name, level), old}) in missing for old in chosen.items())
                    for level in levels
                ]
                chosen[str(name)] = str(levels[int(np.argmax(new))])
            else:
                found = _pairs(chosen) & missing
                if len(found) > gain:
                    best, gain = chosen, len(found)
        assert best is not None
        missing -= _pairs(best)
        cases.append(Case(**best))
    return cases


def _pairs(chosen: dict[str, str]) -> set[frozenset[tuple[str, str]]]:
    return {frozenset(pair) for pair in itertools.combinations(chosen.items(), 2)}


# ---------------------------------------------------------------- the problems


def build(case: Case, seed: int = 0) -> sa.Problem:
    """Return the problem of a case: noisy data of a model that its penalty allows."""
    rng = np.random.default_rng(
        [seed, *(LEVELS[f.name].index(getattr(case, f.name)) for f in fields(case))]
    )
    X = rng.standard_normal((N_ROWS, N_COLUMNS))
    if case.storage == "csr":
        X = np.where(rng.random(X.shape) < 0.6, X, 0.0)
    loss, y = _targets(case.loss, X, rng)
    data: Any = sparse.csr_array(X) if case.storage == "csr" else X
    shape = (N_ROWS, N_OUTPUTS) if case.loss in OUTPUTS else (N_ROWS,)
    options: dict[str, Any] = {
        "intercept": case.intercept == "yes",
        "offset": 0.3 * rng.standard_normal(shape) if case.intercept == "offset" else None,
        "sample_weight": _weights(case.weights, rng),
    }
    if case.operator == "coefficients":
        h2 = _penalty(case.penalty, N_COLUMNS, rng)
        return sa.Problem.linear(loss, data, y, on_coefficients=h2, **options)
    A = _operator(case.operator, rng)
    h1 = _penalty(case.penalty, A.shape[0], rng)
    if case.operator == "with-h2":
        options["on_coefficients"] = sa.L1(0.02)
    problem = sa.Problem.linear(loss, data, y, structure=A, on_structure=h1, **options)
    if case.operator != "shifted":
        return problem
    p = A.shape[0]
    b = rng.uniform(-0.1, 0.4, (p, *problem.shape2[1:]))
    return sa.Problem(problem.f2, h1=h1, A1=sa.Identity(p, scale=-2.0), A2=problem.A2, b=-b)


def _targets(name: str, X: np.ndarray, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    n = len(X)
    z = X @ np.repeat(rng.standard_normal(N_COLUMNS // 2), 2)
    Z = np.outer(z, [1.0, -1.0, 0.5]) + rng.standard_normal((n, N_OUTPUTS))
    signs = np.where(z + 1.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    if name == "squared":
        return sa.Squared(), z + rng.standard_normal(n)
    if name == "unhalved":
        return sa.Squared(half=False), z + rng.standard_normal(n)
    if name == "huber":
        return sa.Huber(1.0), z + rng.standard_t(3, n)
    if name == "logistic":
        return sa.Logistic(), signs
    if name == "hinge":
        return sa.SquaredHinge(), signs
    if name == "poisson":
        y = rng.poisson(np.exp(np.clip(0.4 * z, -2.0, 1.5))).astype(float)
        return sa.Poisson.for_targets(y, margin=2.0), y
    if name == "quantile":
        return sa.Quantile(0.3, smoothing=0.5), z + rng.standard_normal(n)
    if name == "multinomial":
        return sa.Multinomial(N_OUTPUTS), (Z + rng.gumbel(size=Z.shape)).argmax(axis=1)
    if name == "squared-outputs":
        return sa.Squared(), Z
    if name == "huber-outputs":
        return sa.Huber(0.8), Z
    return sa.Logistic(), np.where(Z + rng.standard_normal(Z.shape) > 0, 1.0, -1.0)


def _weights(name: str, rng: np.random.Generator) -> np.ndarray | None:
    if name == "none":
        return None
    if name == "entries":
        return np.where(
            rng.random((N_ROWS, N_OUTPUTS)) < 0.2, 0.0, rng.uniform(0.5, 2.0, (N_ROWS, N_OUTPUTS))
        )
    weight = rng.uniform(0.5, 2.0, N_ROWS)
    return np.where(rng.random(N_ROWS) < 0.2, 0.0, weight) if name == "some-zero" else weight


def _penalty(name: str, p: int, rng: np.random.Generator) -> Any:
    weights = rng.uniform(0.5, 1.5, p)
    weights[0] = 0.0  # free
    first = p // 2
    made: dict[str, Any] = {
        "l1": lambda: sa.L1(0.08),
        "weighted-l1": lambda: sa.L1(0.08, weights=weights),
        "elastic-net": lambda: sa.ElasticNet(0.1, 0.6),
        "ridge": lambda: sa.Ridge(0.2),
        "group-l2": lambda: sa.GroupL2.from_labels(0.1, np.arange(p) % 2),
        "weighted-group-l2": lambda: sa.GroupL2(0.1, [first, p - first], weights=[1.5, 0.5]),
        "rows-l21": lambda: sa.RowsL21(0.1),
        "nuclear": lambda: sa.Nuclear(0.1),
        "non-negative": sa.NonNegative,
        "box": lambda: sa.Box(-0.4, 0.6),
        "ball": lambda: sa.L2Ball(1.0),
        "zero": sa.Zero,
        "tv": lambda: sa.TotalVariation1D(0.08),
        "separable": lambda: sa.Separable(l1=0.05, l2=0.1, upper=0.7),
        "stacked": lambda: sa.Stacked(
            [(sa.L1(0.1), first), (sa.GroupL2(0.1, [p - first]), p - first)]
        ),
    }
    return made[name]()


EDGES = np.array([[0, 1], [1, 2], [0, 3], [3, 4], [4, 5], [2, 5]])


def _operator(name: str, rng: np.random.Generator) -> Any:
    d = N_COLUMNS
    if name in ("identity", "with-h2"):
        return sa.Identity(d) if name == "identity" else sa.Incidence(EDGES, d)
    if name in ("dense", "linear-operator"):
        matrix = rng.standard_normal((d - 1, d))
        return sa.as_operator(matrix if name == "dense" else aslinearoperator(matrix))
    if name == "csr":
        matrix = np.where(rng.random((d, d)) < 0.4, rng.standard_normal((d, d)), 0.0)
        return sa.as_operator(sparse.csr_array(matrix + np.eye(d)))
    if name == "incidence":
        return sa.Incidence(EDGES, d, weights=rng.uniform(0.5, 2.0, 6), signs=[1, 1, -1, 1, 1, 1])
    if name in ("differences", "shifted"):
        return sa.Differences(d)
    if name == "second-differences":
        return sa.Differences(d, order=2)
    if name == "grid":
        return sa.GridDifferences((2, d // 2))
    if name == "selection":
        return sa.Selection([[0, 1, 2], [2, 3], [3, 4, 5]], d)
    if name == "scaled":
        return Scaled(sa.Differences(d), -1.5)
    if name == "composed":
        return Composed(sa.Differences(d - 1), sa.Differences(d))
    if name == "vstack":
        return sa.VStack([sa.Differences(d), sa.Identity(d)])
    import pylops

    return sa.as_operator(pylops.FirstDerivative(d, kind="backward", edge=False))


# ---------------------------------------------------------------- the conic solver's words


def conic_optimum(problem: sa.Problem) -> float:
    """Return the optimal value according to CVXPY and Clarabel, stated from the raw data."""
    return _conic_solved(problem)[0]


def conic_point(problem: sa.Problem) -> np.ndarray:
    """Return the solution according to CVXPY and Clarabel; it is feasible up to their accuracy."""
    return _conic_solved(problem)[1]


def _conic_solved(problem: sa.Problem) -> tuple[float, np.ndarray]:
    import cvxpy as cp

    f2 = problem.f2
    x = cp.Variable(problem.shape2)
    X = f2.X.toarray() if sparse.issparse(f2.X) else f2.X
    if problem.intercept:
        X = np.column_stack([X, np.ones(len(X))])
    z = X @ x if f2.offset is None else X @ x + f2.offset
    terms, extra, limits = _conic_loss(cp, f2.loss, z, f2.y)
    q = np.ones(f2.n_terms) if f2.weight is None else f2.weight
    if terms.ndim == 2 and q.ndim == 1:
        q = np.repeat(q[:, None], terms.shape[1], axis=1)
    total = cp.sum(cp.multiply(q, terms)) / f2.n_terms
    if extra is not None:
        total = total + extra
    if problem.h1 is not None:
        A2 = problem.A2.matvec(np.eye(problem.shape2[0]))
        x1 = (A2 @ x - (0 if problem.b is None else problem.b)) / -problem.A1.scale
        value, more = _conic_penalty(cp, problem.h1, x1)
        total, limits = total + value, limits + more
    if problem.h2 is not None:
        value, more = _conic_penalty(cp, problem.h2, x)
        total, limits = total + value, limits + more
    model = cp.Problem(cp.Minimize(total), limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the status below says the same
        model.solve(solver=cp.CLARABEL)
    if model.status != cp.OPTIMAL:
        raise RuntimeError(f"the conic solver says {model.status}")
    if isinstance(f2.loss, sa.Poisson) and (X @ x.value).max() > f2.loss.max_prediction:
        raise RuntimeError("predictions leave the range where the Poisson loss is an exponential")
    return float(model.value), np.asarray(x.value)


def _conic_loss(cp: Any, loss: Any, z: Any, y: np.ndarray) -> tuple[Any, Any, list[Any]]:
    """Return the terms of the rows, what is added to their mean, and constraints."""
    if isinstance(loss, sa.Squared):
        return loss.curvature_bound / 2 * cp.square(z - y), None, []
    if isinstance(loss, sa.Huber):
        return 0.5 * cp.huber(z - y, loss.delta), None, []
    if isinstance(loss, sa.Logistic):
        return cp.logistic(cp.multiply(-y, z)), None, []
    if isinstance(loss, sa.SquaredHinge):
        return 0.5 * cp.square(cp.pos(1 - cp.multiply(y, z))), None, []
    if isinstance(loss, sa.Poisson):
        return cp.exp(z) - cp.multiply(y, z), None, []
    if isinstance(loss, sa.Gamma):
        return z + cp.multiply(y, cp.exp(-z)), None, []
    if isinstance(loss, sa.NegativeBinomial):
        k = y + 1 / loss.dispersion
        return (
            cp.multiply(k, cp.logistic(z + np.log(loss.dispersion))) - cp.multiply(y, z),
            None,
            [],
        )
    if isinstance(loss, sa.Tweedie):
        q, r = 2 - loss.power, loss.power - 1
        return cp.multiply(y / r, cp.exp(-r * z)) + cp.exp(q * z) / q, None, []
    if isinstance(loss, sa.Quantile):  # the envelope is a minimum over a shift
        shift = cp.Variable(y.shape)
        r = y - z - shift
        pinball = cp.maximum(loss.level * r, (loss.level - 1) * r)
        return pinball + cp.square(shift) / (2 * loss.smoothing), None, []
    indicator = np.eye(z.shape[1])[y]
    return cp.log_sum_exp(z, axis=1) - cp.sum(cp.multiply(indicator, z), axis=1), None, []


def _conic_penalty(cp: Any, h: Any, x: Any) -> tuple[Any, list[Any]]:
    """Return the value of a penalty and its constraints."""
    if isinstance(h, sa.Stacked):
        value, limits, start = 0.0, [], 0
        for part, size in h.parts:
            own, more = _conic_penalty(cp, part, x[start : start + size])
            value, limits, start = value + own, limits + more, start + size
        return value, limits
    if isinstance(h, sa.Nuclear):
        return h.alpha * cp.normNuc(x), []
    if isinstance(h, sa.L2Ball):
        return 0.0, [cp.norm(cp.vec(x, order="C"), 2) <= h.radius]
    if isinstance(h, sa.TotalVariation1D):
        return h.alpha * cp.sum(cp.abs(x[1:] - x[:-1])), []
    if isinstance(h, (sa.GroupL2, sa.RowsL21)):
        rows = np.arange(x.shape[0])
        order = rows if getattr(h, "order", None) is None else h.order
        sizes = np.ones(len(rows), int) if isinstance(h, sa.RowsL21) else h.sizes
        weights = np.ones(len(sizes)) if h.weights is None else h.weights
        groups = np.split(np.asarray(order), np.cumsum(sizes)[:-1])
        norms = [
            w * cp.norm(cp.vec(x[g], order="C"), 2) for g, w in zip(groups, weights, strict=True)
        ]
        return h.alpha * sum(norms), []
    (term,) = h.terms(x.shape[0])
    l1, l2, lo, hi = (
        v[:, None] if x.ndim == 2 else v for v in (term.l1, term.l2, term.lo, term.hi)
    )
    value = cp.sum(cp.multiply(l1 + np.zeros(x.shape), cp.abs(x)))
    value = value + 0.5 * cp.sum(cp.multiply(l2 + np.zeros(x.shape), cp.square(x)))
    limits = []
    if np.isfinite(lo).any():
        limits.append(x >= np.maximum(lo, -1e3) + np.zeros(x.shape))
    if np.isfinite(hi).any():
        limits.append(x <= np.minimum(hi, 1e3) + np.zeros(x.shape))
    return value, limits


# ---------------------------------------------------------------- solving and judging


@dataclass(frozen=True)
class Outcome:
    """What a problem reached."""

    status: str
    route: str
    certified: float
    """Relative gap of the returned coefficients, from ``certify`` alone; infinite without one."""
    passes: float
    seconds: float
    difference: float | None = None
    """Relative difference to the conic optimum, None when it was not asked for."""
    note: str = ""

    @property
    def good(self) -> bool:
        """Whether certificate and conic solver agree with the answer."""
        return self.certified <= CERTIFIED and (
            self.difference is None or self.difference <= AGREES
        )


def answer(problem: sa.Problem, result: sa.Result) -> sa.Pair:
    """Return the coefficients and the intercept as a point."""
    x2 = result.coef
    if problem.intercept:
        x2 = np.concatenate([x2, np.reshape(result.intercept, (1, *x2.shape[1:]))])
    return sa.Pair(np.zeros(problem.shape1), x2)


def objective(problem: sa.Problem, x: sa.Pair) -> float:
    """Return F at coefficients, from the definition; x1 may be moved by rounding into a domain."""
    value = float(problem.f2.value(x.x2))
    near = problem.feasible(x)
    size = np.abs(near.x1).max(initial=0.0) + np.abs(x.x2).max(initial=0.0)
    for h, block in ((problem.h1, near.x1), (problem.h2, x.x2)):
        if h is not None:
            inside = h.project(block)
            rounding = np.abs(inside - block).max(initial=0.0) <= 1e-14 * size
            value += float(h.value(inside if rounding else block))
    return value


def certified_gap(problem: sa.Problem, result: sa.Result) -> float:
    """Return the relative gap of the returned coefficients, computed outside the solver."""
    point = answer(problem, result)
    found = [sa.certify(problem, point, result.dual, strength=s) for s in ("scaled", "corrected")]
    value = objective(problem, point)
    bound = max((c.bound for c in found if c.gap is not None), default=-np.inf)
    scale = max(abs(value), 1e-3 * abs(problem.objective_at_zero))
    gap = max(value - bound, 0.0)
    if not np.isfinite(gap):
        return np.inf
    return gap / scale if scale > 0 else (0.0 if gap == 0 else np.inf)


def relative_difference(problem: sa.Problem, value: float, optimum: float) -> float:
    """Return the difference of two objectives relative to the larger scale of the problem."""
    return abs(value - optimum) / max(abs(optimum), 1e-3 * abs(problem.objective_at_zero), 1e-300)


def solve(
    case: Case,
    tol: float = 1e-7,
    conic: bool = True,
    solver: Any = "auto",
    max_seconds: float | None = None,
) -> Outcome:
    """Solve a case and judge the answer."""
    problem = build(case)
    began = time.perf_counter()
    result = sa.minimize(
        problem, solver, stop=sa.Gap(tol), max_passes=100, max_seconds=max_seconds
    )
    seconds = time.perf_counter() - began
    difference, note = None, ""
    if conic:
        try:
            value = objective(problem, answer(problem, result))
            difference = relative_difference(problem, value, conic_optimum(problem))
        except Exception as error:  # a conic solver that gives up is a fact to report
            note = f"conic: {error}"
    return Outcome(
        result.status.name,
        str(result.info.get("route", "")),
        certified_gap(problem, result),
        result.n_passes,
        seconds,
        difference,
        note,
    )


def main() -> int:
    """Print the table and the counts; the exit code says whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quiet", action="store_true", help="only rows that fail, and the counts")
    parser.add_argument("--tol", type=float, default=1e-7, help="relative gap asked for")
    options = parser.parse_args()
    outcomes = []
    began = time.perf_counter()
    for case in table():
        try:
            outcome = solve(case, options.tol, max_seconds=5.0)
        except Exception as error:  # the table goes on, and the row counts as a failure
            outcome = Outcome("ERROR", "", np.inf, 0.0, 0.0, None, repr(error))
        outcomes.append(outcome)
        if not options.quiet or not outcome.good:
            difference = "-" if outcome.difference is None else f"{outcome.difference:.1e}"
            print(
                f"{'ok  ' if outcome.good else 'FAIL'} {outcome.status:10} {outcome.route:9} "
                f"gap {outcome.certified:8.1e}  conic {difference:8} {outcome.passes:6.0f} passes "
                f"{outcome.seconds:6.2f} s  {case} {outcome.note}",
                flush=True,
            )
    compared = [o.difference for o in outcomes if o.difference is not None]
    print(f"\n{len(outcomes)} problems, {sum(o.good for o in outcomes)} good")
    print(
        f"worst certified relative gap {max(o.certified for o in outcomes):.1e}, "
        f"asked for {CERTIFIED:g}"
    )
    print(f"{len(compared)} compared with Clarabel, worst relative difference {max(compared):.1e}")
    print(f"{time.perf_counter() - began:.0f} s; pairs without a meaning:")
    for loss, factor, level, reason in meaningless():
        print(f"    {loss} with {factor} {level}: {reason}")
    return 0 if all(o.good for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
