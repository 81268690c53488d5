"""Is what a result says about itself true? Thousands of generated problems, any units, any method.

Losses, penalties, operators, weights, intercepts, offsets come from ``covering.py``; columns are
multiplied by powers of two over up to 1e16, data are float32 or float64. Each problem is solved by
``auto`` and by one other method. The truth is the lowest F, with losses summed in extended
precision, over all points known: those of the runs, of a run at a much tighter tolerance, and of
the conic solver in the units of ``equilibrate``, made feasible. Wrong is

- a gap below the distance to the truth by more than 1e-12 (1 + |F|), a negative or NaN gap,
- CONVERGED without meeting the rule, as reported or in truth,
- another status although the reported gap and feasibility meet the rule,
- an objective that is not that of the returned arrays.

    python benchmarks/soundness.py [--count 5000] [--seed 0] [--out out/soundness]
    python benchmarks/soundness.py --near --count 1000 --out out/near
    python benchmarks/soundness.py --powers --count 1000 --out out/powers
    python benchmarks/soundness.py --terms --count 500 --out out/terms

With ``--near`` columns are pairs that differ by 1e-3 to 1e-16 of their size, and penalties see the
sum of a pair, both, or neither; the truth comes from the coordinates (sum, difference), where the
same problem is well scaled. With ``--powers`` dense problems are solved with columns, and the
structure with them, multiplied by two sets of powers of two. No digit changes, so that status,
objective and gap should be equal to the bit; today they are not everywhere. With ``--terms`` data
frames of random factors and numbers are fitted by the structured estimators: any term, loss,
weights, exposure. Wrong is then also a prediction that is not that of the certified coefficients.

Pieces of 20 problems are kept in the folder, and a second call goes on where the first ended;
finished ones of a long run are in ``benchmarks/results/soundness.tar.gz``.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.covering import LEVELS, Case, answer, build, conic_point, meaningless

import stochadmm as sa
from stochadmm.certificates.relative import gap_scale
from stochadmm.certificates.repair import pulled_inside, repaired
from stochadmm.estimators._scores import scored_loss
from stochadmm.forms.equilibrate import equilibrated
from stochadmm.problem import at_strength

TOL, TIGHT, PASSES = 1e-6, 1e-9, 10
SLACK = 1e-12
"""Of a gap, relative to 1 + |F|: rounding of values that are added up in float64."""
ROUNDING = float(np.finfo(np.float32).eps / np.finfo(np.float64).eps)
SPREADS = (1.0, 1.0, 1e4, 1e8, 1e12, 1e16)
PIECE = 20


@dataclass(frozen=True)
class Row:
    """One run and what was wrong with it."""

    number: int
    case: str
    method: str
    spread: float
    dtype: str
    status: str
    gap: float
    distance: float
    objective: float
    wrong: str


def draw(number: int) -> tuple[Case, sa.Problem, str, float]:
    """Return a case, its problem in some units, a method that accepts it, and the spread."""
    rng = np.random.default_rng([7, number])
    forbidden = {(a, f, b) for a, f, b, _ in meaningless()}
    while True:
        levels = {name: str(rng.choice(values)) for name, values in LEVELS.items()}
        if any((levels["loss"], f, levels[f]) in forbidden for f in ("penalty", "weights")):
            continue
        if levels["operator"] != "pylops":
            break
    case = Case(**levels)
    problem = build(case, seed=number)
    spread = float(rng.choice(SPREADS))
    f2 = problem.f2
    steps = rng.uniform(-0.5, 0.5, f2.n_features) * np.log2(spread)
    scale = 2.0 ** np.round(steps)
    dtype = np.float32 if rng.random() < 0.3 else np.float64
    X = f2.X.multiply(scale).tocsr() if f2.storage == "csr" else f2.X * scale
    weight = None if f2.weight is None else f2.weight.astype(np.float64)
    data = sa.FiniteSum(
        f2.loss, X.astype(dtype), f2.y, weight, intercept=f2.intercept, offset=f2.offset
    )
    problem = replace(problem, f2=data)
    names = [name for name in sa.solvers.names() if name != "auto"]
    for name in rng.permutation(names):
        try:
            sa.solvers.get(str(name))().check(problem)
        except (TypeError, ValueError, NotImplementedError):
            continue
        return case, problem, str(name), spread
    return case, problem, "auto", spread


def draw_near(number: int) -> tuple[str, sa.Problem, sa.Problem, float]:
    """Return a problem with nearly dependent columns, and the same in (sum, difference) of each.

    Column 2k + 1 is column 2k plus delta times noise; their difference is exact in float64.
    """
    rng = np.random.default_rng([8, number])
    n, pairs = int(rng.integers(20, 60)), int(rng.integers(1, 3))
    name = str(rng.choice(list(NEAR)))
    loss, targets = NEAR[name]
    delta, unit = 10.0 ** rng.uniform(-16, -3), 10.0 ** float(rng.choice([-9, 0, 0, 9]))
    x, r = rng.standard_normal((2, n, pairs))
    y = targets((x + 0.7 * r).sum(axis=1) + 0.5 * rng.standard_normal(n))
    first, second = unit * x, unit * (x + delta * r)
    apart = second - first
    size = np.abs(apart).max(axis=0)
    size[size == 0] = 1.0
    held, alpha = str(rng.choice(["sums", "nothing", "first", "all"])), 0.05 * unit
    eye = np.eye(pairs)
    # w = v + ..., in which the prediction is first (w1 + w2) + apart w2
    rows = {
        "sums": np.hstack([eye, eye]),
        "nothing": np.zeros((0, 2 * pairs)),
        "first": np.hstack([eye, eye])[:1],
        "all": np.eye(2 * pairs),
    }[held]
    into = np.block([[eye, -np.diag(1 / size)], [0 * eye, np.diag(1 / size)]])
    options: dict[str, Any] = {"intercept": bool(rng.random() < 0.4)}

    def stated(X: np.ndarray, A: np.ndarray) -> sa.Problem:
        if held == "nothing":
            return sa.Problem.linear(loss, X, y, **options)
        A = A.copy()
        A[np.abs(A) < 1e-300] = 0.0
        return sa.Problem.linear(loss, X, y, structure=A, on_structure=sa.L1(alpha), **options)

    given = stated(np.hstack([first, second]), rows)
    scaled = stated(np.hstack([first, apart / size]), rows @ into)
    return f"{name}-{held}-{unit:.0e}", given, scaled, delta


def draw_terms(number: int) -> tuple[Any, Any, np.ndarray, dict[str, Any]]:
    """Return a structured estimator, a frame, targets, and what else its ``fit`` is given."""
    import pandas as pd

    rng, T = np.random.default_rng([10, number]), sa.terms
    n = int(rng.integers(60, 250))
    k, h = int(rng.integers(3, 9)), int(rng.integers(3, 6))
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, k, n),
            "place": rng.choice([f"p{i}" for i in range(h)], n),
            "flag": rng.choice(["no", "yes"], n, p=[0.9, 0.1]),
            "size": 10.0 ** rng.uniform(-3, 3) * rng.standard_normal(n),
        }
    )
    ring = [(f"p{i}", f"p{(i + 1) % h}") for i in range(h)]
    bounds = [None, (-0.1, 0.2), (0, None)][rng.integers(3)]
    weight = float(rng.choice([1.0, 1.0, 0.1, 10.0]))
    ages = (
        T.Ordered(weight=weight),
        T.Ordered(order=2, weight=weight),
        T.Ordered(increasing=True, weight=weight),
        T.Ordered(bins=3, bounds=bounds),
        T.Periodic(bounds=bounds),
        T.Free(levels=True, bounds=bounds),
        T.Sparse(levels=True),
        T.Group("age", levels=True),
        T.Smooth(knots=4, weight=weight),
    )
    places = (T.Nominal(bounds=bounds), T.Map(ring, weight=weight), T.Free(), T.Sparse())
    terms: dict[Any, Any] = {
        "age": ages[rng.integers(len(ages))],
        "place": (*places, T.Group("age"))[rng.integers(len(places) + 1)],
        "flag": (T.Free(), T.Sparse(), T.Nominal())[rng.integers(3)],
        "size": (T.Free(), T.Sparse(), T.Smooth(knots=5), T.Ordered(bins=4))[rng.integers(4)],
    }
    if rng.random() < 0.2:
        terms["age", "place"] = T.Grid()
    loss = (
        "squared",
        "logistic",
        "poisson",
        "gamma",
        sa.Tweedie(float(rng.uniform(1.1, 1.9))),
        sa.NegativeBinomial(float(10.0 ** rng.uniform(-2, 1))),
    )[rng.integers(6)]
    z = 0.2 * rng.standard_normal(k)[frame["age"]] - 0.5 + 0.5 * (frame["flag"] == "yes")
    years = rng.uniform(0.1, 1.0, n)
    mean = np.exp(z.to_numpy()) * years * float(rng.choice([0.1, 1.0, 100.0]))
    if loss in ("squared", "logistic"):
        y = z.to_numpy() + rng.standard_normal(n)
        y = (y > 0).astype(int) if loss == "logistic" else y
    elif loss == "gamma" or isinstance(loss, sa.Tweedie):
        y = mean * rng.gamma(1.0, 1.0, n)
        y = y if loss == "gamma" else y * (rng.random(n) < 0.5)
    else:
        y = rng.poisson(mean * (1.0 if loss == "poisson" else rng.gamma(1.0, 1.0, n)))
    given: dict[str, Any] = {}
    if loss not in ("squared", "logistic") and rng.random() < 0.6:
        given["exposure"] = years
    if rng.random() < 0.3:
        given["sample_weight"] = rng.integers(0, 4, n).astype(float)
    options: dict[str, Any] = {
        "terms": terms,
        "weights": str(rng.choice(["standard", "standard", "equal", "adaptive"])),
        "l2_ratio": float(rng.choice([0.0, 0.0, 0.3])),
        "fit_intercept": bool(rng.random() < 0.9),
        "tol": TOL,
        "max_passes": 10 * PASSES,
    }
    alpha = float(rng.choice([0.0, *10.0 ** rng.uniform(-5, 0, 9)]))
    if loss == "logistic":
        return sa.StructuredClassifier(alpha, **options), frame, y, given
    return sa.StructuredRegressor(alpha, loss=loss, **options), frame, y, given


def judge_terms(number: int, conic: bool) -> list[Row]:
    """Fit a frame through the estimator and say what was wrong with its result."""
    model, frame, y, given = draw_terms(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        r = model.fit(frame, y, **given).result_
        classifies = hasattr(model, "decision_function")
        z = model.decision_function(frame) if classifies else model.predict(frame)
        z = np.log(z) if not classifies and model.loss != "squared" else z
        inner = {"sample_weight": None, "offset": None, **given}
        problem = at_strength(model._prepare(frame, y, **inner).unit, model.alpha)
        best = model.set_params(tol=TIGHT).fit(frame, y, **given).result_
    f2 = problem.f2
    problem = replace(problem, f2=f2.with_loss(scored_loss(f2.loss)))
    points = [answer(problem, found).x2 for found in (r, best)]
    if conic:
        points += _conic(problem)
    # bounds on differences are met up to the rounding of coefficients, which the result tells
    value = true_objective(problem, points[0], units=8 + r.feasibility / np.finfo(float).eps)
    lowest = min(_strict(problem, x) for x in points)
    wrong = _wrong(problem, r, value, lowest)
    if not r.feasibility <= 1e-12:
        wrong = f"{wrong}; outside of its bounds by {r.feasibility:.1e}"
    own = f2.predict(points[0]) - (0.0 if f2.offset is None else f2.offset)
    # means below exp(-700) are zero in float64
    off = float(np.abs(np.maximum(own, -700) - np.maximum(z, -700)).max())
    off /= 1.0 + float(np.abs(own).max())
    if not off <= 1e-9:
        wrong = f"{wrong}; predictions off by {off:.1e}"
    kinds = "-".join(type(term).__name__ for term in model.terms.values())
    case = f"{f2.loss.name}-{kinds}-{model.weights}-{model.alpha:.0e}"
    status, kind = r.status.name, problem.dtype.name
    distance = value - lowest
    return [Row(number, case, "auto", 1.0, kind, status, r.gap, distance, value, wrong)]


NEAR: dict[str, tuple[Any, Any]] = {
    "squared": (sa.Squared(), lambda z: z),
    "huber": (sa.Huber(0.5), lambda z: z),
    "quantile": (sa.Quantile(0.3, 0.1), lambda z: z),
    "logistic": (sa.Logistic(), np.sign),
    "poisson": (sa.Poisson(), lambda z: np.round(np.exp(np.clip(z, -3, 1.5)))),
    "two outputs": (sa.Squared(), lambda z: np.c_[z, z[::-1]]),
    "multinomial": (sa.Multinomial(3), lambda z: np.digitize(z, [-0.5, 0.5])),
}


def judge_near(number: int) -> list[Row]:
    """Solve a problem with nearly dependent columns; a bound above the truth is wrong."""
    case, problem, scaled, delta = draw_near(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        r = sa.minimize(problem, stop=TOL, max_passes=5)
        best = sa.minimize(scaled, stop=TIGHT, max_passes=3 * PASSES)
    # a bound and a point of two problems that differ by rounding of their columns at most
    lowest = min(best.objective, r.objective if r.gap == 0 else best.objective)
    above = (r.objective - r.gap) - lowest
    wrong = f"bound {above:.1e} too high" if above > 1e-9 * (1 + abs(lowest)) else ""
    distance = r.objective - lowest
    return [
        Row(number, case, "auto", delta, "float64", r.status.name, r.gap, distance, lowest, wrong)
    ]


def judge_powers(number: int) -> list[Row]:
    """Solve a problem in two units that differ by powers of two; a difference is wrong."""
    case, problem, _, _ = draw(number)
    f2 = problem.f2
    if problem.h2 is not None or f2.storage == "csr" or problem.A2 is None:
        return []
    try:
        A2: Any = sparse.csr_array(problem.A2.tosparse())
    except (AttributeError, NotImplementedError):
        return []
    rng, found = np.random.default_rng([9, number]), []
    for _ in range(2):
        power = 2.0 ** rng.integers(-10, 11, f2.n_features)
        data = sa.FiniteSum(
            f2.loss,
            f2.X * power.astype(f2.dtype),
            f2.y,
            None if f2.weight is None else f2.weight.astype(np.float64),
            intercept=f2.intercept,
            offset=f2.offset,
        )
        whole = np.append(power, 1.0) if f2.intercept else power
        tied = sa.operators.as_operator(sparse.csr_array(A2 @ sparse.diags_array(whole)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            twin = replace(problem, f2=data, A2=tied)
            found.append(sa.minimize(twin, stop=TOL, max_passes=PASSES))
    one, two = found
    same = (one.status, one.objective, one.gap) == (two.status, two.objective, two.gap)
    wrong = "" if same else f"{one.status.name}/{two.status.name} {one.gap!r} {two.gap!r}"
    gap = np.nan if one.gap is None else one.gap
    off = one.objective - two.objective
    kind = problem.dtype.name
    status = one.status.name
    return [Row(number, str(case), "auto", 1.0, kind, status, gap, off, one.objective, wrong)]


# ---------------------------------------------------------------- the definition, wide


def true_objective(problem: sa.Problem, x2: np.ndarray, units: float | None = None) -> float:
    """Return F at coefficients: predictions and losses in extended precision.

    A point that is outside of a domain by so many units of float64's rounding counts as inside;
    by default float64 coefficients have none, and float32 ones eight of their own.
    """
    f2, wide = problem.f2, np.longdouble
    X = f2.X.toarray() if f2.storage == "csr" else f2.X
    X = X.astype(wide)
    if f2.intercept:
        X = np.concatenate([X, np.ones((len(X), 1), wide)], axis=1)
    z = X @ x2.astype(wide)
    if f2.offset is not None:
        z = z + f2.offset.astype(wide)
    terms = _terms(f2.loss, z, f2.y)
    q = np.ones(len(z), wide) if f2.weight is None else f2.weight.astype(wide)
    if q.ndim == 1:
        q = q * (len(q) / q.sum())
    total = (q * (terms.sum(axis=1) if terms.ndim > q.ndim else terms)).sum() / len(z)
    x = sa.Pair(np.zeros(problem.shape1), x2.astype(np.float64))
    near = problem.feasible(x)
    size = np.abs(near.x1).max(initial=0.0) + np.abs(x.x2).max(initial=0.0)
    if units is None:
        units = 0 if problem.dtype == np.float64 else 8 * ROUNDING
    eps = units * np.finfo(np.float64).eps
    for h, block in ((problem.h1, near.x1), (problem.h2, x.x2)):
        if h is not None:
            inside = h.project(block) if hasattr(h, "project") else block
            rounding = np.abs(inside - block).max(initial=0.0) <= eps * size
            total += h.value(inside if rounding else block)
    return float(total)


def _terms(loss: Any, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    one = np.longdouble(1)
    if isinstance(loss, sa.Multinomial):
        top = z.max(axis=1, keepdims=True)
        total = np.log(np.exp(z - top).sum(axis=1)) + top[:, 0]
        return total - z[np.arange(len(z)), y]
    y = y.astype(np.longdouble)
    if isinstance(loss, sa.Squared):
        return one * loss.curvature_bound / 2 * (z - y) ** 2
    if isinstance(loss, sa.Huber):
        size = np.abs(z - y)
        return np.where(
            size <= loss.delta, size**2 / 2, loss.delta * (size - one * loss.delta / 2)
        )
    if isinstance(loss, sa.Logistic):
        return np.logaddexp(0 * z, -y * z)
    if isinstance(loss, sa.SquaredHinge):
        return np.maximum(1 - y * z, 0) ** 2 / 2
    if isinstance(loss, sa.Poisson):
        inner = np.minimum(z, one * loss.max_prediction)
        beyond = z - inner
        return np.exp(inner) * (1 + beyond + beyond**2 / 2) - y * z
    if isinstance(loss, sa.Gamma):
        inner = np.maximum(z, np.log(y / loss.max_ratio))
        beyond = inner - z
        return z + y * np.exp(-inner) * (1 + beyond + beyond**2 / 2)
    if isinstance(loss, sa.NegativeBinomial):
        theta = one * loss.dispersion
        return (y + 1 / theta) * np.logaddexp(0 * z, z + np.log(theta)) - y * z
    if isinstance(loss, sa.Tweedie):  # as it is inside its range
        p = one * loss.power
        return y * np.exp((1 - p) * z) / (p - 1) + np.exp((2 - p) * z) / (2 - p)
    r = y - z  # the quantile loss, smoothed by a parabola between its two derivatives
    s, tau = one * loss.smoothing, one * loss.level
    u = np.clip(r / s, tau - 1, tau)
    return u * r - s * u**2 / 2


# ---------------------------------------------------------------- judging


def judge(number: int, conic: bool) -> list[Row]:
    """Solve one problem by two methods and say what was wrong."""
    case, problem, other, spread = draw(number)
    results = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for method in dict.fromkeys(("auto", other)):
            results[method] = sa.minimize(problem, method, stop=TOL, max_passes=PASSES)
        known = list(results.values())
        reached = results["auto"].relative_gap
        if reached is None or not reached <= TIGHT:  # else the truth is known well enough
            known.append(sa.minimize(problem, stop=TIGHT, max_passes=3 * PASSES))
    points = [answer(problem, r).x2 for r in known]
    if conic:
        points += _conic(problem)
    values = [true_objective(problem, x) for x in points]
    lowest = min((_strict(problem, x) for x in points), default=np.inf)
    return [
        Row(
            number,
            str(case),
            method,
            spread,
            problem.dtype.name,
            r.status.name,
            np.nan if r.gap is None else float(r.gap),
            values[k] - lowest,
            values[k],
            _wrong(problem, r, values[k], lowest),
        )
        for k, (method, r) in enumerate(results.items())
    ]


def _strict(problem: sa.Problem, x2: np.ndarray) -> float:
    """Return F at the feasible point made of coefficients, infinite where none is found.

    float32 coefficients may be outside of a domain by their rounding and below the optimum.
    """
    inside = repaired(problem, sa.Pair(np.zeros(problem.shape1), x2.astype(np.float64)))
    if inside is None:
        return np.inf
    pulled = pulled_inside(problem, inside.x2)
    return true_objective(problem, inside.x2 if pulled is None else pulled.x2, units=8)


def _conic(problem: sa.Problem) -> list[np.ndarray]:
    units = equilibrated(problem)
    try:
        x2 = conic_point(problem if units is None else units.problem)
    except Exception:  # it gives up on some: the other points are known all the same
        return []
    if units is not None:
        x2 = units.back(sa.Pair(np.zeros(units.problem.shape1), x2)).x2
    point = problem.feasible(sa.Pair(np.zeros(problem.shape1), x2))
    return [point.x2]


def _wrong(problem: sa.Problem, r: sa.Result, value: float, lowest: float) -> str:
    found = []
    if r.gap is None:
        met = r.kkt_residual is not None and r.kkt_residual <= TOL
        return "" if (r.status.name == "CONVERGED") == met else "verdict on the KKT residual"
    size = 1 + abs(value)
    if not r.gap >= 0 or not r.relative_gap >= 0:
        found.append("negative or NaN gap")
    if np.isfinite(value) and abs(r.objective - value) > 100 * SLACK * size:
        found.append(f"objective off by {r.objective - value:.1e}")
    if np.isfinite(value) and not r.gap >= value - lowest - SLACK * size:
        found.append(f"gap {r.gap:.1e} below the distance {value - lowest:.1e}")
    met = bool(r.relative_gap <= TOL)
    converged = r.status.name == "CONVERGED"
    scale = gap_scale(problem, value, r.objective - r.gap)
    if converged and not (met and value - lowest <= TOL * scale * (1 + 1e-6) + SLACK * size):
        found.append("CONVERGED and is not")
    if not converged and met and r.feasibility <= TOL:
        found.append(f"{r.status.name} and is CONVERGED")
    return "; ".join(found)


# ---------------------------------------------------------------- pieces and summary


def rows_of(
    folder: Path, cases: int, judged: Callable[[int], list[Row]], begin: int = 0
) -> Iterator[Row]:
    """Yield the rows of all pieces from a case on, kept or made now."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f.name for f in fields(Row)]
    for first in range(begin // PIECE * PIECE, cases, PIECE):
        path = folder / f"{first:05d}.csv"
        if not path.exists():
            made = []
            for number in range(first, min(first + PIECE, cases)):
                try:
                    made += judged(number)
                except Exception as error:  # a crash is a fact to report
                    made.append(
                        Row(
                            number,
                            "",
                            "",
                            0.0,
                            "",
                            "ERROR",
                            np.nan,
                            np.nan,
                            np.nan,
                            f"{type(error).__name__}: {error}",
                        )
                    )
            part = path.with_suffix(".part")
            with part.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, names)
                writer.writeheader()
                writer.writerows(asdict(row) for row in made)
            part.replace(path)
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                kinds = {f.name: f.type for f in fields(Row)}
                convert = {"int": int, "float": float, "str": str}
                yield Row(**{k: convert[str(kinds[k])](v) for k, v in row.items()})


