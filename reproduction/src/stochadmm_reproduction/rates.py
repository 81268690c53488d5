"""Table 1: measured exponents of convergence beside those of theory, for its nine methods.

The error after K iterations is |F - F*| at the feasible point made from x2, plus
|A1 x1 + A2 x2 - b| at the pair; p is the least-squares slope of error ~ K^-p over a range of K,
with its 95 percent interval. Three problems:

*slow*: h1 is the distance to a sum of lines, one in each of N planes, h2 ten times the distance to
the first axes, f2 = 0; the i-th line has the angle theta_i to its axis, with cos(theta_i) =
sqrt(i / (i + 1)). ADMM contracts plane i by cos(theta_i) only, N is far above K, and the start has
coordinates that decay like i^-0.55: the last iterate of ADMM is as slow as theory allows. Without
f2 there is no noise, and since A2 = I the linearized steps of SVRG- and SAG-ADMM are the exact
ones of ADMM.

*random*: logistic regressions with fused coefficients, one per seed.

*noisy*, for methods whose average has the rate 1/sqrt(K): logistic regressions on labels that no
column explains, coefficients fused and not negative. All of them are zero at the optimum, so that
F grows linearly from it while iterates scatter to one side only: the average is no better than
they are. On *random* it is, about 1/K.

A worst-case rate may be beaten on an instance, so that only exponents below theory disagree.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from stochadmm import FiniteSum, Gap, Pair, Problem, iterate, minimize, solvers
from stochadmm.losses import Logistic, Squared
from stochadmm.operators import Differences, Identity
from stochadmm.penalties import L1, NonNegative
from stochadmm.solvers import Unsuitable

from ._plain import Array
from .pieces import Watch
from .store import Store, fingerprint
from .tables import Table
from .verdicts import FAILS, HOLDS, OPEN, Claim, Evidence, claim


@dataclass(frozen=True)
class RateOptions:
    """Where exponents are fitted, and when they agree with theory."""

    step: int = 10
    """Iterations of an epoch here, and the grain of K."""
    first: int = 30
    """Smallest K on the slow problem; ten times that on the random one, whose start is noisier."""
    last: int = 3000
    """Largest K on the slow problem, ten times that on the random one."""
    quick: int = 300
    """The same in the quick form."""
    points: int = 13
    """Values of K, evenly spread in powers; seven left the interval of LADM-NE undecided."""
    seeds: int = 5
    room: float = 0.15
    """What a finite range of K may take of an exponent."""
    rounding: float = 1e-12
    """Errors below are left out."""


OPTIONS = RateOptions()


@dataclass(frozen=True)
class Row:
    """A row of Table 1: the rate in words, of which point, its exponent, whether it is tight."""

    label: str
    rate: str
    point: str = "last"
    exponent: float | None = None
    tight: bool = False
    more: dict[str, Any] = field(default_factory=dict)
    """Parameters of the method here."""
    costly: bool = False
    """Whether K ends earlier."""


ROWS = {
    "linearized-admm": Row("ADMM", "tight O(1/√K)", "last", 0.5, True),
    "ladm-ne": Row("LADM-NE", "optimal O(1/K)", "last", 1.0),
    "stoc-admm": Row("STOC-ADMM", "O(1/√K)", "average", 0.5),
    "opg-admm": Row("OPG-ADMM", "O(1/√K)", "average", 0.5),
    "opt-sadmm": Row("OPT-ADMM", "O(1/√K)", "average", 0.5),
    "sdca-admm": Row("SDCA-ADMM", "unknown", costly=True),
    "sag-admm": Row("SAG-ADMM", "tight O(1/√K)", "last", 0.5, True),
    "svrg-admm": Row("SVRG-ADMM", "tight O(1/√K)", "last", 0.5, True),
    "acc-sadmm": Row(
        "ACC-SADMM",
        "optimal O(1/K)",
        "last",
        1.0,
        more={"step": "paper", "metric": "none", "restart": "never"},
    ),
}
"""The nine rows. ADMM by linearized steps: on the slow problem they are the exact ones."""


# ---------------------------------------------------------------- the slow problem


@dataclass(frozen=True)
class Distance:
    """scale * distance to the span of one line in each plane; planes are consecutive pairs."""

    capabilities: ClassVar[frozenset[str]] = frozenset()

    scale: float
    lines: Array
    """Unit vectors, shape (N, 2)."""

    def away(self, x: Array) -> Array:
        """Return what is orthogonal to the lines."""
        planes = x.reshape(-1, 2)
        along = np.sum(planes * self.lines, axis=1, keepdims=True)
        rest: Array = (planes - along * self.lines).ravel()
        return rest

    def value(self, x: Array) -> float:
        """Return the distance of x, times the scale."""
        return self.scale * float(np.linalg.norm(self.away(x)))

    def prox(self, v: Array, step: float, out: Array | None = None) -> Array:
        """Return v moved towards the lines."""
        away = self.away(v)
        length = float(np.linalg.norm(away))
        moved: Array = v - away * min(1.0, step * self.scale / max(length, 1e-300))
        if out is not None:
            out[...] = moved
        return moved


KINDS = ("slow", "random", "noisy")
Instance = tuple[Problem, tuple[Pair, Array] | None, float]
"""A problem, where it begins, and its optimal value."""


def slow(n_planes: int) -> Instance:
    """Return the slow problem."""
    i = np.arange(1, n_planes + 1)
    cos = np.sqrt(i / (i + 1))
    slanted = np.stack([cos, np.sqrt(1 - cos**2)], axis=1)
    axes = np.stack([np.ones(n_planes), np.zeros(n_planes)], axis=1)
    d = 2 * n_planes
    nothing = FiniteSum(Squared(), np.zeros((4, d)), np.zeros(4))
    h1: Any = Distance(1.0, slanted)
    h2: Any = Distance(10.0, axes)
    problem = Problem(nothing, h1=h1, h2=h2, A1=Identity(d, -1.0), A2=Identity(d))
    x = np.stack([i**-0.55, np.zeros(n_planes)], axis=1).ravel()
    return problem, (Pair(x, x), np.zeros(d)), 0.0


def random(seed: int) -> Instance:
    """Return a random problem, its optimum certified."""
    rng = np.random.default_rng(seed)
    n, d = 400, 40
    X = rng.standard_normal((n, d))
    X /= np.sqrt(np.square(X).sum(axis=1).max())
    coef = np.repeat(rng.standard_normal(10), 4) * 5
    y = np.where(X @ coef + rng.standard_normal(n) > 0, 1.0, -1.0)
    problem = Problem.linear(Logistic(), X, y, structure=Differences(d), on_structure=L1(1e-3))
    best = minimize(problem, stop=Gap(1e-12), max_passes=400)
    return problem, None, best.objective


def noisy(seed: int) -> Instance:
    """Return a problem with labels of pure noise, all of whose coefficients are zero."""
    rng = np.random.default_rng(seed)
    n, d = 4000, 8
    X = np.where(rng.random((n, d)) < 0.5, 0.0, 1.0)
    y = np.where(np.arange(n) < 0.7 * n, -1.0, 1.0)
    problem = Problem.linear(
        Logistic(),
        X,
        y,
        structure=Differences(d),
        on_structure=L1(0.01),
        on_coefficients=NonNegative(),
    )
    return problem, None, problem.objective_at_zero


# ---------------------------------------------------------------- measurement


@dataclass(frozen=True)
class Exponent:
    """p of error ~ K^-p with its interval of confidence; without numbers where none was found."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan

    def __str__(self) -> str:
        if math.isnan(self.value):
            return ""
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def fitted(grid: list[int], errors: list[Array]) -> Exponent:
    """Return the exponent: over seeds by Student's distribution, of one by that of the residuals.

    Examples
    --------
    >>> print(fitted([10, 100, 1000, 10000], [np.array([1.0, 0.1, 0.01, 0.001])]))
    1.00 (1.00 to 1.00)
    """
    from scipy.stats import linregress, t

    fits = []
    for each in errors:
        used = np.asarray(each) > OPTIONS.rounding
        if used.sum() < 3:
            return Exponent()
        fits.append((linregress(np.log(np.array(grid)[used]), np.log(each[used])), used.sum()))
    slopes = [-float(fit.slope) for fit, _ in fits]
    if len(slopes) > 1:
        error, freedom = float(np.std(slopes, ddof=1)) / math.sqrt(len(slopes)), len(slopes) - 1
    else:
        error, freedom = float(fits[0][0].stderr), int(fits[0][1]) - 2
    half = float(t.ppf(0.975, freedom)) * error
    mean = float(np.mean(slopes))
    return Exponent(mean, mean - half, mean + half)


