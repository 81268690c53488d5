"""Methods compared on one problem: gaps to a certified optimum over reads, gradients and seconds.

What is judged is the method's own output after every epoch, not the polished answer that
``minimize`` returns. Two runs are compared by two measures, each one number per seed: the gaps
after equal work (``advantage``) and the work to equal gaps (``speed_up``). One method is ahead
where both say so on average over the seeds, with an interval of confidence on one side.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .base.protocols import Array
from .base.validation import generator, is_whole
from .base.workspace import Workspace
from .plots import plot_comparison
from .problem import Problem
from .run.loop import begin, epochs
from .run.minimize import minimize
from .run.result import Result
from .run.stopping import Gap
from .solvers import AnySolver, as_solver

AXES = ("reads", "gradients", "seconds")
"""What work is counted in: rows read / n, component gradients / n, processor seconds."""
WON, LOST, OPEN, ALONE = "won", "lost", "open", "one seed"
MARGIN = 10**0.1
"""Ratio below which a difference makes none in practice: a tenth of a power of ten."""
WORST = 10.0
"""Times the first gap that later ones count for at most: a diverged run is bad enough."""
GRID = 50  # points at which two curves are read
TUNED = ("curvature", "step", "beta", "sigma", "rho", "balance")
"""Parameters that ``tune`` chooses, where a method has them and the user has left them open."""


class Run(Protocol):
    """What the two measures ask of a curve."""

    @property
    def gap(self) -> Array:
        """Gaps after every epoch, the start first; never below ``floor``."""

    @property
    def floor(self) -> float:
        """Accuracy to which the optimum is known; infinite where it is not."""

    @property
    def status(self) -> str:
        """How the run ended; "diverged" and "solved" end before the work is used up."""

    def along(self, axis: str) -> Array:
        """Return the work until each gap."""


@dataclass(frozen=True)
class Curve:
    """One run of one method: arrays over its epochs, the start first.

    Attributes
    ----------
    seed : int
        Of the run.
    epoch, reads, gradients, seconds : ndarray
        Work done: epochs, rows read / n, component gradients / n, processor seconds of the method.
    objective : ndarray
        At the feasible point of the method's own output.
    gap : ndarray
        Distance to the certified optimum, at least ``floor``.
    floor : float
        Accuracy to which the optimum is certified: what lies below cannot be told apart.
    status : str
        "reads" or "seconds", the limit that ended the run; "solved" at a gap of ``floor``,
        "stalled" where epochs change nothing, or "diverged".
    """

    seed: int
    epoch: Array
    reads: Array
    gradients: Array
    seconds: Array
    objective: Array
    gap: Array
    floor: float
    status: str

    def along(self, axis: str) -> Array:
        """Return the work until each gap: "reads", "gradients" or "seconds"."""
        found: Array = {"reads": self.reads, "gradients": self.gradients}.get(axis, self.seconds)
        return found

    def area(self, most: float) -> float:
        """Return the mean of log10 of the gap over reads from zero to ``most``.

        It is what methods are tuned by. A run that ended before keeps its last gap.
        """
        grid = np.linspace(0.0, most, 4 * GRID)
        return float(np.mean(_log_gaps(self, "reads", grid)))


@dataclass(frozen=True)
class Tuned:
    """What was chosen for a method, and how well it was looked for.

    Attributes
    ----------
    values, factors : dict
        The parameters chosen, and what they are times the method's own choice.
    at_edge : tuple of str
        Parameters of which a neighbouring value was not tried: more candidates may do better.
    area : float
        Mean of log10 of the gap over the reads, of the choice.
    n_candidates : int
        Settings that were run.
    """

    values: dict[str, float]
    factors: dict[str, float]
    at_edge: tuple[str, ...]
    area: float
    n_candidates: int


@dataclass(frozen=True)
class Comparison:
    """What ``compare`` returns.

    Attributes
    ----------
    curves : dict
        Label of a method -> its :class:`Curve` per seed.
    solvers : dict
        Label -> the solver that was run, with the parameters that tuning chose.
    choices : dict
        Label -> what the method chose itself: penalty parameter, batch size, ...
    tuned : dict
        Label -> :class:`Tuned`, empty without ``tune``.
    optimum : Result
        The certified optimum to which gaps are measured, by the automatic solver.
    value, floor : float
        The optimal value, and the accuracy to which it is certified.
    n_rows, n_features : int
        Size of the problem.
    """

    curves: dict[str, list[Curve]]
    solvers: dict[str, AnySolver]
    choices: dict[str, dict[str, Any]]
    tuned: dict[str, Tuned]
    optimum: Result
    value: float
    floor: float
    n_rows: int
    n_features: int

    def as_frame(self) -> Any:
        """Return one row per record as a pandas frame, or a dict of lists without pandas.

        Columns are method, seed, epoch, reads, gradients, seconds, objective and gap.
        """
        names = ("epoch", *AXES, "objective", "gap")
        columns: dict[str, list[Any]] = {name: [] for name in ("method", "seed", *names)}
        for label, curves in self.curves.items():
            for curve in curves:
                size = len(curve.gap)
                columns["method"] += [label] * size
                columns["seed"] += [curve.seed] * size
                arrays = (curve.epoch, *(curve.along(a) for a in AXES), curve.objective, curve.gap)
                for name, values in zip(names, arrays, strict=True):
                    columns[name] += values.tolist()
        return _frame(columns)

    def table(self, of: str | None = None) -> Any:
        """Return whether a method has won or lost against each other one, by each unit of work.

        Parameters
        ----------
        of : str, optional
            Label of the method that is judged; the first by default.

        Returns
        -------
        DataFrame
            A row per rival, or a dict of lists without pandas. ``reads``, ``gradients`` and
            ``seconds`` say "won", "lost", "open" or "one seed"; ``times_reads``, ... how many
            times as much work the rival needs to equal gaps (geometric mean over gaps and seeds).
        """
        label = next(iter(self.curves)) if of is None else of
        if label not in self.curves:
            raise ValueError(f"there is no method {label!r}; known: {', '.join(self.curves)}")
        columns: dict[str, list[Any]] = {name: [] for name in ("method", "against", *AXES)}
        columns |= {f"times_{axis}": [] for axis in AXES}
        for rival, theirs in self.curves.items():
            if rival == label:
                continue
            columns["method"].append(label)
            columns["against"].append(rival)
            pairs = list(zip(self.curves[label], theirs, strict=True))
            for axis in AXES:
                speeds = [speed_up(a, b, axis) for a, b in pairs]
                gaps = [10 ** advantage(a, b, axis) for a, b in pairs]
                verdicts = {decide(speeds), decide(gaps)}
                columns[axis].append(verdicts.pop() if len(verdicts) == 1 else OPEN)
                columns[f"times_{axis}"].append(Interval.of(speeds).mean)
        return _frame(columns)

    def plot(self, axes: Sequence[str] = AXES) -> Any:
        """Draw gaps over reads, gradients and seconds, a panel each; return the figure.

        Lines are geometric means over the seeds, bands their range; a dashed line is one seed.
        """
        for axis in axes:
            if axis not in AXES:
                raise ValueError(f"there is no axis {axis!r}; known: {', '.join(AXES)}")
        return plot_comparison(self, axes)


def compare(
    problem: Problem,
    methods: Sequence[Any] | Mapping[str, Any],
    *,
    max_reads: float = 50.0,
    max_seconds: float | None = None,
    seeds: int | Sequence[int] = 3,
    tune: int | None = None,
) -> Comparison:
    """Run methods on a problem, measured alike, with gaps to the certified optimum.

    After every epoch the objective of the method's own output is taken, at its feasible point;
    measuring is not timed. Rows are counted whenever they are read, for every method; stored
    derivatives are not read again. The start counts, and begins at zero.

    Parameters
    ----------
    problem : Problem
        What to minimize.
    methods : list of names and solvers, or dict of label -> name or solver
        Such as ``["acc-sadmm", sa.SVRGADMM(beta=1.0)]``.
    max_reads : float, default=50
        Rows read / n by which a run ends.
    max_seconds : float, optional
        Processor seconds by which a run ends.
    seeds : int or list of int, default=3
        Number of runs per method, or their seeds.
    tune : int, optional
        Settings tried for every method: penalty parameter and step, where they were left open.
        They are chosen by the mean of log10 of the gap over all reads of a run, on a seed of its
        own; the search goes to better neighbours, factors of 4 apart and then of 2.

    Returns
    -------
    Comparison
        ``as_frame()``, ``curves``, ``plot()``, ``table()``.

    Examples
    --------
    >>> import stochadmm as sa
    >>> data = sa.datasets.make_chain(200, 10, n_levels=3, random_state=0)
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), data.X, data.y, structure=sa.Differences(10), on_structure=sa.L1(0.01)
    ... )
    >>> found = sa.compare(problem, ["acc-sadmm", "stoc-admm"], max_reads=20)
    >>> list(found.table()["reads"])
    ['won']
    """
    solvers = _labelled(methods)
    chosen_seeds = list(range(seeds)) if is_whole(seeds) else list(seeds)  # type: ignore[arg-type]
    if not chosen_seeds:
        raise ValueError(f"seeds is {seeds!r}, expected a number >= 1 or a list of seeds")
    for name, limit in (("max_reads", max_reads), ("max_seconds", max_seconds)):
        if limit is not None and not limit > 0:
            raise ValueError(f"{name} is {limit!r}, expected a number > 0")
    if tune is not None and not (is_whole(tune) and tune >= 1):
        raise ValueError(f"tune is {tune!r}, expected None or the settings to try, 1 or more")
    for solver in solvers.values():
        solver.check(problem)
    optimum, value, floor = _certified(problem)
    race = _Race(problem, value, floor, max_reads, max_seconds)
    tuned: dict[str, Tuned] = {}
    for label, solver in solvers.items():
        if tune is not None:
            tuned[label] = race.tune(solver, tune)
            solvers[label] = dataclasses.replace(solver, **tuned[label].values)
    curves, choices = {}, {}
    for label, solver in solvers.items():
        race.run(solver, chosen_seeds[0], most=1)  # modules are loaded, and not timed
        found = [race.run(solver, seed) for seed in chosen_seeds]
        curves[label], choices[label] = [c for c, _ in found], found[0][1]
    n, d = problem.f2.n_terms, int(problem.shape2[0])
    return Comparison(curves, solvers, choices, tuned, optimum, value, floor, n, d)


def _labelled(methods: Sequence[Any] | Mapping[str, Any]) -> dict[str, AnySolver]:
    """Return solvers by label; of two with one name, both say what they were made with."""
    if isinstance(methods, str):
        methods = [methods]
    if isinstance(methods, Mapping):
        found = {str(label): as_solver(method) for label, method in methods.items()}
    else:
        solvers = [as_solver(method) for method in methods]
        names = [solver.name for solver in solvers]
        labels = [
            s.name if names.count(s.name) == 1 else f"{s.name} {_settings(s)}".rstrip()
            for s in solvers
        ]
        twice = [label for label in labels if labels.count(label) > 1]
        if twice:
            raise ValueError(f"{twice[0]} is named twice; give a dict of label -> method")
        found = dict(zip(labels, solvers, strict=True))
    if not found:
        raise ValueError("methods is empty, expected names or solvers such as 'acc-sadmm'")
    return found


def _settings(solver: AnySolver) -> str:
    """Return the parameters that differ from their defaults."""
    changed = [
        f"{f.name}={getattr(solver, f.name)!r}"
        for f in dataclasses.fields(solver)
        if f.default is not dataclasses.MISSING and getattr(solver, f.name) != f.default
    ]
    return f"({', '.join(changed)})" if changed else ""


def _certified(problem: Problem) -> tuple[Result, float, float]:
    """Return the optimum, its value, and how far below it the optimal value may lie.

    To 1e-6 as long as it takes, and to 1e-10 for as long again: rounding keeps some bounds above.
    """
    clock = time.perf_counter()
    first = minimize(problem, "auto", stop=Gap(1e-6), max_passes=1e5, resumable=False)
    seconds = max(2.0, time.perf_counter() - clock)
    second = minimize(
        problem,
        "auto",
        stop=Gap(1e-10),
        max_passes=1e5,
        max_seconds=seconds,
        start=first,
        resumable=False,
    )
    value = min(first.objective, second.objective)
    bounds = [r.objective - r.gap for r in (first, second) if r.gap is not None]
    floor = value - max(bounds, default=-math.inf)
    if not math.isfinite(floor):
        raise ValueError(
            "the optimum of this problem has no certificate, so gaps to it cannot be measured; "
            f"the automatic solver ended with {first.status.name}"
        )
    # two objectives at the optimum differ by the rounding of a mean over rows
    return (
        second if second.objective <= first.objective else first,
        value,
        max(floor, 1e-14 * abs(value)),
    )


@dataclass(frozen=True)
class _Race:
    """Runs of methods on one problem."""

    problem: Problem
    value: float
    floor: float
    max_reads: float
    max_seconds: float | None

    def run(
        self,
        solver: AnySolver,
        seed: int,
        workspace: Workspace | None = None,
        most: float = math.inf,
    ) -> tuple[Curve, dict[str, Any]]:
        """Return one run, of so many epochs at most, and what the method chose."""
        p, at_zero = self.problem, self.problem.objective_at_zero
        records = [(0.0, 0.0, 0.0, 0.0, at_zero)]
        status, still = "", 0
        with np.errstate(all="ignore"):
            clock = time.process_time()
            state = begin(p, solver, None, "auto", workspace or Workspace())
            state.target = 1e-10
            steps = epochs(p, solver, state, generator(seed))
            seconds = time.process_time() - clock
            while not status:
                clock = time.process_time()
                next(steps)
                seconds += time.process_time() - clock
                objective = float(p.objective(p.feasible(state.output)))
                reads, gradients = float(state.n_passes), float(state.n_gradients)
                # an epoch that neither reads nor moves will not do so later either
                still = still + 1 if (reads, objective) == (records[-1][1], records[-1][4]) else 0
                records.append((state.n_epochs, reads, gradients, seconds, objective))
                used = reads / self.max_reads
                if self.max_seconds is not None:
                    used = max(used, seconds / self.max_seconds)
                hopeless = (
                    objective > 100 * abs(at_zero) and used >= 0.5
                )  # dual methods rise first
                if not math.isfinite(objective) or hopeless:
                    status = "diverged"
                elif objective - self.value <= self.floor:
                    status = "solved"
                elif state.settled or still == 5:
                    status = "stalled"
                elif used >= 1 or state.n_epochs >= most:
                    status = "reads" if reads >= self.max_reads else "seconds"
        epoch, reads_, gradients_, seconds_, values = np.array(records, dtype=float).T
        away = np.where(np.isfinite(values), values, np.inf) - self.value
        gap = np.maximum(away, self.floor)
        curve = Curve(seed, epoch, reads_, gradients_, seconds_, values, gap, self.floor, status)
        return curve, dict(state.notes)

    def tune(self, solver: AnySolver, budget: int) -> Tuned:
        """Return the setting of a compass search from the method's own: to better neighbours."""
        workspace, seed = Workspace(), 1000  # what the data give is computed once
        state = begin(self.problem, solver, None, "auto", workspace)
        own = {
            name: float(state.notes.get(name, getattr(state, name, math.nan)))
            for name in TUNED
            if getattr(solver, name, 0.0) in (None, "auto")
            and name in {f.name for f in dataclasses.fields(solver)}
        }
        own = {name: number for name, number in own.items() if 0 < number < math.inf}
        areas: dict[tuple[float, ...], float] = {}

        def values(exponents: tuple[float, ...]) -> dict[str, float]:
            return {k: own[k] * 4.0**e for k, e in zip(own, exponents, strict=True)}

        def area(exponents: tuple[float, ...]) -> float:
            if exponents not in areas:
                setting = dataclasses.replace(solver, **values(exponents)) if own else solver
                areas[exponents] = self.run(setting, seed, workspace)[0].area(self.max_reads)
            return areas[exponents]

        best = (0.0,) * len(own)
        area(best)
        ways = [(k, way) for k in range(len(own)) for way in (-1.0, 1.0)]
        for step in (1.0, 0.5, 0.25):
            moved = bool(own)
            while moved:
                moved = False
                for k, way in ways:
                    other = tuple(e + way * step * (j == k) for j, e in enumerate(best))
                    if other not in areas and len(areas) >= budget:
                        break
                    if area(other) < area(best):
                        best, moved = other, True
                        # what has helped is tried first the next time
                        ways = sorted(ways, key=(k, way).__ne__)
                        break
        edge = tuple(
            name
            for k, name in enumerate(own)
            for way in (-1, 1)
            if not any(
                way * (other[k] - best[k]) > 0
                and all(o == b for j, (o, b) in enumerate(zip(other, best, strict=True)) if j != k)
                for other in areas
            )
        )
        factors = {k: 4.0**e for k, e in zip(own, best, strict=True)}
        return Tuned(values(best), factors, tuple(dict.fromkeys(edge)), areas[best], len(areas))


