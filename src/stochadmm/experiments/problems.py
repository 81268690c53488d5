"""Data sets and problems of the experiments, and certified optima.

A data set whose files are not here is replaced in the quick form by what scikit-learn ships or by
a generated one of the same kind, and its note says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .. import datasets
from ..datasets import Dataset
from ..datasets._dataset import scale_rows
from ..driver import minimize
from ..finite_sum import FiniteSum
from ..losses import Logistic, Multinomial, Squared
from ..operators import GridDifferences, Identity, Incidence, VStack
from ..penalties import L1, Nuclear
from ..problem import Pair, Problem
from ..protocols import Array
from ..stopping import Gap
from ..structures import glasso_edges
from .config import DataSpec, Experiment, Variant

TOLERANCE, ENOUGH = 1e-10, 1e-8
"""Relative gaps of an optimum: what is asked for, and what stops the search for a better one."""
TEST_SHARE = 0.2


@dataclass(frozen=True)
class Recipe:
    """Where a data set comes from, and what takes its place when the files are missing."""

    load: Callable[[DataSpec], Dataset]
    files_of: str | None = None
    stand_in: Callable[[DataSpec], Dataset] | None = None
    stand_in_name: str = ""
    paper: str = ""
    """Train / test rows, columns and name in the paper."""

    @property
    def here(self) -> bool:
        """Whether every file is in the data folder or the cache."""
        if self.files_of is None:
            return True
        return all(datasets.find(path) for path in datasets.describe(self.files_of).files)


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
    """A certified value: F* lies between ``value - gap`` and ``value``."""

    value: float
    gap: float
    seconds: float
    certified: bool

    @property
    def floor(self) -> float:
        """Gaps below this number cannot be told from zero."""
        return max(self.gap, 1e-13 * abs(self.value))


# ---------------------------------------------------------------- data


def sample(spec: DataSpec, quick: bool) -> Sample:
    """Return the rows of a data set; in the quick form a stand-in where files are missing."""
    recipe, note = RECIPES[spec.name], ""
    if quick and not recipe.here and recipe.stand_in is not None:
        data = recipe.stand_in(spec)
        note = f"{spec.name} is not here: {recipe.stand_in_name} instead"
    else:
        data = recipe.load(spec)
    data = _fewer(_split(data), spec.rows)
    data = replace(data, X=scale_rows(data.X), X_test=scale_rows(data.X_test))
    if data.tasks is None:
        return Sample(data, note=note)
    return _by_tasks(data, note)


def _split(data: Dataset) -> Dataset:
    if data.X_test is not None:
        return data
    order = np.random.default_rng(0).permutation(data.X.shape[0])
    cut = round(TEST_SHARE * len(order))
    test, train = order[:cut], order[cut:]
    tasks = data.tasks
    return replace(
        data, X=data.X[train], y=data.y[train], X_test=data.X[test], y_test=data.y[test],
        tasks=None if tasks is None else tasks[train],
        tasks_test=None if tasks is None else tasks[test],
    )  # fmt: skip


def _fewer(data: Dataset, rows: int | None) -> Dataset:
    if rows is None:
        return data
    rng = np.random.default_rng(0)

    def chosen(n: int) -> Any:
        return np.sort(rng.choice(n, rows, replace=False)) if n > rows else slice(None)

    train, test = chosen(data.X.shape[0]), chosen(data.X_test.shape[0])  # type: ignore[union-attr]
    tasks, tasks_test = data.tasks, data.tasks_test
    return replace(
        data, X=data.X[train], y=data.y[train], X_test=data.X_test[test],  # type: ignore[index]
        y_test=data.y_test[test],  # type: ignore[index]
        tasks=None if tasks is None else tasks[train],
        tasks_test=None if tasks_test is None else tasks_test[test],
    )  # fmt: skip


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


def build(experiment: Experiment, spec: DataSpec, variant: Variant, rows: Sample) -> Problem:
    """Return the problem of an experiment on a data set."""
    mu, data = experiment.strength(variant), rows.data
    d = data.X.shape[1]
    if experiment.problem == "lasso":
        loss = Squared(half=False)
        return Problem.linear(loss, data.X, data.y, on_structure=L1(mu))
    if experiment.problem == "fused":
        structure = VStack([differences(spec, data), Identity(d)])
        return Problem.linear(Logistic(), data.X, data.y, structure=structure, on_structure=L1(mu))
    return Problem.linear(
        _many(rows), data.X, data.y, sample_weight=rows.weight, on_structure=Nuclear(mu),
        on_coefficients=L1(mu),
    )  # fmt: skip


def differences(spec: DataSpec, data: Dataset) -> Any:
    """Return the operator of a graph over the columns."""
    d = data.X.shape[1]
    if spec.graph == "given" and data.grid is not None:
        return GridDifferences(data.grid)
    edges = data.graph if spec.graph == "given" else None
    return Incidence(glasso_edges(data.X) if edges is None else edges, d)


def held_out(experiment: Experiment, rows: Sample) -> FiniteSum:
    """Return the loss on the test rows."""
    data = rows.data
    losses = {"lasso": Squared(half=False), "fused": Logistic()}
    loss: Any = losses.get(experiment.problem) or _many(rows)
    return FiniteSum(loss, data.X_test, data.y_test, rows.weight_test)


def _many(rows: Sample) -> Any:
    return Squared() if rows.data.tasks is not None else Multinomial(rows.n_outputs)


def test_error(held: FiniteSum, x2: Array) -> float | None:
    """Return the share of wrong predictions, None for regression."""
    scores, y = held.predict(x2), held.y
    if y.ndim == 2:
        return None
    guess = np.argmax(scores, axis=1) if scores.ndim == 2 else np.where(scores > 0, 1.0, -1.0)
    return float(np.mean(guess != y))


def optimum(problem: Problem, seconds: float) -> Optimum:
    """Return the optimal value with the gap that certifies it.

    By the automatic solver; where that is not enough, methods for coupled outputs go on from its
    point. A lower bound holds for every point, so the best bound certifies the lowest value.
    """
    clock, value, bound, start = time.perf_counter(), np.inf, -np.inf, None
    for solver in ("auto", "spdhg", "ladm-ne"):
        found = minimize(
            problem, solver, stop=Gap(TOLERANCE), max_passes=1e5, max_seconds=seconds, start=start
        )
        value, start = min(value, found.objective), found
        if found.gap is not None:
            bound = max(bound, found.objective - found.gap)
        if value - bound <= ENOUGH * abs(value):
            break
    return Optimum(value, value - bound, time.perf_counter() - clock, bool(np.isfinite(bound)))


def feasible_value(problem: Problem, point: Pair) -> tuple[Pair, float]:
    """Return the feasible point (x, A x) and the objective there."""
    feasible = problem.feasible(point)
    return feasible, problem.objective(feasible)


# ---------------------------------------------------------------- recipes


def _file(name: str, spec: DataSpec, **options: Any) -> Dataset:
    return datasets.load(name, **options)


def _dna(spec: DataSpec) -> Dataset:
    # The paper's size; a quarter more rows are the test part.
    return datasets.make_onehot_dna(round((spec.rows or 2_400_000) / (1 - TEST_SHARE)))


def _fused(n_rows: int, n_features: int, spec: DataSpec) -> Dataset:
    return datasets.make_graph_fused(min(spec.rows or n_rows, n_rows) * 5 // 4, n_features)


def _classes(spec: DataSpec) -> Dataset:
    rows = round((spec.rows or 20_000) / (1 - TEST_SHARE))
    # with few rows few outputs, whose optimum can be certified in seconds
    n_features, n_tasks = (256, 50) if (spec.rows or 20_000) > 5_000 else (32, 12)
    return datasets.make_low_rank_tasks(
        rows, n_features, n_tasks, rank=5, response="classes", signal=8.0
    )


def _shipped(name: str, spec: DataSpec, task: str = "binary") -> Dataset:
    from sklearn import datasets as shipped

    if name == "digits":
        X, y = shipped.load_digits(return_X_y=True)
        y = np.where(y % 2 == 0, 1.0, -1.0) if task == "binary" else y.astype(np.int64)
        return Dataset(name, X, y, grid=(8, 8))
    X, y = shipped.load_breast_cancer(return_X_y=True)
    return Dataset(name, X, np.where(y == 1, 1.0, -1.0))


_digits = partial(_shipped, "digits", task="classes")
RECIPES = {
    "protein": Recipe(
        partial(_file, "protein"), "protein", partial(_shipped, "breast cancer"),
        "scikit-learn's breast cancer data", "72,876 + 72,875 x 74, called a9a",
    ),
    "a9a": Recipe(
        partial(_file, "a9a"), "a9a", partial(_fused, 6000, 123), "a generated set", "",
    ),
    "covertype": Recipe(
        partial(_file, "covtype", split=True), "covtype", partial(_fused, 20_000, 54),
        "a generated set", "290,506 + 290,506 x 54",
    ),
    "mnist": Recipe(
        partial(_file, "mnist", task="even-odd"), "mnist", partial(_shipped, "digits"),
        "scikit-learn's digits", "60,000 + 10,000 x 784",
    ),
    "dna": Recipe(_dna, paper="2,400,000 + 600,000 x 800"),
    "dna-methylation": Recipe(
        partial(_file, "dna-methylation"), "dna-methylation", _dna, "generated sequences",
    ),
    "dna-statlog": Recipe(
        partial(_file, "dna-statlog"), "dna-statlog", _digits, "scikit-learn's digits"
    ),
    "usps": Recipe(partial(_file, "usps"), "usps", _digits, "scikit-learn's digits"),
    "coil20": Recipe(partial(_file, "coil20"), "coil20", _digits, "scikit-learn's digits"),
    "clinc150": Recipe(
        partial(_file, "clinc150", max_features=1000), "clinc150", _classes, "a generated set",
    ),
    "school": Recipe(partial(_file, "school"), "school", _classes, "a generated set"),
    "digits": Recipe(_digits),
    "many-classes": Recipe(_classes, paper="1,281,167 + 50,000 x 4,096, 1,000 classes: ImageNet"),
    "generated": Recipe(partial(_fused, 2000, 20)),
}  # fmt: skip