def grid_of(top: int, times: int) -> list[int]:
    """Return the values of K up to the largest, in whole epochs, each once."""
    values = np.geomspace(OPTIONS.first * times, top * times, OPTIONS.points)
    return sorted({round(K / OPTIONS.step) * OPTIONS.step for K in values})


def errors(name: str, instance: Instance, grid: list[int], seed: int, kind: str) -> Any:
    """Return the errors of the last iterate and of the average at every K."""
    problem, start, optimum = instance
    solver = _solver(name, kind)
    solver.check(problem)
    found: dict[str, list[float]] = {"last": [], "average": []}
    for done in iterate(problem, solver, seed, start=start):
        if done.n_epochs * OPTIONS.step < grid[len(found["last"])]:
            continue
        found["last"].append(_error(problem, done.output, optimum))
        if done.ergodic is not None:
            found["average"].append(_error(problem, done.ergodic, optimum))
        if len(found["last"]) == len(grid):
            return {point: np.array(row) for point, row in found.items() if row}


def _solver(name: str, kind: str) -> Any:
    method: Any = solvers.get(name)
    fields = method.__dataclass_fields__
    wanted: dict[str, Any] = {"n_inner": OPTIONS.step} | ROWS[name].more
    if "batch_size" in fields:
        wanted["batch_size"] = 20 if kind == "random" else 1
    if "beta" in fields and kind == "slow":
        wanted["beta"] = 1.0
    if kind == "noisy":
        wanted["growth"] = 4.0  # steps 1 / (4 sqrt(k)): what is shown is past its beginning
    if "sampling" in fields:
        wanted["sampling"] = "rows"
    if "returns" in fields:
        wanted["returns"] = "last"
    return method(**wanted)