# ---------------------------------------------------------------- the two measures and the verdict


def speed_up(a: Run, b: Run, axis: str) -> float:
    """Return how many times as fast a is as b: the work that b and a need to equal gaps.

    The geometric mean over gaps, evenly spread in powers of ten from where both have made their
    first epoch down to the smallest that either reaches. A gap counts as reached when it is first
    met, between records by interpolation of its logarithm; one that is not reached counts as
    reached at the end of the longer run, which favours the method that fails. A diverged run
    reaches nothing. NaN without a certified optimum, when both diverge, or when neither gets below
    the certificate.
    """
    if len(a.gap) < 2 or len(b.gap) < 2 or not np.isfinite(a.floor + b.floor):
        return math.nan
    curves = [c for c in (a, b) if c.status != "diverged"]
    if not curves:
        return math.nan
    bottom = min(float(c.gap.min()) for c in curves)
    top = max(min(float(c.gap[1]) for c in curves), bottom)
    if bottom >= a.gap[0]:
        return math.nan
    end = max(float(c.along(axis)[-1]) for c in curves)
    levels = np.geomspace(top, bottom, GRID)
    ours, theirs = (_first_met(c, axis, levels, end) for c in (a, b))
    return float(np.exp(np.mean(np.log(theirs / ours))))