def main() -> int:
    """Run what is missing and print the counts; the exit code says whether all is sound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=5000, help="problems")
    parser.add_argument("--seed", type=int, default=0, help="number of the first one")
    parser.add_argument("--near", action="store_true", help="nearly dependent columns")
    parser.add_argument("--powers", action="store_true", help="columns times powers of two")
    parser.add_argument("--terms", action="store_true", help="terms of data frames")
    parser.add_argument("--conic-every", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("out/soundness"))
    options = parser.parse_args()
    began, counted, bad, converged = time.perf_counter(), 0, 0, 0
    no_bound = 0
    judged = judge_near if options.near else judge_powers
    if not (options.near or options.powers):
        plain = judge_terms if options.terms else judge

        def judged(number: int) -> list[Row]:
            return plain(number, number % options.conic_every == 0)

    last = options.seed + options.count
    for row in rows_of(options.out, last, judged, options.seed):
        counted += 1
        converged += row.status == "CONVERGED"
        no_bound += row.gap == np.inf
        if row.wrong:
            bad += 1
            print(
                f"{row.number:5d} {row.method:15} {row.dtype} {row.spread:.0e} {row.status:10} "
                f"{row.wrong}   {row.case}",
                flush=True,
            )
    print(
        f"{counted} runs of {options.count} problems: {bad} wrong, "
        f"{converged} converged, {no_bound} without a bound; {time.perf_counter() - began:.0f} s"
    )
    return 0 if bad == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
