"""Problems of the experiments on their data sets, held-out losses, and certified optima."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from stochadmm import FiniteSum, Gap, Pair, Problem, Status, minimize
from stochadmm.data import half_rows
from stochadmm.datasets import Dataset
from stochadmm.losses import Logistic, Multinomial, Squared
from stochadmm.operators import GridDifferences, Identity, Incidence, Selection, VStack
from stochadmm.penalties import L1, GroupL2, Nuclear, Ridge, RowsL21
from stochadmm.structures import glasso_edges

from ._plain import Array
from .config import DataSpec, Experiment, Variant
from .datasets import scale_columns, scale_rows
from .recipes import SPLIT, recipe_of, smaller


@dataclass(frozen=True)
class OptimumOptions:
    """How well an optimum has to be known, as relative gaps."""

    tolerance: float = 1e-10
    """What is asked for."""
    enough: float = 1e-8
    """What ends the search for a better one: below everything that figures show."""
    longer: float = 2.0
    """Times the seconds to get there that may be spent on what is asked for; where rounding keeps
    a bound above it, only a limit ends the search."""
    least: float = 20.0
    """Seconds of that at least."""


@dataclass(frozen=True)
class BoundOptions:
    """How the scale of a dual point is found."""

    steps: int = 14
    """Of bisection: a ten-thousandth of the scale."""
    shrunk: float = 1 - 1e-5
    """What rounding of a gradient in single precision may take of the scale."""


OPTIMUM, BOUND = OptimumOptions(), BoundOptions()
TOO_MANY = 1 << 26
"""Predictions, rows times classes, that are not held at once: half a gigabyte."""
LOGISTIC = ("fused", "overlap", "smooth")
"""Problems of two classes."""


@dataclass(frozen=True)
class Sample:
    """Rows of an experiment with unit norm, split in two, and where they come from."""

    data: Dataset
    weight: Array | None = None
    weight_test: Array | None = None
    note: str = ""

    @property
    def n_outputs(self) -> int | None:
        """Classes or tasks; None for two classes."""
        if self.data.tasks is not None:
            return len(self.data.task_names or ())
        if self.data.y.dtype.kind in "iu":
            return 1 + max(int(y.max()) for y in (self.data.y, self.data.y_test) if y is not None)
        return None


@dataclass(frozen=True)
class Optimum:
    """A value with a bound: F* lies between ``value - gap`` and ``value``.

    Not certified is one that is not of all rows, or without any bound.
    """

    value: float
    gap: float
    seconds: float
    certified: bool

    @property
    def floor(self) -> float:
        """Gaps below this number cannot be told from zero."""
        return max(self.gap, 1e-13 * abs(self.value)) if self.certified else np.inf


# ---------------------------------------------------------------- data


def sample(spec: DataSpec, quick: bool, scaling: str = "columns", problem: str = "") -> Sample:
    """Return the rows of a data set; in the quick form a stand-in where files are missing.

    ``scaling`` is that of a :class:`~.config.Variant`; rows have unit norm but for "none".
    """
    recipe, note = recipe_of(spec, problem), ""
    scaling = spec.scaling or scaling
    if quick and not recipe.here and recipe.stand_in is not None:
        data = recipe.stand_in(spec)
        note = f"{spec.name} is not here: {recipe.stand_in_name} instead"
    else:
        data = recipe.load(spec)
    if not recipe.scaled:  # what is generated has the shape that was asked for
        data = smaller(data, spec)
    data = _fewer(_split(data), spec.rows)
    if scaling == "columns" and not recipe.scaled:
        X, X_test = scale_columns(data.X, data.X_test)
        data = replace(data, X=X, X_test=X_test)
    if not recipe.scaled and scaling != "none":
        data = replace(data, X=_rows(data.X), X_test=_rows(data.X_test))
    if data.tasks is None:
        return Sample(data, note=note)
    return _by_tasks(data, note)


def _rows(X: Any) -> Any:
    """Return rows of unit norm; CSR with indices of 32 bits where they suffice."""
    scaled = scale_rows(X)
    if isinstance(scaled, sp.csr_array) and scaled.nnz < 2**31:
        scaled.indices = scaled.indices.astype(np.int32)
        scaled.indptr = scaled.indptr.astype(np.int32)
    return scaled


def _split(data: Dataset) -> Dataset:
    if data.X_test is not None:
        return data
    order = np.random.default_rng(0).permutation(data.X.shape[0])
    cut = round(SPLIT.test_share * len(order))
    test, train = order[:cut], order[cut:]
    tasks = data.tasks
    return replace(
        data,
        X=data.X[train],
        y=data.y[train],
        X_test=data.X[test],
        y_test=data.y[test],
        tasks=None if tasks is None else tasks[train],
        tasks_test=None if tasks is None else tasks[test],
    )


def fewer(rows: Sample, most: int) -> Sample:
    """Return a random sample of at most so many training rows, for tuning."""
    n = rows.data.X.shape[0]
    if n <= most:
        return rows
    chosen = np.sort(np.random.default_rng(1).choice(n, most, replace=False))
    data = replace(rows.data, X=rows.data.X[chosen], y=rows.data.y[chosen])
    return replace(rows, data=data, weight=None if rows.weight is None else rows.weight[chosen])


def _fewer(data: Dataset, rows: int | None) -> Dataset:
    if rows is None:
        return data
    rng = np.random.default_rng(0)

    def chosen(n: int) -> Any:
        return np.sort(rng.choice(n, rows, replace=False)) if n > rows else slice(None)

    train, test = chosen(data.X.shape[0]), chosen(data.X_test.shape[0])  # type: ignore[union-attr]
    tasks, tasks_test = data.tasks, data.tasks_test
    return replace(
        data,
        X=data.X[train],
        y=data.y[train],
        X_test=data.X_test[test],  # type: ignore[index]
        y_test=data.y_test[test],  # type: ignore[index]
        tasks=None if tasks is None else tasks[train],
        tasks_test=None if tasks_test is None else tasks_test[test],
    )


def _by_tasks(data: Dataset, note: str) -> Sample:
    """Return one column of targets per task, with weight only where a row belongs to it."""
    n_tasks = len(data.task_names or ())
    scale = max(float(np.std(data.y)), 1e-300)
    center = float(np.mean(data.y))

    def spread(y: Any, tasks: Any) -> tuple[Array, Array]:
        weight = np.zeros((len(y), n_tasks))
        weight[np.arange(len(y)), tasks] = 1.0
        return weight * ((y - center) / scale)[:, None], weight

    y, weight = spread(data.y, data.tasks)
    y_test, weight_test = spread(data.y_test, data.tasks_test)
    return Sample(replace(data, y=y, y_test=y_test), weight, weight_test, note)


# ---------------------------------------------------------------- problems


def build(
    experiment: Experiment, spec: DataSpec, variant: Variant, rows: Sample, edges: Any = None
) -> Problem:
    """Return the problem of an experiment on a data set; ``edges`` are those of ``estimated``."""
    mu, data = experiment.strength(spec, variant), rows.data
    d = data.X.shape[1]
    if experiment.problem == "lasso":
        loss = Squared(half=False)
        return Problem.linear(loss, data.X, data.y, on_structure=L1(mu))
    if experiment.problem == "fused":
        structure = VStack([differences(spec, data, edges), Identity(d)])
        return Problem.linear(Logistic(), data.X, data.y, structure=structure, on_structure=L1(mu))
    if experiment.problem == "overlap":
        groups = [*(data.groups or {}).values()]
        alone = np.setdiff1d(np.arange(d), np.concatenate(groups))
        # a column in no group is one by itself: unpenalized, some would tell all rows apart
        chosen: Any = Selection([*groups, *alone[:, None]], d)
        sizes = chosen.sizes
        return Problem.linear(
            Logistic(),
            data.X,
            data.y,
            structure=chosen,
            on_structure=GroupL2(mu, sizes, np.sqrt(sizes)),
        )
    if experiment.problem == "smooth":
        return Problem.linear(Logistic(), data.X, data.y, on_coefficients=Ridge(mu))
    sparse = RowsL21(mu) if experiment.problem == "rows-and-rank" else L1(mu)
    return Problem.linear(
        _many(rows),
        data.X,
        data.y,
        sample_weight=rows.weight,
        on_structure=Nuclear(mu),
        on_coefficients=sparse,
    )


def estimated(rows: Sample) -> Array:
    """Return the edges between columns that the graphical lasso finds."""
    # partial correlations below a thousandth are no edges that another sample of rows would have
    return glasso_edges(rows.data.X, threshold=1e-3)


def differences(spec: DataSpec, data: Dataset, edges: Any = None) -> Any:
    """Return the operator of a graph over the columns: the given one, or that of ``edges``."""
    d = data.X.shape[1]
    if spec.graph != "glasso" and data.grid is not None:
        return GridDifferences(data.grid)
    if spec.graph != "glasso" and data.graph is not None:
        return Incidence(data.graph, d)
    return Incidence(glasso_edges(data.X, threshold=1e-3) if edges is None else edges, d)


def held_out(experiment: Experiment, rows: Sample) -> FiniteSum:
    """Return the loss on the test rows."""
    data = rows.data
    losses = {"lasso": Squared(half=False)} | dict.fromkeys(LOGISTIC, Logistic())
    loss: Any = losses.get(experiment.problem) or _many(rows)
    return FiniteSum(loss, _in_place(data.X_test), data.y_test, rows.weight_test)


def _many(rows: Sample) -> Any:
    return Squared() if rows.data.tasks is not None else Multinomial(rows.n_outputs)


def test_losses(held: FiniteSum, x2: Array) -> tuple[float, float | None]:
    """Return the mean loss and the share of wrong predictions, None for regression."""
    y = held.y
    if held.n_terms * (held.n_outputs or 1) > TOO_MANY:
        return held.value(x2), _error_in_blocks(held, x2)
    scores = held.predict(x2)
    loss = held.value_at(scores)
    if y.ndim == 2:
        if not np.isin(y, (-1.0, 1.0)).all():
            return loss, None
        # one column per class against the rest: the largest score wins
        return loss, float(np.mean(np.argmax(scores, axis=1) != np.argmax(y, axis=1)))
    guess = np.argmax(scores, axis=1) if scores.ndim == 2 else np.where(scores > 0, 1.0, -1.0)
    return loss, float(np.mean(guess != y))


def _error_in_blocks(held: FiniteSum, x2: Array) -> float:
    """Return the share of wrong classes, some rows at a time: predictions need not fit memory."""
    wrong, size = 0, max(1, TOO_MANY // (8 * (held.n_outputs or 1)))
    for begin in range(0, held.n_terms, size):
        rows = np.arange(begin, min(begin + size, held.n_terms))
        wrong += int(np.sum(np.argmax(held.predict(x2, rows), axis=1) != held.y[rows]))
    return wrong / held.n_terms


def measured(problem: Problem, n_rows: int | None) -> Problem:
    """Return the problem over its first rows, which an objective between epochs is that of."""
    if n_rows is None or n_rows >= problem.f2.n_terms:
        return problem
    f2: Any = problem.f2
    return replace(problem, f2=FiniteSum(f2.loss, _in_place(f2.X[:n_rows]), f2.y[:n_rows]))


def _in_place(X: Any) -> Any:
    """Return a map of float16 as rows that are widened some at a time, and others as they are."""
    rows = half_rows(X)
    return X if rows is None else rows


def lower_bound(problem: Problem, x2: Array) -> float:
    """Return a bound on the optimum of multinomial loss + a |X|_* + b |X|_1, by one pass at X.

    With the derivatives u of the rows at X and G the gradient, the mean conjugate of the loss at u
    is <G, X> - f(X), that at zero is zero, and a conjugate is convex: derivatives t u that the
    norms admit prove F* >= t (f(X) - <G, X>). They admit those with t G = U1 + U2, |U1|_2 <= a,
    |U2|_inf <= b: U2 takes what it can of every entry, and t is found by bisection.
    """
    f2: Any = problem.f2
    at = f2.evaluate(x2, rows=False)
    G = np.asarray(at.gradient, dtype=np.float64)
    a, b = (float(penalty.alpha) for penalty in (problem.h1, problem.h2))  # type: ignore[union-attr]

    def admitted(t: float) -> bool:
        rest = t * G - np.clip(t * G, -b, b)
        return bool(np.linalg.norm(rest, 2) * (1 + 1e-14 * sum(G.shape)) <= a)

    low, high = (1.0, 1.0) if admitted(1.0) else (0.0, 1.0)
    for _ in range(BOUND.steps if low < high else 0):
        middle = (low + high) / 2 if low else high / 4
        low, high = (middle, high) if admitted(middle) else (low, middle)
    scale = BOUND.shrunk * low
    return scale * float(at.value - np.vdot(G, np.asarray(x2, dtype=np.float64)))


def optimum(problem: Problem, seconds: float, by_others: bool = True) -> Optimum:
    """Return the optimal value with the gap that certifies it.

    By the automatic solver; where that is not enough, methods for coupled outputs go on from its
    point, if ``by_others``. What was enough is made better for a while. A lower bound holds for
    every point, so the best bound certifies the lowest value.
    """
    clock, value, bound, start = time.perf_counter(), np.inf, -np.inf, None
    others = ("spdhg", "ladm-ne") if problem.constrained and by_others else ()
    ways = [(solver, OPTIMUM.enough) for solver in ("auto", *others)]
    while ways:
        solver, goal = ways.pop(0)
        found = minimize(
            problem, solver, stop=Gap(goal), max_passes=1e5, max_seconds=seconds, start=start
        )
        if found.status is Status.INTERRUPTED:  # what was found so far must not be kept
            raise KeyboardInterrupt
        value, start = min(value, found.objective), found
        if found.gap is not None:
            bound = max(bound, found.objective - found.gap)
        if value - bound <= OPTIMUM.enough * abs(value):
            ways = [(solver, OPTIMUM.tolerance)] if goal == OPTIMUM.enough else []
            took = time.perf_counter() - clock
            seconds = min(seconds, max(OPTIMUM.least, OPTIMUM.longer * took))
    return Optimum(value, value - bound, time.perf_counter() - clock, bool(np.isfinite(bound)))


def feasible_value(problem: Problem, point: Pair) -> tuple[Pair, float]:
    """Return the feasible point (x, A x) and the objective there."""
    feasible = problem.feasible(point)
    return feasible, problem.objective(feasible)