def _first_met(c: Run, axis: str, levels: Array, end: float) -> Array:
    """Return where a run first meets each gap, ``end`` where it does not."""
    x, met = c.along(axis), np.full(len(levels), end)
    if c.status == "diverged":
        return met
    lowest = np.log(np.minimum.accumulate(c.gap))
    for k, level in enumerate(np.log(levels)):
        below = np.flatnonzero(lowest <= level + 1e-12)
        if below.size:
            j = max(int(below[0]), 1)
            fall = lowest[j - 1] - lowest[j]
            share = (lowest[j - 1] - level) / fall if fall > 0 else 1.0
            met[k] = x[j - 1] + min(max(share, 0.0), 1.0) * (x[j] - x[j - 1])
    earliest: Array = np.maximum(met, 1e-3 * end)  # a ratio needs numbers above zero
    return earliest


def advantage(a: Run, b: Run, axis: str, *, at_end: bool = False) -> float:
    """Return by how many powers of ten a's gap is below b's, on average over their common range.

    Between records the logarithm of a gap is interpolated; the range begins where both have made
    their first epoch and ends where the first of them ends. Gaps count as ``WORST`` times that of
    the start at most, so that a run that has diverged stays comparable. Without a certified
    optimum the answer is NaN. ``at_end`` compares at the end of the range only.
    """
    x, y = a.along(axis), b.along(axis)
    if len(x) < 2 or len(y) < 2 or not np.isfinite(a.floor + b.floor):
        return math.nan
    start = max(x[1], y[1])
    ends = [t[-1] for t, c in ((x, a), (y, b)) if c.status not in ("diverged", "solved")]
    stop = min(ends) if ends else max(x[-1], y[-1])
    if not stop > start:
        stop = start
    grid = np.linspace(stop if at_end else start, stop, GRID)
    return float(np.mean(_log_gaps(b, axis, grid) - _log_gaps(a, axis, grid)))