def _error(problem: Problem, x: Pair, optimum: float) -> float:
    gap = abs(problem.objective(problem.feasible(x)) - optimum)
    return gap + float(np.linalg.norm(problem.constraint(x)))


def measured(store: Store, quick: bool, watch: Watch) -> dict[str, dict[str, Any]]:
    """Return exponents by method; finished ones from the folder, one or two files per method."""
    n_seeds = 2 if quick else OPTIONS.seeds
    made: dict[tuple[str, int], list[Instance]] = {}
    found: dict[str, dict[str, Any]] = {}
    for name, row in ROWS.items():
        top = OPTIONS.quick if quick else OPTIONS.last
        if row.costly:
            top = max(3 * OPTIONS.first, top // 10)
        mark = fingerprint(OPTIONS, name, row.more, top, n_seeds)
        parts = {name: ["slow", "random"]}
        if row.point == "average":
            parts[f"{name}-noisy"] = ["noisy"]
        found[name] = {"seconds": 0.0}
        for place, kinds in parts.items():
            key = ("quick" if quick else "full", "rates", "table1", place)
            kept = store.get(key, mark)
            if kept is None:
                for kind in kinds:
                    if (kind, top) not in made:
                        made[kind, top] = _instances(kind, n_seeds, top)
                kept = _of(name, {kind: made[kind, top] for kind in kinds}, top)
                store.put(key, mark, kept)
                watch.say(f"rates of {row.label}: {kept['seconds']:.0f} s")
            seconds = found[name]["seconds"] + kept["seconds"]
            found[name] |= kept | {"seconds": seconds}
    return found


def _instances(kind: str, n_seeds: int, top: int) -> list[Instance]:
    if kind == "slow":
        return [slow(10 * top)]
    return [(random if kind == "random" else noisy)(seed) for seed in range(n_seeds)]


def _of(name: str, made: dict[str, list[Instance]], top: int) -> dict[str, Any]:
    """Return the exponents of one method on some kinds of problems, by point."""
    clock = time.process_time()
    found: dict[str, Any] = {}
    for kind, instances in made.items():
        # an iteration of a batch method is a pass
        times = 1 if kind == "slow" or name in ("linearized-admm", "ladm-ne") else 10
        grid = grid_of(top, times)
        try:
            curves = [
                errors(name, instance, grid, seed, kind) for seed, instance in enumerate(instances)
            ]
        except (Unsuitable, ValueError) as reason:
            found[kind] = {"why": str(reason)}
            continue
        exponents = {point: fitted(grid, [c[point] for c in curves]) for point in curves[0]}
        found[kind] = {
            point: [e.value, e.low, e.high]
            for point, e in exponents.items()
            if math.isfinite(e.value)
        } | {"K": [grid[0], grid[-1]]}
    return found | {"seconds": time.process_time() - clock}


# ---------------------------------------------------------------- the table and the claim


def rates_table(found: dict[str, dict[str, Any]]) -> Table:
    """Return Table 1 with what was measured."""
    rows = []
    for name, row in ROWS.items():
        cells = []
        for kind in KINDS:
            of = found[name].get(kind, {})
            cells += [str(_exponent(of, point)) for point in ("last", "average")]
            cells.append("{:,} to {:,}".format(*of["K"]) if "K" in of else "")
        rows.append(
            (
                row.label,
                row.rate,
                row.point,
                "" if row.exponent is None else f"{row.exponent:g}",
                *cells,
                f"{found[name]['seconds']:.1f}",
            )
        )
    names = tuple(f"{kind}: {what}" for kind in KINDS for what in ("last", "average", "K"))
    return Table(
        "table1",
        "Rates for convex problems",
        ("method", "rate in the paper", "of", "exponent", *names, "seconds"),
        rows,
        "p of error ~ K^-p, K iterations, with 95 percent intervals; the error is the "
        "objective gap at the feasible point plus the infeasibility of the pair. Slow: distances "
        "to lines in planes, on which ADMM is as slow as theory allows; no noise, one run, the "
        "interval is that of the fit. Random: logistic regressions with fused coefficients, the "
        "interval is over seeds. Noisy: the same on labels that no column explains, with "
        "coefficients that may not be negative and are zero at the optimum, for the methods whose "
        "average has the rate 1/√K. A slope over a range of K is what happened there; a "
        "worst-case rate may be beaten. ADMM by linearized steps. The rate of ACC-SADMM is in "
        "epochs, here of ten iterations. Processor seconds.",
    )


def _exponent(of: dict[str, Any], point: str) -> Exponent:
    return Exponent(*of[point]) if point in of else Exponent()


def rates_claim(found: dict[str, dict[str, Any]]) -> Claim:
    """Return whether what was measured agrees with Table 1."""
    evidence = []
    for name, row in ROWS.items():
        if row.exponent is None:
            continue
        for kind in KINDS:
            exponent = _exponent(found[name].get(kind, {}), row.point)
            if not math.isnan(exponent.value):
                tight = kind == "noisy" or (row.tight and kind == "slow")
                verdict = agrees(row.exponent, tight, exponent)
                where = f"{row.label}, {row.rate}"
                evidence.append(Evidence(where, kind, verdict, str(exponent)))
    return claim(
        "rates",
        "The rates of Table 1 are observed",
        evidence,
        "A rate holds where the interval of the measured exponent lies above theory's exponent "
        f"less {OPTIONS.room:g}, an allowance for a finite range of K. A rate called tight must "
        f"also be within {OPTIONS.room:g} of theory's exponent on the slow problem, and the "
        "averages with the rate 1/√K on the noisy one.",
    )


def agrees(theory: float, tight: bool, found: Exponent) -> str:
    """Return the verdict on one exponent.

    Examples
    --------
    >>> agrees(1.0, False, Exponent(1.2, 1.1, 1.3)), agrees(1.0, False, Exponent(0.5, 0.4, 0.6))
    ('holds', 'does not hold')
    >>> agrees(0.5, True, Exponent(1.2, 1.1, 1.3)), agrees(0.5, True, Exponent(0.5, 0.4, 0.6))
    ('does not hold', 'holds')
    """
    least, most = theory - OPTIONS.room, theory + OPTIONS.room if tight else math.inf
    if found.low >= least and found.high <= most:
        return HOLDS
    return FAILS if found.high < least or found.low > most else OPEN