def _log_gaps(c: Run, axis: str, grid: Array) -> Array:
    values: Array = np.log10(np.minimum(c.gap, WORST * c.gap[0]))
    return np.asarray(np.interp(grid, c.along(axis), values))


@dataclass(frozen=True)
class Interval:
    """Geometric mean of ratios with its interval of confidence."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: Iterable[float]) -> Interval:
        """Return the interval of one ratio per seed, by Student's distribution on logarithms.

        It has no end for a single ratio.

        Examples
        --------
        >>> from stochadmm.comparison import Interval
        >>> found = Interval.of([2.0, 2.0, 4.0])
        >>> round(found.mean, 2), round(found.low, 2), round(found.high, 2)
        (2.52, 0.93, 6.81)
        """
        from scipy.stats import t  # a tenth of a second

        logs = np.log([max(x, 1e-300) for x in ratios])
        mean = float(np.mean(logs))
        if len(logs) < 2:
            return cls(math.exp(mean), 0.0, math.inf)
        error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
        half = float(t.ppf(0.975, len(logs) - 1)) * error  # 95 percent
        return cls(math.exp(mean), math.exp(mean - half), math.exp(min(mean + half, 700.0)))


def decide(ratios: Iterable[float], margin: float = MARGIN) -> str:
    """Return the verdict of one comparison from a ratio per seed, above one where it is won.

    Won where the geometric mean is above the margin and the interval above one; lost the other way
    round.

    Examples
    --------
    >>> from stochadmm.comparison import decide
    >>> decide([2.0, 2.1, 2.2]), decide([0.5, 0.4, 0.5]), decide([2.0, 0.4, 1.0]), decide([2.0])
    ('won', 'lost', 'open', 'one seed')
    """
    values = list(ratios)
    if len(values) == 1:
        return ALONE
    if not values or any(map(math.isnan, values)):
        return OPEN
    found = Interval.of(values)
    if found.mean > margin and found.low > 1:
        return WON
    return LOST if found.mean < 1 / margin and found.high < 1 else OPEN


def _frame(columns: dict[str, list[Any]]) -> Any:
    try:
        import pandas as pd
    except ImportError:
        return columns
    return pd.DataFrame(columns)
